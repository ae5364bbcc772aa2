"""Blocks as bytes: whatever a model or a tool brought, what is sent and kept is JSON."""

import json
import math
import sys

import pydantic_core
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from teamwright.protocol.messages import decode, encode

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def never(word: str) -> None:
    raise AssertionError(f"{word} is no JSON")


@pytest.mark.promise("F57", "P5")
@given(ANYTHING)
def test_what_is_encoded_is_json_whatever_it_holds(value):
    json.loads(encode(value).decode("utf-8"), parse_constant=never)


@pytest.mark.finding("B3")
@given(ANYTHING)
@example({"id": "f81d4fae-7d1e-4cd0-a765-1e-5a0c91e-6bf6", "cost": [-2e-7, {"a": 3e30}]})
@example([1e-05, 0.0001, 1e16, 1e15, -0.0, 2**70, '\x7f\x00\u2028/"\\', {"": ()}])
def test_the_bytes_are_the_same_before_and_after_the_fast_serializer_is_loaded(value):
    fast = encode(value)
    loaded = sys.modules.pop("pydantic_core", pydantic_core)
    try:
        plain = encode(value)
    finally:
        sys.modules["pydantic_core"] = loaded
    assert plain == fast


@pytest.mark.promise("F57")
def test_numbers_that_json_does_not_have_are_null_and_half_a_letter_is_a_question_mark():
    assert encode({"a": math.nan, "b": [-math.inf], "c": "\ud800"}) == b'{"a":null,"b":[null],"c":"?"}'


@given(ANYTHING)
def test_what_is_encoded_is_decoded_as_the_standard_library_decodes_it(value):
    line = encode(value)
    assert decode(line) == json.loads(line)


def test_a_line_that_is_nested_too_deeply_is_a_value_error():
    with pytest.raises(ValueError, match="nested too deeply"):
        decode(b"[" * 100_000 + b"]" * 100_000)


@pytest.mark.finding("B3")
def test_a_line_is_decoded_without_the_validation_library(monkeypatch):
    monkeypatch.delitem(sys.modules, "pydantic_core", raising=False)
    assert decode(b'{"a":1}') == {"a": 1}
    assert "pydantic_core" not in sys.modules


@pytest.mark.finding("B3")
def test_an_id_that_looks_like_an_exponent_does_not_load_the_fast_serializer(monkeypatch):
    monkeypatch.delitem(sys.modules, "pydantic_core", raising=False)
    assert encode({"id": "0d1e-4cd0"}) == b'{"id":"0d1e-4cd0"}'
    assert "pydantic_core" not in sys.modules
