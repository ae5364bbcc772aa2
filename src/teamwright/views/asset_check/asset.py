"""One asset as a person reads of it: what it is, where it stands, what becomes of it, and why.

Also reads the places out of our own messages, which say them in words. Knows no file format.
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
"""What assets are, in the order in which they are shown."""

_PLACED = re.compile(r"(/.+?)(?::(\d+))?: (?:left out: )?(.*)", re.DOTALL)
_IN_WORDS = re.compile(r"line \d+(?:, column \d+)?: ")
_LEAST = re.compile(
    r"not used|left out|leads out|not supported|no effect|goes before|only the first|not a field|is none of"
)


@dataclass(frozen=True, slots=True)
class Asset:
    """`file` is absolute; `line` from 1 on, 0 where it has none. `why` says what is to be known, empty if nothing."""

    group: str
    name: str
    state: State
    file: str
    line: int = 0
    why: str = ""


def parse_location(text: str, file: str = "") -> tuple[str, int, str]:
    """File, line and words of a message of ours: `FILE:4: what`, `FILE: left out: what`, `line 4: what`."""
    found = _PLACED.fullmatch(text)
    if found is not None and (not file or found[1] == file):
        return found[1], int(found[2] or 0) or line_in(found[3]), _IN_WORDS.sub("", found[3])
    return file, line_in(text), _IN_WORDS.sub("", text)


def remark_state(what: str) -> State:
    """What a remark about something that is used comes to: a part of it is ignored, or it is only odd."""
    return "ignored" if _LEAST.search(what) else "used"


def display_path(path: str | Path, cwd: Path) -> str:
    """A path as people read it: below the directory, below `~`, else whole."""
    place = Path(path)
    if place.is_relative_to(cwd):
        return str(place.relative_to(cwd))
    home = os.path.expanduser("~")  # stays as it is for a user without one
    return f"~/{place.relative_to(home)}" if place.is_relative_to(home) else str(place)
