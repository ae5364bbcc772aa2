"""The declarations of settings, the schema and the page of the documentation say the same."""

import json
import re
from collections import Counter
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from teamwright.config.settings.files import SettingsOrigin, parse_layer
from teamwright.config.settings.keys import NEVER_USED, NOT_USED_YET, setting_keys
from teamwright.config.settings.show import json_schema
from teamwright.hooks.hook_definitions import EVENTS

KEYS = setting_keys()
SCHEMA = json_schema()
CHECK = jsonschema.Draft202012Validator(SCHEMA)
SOURCES = list((Path(__file__).parents[3] / "src").rglob("*.py"))
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


def test_every_default_may_be_written():
    for key, row in KEYS.items():
        assert row.default is None or row.fits(row.default), key


def test_no_two_fields_have_the_same_key():
    names = Counter(name for file in SOURCES for name in re.findall(r'\bSetting\(\s*"([\w.]+)"', file.read_text()))
    assert names.total() == len(names)
    assert set(names) == set(KEYS)


def test_a_key_that_may_be_left_out_and_decides_a_number_or_a_switch_says_its_default():
    plain = {"true or false", "a whole number from 0 on", "a number of seconds above 0", "a number from 0.1 to 0.95"}
    without = {key for key, row in KEYS.items() if row.expected in plain and row.default is None}
    others = {"enableAllProjectMcpServers", "agents.background_after_s", "stall_s"}
    assert without == {"context_tokens", "max_output_tokens", *others}


@pytest.mark.parametrize("key", list(KEYS))
def test_the_page_says_of_a_key_what_the_table_says(key):
    row = KEYS[key]
    default = row.default
    own = "; your own files only" if row.user_only else ""
    said = f"{row.expected}{own} | {row.meaning}"
    if default is not None:
        said += f" Default `{default if isinstance(default, str) else json.dumps(default)}`."
    assert ROWS[key].startswith(said)


def test_the_page_has_no_other_key_and_keeps_the_order():
    assert list(ROWS) == list(KEYS)
