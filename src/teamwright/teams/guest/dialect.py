"""The lead's own way to write: which of the two formats of the other product it has, and our mail in that format.

The older one knows no last words in an idle notice: they go before it, as a message. Knows entries and the roster;
writes nothing. Format: docs/guest.md, as observed in 2.1.41 and 2.1.329.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from teamwright.protocol.ids import LEAD, keyed_id
from teamwright.protocol.mail import Entry, IdleNotification, PlanApprovalRequest, fenced, parse_protocol
from teamwright.protocol.roster import TeamConfig
from teamwright.protocol.values import dataclass
from teamwright.teams.mailing.post import summary_of
from teamwright.teams.plans.awaited import Awaited

_PROCESS = "leadProcess"
"""A key of the roster that only the newer format has."""


_WAITS = f"It waits for {Awaited('-', LEAD).words}."
"""What a lead need not be told that has the plan."""


@dataclass(slots=True)
class Dialect:
    """The lead's format: the older one until something says otherwise."""

    newer: bool = False

    def note_roster(self, config: TeamConfig) -> None:
        """The roster may say which one it is."""
        self.newer = self.newer or _PROCESS in config.extra

    def note_mail(self, entries: Iterable[Entry]) -> None:
        """So may mail."""
        self.newer = self.newer or any("msgV" in entry.extra for entry in entries)

    def letters(self, entry: Entry) -> list[Entry]:
        """The entry as the lead's program would write it: one, or its words and a notice. It has its id and time."""
        message = parse_protocol(entry.text)
        made = [entry]
        if isinstance(message, IdleNotification):
            made = self._idle(entry, message)
        elif isinstance(message, PlanApprovalRequest):
            made = [replace(entry, color=None, timestamp=message.timestamp)]
        if not self.newer:
            return made
        return [replace(one, extra={**one.extra, "msgV": 1, "type": "message"}) for one in made]

    def _idle(self, entry: Entry, notice: IdleNotification) -> list[Entry]:
        words = (notice.result or "").removesuffix(_WAITS).strip()
        if notice.failure_reason:
            words = f"My turn failed: {notice.failure_reason}"
        bare = replace(notice, completed_task_id=None, completed_status=None, failure_reason=None, result=None)
        if self.newer:
            return [replace(entry, text=replace(bare, result=words or None).encode())]
        told = replace(entry, text=bare.encode())
        if not words:
            return [told]
        id = keyed_id("words", entry.msg_id)
        return [replace(entry, text=fenced(words), summary=summary_of(words), msg_id=id), told]
