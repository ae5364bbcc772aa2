"""The borders of a window with our panes: titles and colours while there are any, else the window's own borders.

tmux has one border style a window, so ours is a format: a pane with our colour has that colour, every other pane the
user's. The window's former values are stored in user options of the window. Depends on the tmux server.
"""

from __future__ import annotations

from teamwright.teams.backends.tmux_layout import COLOUR
from teamwright.teams.backends.tmux_server import TmuxServer

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
