"""Settings files: JSON read and checked against the table of keys, with positions for errors, and the files to write.

An unknown key is a warning, a wrong type an error with file and line. `merge` decides which file may set a key and
which value is used. Positions are computed on demand, so that sessions do not pay for them.
"""

from __future__ import annotations

import json
import os
import re
from bisect import bisect_right
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, cast

from msgspec import Struct, field

from teamwright.config.settings.keys import (
    NEVER_USED,
    NOT_USED_YET,
    RENAMED_KEYS,
    RENAMED_VALUES,
    SettingKey,
    key_groups,
    setting_keys,
)
from teamwright.protocol.errors import CannotStart, TeamRefused
from teamwright.protocol.ids import is_label, is_typo, nearest
from teamwright.protocol.secret_texts import is_secret_name
from teamwright.storage.files import read_plain, storage_error, write_atomic
from teamwright.storage.paths import Home

MAX_BYTES = 1_000_000

_NAMED = 2
"""Keys of a file of the other product that are named in the line about those without effect; the others are counted."""

MAX_REPEATED = 20
"""Repeated keys of one file that are reported."""


class SettingsOrigin(Enum):
    """The author of a file. Of two files with a single value for a key, the later one is used."""

    COMPAT_USER = "the user's, of the other product"
    USER = "the user's"
    COMPAT_SHARED = "the repository's, of the other product"
    COMPAT_LOCAL = "the checkout's, of the other product"
    SHARED = "the repository's"
    LOCAL = "the checkout's"
    GIVEN = "given with --settings"

    @property
    def of_repository(self) -> bool:
        """True for a file of the repository, whose author may be another person."""
        return self in {
            SettingsOrigin.COMPAT_SHARED,
            SettingsOrigin.COMPAT_LOCAL,
            SettingsOrigin.SHARED,
            SettingsOrigin.LOCAL,
        }

    @property
    def compat(self) -> bool:
        """True for a file of the other product."""
        return self in {SettingsOrigin.COMPAT_USER, SettingsOrigin.COMPAT_SHARED, SettingsOrigin.COMPAT_LOCAL}

    @property
    def source(self) -> str:
        """The name of the file's source in `--setting-sources`; empty for the file of a flag."""
        names = {"USER": "user", "SHARED": "project", "LOCAL": "local"}
        return names.get(self.name.removeprefix("COMPAT_"), "")

    @property
    def by_user(self) -> bool:
        """True for a file that, once trusted, counts as written by this user."""
        return self not in {SettingsOrigin.COMPAT_SHARED, SettingsOrigin.SHARED}


class SettingRemark(Struct, frozen=True):
    """A remark about one key of a file.

    `usual`: a key of the other product without an effect here, as users expect. `used`: the value is used all the same.
    """

    name: str
    what: str
    usual: bool = False
    used: bool = False


class SettingsLayer(Struct, frozen=True):
    """One file: its known values by key, remarks about the others, and the whole object as it was read.

    `text` is the text of the file, in which positions are found.
    """

    path: Path
    origin: SettingsOrigin
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    remarks: tuple[SettingRemark, ...] = ()
    raw: Mapping[str, Any] = field(default_factory=dict[str, Any])
    text: str = ""

    @property
    def warnings(self) -> tuple[str, ...]:
        """The remarks as lines for people. The usual remarks about a file of the other product are one line."""
        lines = [f"{self.path}: {remark.name} {remark.what}" for remark in self.remarks if not remark.usual]
        usual = [remark.name for remark in self.remarks if remark.usual]
        usual += [name for name in self.values.get("env", ()) if self.origin.compat and is_other_product_variable(name)]
        if len(usual) > _NAMED + 1:
            usual[_NAMED:] = [f"{len(usual) - _NAMED} others"]
        if usual:
            names = " and ".join(part for part in (", ".join(usual[:-1]), usual[-1]) if part)
            has = "has" if len(usual) == 1 else "have"
            lines.append(f"{self.path}: {names} {has} no effect here; teamwright check says why")
        return tuple(lines)


