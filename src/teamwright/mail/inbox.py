"""Inboxes: how one agent's words reach another.

An inbox is a file that holds one JSON array, shared with strangers; writing takes its lock, looking does not.
Knows `storage` and `protocol.mail`. Does not know who may write to whom, nor what a message means.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from teamwright.mail.box import RETRIES, RETRY_S, Box, OnDamage
from teamwright.mail.layout import Item, split
from teamwright.mail.post import Letter, Post
from teamwright.mail.proof import Prover
from teamwright.mail.traffic import OnArrival, OnLoss, Traffic
from teamwright.mail.upkeep import flag, stamp_strangers
from teamwright.protocol.clock import iso
from teamwright.protocol.errors import InboxFull, LockTimeout, StorageError, UsageError
from teamwright.protocol.ids import message_id
from teamwright.protocol.mail import Entry, parse_entry
from teamwright.storage.array import NotAnArray, Stamp, read_stamped, stamp_of
from teamwright.storage.jsonl import read_backward
from teamwright.storage.perloop import PerLoop

R = TypeVar("R")

LONGEST_TEXT = 256_000
"""Bytes of UTF-8 that one message may have; longer text belongs in a file."""


class Inbox:
    """One inbox in one event loop; get it from `inbox_for`, so that the sends of a process commit together.

    Every call raises LockTimeout when somebody holds the lock past 5 s, and StorageError when the disk refuses.
    """

    def __init__(self, path: Path, guard: Path, archive: Path, *, on_damage: OnDamage | None = None) -> None:
        self.path = path
        self.archive = archive
        self.prover = Prover(guard)
        self._box = Box(path, guard, on_damage)
        self._post = Post(self._box, self._took, self._replaced)
        self._stamp: Stamp | None = None
        self._unread: list[Entry] = []  # of the state `_stamp`, with ids
        self.more = False
        """Whether others wait behind those that `unread` gave."""
        self._traffic: Traffic | None = None

    def tell_damage(self, on_damage: OnDamage) -> None:
        """Whom to tell after a repair: the inbox, the copy of its damaged bytes, how many entries were saved."""
        self._box.on_damage = on_damage

    def listen(self, on_arrival: OnArrival | None, on_loss: OnLoss | None) -> None:
        """Be told from now on, at each reading, of entries that others put in, and of own ones that went unseen.

        For who owns the inbox in this process; with None nobody is told any more.
        """
        self._traffic = None
        if on_arrival is not None and on_loss is not None:
            try:
                known = {entry.msg_id for entry in peek(self.path, beginning=True) if entry.msg_id and not entry.read}
            except StorageError:
                known = set[str]()  # its owner will repair it
            self._traffic = Traffic(on_arrival, on_loss, known)

    async def send(self, entry: Entry, *, runtime: bool = False) -> str:
        """Put an entry into the inbox and return its id once it is there; a missing id or time is filled in.

        `runtime` opens the room that is kept for the runtime's own notices. Raises UsageError for a text over
        256 kB, InboxFull when too much lies unread, LockLost when it stays unknown whether the entry arrived.
        """
        if len(entry.text) > LONGEST_TEXT // 4 and len(entry.text.encode("utf-8", "replace")) > LONGEST_TEXT:
            raise UsageError(
                "usage",
                f"the message is longer than {LONGEST_TEXT // 1000} kB",
                do=["write it to a file and send the file's path"],
                note="nothing was sent",
            )
        msg_id, whole = entry.msg_id or message_id(), entry
        if not entry.msg_id or not entry.timestamp or entry.read:
            time_ = entry.timestamp or iso()
            whole = Entry(entry.sender, entry.text, entry.summary, time_, entry.color, msg_id, False, entry.extra)
        whole = self.prover.signed(whole)
        letter = Letter(whole, whole.encode(), runtime=runtime)
        if (traffic := self._traffic) is None:
            await self._post.send(letter)
            return msg_id
        traffic.sending(whole, quiet=letter.idle)
        try:
            await self._post.send(letter)
        except BaseException as problem:
            traffic.failed(msg_id, surely=isinstance(problem, InboxFull | LockTimeout))
            raise
        traffic.sent(msg_id)
        return msg_id

    async def has(self, msg_id: str) -> bool:
        """Whether an entry of this id is here or in the archive, read or not. Reads both: for after a kill."""
        wanted = b'"msg_id":%s' % json.dumps(msg_id).encode()
        _, items = await self._box.look()
        if any(wanted in item.raw or (item.rest and _has(item.raw, msg_id)) for item in items):
            return True
        return any(wanted in line for line in read_backward(self.archive))

    async def unread(self) -> list[Entry]:
        """What waits for the owner, in order, each with an id; strangers' entries are given theirs on the disk first.

        Of very many entries, which only other programs write, the first 1,064: the others follow when these are read.

        An entry that claims a sender of the runtime without its proof has an unverified one (see `proof`).
        Costs one look at the file's state when nothing changed. For the inbox's owner only.
        """
        now = stamp_of(self.path)
        if now is None:
            if self._traffic is not None:
                self._traffic.look((), ())
            return []
        if now != self._stamp:
            stamp, items = await self._box.look()
            if not all(item.msg_id for item in items if item.unread):
                stamp, items = await self._box.change_surely(stamp_strangers)
            self._remember(stamp, items)
        return list(self._unread)

    async def mark_read(self, ids: Collection[str]) -> None:
        """Flag entries as read, after they were seen; entries that vanished meanwhile are fine.

        Past 100 consumed entries the older ones go to the archive. For the inbox's owner only.
        """
        if not ids:
            return
        if self._traffic is not None:
            self._traffic.seen(ids)
        if stamp_of(self.path) is None:
            return  # somebody removed it: nothing to flag, and nothing is made anew
        stamp, items = await self._box.change_surely(partial(flag, ids=frozenset(ids), archive=self.archive))
        if all(item.msg_id for item in items if item.unread):
            self._remember(stamp, items)
        if self.more:
            self._stamp = None  # what follows is parsed now

    def _remember(self, stamp: Stamp | None, items: Sequence[Item]) -> None:
        self._stamp, self.more = stamp, bool(items) and items[-1].rest
        self._unread = [self.prover.checked(item.entry) for item in items if item.unread]
        if self._traffic is not None:
            self._traffic.look(self._unread, items)

    def _took(self, before: Stamp | None, after: Stamp, letters: Sequence[Letter]) -> None:
        """Letters of this process were appended: what is known of the file stays right without reading it."""
        if self._stamp is not None and self._stamp == before and not self.more:
            self._stamp = after
            self._unread += [_as_stored(letter) for letter in letters]

    def _replaced(self, ids: Sequence[str]) -> None:
        """Notices were replaced by newer ones on purpose: they are not lost."""
        if self._traffic is not None:
            for msg_id in ids:
                self._traffic.failed(msg_id, surely=True)


def _has(raw: bytes, msg_id: str) -> bool:
    """Whether an element of another program's layout has this id."""
    return re.search(rb'"msg_id":\s*%s' % re.escape(json.dumps(msg_id).encode()), raw) is not None


