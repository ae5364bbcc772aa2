"""What a program does with its inbox, seen from outside: which mail it has not taken, and whether it took some.

Looks without a lock and changes nothing. A file that is cut or empty this moment says nothing: the next look does.
"""

from __future__ import annotations

import hashlib
from dataclasses import field
from pathlib import Path

from teamwright.mail.inbox import peek
from teamwright.protocol.errors import StorageError
from teamwright.protocol.mail import Entry
from teamwright.protocol.values import dataclass
from teamwright.storage.array import Stamp, stamp_of


@dataclass(slots=True)
class InboxSigns:
    """The inbox of one program. `unread` are the ids of what it has not taken yet."""

    path: Path
    unread: frozenset[str] = frozenset()
    _stamp: Stamp | None = field(default=None)

    def look(self) -> tuple[bool, frozenset[str]]:
        """Whether the file is another one than at the last look, and the ids of what was taken since."""
        now = stamp_of(self.path)
        if now == self._stamp:
            return False, frozenset()
        try:
            unread = frozenset(_id(entry) for entry in peek(self.path) if not entry.read)
        except StorageError:
            return False, frozenset()
        taken, self.unread, self._stamp = self.unread - unread, unread, now
        return True, taken


def _id(entry: Entry) -> str:
    """An entry's id; strangers' have none in the older format, and are known by what they say."""
    said = f"{entry.sender}\0{entry.timestamp}\0{entry.text}"
    return entry.msg_id or hashlib.sha256(said.encode("utf-8", "replace")).hexdigest()
