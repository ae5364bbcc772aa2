"""The remote backend: members on other machines, each started by a worker that claimed its start order.

Imported only for a team in a database. Depends on start orders, the wire through the database, and git bundles.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from teamwright import __version__
from teamwright.database.connection import Database
from teamwright.database.session_connection import SessionConnection
from teamwright.database.wire_tunnel import WireTunnel
from teamwright.database.worker_orders import (
    WORKER_LOST,
    OrderState,
    OrderStatus,
    StartOrder,
    StartOrders,
    WorkerStatus,
    list_workers,
    misfits,
    order_topic,
)
from teamwright.models.names import KEY_VARIABLES, OTHER_KEYS
from teamwright.protocol.errors import CannotStart, TeamwrightError
from teamwright.protocol.time_limit import time_limit
from teamwright.session.agents.model_sources import SCRIPTED
from teamwright.session.spawn_file import VARIABLE
from teamwright.teams.backend import Launch, Location
from teamwright.worktrees.commit_bundle import fetch_result, make_bundle, remote_url, result_ref

START_S = 300.0
"""Seconds that a worker may take to clone the repository and to start the process."""

LOST_S = 5.0
"""Seconds without the lease of a member after which its process counts as lost."""

_LOOK_S = 1.0

_TRAVELLING = (
    *("effort", "permission_mode", "allowed_tools", "disallowed_tools", "only_allowed", "fallback_models"),
    *("append_system_prompt", "system_prompt", "teams", "ask", "ask_timeout_s", "task_list", "agents"),
    *("plan_approval", "pace_s", "sandbox", "sandbox_bounds", "calls_per_agent", "headless", "given", "hooks"),
)
"""The options of the lead that do not name something on its machine."""


class _Running(Struct):
    """A member that a worker runs: its wire, and the time at which its lease was last held."""

    tunnel: WireTunnel
    seen_at: float
    changed: asyncio.Event
    unsubscribe: Callable[[], None]


class RemoteBackend:
    """A `Backend`. Parameters: `label`, which a worker must have or be named; empty: any worker fits; `wire`, the
    socket of the lead.
    """

    def __init__(self, database: Database, session: SessionConnection, label: str, wire: Path) -> None:
        self._database = database
        self._session = session
        self._label = label
        self._wire = wire
        self._orders = StartOrders(database)
        self._running: dict[int, _Running] = {}
        self._watch: asyncio.Task[None] | None = None

    @property
    def kind(self) -> str:
        """The name of this backend in the roster."""
        return f"remote:{self._label}" if self._label else "remote"

    async def open(self, launch: Launch) -> Location:
        """Start the program on a worker; returns when its process runs there. The rest as `Backend.open`."""
        for former in await self._orders.unfinished(launch.team, launch.name):
            # A lead that was killed before it knew the process of its order: the process would keep the lease.
            await self._end(former, launch.cwd)
        order = await self._make_order(launch)
        if self._database.files is not None:
            self._database.files.leave_to_member(_stem(launch))
        while (started := await self._start_on_worker(order, launch)) is None:
            pass  # that worker was lost before the member ran
        id, worker = started
        if self._watch is None or self._watch.done():
            self._watch = asyncio.create_task(self._watch_members(), name="members on other machines")
        facts = {"order": str(id), "worker": worker, "cwd": str(launch.cwd), "transcript": _stem(launch)}
        return Location(self.kind, worker, facts, f"{launch.name} runs on the worker {worker}")

    async def is_alive(self, location: Location) -> bool:
        """Return True while the member's process holds its lease."""
        status = await self._orders.read(_order_of(location))
        return status is not None and status.state is not OrderState.ENDED and (status.has_member or status.has_worker)

    async def last_output(self, location: Location) -> str:
        """Return the worker's report about the end of the process."""
        status = await self._orders.read(_order_of(location))
        return status.detail if status is not None else ""

    async def close(self, location: Location) -> None:
        """End the process, and fetch the commits of its member into the lead's repository."""
        await self._end(_order_of(location), Path(location.facts.get("cwd", ".")), location.facts.get("transcript", ""))

    # ── placement ────────────────────────────────────────────────────────────────────────────────────────────

    async def _make_order(self, launch: Launch) -> StartOrder:
        """Return the order for a worker that fits. Raises CannotStart with the reason of each worker."""
        spawn: dict[str, Any] = json.loads(Path(launch.env[VARIABLE]).read_bytes())
        spawn["options"] = {key: value for key, value in spawn["options"].items() if key in _TRAVELLING}
        flags = launch.argv[launch.argv.index("teamwright") + 1 :]
        url = await asyncio.to_thread(remote_url, launch.cwd)
        order = StartOrder(
            team=launch.team,
            member=launch.name,
            session=launch.session,
            version=__version__,
            body=json.dumps({"spawn": spawn, "flags": flags}),
            label=self._label,
            keys=_needed_keys(str(spawn["model"]), launch.env),
        )
        fitting = await self._fitting_workers(order)
        has_repository = bool(url) and any(url in worker.offer.repositories for worker in fitting)
        begin = result_ref(launch.team, launch.name) if spawn["resumed"] else ""
        commit, bundle = await asyncio.to_thread(make_bundle, launch.cwd, begin, has_repository)
        repository = url if has_repository else ""
        return replace(order, repository=repository, commit=commit, bundle=bundle)

    async def _fitting_workers(self, order: StartOrder) -> list[WorkerStatus]:
        workers = await list_workers(self._database)
        if fitting := [worker for worker in workers if not misfits(order, worker)]:
            return fitting
        raise CannotStart(
            "backend",
            f"no worker can start {order.member}" + ("" if workers else ": the database has none"),
            looked_at=[(f"worker {one.offer.name}", "; ".join(misfits(order, one))) for one in workers],
            do=["teamwright worker --name NAME --slots 4", "teamwright workers"],
            note="nothing was started",
        )

    async def _start_on_worker(self, order: StartOrder, launch: Launch) -> tuple[int, str] | None:
        """Add an order, and return its number and the worker that runs it; None if that worker was lost before."""
        id = await self._orders.add(order)
        changed = asyncio.Event()
        running = self._running[id] = _Running(
            WireTunnel(self._database, self._session, id, self._wire, to_lead=False),
            asyncio.get_running_loop().time(),
            changed,
            self._session.subscribe(order_topic(id), lambda _detail: changed.set()),
        )
        worker = ""
        try:
            await running.tunnel.open()
            worker = await self._wait_until_running(id, running, order)
        finally:
            if not worker:
                await self._end(id, launch.cwd)
        return (id, worker) if worker else None

    async def _wait_until_running(self, id: int, running: _Running, order: StartOrder) -> str:
        """Return the worker, once its process runs; an empty text if the worker was lost before."""
        try:
            async with time_limit(START_S):
                status = await self._wait_until_decided(id, running)
        except TimeoutError:
            raise _start_error(order, f"no worker started it within {START_S:.0f} s") from None
        if status is None or status.state is OrderState.ENDED:
            if status is not None and status.detail == WORKER_LOST:
                return ""
            raise _start_error(order, status.detail if status is not None else "its order was removed")
        return status.worker

    async def _wait_until_decided(self, id: int, running: _Running) -> OrderStatus | None:
        """Return the status of an order whose process runs or has ended."""
        while True:
            running.changed.clear()
            status = await self._orders.read(id)
            if status is None or status.state in {OrderState.RUNNING, OrderState.ENDED}:
                return status
            if status.state is OrderState.CLAIMED and not status.has_worker:
                await self._orders.settle_lost(id)
            await _wait_for_change(running.changed)

    # ── end ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def _end(self, id: int, cwd: Path, transcript: str = "") -> None:
        running = self._running.pop(id, None)
        try:
            await self._orders.request_end(id)
            await self._wait_until_ended(id, running)
            if result := await self._orders.read_result(id):
                await asyncio.to_thread(fetch_result, cwd, result.team, result.member, result.bundle)
            await self._orders.remove(id)  # only now: a lead that is killed before this does not lose the commits
        finally:
            if running is not None:
                running.unsubscribe()
                await running.tunnel.close()
            if transcript and (files := self._database.files) is not None:
                await self._database.read(lambda connection: files.fetch_transcript(connection, transcript))
                files.take_from_member(transcript)

    async def _wait_until_ended(self, id: int, running: _Running | None) -> None:
        """Wait for the worker, until it is gone."""
        changed = running.changed if running is not None else asyncio.Event()
        while (status := await self._orders.read(id)) is not None and status.state is OrderState.ENDING:
            if not status.has_worker:
                await self._orders.request_end(id)
                continue
            changed.clear()
            await _wait_for_change(changed)

    async def _watch_members(self) -> None:
        """Cut the wires of members whose processes are gone: the end of the wire is the end of the member."""
        loop = asyncio.get_running_loop()
        while self._running:
            await asyncio.sleep(_LOOK_S)
            watched = dict(self._running)
            try:
                found = await self._orders.read_all(list(watched))
            except TeamwrightError:
                for running in watched.values():
                    running.seen_at = loop.time()  # a server that does not answer says nothing about members
                continue
            for id, running in watched.items():
                status = found.get(id)
                if _is_lost(status, loop.time() - running.seen_at):
                    running.tunnel.cut()
                elif status is not None and status.has_member:
                    running.seen_at = loop.time()


