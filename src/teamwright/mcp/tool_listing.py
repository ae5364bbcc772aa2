"""The tools of a server as agents see them.

A listing is untrusted: names, texts and schemas are validated and bounded, from the server and from the disk.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, TypeAlias, cast

from msgspec import Struct

from teamwright.mcp.json_rpc import plain_text
from teamwright.protocol.portable_schema import portable_schema

PREFIX = "mcp__"

MAX_LENGTH = 64
"""Characters of a tool's name that model services accept."""

_STRANGE = re.compile(r"[^A-Za-z0-9_-]")
_RUNS = re.compile(r"_{2,}")


def server_key(name: str) -> str:
    """Return a server's name as it is used in names of tools; empty when no character of it is allowed."""
    return _RUNS.sub("_", _STRANGE.sub("_", name)).strip("_")


def tool_name(key: str, tool: str) -> str:
    """Return the full name of a server's tool; longer than MAX_LENGTH it cannot be offered to a model."""
    return f"{PREFIX}{key}__{_STRANGE.sub('_', tool)}"


def parse_server_key(name: str) -> str:
    """Return the server's part of a full name; empty for any other name."""
    if not name.startswith(PREFIX):
        return ""
    key, between, tool = name.removeprefix(PREFIX).partition("__")
    return key if between and tool else ""


Schema: TypeAlias = dict[str, Any]

MAX_SCHEMA = 64_000
"""Characters of one schema."""

_DEEPEST = 24
_LARGEST = 1e300
"""Larger numbers exceed the range of many JSON parsers."""

_PARAMETER = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_NOT_AT_THE_TOP = ("anyOf", "oneOf", "allOf", "not", "if", "then", "else", "enum", "const", "$ref")
"""Keywords that model services do not accept at the top level of an input schema."""
_DROPPED_KEYWORDS = frozenset(
    {
        *("$schema", "$id", "$comment", "title", "examples", "$anchor", "$vocabulary", "$dynamicRef", "$dynamicAnchor"),
        *("$recursiveRef", "$recursiveAnchor", "dependencies"),
    }
)
_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})

_NAMED = frozenset({"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"})
"""Keywords whose keys are chosen names, and whose values are schemas."""
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


def _is_dependency_map(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_names, cast("Schema", value).values()))


