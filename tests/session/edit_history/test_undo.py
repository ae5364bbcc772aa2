"""An undo takes back the last prompt's edits, all or none, and never anything else."""

import fcntl
import os
import stat
from pathlib import Path

import pytest

from teamwright.edit_history.edit_journal_reader import read_journal
from teamwright.protocol.errors import TeamwrightError, UsageError
from teamwright.tools.files.edit_journal_writer import digest

pytestmark = pytest.mark.promise("K6", "P5")


def refused(problem: pytest.ExceptionInfo[TeamwrightError]) -> dict[str, str]:
    """The files that an error names, with the reason."""
    assert problem.value.slug == "undo-refused"
    rows = [value.partition(": ") for label, value in problem.value.looked_at if label == "file"]
    return {path: why for path, _, why in rows}


async def test_all_that_anybody_edited_for_the_last_prompt_is_taken_back(desk):
    (desk.work / "a").write_text("one\n")
    desk.prompt("first")
    await desk.writes("team-lead", "a", "two\n")
    desk.prompt("second")
    await desk.writes("team-lead", "a", "three\n")
    await desk.writes("ada", "a", "four\n")
    await desk.writes("bob", "new/deep/b", "b\n")
    made = await desk.undo()
    assert [(file.path, file.did, file.members) for file in made.files] == [
        ("a", "restored", ("lead", "ada")),
        ("new/deep/b", "removed", ("bob",)),
    ]
    assert made.prompt == "second"
    assert desk.text("a") == "two\n"
    assert not (desk.work / "new").exists()
    assert desk.told == [
        'The user took back the edits of the prompt "second": a, new/deep/b. Read a file again before you change it.'
    ]


async def test_a_second_undo_goes_one_prompt_further_back_and_a_third_has_nothing(desk):
    (desk.work / "a").write_text("one\n")
    for number, text in enumerate(("two\n", "three\n")):
        desk.prompt(f"prompt {number}")
        await desk.writes("ada", "a", text)
    desk.prompt("changes nothing")
    assert (await desk.undo()).prompt == "prompt 1"
    assert desk.text("a") == "two\n"
    assert (await desk.undo()).prompt == "prompt 0"
    assert desk.text("a") == "one\n"
    with pytest.raises(TeamwrightError, match="no edit is left") as problem:
        await desk.undo()
    assert problem.value.note == "changes by shell commands are not covered outside a git repository"


async def test_after_an_undo_an_agent_cannot_change_the_file_by_its_old_reading(desk):
    (desk.work / "a").write_text("one\n")
    desk.prompt("p")
    await desk.writes("ada", "a", "two\n")
    await desk.undo()
    done = await desk.edit("ada", "a", "two", "three")
    assert done.is_error and "is not what you read" in str(done.content)
    assert desk.text("a") == "one\n"


async def test_edits_after_an_undo_can_be_undone_like_any_other(desk):
    (desk.work / "a").write_text("one\n")
    desk.prompt("p1")
    await desk.writes("ada", "a", "two\n")
    await desk.undo()
    desk.prompt("p2")
    await desk.writes("ada", "a", "three\n")
    await desk.undo()
    assert desk.text("a") == "one\n"
    with pytest.raises(TeamwrightError, match="no edit is left"):
        await desk.undo()


@pytest.mark.parametrize(
    ("meanwhile", "why"),
    [
        (lambda file: file.write_text("mine\n"), "it changed since"),
        (lambda file: file.unlink(), "it was deleted since"),
        (lambda file: (file.unlink(), file.mkdir()), "it is not a regular file"),
        (lambda file: (file.rename(file.with_name("x")), file.symlink_to("x")), "it changed since"),
        (lambda file: (file.unlink(), os.mkfifo(file)), "it is not a regular file"),
    ],
    ids=["changed", "deleted", "directory", "link", "pipe"],
)
@pytest.mark.finding("C9")
async def test_a_file_that_changed_since_is_named_and_left_and_the_others_are_taken_back(desk, meanwhile, why):
    (desk.work / "a").write_text("one\n")
    (desk.work / "b").write_text("one\n")
    desk.prompt("p")
    await desk.writes("ada", "a", "two\n")
    await desk.writes("ada", "b", "two\n")
    meanwhile(desk.work / "a")
    made = await desk.undo()
    assert [(file.path, file.did, file.why) for file in made.files] == [("b", "restored", ""), ("a", "kept", why)]
    assert desk.text("b") == "one\n"


