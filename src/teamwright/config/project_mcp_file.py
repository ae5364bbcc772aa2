"""The file `.mcp.json` of a repository, and the text of an `mcpServers` entry for the trust question.

It only reads: nothing is expanded, started or trusted here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, field

from teamwright.config.settings.files import explain_json_error
from teamwright.storage.files import read_plain

FILE = ".mcp.json"
SERVERS = "mcpServers"
MAX_BYTES = 1_000_000


class ProjectFile(Struct, frozen=True):
    """The repository's file as read: entries by name, and its problem; empty when there is none."""

    servers: Mapping[str, Any] = field(default_factory=dict[str, Any])
    problem: str = ""
    text: str = ""


def project_servers(root: Path) -> ProjectFile:
    """Return the content of `.mcp.json`; a missing file has none. Never raises."""
    try:
        text = read_plain(root / FILE, MAX_BYTES).decode("utf-8-sig")
        read: Any = json.loads(text)
    except (FileNotFoundError, NotADirectoryError):
        return ProjectFile()
    except json.JSONDecodeError as problem:
        return ProjectFile(problem=f"{explain_json_error(problem)} (line {problem.lineno}, column {problem.colno})")
    except (OSError, ValueError, RecursionError) as problem:
        return ProjectFile(problem=(problem.strerror if isinstance(problem, OSError) else "") or "it cannot be read")
    servers: Any = cast("dict[str, Any]", read).get(SERVERS) if isinstance(read, dict) else None
    if not isinstance(servers, dict):
        return ProjectFile(problem=f"it has no {SERVERS}", text=text)
    return ProjectFile(cast("Mapping[str, Any]", servers), text=text)


def command_of(entry: object) -> str:
    """Return every word of an entry that may name a program, as one line."""
    fields = cast("Mapping[str, Any]", entry) if isinstance(entry, dict) else dict[str, Any]()
    args: Any = fields.get("args")
    parts = [fields.get("command"), *(cast("list[Any]", args) if isinstance(args, list) else [])]
    return " ".join(part for part in parts if isinstance(part, str))


def describe_server(name: str, entry: object) -> str:
    """Describe an entry in full on one line, so that the person who trusts it has read all of it."""
    fields = cast("Mapping[str, Any]", entry) if isinstance(entry, dict) else dict[str, Any]()
    more = {key: value for key, value in fields.items() if key not in {"command", "args", "url", "type"}}
    what = command_of(fields) or str(fields.get("url", ""))
    line = f"{name}: {what}" + (f" {json.dumps(more, sort_keys=True, ensure_ascii=False)}" if more else "")
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(line.split()))
