"""Agent types: the definition of an agent and the bounds that apply to it. Built-in types are data in this module.

Other sources of types are in `config`. Tools appear here by name only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct, field, to_builtins
from msgspec.structs import replace

from teamwright.protocol.errors import UsageError
from teamwright.protocol.ids import nearest
from teamwright.sandbox.policy import UNBOUNDED, SandboxSettings, narrow, restore_bounds

if TYPE_CHECKING:
    from teamwright.hooks.hook_definitions import HookSpec
    from teamwright.models.effort import Effort
    from teamwright.models.model_settings import PromptSize

TEAMMATE_TOOLS = ("SendMessage", "TaskCreate", "TaskGet", "TaskList", "TaskUpdate")
"""Tools that every teammate has besides those of its agent type."""

OTHER_PRODUCTS_TOOLS = {
    "MultiEdit": "Edit does its work",
    "TodoWrite": "TaskCreate and TaskUpdate do its work",
    "TodoRead": "TaskList does its work",
    "LS": "Glob does its work",
    "KillShell": "TaskStop does its work",
    "BashOutput": "TaskOutput does its work",
    "NotebookRead": "Read does its work",
}
"""Tools of other products, with the tool of this program that replaces each."""

LEAD_ONLY = frozenset({"TeamCreate", "TeamDelete"})
"""Tools of the lead: no teammate and no sub-agent has them."""

NOT_FOR_SUBAGENTS = LEAD_ONLY | {"Agent", "SendMessage", "ListAgents", "AskUserQuestion", *TEAMMATE_TOOLS}
"""Tools that no sub-agent has: it does one job and returns one answer.

`limits.depth` above 1 allows sub-agents of sub-agents.
"""

READ_TOOLS = ("Bash", "Read", "Glob", "Grep", "WebFetch")


BUILT_IN = "built in"
"""The source of built-in agent types."""

MAX_LISTED = 12
"""The number of types that an error lists."""

TOOLS_NAMED = 8
"""The number of tools that the short text of a type names."""


def covers(names: Iterable[str], tool: str) -> bool:
    """Return True when a name means the tool: its name, a pattern with `*`, or `mcp__server` for a whole server."""
    return _covers(tuple(names), tool)


@lru_cache(maxsize=4_096)
def _covers(names: tuple[str, ...], tool: str) -> bool:
    """Return True when a name means the tool. The cache serves repeated checks: every new agent checks every tool."""
    return any(
        name == tool
        or ("*" in name and fnmatchcase(tool, name))
        or (name.startswith("mcp__") and tool.startswith(f"{name}__"))
        for name in names
    )


class AgentBounds(Struct, frozen=True):
    """The bounds that applied when an agent was created. They are stored with its incarnation.

    A process that resumes the agent applies at least these bounds, even if the definition has changed. `hooks` are the
    digests of the hooks that ran for it; `role`: the type came from a team file, which sets path ownership.
    """

    tools: tuple[str, ...] | None = None
    disallowed_tools: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    read_only: bool = False
    hooks: tuple[str, ...] = ()
    role: bool = False
    sandbox: SandboxSettings = UNBOUNDED

    def as_json(self) -> dict[str, Any]:
        """Return the bounds as files contain them."""
        out = cast("dict[str, Any]", to_builtins(self))
        if self.sandbox == UNBOUNDED:
            del out["sandbox"]
        return out

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> AgentBounds:
        """Return the bounds in a file. Raises ValueError."""
        tools = data.get("tools")
        disallowed, denied, hooks = (
            tuple(map(str, data.get(key, ()))) for key in ("disallowed_tools", "denied", "hooks")
        )
        return cls(
            None if tools is None else tuple(map(str, tools)),
            disallowed,
            denied,
            bool(data.get("read_only")),
            hooks,
            bool(data.get("role")),
            restore_bounds(data.get("sandbox", {})),
        )


class AgentType(Struct, frozen=True):
    """An agent type. `tools` None means all; `prompt` is the body; `model` and `mode` None mean the caller's.

    `denied` are deny rules for parts of tools (`Bash(git push:*)`). `read_only`: calls that are not proven to change
    nothing are denied, shell commands included. `source` is a short name of the type's origin, `file` the file that
    defines it. `role`: it is a role of a team file. `sandbox` are the bounds of its commands.
    """

    name: str
    description: str
    prompt: str = ""
    tools: tuple[str, ...] | None = None
    disallowed_tools: tuple[str, ...] = ()
    model: str | None = None
    max_turns: int | None = None
    read_only: bool = False
    mode: str | None = None
    denied: tuple[str, ...] = ()
    hooks: tuple[HookSpec, ...] = ()
    initial_prompt: str = ""
    color: str | None = None
    effort: Effort | None = None
    prompt_size: PromptSize | None = None
    """The size of its system prompt and tools; None: that of the settings, else by the model's window."""
    background: bool = False
    isolation: str | None = None
    memory: str | None = None
    skills: tuple[str, ...] = ()
    mcp_servers: Mapping[str, Any] = field(default_factory=dict[str, Any])
    required_mcp_servers: tuple[str, ...] = ()
    source: str = BUILT_IN
    file: str = ""
    role: bool = False
    is_hook: bool = False
    """True for the agent of a hook, for which no hook runs."""
    sandbox: SandboxSettings = UNBOUNDED

    def allows(self, tool: str) -> bool:
        """Return True when an agent of this type has the tool of that name."""
        refused = bool(self.disallowed_tools) and covers(self.disallowed_tools, tool)
        return not refused and (self.tools is None or covers(self.tools, tool))

    @property
    def tools_in_words(self) -> str:
        """The tools of this type in a few words, for models and people."""
        if self.tools is None:
            without = self.disallowed_tools
            return f"all tools except {join_names(without, TOOLS_NAMED)}" if without else "all tools"
        tools = [name for name in self.tools if self.allows(name)]
        return f"tools: {join_names(tools, TOOLS_NAMED)}" if tools else "no tools"

    @property
    def bounds(self) -> AgentBounds:
        """The bounds of this type, to be stored with the agent."""
        marks = tuple(hook_digest(hook) for hook in self.hooks)
        return AgentBounds(
            self.tools, self.disallowed_tools, self.denied, self.read_only, marks, self.role, self.sandbox
        )

    def restricted_to(self, bounds: AgentBounds) -> AgentType:
        """Return this type restricted to the bounds under which an agent was created."""
        return replace(
            self,
            tools=_intersection(self.tools, bounds.tools),
            disallowed_tools=_union(self.disallowed_tools, bounds.disallowed_tools),
            denied=_union(self.denied, bounds.denied),
            read_only=self.read_only or bounds.read_only,
            sandbox=narrow(self.sandbox, bounds.sandbox),
        )

    def lacks_hooks_of(self, bounds: AgentBounds) -> bool:
        """Return True when this kind has lost a hook that an agent was started with."""
        return not set(bounds.hooks) <= {hook_digest(hook) for hook in self.hooks}


