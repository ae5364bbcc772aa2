"""What is done to panes of one tmux server: room is made for one, it is dressed, hidden, shown, killed.

Below are the server and what is known of its panes. Focus never moves, a zoom is kept, and a pane is killed only by
tmux's own comparison of its tag, in the same breath. Refuses to know what runs in a pane and where the lead is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from urllib.parse import quote, unquote

from teamwright.protocol.values import dataclass
from teamwright.teams.places import borders
from teamwright.teams.places.panes import COLOUR, FORMAT, TAG, WINDOW_TAG, Home, NewWindow, Pane, evening, rows, ways
from teamwright.teams.places.tmux_server import Server, TmuxGone, TmuxRefused, literal

_COLOURS = {"purple": "magenta", "orange": "colour208", "pink": "colour205"}
_NO_COLOUR = "default"
_PLAIN = {"blue", "green", "yellow", "cyan", "red"}
_TITLE = "#{pane_title}"
_SIZE = ("-x", "200", "-y", "50")
"""Of a session that nobody has attached to yet."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose panes: as tags say it, in plain ASCII without blanks, because that is all that every tmux hands back."""

    session: str
    team: str

    @classmethod
    def of(cls, tag: str) -> Owner:
        """Whose tag this is."""
        session, team, *_ = [*tag.split("/"), "", ""]
        return cls(unquote(session), unquote(team))

    @property
    def window_tag(self) -> str:
        """What a window bears that was opened for the team."""
        return f"{quote(self.session, safe='')}/{quote(self.team, safe='')}"

    @property
    def prefix(self) -> str:
        """What the tags of all panes of the team begin with."""
        return f"{self.window_tag}/"

    def tag(self, name: str, life: str) -> str:
        """The tag of one life of one member; `life` is random, so that no later pane is taken for it."""
        return f"{self.prefix}{quote(name, safe='')}/{life}"

    @property
    def title(self) -> str:
        """The name of the team's window."""
        return self.team.replace("#", "")[:40] or "team"  # some tmux expand formats there and some do not


async def panes_of(server: Server, session: str = "") -> list[Pane]:
    """All panes of the server, as seen from `session`; none when there is no server. Raises TmuxRefused."""
    with contextlib.suppress(TmuxGone):
        return rows(await server.ask(("list-panes", "-a", "-F", FORMAT)), session)
    return []


async def make(server: Server, panes: Sequence[Pane], home: Home | None, owner: Owner, argv: Sequence[str]) -> Pane:
    """Start these arguments in a new pane, beside the others of the team if there is room; without `home` in a new

    session. A window that was opened for it bears the team's tag. Raises TmuxRefused.
    """
    start = ("-d", "-P", "-F", FORMAT)
    if home is None:
        command = ("new-session", *start, "-s", "teamwright", "-n", owner.title, *_SIZE, "--", *argv)
        return await _opened(server, command, owner)
    for way in ways(panes, home, owner.window_tag, owner.prefix):
        if isinstance(way, NewWindow):
            break
        zoom = ("-Z",) if any(pane.zoomed for pane in panes if pane.id == way.beside) else ()
        with contextlib.suppress(TmuxRefused):  # no space, or it was closed just now: the next way
            return _made(await server.ask(("split-window", *start, *zoom, "-t", way.beside, *way.flags, "--", *argv)))
    command = ("new-window", *start, "-t", f"{home.session}:", "-n", owner.title, "--", *argv)
    return await _opened(server, command, owner)


async def dress(server: Server, pane: Pane, tag: str, name: str, color: str) -> None:
    """Make the pane ours by its tag, keep it when its program fails, and let it look so. Raises TmuxRefused."""
    await server.ask(
        ("set-option", "-p", "-t", pane.id, TAG, tag),
        ("set-option", "-p", "-t", pane.id, "remain-on-exit", "on"),
        ("set-hook", "-p", "-t", pane.id, "pane-died", _ended_well(pane.id)),
    )
    colour = color if color in _PLAIN else _COLOURS.get(color, _NO_COLOUR)
    with contextlib.suppress(TmuxRefused):  # a tmux that has no such decoration is no reason not to start
        await server.ask(
            ("select-pane", "-t", pane.id, "-T", literal(name)),  # with -T nothing is selected
            ("set-option", "-p", "-t", pane.id, COLOUR, colour),
            ("set-option", "-p", "-t", pane.id, "pane-border-format", f"#[fg={colour},bold] {_TITLE} #[default]"),
        )


