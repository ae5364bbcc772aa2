"""The tmux backend: members in panes beside the lead, in a separate window, or in our own tmux session.

A member's program is the pane's process: nothing is typed and no shell is between. `TMUX` and `TMUX_PANE` name the
lead's server and pane and are checked each time; `%id` alone identifies a pane. Focus never moves, a zoom is kept, and
tmux itself compares a pane's tag in the command that kills it. A window with our panes has titles and colours in its
borders, else its own borders.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import shlex
from collections.abc import Mapping, Sequence
from urllib.parse import quote, unquote

from msgspec import Struct
from msgspec.structs import replace

from teamwright.backends.handover import Handover, LaunchFailed, offer_launch
from teamwright.backends.tmux_server import (
    COLOUR,
    FORMAT,
    OWN_SOCKET_PREFIX,
    TAG,
    WINDOW_TAG,
    Layout,
    LeadWindow,
    NewWindow,
    Pane,
    TmuxError,
    TmuxServer,
    TmuxServerGone,
    escape_format,
    even_out_commands,
    is_own_socket,
    parse_panes,
    placements,
    remove_dead_sockets,
    remove_socket,
)
from teamwright.backends.watched_process import process_identity, run_to_end, wait_until_ended
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
        server = self._at(location.facts["socket"])
        lines = [""]
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
                    await kill_pane(server, by_id, panes)
                await arrange_window(server, by_id.window if by_id is not None else location.facts["window"])
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
                await hide_pane(server, pane, await list_panes(server))
            except TmuxError as problem:
                raise _unreachable_error(location, str(problem)) from problem
        return True

    async def show(self, location: Location) -> bool:
        """Move the pane back to its team if there is room; False when it is gone. Raises CannotStart (`backend`)."""
        async with self._layout_lock:
            if (pane := await self._find_pane(location)) is None:
                return False
            try:
                state = await self._current_state(PaneOwner.from_tag(pane.tag).session)
                if state.lead is not None and any(one.tag == pane.tag for one in state.panes):
                    await show_pane(state.server, pane, state.panes, state.lead)
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
        state = await self._current_state(launch.session)
        try:
            pane = await create_pane(state.server, state.panes, state.lead, owner, argv)
        except TmuxServerGone:  # the server ended just now
            state = await self._current_state(launch.session)
            pane = await create_pane(state.server, state.panes, state.lead, owner, argv)
        tag = owner.tag(launch.name, secrets.token_hex(8))
        try:
            await label_pane(state.server, pane, tag, launch.name, launch.color)
            await arrange_window(state.server, pane.window)
            socket = "".join(await state.server.run(("display-message", "-p", "-t", pane.id, "#{socket_path}")))
        except BaseException:
            await run_to_end(discard_pane(state.server, replace(pane, tag=tag)))
            raise
        if state.server is self._own_server:
            remove_dead_sockets(socket)
        facts = {"socket": socket, "window": pane.window, "tag": tag}
        return pane, Location(KIND, pane.id, facts, self._note(state, pane, owner, socket))

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

    def _note(self, state: _TmuxState, pane: Pane, owner: PaneOwner, socket: str) -> str:
        """Return a note for people: how to see the member, or why it is not in the requested place."""
        if state.server is self._own_server:
            why = f"{state.note}; " if state.note else ""
            return f"{why}see it with: tmux -S {shlex.quote(socket)} attach"
        if state.note:
            return f"{state.note}: it is in the window {owner.title}"
        lead = next((one for one in state.panes if state.lead is not None and one.id == state.lead.pane), None)
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


_COLOURS = {"purple": "magenta", "orange": "colour208", "pink": "colour205"}
_NO_COLOUR = "default"
_TMUX_COLOURS = {"blue", "green", "yellow", "cyan", "red"}
_TITLE = "#{pane_title}"
_SIZE = ("-x", "200", "-y", "50")
"""The size of a session without an attached client."""


class PaneOwner(Struct, frozen=True):
    """The owner of panes, as in their tags: plain ASCII without blanks, the only text that every tmux version returns
    unchanged.
    """

    session: str
    team: str

    @classmethod
    def from_tag(cls, tag: str) -> PaneOwner:
        """Return the owner in this tag."""
        session, team, *_ = [*tag.split("/"), "", ""]
        return cls(unquote(session), unquote(team))

    @property
    def window_tag(self) -> str:
        """The tag of a window that was opened for the team."""
        return f"{quote(self.session, safe='')}/{quote(self.team, safe='')}"

    @property
    def prefix(self) -> str:
        """The prefix of the tags of the team's panes."""
        return f"{self.window_tag}/"

    def tag(self, name: str, incarnation: str) -> str:
        """Return the tag of one incarnation of a member; `incarnation` is random, so that no later pane is confused
        with it.
        """
        return f"{self.prefix}{quote(name, safe='')}/{incarnation}"

    @property
    def title(self) -> str:
        """The name of the team's window."""
        return self.team.replace("#", "")[:40] or "team"  # some tmux expand formats there and some do not


