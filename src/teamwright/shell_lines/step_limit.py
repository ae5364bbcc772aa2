"""The bound on the work of one verdict, counted in steps and not in time, so that a line always gets the same verdict.

One step is about a microsecond. All work that grows with a line or with a directory spends steps: words, names that
patterns match, entries of directories, paths that are judged. What is found on the disk is remembered until the end.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import TypeVar, cast

from msgspec import Struct, field

MAX_STEPS = 200_000
"""The most steps of one verdict, and of reading one line. Beyond it the line asks, and only a person decides."""

TOO_LARGE = "it is too large to judge"
"""The reason of a question about a line that needs more work, as the end of a sentence."""

JUDGED_PATH = 40
"""The steps of a verdict on one path."""

Found = TypeVar("Found")


class TooMuchWork(Exception):
    """The verdict needs more steps than it may use. The text is the reason, as the end of a sentence."""

    def __init__(self) -> None:
        super().__init__(TOO_LARGE)


class _Work(Struct):
    left: int = MAX_STEPS
    found: dict[Hashable, object] = field(default_factory=dict[Hashable, object])


_current: ContextVar[_Work | None] = ContextVar("verdict_work", default=None)


def bounded_work(*, separate: bool = False) -> AbstractContextManager[None]:
    """Bound the work inside the block. Inside another block the outer bound counts, unless it is `separate`."""
    return nullcontext() if not separate and _current.get() is not None else _BoundedWork()


class _BoundedWork:
    """A block with a bound. Each tool call enters one, and a generator takes thrice as long as this."""

    __slots__ = ("_token",)

    def __enter__(self) -> None:
        self._token = _current.set(_Work())

    def __exit__(self, *_raised: object) -> None:
        _current.reset(self._token)


def find_bounded(find: Callable[[], Found], otherwise: Found) -> Found:
    """Return what `find` returns, or `otherwise` if that needs more work than one verdict may use."""
    try:
        with bounded_work():
            return find()
    except (TooMuchWork, RecursionError):
        return otherwise


def spend_steps(count: int = 1) -> None:
    """Note work of the current verdict. Raises TooMuchWork when no steps are left, also at each later call."""
    work = _current.get()
    if work is not None:
        work.left -= count
        if work.left < 0:
            raise TooMuchWork


def found_once(key: Hashable, find: Callable[[], Found]) -> Found:
    """Return what `find` returned for this key before in the same verdict, else what it returns now."""
    work = _current.get()
    if work is None:
        return find()
    if key not in work.found:
        work.found[key] = find()
    return cast("Found", work.found[key])
