"""A sub-agent: one job, one answer, a transcript of its own.

Handed a ready agent; knows the loop and nothing of who asked. The result's fields are those of the ecosystem's
`completed` result.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from teamwright.agent.agent import Agent, TurnEnd
from teamwright.agent.conversation import Told
from teamwright.agent.stopping import run_past_stops
from teamwright.hooks.book import SUBAGENT_STOP
from teamwright.protocol.blocks import text_block
from teamwright.protocol.usage import Usage


@dataclass(frozen=True, slots=True)
class SubagentResult:
    """What a sub-agent gave back. `partial` is true when it failed after saying something."""

    agent_id: str
    text: str
    end: TurnEnd
    usage: Usage
    tool_uses: int
    duration_ms: int

    @property
    def ok(self) -> bool:
        """Whether it came to its end."""
        return self.end.stop == "done"

    def facts(self, prompt: str) -> dict[str, object]:
        """The fields of the result for programs."""
        return {
            "status": "completed" if self.ok else "budget_exceeded" if self.end.stop == "limit" else "failed",
            "prompt": prompt,
            "agentId": self.agent_id,
            "content": [text_block(self.text)] if self.text else [],
            "totalDurationMs": self.duration_ms,
            "totalTokens": self.usage.tokens,
            "totalToolUseCount": self.tool_uses,
            "usage": self.usage.as_json(),
        }


async def run_subagent(agent: Agent, prompt: str) -> SubagentResult:
    """Run the job to its end. Cancelling is re-raised after the transcript is in order."""
    started = time.monotonic()
    outcome, said = "cancelled", ""

    async def goes_on(end: TurnEnd, again: bool) -> str:
        stopping = await agent.hooks.may_stop(SUBAGENT_STOP, end.text, again=again)
        return stopping.reason if stopping.blocked and not stopping.halted else ""

    try:
        told = (text_block(prompt), *await agent.hooks.began())
        end = await run_past_stops(agent, Told(told, (f"prompt:{agent.agent_id}",)), goes_on)
        outcome, said = end.stop, end.text
    except Exception:
        outcome = "failed"
        raise
    finally:
        agent.conversation.close()
        agent.hooks.ended(outcome, said=said)
    took_ms = int((time.monotonic() - started) * 1000)
    return SubagentResult(agent.agent_id, end.text, end, end.usage, end.tools, took_ms)