async def list_panes(server: TmuxServer, session: str = "") -> list[Pane]:
    """Return all panes of the server, as seen from `session`; none without a server. Raises TmuxError."""
    with contextlib.suppress(TmuxServerGone):
        return parse_panes(await server.run(("list-panes", "-a", "-F", FORMAT)), session)
    return []


async def create_pane(
    server: TmuxServer, panes: Sequence[Pane], home: LeadWindow | None, owner: PaneOwner, argv: Sequence[str]
) -> Pane:
    """Start these arguments in a new pane, beside the team's others if there is room; without `home` in a new session.

    A window that is opened for it receives the team's tag. Raises TmuxError.
    """
    start = ("-d", "-P", "-F", FORMAT)
    if home is None:
        command = ("new-session", *start, "-s", "teamwright", "-n", owner.title, *_SIZE, "--", *argv)
        return await _create_window(server, command, owner)
    for way in placements(panes, home, owner.window_tag, owner.prefix):
        if isinstance(way, NewWindow):
            break
        zoom = ("-Z",) if any(pane.zoomed for pane in panes if pane.id == way.neighbour) else ()
        with contextlib.suppress(TmuxError):  # no space, or the pane was closed just now: try the next position
            return _created_pane(
                await server.run(("split-window", *start, *zoom, "-t", way.neighbour, *way.flags, "--", *argv))
            )
    command = ("new-window", *start, "-t", f"{home.session}:", "-n", owner.title, "--", *argv)
    return await _create_window(server, command, owner)


async def label_pane(server: TmuxServer, pane: Pane, tag: str, name: str, color: str) -> None:
    """Tag the pane as ours, keep it when its program fails, and set its title and colour. Raises TmuxError."""
    await server.run(
        ("set-option", "-p", "-t", pane.id, TAG, tag),
        ("set-option", "-p", "-t", pane.id, "remain-on-exit", "on"),
        ("set-hook", "-p", "-t", pane.id, "pane-died", _close_on_success(pane.id)),
    )
    colour = color if color in _TMUX_COLOURS else _COLOURS.get(color, _NO_COLOUR)
    with contextlib.suppress(TmuxError):  # a tmux without this decoration does not prevent a start
        await server.run(
            ("select-pane", "-t", pane.id, "-T", escape_format(name)),  # with -T nothing is selected
            ("set-option", "-p", "-t", pane.id, COLOUR, colour),
            ("set-option", "-p", "-t", pane.id, "pane-border-format", f"#[fg={colour},bold] {_TITLE} #[default]"),
        )


async def arrange_window(server: TmuxServer, window: str) -> None:
    """Give the team's panes in this window even sizes and titles; without any, restore the window."""
    with contextlib.suppress(TmuxError):
        panes = await list_panes(server)
        here = [pane for pane in panes if pane.window == window]
        ours = [pane for pane in here if pane.tag]
        if ours:
            await show_borders(server, window)
            if commands := next((found for pane in ours if (found := even_out_commands(pane, panes))), None):
                await server.run(*commands)
        elif here:
            await restore_borders(server, window)


async def kill_pane(server: TmuxServer, pane: Pane, panes: Sequence[Pane]) -> None:
    """Close the pane if it still has this tag. Raises TmuxError."""
    command = f"kill-pane -t {pane.id}"
    if neighbour := _zoomed_neighbour(pane, panes):
        command += f" ; resize-pane -Z -t {neighbour}"
    await _run_if_ours(server, pane, command)


async def discard_pane(server: TmuxServer, pane: Pane) -> None:
    """Close a pane in which nothing runs yet, if it has this tag already. Never raises."""
    with contextlib.suppress(TmuxError):
        await kill_pane(server, pane, ())
        await arrange_window(server, pane.window)


async def hide_pane(server: TmuxServer, pane: Pane, panes: Sequence[Pane]) -> None:
    """Move the pane into a separate window in the background; a pane that is alone in its window stays.

    Raises TmuxError.
    """
    if sum(one.window == pane.window for one in panes) > 1:
        name = pane.tag.split("/")[-2]  # still quoted, which suits tmux too
        command = f"break-pane -d -s {pane.id} -t '{pane.session}:' -n '{name}'"
        if neighbour := _zoomed_neighbour(pane, panes):
            command += f" ; resize-pane -Z -t {neighbour}"
        await _run_if_ours(server, pane, command)
        await arrange_window(server, pane.window)


