"""Schemas are small, and arguments are read the way weak models write them."""

import json
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from teamwright.agent.tool import Tool, ToolResult, describe_parameters, input_schema, tool_schema, validate
from teamwright.agent.tool_input import ToolInput
from tests.support.examples import examples


class Cell(BaseModel):
    title: str
    inner: "Cell | None" = None


class EchoInput(ToolInput):
    text: str = Field(description="What to say.")
    times: int = 1
    loud: bool = False
    mood: Literal["calm", "glad"] | None = None
    names: list[str] = []
    cells: list[Cell] = []
    where: dict[str, Any] | None = None
    quiet: bool = Field(default=False, alias="-q")


class Echo(Tool[EchoInput]):
    name = "Echo"
    input_type = EchoInput

    @property
    def description(self) -> str:
        return "Says it."


def walk(node: Any):
    yield node
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from walk(child)


def test_a_schema_has_no_titles_no_references_and_no_null_branches_but_keeps_a_parameter_called_title():
    schema = tool_schema(Echo())["input_schema"]
    text = json.dumps(schema)
    assert "$ref" not in text and "$defs" not in text and '"null"' not in text and '"default": null' not in text
    assert "title" in schema["properties"]["cells"]["items"]["properties"]
    assert not [n for n in walk(schema) if isinstance(n, dict) and isinstance(n.get("title"), str)]
    assert schema["properties"]["mood"] == {"enum": ["calm", "glad"], "type": "string"}
    assert "-q" in schema["properties"] and schema["additionalProperties"] is False


def test_a_schema_is_built_once_a_class():
    assert input_schema(EchoInput) is input_schema(EchoInput)


@pytest.mark.parametrize(
    ("raw", "field", "value"),
    [
        ('{"text": "a"}', "text", "a"),
        ({"text": "a", "times": "3"}, "times", 3),
        ({"text": "a", "loud": "true"}, "loud", True),
        ({"text": 7}, "text", "7"),
        ({"text": "a", "times": None}, "times", 1),
        ({"text": "a", "mood": None}, "mood", None),
        ({"text": "a", "names": '["x", "y"]'}, "names", ["x", "y"]),
        ({"text": "a", "names": "x"}, "names", ["x"]),
        ({"text": "a", "where": '{"k": 1}'}, "where", {"k": 1}),
        ({"text": "a", "cells": {"title": "t"}}, "cells", [Cell(title="t")]),
        ({"text": "a", "-q": True}, "quiet", True),
        ('{"text": "two\nlines"}', "text", "two\nlines"),
    ],
)
def test_arguments_of_weak_models_are_read(raw, field, value):
    call = validate(Echo(), raw)
    assert isinstance(call, EchoInput), call
    assert getattr(call, field) == value


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ({}, "`text` is missing"),
        ({"txt": "a"}, "did you mean `text`?"),
        ({"text": "a", "times": "many"}, "`times`"),
        ({"text": "a", "mood": "sad"}, "calm"),
        ("hello", "must be an object"),
        ([1], "must be an object"),
        ({"text": None}, "`text`"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_parameters_that_are_allowed(raw, said):
    refusal = validate(Echo(), raw)
    assert isinstance(refusal, ToolResult) and refusal.is_error
    assert isinstance(refusal.content, str)
    assert said in refusal.content and describe_parameters(input_schema(EchoInput)) in refusal.content


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.slow
@settings(max_examples=examples(80), deadline=None)
@given(JSON | st.fixed_dictionaries({}, optional=dict.fromkeys(("text", "times", "names", "cells", "where"), JSON)))
def test_no_argument_raises(raw):
    assert isinstance(validate(Echo(), raw), EchoInput | ToolResult)
