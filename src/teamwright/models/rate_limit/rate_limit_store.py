"""Where the state of a service's limits is kept: in the process, or on a page that all who share the key see.

The page is one short line, rewritten in place under a lock; the places of those who may call are locks too, so a
process that is killed keeps none. Whatever cannot be read or written means that nobody is throttled. Below: the
operating system and `storage`. Knows neither keys nor HTTP. Format: docs/formats/rate-limits.md.
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
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol, cast

from teamwright.models.endpoint import Endpoint
from teamwright.models.rate_limit.rate_state import RateState
from teamwright.processes.process_tree import boot_id
from teamwright.protocol.errors import StorageError
from teamwright.storage.atomic import write_atomic, write_new
from teamwright.storage.paths import make_private

KEY_FILE = "key"
"""The file with the key of the hashes: 32 random bytes, made once."""
_KEY_BYTES = 32


def rate_limit_file(directory: Path | None, endpoint: Endpoint) -> Path | None:
    """The file of this credential in the directory; None where there is none, or it cannot be written."""
    if directory is None:
        return None
    try:
        make_private(directory)
        return directory / endpoint.keyed_fingerprint(_key(directory / KEY_FILE))
    except (OSError, StorageError):
        return None


def _key(path: Path) -> bytes:
    """The key; of several processes that make it together one does."""
    if not path.exists():
        write_new(path, secrets.token_bytes(_KEY_BYTES))
    key = path.read_bytes()
    if len(key) != _KEY_BYTES:
        key = secrets.token_bytes(_KEY_BYTES)
        write_atomic(path, key)
    return key


PAGE = 512
"""Bytes of the page: one record, filled up with spaces, never across the border of a page of memory."""
VERSION = 1
MAX_PAUSE_S = 3600.0
"""A pause that is longer, in seconds, was not written by us."""
_TRIES, _TRY_S = 5, 0.001
"""How often, and how far apart in seconds, the lock is tried: it is held for microseconds, or by a stopped process."""
ANY_PERMIT = -1
HOLD_BACK_S = 0.15
"""How long, in seconds, a process lets a place be that it left while another one waits for one."""
_WAITING, _WAITERS = 1 << 20, 1 << 12
"""Where in the file of places those who wait are marked, and for how many of them there is room."""


class RateLimitStore(Protocol):
    """What a governor needs: the state, a change of it, and places while few may call."""

    def read(self) -> RateState:
        """The state now. Costs next to nothing while it has not changed."""
        ...

    def change(self, step: Callable[[RateState], RateState]) -> RateState:
        """Take one step from what is true now; returns what is true then."""
        ...

    def take_permit(self, among: int) -> int | None:
        """One of the places 0 … `among` - 1 that nobody has, or None. Give it back with `leave`."""
        ...

    def release_permit(self, place: int) -> None:
        """Give a place back; `ANY_PERMIT`: nobody here waits for one any more."""
        ...


class MemoryRateLimitStore:
    """The board of one process: its governor counts its own calls."""

    def __init__(self) -> None:
        self._state = RateState()

    def read(self) -> RateState:
        """See Board."""
        return self._state

    def change(self, step: Callable[[RateState], RateState]) -> RateState:
        """See Board."""
        self._state = step(self._state)
        return self._state

    def take_permit(self, among: int) -> int | None:
        """See Board: here the governor's own count is all there is."""
        return ANY_PERMIT

    def release_permit(self, place: int) -> None:
        """See Board."""


class FileRateLimitStore:
    """The board of all processes with one key: the file `path`, and `<path>.places` beside it, both 0600.

    One object a file and process: the places belong to the process. Not for several threads at once.
    """

    def __init__(self, path: Path) -> None:
        """Raises StorageError when it can be neither opened nor made."""
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
        """See Board: one read of a page that is in memory."""
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
        self._seen, self._state = raw, state
        return state

    def change(self, step: Callable[[RateState], RateState]) -> RateState:
        """See Board. Where the page cannot be locked or written the step holds for this process alone."""
        with self._lock_page() as locked:
            state = step(self._read() if locked else self._state)
            if locked and state != self._state:
                raw = _encode_state(state)
                with suppress(OSError):  # a full disk: others will be refused themselves
                    os.pwrite(self._fd, raw, 0)
                    self._seen = raw
            self._state = state
        return state

    def take_permit(self, among: int) -> int | None:
        """See Board. Who left a place while other processes wait lets them have one first."""
        if time.monotonic() < self._held_back_until:
            return None
        try:
            place = next((one for one in range(among) if one not in self._taken and self._lock(one, 1)), None)
        except OSError:
            return ANY_PERMIT
        if place is not None:
            self._taken.add(place)
        self._wait(place is None)
        return place

    def release_permit(self, place: int) -> None:
        """See Board."""
        if place == ANY_PERMIT:
            self._wait(False)
        elif place in self._taken:
            self._taken.discard(place)
            self._unlock(place, 1)
            if self._others_wait():
                self._held_back_until = time.monotonic() + HOLD_BACK_S

    def close(self) -> None:
        """Let go of the files; places that are held are free then."""
        for fd in (self._fd, self._permits_fd):
            with suppress(OSError):
                os.close(fd)
        self._taken.clear()

    def _wait(self, waits: bool) -> None:
        """Mark that somebody here waits for a place of other processes, or that nobody does."""
        if waits != self._waits:
            self._waits = waits
            with suppress(OSError):
                self._lock(self._mark, 1) if waits else self._unlock(self._mark, 1)

    def _others_wait(self) -> bool:
        before, after = self._mark - _WAITING, _WAITING + _WAITERS - self._mark - 1
        return not (self._free(_WAITING, before) and self._free(self._mark + 1, after))

    def _free(self, begin: int, count: int) -> bool:
        """Whether no other process has a byte of these; they are none that we hold."""
        if not count:
            return True
        try:
            if free := self._lock(begin, count):
                self._unlock(begin, count)
        except OSError:
            return True
        return free

    def _lock(self, begin: int, count: int) -> bool:
        """Lock bytes of the file of places; False when another process has one of them. Raises OSError."""
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
        """The page, for us alone; False when somebody holds on to it, who must be stopped."""
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
        """Whether the file that we hold is still the one at its place."""
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(self._fd))
        except OSError:
            return False

    def _reopen(self) -> bool:
        """Somebody removed or replaced the file: go on with the one that is there."""
        try:
            make_private(self._path.parent)
            fd = _open(self._path)
        except OSError:
            return False
        os.close(self._fd)
        self._fd, self._seen = fd, b""
        return True

    def _read(self) -> RateState:
        """What the page holds, under the lock. A damaged one is set aside; then nobody is throttled."""
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
        self._seen, self._state = raw, state
        return state


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _encode_state(state: RateState) -> bytes:
    body = json.dumps({"v": VERSION, "boot": _boot_time(), **asdict(state)}, separators=(",", ":"))
    return f"{body} {zlib.crc32(body.encode()):08x}".ljust(PAGE - 1).encode() + b"\n"


def _decode_state(raw: bytes) -> RateState | None:
    """The state on the page, None for a damaged one. Nothing yet, an earlier boot, a newer format: nobody throttled."""
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
    now = time.monotonic()
    sane = state.limit >= 1 and 0 <= state.refused_at <= now + 1 and state.paused_until <= now + MAX_PAUSE_S
    return state if sane else None


def _boot_time() -> str:
    """Since when times of `time.monotonic` mean what they do now; empty where nobody knows."""
    return boot_id().partition(" ")[0]
