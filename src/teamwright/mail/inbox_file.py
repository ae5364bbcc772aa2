"""One inbox file with its lock: changes are plain code, run on the array of entries while the lock is held.

Only this module judges a file damaged: under the lock, after waiting for another program that may be writing. Unchanged
elements are written back byte for byte; Teamwright's layout (one element a line) is read without parsing consumed
elements, and any other layout is parsed. Any process may write into an inbox, so entries of the user, the runtime and
the task list are signed with a key of the home; an entry without a valid proof counts as one of an unverified sender.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar, cast

from teamwright.protocol.errors import LockLost, StorageError
from teamwright.protocol.mail import RUNTIME_SENDERS, InboxEntry, parse_entry
from teamwright.storage.files import keep_damaged_copy, read_plain, storage_error, write_atomic, write_new
from teamwright.storage.json_array import (
    ArrayFile,
    FileStamp,
    NotAnArray,
    encode_array,
    read_with_stamp,
    salvage_entries,
)
from teamwright.storage.locks import FileLock, LockHold, lock_for, past_dead_lock

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
            try:
                return self._run(work, hold)
            except NotAnArray:
                with ArrayFile(self.path, hold) as file:
                    content = file.read()
                    copy = keep_damaged_copy(self.path, content)
                    saved = salvage_entries(content)
                    file.replace(encode_array([encode_item(entry) for entry in saved]))
                    if self.on_damage is not None:
                        self.on_damage(self.path, copy, len(saved))
                    return work(file)

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
            with contextlib.suppress(StorageError, OSError):
                others[PROOF] = self._proof(entry, _known_or_new_key(self._key_file))
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


def _known_or_new_key(file: Path) -> bytes:
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


READ_ENDINGS = (b'"read":true }', b'"read":true}')
"""The endings of a consumed element's line in Teamwright's layout."""

MAX_UNREAD = 1_000
"""The number of unread entries up to which agents and people may write. Other programs may write more."""

MAX_RUNTIME_UNREAD = 64
"""The number of further unread entries that are reserved for notices of the runtime."""

_MAX_PARSED = MAX_UNREAD + MAX_RUNTIME_UNREAD
_MAX_PARSED_BYTES = 2_000_000
_LARGE = 1_000_000
"""Bytes from which only so many unread elements of an array are parsed at a time; the others wait."""

_AFTER_ELEMENT = (b",\n", b"\n]")
_BLANKS = re.compile(r"[ \t\n\r]*")
_decode = json.JSONDecoder().raw_decode


class InboxItem:
    """One element, from its bytes (`raw`), its value, or both. Without a value it is a consumed one.

    An unread one is parsed once: of its value the entry is kept.
    """

    __slots__ = ("_entry", "_raw", "_value", "is_consumed", "is_rest", "is_unread", "msg_id", "offset")

    def __init__(self, raw: bytes | None, value: object, offset: int = -1) -> None:
        self._raw = raw
        self._value = value if raw is None else None
        self._entry: InboxEntry | None = None
        self.msg_id: str | None = None
        """The id of an unread element; None when another program wrote it without one."""
        self.offset = offset
        """The offset in the file; -1 in another program's layout."""
        self.is_rest = False
        """True when it represents all unparsed elements from here on: `raw` contains their bytes."""
        if isinstance(value, dict):
            fields = cast("dict[str, Any]", value)
            self.is_consumed = fields.get("read") is True
            """True when it is flagged as read."""
            self.is_unread = not self.is_consumed
            """True when it is not read yet. Elements that are no objects are neither read nor unread."""
            if self.is_unread:
                self._entry = parse_entry(fields)
                self.msg_id = self._entry.msg_id
        else:
            self.is_consumed = raw is not None and value is None
            self.is_unread = False

    @property
    def raw(self) -> bytes:
        """The element on one line."""
        if self._raw is None:
            self._raw = encode_item(self._value)
        return self._raw

    @property
    def end(self) -> int:
        """The offset after its last byte."""
        return self.offset + len(self.raw)

    @property
    def fields(self) -> dict[str, Any]:
        """The keys and values; bytes are parsed now. Raises NotAnArray when that fails."""
        if self._value is not None:
            return cast("dict[str, Any]", self._value)
        try:
            return cast("dict[str, Any]", json.loads(self.raw))
        except ValueError:
            raise NotAnArray from None

    @property
    def entry(self) -> InboxEntry:
        """The element as an entry. Raises NotAnArray for a consumed one that is none."""
        return self._entry or parse_entry(self.fields)

    def read_flag_patch(self) -> tuple[int, bytes] | None:
        """Return offset and bytes that flag it as read in place; None when the flag is not next to the id."""
        ending = b'"msg_id":"%s","read":false}' % (self.msg_id or "").encode("utf-8", "replace")
        if self.offset < 0 or not self.raw.endswith(ending):
            return None
        return self.offset + len(self.raw) - 6, b"true "

    def with_read_flag(self) -> InboxItem:
        """Return the element with its flag set; keys and their order are kept."""
        if self.raw.endswith(b'"read":false}'):
            return InboxItem(self.raw[:-6] + b"true }", None)
        return InboxItem(None, self.fields | {"read": True})

    def with_id(self, msg_id: str) -> InboxItem:
        """Return the element with an id, right before the flag; other keys and their order are kept."""
        out = {key: value for key, value in self.fields.items() if key != "msg_id"}
        if "read" not in out:
            return InboxItem(None, out | {"msg_id": msg_id, "read": False})
        fields: dict[str, Any] = {}
        for key, value in out.items():
            if key == "read":
                fields["msg_id"] = msg_id
            fields[key] = value
        return InboxItem(None, fields)


