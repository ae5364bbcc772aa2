"""What others do to the inboxes of our members: mail that arrives is told, and so is mail of ours that was lost.

Knows inboxes and the team. Refuses to know what a message means: only its type is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from teamwright.mail.inbox import Inbox, peek
from teamwright.mail.traffic import Lost
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import MessageSent, Notice
from teamwright.protocol.ids import LEAD, LEAD_ALIAS
from teamwright.protocol.mail import (
    Entry,
    IdleNotification,
    PermissionRequest,
    PlanApprovalRequest,
    Protocol,
    ShutdownApproved,
    ShutdownRejected,
    parse_protocol,
)
from teamwright.storage.marks import mark_of
from teamwright.teams.mailing.notes import leave_note
from teamwright.teams.outside import OUTSIDE
from teamwright.teams.stopping import answered_by_mail
from teamwright.teams.team import Team

PATIENCE_S = 0.5
"""Mail that goes may be the first of a team that is being removed: only after so long its sender is told."""

_NOBODY = frozenset({"system", "user", "task-list", OUTSIDE})
"""Senders without an inbox: for them a warning must do."""


class MailScribe:
    """The inboxes of our members and of the lead. `wake` has them looked at; `on_agreed` is told who agreed to stop."""

    def __init__(self, team: Team, wake: Callable[[], None], on_agreed: Callable[[str], None]) -> None:
        self._team = team
        self._wake = wake
        self._on_agreed = on_agreed
        self._inboxes: dict[str, Inbox] = {}
        self._changed: set[str] = set()
        self._lost: list[tuple[str, Lost]] = []
        self._due: asyncio.TimerHandle | None = None

    def met(self, name: str) -> None:
        """Another program runs the member of this name: what it asked its lead, unread, before that was known."""
        if LEAD not in self._inboxes or not self._team.exists:
            return
        with suppress(TeamwrightError):  # what is not whole now is looked at when it changes
            for entry in peek(self._inboxes[LEAD].path):
                if not entry.read and entry.sender.lower() == name.lower():
                    self._heard(entry.sender, parse_protocol(entry.text))

    def open(self, name: str) -> None:
        """Follow the inbox of this member from now on; what is in it is known."""
        inbox = self._team.inbox(name)
        inbox.listen(lambda entries: self._arrived(name, entries), lambda lost: self._gone(name, lost))
        self._inboxes[name] = inbox

    def close(self, name: str) -> None:
        """Follow it no longer."""
        inbox = self._inboxes.pop(name, None)
        if inbox is not None:
            inbox.listen(None, None)

    def end(self) -> None:
        """Follow none."""
        for name in list(self._inboxes):
            self.close(name)
        self._changed.clear()
        self._lost.clear()
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def noticed(self, name: str) -> None:
        """The file of this inbox changed."""
        self._changed.add(name)
        self._wake()

    async def look(self) -> None:
        """Look into the inboxes that changed, and tell of what was lost. Raises StorageError, LockTimeout."""
        while self._changed:
            inbox = self._inboxes.get(self._changed.pop())
            if inbox is not None:
                await inbox.unread()
        if self._lost and self._due is None:
            await self._tell_lost()

    def _arrived(self, name: str, entries: Sequence[Entry]) -> None:
        """Others put these into the inbox."""
        file = mark_of(self._team.home, str(self._team.home.inbox(self._team.directory, name)))
        for entry in entries:
            message = parse_protocol(entry.text)
            if name == LEAD and message is not None:
                self._heard(entry.sender, message)
            followed = self._team.outside.followed.get(entry.sender.lower()) if name == LEAD else None
            if followed is not None and isinstance(message, IdleNotification):
                followed.idles(message)
            if entry.sender == "user":
                text = f"user (another terminal) wrote to {LEAD_ALIAS if name == LEAD else name}"
                self._team.emit(Notice(member="system", text=text))
            if entry.sender.lower() in self._team.outside.processes:
                continue  # its own process tells of it
            self._team.emit(
                MessageSent(
                    member=entry.sender or OUTSIDE,
                    to=name,
                    message_id=entry.msg_id or "",
                    summary=_summary(entry),
                    wire=message.TYPE if message is not None else "",
                    file=file,
                )
            )
        self._team.changed.set()

    def _heard(self, sender: str, message: Protocol | None) -> None:
        """What a member that another program runs tells its lead. Whoever is none asks nobody by mail."""
        outside = self._team.outside
        if sender.lower() not in outside.strangers:
            return
        match message:
            case PermissionRequest() if outside.on_asked is not None:
                outside.on_asked(sender, message)
            case PlanApprovalRequest() if outside.on_planned is not None:
                outside.on_planned(sender, message)
            case ShutdownApproved():
                answered_by_mail(self._team, sender, message)
                self._on_agreed(sender)
            case ShutdownRejected():
                answered_by_mail(self._team, sender, message)
            case _:
                pass

    def _gone(self, name: str, lost: Sequence[Lost]) -> None:
        self._lost += [(name, one) for one in lost]
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(PATIENCE_S, self._tell)

    def _tell(self) -> None:
        self._due = None
        self._wake()

    async def _tell_lost(self) -> None:
        """Tell each sender of what was lost, and whoever watches. A team that we remove ourselves loses nothing."""
        team = self._team
        async with team.forming:
            lost, self._lost = self._lost, []
            if team.closing or not team.exists or not team.home.config(team.directory).exists():
                return
        by_sender: dict[tuple[str, str], list[Lost]] = {}
        for name, one in lost:
            by_sender.setdefault((one.sender, name), []).append(one)
        for (sender, name), ones in by_sender.items():
            what = "; ".join(f'"{one.summary}"' if one.summary else "one without a summary" for one in ones[:8])
            more = f" and {len(ones) - 8} more" if len(ones) > 8 else ""
            how = "flagged as read" if all(one.flagged for one in ones) else "removed"
            text = f"another program {how} mail to {name} that {name} had not seen: {what}{more}"
            team.emit(Notice(member=sender, text=text, level="warning"))
            teller = LEAD if sender in _NOBODY else sender
            if teller != name:
                told = f"{text[0].upper()}{text[1:]}. Send it again if it still matters."
                await leave_note(team, "system", teller, told, f"mail to {name} was lost")


def _summary(entry: Entry) -> str:
    message = parse_protocol(entry.text)
    if isinstance(message, IdleNotification):
        return message.result or message.failure_reason or "idle"
    words = " ".join((entry.summary or (message.TYPE if message is not None else entry.text)).split())
    return words if len(words) <= 60 else words[:57].rsplit(" ", 1)[0] + "…"
