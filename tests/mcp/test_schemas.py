"""Schemas of strangers: one that a service would refuse goes with every request, and would end every conversation."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from teamwright.mcp.tool_listing import clean_schema, parse_tools

WORDS = (
    *("type", "properties", "required", "items", "enum", "const", "default", "anyOf", "allOf", "not", "pattern"),
    *("minimum", "maxLength", "multipleOf", "exclusiveMinimum", "additionalProperties", "prefixItems", "$ref"),
    *("$defs", "definitions", "dependentRequired", "dependencies", "dependentSchemas", "patternProperties", "$anchor"),
    *("description", "deprecated", "uniqueItems", "contains", "format", "$vocabulary", "if", "a", "b"),
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["object", "string", "banana", "", "a", "#/$defs/a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.promise("H7", "P7")
@given(st.dictionaries(st.sampled_from(WORDS), VALUES, max_size=5))
def test_whatever_a_server_says_is_json_schema_afterwards_or_refused(said):
    try:
        made = clean_schema(said)
    except ValueError:
        return
    Draft202012Validator.check_schema(made)
    json.dumps(made, allow_nan=False)


@pytest.mark.promise("H7", "P7")
def test_what_is_no_schema_is_left_out_and_the_rest_stays():
    said = {
        "type": "object",
        "properties": {
            "a": {"type": "banana", "description": "A fruit.", "default": math.nan, "maximum": math.inf},
            "b": 7,
            "c": {"type": "array", "items": [{"type": "string"}], "minItems": -1},
            "d": {"type": "number", "exclusiveMinimum": True, "minimum": 10**400, "default": [10**400]},
        },
        "required": ["a", "z"],
        "additionalProperties": False,
    }
    [tool], refused = parse_tools("s", [{"name": "t", "inputSchema": said}])
    assert not refused
    assert tool.schema == {
        "type": "object",
        "properties": {
            "a": {"description": "A fruit."},
            "b": {},
            "c": {"type": "array", "prefixItems": [{"type": "string"}]},
            "d": {"type": "number"},
        },
        "required": ["a"],
        "additionalProperties": False,
    }
