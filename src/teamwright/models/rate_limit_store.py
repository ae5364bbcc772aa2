"""Stores of a rate limiter's state: in the process, or in a page file that all processes with the key share.

The page is one short line, rewritten in place under a lock. The permits are locks too, so a killed process keeps none.
Without a readable and writable page no process is throttled. Depends on the operating system and `storage`. Format:
docs/reference/formats/rate-limits.md.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import time
import zlib
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol, cast

from msgspec.structs import asdict

from teamwright.models.endpoint import Endpoint
from teamwright.models.rate_state import RateState
from teamwright.processes.process_tree import boot_id
from teamwright.protocol.errors import StorageError
from teamwright.storage.files import write_atomic, write_new
from teamwright.storage.paths import Home, make_private

KEY_FILE = "key"
"""The file with the key of the hashes: 32 random bytes, created once."""
_KEY_BYTES = 32


def rate_limit_file(home: Home | None, endpoint: Endpoint) -> Path | None:
    """Return the file of this credential in the home; None without a home, or when it cannot be written."""
    if home is None:
        return None
    directory = home.rate_limits
    try:
        make_private(directory)
        return directory / endpoint.keyed_fingerprint(_key(directory / KEY_FILE))
    except (OSError, StorageError):
        return None


def _key(path: Path) -> bytes:
    """Return the key; when several processes create it together, one of them succeeds."""
    if not path.exists():
        write_new(path, secrets.token_bytes(_KEY_BYTES))
    key = path.read_bytes()
    if len(key) != _KEY_BYTES:
        key = secrets.token_bytes(_KEY_BYTES)
        write_atomic(path, key)
    return key


PAGE = 512
"""Bytes of the page: one record, padded with spaces, never across the border of a page of memory."""
VERSION = 1
_TRIES, _TRY_S = 5, 0.001
"""The number of attempts to lock, and the seconds between them: the lock is held for microseconds, or by a stopped
process."""
ANY_PERMIT = -1
HOLD_BACK_S = 0.15
"""Seconds that a process waits for a permit that it released while another process waits for one."""
_WAITING, _WAITERS = 1 << 20, 1 << 12
"""The offset in the permit file where waiting processes are marked, and their maximum number."""


class RateLimitStore(Protocol):
    """The port of a rate limiter: its state, changes of it, and permits while calls are limited."""

    def read(self) -> RateState:
        """Return the current state. Costs almost nothing while it has not changed."""
        ...

    def change(self, step: Callable[[RateState], RateState]) -> RateState:
        """Apply one step to the current state; return the new one."""
        ...

    def take_permit(self, count: int) -> int | None:
        """Return a free permit of 0 … `count` - 1, or None. Return it with `release_permit`."""
        ...

    def release_permit(self, place: int) -> None:
        """Release a permit; `ANY_PERMIT`: no call of this process waits for one any more."""


class MemoryRateLimitStore:
    """The store of one process: its rate limiter counts its own calls."""

    def __init__(self) -> None:
        self._state = RateState()

    def read(self) -> RateState:
        return self._state

    def change(self, step: Callable[[RateState], RateState]) -> RateState:
        self._state = step(self._state)
        return self._state

    def take_permit(self, count: int) -> int | None:
        """See RateLimitStore: the rate limiter's own count is sufficient here."""
        return ANY_PERMIT

    def release_permit(self, place: int) -> None: ...


