"""Skill: the text of a skill on demand, and the files beside it; one that forks runs in a sub-agent.

The names and one line of each are part of the description, so that a model knows what there is before it has read any
of it. Knows the shelf; grants nothing and runs no script.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from pydantic import Field

from teamwright.agent.tool import Tool, ToolContext, ToolInput, ToolResult, read_description
from teamwright.permissions.verdict import Access
from teamwright.protocol.messages import text_block
from teamwright.skills.command_template import CommandArguments, fill_text
from teamwright.skills.skill_catalog import SkillCatalog, list_for_model
from teamwright.skills.skill_definition import SkillDefinition
from teamwright.skills.skill_search import list_files
from teamwright.teams.spawn_spec import SpawnSpec

MAX_TEXT = 60_000
"""Characters of one answer: some 15,000 tokens."""

MAX_FILES = 60
"""Files of a skill that are named along with its text."""


RunFork: TypeAlias = Callable[[SpawnSpec, ToolContext], Awaitable[ToolResult]]
"""Runs a sub-agent to its end for the call; what its caller's model reads of it. Filled in `app`."""


class SkillInput(ToolInput):
    """Parameters of Skill."""

    skill: str = Field(description="Name of the skill.")
    args: str = Field("", description="Input of the skill.")
    file: str = Field("", description="Name of another file of the skill.")


class SkillTool(Tool[SkillInput]):
    """Reads skills of the shelf for one agent. Without `fork`, which sub-agents lack, none runs in a sub-agent."""

    name = "Skill"
    input_type = SkillInput

    def __init__(self, shelf: SkillCatalog, fork: RunFork | None = None) -> None:
        self._shelf = shelf
        self._fork = fork

    def without_fork(self) -> SkillTool:
        """The same for an agent that starts no others."""
        return SkillTool(self._shelf)

    @property
    def description(self) -> str:
        """The text beside, and the skills."""
        return f"{read_description(type(self))}\n\n{list_for_model(self._shelf.for_models)}"

    def is_read_only(self, call: SkillInput) -> bool:
        """Reading changes nothing; what a sub-agent does is decided call by call."""
        return True

    def can_rerun(self, call: SkillInput) -> bool:
        """Reading may be done again, and a sub-agent of a call that was cut off is found again."""
        return True

    def summary(self, call: SkillInput) -> str:
        """The skill, and which file of it."""
        return " ".join(part for part in (call.skill, call.file or call.args) if part)[:200]

    def access(self, call: SkillInput, ctx: ToolContext) -> Access:
        """`Skill(name)` rules look at the name; reading one touches nothing else."""
        return Access(subject=call.skill.strip().lstrip("/"), harmless=True)

    async def run(self, call: SkillInput, ctx: ToolContext) -> ToolResult:
        """The text, or the sub-agent's answer. Raises UsageError with the nearest name."""
        recipe = self._shelf.get_skill(call.skill)
        if call.file:
            return _cut_result(self._shelf.read_file(recipe, call.file), f"{recipe.name}: {call.file}")
        text = fill_text(self._shelf.read_body(recipe), CommandArguments.parse(call.args, directory_variables(recipe)))
        if recipe.runs_in_subagent and self._fork is not None:
            kind = recipe.agent or "general-purpose"
            spec = SpawnSpec(text, description=f"skill {recipe.name}", agent_type=kind, model=recipe.model)
            return await self._fork(spec, ctx)
        return _cut_result(f"{_skill_header(recipe)}\n\n{text}", recipe.name)


def directory_variables(recipe: SkillDefinition) -> dict[str, str]:
    """The `${NAME}` values that a recipe's text may hold."""
    base = str(recipe.base)
    return {"CLAUDE_SKILL_DIR": base, "TEAMWRIGHT_SKILL_DIR": base}


def _skill_header(recipe: SkillDefinition) -> str:
    files = list_files(recipe, MAX_FILES)
    lines = [f"Skill {recipe.name}, in {recipe.base}"]
    if files:
        more = " and more" if len(files) == MAX_FILES else ""
        lines.append(f"Its files, to be read with `file`: {', '.join(files)}{more}")
    return "\n".join(lines)


def _cut_result(text: str, brief: str) -> ToolResult:
    if len(text) > MAX_TEXT:
        text = f"{text[:MAX_TEXT]}\n[cut at {MAX_TEXT:,} of {len(text):,} characters]"
    return ToolResult([text_block(text)] if text else "(empty)", brief=brief)
