"""The workers of a team space: what each one offers, which members it runs, and whether it is alive.

Depends on the database and on leases. A worker is alive while its lease is held.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from teamwright.database.connection import MOST_CONNECTIONS, MOST_OF_MEMBER, Database
from teamwright.database.driver import Connection

BUSY = "('claimed', 'running', 'ending')"
"""The states of start orders that occupy a slot."""


def worker_lease(name: str) -> str:
    """Return the name of the lease of a worker."""
    return f"worker/{name}"


class WorkerOffer(Struct, frozen=True):
    """The offer of a worker: labels, slots, the names of its model keys, and the repositories that it has."""

    name: str
    host: str
    version: str
    labels: tuple[str, ...] = ()
    slots: int = 1
    keys: tuple[str, ...] = ()
    repositories: tuple[str, ...] = ()


class WorkerStatus(Struct, frozen=True):
    """A worker as others see it. `beat_s` is the age of its last sign of life, in seconds."""

    offer: WorkerOffer
    members: tuple[str, ...]
    is_alive: bool
    beat_s: int

    @property
    def free_slots(self) -> int:
        """The number of members that it could still start."""
        return max(0, self.offer.slots - len(self.members)) if self.is_alive else 0


def count_connections(workers: Sequence[WorkerStatus]) -> int:
    """Return the most connections of one lead, these workers as far as they are alive, and members in all their slots.

    Each process has one connection besides its pool.
    """
    alive = [worker for worker in workers if worker.is_alive]
    slots = sum(worker.offer.slots for worker in alive)
    return (len(alive) + 1) * (MOST_CONNECTIONS + 1) + slots * (MOST_OF_MEMBER + 1)


async def register_worker(database: Database, offer: WorkerOffer) -> None:
    """Record the offer of this worker, which holds its lease."""

    async def work(connection: Connection) -> None:
        await connection.execute("delete from workers where name = $1", offer.name)
        await connection.execute(
            "insert into workers (name, host, version, labels, slots, keys, repositories) "
            "values ($1, $2, $3, $4, $5, $6, $7)",
            *(offer.name, offer.host, offer.version, list(offer.labels), offer.slots),
            *(list(offer.keys), list(offer.repositories)),
        )
        await database.notify(connection, "workers")

    await database.write(work)


async def list_workers(database: Database) -> list[WorkerStatus]:
    """Return all workers, by name. Workers that are gone stay in the list until one of their name starts."""
    rows = await database.read(
        lambda connection: connection.fetch(
            "select w.*, is_held('worker/' || w.name) as alive, "
            "coalesce(extract(epoch from clock_timestamp() - l.beat_at)::int, 0) as age, "
            f"array(select o.member || '@' || o.team from start_orders o where o.worker = w.name and o.state in {BUSY} "
            "order by o.id) as members from workers w left join leases l on l.name = 'worker/' || w.name "
            'order by w.name collate "C"'
        )
    )
    return [
        WorkerStatus(
            WorkerOffer(
                str(row["name"]),
                str(row["host"]),
                str(row["version"]),
                tuple(row["labels"]),
                int(row["slots"]),
                tuple(row["keys"]),
                tuple(row["repositories"]),
            ),
            tuple(row["members"]),
            bool(row["alive"]),
            int(row["age"]),
        )
        for row in rows
    ]
