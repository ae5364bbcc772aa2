"""The form of a final answer: JSON that fits a schema of a person, or a type of a program.

Depends on validators, which are loaded with the first form; leaves asking and repair to `structured_output`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, NotRequired, Required, cast, get_type_hints, is_typeddict

from msgspec import Struct

from teamwright.protocol.errors import UsageError

_FENCE = re.compile(r"```(?:json)?\s*\n(.*?)\n?```", re.DOTALL)

_MAX_PROBLEMS = 5
MAX_PROBLEM_CHARACTERS = 300
"""The most characters of a reason that an error repeats."""

INSTRUCTION = (
    "Your final answer must be one JSON value that fits this JSON Schema. Write nothing before it and nothing after it."
)


class OutputFormat(Struct, frozen=True):
    """The form of a final answer. `parse` returns the value of a JSON value; it raises ValueError with the reason."""

    schema: Mapping[str, Any]
    parse: Callable[[Any], Any]

    def request(self, tail: str = INSTRUCTION) -> str:
        """Return the text that asks a model for this form."""
        return f"{tail}\n{json.dumps(self.schema, ensure_ascii=False)}"

    def read(self, text: str) -> tuple[str, Any]:
        """Return the JSON text of an answer and its value. Raises ValueError with the reason for another answer."""
        found = _FENCE.fullmatch(text.strip())
        content = (found[1] if found is not None else text).strip()
        try:
            value = json.loads(content)
        except (ValueError, RecursionError) as problem:
            raise ValueError(f"it is not JSON: {problem}") from None
        return content, self.parse(value)


def schema_format(text: str, source: str = "--json-schema") -> OutputFormat:
    """Return the form that a JSON Schema describes. Raises UsageError for a text that is no schema."""
    from jsonschema import SchemaError
    from jsonschema.validators import validator_for
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    try:
        document = json.loads(text)
        if not isinstance(document, dict):
            raise ValueError("it is not a JSON object")
        schema = cast("dict[str, Any]", document)
        kind = validator_for(schema)
        kind.check_schema(schema)
    except (ValueError, RecursionError, SchemaError) as problem:
        why = problem.message if isinstance(problem, SchemaError) else str(problem)
        raise UsageError(
            "usage",
            f"{source} is not a JSON Schema: {why[:MAX_PROBLEM_CHARACTERS]}",
            do=["""--json-schema '{"type": "object", "properties": {"name": {"type": "string"}}}'""", f"{source} FILE"],
            note="nothing was started",
        ) from None
    validator = kind(schema, registry=Registry())  # a schema names no address that is then fetched

    def parse(value: Any) -> Any:
        try:
            problems = list(validator.iter_errors(value))
        except Unresolvable as problem:
            raise ValueError(f"the schema refers to what it does not contain: {problem}") from None
        if problems:
            raise ValueError("; ".join(f"{one.json_path}: {one.message}"[:300] for one in problems[:_MAX_PROBLEMS]))
        return value

    return OutputFormat(schema, parse)


def _rebuilt(output_type: Any) -> Any:
    """Return a TypedDict in the form that pydantic reads on Python 3.11; other types unchanged."""
    if not is_typeddict(output_type) or sys.version_info >= (3, 12):
        return output_type
    import typing_extensions

    hints = get_type_hints(output_type, include_extras=True)
    required: frozenset[str] = output_type.__required_keys__
    fields = {
        name: Required[_rebuilt(hint)] if name in required else NotRequired[_rebuilt(hint)]
        for name, hint in hints.items()
    }
    make: Any = typing_extensions.TypedDict
    return make(output_type.__name__, fields)


def type_format(output_type: Any) -> OutputFormat:
    """Return the form of a Python type: a pydantic model, a TypedDict, a dataclass. Raises UsageError for others."""
    from pydantic import PydanticUserError, TypeAdapter, ValidationError
    from pydantic.errors import PydanticSchemaGenerationError

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(_rebuilt(output_type))
        schema = adapter.json_schema()
    except (PydanticUserError, PydanticSchemaGenerationError, TypeError, NameError) as problem:
        what = f"output_type= has no JSON form: {str(problem).splitlines()[0]}"
        do = ["give a pydantic model, a TypedDict or a dataclass"]
        raise UsageError("usage", what, do=do, note="nothing was started") from None

    def parse(value: Any) -> Any:
        try:
            return adapter.validate_json(json.dumps(value))
        except ValidationError as problem:
            found = [f"{'.'.join(map(str, one['loc'])) or '$'}: {one['msg']}" for one in problem.errors()]
            raise ValueError("; ".join(found[:_MAX_PROBLEMS])) from None

    return OutputFormat(schema, parse)
