"""The fields of an agent definition: the type of each, and the parser that turns values into an agent type.

Markdown, JSON and plugins share one table. A mistake that would give an agent more rights than intended is an error;
one that only removes rights is a warning. Hooks have the format of hooks in settings; `Stop` means the stop of the
agent that was started.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.agent.agent_type import AgentType
from teamwright.config.tool_names import ToolSelection, select_tools
from teamwright.config.unmatched_guards import find_dead_hook
from teamwright.hooks.hook_definitions import (
    ELICITATION,
    ELICITATION_RESULT,
    EXPANSION,
    NOTIFICATION,
    SESSION_END,
    SESSION_START,
    STOP,
    SUBAGENT_STOP,
    USER_PROMPT,
    WORKTREE_CREATE,
    WORKTREE_REMOVE,
    HookSpec,
    parse_hooks,
)
from teamwright.models.effort import EXPECTED_TEXT as EFFORTS
from teamwright.models.effort import parse_effort
from teamwright.permissions.verdict import AUTO_NOTICE, MODES_OF_OTHERS, Mode
from teamwright.protocol.ids import COLORS, nearest
from teamwright.protocol.runtime_tags import split_rules
from teamwright.sandbox.policy import BOUNDS_TEXT, UNBOUNDED, parse_bounds
from teamwright.skills.front_matter import UnreadableFrontMatter

NAME_MOST, DESCRIPTION_MOST, LIST_MOST = 64, 4_000, 200
INHERIT = "inherit"
"""The model name for "the model of the agent that starts it"."""


class DefinitionField(Struct, frozen=True):
    """A field: its type, its meaning for the reference, and whether a wrong value is only left out (`soft`)."""

    kind: str
    meaning: str
    soft: bool = False
    words: tuple[str, ...] = ()


FIELDS: dict[str, DefinitionField] = {
    "name": DefinitionField(
        "name", "The type: up to 64 letters, digits, `_ - .` and blanks. Default: the file's name."
    ),
    "description": DefinitionField("text", "The purpose of the type, by which the lead chooses it."),
    "prompt": DefinitionField("text", "The system prompt, in definitions without Markdown."),
    "tools": DefinitionField(
        "list",
        "The only tools: a list, or names with commas. Without the field, or with `*`, all; with an empty list none. "
        "`mcp__server` and `mcp__server__*` are all tools of a server.",
    ),
    "disallowedTools": DefinitionField(
        "list",
        "Tools that the agent and its sub-agents do not have. `Bash(git push:*)` denies some calls of a tool.",
    ),
    "model": DefinitionField("text", "Its model; `inherit`, or no field, is the caller's. The call's has precedence."),
    "effort": DefinitionField("effort", f"Thinking effort: {EFFORTS}.", soft=True),
    "promptSize": DefinitionField(
        "word",
        "`compact` or `full`: the size of its system prompt and tools. The default is the setting `prompt`.",
        soft=True,
        words=("compact", "full"),
    ),
    "permissionMode": DefinitionField(
        "mode",
        "Its permission mode. The call's has precedence; the stricter of this mode and the caller's decides.",
    ),
    "background": DefinitionField("flag", "True: a sub-agent always runs in the background."),
    "isolation": DefinitionField(
        "word",
        "`worktree`: it works in a worktree. `remote`: a teammate works on another machine.",
        words=("worktree", "remote"),
    ),
    "maxTurns": DefinitionField("count", "The most model calls; the smaller of this and the call's counts."),
    "color": DefinitionField("word", f"A teammate's colour: {' '.join(COLORS)}.", soft=True, words=COLORS),
    "memory": DefinitionField(
        "word",
        "The scope of its memory: `user`, `project` or `local`.",
        soft=True,
        words=("user", "project", "local"),
    ),
    "requiredMcpServers": DefinitionField(
        "list", "MCP servers that the agent needs; its start waits for them, 30 seconds at most."
    ),
    "mcpServers": DefinitionField(
        "servers",
        "Additional MCP servers of this type, as in `.mcp.json`; a name alone is a server of the session.",
    ),
    "hooks": DefinitionField(
        "map",
        "Hooks for this agent only. `Stop` means its end; session, prompt and notification events do not occur.",
    ),
    "sandbox": DefinitionField(
        "sandbox", "Bounds of its commands and of those of its sub-agents, such as `{network: deny}`."
    ),
    "skills": DefinitionField("list", "Names of skills whose texts are in its first prompt."),
    "initialPrompt": DefinitionField("text", "Put before its first prompt."),
}
"""Every field as files spell it; `max_turns` and `max-turns` are accepted too."""

_LONG_TEXTS = frozenset({"description", "prompt", "initialPrompt"})

EXPECTED = {
    "name": f"1 to {NAME_MOST} letters, digits, _, -, . or blanks",
    "text": "a text",
    "list": "a list of texts, or texts apart by commas",
    "effort": EFFORTS,
    "mode": "one of default, acceptEdits, plan, delegate, dontAsk, bypassPermissions",
    "flag": "true or false",
    "count": "a whole number from 1 on",
    "servers": "a list of servers, or an object with servers by name",
    "map": "an object",
    "sandbox": BOUNDS_TEXT,
}

_MODES = {str(mode): str(mode) for mode in Mode} | {name: str(mode) for name, mode in MODES_OF_OTHERS.items()}
_MODES["bubble"] = ""
_PLAIN = {name.lower(): name for name in FIELDS}


def _field_of(written: str) -> str | None:
    return _PLAIN.get(written.replace("-", "").replace("_", "").lower())


def begins_field(written: str, before: str) -> bool:
    """Return True when a line with this key begins a field: after a long text only a known field does."""
    return _field_of(before) not in _LONG_TEXTS or _field_of(written) is not None


class DefinitionOrigin(Struct, frozen=True):
    """The origin of values: a name for people, the file, the lines of fields, and whether unknown fields are errors."""

    source: str
    file: str
    lines: Mapping[str, int] = field(default_factory=dict[str, int])
    strict: bool = False


class ParsedDefinition(Struct, frozen=True):
    """An agent type and the problems found in its definition, a line each: `line 4: …`."""

    definition: AgentType
    warnings: tuple[str, ...] = ()


Values: TypeAlias = Mapping[str, Any]


def parse_definition_values(raw: Values, body: str, fallback: str, origin: DefinitionOrigin) -> ParsedDefinition:
    """Return the agent type that these values describe. Raises UnreadableFrontMatter with the line.

    `body` is the prompt when no field gives one; `fallback` the name of a file that gives none.
    """
    reader = _ValueReader(origin)
    values = reader.values(raw)
    name = values.get("name")
    if name is None:
        if not fallback:
            raise UnreadableFrontMatter("it has no name")
        name = reader.name(fallback)
        reader.warn("name", f"it has no name, and is called like its file: {name}")
    description = " ".join(values.get("description", "").split())
    if not description:
        reader.warn("description", "it has no description, by which the lead chooses a type")
    if len(description) > DESCRIPTION_MOST:
        reader.warn("description", f"the description is cut after {DESCRIPTION_MOST:,} characters")
    tools = reader.tools(values)
    hooks = parse_definition_hooks(
        values.get("hooks"), origin.file or origin.source, lambda text: reader.warn("hooks", text)
    )
    model = values.get("model")
    if values.get("permissionMode") == Mode.BYPASS:
        reader.warn("permissionMode", f"{Mode.BYPASS} never gives an agent more than its caller has")
    agent_type = AgentType(
        name,
        description[:DESCRIPTION_MOST],
        values.get("prompt", body).strip(),
        tools.only,
        tools.without,
        None if model is None or model.lower() == INHERIT else model,
        values.get("maxTurns"),
        mode=values.get("permissionMode") or None,
        denied=tools.denied,
        hooks=hooks,
        initial_prompt=values.get("initialPrompt", "").strip(),
        color=values.get("color"),
        effort=values.get("effort"),
        prompt_size=values.get("promptSize"),
        background=values.get("background", False),
        isolation=values.get("isolation"),
        memory=values.get("memory"),
        skills=values.get("skills", ()),
        mcp_servers=values.get("mcpServers", {}),
        required_mcp_servers=values.get("requiredMcpServers", ()),
        sandbox=values.get("sandbox", UNBOUNDED),
        source=origin.source,
        file=origin.file,
    )
    return ParsedDefinition(agent_type, tuple(reader.warnings))


class _ValueReader:
    """A reader of the values of one definition."""

    def __init__(self, origin: DefinitionOrigin) -> None:
        self.origin = origin
        self.warnings: list[str] = []
        self.at: dict[str, int] = {}

    def values(self, raw: Values) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for written, value in raw.items():
            name = _field_of(written)
            if name is None:
                self.unknown(written)
                continue
            if name in found or name in self.at:
                raise UnreadableFrontMatter(f"{name} occurs twice", self.line(written))
            self.at[name] = self.line(written)
            if value is not None:
                self.take(found, name, value)
        return found

    def line(self, written: str) -> int:
        return self.origin.lines.get(written, 0)

    def take(self, found: dict[str, Any], name: str, value: Any) -> None:
        row = FIELDS[name]
        try:
            found[name] = self.read(row, value)
        except ValueError as problem:
            if isinstance(problem, UnreadableFrontMatter):
                raise
            what = f"{name} must be {str(problem) or EXPECTED[row.kind]}"
            if not row.soft or self.origin.strict:
                raise UnreadableFrontMatter(what, self.at[name]) from None
            self.warn(name, f"{what}; it is left out")

    def read(self, row: DefinitionField, value: Any) -> Any:
        match row.kind:
            case "name":
                return self.name(value)
            case "list":
                return parse_text_list(value)
            case "word":
                if value not in row.words:
                    raise ValueError(f"one of {', '.join(row.words)}")
                return value
            case "mode":
                if not isinstance(value, str) or value not in _MODES:
                    raise ValueError
                if value == "auto":
                    self.warn("permissionMode", AUTO_NOTICE)
                return _MODES[value]
            case "servers":
                return _servers(value)
            case "effort":
                return parse_effort(value)
            case "sandbox":
                return parse_bounds(value)
            case "count" if isinstance(value, str) and value.isascii() and value.isdigit():
                return _plain(row.kind, int(value))  # in quotes it is the same number
            case _:
                return _plain(row.kind, value)

    def name(self, value: Any) -> str:
        name = " ".join(value.split()) if isinstance(value, str) else ""
        fits = 0 < len(name) <= NAME_MOST and name[0].isalnum() and all(c.isalnum() or c in "_-. " for c in name)
        if not fits:
            raise UnreadableFrontMatter(f"name must be {EXPECTED['name']}", self.at.get("name", 0))
        return name

    def tools(self, values: Values) -> ToolSelection:
        try:
            return select_tools(values.get("tools"), values.get("disallowedTools", ()), self.warn)
        except ValueError as problem:
            raise UnreadableFrontMatter(str(problem), self.at.get("disallowedTools", 0)) from None

    def unknown(self, written: str) -> None:
        near = nearest(written, FIELDS)
        what = f"{written[:60]!r} is no field of a definition" + (f"; did you mean {near}?" if near else "")
        if self.origin.strict:
            raise UnreadableFrontMatter(what, self.line(written))
        self.at[written] = self.line(written)
        self.warn(written, what)

    def warn(self, name: str, text: str) -> None:
        line = self.at.get(name, 0)
        self.warnings.append(f"line {line}: {text}" if line else text)


def _without_quotes(part: str) -> str:
    """Return a name of a list without the quotes around it, which YAML keeps in one text with commas."""
    is_quoted = len(part) > 1 and part[0] == part[-1] and part[0] in "\"'"
    return part[1:-1].strip() if is_quoted else part


def parse_text_list(value: Any) -> tuple[str, ...]:
    """Return a list of texts, also from one text with commas outside parentheses. Raises ValueError."""
    if isinstance(value, str):
        found: list[str] = split_rules(value) if "(" in value else [part.strip() for part in value.split(",")]
    elif isinstance(value, list) and all(isinstance(part, str) for part in cast("list[Any]", value)):
        found = [part.strip() for part in cast("list[str]", value)]
    else:
        raise ValueError
    texts = tuple(dict.fromkeys(bare for part in found if (bare := _without_quotes(part))))
    if len(texts) > LIST_MOST or any(len(part) > 1_000 or not part.isprintable() for part in texts):
        raise ValueError
    return texts


def _plain(kind: str, value: Any) -> Any:
    whole = isinstance(value, int) and not isinstance(value, bool)
    fits = {
        "text": isinstance(value, str),
        "flag": isinstance(value, bool),
        "count": whole and value >= 1,
        "map": isinstance(value, dict),
    }
    if not fits[kind]:
        raise ValueError
    return value


def _servers(value: Any) -> dict[str, Any]:
    """Return the servers by name; a name without an entry refers to a server configured elsewhere."""
    found: dict[str, Any] = {}
    parts: Sequence[Any] = cast("list[Any]", value) if isinstance(value, list) else [value]
    for part in parts:
        if isinstance(part, str) and isinstance(value, list):
            found[part] = None
        elif isinstance(part, dict) and all(isinstance(key, str) for key in cast("dict[Any, Any]", part)):
            found |= cast("dict[str, Any]", part)
        else:
            raise ValueError
    if not _is_data(found, 0):
        raise ValueError
    return found


def _is_data(value: Any, depth: int) -> bool:
    """Return True when JSON can contain the value and it is not nested too deeply."""
    if depth > 8:
        return False
    if isinstance(value, dict):
        return all(isinstance(k, str) and _is_data(v, depth + 1) for k, v in cast("dict[Any, Any]", value).items())
    if isinstance(value, list):
        return all(_is_data(part, depth + 1) for part in cast("list[Any]", value))
    return value is None or isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value))


def default_name(path: Path) -> str:
    """Return the name for a file that gives none."""
    return path.name.removesuffix(".md")


_SESSION_EVENTS = frozenset(
    {
        *(SESSION_START, SESSION_END, USER_PROMPT, NOTIFICATION, EXPANSION, ELICITATION, ELICITATION_RESULT),
        *(WORKTREE_CREATE, WORKTREE_REMOVE),
    }
)
"""Events of a session, which never concern one agent of it."""


def parse_definition_hooks(value: object, source: str, warn: Callable[[str], None]) -> tuple[HookSpec, ...]:
    """Return the hooks in this value; `warn` receives a line for each part that cannot be used."""
    found, warnings = parse_hooks(value, source)
    for text in warnings:
        warn(text.removeprefix(f"{source}: "))
    hooks: list[HookSpec] = []
    for hook in found:
        if dead := find_dead_hook(hook):
            warn(f"a hook of {hook.event}: {dead}")
        if hook.event in _SESSION_EVENTS:
            warn(f"hooks of {hook.event} never run for one agent")
        else:
            hooks.append(replace(hook, event=SUBAGENT_STOP) if hook.event == STOP else hook)
    return tuple(hooks)
