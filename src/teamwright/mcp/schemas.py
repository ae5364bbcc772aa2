"""The schema of a tool's input as services of models take it: what is no JSON Schema is left out, keyword by keyword.

A service refuses a whole request for one bad schema in it, and the list of tools goes with every request: a server must
not end the conversations of all. What is left out only tells the model less; the server checks its input itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

Schema: TypeAlias = dict[str, Any]

MOST_SCHEMA = 64_000
"""Characters of one schema."""

_DEEPEST = 24
_LARGEST = 1e300
"""Greater numbers are none for many readers of JSON."""

_PARAMETER = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_NOT_AT_THE_TOP = ("anyOf", "oneOf", "allOf", "not", "if", "then", "else", "enum", "const", "$ref")
"""What services of models do not take around an input."""
_UNSAID = frozenset(
    {
        *("$schema", "$id", "$comment", "title", "examples", "$anchor", "$vocabulary", "$dynamicRef", "$dynamicAnchor"),
        *("$recursiveRef", "$recursiveAnchor", "dependencies"),
    }
)
_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})

_NAMED = frozenset({"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"})
"""Keywords whose keys are names that somebody chose, and whose values are schemas."""
_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_INNER = frozenset(
    {
        *("additionalProperties", "contains", "contentSchema", "else", "if", "items", "not", "propertyNames", "then"),
        *("unevaluatedItems", "unevaluatedProperties"),
    }
)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -_LARGEST < value < _LARGEST


def _is_count(value: Any) -> bool:
    return _is_number(value) and isinstance(value, int) and value >= 0


def _is_names(value: Any) -> bool:
    every = cast("list[Any]", value) if isinstance(value, list) else [None]
    return all(isinstance(name, str) for name in every) and len(set(every)) == len(every)


def _is_type(value: Any) -> bool:
    return value in _TYPES if isinstance(value, str) else bool(value) and _is_names(value) and set(value) <= _TYPES


def _is_needs(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_names, cast("Schema", value).values()))


_Fits: TypeAlias = Callable[[Any], bool]
_WORDS: Mapping[_Fits, tuple[str, ...]] = {
    _is_type: ("type",),
    _is_names: ("required",),
    _is_needs: ("dependentRequired",),
    _is_number: ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    _is_count: (
        *("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
        *("minContains", "maxContains"),
    ),
    lambda value: _is_number(value) and value > 0: ("multipleOf",),
    lambda value: isinstance(value, bool): ("uniqueItems", "deprecated", "readOnly", "writeOnly"),
    lambda value: isinstance(value, str): (
        *("description", "pattern", "format", "$ref"),
        *("contentEncoding", "contentMediaType"),
    ),
    lambda value: isinstance(value, list): ("enum",),
}
_FITS: Mapping[str, _Fits] = {word: fits for fits, words in _WORDS.items() for word in words}
"""What the value of a keyword must be; a keyword with another value is left out."""


def cleaned(schema: Schema) -> Schema:
    """The schema of an input, an object with named parameters. Raises ValueError for one that cannot be used."""
    made = _schema(schema, 0)
    for word in _NOT_AT_THE_TOP:
        made.pop(word, None)
    if made.get("type", "object") != "object":
        raise ValueError("it is not of an object")
    properties: Schema = made.get("properties", {})
    if not all(map(_PARAMETER.fullmatch, properties)):
        raise ValueError("a parameter's name cannot be one")
    names = [name for name in cast("list[str]", made.get("required", [])) if name in properties]
    rest = {word: value for word, value in made.items() if word not in {"type", "properties", "required"}}
    whole: Schema = {"type": "object", "properties": properties, **({"required": names} if names else {}), **rest}
    if len(json.dumps(whole, ensure_ascii=False)) > MOST_SCHEMA:
        raise ValueError(f"it has more than {MOST_SCHEMA:,} letters")
    return whole


def _schema(said: Schema, depth: int) -> Schema:
    made: Schema = {}
    for word, value in said.items():
        if word == "items" and isinstance(value, list):
            word = "prefixItems"  # as older versions of the language say it
        kept = None if word in _UNSAID else _kept(word, value, depth)
        if kept is not None:
            made[word] = kept
    return made


def _kept(word: str, value: Any, depth: int) -> Any:
    """The value of a keyword as it may stand; None for one that is left out."""
    if depth > _DEEPEST:
        raise ValueError("it is nested too deeply")
    if word in _NAMED:
        if not isinstance(value, dict):
            return None
        return {name: _inner(part, depth + 2) for name, part in cast("Schema", value).items()}
    if word in _LISTS:
        parts = [_inner(part, depth + 2) for part in cast("list[Any]", value)] if isinstance(value, list) else []
        return parts or None
    if word in _INNER:
        return _inner(value, depth + 1) if isinstance(value, dict | bool) else None
    fits = _FITS.get(word)
    return value if _is_data(value, depth) and (fits is None or fits(value)) else None


def _inner(part: Any, depth: int) -> Any:
    """A schema inside another; where there is none, one that everything fits."""
    if isinstance(part, bool):
        return part
    return _schema(cast("Schema", part), depth) if isinstance(part, dict) else {}


def _is_data(value: Any, depth: int) -> bool:
    """Whether it can be written as JSON. Raises ValueError for what is nested too deeply."""
    if depth > _DEEPEST:
        raise ValueError("it is nested too deeply")
    if isinstance(value, dict):
        return all(_is_data(part, depth + 1) for part in cast("Schema", value).values())
    if isinstance(value, list):
        return all(_is_data(part, depth + 1) for part in cast("list[Any]", value))
    return value is None or isinstance(value, str | bool) or _is_number(value)
