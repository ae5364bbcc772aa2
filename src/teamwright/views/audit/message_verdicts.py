"""What became of each message: seen once, waiting, lost, told twice, or its sender knows that it did not arrive.

Compares inboxes, transcripts, logs and what senders were told; every message of any of them is judged once. Knows
what has been read of the files; reads none itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field

from teamwright.protocol.ids import LEAD, inbox_stem
from teamwright.protocol.mail import IdleNotification
from teamwright.protocol.values import dataclass
from teamwright.teams.mailbox.undelivered import return_notice_id
from teamwright.views.audit.log_evidence import LogEvidence, SentMessage
from teamwright.views.audit.mail_evidence import InboxMessage, Key, MailEvidence
from teamwright.views.audit.team_location import TeamLocation, moment_ms
from teamwright.views.audit.transcript_evidence import DeliveredMessage, TranscriptEvidence


@dataclass(frozen=True, slots=True)
class MessageVerdicts:
    """The messages of a team. `sent` is the sum of all that follow but `refused` and `again`; ids where it matters.

    `waiting`: unread, for somebody who lives or can be resumed. `taken`: consumed by a program whose conversations are
    not ours. `told_instead`: not seen, and their senders know. `lost`: consumed or vanished, and in no transcript.
    `stranded`: unread, and their reader is gone for good. `strayed`: told to another than their reader. `doubled`: told
    twice to one reader. `refused` counts failed sends, whether something of them arrived or not; `again` are prompts
    and notices that one conversation was told twice.
    """

    sent: int = 0
    seen: int = 0
    waiting: int = 0
    taken: int = 0
    told_instead: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    doubled: tuple[str, ...] = ()
    stranded: tuple[str, ...] = ()
    strayed: tuple[str, ...] = ()
    refused: int = 0
    again: tuple[str, ...] = ()


SEEN, WAITING, TAKEN, NOTHING = "seen", "waiting", "taken", "nothing"
TOLD_INSTEAD, LOST, DOUBLED, STRANDED, STRAYED = "told_instead", "lost", "doubled", "stranded", "strayed"

_IDLE = IdleNotification.TYPE


@dataclass(slots=True)
class _Evidence:
    place: TeamLocation
    mail: MailEvidence
    ledgers: Sequence[TranscriptEvidence]
    logs: LogEvidence
    told: dict[str, list[tuple[TranscriptEvidence, DeliveredMessage]]] = field(
        default_factory=dict[str, "list[tuple[TranscriptEvidence, DeliveredMessage]]"]
    )
    last_idle: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    idle_since: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    births: dict[str, float] = field(default_factory=dict[str, float])
    failed: set[tuple[str, str, int]] = field(default_factory=set[tuple[str, str, int]])
    known: set[str] = field(default_factory=set[str])
    """Ids of all that is in an inbox or was told."""

    def __post_init__(self) -> None:
        for ledger in self.ledgers:
            reader = ledger.transcript.reader
            for id, told in ledger.told.items():
                self.told.setdefault(id, []).append((ledger, told))
            self.births[reader] = max(self.births.get(reader, 0.0), ledger.transcript.began_ms)
            self.failed |= {(reader, one.to, one.text) for one in ledger.failed}
        for one in self.logs.sent.values():
            if one.wire == _IDLE:
                self.last_idle[inbox_stem(one.sender).lower(), one.to] = one.number
        self.known = {*self.told, *(id for _, id in self.mail.letters)}
        for (reader, _), letter in self.mail.letters.items():
            if letter.idle:
                pair = (inbox_stem(letter.sender).lower(), reader)
                self.idle_since[pair] = max(self.idle_since.get(pair, ""), letter.timestamp)

    def verdict(self, key: Key, restamped: set[Key]) -> str:
        """What became of this message."""
        reader, id = key
        told = self.told.get(id, ())
        own = [(ledger, one) for ledger, one in told if ledger.transcript.reader == reader]
        if own:
            if key in restamped or any(one.times > 1 for _, one in own):
                return DOUBLED
            # A life that ended before it answered may be followed by one that is told again.
            answered = [ledger for ledger, _ in own if id not in ledger.unanswered]
            return DOUBLED if len(own) > 1 and len(answered) > 1 else STRAYED if len(told) > len(own) else SEEN
        if told:
            return STRAYED
        letter = self.mail.letters.get(key)
        if self._was_returned(id):
            return TOLD_INSTEAD
        return self._vanished(key) if letter is None else self._unseen(key, letter)

    def _vanished(self, key: Key) -> str:
        """It is in no inbox and no transcript."""
        sending = self.logs.sent.get(key[1])
        if sending is not None and self._was_replaced(sending):
            return NOTHING
        return LOST if self.place.has_own_transcript(key[0]) else TAKEN

    def _was_replaced(self, sending: SentMessage) -> bool:
        """A notice that says nothing but idle makes way for the next one of its sender, while it is unread."""
        if sending.wire != _IDLE or sending.summary != "idle":
            return False
        pair = (inbox_stem(sending.sender).lower(), sending.to)
        return self.last_idle.get(pair, -1) > sending.number or pair in self.idle_since

    def _unseen(self, key: Key, letter: InboxMessage) -> str:
        """It is in an inbox, and in no transcript."""
        reader = key[0]
        if not letter.read and letter.quiet:
            return NOTHING
        if self._is_moot(reader, letter):
            return NOTHING
        if self._sender_knows(reader, letter):
            return TOLD_INSTEAD
        if not letter.read:
            return WAITING if self.place.can_resume(reader) else STRANDED
        return LOST if self.place.has_own_transcript(reader) else TAKEN

    def _is_moot(self, reader: str, letter: InboxMessage) -> bool:
        """A request or a notice of the runtime that is over: its reader is gone, or a new life of it set it aside.

        Words count, also those that a notice of idleness brings along.
        """
        if not letter.wire:
            return False
        if not letter.read:
            return not letter.idle and not self.place.can_resume(reader)
        written = moment_ms(letter.timestamp)
        return reader != LEAD and written is not None and written <= self.births.get(reader, 0.0)

    def _was_returned(self, id: str) -> bool:
        """Somebody was told that its reader ended and had not read it."""
        return return_notice_id(id) in self.known

    def _sender_knows(self, reader: str, letter: InboxMessage) -> bool:
        sender = inbox_stem(letter.sender).lower()
        return any((sender, to, letter.text) in self.failed for to in (reader, "*"))


def judge_messages(
    place: TeamLocation, mail: MailEvidence, ledgers: Sequence[TranscriptEvidence], logs: LogEvidence
) -> MessageVerdicts:
    """Judge every message that an inbox, a transcript, a log or a sender's result names."""
    evidence = _Evidence(place, mail, ledgers, logs)
    keys = _all(evidence)
    restamped = set(_restamped(evidence)) | set(_twins(evidence))
    found: defaultdict[str, list[str]] = defaultdict(list)
    for key in keys:
        found[evidence.verdict(key, restamped)].append(key[1])
    return MessageVerdicts(
        sent=sum(len(ids) for kind, ids in found.items() if kind != NOTHING) + mail.unstamped,
        seen=len(found[SEEN]),
        waiting=len(found[WAITING]) + mail.unstamped,
        taken=len(found[TAKEN]),
        told_instead=tuple(found[TOLD_INSTEAD]),
        lost=tuple(found[LOST]),
        doubled=tuple(found[DOUBLED]),
        stranded=tuple(found[STRANDED]),
        strayed=tuple(found[STRAYED]),
        refused=sum(len(ledger.failed) for ledger in ledgers),
        again=tuple(one for ledger in ledgers for one in ledger.again),
    )


