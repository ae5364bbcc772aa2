"""Write, Edit and NotebookEdit: what they keep, what they refuse, and that no change of another agent is lost."""

import asyncio
import json
import multiprocessing
import os
import signal
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teamwright.agent.tool import ToolContext, Workplace
from teamwright.storage.json_lines import read_lines
from teamwright.tools.files.edit import Edit, EditInput
from teamwright.tools.files.edit_journal_writer import digest
from teamwright.tools.files.file_change import decode, unified_diff
from teamwright.tools.files.notebook_edit import NotebookEdit, NotebookEditInput
from teamwright.tools.files.read import Read, ReadInput
from teamwright.tools.files.write import Write, WriteInput
from tests.support.examples import examples
from tests.support.waits import WAIT_S


async def read(ctx, path):
    return await Read().run(ReadInput(file_path=str(path)), ctx)


async def write(ctx, path, content):
    return await Write().run(WriteInput(file_path=str(path), content=content), ctx)


async def edit(ctx, path, old, new, **more):
    return await Edit().run(EditInput(file_path=str(path), old_string=old, new_string=new, **more), ctx)


def journal(ctx):
    return [json.loads(line) for line in read_lines(ctx.workplace.edit_history / "edits.jsonl")]


@pytest.mark.promise("H2")
async def test_a_new_file_is_written_with_its_directories_and_read_back(ctx, work):
    result = await write(ctx, "a/b/new.txt", "one\ntwo\n")
    assert not result.is_error and (work / "a/b/new.txt").read_text() == "one\ntwo\n"
    assert result.facts["path"] == str(work / "a/b/new.txt") and "+one" in result.facts["diff"]
    assert (await edit(ctx, "a/b/new.txt", "two", "2")).is_error is False
    assert sorted(os.listdir(work / "a/b")) == ["new.txt"]


async def test_a_new_file_has_the_mode_of_the_umask(ctx, work):
    former = os.umask(0o027)
    try:
        await write(ctx, "new", "x")
    finally:
        os.umask(former)
    assert stat.S_IMODE((work / "new").stat().st_mode) == 0o640


@pytest.mark.promise("H2", "P5")
async def test_a_file_that_was_not_read_is_neither_written_nor_edited(ctx, work):
    (work / "f").write_text("theirs")
    for result in (await write(ctx, "f", "mine"), await edit(ctx, "f", "theirs", "mine")):
        assert result.is_error and "not read" in result.content
    assert (work / "f").read_text() == "theirs" and not ctx.workplace.edit_history.exists()


@pytest.mark.promise("F53", "H2", "P5")
async def test_a_teammates_change_is_a_conflict_that_names_him_and_shows_it(ctx, other, work):
    (work / "f.py").write_text("one\ntwo\nthree\n")
    await read(ctx, "f.py")
    await read(other, "f.py")
    assert not (await edit(other, "f.py", "two", "TWO")).is_error
    for result in (await edit(ctx, "f.py", "three", "3"), await write(ctx, "f.py", "all mine\n")):
        assert result.is_error and "bob changed it" in result.content
        assert "-two" in result.content and "+TWO" in result.content
        assert result.facts["conflict"]["by"] == "bob"
    assert (work / "f.py").read_text() == "one\nTWO\nthree\n"
    await read(ctx, "f.py")
    assert not (await edit(ctx, "f.py", "three", "3")).is_error
    assert (work / "f.py").read_text() == "one\nTWO\n3\n"


@pytest.mark.promise("F53")
async def test_a_change_from_outside_is_a_conflict_and_a_mere_touch_is_none(ctx, work):
    file = work / "f"
    file.write_text("one")
    await read(ctx, "f")
    os.utime(file, ns=(1, 1))
    assert not (await edit(ctx, "f", "one", "two")).is_error
    file.write_text("outside")
    result = await edit(ctx, "f", "outside", "three")
    assert result.is_error and "outside the team" in result.content and file.read_text() == "outside"


@pytest.mark.promise("F53")
async def test_of_agents_that_race_from_the_same_reading_exactly_one_wins(ctx, tmp_path, work):
    (work / "f").write_text("start")
    contexts = []
    for n in range(12):
        place = Workplace(
            work, lambda: (work,), tmp_path, ctx.workplace.edit_history, last_writers=ctx.workplace.last_writers
        )
        contexts.append(ToolContext(f"m{n}", place, f"c{n}"))
    for one in contexts:
        await read(one, "f")
    results = await asyncio.gather(*(write(one, "f", f"by {one.member}") for one in contexts))
    winners = [one.member for one, result in zip(contexts, results, strict=True) if not result.is_error]
    assert len(winners) == 1 and (work / "f").read_text() == f"by {winners[0]}"


