"""The file format of a script: TOML in, validated turns out, every error named with its place.

Format: docs/reference/script-format.md. A script contains text: patterns, captures and templates with `{{name}}`, which
captures fill. `{{name|sh}}` fills in one quoted word for a POSIX shell, because file names come from others;
`{{?name}}` drops its line when the name has no text. Templates have no arithmetic and no code, and are compiled once.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast

from msgspec import Struct, field

from teamwright.protocol.errors import CannotStart
from teamwright.protocol.ids import LEAD, LEAD_ALIAS

ANY_AGENT = "*"
"""The agent whose turns are tried after those of the named one."""


def read_script(text: str, where: str) -> ScriptFile:
    """Return the script in a TOML text. Raises CannotStart (`bad-script`) naming `where` and the place of the error."""
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _bad(where, "the file", f"is not TOML: {error}") from None
    return _Reader(where, text).script(tree)


class ScriptFile(Struct, frozen=True):
    """A parsed script. `required_names` are the names that must be supplied from outside; `pace_ms` is milliseconds."""

    name: str
    about: str
    pace_ms: float
    required_names: tuple[str, ...]
    repeat_pattern: re.Pattern[str] | None
    parts: Mapping[str, ScriptPart]

    def part(self, agent: str) -> ScriptPart:
        """Return the part of this agent: its own turns, then those of all agents."""
        nothing = ScriptPart()
        return self.parts.get(script_agent_name(agent), nothing).then(self.parts.get(ANY_AGENT, nothing))


class ScriptPart(Struct, frozen=True):
    """The part of one agent: turns in the order in which they are tried, and its permanent captures."""

    turns: tuple[ScriptTurn, ...] = ()
    otherwise: tuple[ScriptTurn, ...] = ()
    hear: tuple[re.Pattern[str], ...] = ()

    def then(self, other: ScriptPart) -> ScriptPart:
        """Return this part, followed by another one; `otherwise` answers come last."""
        return ScriptPart(self.turns + other.turns, self.otherwise + other.otherwise, self.hear + other.hear)


class ScriptTurn(Struct, frozen=True):
    """One answer of the model. `label` names it in errors: `turn 3 of agent lead (line 41)`."""

    label: str
    when: TurnConditions
    say: Template | None
    calls: tuple[ScriptCall, ...]
    capture_text: tuple[re.Pattern[str], ...] = ()
    repeat: bool = False


class TurnConditions(Struct, frozen=True):
    """The conditions of a turn; all that are set must be true.

    `text` and `sender` apply to the same received text, `task` to the text of a claimed task. `tool` and `result` apply
    to one result in this request.
    """

    text: re.Pattern[str] | None = None
    sender: re.Pattern[str] | None = None
    task: re.Pattern[str] | None = None
    tool: str | None = None
    result: re.Pattern[str] | None = None
    have: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


class ScriptCall(Struct, frozen=True):
    """A tool call of a turn, left out when a name of `have` has no text.

    `capture` is applied to its result if that is no error; `default` gives the names without a match.
    """

    name: str
    tool: str
    input: Mapping[str, Any]
    have: tuple[str, ...] = ()
    capture: tuple[re.Pattern[str], ...] = ()
    default: Mapping[str, str] = field(default_factory=dict[str, str])


def script_agent_name(agent: str) -> str:
    """Return the name of an agent in a script: the lead is named by its alias."""
    return LEAD if agent == LEAD_ALIAS else agent


_SCRIPT_KEYS = ("name", "about", "pace_ms", "given", "again", "text")
_AGENT_KEYS = ("hear", "turn", "otherwise")
_TURN_KEYS = ("when", "say", "call", "capture_text", "repeat")
_WHEN_KEYS = ("text", "from", "task", "tool", "result", "have", "missing")
_CALL_KEYS = ("name", "tool", "input", "have", "capture", "default")


class _Reader:
    """A reader of one file, which tracks the position for error texts."""

    def __init__(self, where: str, text: str) -> None:
        self._where = where
        self._lines = text.split("\n")
        self._place = "the file"

    def script(self, tree: dict[str, Any]) -> ScriptFile:
        self._keys(tree, ("script", "agent"))
        head = self._table(tree.get("script", {}), "script")
        self._place = "[script]"
        self._keys(head, _SCRIPT_KEYS)
        texts = self._constants(self._table(head.get("text", {}), "text"))
        head = cast("dict[str, Any]", insert_constants({key: head[key] for key in head if key != "text"}, texts))
        pace = head.get("pace_ms", 0)
        if isinstance(pace, bool) or not isinstance(pace, int | float) or not 0 <= pace <= 60_000:
            raise self._error("pace_ms must be a number of milliseconds from 0 to 60000")
        agents = self._table(tree.get("agent", {}), "agent")
        self._place = "the file"
        if not agents:
            raise self._error("has no [[agent.NAME.turn]]")
        parts = {
            script_agent_name(name): self._part(name, insert_constants(body, texts)) for name, body in agents.items()
        }
        again = head.get("again")
        script = ScriptFile(
            name=self._text(head.get("name", "script"), "name"),
            about=self._text(head.get("about", ""), "about"),
            pace_ms=float(pace),
            required_names=self._texts(head.get("given", []), "given"),
            repeat_pattern=None if again is None else self._pattern(again, "again"),
            parts=parts,
        )
        self._check_names(script, texts)
        return script

    def _constants(self, table: dict[str, Any]) -> dict[str, str]:
        """Return the constant texts; a constant may be used in later ones."""
        texts: dict[str, str] = {}
        for name, value in table.items():
            texts[name] = cast("str", insert_constants(self._text(value, f"text.{name}"), texts))
        return texts

    def _part(self, agent: str, body: Any) -> ScriptPart:
        self._place = f"agent {agent}"
        table = self._table(body, f"agent.{agent}")
        self._keys(table, _AGENT_KEYS)
        hear = self._patterns(table.get("hear", []), "hear")
        turns = self._turns(agent, "turn", table.get("turn", []))
        return ScriptPart(turns, self._turns(agent, "otherwise", table.get("otherwise", [])), hear)

    def _turns(self, agent: str, kind: str, entries: Any) -> tuple[ScriptTurn, ...]:
        self._place = f"agent {agent}"
        if not isinstance(entries, list):
            raise self._error(f"{kind} must be written [[agent.{agent}.{kind}]]")
        lines = self._headings(agent, kind)
        turns: list[ScriptTurn] = []
        for number, entry in enumerate(cast("list[Any]", entries), 1):
            line = f" (line {lines[number - 1]})" if number <= len(lines) else ""
            self._place = f"{kind} {number} of agent {agent}{line}"
            turns.append(self._turn(self._table(entry, kind), repeat=kind == "otherwise"))
        return tuple(turns)

    def _headings(self, agent: str, kind: str) -> list[int]:
        """Return the line numbers of the headings of this agent's turns."""
        name = re.escape(agent)
        heading = re.compile(rf"\s*\[\[\s*agent\.(?:{name}|\"{name}\"|'{name}')\.{kind}\s*\]\]")
        return [number for number, line in enumerate(self._lines, 1) if heading.match(line)]

    def _turn(self, table: dict[str, Any], *, repeat: bool) -> ScriptTurn:
        self._keys(table, _TURN_KEYS)
        calls = table.get("call", [])
        if not isinstance(calls, list):
            raise self._error("has a call that is not written [[…call]]")
        script_calls = tuple(self._call(self._table(call, "call")) for call in cast("list[Any]", calls))
        names = [call.name for call in script_calls if call.name]
        if len(names) != len(set(names)):
            raise self._error("has two calls of one name")
        say = self._text(table.get("say", ""), "say")
        if not say and not script_calls:
            raise self._error("has neither say nor a call")
        again = table.get("repeat", repeat)
        if not isinstance(again, bool):
            raise self._error("repeat must be true or false")
        return ScriptTurn(
            label=self._place,
            when=self._when(self._table(table.get("when", {}), "when")),
            say=Template.compile(say) if say else None,
            calls=script_calls,
            capture_text=self._patterns(table.get("capture_text", []), "capture_text"),
            repeat=again,
        )

    def _when(self, table: dict[str, Any]) -> TurnConditions:
        self._keys(table, _WHEN_KEYS, "when.")
        patterns = {
            key: self._pattern(table[key], f"when.{key}") for key in ("text", "from", "task", "result") if key in table
        }
        return TurnConditions(
            text=patterns.get("text"),
            sender=patterns.get("from"),
            task=patterns.get("task"),
            tool=self._text(table["tool"], "when.tool") if "tool" in table else None,
            result=patterns.get("result"),
            have=self._texts(table.get("have", []), "when.have"),
            missing=self._texts(table.get("missing", []), "when.missing"),
        )

    def _call(self, table: dict[str, Any]) -> ScriptCall:
        self._keys(table, _CALL_KEYS, "call.")
        tool = self._text(table.get("tool", ""), "call.tool")
        if not tool:
            raise self._error("has a call without a tool")
        default = self._table(table.get("default", {}), "call.default")
        return ScriptCall(
            name=self._text(table.get("name", ""), "call.name"),
            tool=tool,
            input=cast("dict[str, Any]", compile_deep(self._table(table.get("input", {}), "call.input"))),
            have=self._texts(table.get("have", []), "call.have"),
            capture=self._patterns(table.get("capture", []), "call.capture"),
            default={name: self._text(value, f"call.default.{name}") for name, value in default.items()},
        )

    def _check_names(self, script: ScriptFile, texts: Mapping[str, str]) -> None:
        """Check that every name in a template or a condition is defined somewhere, and is no constant as well."""
        turns = [turn for part in script.parts.values() for turn in part.turns + part.otherwise]
        calls = [call for turn in turns for call in turn.calls]
        known = {*script.required_names, *(f"call.{call.name}" for call in calls if call.name)}
        known.update(*(call.default for call in calls), *(_captured_names(call.capture) for call in calls))
        known.update(*(_captured_names(turn.capture_text) for turn in turns))
        known.update(*(_captured_names(part.hear) for part in script.parts.values()))
        twice = sorted(known.intersection(texts))
        if twice:
            self._place = "[script.text]"
            raise self._error(f'has "{twice[0]}", which is also captured or given: one of them would never be seen')
        for turn in turns:
            self._place = turn.label
            lacking = [name for name in _needed_names(turn) if name not in known]
            if lacking:
                raise self._error(f'needs "{lacking[0]}", which nothing in the script gives')

    def _keys(self, table: Mapping[str, Any], known: Sequence[str], prefix: str = "") -> None:
        unknown = [key for key in table if key not in known]
        if unknown:
            keys = ", ".join(known)
            raise self._error(f'has an unknown key "{prefix}{unknown[0]}"', [f"the keys here are: {keys}"])

    def _table(self, value: Any, key: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._error(f'"{key}" must be a table')
        return cast("dict[str, Any]", value)

    def _text(self, value: Any, key: str) -> str:
        if not isinstance(value, str):
            raise self._error(f"{key} must be text")
        return value

    def _texts(self, value: Any, key: str) -> tuple[str, ...]:
        values = cast("list[Any]", value if isinstance(value, list) else [value])
        return tuple(self._text(one, key) for one in values)

    def _patterns(self, value: Any, key: str) -> tuple[re.Pattern[str], ...]:
        return tuple(self._pattern(one, key) for one in self._texts(value, key))

    def _pattern(self, value: Any, key: str) -> re.Pattern[str]:
        try:
            return re.compile(self._text(value, key), re.MULTILINE)
        except re.error as error:
            raise self._error(f"{key} is not a regular expression: {error}") from None

    def _error(self, what: str, do: Sequence[str] = ()) -> CannotStart:
        return _bad(self._where, self._place, what, do)


def _bad(where: str, place: str, what: str, do: Sequence[str] = ()) -> CannotStart:
    return CannotStart(
        "bad-script",
        f"a script cannot be read: {place} {what}",
        looked_at=[("file", where)],
        do=do or ["the format: docs/reference/script-format.md"],
        note="nothing was started",
    )


def _captured_names(patterns: Iterable[re.Pattern[str]]) -> set[str]:
    return {name for pattern in patterns for name in pattern.groupindex}


def _needed_names(turn: ScriptTurn) -> list[str]:
    """Return the names that a turn's templates and conditions need, in order."""
    names = [*turn.when.have, *turn.when.missing]
    if turn.say is not None:
        names += sorted(turn.say.names)
    for call in turn.calls:
        names += call.have
        names += names_deep(call.input)
    return names


Lookup: TypeAlias = Callable[[str], str]
"""A function that returns the text of a name; raises KeyError for one without a value."""

_SLOT = re.compile(r"\{\{ *([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_-]+)?)(\|sh)? *\}\}")
_GUARD = re.compile(r"\{\{ *\?([A-Za-z_][A-Za-z0-9_]*) *\}\}")

SlotOrText: TypeAlias = str | tuple[str, bool]
"""Literal text, or a slot: a name, and whether it is quoted for a shell."""


class Template(Struct, frozen=True):
    """A text with slots `{{name}}` and guards `{{?name}}`."""

    lines: tuple[TemplateLine, ...]

    @classmethod
    def compile(cls, text: str) -> Template:
        """Return the template of a text; text that does not look like a slot stays unchanged."""
        if not _GUARD.search(text):
            return cls((TemplateLine((), _split_slots(text)),))
        lines = text.split("\n")
        ends = ["\n"] * (len(lines) - 1) + [""]
        template_lines = [
            TemplateLine(tuple(_GUARD.findall(line)), _split_slots(_GUARD.sub("", line) + end))
            for line, end in zip(lines, ends, strict=True)
        ]
        return cls(tuple(template_lines))

    @property
    def is_plain(self) -> bool:
        """True when it has no slots and guards."""
        return not any(line.guards or any(not isinstance(piece, str) for piece in line.pieces) for line in self.lines)

    @property
    def names(self) -> frozenset[str]:
        """The names that it uses."""
        slots = {piece[0] for line in self.lines for piece in line.pieces if not isinstance(piece, str)}
        return frozenset(slots.union(*(line.guards for line in self.lines)))

    def fill(self, look: Lookup) -> str:
        """Return the text with its slots filled. Raises KeyError with the first name that has no text."""
        lines = (line for line in self.lines if all(_has_text(name, look) for name in line.guards))
        return "".join(
            piece if isinstance(piece, str) else _fill_slot(piece, look) for line in lines for piece in line.pieces
        )


class TemplateLine(Struct, frozen=True):
    """Lines of a template that are kept or left out together: they are left out when a guard's name has no text."""

    guards: tuple[str, ...]
    pieces: tuple[SlotOrText, ...]


def _split_slots(text: str) -> tuple[SlotOrText, ...]:
    pieces: list[SlotOrText] = []
    at = 0
    for slot in _SLOT.finditer(text):
        if slot.start() > at:
            pieces.append(text[at : slot.start()])
        pieces.append((slot[1], slot[2] is not None))
        at = slot.end()
    if at < len(text):
        pieces.append(text[at:])
    return tuple(pieces)


def _has_text(name: str, look: Lookup) -> bool:
    try:
        return bool(look(name))
    except KeyError:
        return False


def _fill_slot(piece: tuple[str, bool], look: Lookup) -> str:
    name, quoted = piece
    text = look(name)
    return shlex.quote(text) if quoted else text


def compile_deep(value: Any) -> Any:
    """Return the value with every string that has slots replaced by its Template; keys of objects are unchanged."""
    if isinstance(value, str):
        template = Template.compile(value)
        return value if template.is_plain else template
    if isinstance(value, dict):
        return {key: compile_deep(inner) for key, inner in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [compile_deep(inner) for inner in cast("list[Any]", value)]
    return value


def fill_deep(value: Any, look: Lookup) -> Any:
    """Return a new copy of a compiled value with all slots filled. Raises KeyError as `Template.fill` does."""
    if isinstance(value, Template):
        return value.fill(look)
    if isinstance(value, dict):
        return {key: fill_deep(inner, look) for key, inner in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [fill_deep(inner, look) for inner in cast("list[Any]", value)]
    return value


def names_deep(value: Any) -> Iterator[str]:
    """Yield every name that a compiled value needs."""
    if isinstance(value, Template):
        yield from value.names
    elif isinstance(value, dict):
        for inner in cast("dict[str, Any]", value).values():
            yield from names_deep(inner)
    elif isinstance(value, list):
        for inner in cast("list[Any]", value):
            yield from names_deep(inner)


def insert_constants(value: Any, texts: Mapping[str, str]) -> Any:
    """Return the value with the script's constants filled into its strings; other slots stay."""
    if isinstance(value, str):
        return _SLOT.sub(lambda slot: texts.get(slot[1], slot[0]) if slot[2] is None else slot[0], value)
    if isinstance(value, dict):
        return {key: insert_constants(inner, texts) for key, inner in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [insert_constants(inner, texts) for inner in cast("list[Any]", value)]
    return value
