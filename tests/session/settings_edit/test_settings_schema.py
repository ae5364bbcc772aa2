"""The table of keys, the schema, the defaults of the rooms and the page of the documentation say the same."""

import json
import re
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from teamwright.config.settings.files import SettingsOrigin, parse_layer
from teamwright.config.settings.keys import KEYS, NEVER_USED, NOT_USED_YET
from teamwright.config.settings.show import FIELDS, OF_MODELS, default_of, json_schema
from teamwright.hooks.hook_index import EVENTS

SCHEMA = json_schema()
CHECK = jsonschema.Draft202012Validator(SCHEMA)
PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "formats" / "settings.md").read_text()
ROWS = dict(re.findall(r"^\| `([\w.]+)` \| (.*) \|$", PAGE, re.MULTILINE))
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 50),
    st.floats(-1, 2e7).filter(lambda number: not number.is_integer()),  # 0.0 is an integer to JSON Schema
    st.sampled_from(["wait", "adaptive", "split", "lead", "high", "", "words"]),
    st.lists(st.sampled_from(["a", "b", 3]), max_size=2),
    st.dictionaries(st.sampled_from(["Stop", "a"]), st.sampled_from(["x", 3]), max_size=2),
)


def nested(key: str, value: object) -> dict:
    for part in reversed(key.split(".")):
        value = {part: value}
    assert isinstance(value, dict)
    return value


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert CHECK.is_valid({})
    assert CHECK.is_valid({"$schema": "x", "// note": 1, "limits": {"// why": "x", "members": 3}})


@pytest.mark.promise("K7")
@given(st.sampled_from(list(KEYS)), VALUES)
def test_the_schema_takes_exactly_what_a_run_takes(key, value):
    if key == "hooks" and isinstance(value, dict):
        value = {event: [] for event in value if event in EVENTS}
    assert CHECK.is_valid(nested(key, value)) == KEYS[key].fits(value)


@pytest.mark.parametrize("name", [*sorted(NOT_USED_YET | NEVER_USED), "modle", "limits.member"])
def test_what_the_schema_refuses_besides_is_what_a_run_warns_of(name):
    said = nested(name, {})
    assert not CHECK.is_valid(said)
    assert parse_layer(Path("/settings.json"), SettingsOrigin.USER, json.dumps(said)).warnings


def test_every_default_may_be_written_and_stands_in_a_room():
    assert set(KEYS) >= set(FIELDS) | OF_MODELS
    for key in KEYS:
        default = default_of(key)
        assert default is None or KEYS[key].fits(default), key


def test_a_key_that_may_be_left_out_and_decides_a_number_or_a_switch_says_its_default():
    plain = {"bool", "count", "seconds", "share"}
    without = {key for key, row in KEYS.items() if row.kind in plain and default_of(key) is None}
    others = {"enableAllProjectMcpServers", "agents.background_after_s", "stall_s"}
    assert without == {"context_tokens", "max_output_tokens", *others}


@pytest.mark.parametrize("key", list(KEYS))
def test_the_page_says_of_a_key_what_the_table_says(key):
    row, default = KEYS[key], default_of(key)
    own = "; your own files only" if row.user_only else ""
    said = f"{row.expected}{own} | {row.meaning}"
    if default is not None:
        said += f" Default `{default if isinstance(default, str) else json.dumps(default)}`."
    assert ROWS[key].startswith(said)


def test_the_page_has_no_other_key_and_keeps_the_order():
    assert list(ROWS) == list(KEYS)
