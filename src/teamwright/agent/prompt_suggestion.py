"""A suggestion for the user's next line, which the lead's model writes from its cached conversation."""

from __future__ import annotations

from teamwright.agent.agent import Agent
from teamwright.agent.side_call import ask_aside, fork_for_side_call
from teamwright.protocol.events import SideCallEnded

PROMPT_SUGGESTION = "prompt suggestion"
"""The purpose of the call in events, in budgets and in the cost."""

MAX_ANSWER_TOKENS = 60
"""The longest answer, in tokens."""

MAX_SUGGESTION = 100
"""The longest suggestion, in characters. A longer answer is no line that a person would type."""

NO_SUGGESTION = "NONE"

NOTE = (
    "Which line will the user most likely type next? Write that line alone, in the user's words and language, as short "
    f"as they would type it, without quotes. Write {NO_SUGGESTION} when no line clearly follows from the conversation. "
    "No tool runs, and you will not remember this."
)

_MARKS = ("!", "/", "#", "@", "?")
"""First characters that the terminal reads as a command: such a line is never suggested."""


async def suggest_prompt(agent: Agent) -> str:
    """Return a line that the user may type next; empty without one. The agent's conversation stays as it is.

    The usage is charged to the agent. A cancel ends the call.
    """
    asked = fork_for_side_call(agent, MAX_ANSWER_TOKENS)
    answer = await ask_aside(asked, agent.tags.reminder(NOTE), PROMPT_SUGGESTION)
    line = answer.text.strip("\"`'").strip()
    fits = line and line != NO_SUGGESTION and len(line) <= MAX_SUGGESTION and line.isprintable()
    text = line if fits and not line.startswith(_MARKS) else ""
    agent.emit(SideCallEnded(member=agent.name, purpose=PROMPT_SUGGESTION, text=text, detail=answer.why_none))
    return text
