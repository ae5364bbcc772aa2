"""The Skill tool: returns a skill's text or one of its files; a skill with `fork` runs in a sub-agent.

Depends on the skill catalog; grants no permission and runs no script.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from pydantic import Field

from teamwright.agent.tool import Tool, ToolContext, ToolResult
from teamwright.agent.tool_input import ToolInput
from teamwright.permissions.verdict import Access
from teamwright.protocol.messages import text_block
from teamwright.skills.skill_catalog import SkillCatalog, list_files
from teamwright.skills.skill_definition import fill_text
from teamwright.team_records.spawn_spec import SpawnSpec

MAX_TEXT = 60_000
"""The most characters of one answer: some 15,000 tokens."""

MAX_FILES = 60
"""The most file names of a skill that are listed after its text."""


RunFork: TypeAlias = Callable[[SpawnSpec, ToolContext], Awaitable[ToolResult]]
"""Runs a sub-agent to its end for the call and returns the result for its caller's model; set by `session`."""


class SkillInput(ToolInput):
    """Parameters of Skill."""

    skill: str = Field(description="Name of the skill.")
    args: str = Field("", description="Input of the skill.")
    file: str = Field("", description="Name of another file of the skill.")


class SkillTool(Tool[SkillInput]):
    """The Skill tool of one agent. Without `fork`, which sub-agents lack, no skill runs in a sub-agent."""

    name = "Skill"
    input_type = SkillInput

    def __init__(self, shelf: SkillCatalog, fork: RunFork | None = None) -> None:
        self._shelf = shelf
        self._fork = fork

    def is_read_only(self, call: SkillInput) -> bool:
        """Return True: reading changes nothing, and a sub-agent's calls are decided one by one."""
        return True

    def can_rerun(self, call: SkillInput) -> bool:
        """Return True: reading can be repeated, and the sub-agent of an interrupted call is found again."""
        return True

    def summary(self, call: SkillInput) -> str:
        """Return the skill, and the file."""
        return " ".join(part for part in (call.skill, call.file or call.args) if part)[:200]

    def access(self, call: SkillInput, ctx: ToolContext) -> Access:
        """Return an access for `Skill(name)` rules. Reading a skill touches nothing else."""
        return Access(subject=call.skill.strip().lstrip("/"), harmless=True)

    async def run(self, call: SkillInput, ctx: ToolContext) -> ToolResult:
        """Return the text, or the sub-agent's answer. Raises UsageError with the nearest name."""
        skill = self._shelf.get_skill(call.skill)
        if call.file:
            return _cut_result(self._shelf.read_file(skill, call.file), f"{skill.name}: {call.file}")
        text = fill_text(self._shelf.read_body(skill), self._shelf.parse_arguments(skill, call.args))
        if skill.runs_in_subagent and self._fork is not None:
            kind = skill.agent or "general-purpose"
            spec = SpawnSpec(text, description=f"skill {skill.name}", agent_type=kind, model=skill.model)
            return await self._fork(spec, ctx)
        header = f"Skill {skill.name}, in {skill.base}"
        if files := list_files(skill, MAX_FILES):
            more = " and more" if len(files) == MAX_FILES else ""
            header += f"\nIts files, to be read with `file`: {', '.join(files)}{more}"
        return _cut_result(f"{header}\n\n{text}", skill.name)


def _cut_result(text: str, brief: str) -> ToolResult:
    if len(text) > MAX_TEXT:
        text = f"{text[:MAX_TEXT]}\n[cut at {MAX_TEXT:,} of {len(text):,} characters]"
    return ToolResult([text_block(text)] if text else "(empty)", brief=brief)