def _all(evidence: _Evidence) -> Iterable[Key]:
    """Each message once: as its inbox has it, else as its sender or the log says, else as it was told."""
    keys = dict.fromkeys(evidence.mail.letters)
    ids = {id for _, id in keys}
    named = [(one.to, id) for id, one in evidence.logs.sent.items()]
    for ledger in evidence.ledgers:
        # What a lead sent to a team of another time is in that team's files.
        accepted = [(to, id, moment_ms(at)) for id, (to, at) in ledger.accepted.items()]
        named += [(to, id) for to, id, at in accepted if at is None or evidence.place.within(at)]
    for reader, id in named:
        if id not in ids:
            ids.add(id)
            keys[reader, id] = None
    for id, told in evidence.told.items():
        ledger, one = told[0]
        at = moment_ms(one.at)
        if id not in ids and (ledger.transcript.reader != LEAD or at is None or evidence.place.within(at)):
            keys[ledger.transcript.reader, id] = None
    return keys


def _restamped(evidence: _Evidence) -> Iterator[Key]:
    """Messages that a stranger wrote back without their id: given a new one, and told again under it.

    The sign: the same words of the same sender in one reader's conversations under two ids. One is in the inbox, none
    of ours sent it, and it was written before the other was told; the other is in the inbox no more.
    """
    same: defaultdict[tuple[str, int], list[tuple[str, DeliveredMessage]]] = defaultdict(list)
    for id, told in evidence.told.items():
        for ledger, one in told:
            if one.words is not None and ledger.transcript.reader:
                same[ledger.transcript.reader, one.words].append((id, one))
    letters = evidence.mail.letters
    for (reader, _), group in same.items():
        gone = [one for id, one in group if (reader, id) not in letters]
        if not gone or len(group) < 2:
            continue
        latest = max((moment_ms(one.at) or 0.0) for one in gone)
        for id, _ in group:
            letter = letters.get((reader, id))
            if letter is None or id in evidence.logs.sent:
                continue
            written = moment_ms(letter.timestamp)
            if written is None or written <= latest:
                yield reader, id


def _twins(evidence: _Evidence) -> Iterator[Key]:
    """Entries that are the same to the millisecond but for their ids: all but the first were stamped anew."""
    first: dict[tuple[str, str, int, str], str] = {}
    for (reader, id), letter in evidence.mail.letters.items():
        if not letter.timestamp or id not in evidence.told:
            continue
        if first.setdefault((reader, letter.sender, letter.text, letter.timestamp), id) != id:
            yield reader, id
