"""What changed, and who did it: from kept contents alone, with bounded work."""

import pytest

from teamwright.edit_history import session_diff
from teamwright.edit_history.edit_journal_reader import read_journal
from teamwright.edit_history.session_diff import newest_edit_of_call
from teamwright.tools.files.edit_journal_writer import digest

pytestmark = pytest.mark.promise("K6")


async def test_a_file_is_shown_from_before_its_first_edit_to_after_its_last_with_everybody_who_changed_it(desk):
    (desk.work / "a").write_text("one\nsame\n")
    desk.prompt("p1")
    await desk.writes("ada", "a", "two\nsame\n")
    desk.prompt("p2")
    await desk.writes("bob", "a", "three\nsame\n")
    await desk.writes("ada", "a", "four\nsame\n")
    change = desk.diff()["a"]
    assert change.diff == "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n-one\n+four\n same\n"
    assert [(share.name, share.edits) for share in change.members] == [("ada", 2), ("bob", 1)]
    assert (change.state, change.added, change.removed, change.since, change.between) == ("changed", 1, 1, "", False)


async def test_a_members_share_is_its_own_edits_and_nobody_elses(desk):
    (desk.work / "a").write_text("one\nsame\n")
    desk.prompt("p1")
    await desk.writes("ada", "a", "two\nsame\n")
    await desk.writes("bob", "a", "two\nBOB\n")
    await desk.writes("ada", "a", "three\nBOB\n")
    change = desk.diff("ada")["a"]
    assert "BOB\n" in change.diff and "+BOB" not in change.diff
    assert change.diff.count("@@ -") == 2 and (change.added, change.removed, change.edits) == (2, 2, 2)
    assert desk.diff("bob")["a"].diff == "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n two\n-same\n+BOB\n"
    assert desk.diff("nobody") == {}


async def test_new_and_removed_files_are_shown_against_nothing(desk):
    desk.prompt("p")
    await desk.writes("ada", "a", "one\n")
    change = desk.diff()["a"]
    assert change.state == "created" and change.diff == "--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+one\n"
    await desk.undo()
    assert desk.diff() == {}


@pytest.mark.parametrize(
    ("meanwhile", "since"),
    [
        (lambda file: file.write_text("mine"), "changed since by something else"),
        (lambda file: file.unlink(), "deleted since"),
        (lambda file: file.write_text("one\n"), "again what it was before the last edit"),
        (lambda file: (file.unlink(), file.mkdir()), "cannot be compared: it is not a regular file"),
    ],
)
async def test_what_happened_to_a_file_since_is_said(desk, meanwhile, since):
    (desk.work / "a").write_text("one\n")
    desk.prompt("p")
    await desk.writes("ada", "a", "two\n")
    meanwhile(desk.work / "a")
    assert desk.diff()["a"].since == since


async def test_a_foreign_change_between_two_edits_is_said(desk):
    (desk.work / "a").write_text("one\n")
    desk.prompt("p")
    await desk.writes("ada", "a", "two\n")
    (desk.work / "a").write_text("mine\n")
    await desk.writes("ada", "a", "three\n")
    assert desk.diff()["a"].between


async def test_binary_large_empty_and_lost_contents_are_named_and_the_others_are_shown(desk, monkeypatch):
    monkeypatch.setattr(session_diff, "COMPARED_MOST", 1_000)
    desk.prompt("p")
    await desk.writes("ada", "binary", "\0\0\0")
    await desk.writes("ada", "large", "x" * 1_001)
    await desk.writes("ada", "empty", "")
    await desk.writes("ada", "lost", "lost\n")
    await desk.writes("ada", "damaged", "damaged\n")
    await desk.writes("ada", "fine", "fine\n")
    (desk.history / digest(b"lost\n")).unlink()
    (desk.history / digest(b"damaged\n")).write_bytes(b"other")
    found = desk.diff()
    lost = "the new content is missing or damaged in the session's history"
    assert {name: change.note for name, change in found.items()} == {
        "binary": "binary: 0 bytes, then 3",
        "large": "too large to compare: 0 bytes, then 1,001",
        "empty": "empty",
        "lost": lost,
        "damaged": lost,
        "fine": "",
    }
    assert [name for name, change in found.items() if change.diff] == ["fine"]
    assert found["lost"].added is None and found["empty"].added == 0


async def test_thousands_of_different_lines_are_counted_not_compared(desk):
    (desk.work / "a").write_text("".join(f"{n}\n" for n in range(4_000)))
    desk.prompt("p")
    await desk.writes("ada", "a", "".join(f"x{n}\n" for n in range(4_001)))
    change = desk.diff()["a"]
    assert (change.added, change.removed) == (4_001, 4_000)
    assert change.diff.count("\n") == 3


async def test_one_call_is_shown_alone(desk):
    (desk.work / "a").write_text("one\n")
    desk.prompt("p")
    await desk.writes("ada", "a", "two\n")
    await desk.writes("ada", "a", "three\n")
    edits = read_journal(desk.history)
    call = edits.changes[str(desk.work / "a")][0].call
    found = newest_edit_of_call(edits, desk.history, str(desk.work), call)
    assert found is not None and "-one\n+two\n" in found.diff
    assert newest_edit_of_call(edits, desk.history, str(desk.work), "c999") is None
