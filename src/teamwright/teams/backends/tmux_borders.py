"""The borders of a window that has panes of ours: titles and colours while it has, as they were when it has none.

tmux has one border style a window, so ours is a format: a pane with a colour of ours has it, every other pane what the
user chose. What the window itself had set is kept in user options of the window. Knows the server, no layout.
"""

from __future__ import annotations

from teamwright.teams.backends.tmux_layout import COLOUR
from teamwright.teams.backends.tmux_server import TmuxServer

_STATUS, _STYLES = "pane-border-status", ("pane-border-style", "pane-active-border-style")
_SAVED_OPTION = "@teamwright_was_"
_UNSET = "unset"


async def show_borders(server: TmuxServer, window: str) -> None:
    """Show titles and colours in this window; nothing happens a second time. Raises TmuxError."""
    if await _value(server, window, f"{_SAVED_OPTION}{_STATUS}"):
        return
    chosen = await _value(server, window, _STATUS, inherited=True)
    await _replace(server, window, _STATUS, chosen if chosen in {"top", "bottom"} else "top")
    for style in _STYLES:
        chosen = await _value(server, window, style, inherited=True)
        ours = f"#{{?{COLOUR},fg=#{{{COLOUR}}},{_escape_branch(chosen or 'default')}}}"
        await _replace(server, window, style, ours)


async def restore_borders(server: TmuxServer, window: str) -> None:
    """Put everything back as the window had it; nothing happens when it was never changed. Raises TmuxError."""
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
    """The style, which may hold formats of its own, as a branch of a condition: commas between parts are escaped."""
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
