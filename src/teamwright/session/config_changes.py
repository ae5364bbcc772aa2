"""Differences between two readings of a session's configuration, in lines for people."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import fields
from typing import Any

from teamwright.agent.instructions import Instruction
from teamwright.config.settings.settings import Settings
from teamwright.permissions.rules import Rule
from teamwright.skills.skill_catalog import SkillCatalog

IN_LIFE = frozenset({"rules", "compact", "mcp", "skills", "skills_off"})
"""Settings that a session applies while it runs."""

_NOT_COMPARED = frozenset(
    {"mode", "delegates", "warnings", "origins", "limits", "plan_approval", "lead_answers", "check"}
)
"""Settings that other commands change at run time, that a team file may have changed, or that have no comparable
value.
"""


def describe_change(what: str, before: Mapping[str, Hashable], after: Mapping[str, Hashable]) -> list[str]:
    """Return a line with added (+), removed (-) and changed (~) names; none without a difference."""
    came = [f"+ {name}" for name in after if name not in before]
    went = [f"- {name}" for name in before if name not in after]
    other = [f"~ {name}" for name in after if name in before and before[name] != after[name]]
    return [f"{what}: {', '.join([*came, *went, *other])}"] if came or went or other else []


def instruction_changes(before: Iterable[Instruction], after: Iterable[Instruction]) -> list[str]:
    """Return the changes of files in an agent's initial instructions."""
    return describe_change("instructions", {str(i.path): i.text for i in before}, {str(i.path): i.text for i in after})


def skill_changes(before: SkillCatalog, after: SkillCatalog) -> list[str]:
    """Return the changes of skills and commands, by their headers: their texts are read at each use."""
    lines: list[str] = []
    for kind in ("skill", "command"):
        old, new = ({r.name: repr(r) for r in shelf.callable_skills if r.kind == kind} for shelf in (before, after))
        lines += describe_change(f"{kind}s", old, new)
    return lines


def agent_type_changes(before: str, after: str) -> list[str]:
    """Return the changes of agent types, by the lead's descriptions of them."""
    return describe_change("agent types", _told(before), _told(after))


def rule_changes(before: Iterable[Rule], after: Iterable[Rule]) -> list[str]:
    """Return the changes of permission rules in settings."""
    old, new = ({f"{rule.verdict} {rule.text}": rule.by_user for rule in rules} for rules in (before, after))
    return describe_change("permissions", old, new)


def changes_at_next_start(before: Settings, after: Settings) -> list[str]:
    """Return the changed settings that take effect at the next start."""
    names = [one.name for one in fields(Settings) if one.name not in IN_LIFE | _NOT_COMPARED]
    return [name for name in names if _value(before, name) != _value(after, name)]


def _value(settings: Settings, name: str) -> Any:
    return getattr(settings, name)


def _told(text: str) -> dict[str, str]:
    lines = [line.removeprefix("- ") for line in text.split("\n") if line.startswith("- ")]
    return {line.partition(": ")[0]: line for line in lines}