async def test_what_was_left_out_stays_left_out_and_guards_what_is_below_it(desk):
    (desk.work / "a").write_text("one\n")
    (desk.work / "b").write_text("one\n")
    desk.prompt("p1")
    await desk.writes("ada", "a", "two\n")
    await desk.writes("ada", "b", "two\n")
    desk.prompt("p2")
    await desk.writes("bob", "a", "three\n")
    await desk.writes("bob", "b", "three\n")
    await desk.undo(left=("a",))
    made = await desk.undo()
    assert made.prompt == "p1"
    assert [file.why for file in made.files if file.did == "kept"] == ["bob changed it too, after that"]
    assert (desk.text("a"), desk.text("b")) == ("three\n", "one\n")


async def test_only_a_members_edits_are_taken_back_when_nobody_built_on_them(desk):
    for name in ("hers", "both"):
        (desk.work / name).write_text("one\n")
    desk.prompt("p")
    await desk.writes("ada", "hers", "two\n")
    await desk.writes("bob", "both", "two\n")
    await desk.writes("ada", "both", "three\n")
    made = await desk.undo("ada")
    assert {file.path for file in made.changed} == {"hers", "both"}
    assert (desk.text("hers"), desk.text("both")) == ("one\n", "two\n")
    await desk.undo()
    assert desk.text("both") == "one\n"


async def test_a_members_edits_under_anothers_are_refused_with_the_name(desk):
    (desk.work / "both").write_text("one\n")
    desk.prompt("p")
    await desk.writes("ada", "both", "two\n")
    await desk.writes("team-lead", "both", "three\n")
    with pytest.raises(TeamwrightError) as problem:
        await desk.undo("ada")
    assert refused(problem) == {"both": "lead changed it too, after that"}


async def test_a_change_of_the_persons_own_between_two_edits_is_not_lost(desk):
    (desk.work / "a").write_text("one\n")
    desk.prompt("p")
    await desk.writes("ada", "a", "two\n")
    (desk.work / "a").write_text("mine\n")
    await desk.writes("ada", "a", "mine and hers\n")
    with pytest.raises(TeamwrightError) as problem:
        await desk.undo()
    assert refused(problem) == {"a": "something else changed it between two of the edits"}
    assert desk.text("a") == "mine and hers\n"


async def test_a_file_that_is_already_as_before_is_no_obstacle(desk):
    (desk.work / "a").write_text("one\n")
    (desk.work / "b").write_text("one\n")
    desk.prompt("p")
    await desk.writes("ada", "a", "two\n")
    await desk.writes("ada", "a", "three\n")
    await desk.writes("ada", "b", "two\n")
    (desk.work / "a").write_text("one\n")
    made = await desk.undo()
    assert [(file.path, file.did) for file in made.files] == [("a", "already"), ("b", "restored")]
    with pytest.raises(TeamwrightError, match="no edit is left"):
        await desk.undo()


@pytest.mark.parametrize("damage", [lambda file: file.unlink(), lambda file: file.write_bytes(b"other")])
async def test_a_file_whose_former_content_is_lost_or_damaged_is_refused(desk, damage):
    (desk.work / "a").write_text("one\n")
    desk.prompt("p")
    await desk.writes("ada", "a", "two\n")
    damage(desk.history / digest(b"one\n"))
    with pytest.raises(TeamwrightError) as problem:
        await desk.undo()
    assert refused(problem) == {"a": "what it had before is missing or damaged in the session's history"}
    assert desk.text("a") == "two\n"


async def test_mode_and_bytes_come_back_exactly(desk):
    file = desk.work / "run.sh"
    file.write_bytes(b"\xef\xbb\xbfone\r\ntwo \xff\r\n")
    file.chmod(0o751)
    desk.prompt("p")
    await desk.read("ada", "run.sh")
    assert not (await desk.edit("ada", "run.sh", "one", "three")).is_error
    await desk.undo()
    assert file.read_bytes() == b"\xef\xbb\xbfone\r\ntwo \xff\r\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o751


