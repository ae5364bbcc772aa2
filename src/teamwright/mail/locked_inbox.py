"""One inbox file and its lock: changes are plain code, run on the array while the lock is held.

Only this module judges a file damaged: under the lock, after waiting for another program that may be writing. Any
process may write into an inbox, so entries of the user, the runtime and the task list are signed with a key of the
home; an entry without a valid proof counts as one of an unverified sender. Depends on `inbox_layout`.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import TypeVar

from teamwright.mail.inbox_layout import InboxItem, encode_item, split_array
from teamwright.protocol.errors import LockLost, StorageError
from teamwright.protocol.mail import RUNTIME_SENDERS, InboxEntry
from teamwright.storage.atomic_write import keep_damaged_copy, storage_error, write_atomic, write_new
from teamwright.storage.file_lock import FileLock, LockHold, lock_for, past_dead_lock
from teamwright.storage.json_array import (
    ArrayFile,
    FileStamp,
    NotAnArray,
    encode_array,
    read_with_stamp,
    salvage_entries,
)
from teamwright.storage.read_bounded import read_plain

R = TypeVar("R")

RETRIES = 3
RETRY_S = 0.002

OnDamage = Callable[[Path, Path, int], None]
"""Called after a repair with the inbox, the copy of its damaged bytes, and the number of saved entries."""


class LockedInbox:
    """An inbox file with its lock. `outlasts_locks`: work that may be repeated waits until a lock would be stale."""

    __slots__ = ("_guard", "_inbox_directory", "_known", "_lock", "on_damage", "outlasts_locks", "path")

    def __init__(self, path: Path, guard: Path, on_damage: OnDamage | None, *, outlasts_locks: bool = True) -> None:
        self.path = path
        self.outlasts_locks = outlasts_locks
        self._inbox_directory = str(path.parent)
        self._guard = guard
        self._lock: FileLock | None = None
        self._known: list[InboxItem] = []
        self.on_damage = on_damage

    def split(self, content: bytes) -> list[InboxItem]:
        """Return the elements of the array; what did not change since the last call is not parsed again.

        Raises NotAnArray.
        """
        known, self._known = self._known, []  # a failure may leave some of them with other offsets
        items = split_array(content, known=known)
        is_whole = bool(items) and items[0].offset >= 0 and not items[-1].is_rest
        self._known = items if is_whole else []
        return items

    def forget(self) -> None:
        """Free the elements of the last call: nothing is unread now, and consumed elements are not parsed."""
        self._known = []

    async def change(self, work: Callable[[ArrayFile], R]) -> R:
        """Run `work` on the array under the lock and return its result.

        When `work` finds content that is no array, it runs again three times, 2 ms apart; then the file is repaired
        first. Raises LockTimeout, LockLost, StorageError.
        """
        for _ in range(RETRIES):
            try:
                async with self._hold() as hold:
                    return self._run(work, hold)
            except NotAnArray:
                await asyncio.sleep(RETRY_S)
        async with self._hold() as hold:
            return self._run_repairing(work, hold)

    async def change_with_retry(self, work: Callable[[ArrayFile], R]) -> R:
        """Run `change` for work that may be repeated: after a lost lock it runs again. Raises StorageError."""
        for _ in range(RETRIES):
            with contextlib.suppress(LockLost):
                return await self.outlast(partial(self.change, work))
        return await self.outlast(partial(self.change, work))

    async def outlast(self, work: Callable[[], Awaitable[R]]) -> R:
        """Run the work; if this inbox outlasts locks, again until a killed program's lock would be stale."""
        return await (past_dead_lock(work) if self.outlasts_locks else work())

    async def read(self) -> tuple[FileStamp | None, list[InboxItem]]:
        """Return state and elements, read without the lock; under it when the content is no array."""
        for left in range(RETRIES, -1, -1):
            found = read_with_stamp(self.path)
            if found is None:
                return None, []
            try:
                return found[0], self.split(found[1])
            except NotAnArray:
                if left:
                    await asyncio.sleep(RETRY_S)
        return await self.change_with_retry(lambda file: (file.stamp, self.split(file.read()) if file.stamp else []))

    def _hold(self) -> LockHold:
        """Create the directory of inboxes for the first message, but never that of a removed team; return the hold."""
        if not os.path.exists(self._inbox_directory):
            with contextlib.suppress(FileExistsError, FileNotFoundError):
                os.mkdir(self._inbox_directory, 0o700)
                os.chmod(self._inbox_directory, 0o700)  # regardless of the umask
        if self._lock is None:
            self._lock = lock_for(self.path, self._guard)
        return self._lock.hold()

    def _run(self, work: Callable[[ArrayFile], R], hold: LockHold) -> R:
        try:
            with ArrayFile(self.path, hold) as file:
                if hold.recovered and file.stamp is not None:
                    split_array(file.read(), whole=True)  # its writer was killed: check before adding to it
                return work(file)
        except OSError as problem:
            raise storage_error(problem, self.path) from problem

    def _run_repairing(self, work: Callable[[ArrayFile], R], hold: LockHold) -> R:
        try:
            return self._run(work, hold)
        except NotAnArray:
            with ArrayFile(self.path, hold) as file:
                self._repair(file)
                return work(file)

    def _repair(self, file: ArrayFile) -> None:
        content = file.read()
        copy = keep_damaged_copy(self.path, content)
        saved = salvage_entries(content)
        file.replace(encode_array([encode_item(entry) for entry in saved]))
        if self.on_damage is not None:
            self.on_damage(self.path, copy, len(saved))


PROOF = "proof"
"""The key of an entry that contains its proof."""

UNVERIFIED = "unverified"
"""The prefix of the sender of an entry that lacks its proof."""

_GUARDS = "guards"
_KEY_FILE = "mail.key"
_KEY_BYTES = 32
_MAX_KEY_FILE_BYTES = 1_000


class RuntimeMailSigner:
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
        proof = entry.extra.get(PROOF)
        key = _known_key(self._key_file) if isinstance(proof, str) else b""
        if key and hmac.compare_digest(str(proof).encode("utf-8", "replace"), self._proof(entry, key).encode()):
            return entry
        return entry.copy_with(sender=f"{UNVERIFIED} {entry.sender}")

    def _proof(self, entry: InboxEntry, key: bytes) -> str:
        signed_fields = (self._inbox, entry.msg_id, entry.sender, entry.timestamp, entry.summary, entry.text)
        # Characters without a UTF-8 form are replaced in the file, so the signed text replaces them too.
        content = json.dumps(signed_fields, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        return hmac.new(key, content, hashlib.sha256).hexdigest()


def _key(file: Path) -> bytes:
    """Return the key in the file, which is created when it is missing. Raises StorageError, OSError."""
    known = _known_key(file)
    if known:
        return known
    new_key = secrets.token_hex(_KEY_BYTES).encode()
    if not write_new(file, new_key) and not _known_key(file):
        write_atomic(file, new_key)  # the existing content is no key
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
