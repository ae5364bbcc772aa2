"""JSON schemas of tools that every model service takes: what a service would refuse is written otherwise, or left out.

A schema with which one service cannot work fails every request that has it. Services are stricter than JSON Schema:
llama.cpp makes a grammar of each schema, and refuses booleans in place of schemas, references that lead nowhere,
patterns without both anchors, large repetitions, and bounds that contradict each other; OpenAI refuses an array
without `items`, Gemini a required property that is not defined. What is left out is checked by the tool itself.
https://github.com/ggml-org/llama.cpp/blob/master/common/json-schema.cpp (seen 2026-11-29)
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias, cast

Schema: TypeAlias = dict[str, Any]

MAX_REPETITIONS = 1_000
"""The largest length or number of items in a schema; llama.cpp makes at most 2,000 rules of one."""

MAX_BOUND = 2**53
"""The largest number that is a bound; many JSON parsers read larger ones inexactly."""

_NAMED = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_BOOLEAN_OR_SCHEMA = frozenset({"additionalProperties", "unevaluatedProperties"})
_INNER = frozenset(
    {"contains", "contentSchema", "else", "if", "items", "not", "propertyNames", "then", "unevaluatedItems"}
    | _BOOLEAN_OR_SCHEMA
)
_RANGES = (
    ("minItems", "maxItems", MAX_REPETITIONS),
    ("minLength", "maxLength", MAX_REPETITIONS),
    ("minimum", "maximum", MAX_BOUND),
    ("exclusiveMinimum", "exclusiveMaximum", MAX_BOUND),
)
_PATTERN = re.compile(r"\^(?:[A-Za-z0-9_ |*+?-]|\((?!\?)|\)|\[[A-Za-z0-9_ .-]+\])*\$")
"""Patterns that llama.cpp can turn into a grammar. Others are words in the description."""


def portable_schema(schema: Schema) -> Schema:
    """Return the schema in a form that every service takes. `{}` accepts any value."""
    return _portable(schema, schema)


def _portable(schema: Schema, root: Schema) -> Schema:
    reference = schema.get("$ref")
    if reference is not None and not _leads_somewhere(reference, root):
        schema = {word: value for word, value in schema.items() if word != "$ref"}
    made = {word: kept for word, value in schema.items() if (kept := _keyword(word, value, root)) is not None}
    for low, high, most in _RANGES:
        _limit_range(made, low, high, most)
    if "enum" in made and not made["enum"]:
        del made["enum"]
    if made.get("type") == "array" and "items" not in made and "prefixItems" not in made:
        made["items"] = {}
    pattern = made.get("pattern")
    if isinstance(pattern, str) and not _PATTERN.fullmatch(pattern):
        del made["pattern"]
        made["description"] = f"{made.get('description', '')} (matches {pattern})".strip()
    if isinstance(made.get("required"), list):
        made["required"] = [name for name in made["required"] if name in made.get("properties", {})]
        if not made["required"]:
            del made["required"]
    return made


def _keyword(word: str, value: Any, root: Schema) -> Any:
    """Return the value of a keyword; None to leave the keyword out."""
    if word in _NAMED and isinstance(value, dict):
        parts = cast("Schema", value)
        return {name: _inner(part, root) for name, part in parts.items() if part is not False}
    if word in _LISTS and isinstance(value, list):
        return [_inner(part, root) for part in cast("list[Any]", value) if part is not False] or None
    if word in _INNER:
        if isinstance(value, bool):
            return value if word in _BOOLEAN_OR_SCHEMA else None
        return _inner(value, root)
    return value


def _inner(part: Any, root: Schema) -> Schema:
    return _portable(cast("Schema", part), root) if isinstance(part, dict) else {}


def _limit_range(schema: Schema, low: str, high: str, most: float) -> None:
    """Remove bounds that are too large, and two that contradict each other."""
    for word in (low, high):
        if isinstance(value := schema.get(word), int | float) and abs(value) > most:
            del schema[word]
    if low in schema and high in schema and schema[low] > schema[high]:
        del schema[low], schema[high]


def _leads_somewhere(reference: object, root: Schema) -> bool:
    """Return True for a reference to a schema of the same document, by plain names, that is not itself a circle."""
    seen: set[str] = set()
    while isinstance(reference, str):
        if not reference.startswith("#/") or reference in seen:
            return False
        seen.add(reference)
        target: Any = root
        for name in reference[2:].split("/"):
            if isinstance(target, dict):
                target = cast("Schema", target).get(name)
            elif isinstance(target, list) and name.isdecimal() and int(name) < len(cast("list[object]", target)):
                target = cast("list[object]", target)[int(name)]
            else:
                return False
        if not isinstance(target, dict):
            return False
        reference = cast("Schema", target).get("$ref")
    return reference is None
