"""Markdown of agents as lines of a terminal, with and without colours, and raw where it was asked for."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teamwright.ui.display_text import cell_width
from teamwright.ui.terminal.markdown import MarkdownRenderer
from teamwright.ui.terminal.markdown_stream import BlockStream
from tests.support.examples import examples
from tests.ui.test_terminal_session import at_terminal

ANSWER = """\
# Result

It **works** with `make` and List<str>, see [the page](https://example.org/a).

- first
  - nested
- second

1. one
1. two

| test | result |
|------|-------:|
| unit | 12 |

```python
def double(x):
    return x * 2
```

> quoted
"""


def lines(text: str, width: int = 60, *, colors: bool = False) -> list[str]:
    stream, render = BlockStream(), MarkdownRenderer(colors=colors)
    return [line for block in [*stream.add(text), *stream.end()] for line in render(block, width)]


@pytest.mark.finding("U2")
def test_markdown_without_colours_keeps_the_marks_that_nothing_else_shows():
    assert lines(ANSWER) == [
        "# Result",
        "It **works** with `make` and List<str>, see the page",
        "(https://example.org/a).",
        " • first",
        "    • nested",
        " • second",
        " 1. one",
        " 2. two",
        "test   result",
        "─────────────",
        "unit       12",
        "  def double(x):",
        "      return x * 2",
        "▌ quoted",
    ]


@pytest.mark.finding("U2")
def test_markdown_with_colours_has_no_marks():
    shown = "\n".join(lines(ANSWER, colors=True))
    assert "\x1b[1;4mResult\x1b[0m" in shown
    assert "\x1b[1mworks\x1b[0m" in shown and "\x1b[36mmake\x1b[0m" in shown
    assert "**" not in shown and "`" not in shown and "\x1b]8" not in shown
    assert "\x1b[94mdef\x1b[0m" in shown


@pytest.mark.finding("U2")
def test_a_table_that_does_not_fit_is_a_list():
    table = f"| name | text | more |\n|---|---|---|\n| a | {'word ' * 12}| |\n| b | c | d |"
    assert lines(table, 40) == [
        " • a",
        "   text: word word word word word word",
        "   word word word word word word",
        " • b",
        "   text: c",
        "   more: d",
    ]


@pytest.mark.finding("U2")
@pytest.mark.parametrize("colors", [False, True])
def test_no_control_character_comes_out_of_markdown(colors):
    text = "a &#27;[2J &#x202e; [x](https://e.org/%1b&#7;) ![i](y) \x1b[2J\n\n```\x1b]0;t\x07\n\x1b[2J\n```\n"
    shown = "\n".join(lines(text, colors=colors))
    assert all(part.partition("m")[0].replace(";", "").isdigit() for part in shown.split("\x1b[")[1:])
    assert not set(shown.replace("\x1b[", "")) & set("\x1b\x07\u202e")


@pytest.mark.finding("U2")
@settings(max_examples=examples(200), deadline=None)
@given(st.text(alphabet="ab*_`[]()<>|#-1. \n~!漢&;", max_size=60), st.integers(24, 60))
def test_no_word_is_lost_and_nothing_fails(text, width):
    shown = lines(text, width)
    for letter in "漢a":
        assert "".join(shown).count(letter) == text.count(letter) or "](" in text or "```" in text or "~~~" in text
    fences = "`" in text or "~" in text
    assert fences or "](" in text or all(cell_width(line) <= width for line in shown)


@pytest.mark.finding("U2")
@pytest.mark.slow
def test_a_terminal_shows_markdown_and_the_flag_shows_it_raw(repo, tmp_path):
    with at_terminal(lambda _body: ANSWER, repo, HOME=str(tmp_path / "home")) as (person, _):
        person.says("go")
        person.sees("\nResult\n\nIt works with make", " • first", "unit       12", "  def double(x):", "▌ quoted")
    with at_terminal(lambda _body: ANSWER, repo, "--no-markdown", HOME=str(tmp_path / "raw")) as (person, _):
        person.says("go")
        person.sees("\n# Result\n\nIt **works**", "| unit | 12 |", "```python", "> quoted")
    with at_terminal(lambda _body: ANSWER, repo, NO_COLOR="1", HOME=str(tmp_path / "plain")) as (person, _):
        person.says("go")
        person.sees("\n# Result\n\nIt **works**", " • first", "unit       12")
        assert "\x1b[1m" not in person.raw
