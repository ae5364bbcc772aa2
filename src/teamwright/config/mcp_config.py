"""The MCP servers of a session, from settings and flags, with variables filled in.

An unusable entry of settings becomes a warning; one of a flag is an error. No server is started here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from teamwright.config.mcp_settings import McpSettings
from teamwright.config.project_mcp import MAX_BYTES, SERVERS
from teamwright.mcp.server_config import ConfigSource, ServerConfig, parse_servers
from teamwright.protocol.errors import UsageError
from teamwright.storage.read_bounded import read_plain

FLAG = "--mcp-config"
PROJECT_DIRECTORY = ("CLAUDE_PROJECT_DIR", "TEAMWRIGHT_PROJECT_DIR")
"""Variables for the root of the repository: entries may name them, and servers have them."""


def configured_servers(
    settings: McpSettings, given: Sequence[str], cwd: Path, variables: Mapping[str, str], withheld: frozenset[str]
) -> tuple[list[ServerConfig], list[str]]:
    """Return the servers by rank, those of a flag first, and lines about entries that are left out.

    `withheld` are variables that no repository's entry receives. Raises UsageError for an unreadable flag.
    """
    found: dict[str, ServerConfig] = {}
    warnings: list[str] = []
    for text in given:
        entries, source = _given(text, cwd)
        made, problems = parse_servers(entries, ConfigSource(source, cwd, variables))
        if problems and len(made) < len(entries):
            raise _bad(text, problems[0].partition(": ")[2])
        warnings += problems
        found |= {config.name: config for config in made}
    for said in reversed(settings.servers):
        if said.name in found:
            continue
        reading = reading_of(said.source, said.root, cwd, variables, withheld if said.foreign else None)
        made, problems = parse_servers({said.name: said.entry}, reading)
        warnings += problems
        found |= {config.name: config for config in made}
    return list(found.values()), warnings


def reading_of(
    source: str, root: Path, cwd: Path, variables: Mapping[str, str], withheld: frozenset[str] | None
) -> ConfigSource:
    """Return the rules for reading an entry of a settings file; `withheld` is None for a person's own entry.

    A repository's server runs at the root of the repository, in any session's directory: trust covers the files as
    named from there.
    """
    own = {**variables, **{name: str(root) for name in PROJECT_DIRECTORY}}
    return (
        ConfigSource(source, cwd, own)
        if withheld is None
        else ConfigSource(source, root, own, withheld, is_confined=True)
    )


def _given(text: str, cwd: Path) -> tuple[Mapping[str, Any], str]:
    """Return the entries of a flag's value, which is JSON or the name of a JSON file."""
    source, content = FLAG, text
    if not text.lstrip().startswith("{"):
        path = cwd / os.path.expanduser(text)
        try:
            content = read_plain(path, MAX_BYTES).decode("utf-8-sig")
        except (OSError, ValueError) as problem:
            why = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8"
            raise _bad(text, f"the file cannot be read: {why}") from None
        source = str(path)
    try:
        read: Any = json.loads(content)
    except (ValueError, RecursionError) as problem:
        raise _bad(text, f"it is not JSON: {str(problem)[:100]}") from None
    servers: Any = cast("dict[str, Any]", read).get(SERVERS) if isinstance(read, dict) else None
    if not isinstance(servers, dict):
        raise _bad(text, f"it has no {SERVERS}")
    return cast("Mapping[str, Any]", servers), source


def _bad(text: str, why: str) -> UsageError:
    shown = text if not text.lstrip().startswith("{") else "JSON"
    do = ['--mcp-config \'{"mcpServers": {"name": {"command": "…", "args": []}}}\'', "--mcp-config FILE"]
    return UsageError("usage", f"{FLAG}: {why}", looked_at=[("given", shown)], do=do, note="nothing was started")
