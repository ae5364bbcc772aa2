"""Texts of commands: what is put in stays what it is, and never becomes a shell line or a file of its own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teamwright.skills.skill_definition import (
    CommandArguments,
    UnsafeArgument,
    fill_pieces,
    fill_text,
    shell_lines,
    split_template,
)


def told(body: str, arguments: str = "", **names: str) -> list[tuple[str, str]]:
    return [(one.kind, one.text) for one in fill_pieces(split_template(body), CommandArguments.parse(arguments, names))]


@pytest.mark.promise("H4")
@pytest.mark.parametrize(
    ("body", "arguments", "text"),
    [
        ("Fix $ARGUMENTS.", "the bug", "Fix the bug."),
        ("$2 before $1", "one 'two words'", "two words before one"),
        ("[$3]", "one", "[]"),
        ("$ARGUMENTS[0]/$ARGUMENTS[1]", "a b", "a/b"),
        (r"costs \$5 and \$ARGUMENTS", "x", "costs $5 and $ARGUMENTS\n\nArguments: x"),
        ("No place.", "x y", "No place.\n\nArguments: x y"),
        ("No place.", "", "No place."),
        ("$10 $1", "a", "$10 a"),
        ("it's $1", "'open quote", "it's 'open"),
        ("$1", "$2 b", "$2"),
    ],
)
def test_arguments_stand_where_they_belong(body, arguments, text):
    assert fill_text(body, CommandArguments.parse(arguments)) == text


@pytest.mark.promise("H4")
def test_shell_lines_and_files_are_found_outside_code_only():
    body = "See @a.py\n!`git log`\nnot!`this` `!`nor` @b\n```sh\n!`nor this` @c\n```\n```!\nls\npwd\n```\nmail@d.org"
    assert shell_lines(body) == ["git log", "ls\npwd"]
    assert [text for kind, text in told(body) if kind == "file"] == ["a.py", "b"]


@pytest.mark.promise("H4")
@given(st.text(max_size=80))
def test_an_argument_never_adds_a_shell_line_or_a_file(arguments):
    body = "Do $ARGUMENTS and $1\n!`git status`\n@a.py"
    kinds = [kind for kind, _ in told(body, arguments)]
    assert (kinds.count("shell"), kinds.count("file")) == (1, 1)
    assert ("shell", "git status") in told(body, arguments)


@pytest.mark.promise("H4")
@pytest.mark.parametrize("argument", ["a;b", "$(id)", "`id`", "a|b", "'a b'", "a>b", "~", "a\nb", "#1", "a&b", "*"])
def test_a_shell_line_takes_plain_words_only(argument):
    parts = split_template("!`git log $ARGUMENTS`")
    with pytest.raises(UnsafeArgument):
        fill_pieces(parts, CommandArguments.parse(argument))
    assert (
        fill_pieces(split_template("!`git log $1`"), CommandArguments.parse("main..topic-1"))[0].text
        == "git log main..topic-1"
    )


@pytest.mark.promise("H4")
@given(st.text(max_size=300))
def test_any_text_is_cut_into_what_it_is(body):
    assert all(piece.text for piece in split_template(body))
