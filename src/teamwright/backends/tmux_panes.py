"""Operations on panes of one tmux server: create, label, arrange, hide, show and kill.

Depends on the tmux server and its layout. Focus never moves, a zoom is kept, and tmux itself compares a pane's tag in
the command that kills it. A window with our panes has titles and colours in its borders, else its own borders.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from urllib.parse import quote, unquote

from msgspec import Struct

from teamwright.backends.tmux_layout import (
    COLOUR,
    FORMAT,
    TAG,
    WINDOW_TAG,
    LeadWindow,
    NewWindow,
    Pane,
    even_out_commands,
    parse_panes,
    placements,
)
from teamwright.backends.tmux_server import TmuxError, TmuxServer, TmuxServerGone, escape_format

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


async def kill(server: TmuxServer, pane: Pane, panes: Sequence[Pane]) -> None:
    """Close the pane if it still has this tag. Raises TmuxError."""
    command = f"kill-pane -t {pane.id}"
    if neighbour := _zoomed_neighbour(pane, panes):
        command += f" ; resize-pane -Z -t {neighbour}"
    await _run_if_ours(server, pane, command)


async def discard(server: TmuxServer, pane: Pane) -> None:
    """Close a pane in which nothing runs yet, if it has this tag already. Never raises."""
    with contextlib.suppress(TmuxError):
        await kill(server, pane, ())
        await arrange_window(server, pane.window)


async def hide(server: TmuxServer, pane: Pane, panes: Sequence[Pane]) -> None:
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


async def show(server: TmuxServer, pane: Pane, panes: Sequence[Pane], home: LeadWindow) -> None:
    """Move the pane back beside its team's others, if there is room. Raises TmuxError."""
    others, owner = [one for one in panes if one.id != pane.id], PaneOwner.from_tag(pane.tag)
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
    """Close the pane of a program that ended well. (`remain-on-exit failed` also closes that of a failed program, when
    tmux sees the end of the terminal before the end of the process.)
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


_STATUS, _STYLES = "pane-border-status", ("pane-border-style", "pane-active-border-style")
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
    out, depth, previous = "", 0, ""
    for letter in style:
        if letter == "{" and previous == "#":
            depth += 1
        elif letter == "}" and depth:
            depth -= 1
        elif letter in ",}" and not depth and previous != "#":
            out += "#"
        out, previous = out + letter, letter
    return out