def count_up(work: str, history: str, name: str, times: int) -> None:
    """One process that adds to a number in a file by Read and Edit, trying again after each conflict."""

    async def main() -> None:
        place = Workplace(Path(work), lambda: (Path(work),), Path(history), Path(history))
        ctx = ToolContext(name, place, "c1")
        done = 0
        while done < times:
            now = (await read(ctx, "n")).content.split("\t")[1]
            done += not (await edit(ctx, "n", now, str(int(now) + 1))).is_error

    asyncio.run(main())


@pytest.mark.slow
@pytest.mark.promise("F53", "P5")
def test_no_update_is_lost_between_processes(work, tmp_path):
    (work / "n").write_text("0")
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=count_up, args=(str(work), str(tmp_path / "h"), f"p{n}", 60)) for n in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(WAIT_S)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert (work / "n").read_text() == "180"
    lines = [json.loads(line) for line in read_lines(tmp_path / "h" / "edits.jsonl")]
    assert sorted(int((tmp_path / "h" / line["after"]).read_text()) for line in lines) == list(range(1, 181))


def rewrite_for_ever(work: str, history: str) -> None:
    async def main() -> None:
        ctx = ToolContext("ada", Workplace(Path(work), lambda: (Path(work),), Path(history), Path(history)), "c1")
        await read(ctx, "f")
        n = 0
        while True:
            n += 1
            await write(ctx, "f", f"{n}\n" * 30_000)

    asyncio.run(main())


@pytest.mark.slow
@pytest.mark.promise("P5")
def test_a_kill_at_any_moment_leaves_an_old_or_a_new_file_and_the_former_one_can_be_found(work, tmp_path):
    history = tmp_path / "h"
    spawn = multiprocessing.get_context("spawn")
    for life in range(4):
        (work / "f").write_text("0\n" * 30_000)
        worker = spawn.Process(target=rewrite_for_ever, args=(str(work), str(history)))
        worker.start()
        changes = len(os.listdir(history)) if history.exists() else 0
        while not history.exists() or len(os.listdir(history)) < changes + 3 + 2 * life:
            worker.join(0.002)
        os.kill(worker.pid or 0, signal.SIGKILL)
        worker.join(WAIT_S)
        lines = (work / "f").read_text().split("\n")
        assert len(lines) == 30_001 and len(set(lines[:-1])) == 1
        assert lines[0] == "0" or (history / digest((work / "f").read_bytes())).exists()


@pytest.mark.promise("P5", "F66")
async def test_former_and_new_contents_are_kept_by_hash_in_private_files_with_a_journal(ctx, work):
    (work / "f").write_text("old")
    await read(ctx, "f")
    await edit(ctx, "f", "old", "new")
    await write(ctx, "g", "fresh")
    history = ctx.workplace.edit_history
    first, second = journal(ctx)
    assert (first["member"], first["path"], first["call"]) == ("ada", str(work / "f"), "c1")
    assert (history / first["before"]).read_text() == "old" and (history / first["after"]).read_text() == "new"
    assert second["before"] is None and (history / second["after"]).read_text() == "fresh"
    assert {stat.S_IMODE(file.stat().st_mode) for file in history.iterdir()} == {0o600}
    assert stat.S_IMODE(history.stat().st_mode) == 0o700


async def test_mode_link_line_ends_byte_order_mark_and_missing_last_newline_survive(ctx, work):
    target = work / "target.sh"
    target.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\nthree")
    target.chmod(0o751)
    (work / "link").symlink_to("target.sh")
    await read(ctx, "link")
    assert not (await edit(ctx, "link", "one\ntwo", "1\n2\n2b")).is_error
    assert target.read_bytes() == b"\xef\xbb\xbf1\r\n2\r\n2b\r\nthree"
    assert (work / "link").is_symlink() and stat.S_IMODE(target.stat().st_mode) == 0o751
    assert not (await write(ctx, "link", "a\nb\n")).is_error
    assert target.read_bytes() == b"\xef\xbb\xbfa\r\nb\r\n" and (work / "link").is_symlink()


async def test_bytes_that_are_no_utf_8_and_mixed_line_ends_survive_an_edit_elsewhere(ctx, work):
    content = b"caf\xe9\r\nkeep\nlast \xff\r\n"
    (work / "f").write_bytes(content)
    await read(ctx, "f")
    assert not (await edit(ctx, "f", "keep", "kept")).is_error
    assert (work / "f").read_bytes() == content.replace(b"keep", b"kept")