def hook_digest(hook: HookSpec) -> str:
    """Return the identity of a hook, the same as long as its definition is."""
    is_plain = hook.arguments is None and hook.action is None and not hook.condition
    more = (hook.command,) if is_plain else (hook.line, hook.condition)
    identity = "\0".join((hook.event, hook.matcher, *more))
    return hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _intersection(one: tuple[str, ...] | None, other: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if one is None or other is None:
        return other if one is None else one
    return _union((name for name in one if covers(other, name)), (name for name in other if covers(one, name)))


def _union(one: Iterable[str], other: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*one, *other)))


@cache
def load_prompt(stem: str, *, compact: bool = False) -> str:
    """Return the text of `prompts/<stem>.md`, or of `prompts/compact/<stem>.md`."""
    directory = Path(__file__).parent / "prompts"
    return (
        (directory / "compact" / f"{stem}.md" if compact else directory / f"{stem}.md")
        .read_text(encoding="utf-8")
        .strip()
    )


FORK_TYPE = AgentType("fork", "A copy of its caller, with one job.")
"""The properties of a fork that differ from its caller's. No call can name this type."""


@cache
def hook_type() -> AgentType:
    """Return the agent type of hooks of the type `agent`. No call can name it."""
    description = "Judges a condition for a hook."
    tools = ("Read", "Glob", "Grep", "Bash")
    return AgentType("hook", description, load_prompt("hook"), tools, max_turns=50, is_hook=True)


@cache
def built_in_types() -> dict[str, AgentType]:
    """Return the kinds that are always there, by name."""
    kinds = (
        AgentType("general-purpose", "Any job: searching, changing files, running commands."),
        AgentType(
            "Explore",
            "Finds things in code and answers with paths and lines. Only reads.",
            load_prompt("explore"),
            READ_TOOLS,
            read_only=True,
        ),
        AgentType(
            "Plan",
            "Reads code and plans a change step by step. Only reads.",
            load_prompt("plan"),
            READ_TOOLS,
            read_only=True,
        ),
        AgentType("Bash", "Runs commands and reports what they print.", load_prompt("shell"), ("Bash",)),
    )
    return {kind.name: kind for kind in kinds}


def find_agent_type(name: str, known: Mapping[str, AgentType] | None = None) -> AgentType:
    """Return the kind of that name, without regard to case. Raises UsageError naming the nearest."""
    kinds = built_in_types() if known is None else known
    found = kinds.get(name) or next((kind for key, kind in kinds.items() if key.lower() == name.lower()), None)
    if found is None:
        close = nearest(name, kinds)
        raise UsageError(
            "usage",
            f"there is no agent type {name[:80]!r}",
            looked_at=[("types", join_names(kinds))],
            do=[f"use {close}"] if close else ["use one of these, or name no type for a general-purpose agent"],
            note="nothing was started",
        )
    return found


def join_names(names: Iterable[str], most: int = MAX_LISTED) -> str:
    """Return the first names in one line, and the number of the others."""
    every = list(names)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more
