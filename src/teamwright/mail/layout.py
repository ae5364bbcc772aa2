"""The inbox array, element by element, with the bytes of each: what we do not change goes back as it came.

Our own layout (one element a line) is read without parsing what is consumed; any other is parsed. Knows the keys
`msg_id` and `read`; the rest of an element is its sender's.
"""

from __future__ import annotations

import json
from typing import Any, cast

from teamwright.storage.array import NotAnArray

_READ = (b'"read":true }', b'"read":true}')


class Item:
    """One element. `value` is None for a consumed one that nobody needed to parse."""

    __slots__ = ("_raw", "consumed", "offset", "unread", "value")

    def __init__(self, raw: bytes | None, value: object, offset: int = -1) -> None:
        self._raw = raw
        self.value = value
        self.offset = offset
        """Where it begins in the file; -1 when its layout is not ours."""
        entry = isinstance(value, dict)
        self.consumed = raw is not None and value is None
        """Whether it is flagged as read."""
        if entry:
            self.consumed = cast("dict[str, Any]", value).get("read") is True
        self.unread = entry and not self.consumed
        """Whether it waits for its reader. Elements that are no objects are neither."""

    @property
    def raw(self) -> bytes:
        """The element on one line."""
        if self._raw is None:
            self._raw = encode(self.value)
        return self._raw

    @property
    def fields(self) -> dict[str, Any]:
        """Its keys; a consumed element is parsed now. Raises NotAnArray when that fails."""
        if self.value is None:
            try:
                self.value = json.loads(self.raw)
            except ValueError:
                raise NotAnArray from None
        return cast("dict[str, Any]", self.value)

    @property
    def msg_id(self) -> str | None:
        """The element's id, None when a stranger wrote it without one."""
        found = self.fields.get("msg_id")
        return found if isinstance(found, str) and found else None

    def flip(self) -> tuple[int, bytes] | None:
        """Where to write what, to flag it in place; None when the flag does not stand beside the id."""
        ending = b'"msg_id":"%s","read":false}' % (self.msg_id or "").encode("utf-8", "replace")
        if self.offset < 0 or not self.raw.endswith(ending):
            return None
        return self.offset + len(self.raw) - 6, b"true "

    def flagged(self) -> Item:
        """The element with its flag set; keys and their order are kept."""
        if self.raw.endswith(b'"read":false}'):
            return Item(self.raw[:-6] + b"true }", None)
        return Item(None, self.fields | {"read": True})

    def with_id(self, msg_id: str) -> Item:
        """The element with an id, put right before the flag; keys and their order are kept otherwise."""
        out = {key: value for key, value in self.fields.items() if key != "msg_id"}
        if "read" not in out:
            return Item(None, out | {"msg_id": msg_id, "read": False})
        made: dict[str, Any] = {}
        for key, value in out.items():
            if key == "read":
                made["msg_id"] = msg_id
            made[key] = value
        return Item(None, made)


def split(content: bytes) -> list[Item]:
    """The elements of the array. Raises NotAnArray for what is not one."""
    try:
        found = _split_lines(content)
    except ValueError:
        found = None
    if found is not None:
        return found
    try:
        values = json.loads(content)
    except (ValueError, RecursionError):
        raise NotAnArray from None
    if not isinstance(values, list):
        raise NotAnArray
    return [Item(None, value) for value in cast("list[object]", values)]


def encode(value: object) -> bytes:
    """A value on one line; half characters, which UTF-8 cannot hold, stay escaped as they came."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def _split_lines(content: bytes) -> list[Item] | None:
    """The elements when the layout is ours, else None. A raw newline never stands inside a JSON string."""
    lines = content.split(b"\n")
    if len(lines) < 3 or lines[0] != b"[" or lines[-1] != b"]":
        return None
    items: list[Item] = []
    offset = 2
    last = len(lines) - 2
    for number, line in enumerate(lines[1:-1], 1):
        raw = line if number == last else line[:-1]
        if line[:2] != b'{"' or raw[-1:] != b"}" or (number != last and line[-1:] != b","):
            return None
        items.append(Item(raw, None if raw.endswith(_READ) else json.loads(raw), offset))
        offset += len(line) + 1
    return items
