"""The parts that a merge of settings read, and the state of each, for commands that list or check settings.

A part is one value of one file: a rule, a variable, a hook, a server, or a key with a single value.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

from teamwright.config.settings.files import At, JsonPositions, SettingsLayer, SettingsOrigin, find_positions
from teamwright.protocol.errors import CannotStart, TeamwrightError

State: TypeAlias = Literal["used", "ignored", "needs trust", "broken"]

WHOLE = ""
"""The key of a part that represents its whole file."""

_LINE = re.compile(r"\bline (\d+)")


class SettingPart(Struct):
    """One part. `name` tells apart the parts of a key with several; `why` says why it is not used.

    `at` is its path in the file; `known_line` is for a file that could not be read.
    """

    layer: SettingsLayer
    key: str
    name: str = ""
    value: Any = None
    state: State = "used"
    why: str = ""
    at: At = ()
    known_line: int = 0

    @property
    def path(self) -> Path:
        """The file of the part."""
        return self.layer.path

    @property
    def line(self) -> int:
        """Its line in the file, from 1 on; 0 when unknown."""
        return self.known_line or positions_of(self.layer).line(*self.at)

    def set_state(self, state: State, why: str = "") -> None:
        """Record that the part is not used, and why."""
        self.state = state
        self.why = why


class SettingParts(Struct):
    """A collector of the parts of one merge. `tolerant`: an unusable part is recorded, and reading continues."""

    tolerant: bool = False
    found: list[SettingPart] = field(default_factory=list[SettingPart])
    layers: list[SettingsLayer] = field(default_factory=list[SettingsLayer])

    def begin(self, layer: SettingsLayer) -> None:
        """Begin the parts of this file."""
        self.layers.append(layer)

    def add(self, layer: SettingsLayer, key: str, name: str = "", value: Any = None, at: At = ()) -> SettingPart:
        """Add a part, which counts as used until its state changes. `at` is its path below its key."""
        self.found.append(SettingPart(layer, key, name, value, at=(*key.split("."), *at)))
        return self.last

    @property
    def last(self) -> SettingPart:
        """The newest part."""
        return self.found[-1]

    def refuse(self, problem: CannotStart) -> None:
        """Record that the newest part cannot be used. Raises the problem unless the collector is tolerant."""
        if not self.tolerant:
            raise problem
        self.last.set_state("broken", reason(problem))

    def unreadable(self, path: Path, origin: SettingsOrigin, problem: TeamwrightError) -> None:
        """Record that a whole file cannot be used."""
        line = line_in(dict(problem.looked_at).get("at", ""))
        self.broken_file(SettingsLayer(path, origin), reason(problem), line)

    def broken_file(self, layer: SettingsLayer, why: str, line: int = 0) -> None:
        """Record that a whole file of another type cannot be used."""
        self.found.append(SettingPart(layer, WHOLE, state="broken", why=why, known_line=line or line_in(why)))

    def settled(self, several: Collection[str]) -> list[SettingPart]:
        """Return all parts; of a key with one value only the last is used. `several` are keys whose parts add up."""
        holds: dict[tuple[str, str], Path] = {}
        for part in reversed(self.found):
            where = (part.key, part.name)
            if part.state != "used" or part.key == WHOLE or part.key in several:
                continue
            if where in holds:
                part.set_state("ignored", f"{holds[where]} is nearer")
            holds.setdefault(where, part.path)
        return self.found


def reason(problem: TeamwrightError) -> str:
    """Return the problem of a file, without the phrase that names it a settings file."""
    place = dict(problem.looked_at).get("at", "")
    what = problem.what.removeprefix("a settings file cannot be read: ")
    return f"{what} ({place})" if place.startswith("line") and "column" in place else what


def line_in(text: str) -> int:
    """Return the line that one of our messages names; 0 when it names none."""
    found = _LINE.search(text)
    return int(found[1]) if found is not None else 0


def positions_of(layer: SettingsLayer) -> JsonPositions:
    """Return the positions of everything in a file."""
    return _positions(layer.text)


@lru_cache(8)
def _positions(text: str) -> JsonPositions:
    return find_positions(text)
