"""The JSON schema of a tool for the model, and the conversion of a model's arguments to the tool's input.

Schemas are small: no titles, references, `null` branches or empty defaults. Arguments with small faults of weak models
are accepted when they have only one possible meaning. pydantic loads with the first call. Depends on the contract of a
tool.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from teamwright.agent.tool import AnyTool, ToolResult
from teamwright.protocol.ids import nearest

if TYPE_CHECKING:
    from pydantic import ValidationError

    from teamwright.agent.tool_input import ToolInput

Schema: TypeAlias = dict[str, Any]

_KEYWORDS_OF_NAMES = frozenset({"properties", "$defs"})
"""Keywords whose keys are names and not keywords."""


def tool_schema(tool: AnyTool) -> Schema:
    """Return the entry of a tool in the prefix: `name`, `description`, `input_schema` (shared, not to be changed)."""
    return {"name": tool.name, "description": tool.description, "input_schema": _visible_schema(tool)}


def _visible_schema(tool: AnyTool) -> Schema:
    """Return the schema of the input without unavailable parameters."""
    whole = input_schema(tool.input_type) if tool.schema is None else dict(tool.schema)
    if not tool.hidden_parameters:
        return whole
    return whole | {
        "properties": {name: part for name, part in whole["properties"].items() if name not in tool.hidden_parameters}
    }


@cache
def input_schema(input_type: type[ToolInput]) -> Schema:
    """Return the JSON schema of an input type, cached: no titles or `null` branches, references inlined."""
    raw = input_type.model_json_schema(by_alias=True)
    definitions = cast("dict[str, Any]", raw.pop("$defs", {}))
    raw.pop("description", None)
    schema = cast("Schema", _clean(raw, definitions, ()))
    schema.setdefault("properties", {})
    return schema


def validate(tool: AnyTool, raw: Any) -> ToolInput | ToolResult:
    """Return the arguments as the tool's input, or the refusal for the model: the faults and the accepted parameters.

    Arguments that do not fit are repaired and tried again: JSON text for an object or a list, one value for a list, a
    number for text, `null` for an optional parameter.
    """
    from pydantic import ValidationError

    if tool.hidden_parameters and (refused := _refuse_hidden(tool, raw)) is not None:
        return refused
    if tool.schema is not None:
        raw = _repair(raw, dict(tool.schema))
    try:
        return tool.input_type.model_validate(raw)
    except ValidationError:
        pass
    schema = _visible_schema(tool)
    repaired = _repair(raw, schema)
    try:
        return tool.input_type.model_validate(repaired)
    except ValidationError as problem:
        return ToolResult.error(
            _describe_problem(tool.name, repaired, schema, problem), f"{tool.name} takes {describe_parameters(schema)}"
        )


def unread_arguments(tool: AnyTool, text: str) -> ToolResult:
    """Return the refusal of arguments that are not a JSON object:

    the position of the fault and the accepted parameters.
    """
    from teamwright.models.tool_call_repair import describe_problem

    what = f"The arguments of {tool.name} are not one JSON object: {describe_problem(text)}."
    return ToolResult.error(
        what, f"Send them as one JSON object. {tool.name} takes {describe_parameters(_visible_schema(tool))}"
    )


def _refuse_hidden(tool: AnyTool, raw: Any) -> ToolResult | None:
    """Return the reason why a given parameter is unavailable; None when all are available."""
    fields = cast("Mapping[str, Any]", raw) if isinstance(raw, Mapping) else Schema()
    hidden = tool.hidden_parameters
    name = next((name for name, parameter in hidden.items() if not parameter.accepts(fields.get(name))), None)
    if name is None:
        return None
    return ToolResult.error(f"{tool.name} does not take {name} now: {hidden[name].why}.", f"Leave {name} out.")


def describe_parameters(schema: Schema) -> str:
    """Return the parameters in one line: `path (string, required), limit (integer)`."""
    required = set(schema.get("required", ()))
    parts = [
        f"{name} ({_kind(part)}{', required' if name in required else ''})"
        for name, part in cast("dict[str, Schema]", schema.get("properties", {})).items()
    ]
    return ", ".join(parts) + "." if parts else "no parameters."


# small schemas
def _clean(node: Any, definitions: Mapping[str, Any], above: tuple[str, ...]) -> Any:
    if isinstance(node, list):
        return [_clean(item, definitions, above) for item in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    schema: Schema = {}
    for key, value in cast("Schema", node).items():
        if key in _KEYWORDS_OF_NAMES:
            schema[key] = {name: _clean(part, definitions, above) for name, part in value.items()}
        elif key == "$ref":
            schema = {**_resolve_reference(value, definitions, above), **schema}
        elif key != "title" and not (key == "default" and _says_nothing(value)):
            schema[key] = _clean(value, definitions, above)
    return _without_null(schema)


def _says_nothing(default: object) -> bool:
    """Return True for a default that a model assumes anyway."""
    return default is None or default is False or default in ("", [])


def _resolve_reference(reference: str, definitions: Mapping[str, Any], above: tuple[str, ...]) -> Schema:
    name = reference.rsplit("/", 1)[-1]
    if name in above:  # a recursive type: any object, one level down
        return {"type": "object"}
    return cast("Schema", _clean(definitions[name], definitions, (*above, name)))


def _without_null(node: Schema) -> Schema:
    branches = cast("list[Schema] | None", node.get("anyOf"))
    if branches is None:
        return node
    remaining = [branch for branch in branches if branch.get("type") != "null"]
    rest = {key: value for key, value in node.items() if key != "anyOf"}
    return {**remaining[0], **rest} if len(remaining) == 1 else {**rest, "anyOf": remaining}


# reading arguments
def _repair(value: Any, schema: Any) -> Any:
    # A schema of another program may be true, false, or a list.
    return _repair_by_schema(value, cast("Schema", schema)) if isinstance(schema, dict) else value


def _repair_by_schema(value: Any, schema: Schema) -> Any:
    kind = schema.get("type")
    if kind == "object":
        return _repaired_object(value, schema)
    if kind == "array":
        return _repaired_list(value, schema)
    if kind == "string" and isinstance(value, int | float):
        return json.dumps(value)
    if "anyOf" in schema and isinstance(value, str) and not _may_be_text(schema["anyOf"]):
        return _parse_json_text(value, dict | list)
    return value


def _may_be_text(branches: Any) -> bool:
    others = {"object", "array", "integer", "number", "boolean", "null"}
    kinds = [cast("Schema", branch).get("type") if isinstance(branch, dict) else None for branch in branches]
    return not all(isinstance(kind, str) and kind in others for kind in kinds)


def _repaired_object(value: Any, schema: Schema) -> Any:
    value = _parse_json_text({} if value is None else value, dict)
    properties = cast("dict[str, Schema]", schema.get("properties", {}))
    fields = cast("Schema | None", value if isinstance(value, dict) else None)
    if fields is None or not properties:
        return cast("Any", value)
    required = schema.get("required", ())
    return {
        name: _repair(item, properties[name]) if name in properties else item
        for name, item in fields.items()
        if not (item is None and name not in required)
    }


def _repaired_list(value: Any, schema: Schema) -> Any:
    value = _parse_json_text(value, list)
    items = cast("list[Any]", value) if isinstance(value, list) else [value]
    return [_repair(item, schema.get("items", {})) for item in items]


def _parse_json_text(value: Any, expected_type: Any) -> Any:
    """Parse a text with JSON of the expected type; return any other value unchanged."""
    if not isinstance(value, str):
        return value
    try:
        found = json.loads(value, strict=False)  # weak models write real line ends into JSON text
    except (ValueError, RecursionError):
        return value
    return found if isinstance(found, expected_type) else value


# refusals
def _describe_problem(tool: str, raw: Any, schema: Schema, problem: ValidationError) -> str:
    if not isinstance(raw, dict):
        return f"The input of {tool} must be an object of parameters, not {type(raw).__name__}."
    known = list(schema.get("properties", {}))
    sentences = [
        _sentence(error["type"], _location_text(error["loc"]), error["msg"], known) for error in problem.errors()[:6]
    ]
    return f"The input of {tool} does not fit: " + "; ".join(dict.fromkeys(sentences)) + "."


def _sentence(kind: str, place: str, message: str, known: Sequence[str]) -> str:
    if kind == "missing":
        return f"`{place}` is missing"
    if kind == "extra_forbidden":
        suggestion = nearest(place, known)
        return f"`{place}` is not a parameter" + (f" (did you mean `{suggestion}`?)" if suggestion else "")
    lowered = message[:1].lower() + message[1:]
    return f"`{place}`: {lowered}" if place else lowered


def _location_text(location: Sequence[int | str]) -> str:
    return ".".join(str(part) for part in location)


def _kind(schema: Schema) -> str:
    if "enum" in schema:
        return "one of " + " ".join(str(choice) for choice in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(_kind(branch) for branch in schema["anyOf"])
    kind = str(schema.get("type", "any"))
    return f"list of {_kind(schema.get('items', {}))}" if kind == "array" else kind
