"""How a member stands with its budget: what refused its last call, that the lead hears of it once, and how it goes on.

Knows how a turn ended and who wrote to the member; counts nothing itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from teamwright.agent.agent import TurnEnd
from teamwright.agent.conversation import Conversation
from teamwright.protocol.ids import LEAD, keyed_id, message_id
from teamwright.protocol.mail import Entry

NEXT = (
    "It keeps its open task and takes no other. Stop it to give the task back to the list, "
    "or give the rest to another teammate."
)
"""What the lead may do about it."""

LATER = "It reads this when it gets a larger budget. Do without it until then."
"""What another member is told that writes to it."""


class Capped:
    """The budget of one member, as its life sees it. `why` is empty unless its last turn ended at a cap."""

    __slots__ = ("_raised", "_used", "why")

    def __init__(self) -> None:
        self.why = ""
        self._raised = self._used = False

    def note(self, end: TurnEnd) -> str:
        """A turn ended; what kept it from going on, if a cap did."""
        self.why = end.why if end.capped else ""
        self._raised, self._used = False, end.rounds > 0
        return self.why

    def words(self, tail: str) -> str:
        """Why it rests, as the lead is told; `tail` when no cap is in its way."""
        return f"{self.why}. {NEXT}" if self.why else tail

    def notice_id(self, conversation: Conversation, entries: Sequence[Entry]) -> str:
        """The id of the notice: the same while nothing was used and no cap was raised, unless the lead wrote to it."""
        if not self.why or (not self._used and any(entry.sender == LEAD for entry in entries)):
            return message_id()
        return keyed_id(conversation.header.get("session"), conversation.path.stem, self.why)

    def raise_(self) -> bool:
        """A larger budget came: whether a turn waits for it."""
        self._raised = bool(self.why)
        return self._raised

    def may_go_on(self) -> bool:
        """Whether the turn that a cap cut short may go on now; asked once for each larger budget."""
        raised, self._raised = self._raised, False
        return raised
