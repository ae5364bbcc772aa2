"""The effect of a team definition on agents: agent types, specs with a role's values, path ownership, text for the
lead.

Restrictions apply at once; any other part of a repository's file applies once a person trusted exactly this part.
Depends on the definition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from teamwright.agent.agent_type import AgentType, built_in_types
from teamwright.agent.spawn_limits import SpawnSettings
from teamwright.config.team_definition import Role, TeamDefinition
from teamwright.permissions.ownership import OwnedPaths, PathOwnership
from teamwright.permissions.rules import PathPattern
from teamwright.teams.spawn_spec import SpawnSpec

DEFAULT_TYPE = "general-purpose"


def widening_of_role(role: Role) -> dict[str, Any]:
    """Return the parts of a role that need trust: prompts, model and granted permissions of its agents."""
    said = {
        "description": role.description,
        "type": role.type,
        "model": role.model,
        "effort": role.effort,
        "mode": role.mode,
        "prompt": role.prompt,
        "tools": role.tools,
        "command": role.command,
    }
    plain = Role(role.name)
    return {key: value for key, value in said.items() if value != getattr(plain, key)}


def widening_of_team(definition: TeamDefinition) -> dict[str, Any]:
    """Return the parts of `[team]` that need trust: a command to run, the approver in a person's place, and the effort
    of its agents.
    """
    said = {
        "check": definition.check,
        "setup": definition.setup,
        "plans": definition.plans,
        "permissions": definition.permissions,
        "effort": definition.effort,
    }
    return {key: value for key, value in said.items() if value is not None}


def trusted_definition(definition: TeamDefinition, allows: Callable[[str, Mapping[str, Any]], bool]) -> TeamDefinition:
    """Return the definition reduced to its usable parts. `allows` tells whether `team` or a role was trusted in this
    form.
    """
    roles = {name: role if _trusted(role, allows) else _narrowed(role) for name, role in definition.roles.items()}
    said = widening_of_team(definition)
    if said and not allows("team", said):
        return replace(definition, roles=roles, check=None, setup=None, plans=None, permissions=None, effort=None)
    return replace(definition, roles=roles)


def _trusted(role: Role, allows: Callable[[str, Mapping[str, Any]], bool]) -> bool:
    said = widening_of_role(role)
    return not said or allows(role.name, said)


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
    return PathOwnership(owned, only, role.name if role is not None else "", source)


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
            "role: no other member can change them, and neither can you.",
            *lines,
        ]
    )


def _in_words(role: Role) -> str:
    said = [role.description.strip().rstrip(".")] if role.description else []
    if role.owns:
        said.append(f"owns {', '.join(role.owns)}")
    if role.writes is not None:
        said.append(f"changes only {', '.join((*role.writes, *role.owns)) or 'nothing'}")
    if role.command:
        said.append(f"run by {role.command}, another program")
    return "; ".join(said) + "." if said else "a teammate."
