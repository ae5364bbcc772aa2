"""Which tmux there is, what version it is, and what of a `window_layout` is a stack."""

import os

import pytest

from teamwright.backends.tmux_server import MIN_VERSION, TmuxProgram, find_tmux, parse_version, stacks
from tests.teams.backends.rig import TMUX, needs_tmux


@pytest.mark.parametrize(
    ("told", "version"),
    [
        ("tmux 3.3a", (3, 3)),
        ("tmux 3.2", (3, 2)),
        ("tmux 2.9a", (2, 9)),
        ("tmux 3.10", (3, 10)),
        ("tmux 3.5-rc2", (3, 5)),
        ("tmux next-3.4", (3, 4)),
        ("tmux master", (99, 0)),
        ("tmux openbsd-7.4", (99, 0)),
        ("", None),
        ("tmux", None),
        ("screen 4.09", None),
        ("tmux 3", None),
    ],
)
def test_a_version_is_read_as_tmux_writes_it(told, version):
    assert parse_version(told) == version


@needs_tmux
@pytest.mark.promise("E5")
async def test_the_tmux_of_this_machine_is_found():
    found = await find_tmux({"PATH": os.environ["PATH"]})
    assert found.program == TMUX
    assert (found.problem == "") == ((parse_version(found.version) or (0, 0)) >= MIN_VERSION)


@pytest.mark.promise("E5")
@pytest.mark.parametrize(
    ("script", "why"),
    [
        (None, "tmux is not installed (no tmux in PATH)"),
        ("echo tmux 3.1c", "tmux 3.1c is too old: 3.2 or newer is needed"),
        ("echo tmux later", "says 'tmux later', which is no version"),
        ("echo broken >&2; exit 1", "says 'broken', which is no version"),
        ("echo tmux 3.4; exit 1", "says 'tmux 3.4', which is no version"),
    ],
)
async def test_a_tmux_that_cannot_be_used_is_told_with_the_reason(tmp_path, script, why):
    if script is not None:
        (tmp_path / "tmux").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "tmux").chmod(0o755)
    found = await find_tmux({"PATH": str(tmp_path)})
    assert why in found.problem


async def test_a_tmux_that_cannot_be_run_is_told_with_the_reason(tmp_path):
    (tmp_path / "tmux").write_text("#!/nonexistent/interpreter\n")
    (tmp_path / "tmux").chmod(0o755)
    found = await find_tmux({"PATH": str(tmp_path)})
    assert isinstance(found, TmuxProgram)
    assert "could not be run" in found.problem


@pytest.mark.parametrize(
    ("layout", "found"),
    [
        ("0776,200x50,0,0{59x50,0,0,0,140x50,60,0,1}", []),
        ("e366,200x50,0,0{59x50,0,0,0,140x50,60,0[140x25,60,0,1,140x24,60,26,2]}", [{"%1": 25, "%2": 24}]),
        ("ac9d,80x20,0,0[80x9,0,0,11,80x10,0,10,2]", [{"%11": 9, "%2": 10}]),
        ("ac9d,80x20,0,0[80x9,0,0,1,80x10,0,10{40x10,0,10,2,39x10,41,10,3}]", []),
        ("ac9d,200x50,0,0,0", []),
    ],
)
def test_stacks_of_panes_alone_are_found_in_a_layout(layout, found):
    assert stacks(layout) == found
