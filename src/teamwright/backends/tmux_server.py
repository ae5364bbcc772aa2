"""A tmux server: its program, commands as argument lists, its panes at one moment, and the position of the next one.

Every call names the server and has a deadline. tmux receives an environment without secrets, because a started server
keeps it. The tag of a pane says whether it is ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from teamwright.processes.program_environment import find_program, own_variables
from teamwright.protocol.time_limit import time_limit


class TmuxError(Exception):
    """An error of tmux; the text is tmux's own."""


class TmuxServerGone(TmuxError):
    """No server at the socket."""


_UNREACHABLE = ("no server running", "error connecting", "server exited", "lost server", "no current target")
"""Messages of tmux without a server. The last one is of a server whose last session has just ended."""


class TmuxServer(Struct, frozen=True):
    """A server by its address: `-S` with the path of its socket, or `-L` with a name and further start options."""

    program: str
    address: tuple[str, ...]
    environ: Mapping[str, str]

    async def run(self, *commands: Sequence[str]) -> list[str]:
        """Run these commands in order, stopping at the first failure. Returns the lines of output.

        Raises TmuxServerGone, or TmuxError with tmux's message.
        """
        words: list[str] = []
        for command in commands:
            words += [";"] if words else []
            words += [_escape_word(word) for word in command]
        code, output, complaint = await _run([self.program, "-u", *self.address, *words], self.environ)
        if code != 0:
            problem = complaint.strip() or output.strip() or f"status {code}"
            raise (TmuxServerGone if problem.startswith(_UNREACHABLE) else TmuxError)(problem)
        return output.splitlines()


MIN_VERSION = (3, 2)
"""Of 2021: the first in which each pane can have a border colour. 3.3a is what it was tried with."""


_NEWEST = (99, 0)


class TmuxProgram(Struct, frozen=True):
    """The tmux of this machine: its path, its version text, and why it cannot be used (empty when it can)."""

    program: str = ""
    version: str = ""
    problem: str = ""


async def find_tmux(environ: Mapping[str, str]) -> TmuxProgram:
    """Find tmux in the PATH of this environment and read its version. Never raises."""
    program = find_program("tmux", environ.get("PATH", ""))
    if not program:
        return TmuxProgram(problem="tmux is not installed (no tmux in PATH)")
    try:
        code, output, complaint = await _run([program, "-V"], environ)
    except TmuxError as problem:
        return TmuxProgram(program, problem=str(problem))
    version = output.strip()
    number = parse_version(version)
    least = ".".join(map(str, MIN_VERSION))
    if code != 0 or number is None:
        return TmuxProgram(
            program, version, f"{program} -V says {(version or complaint.strip())[:60]!r}, which is no version"
        )
    if number < MIN_VERSION:
        return TmuxProgram(program, version, f"{version} is too old: {least} or newer is needed")
    return TmuxProgram(program, version)


def parse_version(output: str) -> tuple[int, int] | None:
    """Return the version in the output of `tmux -V`: `tmux 3.3a`, `tmux next-3.4`; builds without a number count as the
    newest.
    """
    if re.fullmatch(r"tmux (master|openbsd-[\d.]+)", output):
        return _NEWEST
    match = re.fullmatch(r"tmux (?:next-)?(\d+)\.(\d+)[a-z]?(?:-rc\d*)?", output)
    return (int(match[1]), int(match[2])) if match else None


def escape_format(text: str) -> str:
    """Escape text that tmux expands as a format: names and titles."""
    return text.replace("#", "##")


def _escape_word(word: str) -> str:
    """Return the word in a form that tmux takes for one: a `;` at its end would end the command."""
    return word[:-1] + "\\;" if word.endswith(";") else word


_ANSWER_S = 20.0


_PASSED_VARIABLES = (
    "COLORTERM",
    "HOME",
    "LANG",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TMUX_TMPDIR",
    "TZ",
    "USER",
)


