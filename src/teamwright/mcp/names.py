"""What a tool of a server is called among ours: `mcp__<server>__<tool>`.

A server's part never holds two underscores in a row and never ends in one, so that a rule about a server can mean no
other. Knows no server.
"""

from __future__ import annotations

import re

PREFIX = "mcp__"

LONGEST = 64
"""Letters of a tool's name that services of models take."""

_STRANGE = re.compile(r"[^A-Za-z0-9_-]")
_RUNS = re.compile(r"_{2,}")


def server_key(name: str) -> str:
    """A server's name as it stands in names of tools; empty when nothing of it can."""
    return _RUNS.sub("_", _STRANGE.sub("_", name)).strip("_")


def tool_name(key: str, tool: str) -> str:
    """The full name of a server's tool; longer than LONGEST it cannot be offered to a model."""
    return f"{PREFIX}{key}__{_STRANGE.sub('_', tool)}"


def key_of(name: str) -> str:
    """The server's part of a full name; empty for a name that is none."""
    if not name.startswith(PREFIX):
        return ""
    key, between, tool = name.removeprefix(PREFIX).partition("__")
    return key if between and tool else ""
