"""The workers of a team space, and the orders by which a lead starts one member on one of them.

A worker says what it offers, and is alive while its lease is held. A lead adds an order, and exactly one worker claims
it (`for update skip locked`).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from teamwright.database.connection import MOST_CONNECTIONS, MOST_OF_MEMBER, Database
from teamwright.database.driver import Connection, Row
from teamwright.database.session_connection import fence_out

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


ORDERS = "orders"
"""The topic of new orders, and of orders that a worker shall end."""

WORKER_LOST = "its worker was lost before the member ran"
"""The detail of an ended order that its lead repeats. The process may run, so the same order must not start another."""

_STATUS = (
    "with held as materialized (select (classid::bigint << 32) | objid::bigint as key from pg_locks "
    "where locktype = 'advisory' and objsubid = 1 and granted "
    "and database = (select oid from pg_database where datname = current_database())) "
    "select id, state, worker, detail, lease_key('worker/' || worker) in (select key from held) as has_worker, "
    "lease_key('member/' || team || '/' || lower(member)) in (select key from held) as has_member from start_orders"
)
"""As `is_held` of each lease, with one look at the server's locks for all orders."""


class OrderState(StrEnum):
    """The states of a start order."""

    WAITING = "waiting"
    CLAIMED = "claimed"
    RUNNING = "running"
    ENDING = "ending"
    ENDED = "ended"


class StartOrder(Struct, frozen=True, kw_only=True):
    """A start order. `body` is the spawn file of the member as JSON, with its flags.

    An empty `label` fits every worker. `keys`: one of these model keys is needed. `repository`: the worker must have
    it, and `bundle` has only the commits beyond its remote; without one the bundle is complete.
    """

    team: str
    member: str
    session: str
    version: str
    body: str
    label: str = ""
    keys: tuple[str, ...] = ()
    repository: str = ""
    commit: str = ""
    bundle: bytes | None = None
    id: int = 0


class MemberBundle(Struct, frozen=True):
    """The commits of a member that has ended, as a bundle that its worker made."""

    team: str
    member: str
    bundle: bytes


class OrderStatus(Struct, frozen=True):
    """The state of an order, its worker, and what the worker says of it."""

    state: OrderState
    worker: str
    detail: str
    has_worker: bool
    """True while the worker is alive."""
    has_member: bool
    """True while the member's process holds its lease."""


def member_lease(team: str, member: str) -> str:
    """Return the name of the lease of a member on another machine."""
    return f"member/{team}/{member.lower()}"


def order_topic(id: int) -> str:
    """Return the topic of the changes of one order."""
    return f"order:{id}"


def misfits(order: StartOrder, worker: WorkerStatus) -> list[str]:
    """Return each reason why the worker does not fit the order, as a clause; empty when it fits."""
    offer = worker.offer
    found = list[str]()
    if not worker.is_alive:
        return ["it is not running"]
    if offer.version != order.version:
        found.append(f"it runs Teamwright {offer.version}, and the lead runs {order.version}")
    if order.label and order.label not in {*offer.labels, offer.name}:
        found.append(f"it has no label {order.label}")
    if order.keys and not {*order.keys} & {*offer.keys}:
        found.append(f"it has no model key of the lead's names ({', '.join(order.keys)})")
    if not worker.free_slots:
        found.append(f"it has no free slot of {offer.slots}")
    return found


