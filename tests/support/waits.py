"""The bound of every wait in the tests.

A test waits for an event, never for a time, so a generous bound costs nothing while the test is green. A smaller one
would fail on a busy machine, where a process may start a hundred times slower than on a quiet one.
"""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

WAIT_S = 120.0
"""Seconds until a test gives up a wait."""

_LOOK_S = 0.01
"""A wait that looked without a pause would take the processor from the program that it waits for."""


def wait_until(found: Callable[[], T], what: object = "it") -> T:
    """Return what `found` returns once that is true: for files and processes of others, whose changes no event tells.

    Raises AssertionError with `what` after WAIT_S.
    """
    bound = time.monotonic() + WAIT_S
    while not (got := found()):
        assert time.monotonic() < bound, f"{what} did not come"
        time.sleep(_LOOK_S)
    return got