def _as_stored(letter: Letter) -> Entry:
    """The entry as it will be read: what JSON or UTF-8 cannot hold was changed on the way."""
    entry = letter.entry
    plain = entry.text.isascii() and not entry.extra and (entry.summary or "").isascii()
    return entry if plain else parse_entry(json.loads(letter.raw))


_INBOXES: PerLoop[Inbox] = PerLoop(256)


def inbox_for(path: Path, guard: Path, archive: Path, *, on_damage: OnDamage | None = None) -> Inbox:
    """The one inbox of this path in the running loop. Raises RuntimeError when no loop runs."""
    found = _INBOXES.get(str(path), lambda: Inbox(path, guard, archive))
    if on_damage is not None:
        found.tell_damage(on_damage)
    return found


def peek(path: Path, *, beginning: bool = False) -> list[Entry]:
    """All entries in the file, read and unread, for onlookers: no lock is taken and nothing is changed.

    Of very many entries with `beginning` only the first. Raises StorageError (`damaged-file`) when what is there is no
    array, also 6 ms later.
    """
    return _look(path, lambda items: [item.entry for item in items], beginning=beginning)


def counts(path: Path) -> tuple[int, int]:
    """How many entries are unread, and how many there are. As `peek`."""
    return _look(path, lambda items: (sum(item.unread for item in items), len(items)))


def _look(path: Path, view: Callable[[list[Item]], R], *, beginning: bool = False) -> R:
    for left in range(RETRIES, -1, -1):
        found = read_stamped(path)
        try:
            items = split(found[1], whole=not beginning) if found is not None else []
            return view([item for item in items if item.unread or item.consumed])
        except NotAnArray:
            time.sleep(RETRY_S if left else 0)
    raise StorageError("damaged-file", f"{path} is not an inbox now", note="its owner will repair it")
