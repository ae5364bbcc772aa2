"""What of an inbox is not this process's doing: entries of others that arrive, and own ones that go unseen.

Fed by the inbox with what it sends, reads and flags. Knows ids only; refuses to know who reads and who must hear of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from teamwright.mail.layout import Item
from teamwright.protocol.mail import Entry
from teamwright.protocol.values import dataclass

MOST_OWN = 1_064
"""So many own letters are remembered; more cannot lie unread, so the oldest are those that nobody will find."""

MOST_PAST = 512
"""So many ids of what was read are remembered, for other programs that put an old copy back."""

OnArrival = Callable[[Sequence[Entry]], None]
OnLoss = Callable[[Sequence["Lost"]], None]


@dataclass(frozen=True, slots=True)
class Lost:
    """A letter of this process that its reader never saw: another program removed it, or `flagged` it as read."""

    msg_id: str
    sender: str
    summary: str
    flagged: bool


@dataclass(slots=True)
class _Own:
    """A letter of this process on its way to being seen. `there`: it is, or was, in the file for sure.

    A `quiet` one may vanish without a word: a notice that a newer one replaces, or one whose fate is not known.
    """

    sender: str
    summary: str
    quiet: bool
    there: bool = False


class Traffic:
    """One inbox. `known` are the ids of what lies unread in it at the beginning."""

    def __init__(self, on_arrival: OnArrival, on_loss: OnLoss, known: set[str]) -> None:
        self._on_arrival = on_arrival
        self._on_loss = on_loss
        self._known = known
        self._past: dict[str, None] = {}
        self._own: dict[str, _Own] = {}

    def sending(self, entry: Entry, *, quiet: bool) -> None:
        """The entry, which has its id, is about to be written."""
        self._own[entry.msg_id or ""] = _Own(entry.sender, entry.summary or "", quiet)
        if len(self._own) > MOST_OWN:
            del self._own[next(iter(self._own))]

    def sent(self, msg_id: str) -> None:
        """It is in the file."""
        if (own := self._own.get(msg_id)) is not None:
            own.there = True

    def failed(self, msg_id: str, *, surely: bool) -> None:
        """It is not in the file; or, not `surely`, nobody knows."""
        own = self._own.get(msg_id)
        if own is not None and surely:
            del self._own[msg_id]
        elif own is not None:
            own.quiet = True

    def seen(self, ids: Collection[str]) -> None:
        """The reader has these, and is about to flag them.

        A stranger that writes what it read before may put one back: it did not arrive anew.
        """
        self._past |= dict.fromkeys(ids)
        while len(self._past) > MOST_PAST:
            del self._past[next(iter(self._past))]
        for msg_id in ids:
            self._own.pop(msg_id, None)

    def look(self, unread: Sequence[Entry], items: Sequence[Item]) -> None:
        """The file was read: these wait in it, and `items` is all that is there, or its beginning."""
        more = bool(items) and items[-1].rest
        ids = {entry.msg_id for entry in unread if entry.msg_id}
        known = (self._known, self._past, self._own)
        fresh = [e for e in unread if e.msg_id and not any(e.msg_id in one for one in known)]
        self._known = ids
        lost: list[Lost] = []
        for msg_id, own in list(self._own.items()):
            if msg_id in ids:
                own.there = True
            elif own.there and not more:  # else it may lie behind what was parsed
                del self._own[msg_id]
                if not own.quiet:
                    lost.append(Lost(msg_id, own.sender, own.summary, _is_in(msg_id, items)))
        if fresh:
            self._on_arrival(fresh)
        if lost:
            self._on_loss(lost)


def _is_in(msg_id: str, items: Sequence[Item]) -> bool:
    wanted = msg_id.encode()
    return any(wanted in item.raw for item in items if item.consumed)
