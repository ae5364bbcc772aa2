"""The worker of one machine: claims start orders of leads, and starts their members as member processes here.

Imported only by `teamwright worker`. Depends on start orders, the detached backend, and commits as bundles. Members
outlive their worker, and hold separate leases.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from teamwright import __version__
from teamwright.backends.detached import DetachedBackend
from teamwright.database.address import DatabaseAddress
from teamwright.database.connection import Database
from teamwright.database.session_connection import SessionConnection
from teamwright.database.worker_orders import (
    ORDERS,
    StartOrder,
    StartOrders,
    WorkerOffer,
    register_worker,
    worker_lease,
)
from teamwright.models.names import KEY_VARIABLES, OTHER_KEYS
from teamwright.processes.program_environment import without_git_variables
from teamwright.protocol.errors import TeamwrightError
from teamwright.session.spawn_file import SpawnFile, member_environment
from teamwright.session.wiring.member_launcher import PROGRAM
from teamwright.storage.directory_identity import directory_identity
from teamwright.storage.paths import Home, make_private
from teamwright.teams.backend import Launch, Location
from teamwright.worktrees.commit_bundle import bundle_result, check_out

DIRECTORY = "worker"
"""The directory of spawn files and outputs in the worker's home, which commands of agents cannot use."""


class WorkerSettings(Struct, frozen=True):
    """The flags of a worker. `directory`: where it makes checkouts, outside the home.

    `repositories`: local clones by the address of their remote.
    """

    name: str
    directory: Path
    labels: tuple[str, ...] = ()
    slots: int = 4
    repositories: Mapping[str, Path] = {}


class WorkerProcess:
    """The worker. `report` receives a line for people about each start and end."""

    def __init__(
        self, address: DatabaseAddress, home: Home, settings: WorkerSettings, report: Callable[[str], None]
    ) -> None:
        self._address = address
        self._home = home
        self._settings = settings
        self._report = report
        self._root = home.own / DIRECTORY / settings.name
        self._backend = DetachedBackend(self._root / "outputs")
        self._running: dict[int, Location] = {}
        self._known = set[int]()
        """The orders that this process claimed."""
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Work until SIGTERM, SIGINT, or until another worker takes the name over.

        Raises CannotStart: `database`, `session-busy` while a worker of this name runs.
        """
        self._home.prepare()
        make_private(self._root)
        make_private(self._settings.directory)
        async with AsyncExitStack() as stack:
            database = await Database.open(self._address)
            stack.push_async_callback(database.close)
            session = SessionConnection(database, self._stopping.set)
            await session.open(worker_lease(self._settings.name), f"process {os.getpid()} on {socket.gethostname()}")
            stack.push_async_callback(session.close)
            offer = make_offer(self._settings, os.environ)
            await register_worker(database, offer)
            stack.callback(session.subscribe(ORDERS, lambda _detail: self._changed.set()))
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, self._stopping.set)
            orders = StartOrders(database)
            await orders.prune()
            await orders.settle_former_process(offer.name)
            self._report(f"worker {offer.name}: {offer.slots} slots on {offer.host}, labels: {', '.join(offer.labels)}")
            stopping = asyncio.create_task(self._stopping.wait())
            serving = asyncio.create_task(self._serve(orders, offer))
            await asyncio.wait({stopping, serving}, return_when=asyncio.FIRST_COMPLETED)
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            await self._end_all()
            stopping.cancel()

    async def _serve(self, orders: StartOrders, offer: WorkerOffer) -> None:
        """Claim orders and end members, after each notification."""
        while True:
            self._changed.clear()
            with suppress(TeamwrightError):
                for id in await orders.ending(offer.name):
                    self._start_task(self._end(orders, id), f"end of order {id}")
                while (order := await orders.claim(offer)) is not None:
                    self._start_task(self._run_member(orders, order), f"order {order.id}")
            await self._changed.wait()

    def _start_task(self, work: Any, name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_member(self, orders: StartOrders, order: StartOrder) -> None:
        """Start the member of an order, wait for its end, and send its commits back."""
        worker = self._settings.name
        detail = ""
        result = None
        self._known.add(order.id)
        checkout = self._settings.directory / order.team / order.member
        try:
            location = await self._open(order, checkout)
            made = directory_identity(checkout)
            self._running[order.id] = location
            if not await orders.note_running(order.id, worker):
                await self._backend.close(location)
            self._report(f"started {order.member} of {order.team}")
            await self._backend.wait_until_ended(location)
            self._running.pop(order.id, None)
            detail = await self._backend.last_output(location)
            await self._backend.close(location)
            args = (checkout, made, order.team, order.member, order.commit)
            result, why = await asyncio.to_thread(bundle_result, *args)
            if why:
                self._report(why)
            detail = "\n".join(filter(None, (why, detail)))
        except TeamwrightError as problem:
            detail = "\n".join([str(problem), detail]).strip()
        self._report(f"ended {order.member} of {order.team}")
        with suppress(TeamwrightError):
            await orders.note_ended(order.id, worker, detail, result)
        self._changed.set()  # a slot is free

    async def _open(self, order: StartOrder, checkout: Path) -> Location:
        """Check the commit out, write the spawn file of this machine, and start the process."""
        source = self._settings.repositories.get(order.repository)
        branch = f"teamwright/{order.team}/{order.member}"
        await asyncio.to_thread(check_out, checkout, source, order.commit, order.bundle, branch)
        body: dict[str, Any] = json.loads(order.body)
        directory = self._root / "orders" / str(order.id)
        make_private(directory)
        path = directory / "spawn.json"
        spawn = SpawnFile(**{key: value for key, value in body["spawn"].items() if key in SpawnFile.__struct_fields__})
        options = {**spawn.options, "cwd": str(checkout)}
        replace(
            spawn,
            home=str(self._home.shared),
            wire=str(directory / "wire"),
            options=options,
            database=str(self._address),
            order=order.id,
        ).write(path)
        argv = (*PROGRAM, *(str(flag) for flag in body["flags"]))
        env = member_environment(without_git_variables(os.environ), path)
        return await self._backend.open(Launch(order.member, order.team, order.session, argv, env, checkout))

    async def _end(self, orders: StartOrders, id: int) -> None:
        if (location := self._running.get(id)) is not None:
            await self._backend.close(location)
        elif id not in self._known:
            await orders.end_unknown(id, self._settings.name)

    async def _end_all(self) -> None:
        """End all members here: each keeps its place, and its lead may resume it elsewhere."""
        for location in list(self._running.values()):
            with suppress(TeamwrightError):
                await self._backend.close(location)
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=10.0)


def make_offer(settings: WorkerSettings, env: Mapping[str, str]) -> WorkerOffer:
    """Return what a worker offers: of its model keys the names only."""
    names = dict.fromkeys((*KEY_VARIABLES, *OTHER_KEYS))
    return WorkerOffer(
        settings.name,
        socket.gethostname(),
        __version__,
        settings.labels,
        settings.slots,
        tuple(name for name in names if env.get(name, "").strip()),
        tuple(settings.repositories),
    )