async def settle(server: Server, window: str) -> None:
    """Give the team's panes in this window even sizes and their titles; without any, give the window back as it was."""
    with contextlib.suppress(TmuxRefused):
        panes = await panes_of(server)
        here = [pane for pane in panes if pane.window == window]
        ours = [pane for pane in here if pane.tag]
        if ours:
            await borders.set_up(server, window)
            if commands := next((found for pane in ours if (found := evening(pane, panes))), None):
                await server.ask(*commands)
        elif here:
            await borders.give_back(server, window)


async def kill(server: Server, pane: Pane, panes: Sequence[Pane]) -> None:
    """Close the pane if it still bears this tag. Raises TmuxRefused."""
    command = f"kill-pane -t {pane.id}"
    if kept := _zoomed_beside(pane, panes):
        command += f" ; resize-pane -Z -t {kept}"
    await _if_ours(server, pane, command)


async def discard(server: Server, pane: Pane) -> None:
    """Close a pane in which nothing runs yet, if it bears this tag already. Never raises."""
    with contextlib.suppress(TmuxRefused):
        await kill(server, pane, ())
        await settle(server, pane.window)


async def hide(server: Server, pane: Pane, panes: Sequence[Pane]) -> None:
    """Move the pane into a window of its own, in the background; one that is alone in its window stays.

    Raises TmuxRefused.
    """
    if sum(one.window == pane.window for one in panes) > 1:
        name = pane.tag.split("/")[-2]  # still quoted, which is as well for tmux
        command = f"break-pane -d -s {pane.id} -t '{pane.session}:' -n '{name}'"
        if kept := _zoomed_beside(pane, panes):
            command += f" ; resize-pane -Z -t {kept}"
        await _if_ours(server, pane, command)
        await settle(server, pane.window)


async def show(server: Server, pane: Pane, panes: Sequence[Pane], home: Home) -> None:
    """Move the pane back to the others of its team, if there is room. Raises TmuxRefused."""
    others, owner = [one for one in panes if one.id != pane.id], Owner.of(pane.tag)
    for way in ways(others, home, owner.window_tag, owner.prefix):
        if isinstance(way, NewWindow):
            return
        beside = next(one for one in others if one.id == way.beside)
        if beside.window == pane.window:
            return
        command = f"join-pane -d -s {pane.id} -t {way.beside} {' '.join(way.flags)}"
        if beside.zoomed and (active := _active_in(beside.window, panes)):
            command += f" ; resize-pane -Z -t {active}"
        with contextlib.suppress(TmuxRefused):
            await _if_ours(server, pane, command)
            await settle(server, beside.window)
            return


async def _opened(server: Server, command: Sequence[str], owner: Owner) -> Pane:
    pane = _made(await server.ask(command))
    await server.ask(("set-option", "-w", "-t", pane.id, WINDOW_TAG, owner.window_tag))
    return pane


def _ended_well(id: str) -> str:
    """Close the pane of a program that ended well. (`remain-on-exit failed` closes that of one that failed, too, when

    tmux meets the end of its terminal before the end of its process.)
    """
    return f"if-shell -F -t {id} '#{{==:#{{pane_dead_status}},0}}' 'kill-pane -t {id}'"


def _made(lines: Sequence[str]) -> Pane:
    made = rows(lines)
    if not made:
        raise TmuxRefused(f"tmux named no pane that it made: {' '.join(lines)[:80]!r}")
    return made[0]


async def _if_ours(server: Server, pane: Pane, command: str) -> None:
    """Comparing and doing is one step for tmux: whatever becomes of the id meanwhile, no other pane is met.

    `pane.tag` is quoted, so it holds nothing that a format would read.
    """
    await server.ask(("if-shell", "-F", "-t", pane.id, f"#{{==:#{{{TAG}}},{pane.tag}}}", command))


def _zoomed_beside(pane: Pane, panes: Sequence[Pane]) -> str:
    """The pane whose zoom would be lost when this one leaves its window; empty when there is none."""
    return _active_in(pane.window, panes) if pane.zoomed and not pane.active else ""


def _active_in(window: str, panes: Sequence[Pane]) -> str:
    return next((one.id for one in panes if one.window == window and one.active), "")
