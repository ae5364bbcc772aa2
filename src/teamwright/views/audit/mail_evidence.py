"""Evidence from the inboxes of a team: all entries, consumed and archived ones too.

Reads without a lock, and reads the intact entries of a damaged inbox. Depends on the format of entries.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from msgspec import Struct, field

from teamwright.mail.inbox import RETRIES, RETRY_S
from teamwright.mail.inbox_layout import split_array
from teamwright.protocol.mail import (
    IdleNotification,
    InboxEntry,
    PermissionResponse,
    PlanApprovalResponse,
    ProtocolMessage,
    ShutdownApproved,
    ShutdownRejected,
    parse_entry,
    parse_protocol,
)
from teamwright.storage.json_array import NotAnArray, read_with_stamp, salvage_entries
from teamwright.storage.jsonl import read_lines
from teamwright.teams.mailbox.incoming import starts_turn
from teamwright.views.audit.team_location import entries

_ANSWERS = (ShutdownApproved, ShutdownRejected, PlanApprovalResponse, PermissionResponse)


class InboxMessage(NamedTuple):
    """The relevant fields of an entry. `quiet`: the entry never starts a turn, so it may stay unread."""

    sender: str
    text: int
    timestamp: str
    read: bool
    wire: str
    idle: bool
    quiet: bool


Key = tuple[str, str]
"""The reader's inbox (its stem, lower case), and the message's id."""


class MailEvidence(Struct):
    """All entries. `unstamped` counts unread entries without an id; `answers` are ids of messages by request."""

    letters: dict[Key, InboxMessage] = field(default_factory=dict[Key, InboxMessage])
    unstamped: int = 0
    answers: dict[tuple[str, str], set[str]] = field(default_factory=dict[tuple[str, str], set[str]])
    damaged: list[str] = field(default_factory=list[str])

    def add(self, reader: str, fields: Mapping[str, Any], *, archived: bool) -> None:
        """Add an entry; a repeated entry counts once, as consumed when one of them is."""
        entry = parse_entry(fields)
        read = entry.read or archived
        if entry.msg_id is None:
            self.unstamped += not read
            return
        key = (reader, entry.msg_id)
        before = self.letters.get(key)
        if before is not None:
            self.letters[key] = before._replace(read=before.read or read)
            return
        message = parse_protocol(entry.text) if entry.text[:1] == "{" else None
        self._note_answer(key, message)
        self.letters[key] = _letter(entry, message, read=read)

    def _note_answer(self, key: Key, message: ProtocolMessage | None) -> None:
        if isinstance(message, _ANSWERS):
            self.answers.setdefault((key[0], message.request_id), set()).add(key[1])


def read_mail(inboxes: Path) -> MailEvidence:
    """Read all inboxes of a team and their archives. Damaged files are in `damaged`; nothing is raised."""
    mail = MailEvidence()
    for path in entries(inboxes / "archive"):
        if path.suffix == ".jsonl":
            _archive(mail, path)
    for path in entries(inboxes):
        if path.suffix == ".json" and path.is_file():
            _inbox(mail, path)
    return mail


def _letter(entry: InboxEntry, message: ProtocolMessage | None, *, read: bool) -> InboxMessage:
    idle = isinstance(message, IdleNotification)
    quiet = not message.wakes_reader if isinstance(message, IdleNotification) else not starts_turn(entry)
    wire = "" if message is None else message.TYPE
    return InboxMessage(entry.sender, hash(entry.text), entry.timestamp or "", read, wire, idle, quiet)


def _archive(mail: MailEvidence, path: Path) -> None:
    reader, torn = path.stem.lower(), 0
    try:
        for line in read_lines(path):
            try:
                value: object = json.loads(line)
            except (ValueError, RecursionError):
                value = None
            if isinstance(value, dict):
                mail.add(reader, cast("dict[str, Any]", value), archived=True)
            else:
                torn += 1
    except OSError as problem:
        mail.damaged.append(f"{path}: {problem.strerror}")
    if torn:
        mail.damaged.append(f"{path}: {torn} lines are not whole entries")


def _inbox(mail: MailEvidence, path: Path) -> None:
    try:
        found, damaged = _elements(path)
    except OSError as problem:
        mail.damaged.append(f"{path}: {problem.strerror}")
        return
    for fields in found:
        mail.add(path.stem.lower(), fields, archived=False)
    if damaged:
        mail.damaged.append(f"{path} is not a whole inbox; {len(found)} entries in it are")


def _elements(path: Path) -> tuple[list[dict[str, Any]], bool]:
    """Return the entries, and True for a damaged file. The file is read again, because a write may be in progress."""
    content = b""
    for left in range(RETRIES, -1, -1):
        stamped = read_with_stamp(path)
        if stamped is None:
            return [], False
        content = stamped[1]
        try:
            return [
                item.fields for item in split_array(content, whole=True) if item.is_unread or item.is_consumed
            ], False
        except NotAnArray:
            time.sleep(RETRY_S if left else 0)
    return salvage_entries(content), True
