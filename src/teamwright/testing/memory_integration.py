"""The integration queue in memory, for tests. Depends on its port."""

from __future__ import annotations

from teamwright.worktrees.integration_store import ChangeEntry, IntegrationEntry


class MemoryIntegrationStore:
    """The queue in a dictionary that several objects may share; see IntegrationStore."""

    def __init__(self, table: dict[str, IntegrationEntry] | None = None) -> None:
        self._table = {} if table is None else table

    async def add(self, entry: IntegrationEntry) -> bool:
        """See IntegrationStore."""
        return self._table.setdefault(entry.id, entry) is entry

    async def get(self, id: str) -> IntegrationEntry | None:
        """See IntegrationStore."""
        return self._table.get(id)

    async def entries(self) -> list[IntegrationEntry]:
        """See IntegrationStore."""
        return sorted(self._table.values(), key=lambda entry: (entry.order, entry.id))

    async def change(self, id: str, change: ChangeEntry) -> IntegrationEntry:
        """See IntegrationStore."""
        self._table[id] = change(self._table[id])
        return self._table[id]
