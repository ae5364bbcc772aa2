"""Diffs in colour: whole lines, and the words that differ, in the session and in commands."""

from pathlib import Path

import pytest

from teamwright.testing.model_server_replies import Answer
from teamwright.ui.terminal.styles import MAX_BLOCK_LINES, Paint, paint_lines, styled_diff
from tests.ui.test_terminal_session import at_terminal, told

HEADS = ["--- a/x.py", "+++ b/x.py", "@@ -1,3 +1,3 @@"]
OLD, NEW = (
    "\x1b[31m-print('\x1b[0m\x1b[7;31mhello\x1b[0m\x1b[31m')",
    "\x1b[32m+print('\x1b[0m\x1b[7;32mbye\x1b[0m\x1b[32m')",
)
"""A removed line and the line that replaces it, with one word that differs."""


def painted(*lines: str, colors: bool = True) -> list[str]:
    return list(paint_lines(styled_diff([*HEADS, *lines]), Paint(colors)))[len(HEADS) :]


def test_the_words_that_differ_are_reversed_and_all_characters_stay():
    assert painted("-print('hello')", "+print('bye')") == [f"{OLD}\x1b[0m", f"{NEW}\x1b[0m"]


def test_each_removed_line_is_compared_with_the_added_line_that_replaces_it():
    shown = painted("-second = load(two)", "+import sys", "+second = load(three)")
    assert "\x1b[7;31mtwo\x1b[0m" in shown[0] and shown[1] == "\x1b[32m+import sys\x1b[0m" and "7;32mthree" in shown[2]
    assert painted("-abc def ghi", "+something else entirely here")[0] == "\x1b[31m-abc def ghi\x1b[0m"


def test_a_line_without_a_newline_at_its_end_is_compared_too():
    mark = "\\ No newline at end of file"
    shown = painted("-print('hello')", mark, "+print('bye')", mark)
    assert shown == [f"{OLD}\x1b[0m", f"\x1b[2m{mark}\x1b[0m", f"{NEW}\x1b[0m", f"\x1b[2m{mark}\x1b[0m"]


def test_a_long_block_has_whole_lines_only_and_no_colours_change_nothing():
    block = [f"-line {at} of it" for at in range(MAX_BLOCK_LINES)] + ["+line 0 of them"]
    assert not any("\x1b[7;" in line for line in painted(*block))
    assert painted("-print('hello')", "+print('bye')", colors=False) == ["-print('hello')", "+print('bye')"]


def test_lines_before_the_heads_have_no_colours():
    plan = ["- read the file", "+ and more", "@ada helps"]
    assert list(paint_lines(styled_diff(plan), Paint(True))) == plan


def edits(body: dict) -> Answer | str:
    """Change the greeting of a file."""
    calls = [b for m in body["messages"] if m["role"] == "assistant" for b in m["content"] if b["type"] == "tool_use"]
    change = {"file_path": "main.py", "old_string": "hello", "new_string": "bye"}
    steps = [Answer(tools=[("Read", {"file_path": "main.py"})]), Answer(tools=[("Edit", change)])]
    return steps[len(calls)] if len(calls) < len(steps) else f"It is changed. {len(told(body))}"


@pytest.mark.finding("U2")
def test_a_question_its_result_and_the_changes_of_a_session_mark_the_words_that_differ(repo: Path):
    with at_terminal(edits, repo) as (person, _):
        person.says("go")
        person.sees("wants to use Edit", "allow?")
        assert f"    {OLD}" in person.raw and f"    {NEW}" in person.raw
        person.raw = ""
        person.says("y")
        person.sees("It is changed.")
        assert f"  {OLD}" in person.raw and f"  {NEW}" in person.raw
        person.raw = ""
        person.says("/diff")
        person.sees("1 file, +1 -1")
        assert OLD in person.raw and NEW in person.raw


@pytest.mark.finding("U2")
@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
@pytest.mark.slow_after(1)
def test_without_colours_a_diff_is_marked_by_its_signs(repo: Path, env: dict[str, str]):
    with at_terminal(edits, repo, **env) as (person, _):
        person.says("go")
        person.sees("-print('hello')", "+print('bye')", "allow?")
        assert "\x1b[7;3" not in person.raw and "\x1b[31m" not in person.raw
