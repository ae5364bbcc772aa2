"""The tmux backend: members in panes beside the lead, in a separate window, or in our own tmux session.

A member's program is the pane's process: nothing is typed and no shell is between. `TMUX` and `TMUX_PANE` name the
lead's server and pane and are checked each time; `%id` alone identifies a pane. Depends on the handover and the panes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import shlex
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from teamwright.backends import tmux_panes
from teamwright.backends.handover import Handover, LaunchFailed, offer_launch
from teamwright.backends.located_process import process_identity, run_to_end, wait_until_ended
from teamwright.backends.tmux_layout import Layout, LeadWindow, Pane
from teamwright.backends.tmux_panes import PaneOwner, list_panes
from teamwright.backends.tmux_server import (
    OWN_SOCKET_PREFIX,
    TmuxError,
    TmuxServer,
    TmuxServerGone,
    is_own_socket,
    remove_dead_sockets,
    remove_socket,
)
from teamwright.processes.pid_watch import WatchedProcess
from teamwright.processes.process_tree import ProcessSnapshot, ProcessTree, process_start
from teamwright.protocol.errors import CannotStart
from teamwright.teams.backend import Launch, Location

KIND = "tmux"

_LAST_LINES = 12
_REAP_DELAYS_S = (0.0, 0.02, 0.05, 0.1, 0.3, 1.0)
"""Seconds between checks whether tmux noticed an end, which takes it a few milliseconds."""
_EXTRA_CHILD_END = ("run-shell", "-b", "true")
"""tmux 3.3a sometimes misses the signal of an end; the end of any other child makes it check all of them."""


class TmuxSettings(Struct, frozen=True):
    """The appearance of members in tmux."""

    layout: Layout = "split"
    """`split`: stacked at the right of the lead while there is room; `window`: in one window for the team."""
    lead_percent: int = 30
    """The lead's share of its pane's width, with `split`."""
    start_s: float = 20.0
    """Seconds that a program may take from its pane to its first instruction."""
    end_s: float = 2.0
    """Seconds that a program may take to end when its pane is closed; then it is killed."""


class _TmuxState(Struct, frozen=True):
    server: TmuxServer
    panes: Sequence[Pane]
    lead: LeadWindow | None
    note: str = ""


class TmuxBackend:
    """A `Backend`. Parameters: `program`, the path of tmux; `environ`, the lead's environment, which names its pane."""

    def __init__(self, program: str, environ: Mapping[str, str], settings: TmuxSettings | None = None) -> None:
        self._program = program
        self._environ = environ
        self._settings = settings or TmuxSettings()
        self._lead_session = ""
        self._own_server: TmuxServer | None = None
        self._own_server_count = 0
        self._layout_lock = asyncio.Lock()

    async def open(self, launch: Launch) -> Location:
        """Start the program in a new pane; the rest as `Backend.open`."""
        try:
            async with offer_launch(launch) as handover:
                return await self._open(launch, handover)
        except (LaunchFailed, TmuxError) as problem:
            raise _cannot_start(launch, str(problem)) from problem

    async def is_alive(self, location: Location) -> bool:
        """Return True while the pane is ours and its program is the started one and runs.

        Raises CannotStart (`backend`) when tmux does not answer: the state is then unknown.
        """
        pane = await self._find_pane(location)
        if pane is None or pane.dead:
            return False
        pid, start = process_identity(location)
        return not pid or (pane.pid == pid and process_start(pid) == start)

    async def wait_until_ended(self, location: Location) -> None:
        """Wait until the program has ended, by an event if the system has one; return at once when it
        is not visible.
        """
        await wait_until_ended(location)

    async def last_output(self, location: Location) -> str:
        """Return how it ended and its last lines, from the pane that remains after a failure; empty without one."""
        server, lines = self._at(location.facts["socket"]), [""]
        with contextlib.suppress(CannotStart, TmuxError):
            for pause in _REAP_DELAYS_S:
                await asyncio.sleep(pause)
                if await self._find_pane(location) is None:
                    return ""
                lines = await server.run(
                    ("display-message", "-p", "-t", location.id, "#{pane_dead_status}|#{pane_dead_signal}"),
                    ("capture-pane", "-p", "-J", "-t", location.id, "-S", "-200"),
                )
                if lines[0] != "|":
                    break
                await server.run(_EXTRA_CHILD_END)
        return _last_output(lines)

    async def close(self, location: Location) -> None:
        """Close the pane and end its processes; the rest as `Backend.close`.

        Raises CannotStart (`backend`) when tmux does not answer, or a process of the program does not end.
        """
        pid, start = process_identity(location)
        family = ProcessTree.from_record(pid, "", start, ProcessSnapshot()) if pid else None
        server = self._at(location.facts["socket"])
        async with self._layout_lock:
            try:
                panes = await list_panes(server)
                by_id = next((pane for pane in panes if pane.id == location.id), None)
                if by_id is not None and by_id.tag != location.facts["tag"]:
                    return
                if family is not None:
                    # the processes that the end of the pane separates from their parents are known by now
                    family.members()
                if by_id is not None:
                    await tmux_panes.kill(server, by_id, panes)
                await tmux_panes.arrange_window(server, by_id.window if by_id is not None else location.facts["window"])
                if is_own_socket(location.facts["socket"]) and not await list_panes(server):
                    remove_socket(location.facts["socket"])
            except TmuxError as problem:
                raise _unreachable_error(location, str(problem)) from problem
        if family is not None and (left := await family.terminate(self._settings.end_s)):
            raise _unreachable_error(
                location, f"these processes will not end: {', '.join(str(row.pid) for row in left)}"
            )

    async def hide(self, location: Location) -> bool:
        """Move the pane into a separate window in the background; False when it is gone. Raises CannotStart
        (`backend`).
        """
        async with self._layout_lock:
            if (pane := await self._find_pane(location)) is None:
                return False
            server = self._at(location.facts["socket"])
            try:
                await tmux_panes.hide(server, pane, await list_panes(server))
            except TmuxError as problem:
                raise _unreachable_error(location, str(problem)) from problem
        return True

    async def show(self, location: Location) -> bool:
        """Move the pane back to its team if there is room; False when it is gone. Raises CannotStart (`backend`)."""
        async with self._layout_lock:
            if (pane := await self._find_pane(location)) is None:
                return False
            try:
                scene = await self._current_state(PaneOwner.from_tag(pane.tag).session)
                if scene.lead is not None and any(one.tag == pane.tag for one in scene.panes):
                    await tmux_panes.show(scene.server, pane, scene.panes, scene.lead)
            except TmuxError as problem:
                raise _unreachable_error(location, str(problem)) from problem
        return True

    async def _open(self, launch: Launch, handover: Handover) -> Location:
        async with self._layout_lock:
            pane, location = await self._create_pane(launch, handover.argv)
        try:
            pid, start = await self._hand_over(handover, pane, location)
        except LaunchFailed as problem:
            words = await self.last_output(location)
            closed = await run_to_end(self.close(location))
            raise _cannot_start(launch, str(problem), words, open_pane="" if closed else location.id) from problem
        except BaseException:
            await run_to_end(self.close(location))
            raise
        known = {"pid": str(pid), "start": start} if pid == pane.pid else {}
        return replace(location, facts={**location.facts, **known})

    async def _create_pane(self, launch: Launch, argv: Sequence[str]) -> tuple[Pane, Location]:
        """Create a pane in which the starter waits. An unused one ends with its starter, untagged."""
        owner = PaneOwner(launch.session, launch.team)
        scene = await self._current_state(launch.session)
        try:
            pane = await tmux_panes.create_pane(scene.server, scene.panes, scene.lead, owner, argv)
        except TmuxServerGone:  # the server ended just now
            scene = await self._current_state(launch.session)
            pane = await tmux_panes.create_pane(scene.server, scene.panes, scene.lead, owner, argv)
        tag = owner.tag(launch.name, secrets.token_hex(8))
        try:
            await tmux_panes.label_pane(scene.server, pane, tag, launch.name, launch.color)
            await tmux_panes.arrange_window(scene.server, pane.window)
            socket = "".join(await scene.server.run(("display-message", "-p", "-t", pane.id, "#{socket_path}")))
        except BaseException:
            await run_to_end(tmux_panes.discard(scene.server, replace(pane, tag=tag)))
            raise
        if scene.server is self._own_server:
            remove_dead_sockets(socket)
        facts = {"socket": socket, "window": pane.window, "tag": tag}
        return pane, Location(KIND, pane.id, facts, self._note(scene, pane, owner, socket))

    async def _hand_over(self, handover: Handover, pane: Pane, location: Location) -> tuple[int, str]:
        """Give the launch to the starter that waits in the pane, or fail at once when none does."""
        process = WatchedProcess.open(pane.pid)
        if process is None:  # it ended already, or its pid has no meaning here
            seen = await self._find_pane(location)
            if seen is None or seen.dead:
                raise LaunchFailed("its pane ended at once")
            return await handover.deliver(self._settings.start_s)
        stop = process.on_end(lambda: handover.fail("its pane ended at once"))
        try:
            return await handover.deliver(self._settings.start_s)
        finally:
            stop()
            process.close()

    async def _current_state(self, session: str) -> _TmuxState:
        """Return the lead's pane and all panes now. Raises TmuxError."""
        lead = self._environ.get("TMUX_PANE", "")
        socket, number, last = [*self._environ.get("TMUX", "").rsplit(",", 2), "", ""][:3]
        if not (socket and re.fullmatch(r"%\d+", lead)):
            return await self._own_server_state(session, "")
        server = self._at(socket)
        panes = await list_panes(server, self._lead_session or f"${last}")
        if not panes or str(panes[0].server) != number:
            return await self._own_server_state(session, "the tmux server that the lead was started in is gone")
        here = next((pane for pane in panes if pane.id == lead), None)
        if here is not None:
            self._lead_session = here.session
            return _TmuxState(server, panes, self._lead_window(here.session, lead))
        was_in = self._lead_session or f"${last}"
        if any(pane.session == was_in for pane in panes):
            return _TmuxState(server, panes, self._lead_window(was_in, ""), "the lead's pane is gone")
        return await self._own_server_state(session, "the lead's pane and its session are gone")

    async def _own_server_state(self, session: str, note: str) -> _TmuxState:
        panes = await list_panes(self._own_server) if self._own_server is not None else []
        if self._own_server is None or not panes:
            # A new name each time: a server that lost its last pane may still be ending.
            self._own_server_count += 1
            name = (
                f"{OWN_SOCKET_PREFIX}{re.sub(r'[^A-Za-z0-9]', '', session)[:8]}-{os.getpid()}-{self._own_server_count}"
            )
            self._own_server = TmuxServer(self._program, ("-L", name, "-f", "/dev/null"), self._environ)
        return _TmuxState(self._own_server, panes, self._lead_window(panes[0].session, "") if panes else None, note)

    def _lead_window(self, session: str, pane: str) -> LeadWindow:
        return LeadWindow(session, pane, self._settings.layout, self._settings.lead_percent)

    def _note(self, scene: _TmuxState, pane: Pane, owner: PaneOwner, socket: str) -> str:
        """Return a note for people: how to see the member, or why it is not in the requested place."""
        if scene.server is self._own_server:
            why = f"{scene.note}; " if scene.note else ""
            return f"{why}see it with: tmux -S {shlex.quote(socket)} attach"
        if scene.note:
            return f"{scene.note}: it is in the window {owner.title}"
        lead = next((one for one in scene.panes if scene.lead is not None and one.id == scene.lead.pane), None)
        if self._settings.layout == "split" and lead is not None and lead.window != pane.window:
            return f"there is no room beside the lead: it is in the window {owner.title}"
        return ""

    async def _find_pane(self, location: Location) -> Pane | None:
        try:
            panes = await list_panes(self._at(location.facts["socket"]))
        except TmuxError as problem:
            raise _unreachable_error(location, str(problem)) from problem
        return next((pane for pane in panes if pane.id == location.id and pane.tag == location.facts["tag"]), None)

    def _at(self, socket: str) -> TmuxServer:
        return TmuxServer(self._program, ("-S", socket), self._environ)


def _last_output(lines: Sequence[str]) -> str:
    """Return how it ended and the text of its pane, without tmux's own line about it."""
    status, _, number = (lines[0] if lines else "").partition("|")
    how = f"ended by signal {number}" if number else f"ended with status {status}" if status else ""
    text = [line.rstrip() for line in lines[1:] if line.strip() and not line.startswith("Pane is dead")]
    return "\n".join([*([how] if how else []), *text[-_LAST_LINES:]])


def _cannot_start(launch: Launch, why: str, output: str = "", open_pane: str = "") -> CannotStart:
    return CannotStart(
        "backend",
        f"{launch.name} could not be started in tmux: {why}",
        looked_at=[("wrote", line) for line in output.splitlines()[-6:]],
        do=["teamwright help backend"],
        note=f"pane {open_pane} could not be closed" if open_pane else "nothing is left of it",
    )


def _unreachable_error(location: Location, why: str) -> CannotStart:
    return CannotStart(
        "backend", f"pane {location.id} cannot be reached: {why}", looked_at=[("socket", location.facts["socket"])]
    )