class FileRateLimitStore:
    """The store of all processes with one key: the file `path`, and `<path>.places` beside it, both 0600.

    One object for each file and process: the permits belong to the process. Not thread-safe.
    """

    def __init__(self, path: Path) -> None:
        """Open the store. Raises StorageError when it can be neither opened nor created."""
        self._path = path
        try:
            make_private(path.parent)
            self._fd = _open(path)
            self._permits_fd = _open(path.with_name(f"{path.name}.places"))
        except OSError as problem:
            raise StorageError("io-failed", f"{path}: {problem.strerror or problem}") from problem
        self._taken: set[int] = set()
        self._mark = _WAITING + os.getpid() % _WAITERS
        self._waits = False
        self._held_back_until = 0.0
        self._seen: bytes = b""
        self._state = RateState()

    def read(self) -> RateState:
        """See RateLimitStore: one read of a page that is in memory."""
        try:
            raw = os.pread(self._fd, PAGE, 0)
        except OSError:
            return self._state
        if raw == self._seen:
            return self._state
        state = _decode_state(raw)
        if state is None:
            with self._lock_page() as locked:
                return self._read() if locked else self._state
        self._seen = raw
        self._state = state
        return state

    def change(self, step: Callable[[RateState], RateState]) -> RateState:
        """See RateLimitStore. If the page cannot be locked or written, the step applies to this process alone."""
        with self._lock_page() as locked:
            state = step(self._read() if locked else self._state)
            if locked and state != self._state:
                raw = _encode_state(state)
                with suppress(OSError):  # a full disk: the service will refuse other processes too
                    os.pwrite(self._fd, raw, 0)
                    self._seen = raw
            self._state = state
        return state

    def take_permit(self, count: int) -> int | None:
        """See RateLimitStore. A process that released a permit lets waiting processes take one first."""
        if time.monotonic() < self._held_back_until:
            return None
        try:
            place = next((one for one in range(count) if one not in self._taken and self._lock(one, 1)), None)
        except OSError:
            return ANY_PERMIT
        if place is not None:
            self._taken.add(place)
        self._wait(place is None)
        return place

    def release_permit(self, place: int) -> None:
        if place == ANY_PERMIT:
            self._wait(False)
        elif place in self._taken:
            self._taken.discard(place)
            self._unlock(place, 1)
            if self._others_wait():
                self._held_back_until = time.monotonic() + HOLD_BACK_S

    def close(self) -> None:
        """Close the files; permits are released then."""
        for fd in (self._fd, self._permits_fd):
            with suppress(OSError):
                os.close(fd)
        self._taken.clear()

    def _wait(self, waits: bool) -> None:
        """Mark that this process waits for a permit of other processes, or remove the mark."""
        if waits != self._waits:
            self._waits = waits
            with suppress(OSError):
                self._lock(self._mark, 1) if waits else self._unlock(self._mark, 1)

    def _others_wait(self) -> bool:
        before, after = self._mark - _WAITING, _WAITING + _WAITERS - self._mark - 1
        return not (self._free(_WAITING, before) and self._free(self._mark + 1, after))

    def _free(self, begin: int, count: int) -> bool:
        """Return True when no other process has locked a byte of these; this process holds none of them."""
        if not count:
            return True
        try:
            if free := self._lock(begin, count):
                self._unlock(begin, count)
        except OSError:
            return True
        return free

    def _lock(self, begin: int, count: int) -> bool:
        """Lock bytes of the permit file; return False when another process has one of them. Raises OSError."""
        try:
            fcntl.lockf(self._permits_fd, fcntl.LOCK_EX | fcntl.LOCK_NB, count, begin)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def _unlock(self, begin: int, count: int) -> None:
        with suppress(OSError):
            fcntl.lockf(self._permits_fd, fcntl.LOCK_UN, count, begin)

    @contextmanager
    def _lock_page(self) -> Generator[bool]:
        """Lock the page; yield False when another process, which must be stopped, holds the lock."""
        locked = False
        for _ in range(_TRIES):
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                time.sleep(_TRY_S)
                continue
            if locked := self._is_current():
                break
            if not self._reopen():
                break
        try:
            yield locked
        finally:
            with suppress(OSError):
                fcntl.flock(self._fd, fcntl.LOCK_UN)

    def _is_current(self) -> bool:
        """Return True when the open file is still the one at its path."""
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(self._fd))
        except OSError:
            return False

    def _reopen(self) -> bool:
        """Open the current file after the old one was removed or replaced."""
        try:
            make_private(self._path.parent)
            fd = _open(self._path)
        except OSError:
            return False
        os.close(self._fd)
        self._fd = fd
        self._seen = b""
        return True

    def _read(self) -> RateState:
        """Return the state on the page, under the lock. A damaged one is set aside; then no process is throttled."""
        try:
            raw = os.pread(self._fd, PAGE, 0)
            state = _decode_state(raw)
            if state is None:
                with suppress(StorageError):
                    write_atomic(self._path.with_name(f"{self._path.name}.bad"), raw)
                raw, state = _encode_state(RateState()), RateState()
                os.pwrite(self._fd, raw, 0)
        except OSError:
            return self._state
        self._seen = raw
        self._state = state
        return state


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _encode_state(state: RateState) -> bytes:
    body = json.dumps({"v": VERSION, "boot": _boot_time(), **asdict(state)}, separators=(",", ":"))
    return f"{body} {zlib.crc32(body.encode()):08x}".ljust(PAGE - 1).encode() + b"\n"


def _decode_state(raw: bytes) -> RateState | None:
    """Return the state on the page, None for a damaged one. No throttling for an empty page, an earlier boot, a newer
    format."""
    if not raw:
        return RateState()
    body, _, check = raw.decode("ascii", "replace").strip().rpartition(" ")
    try:
        if f"{zlib.crc32(body.encode()):08x}" != check:
            return None
        found = cast("dict[str, Any]", json.loads(body))
        if found["v"] != VERSION or found["boot"] != _boot_time():
            return RateState()
        state = RateState(
            int(found["epoch"]),
            int(found["level"]),
            float(found["limit"]),
            float(found["paused_until"]),
            float(found["refused_at"]),
        )
    except (ValueError, KeyError, TypeError, OverflowError):
        return None
    return state if state.is_possible(time.monotonic()) else None


def _boot_time() -> str:
    """Return an id of the boot for which times of `time.monotonic` are valid; empty when unknown."""
    return boot_id().partition(" ")[0]
