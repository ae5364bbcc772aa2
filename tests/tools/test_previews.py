"""What a person is shown before saying yes."""

from pathlib import Path

import pytest

from teamwright.agent.tool import ToolContext, Workplace, validate
from teamwright.tools.files.edit import Edit
from teamwright.tools.files.notebook_edit import NotebookEdit
from teamwright.tools.files.write import Write


@pytest.fixture
def ctx(tmp_path: Path) -> ToolContext:
    place = Workplace(tmp_path, lambda: (tmp_path,), tmp_path / "scratch", tmp_path / "history")
    return ToolContext("lead", place)


def shown(tool, ctx, **given):
    return tool.preview(validate(tool, given), ctx)


@pytest.mark.promise("K5")
def test_a_write_is_shown_as_the_whole_diff(ctx, tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    text = shown(Write(), ctx, file_path="a.txt", content="one\nthree\n")
    assert text.splitlines()[0] == str(tmp_path / "a.txt")
    assert "-two" in text.splitlines()
    assert "+three" in text.splitlines()
    assert (tmp_path / "a.txt").read_text() == "one\ntwo\n"


@pytest.mark.promise("K5")
def test_a_new_file_is_shown_as_new_with_all_of_its_lines(ctx, tmp_path):
    text = shown(Write(), ctx, file_path="new.txt", content="".join(f"line {n}\n" for n in range(60)))
    assert "(new file)" in text
    assert "+line 59" in text
    assert not (tmp_path / "new.txt").exists()


@pytest.mark.promise("K5")
def test_an_edit_is_shown_as_a_diff_and_one_that_cannot_be_says_why(ctx, tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    assert "+2" in shown(Edit(), ctx, file_path="a.txt", old_string="two", new_string="2").splitlines()
    assert "is not in" in shown(Edit(), ctx, file_path="a.txt", old_string="absent", new_string="2")


def test_a_notebook_is_shown_with_what_is_done_to_it(ctx, tmp_path):
    (tmp_path / "n.ipynb").write_text('{"cells": [{"cell_type": "code", "source": ["old"]}], "nbformat": 4}')
    text = shown(NotebookEdit(), ctx, notebook_path="n.ipynb", cell_id="0", new_source="new")
    assert text.startswith("replace in ")
    assert '"new"' in text


def test_bytes_that_are_no_text_are_counted(ctx, tmp_path):
    (tmp_path / "a.bin").write_bytes(b"\0\1")
    assert "not a text" in shown(Write(), ctx, file_path="a.bin", content="words")
