"""Lines of keys and items in a JSON text, whatever it holds."""

import json

from hypothesis import given
from hypothesis import strategies as st

from teamwright.config.settings.files import find_positions

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


def ways(value, above=()):
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*above, key), inner
        yield from ways(inner, (*above, key))


@given(JSON, st.sampled_from([None, 0, 2]))
def test_every_key_and_item_is_found_in_its_line(value, indent):
    text = json.dumps(value, indent=indent)
    lines, found = text.split("\n"), find_positions(text)
    for way, inner in ways(value):
        line = lines[found.line(*way) - 1]
        start = json.dumps(way[-1]) if isinstance(way[-1], str) else json.dumps(inner, indent=indent).split("\n")[0]
        assert start in line


def test_a_key_that_stands_there_twice_is_found_at_its_first_place():
    found = find_positions('{\n"a": {"b": 1},\n"c": 2,\n"a": {"b": 3}\n}')
    assert found.twice == ((("a",), 2),)
    assert found.line("a", "b") == 4


@given(st.text())
def test_of_a_text_that_is_no_json_nothing_is_known(text):
    assert find_positions(f"[{text}{{").line("a") == 0


def test_what_is_not_there_has_the_line_of_what_holds_it():
    found = find_positions('{\n"a": {\n"b": 1}}')
    assert found.line("a", "x", "y") == 2
    assert found.line("z") == 1