async def test_a_directory_that_an_edit_made_stays_when_something_else_is_in_it(desk):
    desk.prompt("p")
    await desk.writes("ada", "new/deep/a", "x")
    (desk.work / "new" / "mine").write_text("mine")
    await desk.undo()
    assert sorted(os.listdir(desk.work / "new")) == ["mine"]


async def test_a_directory_of_the_persons_own_stays_though_it_is_empty_then(desk):
    (desk.work / "mine").mkdir()
    desk.prompt("p")
    await desk.writes("ada", "mine/a", "x")
    await desk.undo()
    assert os.listdir(desk.work / "mine") == []


async def test_a_file_outside_the_directory_is_taken_back_too(desk, tmp_path: Path):
    outside = tmp_path / "outside.txt"
    outside.write_text("one\n")
    desk.prompt("p")
    await desk.writes("ada", str(outside), "two\n")
    made = await desk.undo()
    assert [file.path for file in made.files] == [str(outside)] and outside.read_text() == "one\n"


async def test_a_file_to_leave_that_is_none_of_them_is_an_error_with_the_nearest(desk):
    desk.prompt("p")
    await desk.writes("ada", "main.py", "x")
    with pytest.raises(UsageError) as problem:
        await desk.undo(left=("mian.py",))
    assert problem.value.do == ("did you mean main.py?",)
    with pytest.raises(TeamwrightError, match="every file is to be left"):
        await desk.undo(left=("main.py",))


async def test_a_file_that_is_locked_is_told_and_the_same_undo_completes_the_rest(desk, monkeypatch):
    monkeypatch.setattr("teamwright.tools.files.file_change.LOCK_TIMEOUT_S", 0.05)
    for name in ("a", "b"):
        (desk.work / name).write_text("one\n")
    desk.prompt("p0")
    await desk.writes("ada", "a", "p0\n")
    desk.prompt("p")
    await desk.writes("ada", "a", "two\n")
    await desk.writes("ada", "b", "two\n")
    with open(desk.work / "b") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(TeamwrightError) as problem:
            await desk.undo()
    assert refused(problem) == {"b": "another program has locked it"}
    assert (desk.text("a"), desk.text("b"), desk.told) == ("p0\n", "two\n", [])
    made = await desk.undo()
    assert made.completed and made.prompt == "p"
    assert (desk.text("a"), desk.text("b")) == ("p0\n", "one\n")
    assert len(desk.told) == 1


async def test_the_edits_of_a_journal_without_prompts_are_one_undo(desk):
    await desk.writes("ada", "a", "x")
    await desk.writes("bob", "b", "x")
    made = await desk.undo()
    assert made.prompt == "" and {file.did for file in made.files} == {"removed"}


def test_the_journal_is_read_as_its_golden_file_has_it(tmp_path: Path):
    golden = Path(__file__).parents[2] / "golden" / "edits_v1.jsonl"
    (tmp_path / "edits.jsonl").write_bytes(golden.read_bytes())
    edits = read_journal(tmp_path)
    assert [(prompt.number, prompt.id, prompt.text) for prompt in edits.prompts] == [
        (0, "", ""),
        (1, "p-1", "Count all files."),
    ]
    assert {path: [change.prompt for change in lines] for path, lines in edits.changes.items()} == {
        "/work/old.txt": [0],
        "/work/src/a.py": [1, 1, 1],
    }
    [undo] = edits.undos.values()
    assert (undo.id, undo.prompt, undo.by, undo.paths, undo.left, undo.ended) == (
        "u-1",
        1,
        (),
        ("/work/src/a.py",),
        ("/work/b.py",),
        True,
    )
    assert edits.changes["/work/src/a.py"][0].made == "/work/src" and edits.members == ["team-lead", "ada"]
    assert edits.damaged == 1 and edits.cut_off is None
    assert edits.in_effect("/work/src/a.py", lambda: None) == []
    assert len(edits.in_effect("/work/old.txt", lambda: None)) == 1