async def show_pane(server: TmuxServer, pane: Pane, panes: Sequence[Pane], home: LeadWindow) -> None:
    """Move the pane back beside its team's others, if there is room. Raises TmuxError."""
    others = [one for one in panes if one.id != pane.id]
    owner = PaneOwner.from_tag(pane.tag)
    for way in placements(others, home, owner.window_tag, owner.prefix):
        if isinstance(way, NewWindow):
            return
        beside = next(one for one in others if one.id == way.neighbour)
        if beside.window == pane.window:
            return
        command = f"join-pane -d -s {pane.id} -t {way.neighbour} {' '.join(way.flags)}"
        if beside.zoomed and (active := _active_pane(beside.window, panes)):
            command += f" ; resize-pane -Z -t {active}"
        with contextlib.suppress(TmuxError):
            await _run_if_ours(server, pane, command)
            await arrange_window(server, beside.window)
            return


async def _create_window(server: TmuxServer, command: Sequence[str], owner: PaneOwner) -> Pane:
    pane = _created_pane(await server.run(command))
    await server.run(("set-option", "-w", "-t", pane.id, WINDOW_TAG, owner.window_tag))
    return pane


def _close_on_success(id: str) -> str:
    """Return the command that closes the pane of a program that ended well.

    `remain-on-exit failed` also closes that of a failed program, when tmux sees the end of the terminal before the end
    of the process.
    """
    return f"if-shell -F -t {id} '#{{==:#{{pane_dead_status}},0}}' 'kill-pane -t {id}'"


def _created_pane(lines: Sequence[str]) -> Pane:
    panes = parse_panes(lines)
    if not panes:
        raise TmuxError(f"tmux named no pane that it made: {' '.join(lines)[:80]!r}")
    return panes[0]


async def _run_if_ours(server: TmuxServer, pane: Pane, command: str) -> None:
    """Run a command on the pane only if its tag matches. tmux compares and runs in one step, so no other pane is
    affected.

    `pane.tag` is quoted, so it contains nothing that a format would expand.
    """
    await server.run(("if-shell", "-F", "-t", pane.id, f"#{{==:#{{{TAG}}},{pane.tag}}}", command))


def _zoomed_neighbour(pane: Pane, panes: Sequence[Pane]) -> str:
    """Return the pane whose zoom would be lost when this one leaves its window; empty when there is none."""
    return _active_pane(pane.window, panes) if pane.zoomed and not pane.active else ""


def _active_pane(window: str, panes: Sequence[Pane]) -> str:
    return next((one.id for one in panes if one.window == window and one.active), "")


_STATUS = "pane-border-status"
_STYLES = ("pane-border-style", "pane-active-border-style")
_SAVED_OPTION = "@teamwright_was_"
_UNSET = "unset"


async def show_borders(server: TmuxServer, window: str) -> None:
    """Show titles and colours in this window; a second call changes nothing. Raises TmuxError."""
    if await _value(server, window, f"{_SAVED_OPTION}{_STATUS}"):
        return
    chosen = await _value(server, window, _STATUS, inherited=True)
    await _replace(server, window, _STATUS, chosen if chosen in {"top", "bottom"} else "top")
    for style in _STYLES:
        chosen = await _value(server, window, style, inherited=True)
        ours = f"#{{?{COLOUR},fg=#{{{COLOUR}}},{_escape_branch(chosen or 'default')}}}"
        await _replace(server, window, style, ours)


async def restore_borders(server: TmuxServer, window: str) -> None:
    """Restore the window's own borders; a window that was never changed stays as it is. Raises TmuxError."""
    for option in (*_STYLES, _STATUS):
        was = await _value(server, window, _SAVED_OPTION + option)
        if was:
            value = ("-u", option) if was == _UNSET else (option, was)
            await server.run(
                ("set-option", "-w", "-t", window, *value),
                ("set-option", "-w", "-t", window, "-u", _SAVED_OPTION + option),
            )


async def _replace(server: TmuxServer, window: str, option: str, value: str) -> None:
    was = await _value(server, window, option)
    await server.run(
        ("set-option", "-w", "-t", window, _SAVED_OPTION + option, was or _UNSET),
        ("set-option", "-w", "-t", window, option, value),
    )


async def _value(server: TmuxServer, window: str, option: str, *, inherited: bool = False) -> str:
    return "".join(await server.run(("show-options", "-wqvA" if inherited else "-wqv", "-t", window, option)))


def _escape_branch(style: str) -> str:
    """Return the style, which may contain formats, as a branch of a condition: commas between parts are escaped."""
    out = ""
    depth = 0
    previous = ""
    for letter in style:
        if letter == "{" and previous == "#":
            depth += 1
        elif letter == "}" and depth:
            depth -= 1
        elif letter in ",}" and not depth and previous != "#":
            out += "#"
        out = out + letter
        previous = letter
    return out