async def test_utf_16_is_edited_as_utf_16_and_binary_is_refused(ctx, work):
    (work / "w.txt").write_bytes("\ufeffhallo\r\nwelt\r\n".encode("utf-16-le"))
    assert "welt" in (await read(ctx, "w.txt")).content
    assert not (await edit(ctx, "w.txt", "hallo\nwelt", "hello\nworld")).is_error
    assert (work / "w.txt").read_bytes() == "\ufeffhello\r\nworld\r\n".encode("utf-16-le")
    (work / "b").write_bytes(b"\x7fELF\0\0\1")
    ctx.workplace.note_seen(work / "b", b"\x7fELF\0\0\1")
    assert (await edit(ctx, "b", "ELF", "elf")).is_error and (work / "b").read_bytes() == b"\x7fELF\0\0\1"


async def test_several_places_need_more_text_or_replace_all(ctx, work):
    (work / "f").write_text("x = 1\ny = 2\nx = 1\n")
    await read(ctx, "f")
    result = await edit(ctx, "f", "x = 1", "x = 3")
    assert result.is_error and "2 times (lines 1, 3)" in result.content
    assert not (await edit(ctx, "f", "x = 1", "x = 3", replace_all=True)).is_error
    assert (work / "f").read_text() == "x = 3\ny = 2\nx = 3\n"


async def test_text_that_is_not_there_is_answered_with_the_nearest_text(ctx, work):
    (work / "f.py").write_text("import os\n\ndef walk(a):\n\treturn a\n")
    await read(ctx, "f.py")
    result = await edit(ctx, "f.py", "def walk(a):\n    return a", "pass")
    assert result.is_error and "     3\tdef walk(a):\n     4\t\treturn a" in result.content
    assert "exactly" in (await edit(ctx, "f.py", "nothing like it at all", "x")).content
    assert (await edit(ctx, "f.py", "same", "same")).is_error


async def test_line_numbers_that_were_copied_from_read_are_left_out(ctx, work):
    (work / "f").write_text("  a\n  b\nc\n")
    await read(ctx, "f")
    assert not (await edit(ctx, "f", "     1\t  a\n     2\t  b", "     1\t  A\n     2\t  B")).is_error
    assert (work / "f").read_text() == "  A\n  B\nc\n"


async def test_an_edit_with_nothing_to_replace_makes_a_new_file_and_never_empties_an_old_one(ctx, work):
    assert not (await edit(ctx, "new", "", "text")).is_error and (work / "new").read_text() == "text"
    assert (await edit(ctx, "new", "", "other")).is_error and (work / "new").read_text() == "text"
    assert "no file" in (await edit(ctx, "missing", "a", "b")).content


async def test_a_write_of_the_same_content_changes_nothing(ctx, work):
    await write(ctx, "f", "same")
    before = (work / "f").stat()
    result = await write(ctx, "f", "same")
    assert not result.is_error and "already" in result.content
    assert (work / "f").stat().st_ino == before.st_ino and len(journal(ctx)) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
async def test_a_read_only_file_is_left_alone(ctx, work):
    (work / "f").write_text("x")
    (work / "f").chmod(0o444)
    await read(ctx, "f")
    assert "read-only" in (await edit(ctx, "f", "x", "y")).content and (work / "f").read_text() == "x"


async def test_pipes_devices_and_directories_are_refused_without_waiting(ctx, work):
    os.mkfifo(work / "pipe")
    (work / "dir").mkdir()
    async with asyncio.timeout(WAIT_S):
        for name in ("pipe", "dir", "/dev/zero"):
            assert (await write(ctx, name, "x")).is_error and (await read(ctx, name)).is_error


async def test_a_file_that_another_program_has_locked_is_not_waited_for_for_ever(ctx, work, monkeypatch):
    import fcntl

    monkeypatch.setattr("teamwright.tools.files.file_change.LOCK_TIMEOUT_S", 0.05)
    (work / "f").write_text("x")
    await read(ctx, "f")
    with open(work / "f") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert "locked" in (await edit(ctx, "f", "x", "y")).content
    assert not (await edit(ctx, "f", "x", "y")).is_error


async def test_a_large_file_is_edited_too(ctx, work):
    (work / "big").write_text("line\n" * 200_000 + "end\n")
    await read(ctx, "big")
    result = await edit(ctx, "big", "end", "END")
    assert not result.is_error and "line 200001" in result.content and result.brief == "+1 -1"
    assert (work / "big").read_text().endswith("line\nEND\n")


NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "id": "intro", "metadata": {}, "source": ["# Title\n", "text"]},
        {
            "cell_type": "code",
            "id": "one",
            "metadata": {},
            "execution_count": 3,
            "source": ["print(1)"],
            "outputs": [{"output_type": "stream", "name": "stdout", "text": ["1\n"]}],
        },
    ],
    "metadata": {},
    "nbformat": 4,
    "nbformat_minor": 5,
}


@pytest.fixture
def book(work):
    file = work / "b.ipynb"
    file.write_text(json.dumps(NOTEBOOK, indent=1) + "\n")
    return file


async def cell(ctx, **more):
    return await NotebookEdit().run(NotebookEditInput(notebook_path="b.ipynb", **more), ctx)


async def test_cells_are_replaced_inserted_and_deleted_and_the_rest_stays_byte_for_byte(ctx, book):
    shown = await read(ctx, "b.ipynb")
    assert 'id="one"' in shown.content and "<output 1>\n1\n</output>" in shown.content
    await cell(ctx, cell_id="one", new_source="a = 1\nb = 2")
    now = json.loads(book.read_text())["cells"][1]
    assert now["source"] == ["a = 1\n", "b = 2"] and now["outputs"] == [] and now["execution_count"] is None
    await cell(ctx, cell_id="intro", new_source="new", edit_mode="insert", cell_type="markdown")
    await cell(ctx, new_source="first", edit_mode="insert")
    cells = json.loads(book.read_text())["cells"]
    assert [c["source"] for c in cells] == [["first"], ["# Title\n", "text"], ["new"], ["a = 1\n", "b = 2"]]
    assert len({c["id"] for c in cells}) == 4
    await cell(ctx, cell_id="0", edit_mode="delete")
    await cell(ctx, cell_id="cell-1", edit_mode="delete")
    await cell(ctx, cell_id="one", edit_mode="delete")
    assert json.loads(book.read_text())["cells"] == NOTEBOOK["cells"][:1]


@pytest.mark.parametrize("indent", [1, 4, None])
async def test_a_cell_put_in_and_taken_out_leaves_the_notebook_as_it_was(ctx, book, indent):
    book.write_text(json.dumps(NOTEBOOK, indent=indent, ensure_ascii=False) + ("\n" if indent else ""))
    former = book.read_bytes()
    await read(ctx, "b.ipynb")
    await cell(ctx, new_source="first", edit_mode="insert")
    assert book.read_bytes() != former
    await cell(ctx, cell_id="0", edit_mode="delete")
    assert book.read_bytes() == former


async def test_a_notebook_is_refused_when_stale_unknown_or_no_notebook(ctx, book, work):
    await read(ctx, "b.ipynb")
    assert "no cell 'nope'" in (await cell(ctx, cell_id="nope", new_source="x")).content
    assert (await cell(ctx, new_source="x")).is_error
    book.write_text("{}")
    assert "Conflict" in (await cell(ctx, cell_id="one", new_source="x")).content
    await read(ctx, "b.ipynb")
    assert "no notebook" in (await cell(ctx, cell_id="one", new_source="x")).content
    (work / "x.py").write_text("")
    assert (await NotebookEdit().run(NotebookEditInput(notebook_path="x.py", cell_id="0"), ctx)).is_error


async def test_tools_state_what_they_touch(ctx, work):
    assert Write().access(WriteInput(file_path="a", content=""), ctx).writes == (work / "a",)
    assert Edit().access(EditInput(file_path="../b", old_string="", new_string=""), ctx).writes == (work.parent / "b",)
    assert NotebookEdit().access(NotebookEditInput(notebook_path="/c"), ctx).writes == (Path("/c"),)
    assert Read().access(ReadInput(file_path="a"), ctx).reads == (work / "a",)


@settings(max_examples=examples(120), deadline=None)
@given(st.binary(max_size=60) | st.text("ab\r\n\ufeffé", max_size=20).map(str.encode))
def test_any_bytes_but_broken_utf_16_come_back_as_they_were(content):
    if not content.startswith((b"\xff\xfe", b"\xfe\xff")):
        assert decode(content).encode() == content


LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n", "x\u2028y\n"]), max_size=14)


@settings(max_examples=examples(120), deadline=None)
@given(LINES, LINES, st.sampled_from(["", "end"]))
def test_a_diff_applied_by_patch_rules_gives_the_new_text(one, other, end):
    before, after = "".join(one) + end, "".join(other)
    assert apply(before, unified_diff("f", before, after)) == after


