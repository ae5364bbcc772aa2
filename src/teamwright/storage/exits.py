"""Noticing that a process of anybody's has ended, at once and without asking again and again.

Below it: the operating system's file descriptor of a process; where there is none, a look a second. Refuses to know
what the process was for.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

LOOK_EVERY_S = 1.0
"""Between two looks, where the system cannot tell by itself."""


def on_exit(pid: int, callback: Callable[[], None]) -> Callable[[], None]:
    """Call `callback` once when that process is gone, or soon when it is gone already. Returns how to stop."""
    loop = asyncio.get_running_loop()
    opened = getattr(os, "pidfd_open", None)
    try:
        descriptor = int(opened(pid)) if opened is not None else -1
    except ProcessLookupError:
        return loop.call_soon(callback).cancel
    except OSError:
        descriptor = -1
    return _by_looking(loop, pid, callback) if descriptor < 0 else _by_descriptor(loop, descriptor, callback)


def _by_descriptor(
    loop: asyncio.AbstractEventLoop, descriptor: int, callback: Callable[[], None]
) -> Callable[[], None]:
    open_ones = [descriptor]

    def stop() -> None:
        while open_ones:
            loop.remove_reader(open_ones[0])
            os.close(open_ones.pop())

    def gone() -> None:
        stop()
        callback()

    loop.add_reader(descriptor, gone)
    return stop


def _by_looking(loop: asyncio.AbstractEventLoop, pid: int, callback: Callable[[], None]) -> Callable[[], None]:
    timers: list[asyncio.TimerHandle] = []

    def look() -> None:
        timers.clear()
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            callback()
            return
        except OSError:
            pass  # it is another user's: it is there
        timers.append(loop.call_later(LOOK_EVERY_S, look))

    def stop() -> None:
        while timers:
            timers.pop().cancel()

    look()
    return stop
