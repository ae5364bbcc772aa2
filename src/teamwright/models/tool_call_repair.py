"""Repair of tool calls of weak models: arguments as one JSON object, names and ids that every service accepts.

Depends on the JSON parser alone. Schemas are left to the tools.
"""

from __future__ import annotations

import json
import re
import uuid
from math import isfinite
from typing import Any, cast

from teamwright.protocol.messages import UNPARSED_ARGUMENTS

MOST_DEPTH = 100
"""Levels of objects and lists in arguments; deeper ones cannot be stored and sent again."""
TOO_DEEP = "[" * (MOST_DEPTH + 1)
"""The text that replaces arguments too deep to be written as text."""
NEAR = 40
"""Characters that are quoted around the place of an error."""

_FENCE = re.compile(r"\s*```[\w-]*\s*(?P<inside>.*?)\s*```\s*", re.DOTALL)
_TRAILING_COMMA = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])', re.DOTALL)
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
_NAME_MOST = 64


def parse_json(text: str | bytes, *, strict: bool = True) -> Any:
    """Return the value of a JSON text. An integer with more digits than Python reads becomes infinity.

    Raises ValueError and RecursionError.
    """
    try:
        return json.loads(text, strict=strict)
    except json.JSONDecodeError:
        raise
    except ValueError:  # the limit of digits; UnicodeDecodeError is raised again below
        return json.loads(text, strict=strict, parse_int=_integer)


def _integer(digits: str) -> int | float:
    try:
        return int(digits)
    except ValueError:
        return float("-inf" if digits.startswith("-") else "inf")


def parse_arguments(text: str, *, repair: bool = True) -> dict[str, Any]:
    """Return the arguments in a text, or `{UNPARSED_ARGUMENTS: text}` where it contains no object.

    Repaired are code fences, trailing commas, raw line ends inside texts, an object inside a JSON text, and a list of
    one object.
    """
    for candidate in _candidates(text) if repair else (text,):
        try:
            value: object = parse_json(candidate, strict=not repair)
        except (ValueError, RecursionError):
            continue
        if (found := _as_object(value)) is not None:
            return found
    return {UNPARSED_ARGUMENTS: text}


def parse_object(value: object) -> dict[str, Any]:
    """Return arguments that were received as a value instead of as text."""
    found = _as_object(value)
    return {UNPARSED_ARGUMENTS: arguments_text(value)} if found is None else found


def arguments_text(value: object) -> str:
    """Return a value as JSON text; `TOO_DEEP` for one that is deeper than `MOST_DEPTH`."""
    return TOO_DEEP if is_deep(value) else json.dumps(value, ensure_ascii=False)


def describe_problem(text: str) -> str:
    """Return why a text is no JSON object: the position, the expected syntax there, and the text around it."""
    too_deep = f"it has more than {MOST_DEPTH} levels of objects and lists"
    if text == TOO_DEEP:
        return too_deep
    try:
        value: object = parse_json(text)
    except json.JSONDecodeError as problem:
        near = text[max(0, problem.pos - NEAR // 2) : problem.pos + NEAR // 2]
        expected = problem.msg[:1].lower() + problem.msg[1:]
        return f"line {problem.lineno}, column {problem.colno}: {expected}, near {near!r}"
    except RecursionError:
        return too_deep
    if is_deep(value):
        return too_deep
    if has_invalid_number(value):
        return "a number in it is NaN, infinite or too long"
    return f"expected one object of parameters, not {_kind(value)}"


def _kind(value: object) -> str:
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        return "a text"
    return "true or false" if isinstance(value, bool) else "a number"


def has_invalid_number(value: object) -> bool:
    """Return True when a value has a number that JSON does not have, so that it cannot be stored and sent again."""
    if isinstance(value, float):
        return not isfinite(value)
    if isinstance(value, dict):
        return any(map(has_invalid_number, cast("dict[str, object]", value).values()))
    return isinstance(value, list) and any(map(has_invalid_number, cast("list[object]", value)))


def is_deep(value: object) -> bool:
    """Return True when a value has more than `MOST_DEPTH` levels of objects and lists."""
    level = [value]
    for _ in range(MOST_DEPTH + 1):
        below: list[object] = []
        for one in level:
            if isinstance(one, dict):
                below += cast("dict[str, object]", one).values()
            elif isinstance(one, list):
                below += cast("list[object]", one)
        if not below:
            return False
        level = below
    return any(isinstance(one, dict | list) for one in level)


def safe_name(name: object) -> str:
    """Return the name of a call in the characters that every service accepts in a history."""
    text = name if isinstance(name, str) else ""
    return _NOT_IN_NAMES.sub("_", text.strip())[:_NAME_MOST] or "unnamed"


def safe_id(received: object) -> str:
    """Return the id of a call, or a new one where a service would refuse it in a history."""
    return received if isinstance(received, str) and _ID.fullmatch(received) else f"call_{uuid.uuid4().hex[:24]}"


def _candidates(text: str) -> tuple[str, ...]:
    fenced = _FENCE.fullmatch(text)
    inside = fenced["inside"] if fenced else text
    return text, inside, _TRAILING_COMMA.sub(_text_only, inside)


def _text_only(found: re.Match[str]) -> str:
    return found.group(1) or ""


def _as_object(value: object, *, nested: bool = True) -> dict[str, Any] | None:
    """Return the one object in a value: the value, its text, or the only item of its list."""
    if value is None:
        return {}
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return None if is_deep(fields) or has_invalid_number(fields) else fields
    if isinstance(value, str) and nested:
        try:
            return _as_object(parse_json(value, strict=False), nested=False)
        except (ValueError, RecursionError):
            return None
    items = cast("list[object]", value) if isinstance(value, list) else []
    only = items[0] if len(items) == 1 else None
    return _as_object(cast("object", only), nested=False) if isinstance(only, dict) else None
