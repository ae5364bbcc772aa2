"""Agent definitions: what kind of agent to start. Built-in kinds are data here; others come from files later.

Knows names of tools as words only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from teamwright.protocol.errors import UsageError
from teamwright.protocol.ids import nearest

TEAMMATE_TOOLS = ("SendMessage", "TaskCreate", "TaskGet", "TaskList", "TaskUpdate")
"""What a teammate of any kind has beside its definition's tools."""

LEAD_ONLY = frozenset({"TeamCreate", "TeamDelete"})
"""Tools of the lead: no teammate and no sub-agent has them."""

NOT_FOR_SUBAGENTS = LEAD_ONLY | {"Agent", "SendMessage", "ListAgents", "AskUserQuestion", *TEAMMATE_TOOLS}
"""A sub-agent does one job and answers once: it has no team, no list, nobody to ask, and no sub-agents."""

READING = ("Bash", "Read", "Glob", "Grep", "WebFetch")


@dataclass(frozen=True, slots=True)
class AgentDefinition:
    """A kind of agent. `tools` None means all; `prompt` is the body; `model` None means the caller's.

    `read_only`: calls that are not proven to change nothing are refused, the shell's included.
    """

    name: str
    description: str
    prompt: str = ""
    tools: tuple[str, ...] | None = None
    disallowed_tools: tuple[str, ...] = ()
    model: str | None = None
    max_turns: int | None = None
    read_only: bool = False

    def allows(self, tool: str) -> bool:
        """Whether an agent of this kind has the tool of that name."""
        return (self.tools is None or tool in self.tools) and tool not in self.disallowed_tools


@cache
def prompt(stem: str) -> str:
    """The text of `prompts/<stem>.md`."""
    return (Path(__file__).parent / "prompts" / f"{stem}.md").read_text(encoding="utf-8").strip()


@cache
def built_in() -> dict[str, AgentDefinition]:
    """The kinds that are always there, by name."""
    kinds = (
        AgentDefinition("general-purpose", "Any job: searching, changing files, running commands."),
        AgentDefinition(
            "Explore",
            "Finds things in code and answers with paths and lines. Only reads.",
            prompt("explore"),
            READING,
            read_only=True,
        ),
        AgentDefinition(
            "Plan", "Reads code and plans a change step by step. Only reads.", prompt("plan"), READING, read_only=True
        ),
        AgentDefinition("Bash", "Runs commands and reports what they print.", prompt("shell"), ("Bash",)),
    )
    return {kind.name: kind for kind in kinds}


def find_definition(name: str, known: dict[str, AgentDefinition] | None = None) -> AgentDefinition:
    """The kind of that name, without regard to case. Raises UsageError naming the nearest."""
    kinds = built_in() if known is None else known
    found = next((kind for key, kind in kinds.items() if key.lower() == name.lower()), None)
    if found is None:
        close = nearest(name, kinds)
        raise UsageError(
            "usage",
            f"there is no agent type {name!r}",
            looked_at=[("types", ", ".join(kinds))],
            do=[f"use {close}"] if close else ["leave subagent_type out for a general-purpose agent"],
            note="nothing was started",
        )
    return found
