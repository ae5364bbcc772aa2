"""SIGKILL in the middle of an undo: each file is old or new, and the same undo completes it."""

import asyncio
import multiprocessing
import os
import signal
from pathlib import Path

import pytest

from teamwright.edit_history.edit_journal_reader import read_journal
from teamwright.edit_history.undo import UndoRequest, apply_undo, require_plan
from teamwright.protocol.errors import TeamwrightError
from tests.support.waits import WAIT_S

pytestmark = pytest.mark.promise("K6", "P5")

FILES = 60
OLD, NEW, LAST = ("old\n" * 5_000, "new\n" * 5_000, "last\n" * 5_000)


def undo_it(history: str, work: str) -> None:
    """What a process does until it is killed."""
    place = Path(history)
    plan = require_plan(read_journal(place), place, work, UndoRequest())
    asyncio.run(apply_undo(place, work, plan, lambda _id, _text: None))


def files_begun(history: Path) -> int:
    return sum(bool(change.undo) for lines in read_journal(history).changes.values() for change in lines)


@pytest.mark.slow
@pytest.mark.parametrize("done", [1, 7, 30, FILES])
async def test_a_kill_leaves_each_file_old_or_new_and_repeating_completes_exactly_that_undo(desk, done):
    desk.prompt("first")
    for number in range(FILES):
        await desk.writes("ada", f"f{number}", OLD)
    desk.prompt("second")
    for number in range(FILES - 1):
        await desk.writes("ada", f"f{number}", NEW)
    await desk.writes("ada", "made", NEW)
    spawn = multiprocessing.get_context("spawn")
    worker = spawn.Process(target=undo_it, args=(str(desk.history), str(desk.work)))
    worker.start()
    while files_begun(desk.history) < done and worker.is_alive():
        worker.join(0.001)
    os.kill(worker.pid or 0, signal.SIGKILL)
    worker.join(WAIT_S)
    names = [f"f{number}" for number in range(FILES - 1)]
    assert {desk.text(name) for name in names} <= {OLD, NEW}
    assert desk.text("made") in {NEW, None}
    if read_journal(desk.history).cut_off is not None:
        assert (await desk.undo()).completed
    assert {desk.text(name) for name in names} == {OLD} and desk.text("made") is None
    assert (await desk.undo()).prompt == "first"
    with pytest.raises(TeamwrightError, match="no edit is left"):
        await desk.undo()


async def test_an_undo_that_is_never_completed_does_not_stand_in_the_way_of_the_next_prompt(desk):
    for name in ("a", "b"):
        (desk.work / name).write_text(OLD)
    desk.prompt("first")
    await desk.writes("ada", "a", NEW)
    await desk.writes("ada", "b", NEW)
    begun = desk.history / "edits.jsonl"
    whole = await undone_bytes(desk)
    cut = whole.rindex(b'{"at":', 0, whole.rindex(b'"undone"'))
    second = whole.rindex(b'{"at":', 0, cut)
    begun.write_bytes(whole[:second])  # the line of the second file was never written, nor was that file changed
    (desk.work / "b").write_text(NEW)
    desk.prompt("second")
    await desk.writes("bob", "b", LAST)
    assert (await desk.undo()).prompt == "second"
    assert (desk.text("a"), desk.text("b")) == (OLD, NEW)
    made = await desk.undo()
    assert made.prompt == "first" and not made.completed
    assert (desk.text("a"), desk.text("b")) == (OLD, OLD)


async def undone_bytes(desk) -> bytes:
    await desk.undo()
    return (desk.history / "edits.jsonl").read_bytes()


async def test_a_file_whose_line_stands_there_but_which_was_not_changed_is_taken_back_by_the_repetition(desk):
    (desk.work / "a").write_text(OLD)
    desk.prompt("first")
    await desk.writes("ada", "a", NEW)
    whole = await undone_bytes(desk)
    (desk.history / "edits.jsonl").write_bytes(whole[: whole.rindex(b'{"at":')])  # killed behind the line
    (desk.work / "a").write_text(NEW)
    made = await desk.undo()
    assert made.completed and [(file.path, file.did) for file in made.files] == [("a", "restored")]
    assert desk.text("a") == OLD
