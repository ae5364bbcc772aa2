"""The system prompt of each agent: base, limits, environment, the project's instructions, and the agent's part.

Depends on agent types and instructions. A prompt is composed once, when the agent starts; later changes arrive at the
end of the conversation.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from teamwright.agent.agent_type import AgentType, load_prompt
from teamwright.agent.instructions import Instruction
from teamwright.protocol.messages import Block, text_block
from teamwright.protocol.runtime_tags import REMINDER

_NO_TRAILER = "Add no trailer and no advertisement to commit messages."


class PromptEnvironment(Struct, frozen=True):
    """The environment in the prompt: directory, allowed directories, branch (None outside git), platform."""

    cwd: Path
    roots: tuple[Path, ...]
    branch: str | None
    platform: str
    headless: bool = False
    git_trailer: str = ""
    """The last line of each commit message, by the setting of that name; empty: commits have no trailer."""
    notice: str = ""
    """Facts about the agent's worktree for its prompt; empty for an agent without one."""

    def text(self) -> str:
        """Return the environment part, with today's date."""
        return _environment_text(self, date.today())

    def text_on(self, today: date) -> str:
        """Return the environment part for that day."""
        others = ", ".join(str(root) for root in self.roots if root != self.cwd)
        git = f"a git repository, branch {self.branch}" if self.branch is not None else "not a git repository"
        lines = [
            "# Where you are",
            f"Directory: {self.cwd} ({git})",
            *([f"You may also use: {others}"] if others else []),
            f"Platform: {self.platform}. Date: {today.isoformat()}.",
        ]
        if self.branch is not None:
            line = " ".join(self.git_trailer.split())
            lines.append(f"End each commit message with this line: {line}" if line else _NO_TRAILER)
        if self.notice:
            lines.append(self.notice)
        if self.headless:
            lines.append("No user is present to answer questions.")
        return "\n".join(lines)


def lead_part(teams: bool) -> str:
    """Return the lead's part; empty when teams are switched off."""
    return load_prompt("lead") if teams else ""


def teammate_part(name: str, team: str) -> str:
    """Return the part of a teammate."""
    return load_prompt("member").replace("{name}", name).replace("{team}", team)


def tags_part(key: str) -> str:
    """Return the part that explains the runtime's tags; empty for a conversation without a key."""
    return load_prompt("tags").replace("{tag}", f'<{REMINDER} key="{key}">').replace("{key}", key) if key else ""


def instructions_part(instructions: Sequence[Instruction]) -> str:
    """Return the project's and the user's instructions, each with its file."""
    if not instructions:
        return ""
    parts = ["# Instructions of the user and the project", "Follow them where they concern your job."]
    parts += [f"From {one.path}:\n{one.text.strip()}" for one in instructions]
    return "\n\n".join(parts)


def compose(shared: Sequence[str], own: Sequence[str]) -> list[Block]:
    """Return the system prompt as blocks: the parts that all agents of the session have, then the agent's own.

    Empty parts are left out. Services cache equal beginnings, so a name or a role is never in the first block.
    """
    return [text_block(text) for text in (_join_parts(tuple(shared)), _join_parts(tuple(own))) if text]


@lru_cache(maxsize=8)
def _environment_text(place: PromptEnvironment, today: date) -> str:
    return place.text_on(today)


@lru_cache(maxsize=32)
def _join_parts(parts: tuple[str, ...]) -> str:
    """Join the parts; the result is the same for all agents of a type."""
    return "\n\n".join(part.strip() for part in parts if part.strip())


class SessionPart(Struct, frozen=True):
    """The part of the prompt that all agents of a session have: limits, environment, key of tags, instructions."""

    environment: PromptEnvironment
    key: str
    instructions: Sequence[Instruction]

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts of the part, in order."""
        return load_prompt("limits"), self.environment.text(), tags_part(self.key), instructions_part(self.instructions)


def teammate_prompt(name: str, team: str, definition: AgentType, session: SessionPart) -> list[Block]:
    """Return base and the session's part; then the team part and the definition's body under its own heading."""
    body = f"# Your role: {definition.name}\n{definition.prompt}" if definition.prompt else ""
    return compose((load_prompt("base"), *session.texts), (teammate_part(name, team), body))


def subagent_prompt(definition: AgentType, session: SessionPart) -> list[Block]:
    """Return base, or the definition's body in its place, and the session's part; then the sub-agent's part."""
    return compose((definition.prompt or load_prompt("base"), *session.texts), (load_prompt("subagent"),))


def lead_prompt(teams: bool, session: SessionPart, appended: str = "", base: str = "") -> list[Block]:
    """Return base and the session's part; then the lead's part and what the user appended.

    `base` replaces the base text.
    """
    return compose((base or load_prompt("base"), *session.texts), (lead_part(teams), appended))
