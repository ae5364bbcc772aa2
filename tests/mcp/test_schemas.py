"""Schemas of strangers: one that a service would refuse goes with every request, and would end every conversation."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from teamwright.mcp.tool_listing import clean_schema, parse_tools
from teamwright.protocol.portable_schema import portable_schema

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


@pytest.mark.parametrize(
    ("said", "made"),
    [
        ({"properties": {"value": True}, "required": ["value"]}, {"properties": {"value": {}}, "required": ["value"]}),
        ({"properties": {"never": False, "a": {"type": "any"}}}, {"properties": {"a": {}}}),
        ({"properties": {"a": {"$ref": "#/$defs/gone"}}}, {"properties": {"a": {}}}),
        ({"properties": {"a": {"$ref": "https://example.com/s.json"}}}, {"properties": {"a": {}}}),
        (
            {"$defs": {"a": {"$ref": "#/$defs/a"}}, "properties": {"b": {"$ref": "#/$defs/a"}}},
            {"properties": {"b": {}}, "$defs": {"a": {}}},
        ),
        (
            {"$ref": "#/$defs/In", "$defs": {"In": {"type": "object", "properties": {"a": {"type": "string"}}}}},
            {
                "properties": {"a": {"type": "string"}},
                "$defs": {"In": {"type": "object", "properties": {"a": {"type": "string"}}}},
            },
        ),
        (
            {"properties": {"a": {"type": "array", "items": True, "minItems": 10**9}}},
            {"properties": {"a": {"type": "array", "items": {}}}},
        ),
        (
            {"properties": {"a": {"type": "array", "items": [{"type": "string"}, True], "additionalItems": False}}},
            {"properties": {"a": {"type": "array", "prefixItems": [{"type": "string"}, {}], "additionalItems": False}}},
        ),
        (
            {"properties": {"a": {"type": "string", "minLength": 9, "maxLength": 3, "enum": []}}},
            {"properties": {"a": {"type": "string"}}},
        ),
        (
            {"properties": {"a": {"type": "string", "pattern": "\\S", "description": "A name."}}},
            {"properties": {"a": {"type": "string", "description": "A name. (matches \\S)"}}},
        ),
        (
            {"properties": {"a": {"type": "string", "pattern": "^[a-z]+$"}}},
            {"properties": {"a": {"type": "string", "pattern": "^[a-z]+$"}}},
        ),
        (
            {"properties": {"a": {"type": "object", "properties": {"b": {}}, "required": ["b", "c"]}}},
            {"properties": {"a": {"type": "object", "properties": {"b": {}}, "required": ["b"]}}},
        ),
        (
            {"properties": {"a": {"anyOf": [True, {"type": "string"}, False]}}},
            {"properties": {"a": {"anyOf": [{}, {"type": "string"}]}}},
        ),
    ],
    ids=[
        *(
            "true",
            "any and false",
            "a reference to nothing",
            "a remote reference",
            "a circle",
            "a reference at the top",
        ),
        *("a huge list", "a tuple", "bounds that contradict", "a free pattern", "a plain pattern", "required inside"),
        "booleans in a list",
    ],
)
def test_a_schema_is_brought_to_a_form_that_the_strictest_service_takes(said, made):
    assert clean_schema(said) == {"type": "object", **made}


@pytest.mark.promise("H7", "P7")
@given(st.dictionaries(st.sampled_from(WORDS), VALUES, max_size=5))
def test_no_boolean_stands_in_place_of_a_schema_and_every_reference_leads_somewhere(said):
    try:
        made = clean_schema(said)
    except ValueError:
        return
    assert portable_schema(made) == made
    for part in made["properties"].values():
        assert isinstance(part, dict)
