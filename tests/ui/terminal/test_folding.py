"""What the terminal says in its own words fits the window: lines are broken between words, never within them."""

import pytest

from teamwright.ui.display_text import cell_width, fold_lines
from teamwright.ui.terminal.keys import HELP_COLUMN, key_lines
from teamwright.ui.terminal.line_parser import COMMANDS

LISTED = [*(f"  {usage:<{HELP_COLUMN}} {about}" for usage, about in COMMANDS.items()), *(f"  {k}" for k in key_lines())]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_help_fits_the_window_and_what_is_left_of_a_line_stands_below_where_its_words_begin(width: int):
    lines = fold_lines(LISTED, width)
    assert all(cell_width(line) <= width for line in lines)
    assert " ".join(" ".join(lines).split()) == " ".join(" ".join(LISTED).split()), "no word is lost or cut"
    added = [line for line in lines if line not in LISTED and not line[2:3].strip()]
    assert len(added) == len(lines) - len(LISTED)
    assert {len(line) - len(line.lstrip()) for line in added} <= {2 + HELP_COLUMN + 1}


@pytest.mark.parametrize(
    ("line", "width", "lines"),
    [
        ("  ada is not in a turn", 80, ["  ada is not in a turn"]),
        ("  one two three four", 12, ["  one two", "    three", "    four"]),
        ("  do          did you mean ada or bob?", 30, ["  do          did you mean ada", "              or bob?"]),
        ("  a column beyond the middle   leaves no room", 34, ["  a column beyond the middle", "    leaves no room"]),
        ("  /a/path/that/is/wider/than/the/window", 20, ["  /a/path/that/is/wider/than/the/window"]),
        ("", 20, [""]),
        ("  file        /a/path/that/is/wider/than/this", 20, ["  file        /a/path/that/is/wider/than/this"]),
        ("Nothing is lost.", 1, ["Nothing", "is", "lost."]),
    ],
)
def test_a_line_is_broken_between_words_and_a_word_that_does_not_fit_stays_whole(
    line: str, width: int, lines: list[str]
):
    assert fold_lines([line], width) == lines