def read_layer(path: Path, origin: SettingsOrigin) -> SettingsLayer | None:
    """Return the layer of a file, or None when there is no file.

    Raises CannotStart (`bad-settings`) with file and position.
    """
    text = _text(path)
    return None if text is None else parse_layer(path, origin, text)


def read_given_layer(source: Path | str) -> SettingsLayer | None:
    """Return the layer of `--settings`: of a file, or of JSON text (`str`). None when there is no such file.

    Raises CannotStart (`bad-settings`) with the position.
    """
    if isinstance(source, str):
        return parse_layer(Path("--settings"), SettingsOrigin.GIVEN, source)
    return read_layer(source, SettingsOrigin.GIVEN)


def parse_layer(path: Path, origin: SettingsOrigin, text: str) -> SettingsLayer:
    """Return the layer of a file with this text. Raises CannotStart (`bad-settings`) with file and position."""
    twice: list[str] = []
    try:
        read: Any = json.loads(text, object_pairs_hook=partial(_once, twice)) if text.strip() else {}
    except RecursionError:
        raise bad_settings(path, "it is nested too deeply") from None
    except json.JSONDecodeError as problem:
        raise bad_settings(
            path, explain_json_error(problem), f"line {problem.lineno}, column {problem.colno}"
        ) from None
    if not isinstance(read, dict):
        raise bad_settings(path, "it is not a JSON object", "line 1")
    raw = cast("dict[str, Any]", read)
    values: dict[str, Any] = {}
    remarks = [SettingRemark(name[:80], "occurs twice; only the last one is used") for name in twice[:MAX_REPEATED]]
    pairs = _flat(raw, path, text)
    new_names = {name for name, _ in pairs}
    keys: Mapping[str, SettingKey] = setting_keys() if pairs else {}
    for name, value in pairs:
        new = RENAMED_KEYS.get(name)
        if name in keys:
            values[name] = _checked(keys[name], name, value, path, text)
        elif new in new_names:
            remarks.append(SettingRemark(name, f"is not used: it is the old name of {new}, which the file also has"))
        elif new is not None:
            if isinstance(value, bool):
                value = RENAMED_VALUES.get(name, {}).get(value, value)
            values[new] = _checked(keys[new], name, value, path, text)
            remarks.append(SettingRemark(name, f"is called {new} now: rename it", used=True))
        else:
            remarks += _unknown(name, origin)
    return SettingsLayer(path, origin, values, tuple(remarks), raw, text)


