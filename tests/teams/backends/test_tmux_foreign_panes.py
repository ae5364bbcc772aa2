"""Whatever is done to members, in whatever order: panes of others keep their process, id, window, focus and zoom."""

import asyncio
import contextlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from teamwright.backends.tmux import TmuxBackend
from tests.support.examples import examples
from tests.teams.backends.rig import NoRoom, Programs, Rig, needs_tmux, private_server, programs

pytestmark = needs_tmux

STEPS = st.sampled_from(
    [
        "open",
        "open",
        "close",
        "hide",
        "show",
        "they split the lead",
        "they split a member",
        "they open a window",
        "they kill a member",
        "they kill one of theirs",
        "they zoom",
        "they resize",
    ]
)


class Neighbours:
    """Panes of others beside ours; after each of our steps they are what they were."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.theirs = {rig.lead}
        self.ours = []

    def seen(self) -> dict[str, str]:
        """Process, window, zoom of each of their panes, and whether its window is the one that is looked at."""
        facts = self.rig.panes("#{pane_pid} #{window_id} #{window_zoomed_flag} #{pane_dead} #{window_active}")
        return {id: fact for id, fact in facts.items() if id in self.theirs}

    def focused(self) -> set[str]:
        """Those of their panes that are their window's active one; the focus of a member that leaves goes to them."""
        return {id for id, active in self.rig.panes("#{pane_active}").items() if id in self.theirs and active == "1"}

    def sizes(self) -> dict[str, tuple[str, int, int]]:
        """Window, width and height of their panes but the lead's, which shares its place with members."""
        sizes = self.rig.panes("#{window_id} #{pane_width} #{pane_height}")
        split = {id: size.split() for id, size in sizes.items() if id in self.theirs - {self.rig.lead}}
        return {id: (window, int(width), int(height)) for id, (window, width, height) in split.items()}

    def kept_sizes(self, before: dict[str, tuple[str, int, int]]) -> bool:
        """They are what they were; in the lead's window a title may take a row."""
        now, lead = self.sizes(), self.rig.panes("#{window_id}")[self.rig.lead]
        return all(
            now[id][:2] == (window, width) and abs(now[id][2] - height) <= (window == lead)
            for id, (window, width, height) in before.items()
        )

    def they(self, step: str, number: int) -> None:
        alive = [location.id for location in self.ours if location.id in self.rig.panes()]
        member = alive[number % len(alive)] if alive else self.rig.lead
        spare = sorted(self.theirs - {self.rig.lead})
        match step:
            case "they split the lead":
                self.theirs.add(self.rig.split("-t", self.rig.lead, "-h" if number % 2 else "-v", "-l", "30%"))
            case "they split a member":
                self.theirs.add(self.rig.split("-t", member, "-h" if number % 2 else "-v"))
            case "they open a window":
                self.theirs.add(self.rig.window())
            case "they kill a member" if alive:
                self.rig.run("kill-pane", "-t", member)
            case "they kill one of theirs" if spare:
                self.rig.run("kill-pane", "-t", spare[number % len(spare)])
                self.theirs.discard(spare[number % len(spare)])
            case "they zoom":
                self.rig.run("resize-pane", "-Z", "-t", self.rig.lead)
            case "they resize":
                self.rig.run("resize-pane", "-t", self.rig.lead, "-x", str(20 + number * 7))
            case _:
                pass


async def play(steps: list[tuple[str, int]], layout: str) -> None:
    with private_server() as rig:
        async with programs() as reporting:
            place, town = rig.place(layout=layout), Neighbours(rig)
            town.theirs |= {rig.window(), rig.split("-t", rig.lead, "-v", "-l", "5")}
            for step, number in steps:
                await take(step, number, town, place, reporting)
            for location in town.ours:
                await place.close(location)
            assert set(rig.panes()) == town.theirs
            assert "teamwright" not in rig.run("show-options", "-w", "-t", rig.lead)


async def take(step: str, number: int, town: Neighbours, place: TmuxBackend, reporting: Programs) -> None:
    before, focused, sizes = town.seen(), town.focused(), town.sizes()
    if step == "open":
        town.ours.append(await place.open(reporting.launch(f"m{number}")))
        assert town.kept_sizes(sizes)
    elif step in {"close", "hide", "show"}:
        for location in town.ours[number % 3 :][:1]:
            await getattr(place, step)(location)
    else:
        with contextlib.suppress(NoRoom):
            town.they(step, number)
        return
    assert town.seen() == before
    assert town.focused() >= focused
    assert step != "open" or town.focused() == focused


@pytest.mark.slow
@pytest.mark.promise("E2", "F32", "F31")
@settings(max_examples=examples(12), suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(
    steps=st.lists(st.tuples(STEPS, st.integers(0, 9)), min_size=4, max_size=14),
    layout=st.sampled_from(["split", "window"]),
)
def test_panes_of_others_are_never_touched(steps, layout):
    asyncio.run(play(steps, layout))


@pytest.mark.slow
@pytest.mark.promise("E2", "F32")
def test_panes_of_others_are_not_touched_when_everything_happens_once():
    order = [
        "open",
        "open",
        "they split a member",
        "open",
        "open",
        "they zoom",
        "open",
        "hide",
        "they open a window",
        "show",
        "close",
    ]
    order += [
        "they kill a member",
        "they split the lead",
        "open",
        "they resize",
        "close",
        "they kill one of theirs",
        "open",
    ]
    for layout in ("split", "window"):
        asyncio.run(play([(step, number) for number, step in enumerate(order)], layout))
