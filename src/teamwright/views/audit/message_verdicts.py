"""A verdict on each message of a team: delivered once, waiting, lost, delivered twice, or returned to its sender.

Compares inboxes, transcripts, logs and results of senders; each message in one of them is judged once. Depends on the
evidence that other modules read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct, field

from teamwright.protocol.ids import LEAD, inbox_stem
from teamwright.protocol.mail import IdleNotification
from teamwright.teams.mailbox.undelivered import return_notice_id
from teamwright.views.audit.log_evidence import LogEvidence, SentMessage
from teamwright.views.audit.mail_evidence import InboxMessage, Key, MailEvidence
from teamwright.views.audit.team_location import TeamLocation, moment_ms
from teamwright.views.audit.transcript_evidence import DeliveredMessage, TranscriptEvidence


class MessageVerdicts(Struct, frozen=True):
    """The messages of a team. `sent` is the sum of all other fields but `refused` and `again`.

    `waiting`: unread, and the reader lives or can be resumed. `taken`: consumed by a program whose transcripts are not
    in the team. `told_instead`: not delivered, and the sender was notified. `lost`: consumed or missing, and in no
    transcript. `stranded`: unread, and the reader cannot be resumed. `strayed`: delivered to another reader. `doubled`:
    delivered twice to one reader. `refused` counts failed sends, also those that partly arrived; `again` are prompts
    and notices that one conversation contains twice.
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


class _Evidence(Struct):
    place: TeamLocation
    mail: MailEvidence
    ledgers: Sequence[TranscriptEvidence]
    logs: LogEvidence
    deliveries: dict[str, list[tuple[TranscriptEvidence, DeliveredMessage]]] = field(
        default_factory=dict[str, "list[tuple[TranscriptEvidence, DeliveredMessage]]"]
    )
    last_idle: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    idle_since: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    births: dict[str, float] = field(default_factory=dict[str, float])
    failed: set[tuple[str, str, int]] = field(default_factory=set[tuple[str, str, int]])
    known: set[str] = field(default_factory=set[str])
    """Ids of all messages in an inbox or a transcript."""

    def __post_init__(self) -> None:
        for ledger in self.ledgers:
            reader = ledger.transcript.reader
            for id, delivery in ledger.deliveries.items():
                self.deliveries.setdefault(id, []).append((ledger, delivery))
            self.births[reader] = max(self.births.get(reader, 0.0), ledger.transcript.began_ms)
            self.failed |= {(reader, one.to, one.text) for one in ledger.failed}
        for one in self.logs.sent.values():
            if one.wire == _IDLE:
                self.last_idle[inbox_stem(one.sender).lower(), one.to] = one.number
        self.known = {*self.deliveries, *(id for _, id in self.mail.letters)}
        for (reader, _), letter in self.mail.letters.items():
            if letter.idle:
                pair = (inbox_stem(letter.sender).lower(), reader)
                self.idle_since[pair] = max(self.idle_since.get(pair, ""), letter.timestamp)

    def verdict(self, key: Key, restamped: set[Key]) -> str:
        """Return the verdict on this message."""
        reader, id = key
        deliveries = self.deliveries.get(id, ())
        own = [(ledger, one) for ledger, one in deliveries if ledger.transcript.reader == reader]
        if own:
            if key in restamped or any(one.times > 1 for _, one in own):
                return DOUBLED
            # When an incarnation ended before its answer, the message may be delivered to the next one again.
            answered = [ledger for ledger, _ in own if id not in ledger.unanswered]
            return DOUBLED if len(own) > 1 and len(answered) > 1 else STRAYED if len(deliveries) > len(own) else SEEN
        if deliveries:
            return STRAYED
        letter = self.mail.letters.get(key)
        if self._was_returned(id):
            return TOLD_INSTEAD
        return self._vanished(key) if letter is None else self._unseen(key, letter)

    def _vanished(self, key: Key) -> str:
        """Return the verdict on a message that is in no inbox and no transcript."""
        sending = self.logs.sent.get(key[1])
        if sending is not None and self._was_replaced(sending):
            return NOTHING
        return LOST if self.place.has_own_transcript(key[0]) else TAKEN

    def _was_replaced(self, sending: SentMessage) -> bool:
        """Return True for a plain idle notice that a later idle notice of its sender replaced while it was unread."""
        if sending.wire != _IDLE or sending.summary != "idle":
            return False
        pair = (inbox_stem(sending.sender).lower(), sending.to)
        return self.last_idle.get(pair, -1) > sending.number or pair in self.idle_since

    def _unseen(self, key: Key, letter: InboxMessage) -> str:
        """Return the verdict on a message that is in an inbox and in no transcript."""
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
        """Return True for a request or notice of the runtime without effect: its reader is gone or was restarted since.

        Messages with text count, also the text in an idle notice.
        """
        if not letter.wire:
            return False
        if not letter.read:
            return not letter.idle and not self.place.can_resume(reader)
        written = moment_ms(letter.timestamp)
        return reader != LEAD and written is not None and written <= self.births.get(reader, 0.0)

    def _was_returned(self, id: str) -> bool:
        """Return True when a notice said that the reader ended before it read the message."""
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
    """Return each message once: from its inbox, else from its sender or the log, else from a transcript."""
    keys = dict.fromkeys(evidence.mail.letters)
    ids = {id for _, id in keys}
    named = [(one.to, id) for id, one in evidence.logs.sent.items()]
    for ledger in evidence.ledgers:
        # The files of the other team have the messages that the lead sent in that team's time.
        accepted = [(to, id, moment_ms(at)) for id, (to, at) in ledger.accepted.items()]
        named += [(to, id) for to, id, at in accepted if at is None or evidence.place.within(at)]
    for reader, id in named:
        if id not in ids:
            ids.add(id)
            keys[reader, id] = None
    for id, deliveries in evidence.deliveries.items():
        ledger, one = deliveries[0]
        at = moment_ms(one.at)
        if id not in ids and (ledger.transcript.reader != LEAD or at is None or evidence.place.within(at)):
            keys[ledger.transcript.reader, id] = None
    return keys


def _restamped(evidence: _Evidence) -> Iterator[Key]:
    """Yield messages that another program wrote back without their id, and that were delivered under a new id.

    The sign is one reader with the same text of the same sender under two ids. One id is in the inbox, is in no log,
    and was written before the other one was delivered; the other id is no longer in the inbox.
    """
    same: defaultdict[tuple[str, int], list[tuple[str, DeliveredMessage]]] = defaultdict(list)
    for id, deliveries in evidence.deliveries.items():
        for ledger, one in deliveries:
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
    """Yield entries that differ from an earlier one in the id alone: they received a second id."""
    first: dict[tuple[str, str, int, str], str] = {}
    for (reader, id), letter in evidence.mail.letters.items():
        if not letter.timestamp or id not in evidence.deliveries:
            continue
        if first.setdefault((reader, letter.sender, letter.text, letter.timestamp), id) != id:
            yield reader, id