def apply(before: str, diff: str) -> str:
    """What `patch` does, for diffs that fit exactly."""
    if not diff:
        return before
    old = before.split("\n")
    made, at = [], 0
    lines = diff.split("\n")[2:-1]
    for n, line in enumerate(lines):
        bare = n + 1 < len(lines) and lines[n + 1].startswith("\\")
        text = line[1:] + ("" if bare else "\n")
        if line.startswith("@@"):
            start, _, size = line.split()[1][1:].partition(",")
            begin = int(start) - (size != "0")
            made += [f"{kept}\n" for kept in old[at:begin]]
            at = begin
        elif line.startswith((" ", "-")):
            assert old[at] == line[1:]
            at += 1
        if line.startswith((" ", "+")):
            made.append(text)
    rest = "\n".join(old[at:])
    return "".join(made) + rest


@pytest.mark.finding("3F9")
@pytest.mark.parametrize("indent", ["\t", 1, 4, None, "compact"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("letters", ["é", "\\u00e9"])
async def test_a_notebook_keeps_each_byte_outside_of_the_cell(ctx, book, indent, line_end, letters):
    document = {**NOTEBOOK, "metadata": {"title": "LETTERS", "odd": 1.50e3}}
    shape = {"separators": (",", ":")} if indent == "compact" else {"indent": indent}
    text = json.dumps(document, **shape).replace("LETTERS", letters).replace("1500.0", "1.50e3")
    former = b"\xef\xbb\xbf" + text.replace("\n", line_end).encode()
    book.write_bytes(former)
    await read(ctx, "b.ipynb")
    assert not (await cell(ctx, cell_id="intro", new_source="# Other\ntext")).is_error
    assert book.read_bytes().replace(b"# Other", b"# Title") == former
    assert not (await cell(ctx, cell_id="one", edit_mode="delete")).is_error
    assert not (await cell(ctx, cell_id="intro", edit_mode="insert", new_source="é = 1")).is_error
    now = book.read_bytes()
    assert now.startswith(b"\xef\xbb\xbf{")
    assert now[-40:] == former[-40:]
    assert json.loads(now.decode("utf-8-sig"))["cells"][1]["source"] == ["é = 1"]
    assert ("é = 1".encode() in now) == (letters == "é")


@pytest.mark.finding("3F11")
@pytest.mark.parametrize(
    ("there", "given", "named"),
    [
        ("a\u00a0= 1", "a = 1", "U+0020 (SPACE); the file has U+00A0 (NO-BREAK SPACE)"),
        ("say \u201chi\u201d", 'say "hi"', "U+0022 (QUOTATION MARK); the file has U+201C"),
        (
            "the cafe\u0301 is open",
            "the caf\u00e9 is open",
            "U+00E9 (LATIN SMALL LETTER E WITH ACUTE); the file has U+0065",
        ),
        ("a \u2013 b", "a - b", "U+002D (HYPHEN-MINUS); the file has U+2013 (EN DASH)"),
        ("cafe\u0301", "caf\u00e9", "U+00E9 (LATIN SMALL LETTER E WITH ACUTE); the file has U+0065"),
        ("x = call(a\u00a0b, 'and much more text after it')", "(a b,", "U+0020 (SPACE); the file has U+00A0"),
        ("print(\u201chi\u201d)  # say hi", '    print("hi")', "U+0022 (QUOTATION MARK); the file has U+201C"),
    ],
)
async def test_an_edit_names_the_character_that_only_looks_alike(ctx, work, there, given, named):
    (work / "f").write_text(f"one\n{there}\n")
    await read(ctx, "f")
    assert f"Line 1 of old_string has {named}" in (await edit(ctx, "f", given, "x")).content
    for other in ("nothing like it", "\ufb01", "i\u0301", "ix"):
        assert "looks alike" not in (await edit(ctx, "f", other, "x")).content


@pytest.mark.finding("3F11")
async def test_an_edit_of_a_part_of_a_letter_or_of_an_endless_line_is_only_not_found(ctx, work):
    (work / "f").write_text("\ufb01x " + "a\u00a0b " * 500_000)
    await read(ctx, "f")
    for written in ("ix", "a b a"):
        said = (await edit(ctx, "f", written, "x")).content
        assert "is not in" in said and len(said) < 3_000


@pytest.mark.finding("3F11")
async def test_a_change_of_a_missing_file_names_the_one_that_is_written_otherwise(ctx, work, book):
    (work / "caf\u00e9.md").write_text("x\n")
    for written in ("cafe\u0301.md", "Caf\u00e9.md"):
        assert f"Did you mean {work}/caf\u00e9.md?" in (await edit(ctx, written, "x", "y")).content
    assert "create it with Write" in (await edit(ctx, "nothing-like-it", "x", "y")).content
    done = await NotebookEdit().run(NotebookEditInput(notebook_path="B.ipynb", cell_id="one", new_source="x"), ctx)
    assert f"Did you mean {book}?" in done.content
