"""The mail watcher: mail that other programs write into the inboxes of a live team, or remove from them.

It reports arrivals as events, passes requests of external members on, and notifies senders of lost mail. Depends on
inboxes and the team.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from teamwright.mail.mailbox import FollowedMailbox, LostEntry
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import MessageSent, Notice
from teamwright.protocol.ids import LEAD, display_name
from teamwright.protocol.mail import (
    IdleNotification,
    InboxEntry,
    PermissionRequest,
    PlanApprovalRequest,
    ProtocolMessage,
    ShutdownApproved,
    ShutdownRejected,
    parse_protocol,
    wire_type,
)
from teamwright.teams.external_members import UNKNOWN_PROGRAM
from teamwright.teams.outgoing_mail import send_note
from teamwright.teams.shutdown_requests import apply_mailed_answer
from teamwright.teams.team import SessionTeam

PATIENCE_S = 0.5
"""Seconds before the sender of removed mail is notified: the whole team may be being removed."""

_SENDERS_WITHOUT_INBOX = frozenset({"system", "user", "task-list", UNKNOWN_PROGRAM})
"""Senders without an inbox, for which a warning is shown instead."""


class MailWatcher:
    """A watcher of the inboxes of our members and the lead. `wake` requests a check; `on_agreed` receives the names of
    members that agreed to stop.
    """

    def __init__(self, team: SessionTeam, wake: Callable[[], None], on_agreed: Callable[[str], None]) -> None:
        self._team = team
        self._wake = wake
        self._on_agreed = on_agreed
        self._inboxes: dict[str, FollowedMailbox] = {}
        self._changed: set[str] = set()
        self._lost: list[tuple[str, LostEntry]] = []
        self._notify_timer: asyncio.TimerHandle | None = None

    def handle_waiting_mail(self, name: str) -> None:
        """Handle the unread mail of a new external member to its lead from before it was known."""
        if LEAD not in self._inboxes or not self._team.exists:
            return
        with suppress(TeamwrightError):  # an incomplete file is checked when it changes
            for entry in self._inboxes[LEAD].entries():
                if not entry.read and entry.sender.lower() == name.lower():
                    self._handle_lead_mail(entry.sender, parse_protocol(entry.text))

    def open(self, name: str) -> None:
        """Follow the inbox of this member from now on; its present content is known."""
        inbox = self._team.mailbox(name)
        inbox.set_listeners(lambda entries: self._on_arrival(name, entries), lambda lost: self._on_lost(name, lost))
        self._inboxes[name] = inbox

    def close(self, name: str) -> None:
        """Stop following it."""
        inbox = self._inboxes.pop(name, None)
        if inbox is not None:
            inbox.set_listeners(None, None)

    def end(self) -> None:
        """Stop following all inboxes."""
        for name in list(self._inboxes):
            self.close(name)
        self._changed.clear()
        self._lost.clear()
        if self._notify_timer is not None:
            self._notify_timer.cancel()
            self._notify_timer = None

    def note_change(self, name: str) -> None:
        """Record that the file of this inbox changed."""
        self._changed.add(name)
        self._wake()

    async def check(self) -> None:
        """Check the changed inboxes, and report lost mail. Raises StorageError, LockTimeout."""
        while self._changed:
            inbox = self._inboxes.get(self._changed.pop())
            if inbox is not None:
                await inbox.unread()
        if self._lost and self._notify_timer is None:
            await self._notify_senders()

    def _on_arrival(self, name: str, entries: Sequence[InboxEntry]) -> None:
        """Handle entries that others put into the inbox."""
        file = self._team.mailbox(name).mark()
        for entry in entries:
            message = parse_protocol(entry.text)
            if name == LEAD and message is not None:
                self._handle_lead_mail(entry.sender, message)
            followed = self._team.external.listeners.get(entry.sender.lower()) if name == LEAD else None
            if followed is not None and isinstance(message, IdleNotification):
                followed.note_idle(message)
            if entry.sender == "user":
                text = f"user (another terminal) wrote to {display_name(name)}"
                self._team.emit(Notice(member="system", text=text))
            if entry.sender.lower() in self._team.external.process_names:
                continue  # its own process reports it
            self._team.emit(
                MessageSent(
                    member=entry.sender or UNKNOWN_PROGRAM,
                    to=name,
                    message_id=entry.msg_id or "",
                    summary=_entry_summary(entry),
                    wire=wire_type(message) if message is not None else "",
                    file=file,
                )
            )
        self._team.changed.set()

    def _handle_lead_mail(self, sender: str, message: ProtocolMessage | None) -> None:
        """Handle a message of an external member to its lead. Other members do not send requests by mail."""
        outside = self._team.external
        if sender.lower() not in outside.external_names:
            return
        match message:
            case PermissionRequest() | PlanApprovalRequest():
                outside.note_request(sender, message)
            case ShutdownApproved():
                apply_mailed_answer(self._team, sender, message)
                self._on_agreed(sender)
            case ShutdownRejected():
                apply_mailed_answer(self._team, sender, message)
            case _:
                pass

    def _on_lost(self, name: str, lost: Sequence[LostEntry]) -> None:
        self._lost += [(name, one) for one in lost]
        if self._notify_timer is None:
            self._notify_timer = asyncio.get_running_loop().call_later(PATIENCE_S, self._notify_due)

    def _notify_due(self) -> None:
        self._notify_timer = None
        self._wake()

    async def _notify_senders(self) -> None:
        """Notify the senders of lost mail, and emit an event. A team that we remove ourselves loses no mail."""
        team = self._team
        async with team.forming_lock:
            lost, self._lost = self._lost, []
            if team.closing or not team.exists or not team.roster.document.exists:
                return
        by_sender: dict[tuple[str, str], list[LostEntry]] = {}
        for name, one in lost:
            by_sender.setdefault((one.sender, name), []).append(one)
        for (sender, name), ones in by_sender.items():
            what = "; ".join(f'"{one.summary}"' if one.summary else "one without a summary" for one in ones[:8])
            more = f" and {len(ones) - 8} more" if len(ones) > 8 else ""
            how = "flagged as read" if all(one.was_flagged for one in ones) else "removed"
            text = f"another program {how} mail to {name} that {name} had not seen: {what}{more}"
            team.emit(Notice(member=sender, text=text, level="warning"))
            teller = LEAD if sender in _SENDERS_WITHOUT_INBOX else sender
            if teller != name:
                notice = f"{text[0].upper()}{text[1:]}. Send it again if it still matters."
                await send_note(team, "system", teller, notice, f"mail to {name} was lost")


def _entry_summary(entry: InboxEntry) -> str:
    message = parse_protocol(entry.text)
    if isinstance(message, IdleNotification):
        return message.result or message.failure_reason or "idle"
    words = " ".join((entry.summary or (wire_type(message) if message is not None else entry.text)).split())
    return words if len(words) <= 60 else words[:57].rsplit(" ", 1)[0] + "…"
