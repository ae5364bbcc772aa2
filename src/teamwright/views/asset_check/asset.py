"""Assets: the files and entries that a run reads, with their location, state and the reason of the state.

Also parses locations in the project's own messages.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from teamwright.config.settings.setting_parts import State, line_in
from teamwright.protocol.values import dataclass

GROUPS = (
    "instructions",
    "settings",
    "agents",
    "skills",
    "commands",
    "hooks",
    "MCP servers",
    "team file",
    "plugins",
    "other files",
)
"""Groups of assets, in the order in which they are shown."""

_PLACED = re.compile(r"(/.+?)(?::(\d+))?: (?:left out: )?(.*)", re.DOTALL)
_IN_WORDS = re.compile(r"line \d+(?:, column \d+)?: ")
_LEAST = re.compile(
    r"not used|left out|leads out|not supported|no effect|goes before|only the first|not a field|is none of"
)


@dataclass(frozen=True, slots=True)
class Asset:
    """One asset. `file` is absolute; `line` counts from 1, 0 without a line. `why` is the reason of the state, or
    empty.
    """

    group: str
    name: str
    state: State
    file: str
    line: int = 0
    why: str = ""


def parse_location(text: str, file: str = "") -> tuple[str, int, str]:
    """Parse a message (`FILE:4: what`, `FILE: left out: what`, `line 4: what`) into file, line and text."""
    found = _PLACED.fullmatch(text)
    if found is not None and (not file or found[1] == file):
        return found[1], int(found[2] or 0) or line_in(found[3]), _IN_WORDS.sub("", found[3])
    return file, line_in(text), _IN_WORDS.sub("", text)


def remark_state(what: str) -> State:
    """Return the state for a remark about a used asset: `ignored` when a part has no effect, else `used`."""
    return "ignored" if _LEAST.search(what) else "used"


def display_path(path: str | Path, cwd: Path) -> str:
    """Return a path as shown to people: relative to the directory, below `~`, else absolute."""
    place = Path(path)
    if place.is_relative_to(cwd):
        return str(place.relative_to(cwd))
    home = os.path.expanduser("~")  # unchanged for a user without a home
    return f"~/{place.relative_to(home)}" if place.is_relative_to(home) else str(place)
