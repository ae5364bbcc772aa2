"""A sub-agent: one job, one answer, a transcript of its own.

Handed a ready agent; knows the loop and nothing of who asked. The result's fields are those of the ecosystem's
`completed` result.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from teamwright.agent.conversation import Told
from teamwright.agent.loop import Agent, TurnEnd, run_turn
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
            "status": "completed" if self.ok else "failed",
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
    try:
        end = await run_turn(agent, Told((text_block(prompt),), (f"prompt:{agent.agent_id}",)))
    finally:
        agent.conversation.close()
    took_ms = int((time.monotonic() - started) * 1000)
    return SubagentResult(agent.agent_id, end.text, end, end.usage, end.tools, took_ms)
