"""Blocks as bytes: whatever a model or a tool brought, what is sent and kept is JSON."""

import json
import math
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teamwright.protocol.members import MemberState
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


def test_text_and_numbers_of_a_kind_of_their_own_are_encoded_as_what_they_are():
    class Name(str):
        __slots__ = ()

    class Count(int):
        pass

    assert (
        encode({Name("to"): Name("ann"), "n": Count(3), "event": MemberState.IDLE})
        == b'{"to":"ann","n":3,"event":"idle"}'
    )


def test_an_object_that_is_no_json_is_a_type_error():
    with pytest.raises(TypeError):
        encode({"a": object()})


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
def test_a_line_is_encoded_and_decoded_without_the_validation_library(monkeypatch):
    monkeypatch.delitem(sys.modules, "pydantic_core", raising=False)
    assert decode(encode({"a": 1e16})) == {"a": 1e16}
    assert "pydantic_core" not in sys.modules
