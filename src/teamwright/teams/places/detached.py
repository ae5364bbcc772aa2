"""Members without a terminal: each a process of its own session, whose output goes to a file.

It outlives its lead, however that ends; how long is its own business. Started through the handover like everywhere,
and known by number and start. Below are the handover and processes. Refuses to know terminals.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from collections.abc import Callable
from functools import partial
from pathlib import Path

from teamwright.protocol.errors import CannotStart, StorageError
from teamwright.protocol.ids import inbox_stem
from teamwright.storage.paths import make_private
from teamwright.storage.processes.family import Family, start_of
from teamwright.storage.processes.lives import Life
from teamwright.teams.places.handover import Handover, NotTaken, offered
from teamwright.teams.places.place import Launch, Spot
from teamwright.teams.places.processes import family_of, process_of, runs, to_its_end, until_ended
from teamwright.teams.places.recipe import DETACHED

_START_S = 20.0
_END_S = 2.0
_REAPED_S = 2.0
_LAST_LINES, _LAST_BYTES = 12, 8_192


class _Ours:
    """A process that is our child: with all that came out of it, and how it ended once it has."""

    def __init__(self, pid: int, start: str) -> None:
        self.start = start
        self.family = Family(pid)
        self.how = ""
        self.missed: Callable[[str], None] | None = None
        """Told of an end while it is still awaited that the program begins."""
        self.reaped = asyncio.Event()
        self._pid = pid

    def ended(self, life: Life) -> None:
        """It ended: who came out of it is noted while the number is still its own, then it is reaped."""
        if self.missed is not None:
            self.missed("it ended at once")
        self.family.release()
        life.close()
        with contextlib.suppress(ChildProcessError):
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
                self.how = f"ended by signal {-code}" if code < 0 else f"ended with status {code}"
        self.reaped.set()


class Detached:
    """A `Place`. Parameters: `folder`, where the files with their output go, made with mode 0700 when it is needed."""

    def __init__(self, folder: Path, *, start_s: float = _START_S, end_s: float = _END_S) -> None:
        self._folder = folder
        self._start_s, self._end_s = start_s, end_s
        self._children: dict[int, _Ours] = {}

    async def open(self, launch: Launch) -> Spot:
        """Start it in a session of its own, without a terminal; the rest as `Place.open`."""
        try:
            log, output = self._new_log(launch)
        except (OSError, StorageError) as problem:
            raise _cannot_start(launch, f"there is no file for its output: {problem}") from problem
        spot = Spot(DETACHED, "")
        try:
            async with offered(launch) as handover:
                spot = self._spawned(handover, output, log)
                await self._given(handover, spot, self._children[process_of(spot)[0]])
        except (NotTaken, OSError) as problem:
            words = _tail(log)
            await self._undone(spot, log)
            raise _cannot_start(launch, str(problem), words) from problem
        except BaseException:
            await self._undone(spot, log)
            raise
        finally:
            os.close(output)
        return spot

    async def alive(self, spot: Spot) -> bool:
        """Whether the very process that was started runs now."""
        return runs(spot)

    async def ended(self, spot: Spot) -> None:
        """Until the program has ended, by an event where the system has one."""
        await until_ended(spot)

    async def last_words(self, spot: Spot) -> str:
        """How it ended, if it was our child, and the last lines of its output; empty without any."""
        child = self._child(spot)
        how = [child.how] if child is not None and child.how else []
        words = _tail(Path(spot.facts["log"])) if spot.facts.get("log") else ""
        return "\n".join([*how, *words.splitlines()])

    async def close(self, spot: Spot) -> None:
        """End it and all that came out of it: SIGTERM, then SIGKILL. The file with its output stays.

        Raises CannotStart (`backend`) when something of it will not end.
        """
        child = self._child(spot)
        family = child.family if child is not None else family_of(spot)
        if family is not None and (left := await family.end(self._end_s)):
            pids = ", ".join(str(row.pid) for row in left)
            raise CannotStart("backend", f"process {spot.id} cannot be ended: these are left: {pids}")
        if child is not None:
            with contextlib.suppress(TimeoutError):  # one that is stuck in the kernel is gone for us
                async with asyncio.timeout(_REAPED_S):
                    await child.reaped.wait()
            self._children.pop(process_of(spot)[0], None)

    def _new_log(self, launch: Launch) -> tuple[Path, int]:
        make_private(self._folder)
        log = self._folder / f"{inbox_stem(launch.name)}-{secrets.token_hex(4)}.log"
        return log, os.open(log, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def _spawned(self, handover: Handover, output: int, log: Path) -> Spot:
        """The starter, in a session of its own, with no variable that would name a terminal. Raises OSError."""
        pid = os.posix_spawn(
            handover.argv[0],
            handover.argv,
            {"PATH": os.defpath},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, output, 1),
                (os.POSIX_SPAWN_DUP2, output, 2),
            ],
            setsid=True,
            setsigmask=[],
        )
        start = start_of(pid)
        life, child = Life.of(pid), _Ours(pid, start)
        self._children[pid] = child
        child.missed = handover.missed
        if life is None:
            os.waitpid(pid, 0)
            child.reaped.set()
            handover.missed("it ended at once")
        else:
            life.on_end(partial(child.ended, life))
        facts = {"pid": str(pid), "start": start, "log": str(log)}
        return Spot(DETACHED, str(pid), facts, f"what it writes is in {log}")

    async def _given(self, handover: Handover, spot: Spot, child: _Ours) -> None:
        try:
            pid, _ = await handover.give(self._start_s)
        finally:
            child.missed = None  # nothing of what was handed over is held for as long as it lives
        if pid not in {0, process_of(spot)[0]}:
            raise NotTaken(f"process {pid} took what was meant for {spot.id}")

    async def _undone(self, spot: Spot, log: Path) -> None:
        if spot.id:
            await to_its_end(self.close(spot))
        log.unlink(missing_ok=True)

    def _child(self, spot: Spot) -> _Ours | None:
        pid, start = process_of(spot)
        child = self._children.get(pid)
        return child if child is not None and child.start == start else None


def _tail(log: Path) -> str:
    """The last lines of the file; empty when there is none."""
    try:
        with open(log, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - _LAST_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join([line.rstrip() for line in text.splitlines() if line.strip()][-_LAST_LINES:])


def _cannot_start(launch: Launch, why: str, words: str = "") -> CannotStart:
    return CannotStart(
        "backend",
        f"{launch.name} could not be started as a separate process: {why}",
        looked_at=[("wrote", line[:200]) for line in words.splitlines()[-6:]],
        do=["see docs/errors.md#backend"],
        note="nothing is left of it",
    )