async def _wait_for_change(changed: asyncio.Event) -> None:
    """Wait for a notification, or until it is time to look again."""
    with suppress(TimeoutError):
        async with time_limit(_LOOK_S):
            await changed.wait()


def _is_lost(status: OrderStatus | None, unseen_s: float) -> bool:
    """Return True when the process of a member has ended, or was not seen for too long."""
    if status is None or status.state is OrderState.ENDED:
        return True
    return status.state is OrderState.RUNNING and not status.has_member and unseen_s > LOST_S


def _needed_keys(model: str, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the lead's model keys, of which a worker needs one; none for a scripted model."""
    if model.startswith(SCRIPTED):
        return ()
    return tuple(name for name in dict.fromkeys((*KEY_VARIABLES, *OTHER_KEYS)) if env.get(name, "").strip())


def _stem(launch: Launch) -> str:
    """Return the name of the member's transcript, which is that of its process directory."""
    return Path(launch.env[VARIABLE]).parent.name


def _order_of(location: Location) -> int:
    return int(location.facts.get("order", "0") or 0)


def _start_error(order: StartOrder, why: str) -> CannotStart:
    lines = [("it said", line) for line in why.splitlines()[-8:]]
    return CannotStart(
        "backend", f"the worker could not start {order.member}", looked_at=lines, note="nothing was started"
    )