def _once(twice: list[str], pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object with these pairs; repeated names are added to `twice`."""
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields:
            twice.append(name)
        fields[name] = value
    return fields


def bad_settings(path: Path, what: str, where: str = "") -> CannotStart:
    """Return the error of a settings file that cannot be used."""
    looked_at = [("file", str(path)), *([("at", where)] if where else [])]
    do = ["correct the file, or move it away"]
    return CannotStart("bad-settings", f"a settings file cannot be read: {what}", looked_at=looked_at, do=do)


def line_of(text: str, name: str) -> str:
    """Return the line and name of a key, for errors."""
    line = find_positions(text).line(*name.split("."))
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
        if name not in key_groups():
            found.append((name, value))
        elif isinstance(value, dict):
            found += _flat(cast("dict[str, Any]", value), path, text, f"{name}.")
        else:
            raise bad_settings(path, f"{name} is not an object", line_of(text, name))
    return found


def _unknown(name: str, origin: SettingsOrigin) -> list[SettingRemark]:
    if is_label(name.rpartition(".")[2]):
        return []
    if name in NEVER_USED:
        return [SettingRemark(name, "is never used: a key is given by its variable only")]
    if name in NOT_USED_YET:
        return [SettingRemark(name, "is not used yet", origin.compat)]
    if origin.compat:
        suggestion = next((known for known in (*setting_keys(), *key_groups()) if is_typo(name, known)), None)
        return [
            SettingRemark(
                name,
                f"is not used; did you mean {suggestion}?" if suggestion else "is not used",
                usual=suggestion is None,
            )
        ]
    near = nearest(name, setting_keys())
    return [SettingRemark(name, "is not a setting" + (f"; did you mean {near}?" if near else ""))]


def _checked(key: SettingKey, name: str, value: Any, path: Path, text: str) -> Any:
    if key.fits(value):
        return value
    raise bad_settings(path, f"{name} must be {key.expected}", line_of(text, name))


_ENDPOINT = re.compile(
    r"BASE_?URL|ENDPOINT|(^|_)(URL|URI|HOST|PROXY)$|^(ANTHROPIC|CLAUDE|TEAMWRIGHT|OPENAI|OPENROUTER|OLLAMA|AWS|AZURE)_"
    r"|^(GOOGLE|GEMINI|VERTEX|BEDROCK)_|^(SSL_CERT|REQUESTS_CA|CURL_CA|NODE_EXTRA_CA|NODE_TLS)|^(HOME|USERPROFILE)$|^XDG_"
    # Variables that a shell reads at its start, or takes for a function.
    r"|^(BASH_ENV|ENV|ZDOTDIR|FPATH|SHELL|SHELLOPTS|BASHOPTS|PROMPT_COMMAND|PS[0-4])$|^BASH_FUNC_",
    re.IGNORECASE,
)


def is_other_product_variable(name: str) -> bool:
    """Return True when the variable is a setting of the other product, without effect here."""
    return name.startswith("CLAUDE_")


def is_user_only_variable(name: str) -> bool:
    """Return True when only a person's own settings may set a variable of this name."""
    from teamwright.processes.program_environment import moves_git  # not for each command that reads a setting

    return is_secret_name(name) or _ENDPOINT.search(name) is not None or moves_git(name)


class SettingsFiles(Struct, frozen=True):
    """The settings directories: the user's under this home, a repository's under `root`."""

    home: Home
    root: Path

    def file_of(self, destination: str) -> tuple[Path, SettingsOrigin]:
        """Return the file of a permanent destination, and its origin."""
        ours = self.root / ".teamwright"
        if destination == "userSettings":
            return self.home.settings, SettingsOrigin.USER
        if destination == "projectSettings":
            return ours / "settings.json", SettingsOrigin.SHARED
        return ours / "settings.local.json", SettingsOrigin.LOCAL


def write_settings(root: Path, path: Path, origin: SettingsOrigin, content: Mapping[str, Any]) -> None:
    """Write a file whole, as JSON with two spaces. Raises StorageError; the file is unchanged then."""
    mode = _mode_of(path)
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    write_atomic(path, text.encode("utf-8", "surrogatepass"))
    if origin is SettingsOrigin.SHARED:
        with suppress(OSError):
            os.chmod(path, mode)  # everyone who works on the repository shares the file
    if origin is SettingsOrigin.LOCAL:
        exclude_from_git(root, path)


def exclude_from_git(root: Path, path: Path) -> None:
    """Exclude the file from git, without a change to any tracked file. Raises StorageError."""
    from teamwright.git.repository import discover  # for writers alone

    found = discover(root)
    repository = found.repository
    if repository is None or found.doubts or not path.is_relative_to(repository.tree):
        return
    line = os.fsencode(f"/{path.relative_to(repository.tree)}")
    listed = repository.common / "info" / "exclude"
    try:
        before = read_plain(listed) if os.path.lexists(listed) else b""
        if line in before.split(b"\n"):
            return
        listed.parent.mkdir(exist_ok=True)
        with listed.open("ab") as file:
            file.write((b"" if before.endswith(b"\n") or not before else b"\n") + line + b"\n")
    except OSError as problem:
        raise storage_error(problem, listed) from problem


def require_inside(root: Path, path: Path) -> None:
    """Raise TeamRefused when a link of the repository would redirect the write to another directory."""
    place = path.parent
    if os.path.realpath(place) != os.path.join(os.path.realpath(root), place.name) or path.is_symlink():
        what = f"{place} leads out of the repository"
        raise TeamRefused(
            "team-refused", what, looked_at=[("really", os.path.realpath(path))], note="nothing was saved"
        )


def _mode_of(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_mode & 0o777
    return 0o644


def user_setting(home: Home, key: str) -> object:
    """Return the value of a key with dots between its parts; None when the file does not have it."""
    *groups, name = key.split(".")
    try:
        content = home.settings.read_bytes()
        if f'"{name}"'.encode() not in content:
            return None
        value: Any = json.loads(content)
        for part in (*groups, name):
            value = cast("dict[str, Any]", value).get(part)
    except (OSError, ValueError, AttributeError, RecursionError):
        return None
    return value


At: TypeAlias = tuple[str | int, ...]
"""The path to a value from the top: keys of objects and indexes of lists."""


DEEPEST = 12
"""Levels that are searched; a deeper value has the position of its twelfth level."""


_BLANK = re.compile(r"[ \t\n\r]*")


_DECODER = json.JSONDecoder()


def explain_json_error(problem: json.JSONDecodeError) -> str:
    """Describe an error in a JSON text; comments and trailing commas are named as such."""
    after = problem.doc[problem.pos :].lstrip()
    before = problem.doc[: problem.pos].rstrip()
    if after.startswith(("//", "/*", "#")):
        return "there is a comment, and JSON has none"
    if (after[:1] and after[0] in "]}" and before.endswith(",")) or re.match(r",\s*[\]}]", after):
        return f"there is a comma too many, before {after.lstrip(', ')[:1].strip() or 'the end'}"
    return problem.msg.lower() if after else "it ends too early"


class JsonPositions(Struct, frozen=True):
    """Lines from 1 on. `twice` are duplicate keys, of which only the last is used, at the line of an earlier one."""

    lines: Mapping[At, int] = field(default_factory=dict[At, int])
    twice: tuple[tuple[At, int], ...] = ()

    def line(self, *at: str | int) -> int:
        """Return the line of a value, else of the nearest enclosing value; 0 when nothing is known."""
        while at not in self.lines and at:
            at = at[:-1]
        return self.lines.get(at, 0)


def find_positions(text: str) -> JsonPositions:
    """Return the positions in a JSON text; none for any other text."""
    walk = _Walk(text)
    try:
        if not walk.whole():
            return JsonPositions()
    except (ValueError, IndexError, RecursionError):
        return JsonPositions()
    return JsonPositions(walk.lines, tuple(walk.twice))


class _Walk:
    def __init__(self, text: str) -> None:
        self.text = text
        self.lines: dict[At, int] = {}
        self.twice: list[tuple[At, int]] = []
        self._ends = [found.start() for found in re.finditer("\n", text)]

    def whole(self) -> bool:
        """Record all positions. Returns True when the text is one value and nothing else."""
        return self._skip(self.value(0, ())) == len(self.text)

    def value(self, at: int, way: At) -> int:
        """Record the value that begins here and its parts. Returns the end of the value."""
        at = self._skip(at)
        self.lines.setdefault(way, self._line(at))
        if len(way) >= DEEPEST or self.text[at] not in "{[":
            return self._scalar(at)[1]
        return self._object(at, way) if self.text[at] == "{" else self._list(at, way)

    def _object(self, at: int, way: At) -> int:
        at = self._skip(at + 1)
        seen = set[str]()
        while self.text[at] != "}":
            name, end = self._scalar(at)
            here = (*way, str(name))
            if name in seen:
                self.twice.append((here, self.lines[here]))
            seen.add(name)
            self.lines[here] = self._line(at)
            at = self._skip(self.value(self._skip(end) + 1, here))
            at = self._skip(at + 1) if self.text[at] == "," else at
        return at + 1

    def _list(self, at: int, way: At) -> int:
        at = self._skip(at + 1)
        count = 0
        while self.text[at] != "]":
            self.lines[(*way, count)] = self._line(at)
            at = self._skip(self.value(at, (*way, count)))
            count += 1
            at = self._skip(at + 1) if self.text[at] == "," else at
        return at + 1

    def _scalar(self, at: int) -> tuple[Any, int]:
        return _DECODER.raw_decode(self.text, at)

    def _skip(self, at: int) -> int:
        found = _BLANK.match(self.text, at)
        return found.end() if found is not None else at

    def _line(self, at: int) -> int:
        return bisect_right(self._ends, at - 1) + 1
