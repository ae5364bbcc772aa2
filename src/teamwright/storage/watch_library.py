"""Changes of directories where the system has no inotify: a thread of `watchfiles`, imported when it is needed.

Depends on that library, which looks for news at intervals. Leaves to `watch` which changes matter.
"""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import AsyncIterator, Callable

_Awatch = Callable[..., AsyncIterator[set[tuple[int, str]]]]

STEP_MS = 250
"""How often the library's thread looks for news: each look is a wake-up of a process that rests."""


class WatchLibrary:
    """Watched directories. `failed` is called when the library cannot watch them. Raises ImportError."""

    def __init__(self, changed: Callable[[set[str] | None], None], failed: Callable[[], None]) -> None:
        self._awatch: _Awatch = importlib.import_module("watchfiles").awatch
        self._changed = changed
        self._failed = failed
        self._asked: dict[str, str] = {}
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def add(self, directory: str) -> None:
        """Watch this directory from now on."""
        self._asked[os.path.realpath(directory)] = directory  # some systems report the real path
        self._restart()

    def remove(self, directory: str) -> None:
        """Watch it no longer."""
        self._asked = {real: asked for real, asked in self._asked.items() if asked != directory}
        self._restart()

    async def close(self) -> None:
        """Watch nothing any more."""
        self._asked.clear()
        self._stop.set()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _restart(self) -> None:
        self._stop.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        while True:
            self._stop.clear()
            if not self._asked:
                await self._stop.wait()
                continue
            await self._watch_once()
            if not self._stop.is_set():
                await self._stop.wait()  # the library failed: it is asked again for other directories

    async def _watch_once(self) -> None:
        asked = dict(self._asked)
        options = {"debounce": STEP_MS, "step": STEP_MS, "recursive": False, "force_polling": False}
        watching = self._awatch(*asked.values(), watch_filter=None, stop_event=self._stop, **options)
        asyncio.get_running_loop().call_soon(self._changed, None)
        try:
            async for changes in watching:
                self._changed({_as_asked(path, asked) for _, path in changes})
        except (OSError, RuntimeError):
            self._failed()


def _as_asked(path: str, asked: dict[str, str]) -> str:
    if path in asked:
        return asked[path]
    directory, name = os.path.split(path)
    return os.path.join(asked.get(directory, directory), name)
