"""Streamed text becomes blocks, however it is cut, and no text is lost."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teamwright.ui.display_text import cell_width, wrap_words
from teamwright.ui.terminal.markdown_stream import BlockKind, BlockStream, numbered
from tests.support.examples import examples

ANSWER = """\
# Title
One paragraph
of two lines.

- first
  more of it

  a second paragraph
- second
  - nested

1. one
1. two

```python
x = 1

y = 2
```
| a | b |
|---|---|
| 1 | 2 |

> quoted
> words

Setext
======
---
In 2019
2019. was a year
"""
ITEMS = ["item"] * 4
KINDS = ["heading", "paragraph", *ITEMS, "code", "table", "quote", "heading", "rule", "paragraph"]


def blocks(pieces):
    stream = BlockStream()
    return [block for piece in pieces for block in stream.add(piece)] + stream.end()


@pytest.mark.finding("U2")
def test_each_block_has_its_kind():
    found = blocks([ANSWER])
    assert [str(block.kind) for block in found] == KINDS
    assert [numbered(block).text for block in found if block.number] == ["1. one", "2. two"]
    code = next(block for block in found if block.kind is BlockKind.CODE)
    assert code.text == "```python\nx = 1\n\ny = 2\n```"
    assert [block.gap for block in found][:4] == [False, False, True, False]


@pytest.mark.finding("U1")
@settings(max_examples=examples(200))
@given(st.lists(st.sampled_from([*ANSWER.splitlines(keepends=True), "```\n", "\n", "a", "b ", "- c", "| d |\n"])))
def test_no_text_is_lost_and_the_cuts_of_the_stream_change_nothing(pieces):
    whole = "".join(pieces)
    found = blocks(pieces)
    assert found == blocks([whole]) == blocks(list(whole))
    lost = [line for line in whole.split("\n") if line.strip()]
    assert [line for block in found for line in block.text.split("\n") if line.strip()] == lost


@pytest.mark.finding("U1")
def test_the_open_block_is_shown_by_whole_words():
    stream = BlockStream()
    assert stream.add("one two thr") == []
    assert stream.is_open
    assert stream.open_block().text == "one two "
    assert stream.add("ee\nfour ") == []
    assert stream.open_block().text == "one two three\nfour "
    (paragraph,) = stream.add("\n\n")
    assert paragraph.text == "one two three\nfour "
    assert not stream.is_open and stream.open_block() is None


@settings(max_examples=examples(200))
@given(st.text(alphabet="ab 漢字é"), st.integers(4, 30))
def test_text_is_broken_between_words_and_fits(text, width):
    lines = wrap_words(text, width)
    assert "".join(" ".join(lines).split()) == "".join(text.split())
    longest = max(map(cell_width, text.replace("漢", " ").replace("字", " ").split()), default=0)
    assert longest + 4 > width or all(cell_width(line) <= width for line in lines if line != text)
