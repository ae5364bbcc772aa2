"""The tmux backend: members in panes beside the lead, in a window of their own, or in a session of our own.

A member's program is the pane's process: nothing is typed and no shell is between. Which server and which pane are
the lead's is what `TMUX` and `TMUX_PANE` say, checked each time; panes are named by `%id` alone. Below are the
handover and the panes. Refuses to know rosters, handshakes, and whether tmux was the right choice.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

from teamwright.protocol.errors import CannotStart
from teamwright.protocol.values import dataclass
from teamwright.storage.processes.family import Family, Look, start_of
from teamwright.storage.processes.lives import Life
from teamwright.teams.places import tmux_panes
from teamwright.teams.places.handover import Handover, NotTaken, offered
from teamwright.teams.places.panes import Home, Layout, Pane
from teamwright.teams.places.place import Launch, Spot
from teamwright.teams.places.processes import process_of, to_its_end, until_ended
from teamwright.teams.places.tmux_panes import Owner, panes_of
from teamwright.teams.places.tmux_server import Server, TmuxGone, TmuxRefused
from teamwright.teams.places.tmux_sockets import OWN_SOCKET, is_own_socket, remove_dead_sockets, remove_socket

KIND = "tmux"

_LAST_LINES = 12
_REAPED_WITHIN_S = (0.0, 0.02, 0.05, 0.1, 0.3, 1.0)
"""How long to wait between looks whether tmux noticed an end that we know of: it takes it a few milliseconds."""
_ANOTHER_END = ("run-shell", "-b", "true")
"""tmux 3.3a misses the signal of an end now and then; that of any other child makes it look after all of them."""


@dataclass(frozen=True, slots=True)
class TmuxSettings:
    """How members appear in tmux."""

    layout: Layout = "split"
    """`split`: stacked at the right of the lead, while there is room; `window`: in one window for the team."""
    lead_percent: int = 30
    """The lead's share of its pane's width, with `split`."""
    start_s: float = 20.0
    """How long a program may take from its pane to its first instruction, in seconds."""
    end_s: float = 2.0
    """How long a program may take to end when its pane is closed, in seconds; then it is killed."""


@dataclass(frozen=True, slots=True)
class _Scene:
    server: Server
    panes: Sequence[Pane]
    home: Home | None
    note: str = ""


class Tmux:
    """A `Place`. Parameters: `program`, the path of tmux; `environ`, the lead's environment, which says where it is."""

    def __init__(self, program: str, environ: Mapping[str, str], settings: TmuxSettings | None = None) -> None:
        self._program = program
        self._environ = environ
        self._settings = settings or TmuxSettings()
        self._lead_session = ""
        self._own: Server | None = None
        self._own_servers = 0
        self._arranging = asyncio.Lock()

    async def open(self, launch: Launch) -> Spot:
        """Start it in a new pane; the rest as `Place.open`."""
        try:
            async with offered(launch) as handover:
                return await self._open(launch, handover)
        except (NotTaken, TmuxRefused) as problem:
            raise _cannot_start(launch, str(problem)) from problem

    async def alive(self, spot: Spot) -> bool:
        """Whether the pane is there, ours, and its program is the one that was started and runs.

        Raises CannotStart (`backend`) when tmux does not answer: then nobody knows.
        """
        pane = await self._look_for(spot)
        if pane is None or pane.dead:
            return False
        pid, start = process_of(spot)
        return not pid or (pane.pid == pid and start_of(pid) == start)

    async def ended(self, spot: Spot) -> None:
        """Until the program has ended, by an event where the system has one; at once when nobody sees it any more."""
        await until_ended(spot)

    async def last_words(self, spot: Spot) -> str:
        """How it ended and its last lines, from the pane that stays when a program fails; empty without one."""
        server, told = self._at(spot.facts["socket"]), [""]
        with contextlib.suppress(CannotStart, TmuxRefused):
            for pause in _REAPED_WITHIN_S:
                await asyncio.sleep(pause)
                if await self._look_for(spot) is None:
                    return ""
                told = await server.ask(
                    ("display-message", "-p", "-t", spot.id, "#{pane_dead_status}|#{pane_dead_signal}"),
                    ("capture-pane", "-p", "-J", "-t", spot.id, "-S", "-200"),
                )
                if told[0] != "|":
                    break
                await server.ask(_ANOTHER_END)
        return _told(told)

    async def close(self, spot: Spot) -> None:
        """Close the pane and end what runs in it; the rest as `Place.close`.

        Raises CannotStart (`backend`) when tmux does not answer, or something of the program will not end.
        """
        pid, start = process_of(spot)
        family = Family.recalled(pid, "", start, Look()) if pid else None
        server = self._at(spot.facts["socket"])
        async with self._arranging:
            try:
                panes = await panes_of(server)
                by_id = next((pane for pane in panes if pane.id == spot.id), None)
                if by_id is not None and by_id.tag != spot.facts["tag"]:
                    return
                if family is not None:
                    family.members()  # whom the pane's end will part from their parents is known by now
                if by_id is not None:
                    await tmux_panes.kill(server, by_id, panes)
                await tmux_panes.settle(server, by_id.window if by_id is not None else spot.facts["window"])
                if is_own_socket(spot.facts["socket"]) and not await panes_of(server):
                    remove_socket(spot.facts["socket"])
            except TmuxRefused as problem:
                raise _unknown(spot, str(problem)) from problem
        if family is not None and (left := await family.end(self._settings.end_s)):
            raise _unknown(spot, f"these processes will not end: {', '.join(str(row.pid) for row in left)}")

    async def hide(self, spot: Spot) -> bool:
        """Move it into a window of its own in the background; False when it is gone. Raises CannotStart (`backend`)."""
        async with self._arranging:
            if (pane := await self._look_for(spot)) is None:
                return False
            server = self._at(spot.facts["socket"])
            try:
                await tmux_panes.hide(server, pane, await panes_of(server))
            except TmuxRefused as problem:
                raise _unknown(spot, str(problem)) from problem
        return True

    async def show(self, spot: Spot) -> bool:
        """Move it back to its team where there is room; False when it is gone. Raises CannotStart (`backend`)."""
        async with self._arranging:
            if (pane := await self._look_for(spot)) is None:
                return False
            try:
                scene = await self._scene(Owner.of(pane.tag).session)
                if scene.home is not None and any(one.tag == pane.tag for one in scene.panes):
                    await tmux_panes.show(scene.server, pane, scene.panes, scene.home)
            except TmuxRefused as problem:
                raise _unknown(spot, str(problem)) from problem
        return True

    async def _open(self, launch: Launch, handover: Handover) -> Spot:
        async with self._arranging:
            pane, spot = await self._placed(launch, handover.argv)
        try:
            pid, start = await self._taken(handover, pane, spot)
        except NotTaken as problem:
            words = await self.last_words(spot)
            closed = await to_its_end(self.close(spot))
            raise _cannot_start(launch, str(problem), words, left="" if closed else spot.id) from problem
        except BaseException:
            await to_its_end(self.close(spot))
            raise
        known = {"pid": str(pid), "start": start} if pid == pane.pid else {}
        return replace(spot, facts={**spot.facts, **known})

    async def _placed(self, launch: Launch, argv: Sequence[str]) -> tuple[Pane, Spot]:
        """A pane of ours in which the starter waits. One that was made in vain ends with its starter, untagged."""
        owner = Owner(launch.session, launch.team)
        scene = await self._scene(launch.session)
        try:
            pane = await tmux_panes.make(scene.server, scene.panes, scene.home, owner, argv)
        except TmuxGone:  # it ended just now
            scene = await self._scene(launch.session)
            pane = await tmux_panes.make(scene.server, scene.panes, scene.home, owner, argv)
        tag = owner.tag(launch.name, secrets.token_hex(8))
        try:
            await tmux_panes.dress(scene.server, pane, tag, launch.name, launch.color)
            await tmux_panes.settle(scene.server, pane.window)
            socket = "".join(await scene.server.ask(("display-message", "-p", "-t", pane.id, "#{socket_path}")))
        except BaseException:
            await to_its_end(tmux_panes.discard(scene.server, replace(pane, tag=tag)))
            raise
        if scene.server is self._own:
            remove_dead_sockets(socket)
        facts = {"socket": socket, "window": pane.window, "tag": tag}
        return pane, Spot(KIND, pane.id, facts, self._note(scene, pane, owner, socket))

    async def _taken(self, handover: Handover, pane: Pane, spot: Spot) -> tuple[int, str]:
        """Give the launch to the starter that waits in the pane, or learn at once that none does."""
        life = Life.of(pane.pid)
        if life is None:  # it ended already, or its number means nothing here
            seen = await self._look_for(spot)
            if seen is None or seen.dead:
                raise NotTaken("its pane ended at once")
            return await handover.give(self._settings.start_s)
        stop = life.on_end(lambda: handover.missed("its pane ended at once"))
        try:
            return await handover.give(self._settings.start_s)
        finally:
            stop()
            life.close()

    async def _scene(self, session: str) -> _Scene:
        """Where the lead is now, and what is there. Raises TmuxRefused."""
        lead = self._environ.get("TMUX_PANE", "")
        socket, number, last = [*self._environ.get("TMUX", "").rsplit(",", 2), "", ""][:3]
        if not (socket and re.fullmatch(r"%\d+", lead)):
            return await self._own_scene(session, "")
        server = self._at(socket)
        panes = await panes_of(server, self._lead_session or f"${last}")
        if not panes or str(panes[0].server) != number:
            return await self._own_scene(session, "the tmux server that the lead was started in is gone")
        here = next((pane for pane in panes if pane.id == lead), None)
        if here is not None:
            self._lead_session = here.session
            return _Scene(server, panes, self._home(here.session, lead))
        was_in = self._lead_session or f"${last}"
        if any(pane.session == was_in for pane in panes):
            return _Scene(server, panes, self._home(was_in, ""), "the lead's pane is gone")
        return await self._own_scene(session, "the lead's pane and its session are gone")

    async def _own_scene(self, session: str, note: str) -> _Scene:
        panes = await panes_of(self._own) if self._own is not None else []
        if self._own is None or not panes:
            # A new name each time: a server that lost its last pane may still be on its way out.
            self._own_servers += 1
            name = f"{OWN_SOCKET}{re.sub(r'[^A-Za-z0-9]', '', session)[:8]}-{os.getpid()}-{self._own_servers}"
            self._own = Server(self._program, ("-L", name, "-f", "/dev/null"), self._environ)
        return _Scene(self._own, panes, self._home(panes[0].session, "") if panes else None, note)

    def _home(self, session: str, pane: str) -> Home:
        return Home(session, pane, self._settings.layout, self._settings.lead_percent)

    def _note(self, scene: _Scene, pane: Pane, owner: Owner, socket: str) -> str:
        """What a person has to be told: how to see it, or why it is not where it was asked for."""
        if scene.server is self._own:
            why = f"{scene.note}; " if scene.note else ""
            return f"{why}see it with: tmux -S {shlex.quote(socket)} attach"
        if scene.note:
            return f"{scene.note}: it is in the window {owner.title}"
        lead = next((one for one in scene.panes if scene.home is not None and one.id == scene.home.pane), None)
        if self._settings.layout == "split" and lead is not None and lead.window != pane.window:
            return f"there is no room beside the lead: it is in the window {owner.title}"
        return ""

    async def _look_for(self, spot: Spot) -> Pane | None:
        try:
            panes = await panes_of(self._at(spot.facts["socket"]))
        except TmuxRefused as problem:
            raise _unknown(spot, str(problem)) from problem
        return next((pane for pane in panes if pane.id == spot.id and pane.tag == spot.facts["tag"]), None)

    def _at(self, socket: str) -> Server:
        return Server(self._program, ("-S", socket), self._environ)


def _told(lines: Sequence[str]) -> str:
    """How it ended and what stands in its pane, without tmux's own line about it."""
    status, _, number = (lines[0] if lines else "").partition("|")
    how = f"ended by signal {number}" if number else f"ended with status {status}" if status else ""
    text = [line.rstrip() for line in lines[1:] if line.strip() and not line.startswith("Pane is dead")]
    return "\n".join([*([how] if how else []), *text[-_LAST_LINES:]])


def _cannot_start(launch: Launch, why: str, words: str = "", left: str = "") -> CannotStart:
    return CannotStart(
        "backend",
        f"{launch.name} could not be started in tmux: {why}",
        looked_at=[("wrote", line) for line in words.splitlines()[-6:]],
        do=["see docs/errors.md#backend"],
        note=f"pane {left} could not be closed" if left else "nothing is left of it",
    )


def _unknown(spot: Spot, why: str) -> CannotStart:
    return CannotStart(
        "backend", f"pane {spot.id} cannot be reached: {why}", looked_at=[("socket", spot.facts["socket"])]
    )
