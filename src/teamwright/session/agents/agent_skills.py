"""The skills and the memory in an agent's initial prompt, by its definition.

The agent's policy is extended by the directory of its memory only. Depends on definitions, skill catalogs and policies.
"""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from teamwright.agent.agent_type import AgentType
from teamwright.permissions.permission_decision import Policy
from teamwright.protocol.errors import UsageError
from teamwright.protocol.events import Emit, Notice
from teamwright.protocol.ids import LEAD
from teamwright.skills.agent_memory import memory_directory, memory_prompt, parse_scope
from teamwright.skills.skill_catalog import SkillCatalog


def with_skills(
    kind: AgentType, policy: Policy, shelf: SkillCatalog, home: Path, emit: Emit, *, otherwise: str = ""
) -> AgentType:
    """Return the agent type with its skills and memory in its prompt. Unavailable ones are left out and reported.

    `policy` is the agent's own, which allows the memory from now on. `home` is the user's state root; `otherwise` is
    the prompt of an agent type without one.
    """
    if kind.memory is None and not kind.skills:
        return kind
    texts, missing = shelf.preload(kind.skills)
    for what in missing:
        _warn(emit, f"the agent type {kind.name} begins without a skill: {what}")
    parts = (kind.prompt or otherwise, texts, _memory(kind, policy, home, emit))
    return replace(kind, prompt="\n\n".join(part for part in parts if part))


def _memory(kind: AgentType, policy: Policy, home: Path, emit: Emit) -> str:
    if kind.memory is None:
        return ""
    root = policy.scope.base
    try:
        prompt = memory_prompt(kind.memory, kind.name, root, home)
        policy.allow_memory(memory_directory(parse_scope(kind.memory), kind.name, root, home))
    except UsageError as problem:
        _warn(emit, f"the agent type {kind.name} begins without memory: {problem.what}")
        return ""
    return prompt


def _warn(emit: Emit, text: str) -> None:
    emit(Notice(member=LEAD, text=text, level="warning"))
