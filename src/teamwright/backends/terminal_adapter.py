"""Terminal adapters: terminals described by settings as commands with placeholders; parsing, validation and filling in.

A command is a list of arguments, never a shell line. An adapter without proof that the closed pane is the opened one is
refused. No command is run here. The settings' page is docs/reference/backends.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, field

from teamwright.backends.choice import AUTO, REMOTE_BACKEND, TMUX
from teamwright.protocol.ids import did_you_mean
from teamwright.protocol.members import IN_PROCESS


@cache
def shipped_adapters() -> dict[str, TerminalAdapter]:
    """Return the shipped adapters by name, read once a process."""
    shipped = cast("dict[str, Any]", json.loads(Path(__file__).with_name("adapters.json").read_text("utf-8")))
    return parse_adapters(shipped["adapters"])


DETACHED = "detached"
_RESERVED_NAMES = (AUTO, IN_PROCESS, TMUX, DETACHED, REMOTE_BACKEND)

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([a-z]+)(?::([A-Za-z_][A-Za-z0-9_]*))?\}")
_ID = re.compile(r"(?!-)[^\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]{1,200}")
"""One printable line that no program takes for a flag."""

_LAUNCH_PLACEHOLDERS = frozenset({"name", "team", "session", "color", "mark", "env"})
_PANE_PLACEHOLDERS = _LAUNCH_PLACEHOLDERS | {"id", "pid", "tty"}
_COMMAND_PLACEHOLDERS: dict[str, frozenset[str]] = {
    "open": _LAUNCH_PLACEHOLDERS | {"argv", "command"},
    "open_beside": _LAUNCH_PLACEHOLDERS | {"argv", "command", "beside"},
    "start": _LAUNCH_PLACEHOLDERS | {"argv", "command", "id"},
    "alive": _PANE_PLACEHOLDERS,
    "close": _PANE_PLACEHOLDERS,
    "title": _LAUNCH_PLACEHOLDERS | {"id"},
    "hide": _PANE_PLACEHOLDERS,
    "show": _PANE_PLACEHOLDERS,
}
"""The commands of an adapter, and the allowed placeholders of each. `env` is `{env:NAME}`."""

_REQUIRED = ("open", "alive", "close")
_OTHER_KEYS = ("id", "where", "env", "needs", "takes", "start_s", "tried", "sources")
_LAST_LINE = "last-line"


class InvalidAdapter(Exception):
    """An unusable adapter: `key`, with dots, is the wrong entry; `what` says why; `do` what to change."""

    def __init__(self, key: str, what: str, do: str = "") -> None:
        super().__init__(what)
        self.key = key
        self.what = what
        self.do = do


class IdSource(Struct, frozen=True):
    """The source of a pane's id: `last-line`, `regex` and `json` of the output, or a `text` that we chose."""

    way: str = _LAST_LINE
    text: str = ""

    def read(self, output: str, values: Mapping[str, str]) -> str:
        """Return the id. Raises ValueError with the problem, for people."""
        found = self._find(output, values)
        if found is None:
            raise ValueError(f"its output names no id ({self}): {_excerpt(output)}")
        if not _ID.fullmatch(found.strip()):
            raise ValueError(f"its output names an id that is none: {_excerpt(found)}")
        return found.strip()

    def _find(self, output: str, values: Mapping[str, str]) -> str | None:
        match self.way:
            case "text":
                return fill(self.text, values)
            case "regex":
                match = re.search(self.text, output, re.MULTILINE)
                return match[1 if match.re.groups else 0] if match is not None else None
            case "json":
                return _json_value(output, self.text)
            case _:
                return next((line for line in reversed(output.splitlines()) if line.strip()), None)

    def __str__(self) -> str:
        return self.way if self.way == _LAST_LINE else f"{self.way} {self.text}"


