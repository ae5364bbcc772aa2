"""A new prefix in an agent's life: another model, or other words and tools before the same conversation.

Only between two model calls. What was said stays; thinking is not sent again, for it is bound to what stood before it.
Knows the agent and its compaction's port for a fresh prefix; does not know what is in one.
"""

from __future__ import annotations

from teamwright.agent.agent import Agent
from teamwright.models.model import Model


def begin_anew(agent: Agent, why: str, model: Model | None = None) -> bool:
    """Go on with the prefix that this agent would be born with today, with that model. Whether it is another one.

    `why` (`model`, `reload`) goes into the transcript. Raises StorageError.
    """
    compaction, conversation = agent.compaction, agent.conversation
    before = agent.model
    if model is not None:
        agent.model = model
        agent.toolbox.workplace.images = model.card.images
    try:
        prefix = conversation.prefix if compaction.fresh is None else compaction.fresh()
        if prefix.digest == conversation.prefix.digest:
            return False
        conversation.begin(prefix, {"why": why, "model": agent.model.card.name})
    except BaseException:
        agent.model = before
        raise
    compaction.measured, compaction.again_at = (0, 0), 0
    return True
