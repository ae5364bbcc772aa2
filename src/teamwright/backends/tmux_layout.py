"""The panes of a tmux server at one moment, and the position of the next one.

A line of tmux becomes a row; the rows give the possible positions in order of preference. tmux is not called here. The
tag of a pane says whether it is ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct

Layout = Literal["split", "window"]

TAG, WINDOW_TAG, COLOUR = "@teamwright", "@teamwright_window", "@teamwright_colour"
"""Our user options: the owner of a pane, the owner of a window, the colour of a pane."""

MIN_ROWS, MIN_COLUMNS = 3, 20
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
            pane = _row(fields)
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


def _row(fields: Sequence[str]) -> Pane:
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
