"""Clearing: an agent goes on with an empty conversation, by a person's word; no model is asked, no summary is written.

The transcript gets a compaction's line, whose one message says how things stand; all before it stays in the file. The
prefix is the same, so that the service reads it from its cache. Knows the agent; does not know whether it may be.
"""

from __future__ import annotations

from teamwright.agent.agent import Agent
from teamwright.agent.compacting.measure import context_of
from teamwright.agent.compacting.state import CLEAR, Shortened
from teamwright.agent.compacting.words import cleared_blocks
from teamwright.protocol.blocks import encode
from teamwright.protocol.events import Compacted

NOTHING_SAID = "nothing was said yet"


async def clear(agent: Agent) -> Shortened:
    """Let a conversation that rests begin anew. `done` is false where nothing was said yet. Raises TeamwrightError.

    What the agent was told by mail is flagged first, what waits for it goes on waiting. Files count as never read by
    it. Cancelled or killed before the line is written, nothing is changed; afterwards all of it is.
    """
    compaction, conversation = agent.compaction, agent.conversation
    async with compaction.turn:
        agent.catch_up()
        before = context_of(conversation, compaction)
        if not conversation.items or len(conversation.items) == int(conversation.compacted):
            return Shortened(False, before, before, NOTHING_SAID)
        await compaction.beside.flagged()
        await agent.hooks.ended_by(CLEAR)
        tags, contexts = agent.tags, await agent.hooks.began_anew(agent.model.card.name, CLEAR)
        told = cleared_blocks(tags, await compaction.beside.restated(), agent.remind(True))
        told += tags.hook_notes(contexts)
        conversation.clear(encode({"role": "user", "content": told}), {"trigger": CLEAR, "before": before})
        compaction.measured, compaction.again_at = (0, 0), 0
        agent.toolbox.workplace.readings.clear()
        if compaction.forgotten is not None:
            compaction.forgotten()
        after = context_of(conversation, compaction)
    agent.emit(Compacted(member=agent.name, state="done", trigger=CLEAR, before=before, after=after))
    return Shortened(True, before, after)
