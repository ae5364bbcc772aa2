"""Signatures of inbox entries whose sender is the user, the runtime or the task list.

Any process may write into an inbox. The runtime therefore signs its entries of these senders with a key of the home; an
entry without a valid proof counts as one of an unverified sender.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from teamwright.protocol.errors import StorageError
from teamwright.protocol.mail import RUNTIME_SENDERS, InboxEntry
from teamwright.storage.atomic import write_atomic, write_new
from teamwright.storage.read_bounded import read_plain

PROOF = "proof"
"""The key of an entry that contains its proof."""

UNVERIFIED = "unverified"
"""The prefix of the sender of an entry that lacks its proof."""

_GUARDS = "guards"
_KEY_FILE = "mail.key"
_KEY_BYTES = 32
_MAX_KEY_FILE_BYTES = 1_000


class EntrySigner:
    """A signer and checker of the entries of one inbox. `guard` is its guard file: the key is at the root of the
    guards."""

    def __init__(self, guard: Path) -> None:
        root = next((parent for parent in guard.parents if parent.name == _GUARDS), guard.parent)
        self._key_file = root / _KEY_FILE
        self._inbox = str(guard.relative_to(root))

    def sign(self, entry: InboxEntry) -> InboxEntry:
        """Return the entry with its proof, if its sender is one of the runtime's; it needs its id and its time.

        Where the key cannot be stored, the entry has no proof.
        """
        if entry.sender not in RUNTIME_SENDERS and PROOF not in entry.extra:
            return entry
        others = {key: value for key, value in entry.extra.items() if key != PROOF}
        if entry.sender in RUNTIME_SENDERS:
            with suppress(StorageError, OSError):
                others[PROOF] = self._proof(entry, _key(self._key_file))
        return entry.copy_with(extra=others)

    def check(self, entry: InboxEntry) -> InboxEntry:
        """Return the entry with an unverified sender if it lacks the proof of its sender, else unchanged."""
        if entry.sender not in RUNTIME_SENDERS:
            return entry
        told = entry.extra.get(PROOF)
        key = _known_key(self._key_file) if isinstance(told, str) else b""
        if key and hmac.compare_digest(str(told).encode("utf-8", "replace"), self._proof(entry, key).encode()):
            return entry
        return entry.copy_with(sender=f"{UNVERIFIED} {entry.sender}")

    def _proof(self, entry: InboxEntry, key: bytes) -> str:
        said = (self._inbox, entry.msg_id, entry.sender, entry.timestamp, entry.summary, entry.text)
        # Characters without a UTF-8 form are replaced in the file, so the signed text replaces them too.
        content = json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        return hmac.new(key, content, hashlib.sha256).hexdigest()


def _key(file: Path) -> bytes:
    """Return the key in the file, which is created when it is missing. Raises StorageError, OSError."""
    known = _known_key(file)
    if known:
        return known
    made = secrets.token_hex(_KEY_BYTES).encode()
    if not write_new(file, made) and not _known_key(file):
        write_atomic(file, made)  # the existing content is no key
    return _known_key(file)


def _known_key(file: Path) -> bytes:
    """Return the key in the file; empty when there is none."""
    try:
        stat = file.stat()
    except OSError:
        return b""
    return _read_key(file, stat.st_mtime_ns, stat.st_ino)


@lru_cache(64)
def _read_key(file: Path, _changed_ns: int, _inode: int) -> bytes:
    try:
        content = read_plain(file, _MAX_KEY_FILE_BYTES)
        return content if len(bytes.fromhex(content.decode("ascii"))) == _KEY_BYTES else b""
    except (OSError, ValueError):
        return b""
