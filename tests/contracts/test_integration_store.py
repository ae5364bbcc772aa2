"""The contract of every integration queue: files, memory, a database. A call of `open_store` is like one process."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from msgspec.structs import replace

from teamwright.worktrees.integration_store import FileIntegrationStore, IntegrationEntry, IntegrationStore
from tests.contracts.database_processes import database_processes
from tests.support.memory_stores import MemoryIntegrationStore


@pytest.fixture(params=["files", "memory", "database"])
async def open_store(request, tmp_path) -> AsyncIterator[Callable[[], IntegrationStore]]:
    if request.param == "database":
        async with database_processes(request.getfixturevalue("postgres").new_space()) as stores:
            yield lambda: stores().integration("demo")
        return
    table: dict[str, IntegrationEntry] = {}
    files = request.param == "files"
    yield lambda: FileIntegrationStore(tmp_path / "queue") if files else MemoryIntegrationStore(table)


def entry(id: str, order: int = 0) -> IntegrationEntry:
    return IntegrationEntry(id, f"teamwright/demo/{id}", "a" * 40, "b" * 40, id, "demo", order=order)


async def test_entries_are_worked_by_order_and_an_id_is_added_once(open_store):
    assert await open_store().entries() == []
    assert await open_store().add(entry("z", 1))
    assert await open_store().add(entry("a/b", 2))
    assert not await open_store().add(entry("z", 9))
    assert [(one.id, one.order) for one in await open_store().entries()] == [("z", 1), ("a/b", 2)]


async def test_no_change_is_lost_when_several_change_an_entry(open_store):
    await open_store().add(entry("z"))
    add = [open_store().change("z", lambda now: replace(now, order=now.order + 1)) for _ in range(20)]
    await asyncio.gather(*add)
    [changed] = await open_store().entries()
    assert changed.order == 20
    with pytest.raises(KeyError):
        await open_store().change("unknown", lambda now: now)