def split_array(content: bytes, *, whole: bool = False, known: Sequence[InboxItem] = ()) -> list[InboxItem]:
    """Return the elements of the array. Raises NotAnArray for other content.

    A large array is parsed up to its first 1,064 unread elements, unless `whole` is set: the last item then represents
    the rest of the array (`is_rest`). Elements of an earlier state in Teamwright's layout (`known`, from offset 2) are
    used again, not parsed.
    """
    try:
        found = _split_beginning(content) if len(content) > _LARGE and not whole else _split_lines(content, known)
    except (ValueError, RecursionError):
        found = None
    if found is not None:
        return found
    try:
        values = json.loads(content)
    except (ValueError, RecursionError):
        raise NotAnArray from None
    if not isinstance(values, list):
        raise NotAnArray
    return [InboxItem(None, value) for value in cast("list[object]", values)]


def replace_unread(
    content: bytes,
    senders: Collection[str],
    is_old: Callable[[InboxEntry], bool],
    new: Sequence[bytes],
    *,
    most: int | None = None,
) -> tuple[bytes, list[InboxItem]]:
    """Return the array with new elements in place of old unread ones of these senders, and the old ones: the first
    `most`, by default all. In Teamwright's layout other elements are not parsed. Raises NotAnArray.
    """
    lines = _unread_lines(content, senders)
    items = split_array(content) if lines is None else lines
    old = [item for item in items if item.is_unread and item.entry.sender in senders and is_old(item.entry)][:most]
    if not old:
        return content, []
    if lines is None:
        return encode_array([*(item.raw for item in items if item not in old), *new]), old
    remaining: list[bytes | memoryview] = []
    end = 0
    whole = memoryview(content)
    for item in old:
        remaining.append(whole[end : item.offset])
        end = item.end + 2
    rest = (whole[end:-2], b",\n") if end < len(content) else ()
    return b"".join([*remaining, *rest, b",\n".join(new), b"\n]"]), old


def _unread_lines(content: bytes, senders: Collection[str]) -> list[InboxItem] | None:
    """Return the unread elements of these senders in Teamwright's layout, else None."""
    if content[:4] != b'[\n{"' or content[-3:] != b"}\n]":
        return None
    items: list[InboxItem] = []
    for sender in senders:
        beginning = b'\n{"from":%s,' % encode_item(sender)
        start = content.find(beginning)
        while start >= 0:
            end = content.find(b"\n", start + 1)
            raw = content[start + 1 : end].removesuffix(b",")
            try:
                items.append(InboxItem(raw, None if raw.endswith(READ_ENDINGS) else json.loads(raw), start + 1))
            except (ValueError, RecursionError):
                return None
            start = content.find(beginning, end)
    return sorted(items, key=lambda item: item.offset)


