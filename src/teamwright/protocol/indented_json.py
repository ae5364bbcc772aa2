"""JSON with two spaces of indentation, in which values that did not change are not encoded again.

Depends on the standard library alone. Leaves to the owners of formats which keys a file has and in which order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")


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

    __slots__ = ("_known", "encoded")

    def __init__(self) -> None:
        self._known: dict[int, tuple[object, str]] = {}
        self.encoded = 0
        """The number of values of `EncodedValues` that were encoded, without those whose text was known."""

    def encode(self, data: Mapping[str, object]) -> bytes:
        """Return the bytes that `json.dumps(…, indent=2, ensure_ascii=False)` would give."""
        used: dict[int, tuple[object, str]] = {}
        lines: list[str] = []
        for key, value in data.items():
            many = isinstance(value, EncodedValues)
            text = self._each(cast("EncodedValues[Any]", value), used) if many else _indented(value, "\n  ")
            lines.append(f"{_text(key)}: {text}")
        self._known = used
        return ("{\n  " + ",\n  ".join(lines) + "\n}").encode() if lines else b"{}"

    def _each(self, many: EncodedValues[Any], used: dict[int, tuple[object, str]]) -> str:
        if not isinstance(many.values, Mapping):
            items = [self._part(value, many, used) for value in many.values]
            return "[\n    " + ",\n    ".join(items) + "\n  ]" if items else "[]"
        items = [f"{_text(name)}: {self._part(value, many, used)}" for name, value in many.values.items()]
        return "{\n    " + ",\n    ".join(items) + "\n  }" if items else "{}"

    def _part(self, value: object, many: EncodedValues[Any], used: dict[int, tuple[object, str]]) -> str:
        if type(value) is int:
            return str(value)
        known = self._known.get(id(value))
        if known is None or known[0] is not value:
            self.encoded += 1
            known = (value, _indented(many.as_json(value), "\n    "))
        used[id(value)] = known
        return known[1]


def _indented(value: object, newline: str) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False).replace("\n", newline)  # no string has a raw newline


_text = json.JSONEncoder(ensure_ascii=False).encode
