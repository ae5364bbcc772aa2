"""Inboxes of a team that another program leads: written in its format, and patient with its locks.

What a model sends is in the file or an error; what the runtime has to say waits until the file can be written, and that
is told. Of one's own mail nothing is lost while somebody holds the lock: it is read later, or without it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path

from teamwright.mail.inbox import Inbox, peek
from teamwright.protocol.clock import iso
from teamwright.protocol.errors import InboxFull, LockLost, LockTimeout, StorageError
from teamwright.protocol.ids import message_id
from teamwright.protocol.mail import Entry
from teamwright.protocol.values import dataclass
from teamwright.teams.guest.dialect import Dialect

AGAIN_S = 2.0
"""After so long a file that could not be written, or read whole, is tried again."""


def _as_they_are(entries: list[Entry]) -> Awaitable[list[Entry]]:
    done: asyncio.Future[list[Entry]] = asyncio.get_running_loop().create_future()
    done.set_result(entries)
    return done


@dataclass(slots=True)
class Postal:
    """What all inboxes of one member's process share. `say` tells people, by level; `sent` knows ids of earlier lives.

    `sort` takes from one's own mail what is not for the model; `look` has that mail looked at again.
    """

    dialect: Dialect
    say: Callable[[str, str], None]
    sent: Callable[[str], bool]
    sort: Callable[[list[Entry]], Awaitable[list[Entry]]] = field(default=_as_they_are)
    look: Callable[[], None] = field(default=lambda: None)


class GuestInbox(Inbox):
    """The inbox of anybody in the team."""

    def __init__(self, path: Path, guard: Path, archive: Path, postal: Postal) -> None:
        super().__init__(path, guard, archive)
        self._postal = postal
        self._waiting: deque[Entry] = deque()
        self._carrying: asyncio.Task[None] | None = None

    async def send(self, entry: Entry, *, runtime: bool = False) -> str:
        """See Inbox. What is the runtime's own is taken along later where it cannot be written now."""
        id = entry.msg_id or message_id()
        whole = replace(entry, msg_id=id, timestamp=entry.timestamp or iso())
        for letter in self._postal.dialect.letters(whole):
            if runtime:
                await self._send_surely(letter)
            else:
                await super().send(letter)
        return id

    async def has(self, msg_id: str) -> bool:
        """See Inbox; also what waits here, and what an earlier life sent and its reader has removed since."""
        waits = any(letter.msg_id == msg_id for letter in self._waiting)
        return waits or await super().has(msg_id) or self._postal.sent(msg_id)

    async def carried(self, within_s: float) -> int:
        """How many letters of the runtime still wait, after so long at most."""
        if self._carrying is not None:
            await asyncio.wait({self._carrying}, timeout=within_s)
            self._carrying.cancel()
        return len(self._waiting)

    async def _send_surely(self, letter: Entry) -> None:
        if not self._waiting:
            try:
                await super().send(letter, runtime=True)
            except (LockTimeout, LockLost, InboxFull) as problem:
                self._postal.say(f"mail to {self.path.stem} waits: {problem.what}", "warning")
            else:
                return
        self._waiting.append(letter)
        if self._carrying is None or self._carrying.done():
            self._carrying = asyncio.create_task(self._carry(), name=f"mail to {self.path.stem}")

    async def _carry(self) -> None:
        """What waits, in order, until it is there."""
        while self._waiting:
            await asyncio.sleep(AGAIN_S)
            letter = self._waiting[0]
            with suppress(LockTimeout, LockLost, InboxFull):
                if not await super().has(letter.msg_id or ""):  # its fate may have been unknown
                    await super().send(letter, runtime=True)
                self._waiting.popleft()
        self._postal.say(f"mail to {self.path.stem} that waited is there now", "info")


class OwnInbox(GuestInbox):
    """The member's own inbox."""

    _held_up = False
    _again: asyncio.TimerHandle | None = None

    async def unread(self) -> list[Entry]:
        """See Inbox. While another program holds the lock: what can be told without an id of ours."""
        try:
            entries = await super().unread()
            self._free()
        except LockTimeout as problem:
            entries = self._readable(problem)
        self._postal.dialect.note_mail(entries)
        return await self._postal.sort(entries)

    async def mark_read(self, ids: Collection[str]) -> None:
        """See Inbox. What cannot be flagged now is known from the transcript, and flagged later."""
        try:
            await super().mark_read(ids)
            self._free()
        except LockTimeout as problem:
            self._hold_up(problem)

    def _readable(self, problem: LockTimeout) -> list[Entry]:
        self._hold_up(problem)
        found: Sequence[Entry] = ()
        with suppress(StorageError):  # being written
            found = peek(self.path)
        return [self.prover.checked(entry) for entry in found if entry.msg_id and not entry.read]

    def _hold_up(self, problem: LockTimeout) -> None:
        if not self._held_up:
            self._held_up = True
            self._postal.say(f"mail may come late: {problem.what}", "warning")
        if self._again is None:
            self._again = asyncio.get_running_loop().call_later(AGAIN_S, self._look_again)

    def _look_again(self) -> None:
        self._again = None
        self._postal.look()

    def _free(self) -> None:
        if self._held_up:
            self._held_up = False
            self._postal.say("mail comes as usual again", "info")
