"""A team definition: its values, the table of its keys, which drives the reader, and its effect on agents.

The effect: agent types, specs with a role's values, path ownership, text for the lead. Restrictions apply at once; any
other part of a repository's file applies once a person trusted exactly this part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.agent.agent_type import AgentType, built_in_types
from teamwright.agent.spawn_limits import SpawnSettings
from teamwright.models.effort import EXPECTED_TEXT as EFFORTS
from teamwright.models.effort import Effort
from teamwright.permissions.path_ownership import OwnedPaths, PathOwnership
from teamwright.permissions.rules import PathPattern
from teamwright.protocol.budget import NO_CAPS, Budget
from teamwright.protocol.review import Reviewer
from teamwright.sandbox.policy import UNBOUNDED, SandboxSettings
from teamwright.team_records.spawn_spec import SpawnSpec


class Role(Struct, frozen=True):
    """One role, whose limits apply to each member of it; `line` is its first line in the file.

    `type` is the agent type that it builds on; `model`, `effort`, `mode` None mean those of the spawn call; `owns` are
    path patterns that only its members may change; `writes` the only other paths that it may change (None: all unowned
    paths). `command` names the command of the user's settings that runs its teammates; `isolation` says
    whether each has a worktree.
    """

    name: str
    description: str = ""
    type: str = "general-purpose"
    model: str | None = None
    effort: Effort | None = None
    mode: str | None = None
    prompt: str = ""
    tools: tuple[str, ...] | None = None
    disallowed_tools: tuple[str, ...] = ()
    owns: tuple[str, ...] = ()
    writes: tuple[str, ...] | None = None
    max_turns: int | None = None
    budget: Budget = NO_CAPS
    command: str = ""
    isolation: str | None = None
    sandbox: SandboxSettings = UNBOUNDED
    line: int = 1


class TeamDefinition(Struct, frozen=True):
    """A whole file. `budget` caps the run, `check` must pass before a task is completed; None when not given.

    `effort` is the reasoning effort of started agents for which neither call nor definition gives one. `plans` names
    the approver of plans, `permissions` the approver of teammates' permission requests besides the person. `setup`
    prepares each new worktree; `integration_check` must pass on each merge of finished work; `isolation` applies to all
    members whose role names none. `review` is the least review of every task. `strict`: changes that only a person
    may allow, by path ownership, are denied.
    """

    file: str = ""
    roles: dict[str, Role] = field(default_factory=dict[str, Role])
    check: str | None = None
    plans: str | None = None
    permissions: str | None = None
    setup: str | None = None
    integration_check: str | None = None
    isolation: str | None = None
    review: str | None = None
    strict: bool = False
    members: int | None = None
    effort: Effort | None = None
    budget: Budget = NO_CAPS
    sandbox: SandboxSettings = UNBOUNDED

    def role(self, name: str) -> Role | None:
        """Return the role of that name, without regard to case."""
        lower = name.lower()
        return next((role for key, role in self.roles.items() if key.lower() == lower), None)


class KeyKind(Struct, frozen=True):
    """The type of a key: `text`, `texts`, `count`, `number`, `bool`, `effort`, `budget`, `sandbox`, or one of `words`.

    `meaning` is its text in the reference.
    """

    kind: str
    words: tuple[str, ...] = ()
    meaning: str = ""


_WORD_MODES = ("default", "acceptEdits", "plan", "delegate", "dontAsk")

TEAM: dict[str, KeyKind] = {
    "check": KeyKind("text", meaning="A command; a task is completed only when it ends with 0."),
    "plans": KeyKind("word", ("lead", "human", "auto"), meaning="The approver of plans."),
    "permissions": KeyKind(
        "word", ("human", "lead"), meaning="`lead`: the lead may answer permission requests of teammates."
    ),
    "setup": KeyKind("text", meaning="A command that prepares each new worktree."),
    "isolation": KeyKind(
        "word", ("worktree", "none"), meaning="`worktree` or `none`, for each member whose role has none."
    ),
    "review": KeyKind(
        "word", tuple(Reviewer), meaning="`member`, `lead` or `human`: the least review of every new task."
    ),
    "strict": KeyKind(
        "bool",
        meaning="`true`: changes of paths that `owns`, `writes` or a task in progress excludes are denied, not asked.",
    ),
    "members": KeyKind(
        "count", meaning="The most teammates at one time; the smaller of this and your settings counts."
    ),
    "effort": KeyKind("effort", meaning="Effort of agents whose call and definition name none."),
    "budget": KeyKind(
        "budget", meaning="Caps on a run: `usd`, `tokens`, `minutes`, `turns`; the smaller of this and yours counts."
    ),
    "sandbox": KeyKind("sandbox", meaning="Bounds of all commands."),
}
"""The keys of `[team]`."""

ROLE: dict[str, KeyKind] = {
    "description": KeyKind("text", meaning="One line for the lead."),
    "type": KeyKind(
        "text", meaning="The agent type that the role extends: `general-purpose`, `Explore`, `Plan`, `Bash`."
    ),
    "model": KeyKind("text", meaning="Used if the spawn names none."),
    "effort": KeyKind("effort", meaning="Used if the spawn names none."),
    "mode": KeyKind("word", _WORD_MODES, meaning="Used if the spawn names none."),
    "prompt": KeyKind("text", meaning="Added to the member's system prompt."),
    "tools": KeyKind("texts", meaning="The only tools besides mail and tasks, by their whole names."),
    "disallowed_tools": KeyKind(
        "texts", meaning="Tools that the member does not have; rules such as `Bash(git push:*)` belong in settings."
    ),
    "owns": KeyKind("paths", meaning="Paths that other members change only when a person allows it."),
    "writes": KeyKind("paths", meaning="The only other paths that a member changes without asking; `[]`: none."),
    "max_turns": KeyKind("count", meaning="The cap on model calls; the smaller of this and the spawn's counts."),
    "budget": KeyKind("budget", meaning="Caps of each member of the role."),
    "command": KeyKind("text", meaning="The name of a command in your settings that runs its teammates."),
    "isolation": KeyKind("word", ("worktree", "none"), meaning="`worktree` or `none`."),
    "sandbox": KeyKind("sandbox", meaning="Bounds of the commands of its members."),
}
"""The keys of `[roles.NAME]`."""

CHECKS: dict[str, KeyKind] = {
    "integration": KeyKind("text", meaning="A command that must pass on each merge of finished work.")
}
"""The keys of `[checks]`, which all need trust."""

TOPS = ("team", "checks", "roles")

EXPECTED = {
    "text": "a text",
    "texts": "a list of texts",
    "paths": "a list of path patterns below the repository (no leading /, no ..)",
    "count": "a whole number from 1 on",
    "bool": "true or false",
    "number": "a number above 0",
    "effort": EFFORTS,
    "budget": "a table of caps",
}
"""The name of each type in an error."""


DEFAULT_TYPE = "general-purpose"


TEAM_NEEDS_TRUST = frozenset({"check", "setup", "plans", "permissions", "effort"})
ROLE_NEEDS_TRUST = frozenset({"description", "type", "model", "effort", "mode", "prompt", "tools", "command"})
"""Keys that take effect once a person trusted exactly this entry."""


def widening_of_role(role: Role) -> dict[str, Any]:
    """Return the parts of a role that need trust: prompts, model and granted permissions of its agents."""
    parts = {key: getattr(role, key) for key in ROLE if key in ROLE_NEEDS_TRUST}
    plain = Role(role.name)
    return {key: value for key, value in parts.items() if value != getattr(plain, key)}


def widening_of_team(definition: TeamDefinition) -> dict[str, Any]:
    """Return the parts of `[team]` and `[checks]` that need trust: commands to run, the approver in a person's place,
    and the effort of its agents.
    """
    parts = {key: getattr(definition, key) for key in TEAM if key in TEAM_NEEDS_TRUST}
    parts["checks.integration"] = definition.integration_check
    return {key: value for key, value in parts.items() if value is not None}


def trusted_definition(definition: TeamDefinition, allows: Callable[[str, Mapping[str, Any]], bool]) -> TeamDefinition:
    """Return the definition reduced to its usable parts. `allows` tells whether `team` or a role was trusted in this
    form.
    """
    roles = {name: role if _trusted(role, allows) else _narrowed(role) for name, role in definition.roles.items()}
    parts = widening_of_team(definition)
    if parts and not allows("team", parts):
        commands = {"check": None, "setup": None, "integration_check": None}
        return replace(definition, roles=roles, plans=None, permissions=None, effort=None, **commands)
    return replace(definition, roles=roles)


def _trusted(role: Role, allows: Callable[[str, Mapping[str, Any]], bool]) -> bool:
    parts = widening_of_role(role)
    return not parts or allows(role.name, parts)


def _narrowed(role: Role) -> Role:
    """Return the parts of an untrusted role that apply: its name and its restrictions."""
    return Role(
        role.name,
        disallowed_tools=role.disallowed_tools,
        owns=role.owns,
        writes=role.writes,
        isolation=role.isolation,
        max_turns=role.max_turns,
        budget=role.budget,
        sandbox=role.sandbox,
        line=role.line,
    )


def role_definitions(definition: TeamDefinition | None) -> list[AgentType]:
    """Return the roles as agent types."""
    return [_kind(role, definition.file) for role in definition.roles.values()] if definition is not None else []


def _kind(role: Role, file: str) -> AgentType:
    base = built_in_types()[role.type]
    tools = base.tools if role.tools is None else role.tools
    if base.tools is not None and role.tools is not None:
        tools = tuple(tool for tool in role.tools if tool in base.tools)
    return replace(
        base,
        name=role.name,
        description=role.description or base.description,
        prompt="\n\n".join(part for part in (base.prompt, role.prompt.strip()) if part),
        tools=tools,
        disallowed_tools=(*base.disallowed_tools, *role.disallowed_tools),
        model=role.model or base.model,
        effort=role.effort,
        max_turns=role.max_turns or base.max_turns,
        sandbox=role.sandbox,
        source="team file",
        file=f"{file}:{role.line}",
        role=True,
    )


def with_role(spec: SpawnSpec, definition: TeamDefinition | None) -> SpawnSpec:
    """Return the spec with the values of its role: the role named as its type, else the one with the member's name."""
    if definition is None:
        return spec
    role = definition.role(spec.agent_type)
    if role is None and spec.agent_type == DEFAULT_TYPE:
        role = definition.role(spec.name)
    if role is None:
        return replace(spec, isolation=spec.isolation or _team_isolation(spec, definition))
    planned = role.mode == "plan" and spec.mode is None
    return replace(
        spec,
        agent_type=role.name,
        model=spec.model or role.model,
        mode=spec.mode or role.mode,
        plan_mode_required=spec.plan_mode_required or planned,
        max_turns=_least(spec.max_turns, role.max_turns),
        budget=spec.budget.smaller_caps(role.budget),
        command=spec.command or role.command,
        isolation=spec.isolation or role.isolation or _team_isolation(spec, definition),
    )


