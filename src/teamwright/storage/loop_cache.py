"""A cache of one object for each key in one event loop: users of an `asyncio.Lock` must share one object.

The most recently used objects are kept alive; older ones live as long as they are referenced, so that no key has two
objects.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

T = TypeVar("T")


class LoopCache(Generic[T]):
    """Objects by key, separate for each running loop; `keep` of them are kept without other references."""

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopObjects[T]] = WeakKeyDictionary()

    def get(self, key: str, make: Callable[[], T]) -> T:
        """Return the object of this key; `make` creates it when there is none. Raises RuntimeError when no loop
        runs.
        """
        loop = asyncio.get_running_loop()
        objects = self._loops.get(loop)
        if objects is None:
            objects = self._loops[loop] = _LoopObjects()
        return objects.get(key, make, self._keep)


class _LoopObjects(Generic[T]):
    def __init__(self) -> None:
        self._living: WeakValueDictionary[str, T] = WeakValueDictionary()
        self._recent: OrderedDict[str, T] = OrderedDict()

    def get(self, key: str, make: Callable[[], T], keep: int) -> T:
        found = self._recent.get(key)
        if found is not None:
            self._recent.move_to_end(key)
            return found
        found = self._living.get(key)
        if found is None:
            found = self._living[key] = make()
        self._recent[key] = found
        if len(self._recent) > keep:
            self._recent.popitem(last=False)
        return found
