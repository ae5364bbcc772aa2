"""How often a model is asked again for an answer that ended early, and the failure of a turn that gave up.

Knows the table of ends (`models.ends`); calls no model and stores nothing.
"""

from __future__ import annotations

from teamwright.agent.agent import Agent
from teamwright.agent.listening import warn_of_call_as_text
from teamwright.models.ends import ENDS, SLUG, End
from teamwright.models.model import Failure, ModelCard, Reply


class AskedAgain:
    """Counts the answers of one turn that ended early in the same way, one after the other."""

    __slots__ = ("_call_as_text", "_count", "_end")

    def __init__(self) -> None:
        self._end = End.DONE
        self._count = 0
        self._call_as_text = False

    def may_call_again(self, agent: Agent) -> bool:
        """Return whether a model whose call came as text is asked again: once a turn; then the user is warned."""
        if self._call_as_text or not agent.toolbox.offered:
            warn_of_call_as_text(agent)
            return False
        self._call_as_text = True
        return True

    def failure(self, answer: Reply, end: End, card: ModelCard) -> Failure | None:
        """The failure of the turn that an answer with this end causes; None when the turn continues, or is done."""
        row = ENDS[end]
        self._count = self._count + 1 if end is self._end else 1
        self._end = end
        return no_answer(answer, card) if row.fails and self._count > row.again else None


def no_answer(answer: Reply, card: ModelCard) -> Failure:
    """The failure of an answer that leaves nothing to use. What came of it is kept elsewhere."""
    row = ENDS[answer.end]
    times = f" {row.again + 1} times in a row" if row.again else ""
    said = answer.stop_reason or "no stop reason"
    return Failure(
        SLUG,
        f"{card.name} {row.what}{times} ({said})",
        looked_at=(("end", str(answer.end)), *([("request", answer.request_id)] if answer.request_id else [])),
        do=(row.do,),
    )
