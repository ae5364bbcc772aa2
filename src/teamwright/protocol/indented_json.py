"""JSON with two spaces of indentation, in which values that did not change are not encoded again.

Depends on the standard library alone. Leaves to the owners of formats which keys a file has and in which order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")


_Texts = dict[object, tuple[object, str]]
"""Values with their texts, by name or by identity."""


class EncodedValues(Generic[T]):
    """Many values of one kind under one key: a list, or an object with a value for each name.

    `as_json` returns the part of a value that is encoded. A value must not change: its text is used again.
    """

    __slots__ = ("as_json", "values")

    def __init__(self, values: Sequence[T] | Mapping[str, T], as_json: Callable[[T], Any]) -> None:
        self.values = values
        self.as_json = as_json


class IndentedJson:
    """The encoder of one file, which remembers the texts of the values that it encoded last."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[str, _Texts] = {}

    def encode(self, data: Mapping[str, object]) -> bytes:
        """Return the bytes that `json.dumps(…, indent=2, ensure_ascii=False)` would give."""
        lines: list[str] = []
        for key, value in data.items():
            many = isinstance(value, EncodedValues)
            text = self._each(key, cast("EncodedValues[Any]", value)) if many else _indented(value, "\n  ")
            lines.append(f"{_text(key)}: {text}")
        return ("{\n  " + ",\n  ".join(lines) + "\n}").encode() if lines else b"{}"

    def _each(self, key: str, many: EncodedValues[Any]) -> str:
        named = isinstance(many.values, Mapping)
        items = (
            many.values.items()
            if isinstance(many.values, Mapping)
            else zip(map(id, many.values), many.values, strict=True)
        )
        before = self._known.get(key, {})
        after = _Texts()
        texts: list[str] = []
        for name, value in items:  # plain code: this runs for every member of a large team
            known = before.get(name)
            if known is None or known[0] is not value:
                text = _indented(many.as_json(value), "\n    ")
                known = (value, f"{_text(str(name))}: {text}" if named else text)
            after[name] = known
            texts.append(known[1])
        self._known[key] = after
        first, last = "{}" if named else "[]"
        return first + "\n    " + ",\n    ".join(texts) + "\n  " + last if texts else first + last


def _indented(value: object, newline: str) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False).replace("\n", newline)  # no string has a raw newline


_text = json.JSONEncoder(ensure_ascii=False).encode
