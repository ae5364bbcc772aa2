"""The file `.mcp.json` of a repository, and how an entry of `mcpServers` is shown to whoever should trust it.

Reads; expands nothing, starts nothing, trusts nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from teamwright.storage.plain import read_plain

FILE = ".mcp.json"
SERVERS = "mcpServers"
MAX_BYTES = 1_000_000


def project_servers(root: Path) -> tuple[Mapping[str, Any], str]:
    """The entries of the repository's file by name, and what is wrong with the file; empty when nothing is."""
    try:
        read: Any = json.loads(read_plain(root / FILE, MAX_BYTES))
    except (FileNotFoundError, NotADirectoryError):
        return {}, ""
    except json.JSONDecodeError as problem:
        return {}, f"{problem.msg.lower()}, line {problem.lineno}"
    except (OSError, ValueError, RecursionError) as problem:
        return {}, (problem.strerror if isinstance(problem, OSError) else "") or "it cannot be read"
    servers: Any = cast("dict[str, Any]", read).get(SERVERS) if isinstance(read, dict) else None
    return (cast("Mapping[str, Any]", servers), "") if isinstance(servers, dict) else ({}, f"it has no {SERVERS}")


def command_of(entry: object) -> str:
    """Everything of an entry that may name what runs, as one line of words."""
    said = cast("Mapping[str, Any]", entry) if isinstance(entry, dict) else dict[str, Any]()
    args: Any = said.get("args")
    parts = [said.get("command"), *(cast("list[Any]", args) if isinstance(args, list) else [])]
    return " ".join(part for part in parts if isinstance(part, str))


def shown(name: str, entry: object) -> str:
    """What an entry would do, whole and on one line: whoever trusts it has read it."""
    said = cast("Mapping[str, Any]", entry) if isinstance(entry, dict) else dict[str, Any]()
    more = {key: value for key, value in said.items() if key not in {"command", "args", "url", "type"}}
    what = command_of(said) or str(said.get("url", ""))
    told = f"{name}: {what}" + (f" {json.dumps(more, sort_keys=True, ensure_ascii=False)}" if more else "")
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(told.split()))
