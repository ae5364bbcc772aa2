"""Recipes: what is read of them, what is refused and where it stands, and what is filled in."""

import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teamwright.backends.terminal_adapter import (
    InvalidAdapter,
    build_command,
    fill,
    json_contains,
    parse_adapter,
    parse_adapters,
    shipped_adapters,
)

GOOD = {"open": ["t", "{argv}"], "alive": ["t", "has", "{mark}"], "close": ["t", "close", "{id}"]}


@pytest.mark.promise("E4", "F33", "F34")
@pytest.mark.parametrize(
    ("changes", "key", "why"),
    [
        ({"open": "t {argv}"}, "mine.open", "a list of arguments, not a line for a shell"),
        ({"open": []}, "mine.open", "a list of texts"),
        ({"open": ["t", 7]}, "mine.open", "a list of texts"),
        ({"open": ["t"]}, "mine.open", "no argument names the program to start"),
        ({"open": ["t", "x{argv}"]}, "mine.open[1]", "several arguments"),
        ({"open": ["{name}", "{argv}"]}, "mine.open[0]", "a program, as it is"),
        ({"open": ["t", "{id}", "{argv}"]}, "mine.open[1]", "{id} means nothing here"),
        ({"open": ["t", "{env}", "{argv}"]}, "mine.open[1]", "{env} means nothing here"),
        ({"open": ["t", "{name:X}", "{argv}"]}, "mine.open[1]", "{name:X} means nothing here"),
        ({"open": ["t", "a\0", "{argv}"]}, "mine.open[1]", "null byte"),
        ({"close": ["t", "{argv}"]}, "mine.close[1]", "{argv} means nothing here"),
        ({"alive": ["t", "list"]}, "mine.close", "nothing identifies"),
        ({"opne": ["t"]}, "mine.opne", "no such key"),
        ({"id": "first-line"}, "mine.id", "no way to know the id"),
        ({"id": {"regex": "("}}, "mine.id.regex", "no regular expression"),
        ({"id": {"regex": "a", "json": "b"}}, "mine.id", "no way to know the id"),
        ({"id": {"text": "{id}"}}, "mine.id.text", "{id} means nothing here"),
        ({"where": {"id": 3}}, "mine.where", "an object with texts"),
        ({"where": {"id": "{nope}"}}, "mine.where.id", "{nope} means nothing here"),
        ({"env": ["A=1"]}, "mine.env", "an object with texts"),
        ({"needs": ["A B"]}, "mine.needs", "names of variables"),
        ({"start_s": 0}, "mine.start_s", "a number of seconds"),
        ({"start_s": True}, "mine.start_s", "a number of seconds"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_place(changes, key, why):
    with pytest.raises(InvalidAdapter) as raised:
        parse_adapter("mine", {**GOOD, **changes})
    assert raised.value.key == key
    assert why in raised.value.what


@pytest.mark.parametrize("key", ["open", "alive", "close"])
def test_what_a_recipe_cannot_be_without_is_named(key):
    with pytest.raises(InvalidAdapter, match=f"needs {key}"):
        parse_adapter("mine", {name: words for name, words in GOOD.items() if name != key})


@pytest.mark.promise("F33")
@pytest.mark.parametrize("name", ["auto", "in-process", "tmux", "detached", "", "A", "a b", "x" * 41, "-a"])
def test_a_name_that_is_taken_or_none_is_refused(name):
    with pytest.raises(InvalidAdapter) as raised:
        parse_adapters({name: GOOD})
    assert raised.value.key == name


def test_the_nearest_key_is_suggested_and_comments_are_left_out():
    with pytest.raises(InvalidAdapter) as raised:
        parse_adapter("mine", {**GOOD, "clos": []})
    assert raised.value.do == "did you mean close?"
    assert parse_adapter("mine", {**GOOD, "// why": "a note"}).close == ("t", "close", "{id}")
    with pytest.raises(InvalidAdapter, match="is an object"):
        parse_adapter("mine", [])


@pytest.mark.promise("E4")
@pytest.mark.parametrize(
    ("id", "told", "found"),
    [
        ("last-line", "noise\n 7 \n\n", "7"),
        ({"regex": r"pane: (\S+)"}, "hello\nnew pane: %3 made", "%3"),
        ({"regex": r"%\d+"}, "a %3 b", "%3"),
        ({"json": "0.pane.id"}, '[{"pane": {"id": 12}}]', "12"),
        ({"json": "id"}, '{"id": "a b"}', "a b"),
        ({"text": "{name}-{mark}"}, "whatever", "ada-f00"),
    ],
)
def test_the_id_is_read_in_the_way_that_the_recipe_says(id, told, found):
    assert parse_adapter("mine", {**GOOD, "id": id}).id.read(told, {"name": "ada", "mark": "f00"}) == found


@pytest.mark.promise("E4", "F32")
@pytest.mark.parametrize(
    ("id", "told"),
    [
        ("last-line", ""),
        ("last-line", "--all"),
        ("last-line", "x" * 201),
        ("last-line", "a\x1b[31m"),
        ({"regex": "pane (.+)"}, "nothing"),
        ({"regex": "pane(.*)"}, "pane"),
        ({"json": "0.id"}, "{}"),
        ({"json": "0.id"}, "no json"),
        ({"json": "0.id"}, '[{"id": null}]'),
        ({"json": "0.id"}, "[" * 100_000),
        ({"json": "id"}, '{"id": "a\\nb"}'),
        ({"json": "id"}, '{"id": "\\ud800"}'),
    ],
)
def test_output_that_names_no_id_is_told_with_what_it_was(id, told):
    with pytest.raises(ValueError, match="its output names"):
        parse_adapter("mine", {**GOOD, "id": id}).id.read(told, {})


@pytest.mark.promise("F34")
@given(st.dictionaries(st.sampled_from(["name", "id", "mark"]), st.text(max_size=20), min_size=3))
@pytest.mark.slow
def test_what_is_filled_in_is_never_read_again(values):
    assert fill("<{name}|{id}|{mark}>", values) == f"<{values['name']}|{values['id']}|{values['mark']}>"


@given(st.text(alphabet=string.printable, max_size=30))
def test_doubled_braces_are_braces(text):
    assert fill(text.replace("{", "{{").replace("}", "}}"), {}) == text


def test_argv_becomes_as_many_arguments_as_it_has():
    assert build_command(["t", "{argv}", "{id}"], {"id": "7"}, ["/p", "a b", ""]) == ["t", "/p", "a b", "", "7"]


@pytest.mark.promise("E4")
def test_a_listing_is_searched_for_one_object_that_has_it_all():
    told = json.dumps({"tabs": [{"id": 1, "panes": [{"id": 7, "tty": "/dev/pts/1", "on": True, "x": None}]}]})
    assert json_contains(told, {"id": "7", "tty": "/dev/pts/1", "on": "true", "x": "null"})
    assert not json_contains(told, {"id": "1", "tty": "/dev/pts/1"})
    assert not json_contains(told, {"id": "7", "none": ""})
    with pytest.raises(ValueError, match="nested"):
        json_contains("[" * 100_000, {})


@pytest.mark.promise("E3", "E4")
def test_the_shipped_recipes_are_whole_and_say_where_their_facts_are_from():
    adapters = shipped_adapters()
    assert set(adapters) == {"iterm2", "kitty", "screen", "wezterm", "zellij"}
    for adapter in adapters.values():
        assert all("https://" in source for source in adapter.sources) and adapter.sources
        assert adapter.variables
    assert [name for name, adapter in adapters.items() if adapter.tried] == ["screen"]
    values = {"id": "w0", "name": "ada", "mark": "f00", "tty": "/dev/ttys003", "command": "'/a b/python' -I x"}
    iterm = adapters["iterm2"]
    assert iterm.programs == ("it2",)
    assert build_command(iterm.start, values) == ["it2", "session", "run", "--session", "w0", "exec '/a b/python' -I x"]
    told = "Created new pane: 4058DAA1-B6C6-4376-B822-7A6E5EDADBB0\n"
    assert iterm.id.read(told, {}) == "4058DAA1-B6C6-4376-B822-7A6E5EDADBB0"
    assert not adapters["wezterm"].is_known_by_mark
    assert adapters["kitty"].is_known_by_mark