class StartOrders:
    """The start orders of a team space."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, order: StartOrder) -> int:
        """Add an order, and wake the workers. Return its number."""

        async def work(connection: Connection) -> int:
            id = await connection.fetchval(
                "insert into start_orders (team, member, session, label, version, keys, repository, commit_id, body, "
                "bundle) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) returning id",
                *(order.team, order.member, order.session, order.label, order.version, list(order.keys)),
                *(order.repository, order.commit, order.body, order.bundle),
            )
            await self._database.notify(connection, ORDERS)
            return int(id)

        return await self._database.write(work)

    async def claim(self, offer: WorkerOffer) -> StartOrder | None:
        """Claim the oldest order that fits this worker, while it has a free slot; None without one."""

        async def work(connection: Connection) -> StartOrder | None:
            await connection.execute("select 1 from workers where name = $1 for update", offer.name)
            row = await connection.fetchrow(
                "update start_orders set state = 'claimed', worker = $1 where id = ("
                "select id from start_orders where state = 'waiting' and version = $2 "
                "and (label = '' or label = $1 or label = any($3)) and (keys = '{}' or keys && $4::text[]) "
                "and (repository = '' or repository = any($5)) "
                f"and (select count(*) from start_orders where worker = $1 and state in {BUSY}) < $6 "
                "order by id limit 1 for update skip locked) returning *",
                *(offer.name, offer.version, list(offer.labels), list(offer.keys)),
                *(list(offer.repositories), offer.slots),
            )
            if row is None:
                return None
            await self._database.notify(connection, order_topic(int(row["id"])))
            return _order(row)

        return await self._database.write(work)

    async def note_running(self, id: int, worker: str) -> bool:
        """Record that the member's process runs. Return False when the order is no longer this worker's."""
        return await self._move(
            id, worker, "state = 'running', bundle = null, body = ''", "state in ('claimed', 'running')"
        )

    async def note_ended(self, id: int, worker: str, detail: str, result: bytes | None = None) -> bool:
        """Record the end of the member's process, its last output, and the bundle of its commits."""
        return await self._move(
            id, worker, "state = 'ended', bundle = null, body = ''", f"state in {BUSY}", detail=detail, result=result
        )

    async def _move(
        self, id: int, worker: str, change: str, condition: str, *, detail: str = "", result: bytes | None = None
    ) -> bool:
        async def work(connection: Connection) -> bool:
            done = await connection.execute(
                f"update start_orders set {change}, detail = $3, result = coalesce($4, result) "
                f"where id = $1 and worker = $2 and {condition}",
                *(id, worker, detail, result),
            )
            await self._database.notify(connection, order_topic(id))
            return done.endswith(" 1")

        return await self._database.write(work)

    async def request_end(self, id: int) -> None:
        """Ask the worker to end the member. A waiting order ends at once, and so does one whose worker is gone.

        The member of a lost worker is fenced out: its next write is refused, and it ends itself.
        """

        async def work(connection: Connection) -> None:
            row = await connection.fetchrow(
                "update start_orders set state = case when state = 'waiting' or not is_held('worker/' || worker) "
                "then 'ended' else 'ending' end, bundle = null, body = '' where id = $1 and state <> 'ended' "
                "returning state, team, member, worker",
                id,
            )
            if row is None:
                return
            if row["state"] == OrderState.ENDED and row["worker"] is not None:
                await fence_out(connection, member_lease(str(row["team"]), str(row["member"])))
            await self._database.notify(connection, ORDERS)
            await self._database.notify(connection, order_topic(id))

        await self._database.write(work)

    async def end_unknown(self, id: int, worker: str) -> None:
        """End an order whose process a former process of this worker started: its member is fenced out."""

        async def work(connection: Connection) -> None:
            row = await connection.fetchrow(
                "update start_orders set state = 'ended' where id = $1 and worker = $2 and state = 'ending' "
                "returning team, member",
                *(id, worker),
            )
            if row is not None:
                await fence_out(connection, member_lease(str(row["team"]), str(row["member"])))
                await self._database.notify(connection, order_topic(id))

        await self._database.write(work)

    async def settle_lost(self, id: int) -> None:
        """Decide an order whose worker was lost before it noted the start: it ends, unless its member runs."""
        await self._settle("id = $1 and state = 'claimed' and not is_held('worker/' || worker)", id)

    async def settle_former_process(self, worker: str) -> None:
        """End the orders of a former process of this worker, except those whose members run."""
        await self._settle(f"worker = $1 and state in {BUSY}", worker)

    async def _settle(self, condition: str, value: int | str) -> None:
        """End orders without a worker whose members hold no lease. A process that is slow to start is fenced out."""

        async def work(connection: Connection) -> None:
            rows = await connection.fetch(
                "with lost as (select id as lost_id, state as former, "
                "is_held('member/' || team || '/' || lower(member)) as runs "
                f"from start_orders where {condition} order by id for update) "
                "update start_orders set state = case when not runs then 'ended' when former = 'claimed' "
                "then 'running' else former end, bundle = null, body = '', "
                "detail = case when runs then '' when former = 'claimed' then $2 else $3 end "
                "from lost where id = lost_id returning id, team, member, state",
                *(value, WORKER_LOST, "its worker was started again"),
            )
            for row in rows:
                if row["state"] == OrderState.ENDED:
                    await fence_out(connection, member_lease(str(row["team"]), str(row["member"])))
                await self._database.notify(connection, order_topic(int(row["id"])))

        await self._database.write(work)

    async def is_open(self, id: int) -> bool:
        """Return True until the order ends. Waits for a transaction that is ending it."""
        return bool(
            await self._database.write(
                lambda connection: connection.fetchval(
                    f"select true from start_orders where id = $1 and state in {BUSY} for share", id
                )
            )
        )

    async def read(self, id: int) -> OrderStatus | None:
        """Return the status of an order; None when its rows are gone."""
        return (await self.read_all([id])).get(id)

    async def read_all(self, ids: Sequence[int]) -> dict[int, OrderStatus]:
        """Return the status of each of these orders whose rows exist, by one query."""
        rows = await self._database.read(
            lambda connection: connection.fetch(f"{_STATUS} where id = any($1)", list(ids))
        )
        return {
            int(row["id"]): OrderStatus(
                OrderState(row["state"]),
                str(row["worker"] or ""),
                str(row["detail"]),
                bool(row["has_worker"]),
                bool(row["has_member"]),
            )
            for row in rows
        }

    async def ending(self, worker: str) -> list[int]:
        """Return the numbers of this worker's orders that a lead wants to end."""
        rows = await self._database.read(
            lambda connection: connection.fetch(
                "select id from start_orders where worker = $1 and state = 'ending'", worker
            )
        )
        return [int(row["id"]) for row in rows]

    async def read_result(self, id: int) -> MemberBundle | None:
        """Return the commits of the member of an ended order; None without any."""
        row = await self._database.read(
            lambda connection: connection.fetchrow(
                "select team, member, result from start_orders "
                "where id = $1 and state = 'ended' and result is not null",
                id,
            )
        )
        return MemberBundle(row["team"], row["member"], bytes(row["result"])) if row is not None else None

    async def unfinished(self, team: str, member: str) -> list[int]:
        """Return the numbers of the orders for this member that have not ended, oldest first."""
        rows = await self._database.read(
            lambda connection: connection.fetch(
                "select id from start_orders where team = $1 and lower(member) = lower($2) and state <> 'ended' "
                "order by id",
                *(team, member),
            )
        )
        return [int(row["id"]) for row in rows]

    async def ended_with_result(self, session: str) -> list[int]:
        """Return the ended orders of a session whose commits its lead has not stored, oldest first."""
        rows = await self._database.read(
            lambda connection: connection.fetch(
                "select id from start_orders where session = $1 and state = 'ended' and result is not null order by id",
                session,
            )
        )
        return [int(row["id"]) for row in rows]

    async def prune(self) -> None:
        """Remove the ended orders without commits whose leads no longer run."""
        await self._database.write(
            lambda connection: connection.execute(
                "delete from start_orders where state = 'ended' and result is null "
                "and not is_held('session/' || session)"
            )
        )

    async def remove(self, id: int) -> None:
        """Remove an ended order with its result."""
        await self._database.write(
            lambda connection: connection.execute("delete from start_orders where id = $1 and state = 'ended'", id)
        )


def _order(row: Row) -> StartOrder:
    return StartOrder(
        team=str(row["team"]),
        member=str(row["member"]),
        session=str(row["session"]),
        version=str(row["version"]),
        body=str(row["body"]),
        label=str(row["label"]),
        keys=tuple(row["keys"]),
        repository=str(row["repository"]),
        commit=str(row["commit_id"]),
        bundle=bytes(row["bundle"]) if row["bundle"] is not None else None,
        id=int(row["id"]),
    )
