"""The plan that a member handed in and that is not answered yet: for whom it waits, and how that is said.

A value. Knows the conversation's last line; refuses to know requests and who answers.
"""

from __future__ import annotations

from teamwright.agent.conversation import Conversation
from teamwright.protocol.ids import LEAD
from teamwright.protocol.values import dataclass

USER = "user"
"""For whom a plan waits that a person approves."""


@dataclass(frozen=True, slots=True)
class Awaited:
    """`request` is the id of the open request, empty when none is open; `whom` may answer it."""

    request: str = ""
    whom: str = ""

    @property
    def open(self) -> bool:
        """Whether an answer is waited for."""
        return bool(self.request)

    @property
    def of_person(self) -> bool:
        """Whether a person is asked: then the run waits for the answer too."""
        return self.open and self.whom == USER

    @property
    def words(self) -> str:
        """What is waited for, as status shows it."""
        return f"{'the lead' if self.whom == LEAD else 'the user'} to answer its plan"

    def ended(self, conversation: Conversation) -> bool:
        """Whether handing it in was the last thing in the conversation: nothing is owed before the answer is there."""
        if not self.open or not conversation.items or conversation.unanswered():
            return False
        return self.request.encode() in conversation.items[-1]


NOTHING_AWAITED = Awaited()