def _split_beginning(content: bytes) -> list[InboxItem] | None:
    """Return the first elements of a large array; None for content that does not look like an array."""
    try:
        return _split_first_lines(content) or _split_first_values(content)
    except ValueError:
        return _split_first_values(content)


def _split_first_lines(content: bytes) -> list[InboxItem] | None:
    """Return the first elements in Teamwright's layout, else None. Raises ValueError for other layouts too."""
    if content[:4] != b'[\n{"' or content[-3:] != b"}\n]":
        return None
    items: list[InboxItem] = []
    offset = 2
    end = len(content) - 2
    unread = size = 0
    while offset < end:
        if _is_enough(unread, size):
            return [*items, _rest_item(content[offset:end])]
        stop = content.find(b",\n", offset, end)
        raw = content[offset : stop if stop >= 0 else end]
        if raw[:2] != b'{"' or raw[-1:] != b"}" or b"\n" in raw:
            return None
        if raw.endswith(READ_ENDINGS):
            items.append(InboxItem(raw, None, offset))
        else:
            items.append(InboxItem(raw, json.loads(raw), offset))
            unread += items[-1].is_unread
            size += len(raw)
        offset += len(raw) + 2
    return items


def _split_first_values(content: bytes) -> list[InboxItem] | None:
    """Return the first elements in any layout; None for content that does not look like an array."""
    text = content.decode().strip()
    if text[:1] != "[" or text[-1:] != "]":
        return None
    items: list[InboxItem] = []
    at = _after_blanks(text, 1)
    end = len(text) - 1
    unread = size = 0
    while at < end:
        if _is_enough(unread, size):
            return [*items, _rest_item(text[at:end].rstrip().encode())]
        value, stop = _decode(text, at)
        items.append(InboxItem(None, value))
        unread += items[-1].is_unread
        size += stop - at
        at = _after_blanks(text, stop)
        if at < end:
            if text[at] != ",":
                return None
            at = _after_blanks(text, at + 1)
    return items


def _after_blanks(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    return found.end() if found is not None else at


def _is_enough(unread: int, size: int) -> bool:
    return unread >= _MAX_PARSED or size > _MAX_PARSED_BYTES


def _rest_item(raw: bytes) -> InboxItem:
    item = InboxItem(raw, raw)
    item.is_rest = True
    return item


def encode_item(value: object) -> bytes:
    """Return a value on one line; half surrogate pairs, which UTF-8 cannot contain, stay escaped."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def _split_lines(content: bytes, known: Sequence[InboxItem]) -> list[InboxItem] | None:
    """Return the elements in Teamwright's layout, else None. A JSON string never contains a raw newline."""
    if content[:4] != b'[\n{"' or content[-3:] != b"}\n]":
        return None
    items = _unchanged_items(content, known)
    offset = items[-1].end + 2 if items else 2
    if offset == len(content):
        return items
    others = {item.raw: item for item in known[len(items) :]}
    lines = content[offset:-2].split(b",\n")
    if content.count(b"\n", offset) != len(lines):
        return None
    for raw in lines:
        if raw[:2] != b'{"' or raw[-1:] != b"}":
            return None
        if raw.endswith(READ_ENDINGS):
            item = InboxItem(raw, None)
        else:
            item = others.pop(raw, None) or InboxItem(raw, json.loads(raw))
        item.offset = offset
        items.append(item)
        offset += len(raw) + 2
    return items


def _unchanged_items(content: bytes, known: Sequence[InboxItem]) -> list[InboxItem]:
    """Return the first known elements, up to one whose bytes differ in the content."""
    same = 0
    most = len(known)
    while same < most:  # by halves: the first `same` elements are unchanged, `most` may be
        middle = (same + most + 1) // 2
        start, end = known[same].offset, known[middle - 1].end
        part = b",\n".join([item.raw for item in known[same:middle]])
        if content[start:end] == part and content[end : end + 2] in _AFTER_ELEMENT:
            same = middle
        else:
            most = middle - 1
    return list(known[:same])
