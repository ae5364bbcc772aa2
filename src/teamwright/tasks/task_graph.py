"""The graph of tasks: functions on its edges.

An edge (blocker, blocked) is stored on both sides, in two files. Depends on task values.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from teamwright.protocol.errors import TaskRefused

Edge: TypeAlias = tuple[str, str]
"""(blocker, blocked), both ids of tasks."""


def id_sort_key(id: str) -> tuple[int, str]:
    """Return the sort key for numeric order, also for ids of other programs that are not numbers."""
    return len(id), id


def sort_ids(ids: Iterable[str]) -> list[str]:
    """Return the ids in numeric order, without duplicates."""
    return sorted(set(ids), key=id_sort_key)


def add_ids(ids: Sequence[str], more: Iterable[str]) -> tuple[str, ...]:
    """Return the ids with new ones appended, without duplicates. The order of the old ones is kept."""
    return tuple(dict.fromkeys((*ids, *more)))


def remove_id(ids: Sequence[str], gone: str) -> tuple[str, ...]:
    """Return the ids without this one."""
    return tuple(i for i in ids if i != gone)


def find_path(start: str, goal: str, blocks: Callable[[str], Iterable[str]]) -> list[str] | None:
    """Return the shortest path from one task to another along `blocks`, both ends included, or None."""
    came_from: dict[str, str] = {start: start}
    open_ends = deque([start])
    while open_ends:
        here = open_ends.popleft()
        if here == goal:
            return _trace_back(goal, came_from)
        for there in sort_ids(blocks(here)):
            if there not in came_from:
                came_from[there] = here
                open_ends.append(there)
    return None


def refuse_cycles(edges: Iterable[Edge], blocks: Callable[[str], Iterable[str]]) -> None:
    """Raise TaskRefused (`self_edge`, `cycle`) if these edges, added in order, would form a cycle."""
    new: dict[str, list[str]] = {}

    def blocks_with_new(id: str) -> list[str]:
        return [*blocks(id), *new.get(id, ())]

    for blocker, blocked in edges:
        if blocker == blocked:
            raise TaskRefused("self_edge", f"#{blocker} cannot wait for itself")
        way = find_path(blocked, blocker, blocks_with_new)
        if way:
            cycle_text = " → ".join(f"#{i}" for i in [*way, blocked])
            raise TaskRefused(
                "cycle", f"these tasks would wait for each other: {cycle_text}", do=["leave one of them out"]
            )
        new.setdefault(blocker, []).append(blocked)


def _trace_back(goal: str, came_from: dict[str, str]) -> list[str]:
    way = [goal]
    while came_from[way[-1]] != way[-1]:
        way.append(came_from[way[-1]])
    return way[::-1]
