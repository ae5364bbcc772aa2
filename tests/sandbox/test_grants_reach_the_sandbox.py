"""What a person allowed runs: every way to allow a command reaches the kernel's rules, and nothing more does."""

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from teamwright.sandbox.sandbox import find_implementation
from tests.sandbox.conftest import use
from tests.sandbox.grant_world import KINDS, OF_LEAD, WAYS, World, make_way, run

IMPLEMENTATIONS = ("landlock", "bubblewrap", "off")
QUICK_KINDS = KINDS[:4]


def quick() -> Iterator[tuple[str, str, str]]:
    """Two cases for each way, so that each implementation and each kind of agent in the process meets many ways."""
    for number, way in enumerate(WAYS):
        for implementation, kind in zip(IMPLEMENTATIONS, range(number, number + 2), strict=False):
            yield way, implementation, "lead" if way in OF_LEAD else QUICK_KINDS[kind % len(QUICK_KINDS)]


def cases() -> Iterator[object]:
    first = set(quick())
    for case in itertools.product(WAYS, IMPLEMENTATIONS, KINDS):
        way, _, kind = case
        if way in OF_LEAD and kind not in {"lead", "background"}:
            continue
        marks = () if case in first else (pytest.mark.slow,)
        yield pytest.param(*case, id="-".join(case), marks=marks)


@pytest.fixture
def world() -> Iterator[World]:
    made = World(Path(tempfile.mkdtemp(prefix="teamwright-", dir="/var/tmp")))  # commands have another /tmp
    yield made
    made.remove()


@pytest.mark.finding("3S1")
@pytest.mark.parametrize(("name", "implementation", "kind"), list(cases()))
async def test_what_was_allowed_runs_and_nothing_more(world, monkeypatch, name, implementation, kind):
    if kind == "member process" and implementation not in {"off", find_implementation().name}:
        pytest.skip("another process confines commands by what works best on this machine")
    if implementation != "off":
        use(monkeypatch, implementation)
    way = make_way(name, world)
    await run(world, way, kind, sandbox="off" if implementation == "off" else "auto")
    assert (world.out / "c.txt").read_text() == "allowed"
    is_open = implementation == "off"
    assert (world.other / "x").exists() == (is_open and not way.command), "what no word of the line names"
    assert (world.out / "again").exists() == (is_open or way.gives_directory), "an approval is for one call"
