"""Settings files: JSON read and checked against one table of keys, each value with the place it came from.

Reads and checks only; which layer may say what, and which value wins, is decided in `merging`. An unknown key is
a warning, a wrong type an error with file and line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, cast

from teamwright.app.settings.keys import KEYS, NEVER_USED, NOT_USED_YET, TOPS
from teamwright.app.settings.positions import positions
from teamwright.protocol.errors import CannotStart
from teamwright.protocol.ids import nearest
from teamwright.protocol.values import dataclass
from teamwright.storage.plain import read_plain

MAX_BYTES = 1_000_000

TWICE_MOST = 20
"""Keys of one file that stand there twice and are told."""


class Origin(Enum):
    """Whose words a file holds. The later one is nearer and wins where only one value can hold."""

    COMPAT_USER = "the user's, of the other product"
    USER = "the user's"
    COMPAT_SHARED = "the repository's, of the other product"
    COMPAT_LOCAL = "the checkout's, of the other product"
    SHARED = "the repository's"
    LOCAL = "the checkout's"
    GIVEN = "given with --settings"

    @property
    def of_repository(self) -> bool:
        """Whether it lies in the repository, so that it may be somebody else's."""
        return self in {Origin.COMPAT_SHARED, Origin.COMPAT_LOCAL, Origin.SHARED, Origin.LOCAL}

    @property
    def compat(self) -> bool:
        """Whether it is a file of the other product."""
        return self in {Origin.COMPAT_USER, Origin.COMPAT_SHARED, Origin.COMPAT_LOCAL}

    @property
    def by_user(self) -> bool:
        """Whether a person wrote it for themselves, once it is trusted."""
        return self not in {Origin.COMPAT_SHARED, Origin.SHARED}


@dataclass(frozen=True, slots=True)
class Remark:
    """What is to be said of a key that has no effect, or not the one that it seems to have."""

    name: str
    what: str


@dataclass(frozen=True, slots=True)
class Layer:
    """One file: its known values by key, remarks about the others, and the raw object for whoever looks for more.

    `text` is the file as it was read: positions are found in it.
    """

    path: Path
    origin: Origin
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    remarks: tuple[Remark, ...] = ()
    raw: Mapping[str, Any] = field(default_factory=dict[str, Any])
    text: str = field(default="", repr=False)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The remarks as lines for people."""
        return tuple(f"{self.path}: {remark.name} {remark.what}" for remark in self.remarks)


def read_layer(path: Path, origin: Origin) -> Layer | None:
    """The file's values, or None when there is none. Raises CannotStart (`bad-settings`) with file and position."""
    text = _text(path)
    return None if text is None else layer_of(path, origin, text)


def layer_of(path: Path, origin: Origin, text: str) -> Layer:
    """What a file with this text says. Raises CannotStart (`bad-settings`) with file and position."""
    twice: list[str] = []
    try:
        read: Any = json.loads(text, object_pairs_hook=partial(_once, twice)) if text.strip() else {}
    except RecursionError:
        raise bad_settings(path, "it is nested too deeply") from None
    except json.JSONDecodeError as problem:
        raise bad_settings(path, problem.msg.lower(), f"line {problem.lineno}, column {problem.colno}") from None
    if not isinstance(read, dict):
        raise bad_settings(path, "it is not a JSON object", "line 1")
    raw = cast("dict[str, Any]", read)
    values: dict[str, Any] = {}
    remarks = [Remark(name[:80], "stands there twice; only the last one holds") for name in twice[:TWICE_MOST]]
    for name, value in _flat(raw, path, text):
        if name in KEYS:
            values[name] = _checked(name, value, path, text)
        else:
            remarks += _unknown(name, origin)
    return Layer(path, origin, values, tuple(remarks), raw, text)


def _once(twice: list[str], pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of its pairs; names that stand there again go into `twice`."""
    made: dict[str, Any] = {}
    for name, value in pairs:
        if name in made:
            twice.append(name)
        made[name] = value
    return made


def bad_settings(path: Path, what: str, where: str = "") -> CannotStart:
    """The error of a settings file that cannot be used."""
    looked_at = [("file", str(path)), *([("at", where)] if where else [])]
    do = ["correct the file, or move it away"]
    return CannotStart("bad-settings", f"a settings file cannot be read: {what}", looked_at=looked_at, do=do)


def line_of(text: str, name: str) -> str:
    """Where a key stands in its file, for errors."""
    line = positions(text).line(*name.split("."))
    return f"line {line}, {name}" if line else name


def _text(path: Path) -> str | None:
    try:
        content = read_plain(path, MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as problem:
        raise bad_settings(path, problem.strerror or "it cannot be opened") from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise bad_settings(path, "it is not UTF-8", f"byte {problem.start}") from None


def _flat(raw: Mapping[str, Any], path: Path, text: str, above: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for part, value in raw.items():
        name = f"{above}{part}"
        if name not in TOPS:
            found.append((name, value))
        elif isinstance(value, dict):
            found += _flat(cast("dict[str, Any]", value), path, text, f"{name}.")
        else:
            raise bad_settings(path, f"{name} is not an object", line_of(text, name))
    return found


def _unknown(name: str, origin: Origin) -> list[Remark]:
    if name == "$schema" or name.startswith("//"):
        return []
    if name in NEVER_USED:
        return [Remark(name, "is never used: a key is given by its variable only")]
    if name in NOT_USED_YET:
        return [Remark(name, "is not used yet")]
    if origin.compat:
        return [Remark(name, "is not used")]
    near = nearest(name, KEYS)
    return [Remark(name, "is not a setting" + (f"; did you mean {near}?" if near else ""))]


def _checked(name: str, value: Any, path: Path, text: str) -> Any:
    key = KEYS[name]
    if key.fits(value):
        return value
    raise bad_settings(path, f"{name} must be {key.expected}", line_of(text, name))