_Fits: TypeAlias = Callable[[Any], bool]
_KEYWORDS_BY_CHECK: Mapping[_Fits, tuple[str, ...]] = {
    _is_type: ("type",),
    _is_names: ("required",),
    _is_dependency_map: ("dependentRequired",),
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
_CHECK_BY_KEYWORD: Mapping[str, _Fits] = {word: fits for fits, words in _KEYWORDS_BY_CHECK.items() for word in words}
"""The type check of each keyword's value; a keyword with an invalid value is left out."""


def clean_schema(schema: Schema) -> Schema:
    """Return the cleaned schema of an input, an object with named parameters, in a form that every service takes.

    Raises ValueError for an unusable one.
    """
    cleaned_schema = _schema(_with_reference(schema), 0)
    for word in _NOT_AT_THE_TOP:
        cleaned_schema.pop(word, None)
    if cleaned_schema.get("type", "object") != "object":
        raise ValueError("it is not of an object")
    properties: Schema = cleaned_schema.get("properties", {})
    if not all(map(_PARAMETER.fullmatch, properties)):
        raise ValueError("a parameter's name cannot be one")
    names = [name for name in cast("list[str]", cleaned_schema.get("required", [])) if name in properties]
    rest = {word: value for word, value in cleaned_schema.items() if word not in {"type", "properties", "required"}}
    whole = portable_schema(
        {"type": "object", "properties": properties, **({"required": names} if names else {}), **rest}
    )
    if len(json.dumps(whole, ensure_ascii=False)) > MAX_SCHEMA:
        raise ValueError(f"it has more than {MAX_SCHEMA:,} letters")
    return whole


def _with_reference(schema: Schema) -> Schema:
    """Return an input schema that is a reference to a definition as that definition, beside its other keywords."""
    found = re.fullmatch(r"#/(\$defs|definitions)/([^/]+)", str(schema.get("$ref", "")))
    definitions: object = schema.get(found[1]) if found else None
    target = cast("Schema", definitions).get(found[2]) if found and isinstance(definitions, dict) else None
    return {**cast("Schema", target), **schema} if isinstance(target, dict) else schema


def _schema(schema: Schema, depth: int) -> Schema:
    result: Schema = {}
    for word, value in schema.items():
        if word == "items" and isinstance(value, list):
            word = "prefixItems"  # the name in newer versions of the language
        clean = None if word in _DROPPED_KEYWORDS else _clean_value(word, value, depth)
        if clean is not None:
            result[word] = clean
    return result


def _clean_value(word: str, value: Any, depth: int) -> Any:
    """Return the cleaned value of a keyword; None for one that is left out."""
    if depth > _DEEPEST:
        raise ValueError("it is nested too deeply")
    if word in _NAMED:
        if not isinstance(value, dict):
            return None
        return {name: _clean_inner(part, depth + 2) for name, part in cast("Schema", value).items()}
    if word in _LISTS:
        parts = [_clean_inner(part, depth + 2) for part in cast("list[Any]", value)] if isinstance(value, list) else []
        return parts or None
    if word in _INNER:
        return _clean_inner(value, depth + 1) if isinstance(value, dict | bool) else None
    fits = _CHECK_BY_KEYWORD.get(word)
    return value if _is_data(value, depth) and (fits is None or fits(value)) else None


def _clean_inner(part: Any, depth: int) -> Any:
    """Return a cleaned inner schema; one that accepts everything where there is none."""
    if isinstance(part, bool):
        return part
    return _schema(cast("Schema", part), depth) if isinstance(part, dict) else {}


def _is_data(value: Any, depth: int) -> bool:
    """Return True when the value can be written as JSON. Raises ValueError for values that are nested too deeply."""
    if depth > _DEEPEST:
        raise ValueError("it is nested too deeply")
    if isinstance(value, dict):
        return all(_is_data(part, depth + 1) for part in cast("Schema", value).values())
    if isinstance(value, list):
        return all(_is_data(part, depth + 1) for part in cast("list[Any]", value))
    return value is None or isinstance(value, str | bool) or _is_number(value)


MAX_TOOLS = 500
"""Maximum number of tools that are read from one server."""

MAX_DESCRIPTION = 2_000


class ServedTool(Struct, frozen=True, dict=True):
    """One tool: `remote_name` is its name at the server, `name` its full name here. `as_task`: it may run as a task."""

    remote_name: str
    name: str
    description: str
    schema: Mapping[str, Any]
    as_task: bool = False

    @cached_property
    def size(self) -> int:
        """The bytes that it uses in a prefix."""
        definition = {"name": self.name, "description": self.description, "input_schema": self.schema}
        return len(json.dumps(definition, ensure_ascii=False).encode("utf-8", "replace"))

    @property
    def required_parameters(self) -> list[str]:
        """The required parameters of a call."""
        return list(self.schema.get("required", ()))

    @property
    def one_line(self) -> str:
        """The name and the beginning of the description."""
        first = self.description.strip().split("\n", 1)[0]
        return f"{self.remote_name}: {first if len(first) <= 120 else first[:119] + '…'}"


def parse_tools(key: str, raw: Iterable[object]) -> tuple[tuple[ServedTool, ...], list[str]]:
    """Return the usable tools of a listing, and a line for each unusable one."""
    found: dict[str, ServedTool] = {}
    refused: list[str] = []
    for entry in raw:
        tool = _tool(key, entry)
        if isinstance(tool, str):
            refused.append(tool)
        elif tool.name in found:
            refused.append(f"{tool.remote_name[:60]!r} has the same name as {found[tool.name].remote_name[:60]!r}")
        else:
            found[tool.name] = tool
    return tuple(found.values()), refused


def _tool(key: str, entry: object) -> ServedTool | str:
    if not isinstance(entry, dict):
        return "an entry that is not an object"
    fields = cast("Schema", entry)
    wire = fields.get("name")
    text = fields.get("description", "")
    schema = fields.get("inputSchema", {})
    if not isinstance(wire, str) or not wire or not wire.isprintable():
        return "a tool without a name"
    name = tool_name(key, wire)
    if len(name) > MAX_LENGTH:
        return f"{wire[:60]!r} has a name that is too long"
    if not isinstance(schema, dict):
        return f"{wire!r} has no schema"
    try:
        input_schema = clean_schema(cast("Schema", schema))
    except (ValueError, RecursionError) as problem:
        return f"{wire!r} has a schema that cannot be used: {problem}"
    execution: object = fields.get("execution")
    tasks = cast("Schema", execution).get("taskSupport") if isinstance(execution, dict) else None
    about = plain_text(text if isinstance(text, str) else "", MAX_DESCRIPTION)
    return ServedTool(wire, name, about, input_schema, tasks in {"optional", "required"})