async def _run(argv: Sequence[str], environ: Mapping[str, str]) -> tuple[int, str, str]:
    passed = {key: value for key, value in environ.items() if key in _PASSED_VARIABLES or key.startswith("LC_")}
    handed_on = own_variables(passed)  # the commands of a configuration run with the PATH of the server
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            env=handed_on,
            cwd="/",  # a server keeps its start directory
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C at the lead's terminal must not reach it
        )
    except (OSError, ValueError) as problem:
        raise TmuxError(f"{argv[0]} could not be run: {problem}") from problem
    try:
        async with time_limit(_ANSWER_S):
            output, complaint = await process.communicate()
    except TimeoutError:
        raise TmuxError(f"tmux did not answer within {_ANSWER_S:g} seconds") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
    return process.returncode or 0, output.decode("utf-8", "replace"), complaint.decode("utf-8", "replace")


OWN_SOCKET_PREFIX = "teamwright-"
"""The prefix of the socket names of our own servers."""


def is_own_socket(path: str) -> bool:
    """Return whether this is the socket of a server that we start outside of the user's tmux."""
    return Path(path).name.startswith(OWN_SOCKET_PREFIX)


def remove_socket(path: str) -> None:
    """Remove the file of a server that has ended. Does nothing when it cannot be removed."""
    with contextlib.suppress(OSError):
        Path(path).unlink()


def remove_dead_sockets(own_socket: str) -> None:
    """Remove the socket files of our own servers in the directory of this one that no server answers."""
    with contextlib.suppress(OSError):
        for path in Path(own_socket).parent.iterdir():
            if is_own_socket(str(path)) and str(path) != own_socket and _is_dead(path):
                remove_socket(str(path))