def _team_isolation(spec: SpawnSpec, definition: TeamDefinition) -> str | None:
    """Return the isolation of all members: sub-agents without a role work where their caller does."""
    return definition.isolation if spec.name else None


def _least(one: int | None, other: int | None) -> int | None:
    return min((cap for cap in (one, other) if cap is not None), default=None)


def ownership_of(definition: TeamDefinition | None, kind: str, base: Path) -> PathOwnership | None:
    """Return the paths that an agent of this type may not change; None when no path is owned by others."""
    if definition is None:
        return None
    role = definition.role(kind)
    owned = tuple(
        OwnedPaths.parse(other.name, pattern, f"{definition.file}:{other.line}", base)
        for other in definition.roles.values()
        if role is None or other.name != role.name
        for pattern in other.owns
    )
    only: tuple[PathPattern, ...] | None = None
    if role is not None and role.writes is not None:
        only = tuple(PathPattern.parse(pattern, base, False) for pattern in (*role.writes, *role.owns))
    if not owned and only is None:
        return None
    source = f"{definition.file}:{role.line}" if role is not None else definition.file
    return PathOwnership(owned, only, role.name if role is not None else "", source, definition.strict)


def ownership_of_tasks(
    definition: TeamDefinition | None, writes: Mapping[str, Sequence[str]], base: Path
) -> PathOwnership | None:
    """Return the paths that the owner of these tasks in progress may change, by their numbers; None without one."""
    if not writes:
        return None
    patterns = tuple(PathPattern.parse(pattern, base, False) for paths in writes.values() for pattern in paths)
    strict = definition is not None and definition.strict
    return PathOwnership((), patterns, f"task {' or '.join(f'#{id}' for id in writes)}", "the task list", strict)


def narrowed_limits(limits: SpawnSettings, definition: TeamDefinition) -> SpawnSettings:
    """Return the limits on starting agents, with at most as many members as the definition allows."""
    members = limits.members if definition.members is None else min(limits.members, definition.members)
    return replace(limits, members=members)


def roles_text(definition: TeamDefinition | None) -> str:
    """Return the text about roles for the lead; empty when there are none."""
    if definition is None or not definition.roles:
        return ""
    lines = [f"- {role.name}: {_in_words(role)}" for role in definition.roles.values()]
    return "\n".join(
        [
            "# Roles of this repository's teams",
            "Start a teammate of a role with its name as `subagent_type`. Give work on files that a role owns to that "
            "role: other members need the user's permission to change them, and so do you.",
            *lines,
        ]
    )


def _in_words(role: Role) -> str:
    phrases = [role.description.strip().rstrip(".")] if role.description else []
    if role.owns:
        phrases.append(f"owns {', '.join(role.owns)}")
    if role.writes is not None:
        phrases.append(f"changes only {', '.join((*role.writes, *role.owns)) or 'nothing'}")
    if role.command:
        phrases.append(f"run by {role.command}, another program")
    return "; ".join(phrases) + "." if phrases else "a teammate."