class TerminalAdapter(Struct, frozen=True):
    """A backend of the settings. Commands are lists of arguments."""

    name: str
    open: tuple[str, ...]
    """Required: opens a pane, tab or window in which `{argv}` runs."""
    alive: tuple[str, ...]
    """Required: asks whether the pane exists; exit status 0 means yes."""
    close: tuple[str, ...]
    """Required: closes the pane."""
    open_beside: tuple[str, ...] = ()
    """The same beside another member's pane, `{beside}`; when it fails, `open` is used."""
    start: tuple[str, ...] = ()
    """Makes the opened pane run `{command}`, where `open` cannot."""
    title: tuple[str, ...] = ()
    """Sets the pane's title."""
    hide: tuple[str, ...] = ()
    """Hides the pane."""
    show: tuple[str, ...] = ()
    """Shows it again."""
    id: IdSource = field(default_factory=IdSource)
    """The source of the id: `"last-line"` of the output of `open` (default), `{"regex": …}` (its first group),
    `{"json": "0.pane.id"}`, or `{"text": …}` when the adapter chooses the id."""
    where: Mapping[str, str] = field(default_factory=dict[str, str])
    """`alive` prints JSON, and one object in it must have all of these values."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables for these commands."""
    needs: tuple[str, ...] = ()
    """Variables without which the adapter cannot be used; the commands get them."""
    takes: tuple[str, ...] = ()
    """Variables that the commands get when they are set."""
    start_s: float = 20.0
    """Seconds for each command, and for the start."""
    tried: str = ""
    """The terminal with which it was tested; empty for an untested adapter."""
    sources: tuple[str, ...] = ()

    @property
    def is_known_by_mark(self) -> bool:
        """True when its panes are identified by a mark even after the program has ended."""
        return "mark" in {slot for text in self._identifying_texts() for slot, _ in placeholders(text)}

    @property
    def programs(self) -> tuple[str, ...]:
        """The programs that it runs, without duplicates."""
        commands = (getattr(self, name) for name in _COMMAND_PLACEHOLDERS)
        return tuple(dict.fromkeys(command[0] for command in commands if command))

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that it needs: the required ones, and those that its commands name."""
        texts = (
            [text for name in _COMMAND_PLACEHOLDERS for text in getattr(self, name)]
            + list(self.where.values())
            + [self.id.text]
        )
        named = (name for text in texts for slot, name in placeholders(text) if slot == "env")
        return tuple(dict.fromkeys((*self.needs, *named)))

    def _identifying_texts(self) -> Iterator[str]:
        yield from (*self.alive, *self.close, *self.where.values())
        if self.id.way == "text":
            yield self.id.text

    def is_identified(self) -> bool:
        """Return True when a fact ties the closed pane to the opened one."""
        return bool(
            {"mark", "pid", "tty"} & {slot for text in self._identifying_texts() for slot, _ in placeholders(text)}
        )


def placeholders(text: str) -> list[tuple[str, str]]:
    """Return the placeholders of a text, each with the part after its colon."""
    return [(match[1], match[2] or "") for match in _PLACEHOLDER.finditer(text) if match[1]]


def fill(text: str, values: Mapping[str, str]) -> str:
    """Return the text with its placeholders replaced, once; `{{` and `}}` become braces. Raises KeyError for a missing
    one.
    """

    def value(match: re.Match[str]) -> str:
        if not match[1]:
            return match[0][0]
        return values[f"{match[1]}:{match[2]}" if match[2] else match[1]]

    return _PLACEHOLDER.sub(value, text)


def build_command(template: Sequence[str], values: Mapping[str, str], argv: Sequence[str] = ()) -> list[str]:
    """Return the arguments of one command. A word `{argv}` becomes all of `argv`."""
    return [word for text in template for word in (argv if text == "{argv}" else (fill(text, values),))]


def json_contains(output: str, conditions: Mapping[str, str]) -> bool:
    """Return True when an object in this JSON has all these values, compared as text. Raises ValueError for invalid
    JSON.
    """
    try:
        waiting: list[Any] = [json.loads(output)]
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            row = cast("dict[str, Any]", one)
            if all(key in row and _text(row[key]) == value for key, value in conditions.items()):
                return True
            waiting += row.values()
        elif isinstance(one, list):
            waiting += cast("list[Any]", one)
    return False


def parse_adapters(table: Mapping[str, Any]) -> dict[str, TerminalAdapter]:
    """Return the adapters of a table by name. Raises InvalidAdapter."""
    return {name: parse_adapter(name, value) for name, value in table.items()}


def parse_adapter(name: str, raw: Any) -> TerminalAdapter:
    """Parse one adapter from JSON. Raises InvalidAdapter with the key, `name` first."""
    if not _NAME.fullmatch(name) or name in _RESERVED_NAMES:
        why = (
            "is a backend already" if name in _RESERVED_NAMES else "is no name: small letters, digits, `-`, `_` and `.`"
        )
        raise InvalidAdapter(name, f"{name[:60]!r} {why}", "give it another name")
    if not isinstance(raw, dict):
        raise InvalidAdapter(name, "an adapter is an object", "see docs/reference/backends.md")
    row = {key: value for key, value in cast("dict[str, Any]", raw).items() if not key.startswith("//")}
    known = (*_COMMAND_PLACEHOLDERS, *_OTHER_KEYS)
    for key in row:
        if key not in known:
            hint = " ".join(did_you_mean(key, known))
            raise InvalidAdapter(f"{name}.{key}", "an adapter has no such key", hint)
    for key in _REQUIRED:
        if key not in row:
            raise InvalidAdapter(
                f"{name}.{key}", f"an adapter needs {key}, a list of arguments", "see docs/reference/backends.md"
            )
    commands = {key: _command(name, key, row[key]) for key in _COMMAND_PLACEHOLDERS if key in row}
    adapter = TerminalAdapter(
        name,
        **cast("Any", commands),
        id=_id(name, row.get("id", _LAST_LINE)),
        where={
            key: _checked_placeholders(f"{name}.where.{key}", text, _PANE_PLACEHOLDERS)
            for key, text in _texts(name, "where", row).items()
        },
        env=_texts(name, "env", row),
        needs=_names(name, "needs", row),
        takes=_names(name, "takes", row),
        start_s=_seconds(name, row.get("start_s", 20.0)),
        tried=str(row.get("tried", "")),
        sources=tuple(map(str, row.get("sources", ()))),
    )
    _require_complete(adapter)
    return adapter


def _require_complete(adapter: TerminalAdapter) -> None:
    starting = "start" if adapter.start else "open"
    for key in dict.fromkeys((starting, *(("open_beside",) if adapter.open_beside and not adapter.start else ()))):
        if not {"argv", "command"} & {slot for word in getattr(adapter, key) for slot, _ in placeholders(word)}:
            raise InvalidAdapter(
                f"{adapter.name}.{key}",
                "no argument names the program to start",
                "put the argument {argv} where the program goes",
            )
    if not adapter.is_identified():
        raise InvalidAdapter(
            f"{adapter.name}.close",
            "nothing identifies the opened terminal when it is closed",
            "use {mark}, {pid} or {tty} in alive, where or close",
        )


def _command(name: str, key: str, value: Any) -> tuple[str, ...]:
    where = f"{name}.{key}"
    if isinstance(value, str):
        raise InvalidAdapter(
            where, "a command is a list of arguments, not a line for a shell", f"{json.dumps(value.split())}"
        )
    if not isinstance(value, list) or not value or not all(isinstance(word, str) for word in cast("list[Any]", value)):
        raise InvalidAdapter(where, "a command is a list of texts, the program first", "see docs/reference/backends.md")
    words = [
        _checked_placeholders(f"{where}[{at}]", word, _COMMAND_PLACEHOLDERS[key])
        for at, word in enumerate(cast("list[str]", value))
    ]
    for at, word in enumerate(words):
        if word != "{argv}" and "argv" in {slot for slot, _ in placeholders(word)}:
            raise InvalidAdapter(f"{where}[{at}]", "{argv} expands to several arguments", "make it a separate argument")
    if not words[0] or placeholders(words[0]):
        raise InvalidAdapter(f"{where}[0]", "the first argument is a program, as it is", "write its name or its path")
    return tuple(words)


def _checked_placeholders(where: str, text: str, slots: frozenset[str]) -> str:
    if "\0" in text:
        raise InvalidAdapter(where, "an argument cannot hold a null byte")
    for slot, behind in placeholders(text):
        if slot not in slots or (slot == "env") != bool(behind):
            usable = ", ".join(f"{{{one}:NAME}}" if one == "env" else f"{{{one}}}" for one in sorted(slots))
            found = f"{{{slot}:{behind}}}" if behind else f"{{{slot}}}"
            raise InvalidAdapter(where, f"{found} means nothing here", f"use {usable}; write {{{{ for a brace")
    return text


def _id(name: str, value: Any) -> IdSource:
    where = f"{name}.id"
    if value == _LAST_LINE:
        return IdSource()
    row = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    way, text = next(iter(row.items()), ("", None))
    if len(row) != 1 or way not in {"regex", "json", "text"} or not isinstance(text, str) or not text:
        raise InvalidAdapter(
            where, "it is no way to know the id", 'use "last-line", {"regex": …}, {"json": …} or {"text": …}'
        )
    if way == "regex":
        try:
            re.compile(text)
        except re.error as problem:
            raise InvalidAdapter(f"{where}.regex", f"it is no regular expression: {problem}") from None
    return IdSource(way, _checked_placeholders(f"{where}.text", text, _LAUNCH_PLACEHOLDERS) if way == "text" else text)


def _texts(name: str, key: str, row: Mapping[str, Any]) -> dict[str, str]:
    texts = row.get(key, {})
    if not isinstance(texts, dict) or not all(isinstance(one, str) for one in cast("dict[str, Any]", texts).values()):
        raise InvalidAdapter(f"{name}.{key}", "it is an object with texts")
    return dict(cast("dict[str, str]", texts))


def _names(name: str, key: str, row: Mapping[str, Any]) -> tuple[str, ...]:
    names = row.get(key, [])
    good = isinstance(names, list) and all(
        isinstance(one, str) and _VARIABLE.fullmatch(one) for one in cast("list[Any]", names)
    )
    if not good:
        raise InvalidAdapter(f"{name}.{key}", "it is a list of names of variables")
    return tuple(cast("list[str]", names))


def _seconds(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 600:
        raise InvalidAdapter(f"{name}.start_s", "it is a number of seconds, above 0 and at most 600")
    return float(value)


def _json_value(output: str, path: str) -> str | None:
    """Return the value at this path (`0.pane.id`) in the JSON; None without one."""
    try:
        here: Any = json.loads(output)
        for part in path.split("."):
            here = cast("list[Any]", here)[int(part)] if isinstance(here, list) else here[part]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return _text(here) if isinstance(here, str | int) else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _excerpt(text: str) -> str:
    flat = " ".join(text.split())
    return repr(flat[:80]) if flat else "nothing"