def _is_dead(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False


Layout = Literal["split", "window"]


TAG = "@teamwright"
"""Our user option for the owner of a pane."""

WINDOW_TAG = "@teamwright_window"
"""Our user option for the owner of a window."""

COLOUR = "@teamwright_colour"
"""Our user option for the colour of a pane."""


MIN_ROWS = 3
MIN_COLUMNS = 20
"""The smallest pane: one that would be smaller is placed elsewhere."""


LEAD_COLUMNS = 40
"""Columns that the lead keeps of a narrow window, up to half of it, regardless of its share: a person types there."""


_FIELDS = (
    "#{pane_id}",
    "#{window_id}",
    "#{session_id}",
    "#{pid}",
    "#{pane_pid}",
    "#{pane_dead}",
    "#{pane_active}",
    "#{window_zoomed_flag}",
    "#{pane_width}",
    "#{pane_height}",
    "#{window_layout}",
    f"#{{{WINDOW_TAG}}}",
    f"#{{{TAG}}}",
)


FORMAT = "|".join(_FIELDS)
"""The `list-panes -F` format for `parse_panes`; the tag, which others could fill with any text, is the last field."""


class Pane(Struct, frozen=True):
    """One pane. `server` and `pid` are process numbers, sizes are in cells, `tag` is empty for a pane of others."""

    id: str
    window: str
    session: str
    server: int
    pid: int
    dead: bool
    active: bool
    zoomed: bool
    width: int
    height: int
    layout: str
    window_tag: str
    tag: str


class Split(Struct, frozen=True):
    """A position beside or below the pane `beside`: `flags` of split-window and join-pane."""

    neighbour: str
    flags: tuple[str, ...]


class NewWindow(Struct, frozen=True):
    """A position in a new window of this session."""

    session: str


class LeadWindow(Struct, frozen=True):
    """The lead's window: its session, its pane (empty when it has none any more), the layout, the lead's share."""

    session: str
    pane: str
    layout: Layout
    lead_percent: int


def parse_panes(lines: Iterable[str], session: str = "") -> list[Pane]:
    """Return the panes in these lines, each once: as seen from `session` when its window is in several."""
    found: dict[str, Pane] = {}
    for line in lines:
        fields = line.split("|", len(_FIELDS) - 1)
        if len(fields) == len(_FIELDS) and re.fullmatch(r"%\d+", fields[0]):
            pane = _parse_pane(fields)
            if pane.id not in found or pane.session == session:
                found[pane.id] = pane
    return list(found.values())


def placements(panes: Sequence[Pane], home: LeadWindow, window_tag: str, owner: str) -> Iterator[Split | NewWindow]:
    """Yield the possible positions of one more pane, the best first; the last one always works.

    Parameters: `window_tag`, the tag of this team's windows; `owner`, the prefix of the tags of this team's panes.
    """
    lead = next((pane for pane in panes if pane.id == home.pane), None)
    if lead is not None and home.layout == "split":
        beside = [pane for pane in panes if pane.window == lead.window and pane.tag.startswith(owner)]
        yield from _below_tallest(beside) if beside else _split_lead(lead, home.lead_percent)
    theirs = [pane for pane in panes if pane.window_tag == window_tag and pane.tag.startswith(owner)]
    yield from _split_largest(theirs)
    yield NewWindow(home.session)


def even_out_commands(pane: Pane, panes: Sequence[Pane]) -> list[tuple[str, ...]]:
    """Return the commands that give panes one size when all of them are ours; none when others would change.

    A zoomed window is left alone: a new layout would end the zoom. (`select-layout -E` also resizes the panes around an
    even stack, the lead's pane too; so each pane receives its height.)
    """
    window = [one for one in panes if one.window == pane.window]
    if pane.zoomed or len(window) < 2:
        return []
    if pane.window_tag and all(one.tag for one in window):
        return [("select-layout", "-t", pane.id, "tiled")]
    ours = {one.id for one in window if one.tag}
    stack = next((stack for stack in stacks(pane.layout) if pane.id in stack), dict[str, int]())
    if not stack.keys() <= ours or not stack or max(stack.values()) - min(stack.values()) < 2:
        return []
    height = str(sum(stack.values()) // len(stack))
    return [("resize-pane", "-t", id, "-y", height) for id in list(stack)[:-1]]


def stacks(layout: str) -> list[dict[str, int]]:
    """Return the stacks of a `window_layout` that contain only panes, from top to bottom, with their heights.

    `[80x9,0,0,1,80x10,0,10,2]` is one.
    """
    found = re.findall(r"\[([^\[\]{}]*)\]", layout)
    cell = re.compile(r"\d+x(\d+),\d+,\d+,(\d+)(?:,|$)")
    return [{f"%{id}": int(height) for height, id in cell.findall(inside)} for inside in found]


def _split_lead(lead: Pane, percent: int) -> Iterator[Split]:
    theirs = min(lead.width * (100 - percent) // 100, lead.width - min(LEAD_COLUMNS, lead.width // 2) - 1)
    lead_width = lead.width - theirs - 1  # a line is between them
    if theirs - 1 >= MIN_COLUMNS and lead_width >= MIN_COLUMNS // 2:
        yield Split(lead.id, ("-h", "-l", str(theirs)))


def _below_tallest(panes: Sequence[Pane]) -> Iterator[Split]:
    tallest = max(panes, key=lambda pane: pane.height)
    if tallest.height > 2 * MIN_ROWS:
        yield Split(tallest.id, ("-v",))


def _split_largest(theirs: Sequence[Pane]) -> Iterator[Split]:
    for pane in sorted(theirs, key=lambda pane: -pane.width * pane.height):
        if pane.width > 2 * MIN_COLUMNS and pane.width > 2 * pane.height:  # a cell is twice as high as wide
            yield Split(pane.id, ("-h",))
        elif pane.height > 2 * MIN_ROWS:
            yield Split(pane.id, ("-v",))


def _parse_pane(fields: Sequence[str]) -> Pane:
    def number(text: str) -> int:
        return int(text) if text.isdigit() else 0

    return Pane(
        id=fields[0],
        window=fields[1],
        session=fields[2],
        server=number(fields[3]),
        pid=number(fields[4]),
        dead=fields[5] == "1",
        active=fields[6] == "1",
        zoomed=fields[7] == "1",
        width=number(fields[8]),
        height=number(fields[9]),
        layout=fields[10],
        window_tag=fields[11],
        tag=fields[12],
    )
