"""The inbox array, element by element, with the bytes of each: what we do not change goes back as it came.

Our own layout (one element a line) is read without parsing what is consumed; any other is parsed. Knows the keys
`msg_id` and `read`; the rest of an element is its sender's.
"""

from __future__ import annotations

import json
import re
from typing import Any, cast

from teamwright.protocol.mail import Entry, parse_entry
from teamwright.storage.array import NotAnArray

READ = (b'"read":true }', b'"read":true}')
"""How the line of a consumed element ends in our layout."""

_TURN = 64
"""After so many lines that were parsed, those that were not met since the last time are dropped."""
_SHORT = 2_048
"""Lines up to so many bytes are not parsed again when their file is read again."""

MOST_UNREAD = 1_000
RUNTIME_UNREAD = 64
"""So many entries of ours may lie unread, the runtime's own notices included. Other programs may write more."""

_MOST_PARSED = MOST_UNREAD + RUNTIME_UNREAD
_MOST_PARSED_BYTES = 2_000_000
_LARGE = 1_000_000
"""Of an array larger than this only so many unread elements are parsed at a time; the others wait."""

_BLANKS = re.compile(r"[ \t\n\r]*")
_decode = json.JSONDecoder().raw_decode


class Item:
    """One element. `value` is None for a consumed one that nobody needed to parse; it is shared, never changed."""

    __slots__ = ("_raw", "consumed", "offset", "rest", "unread", "value")

    def __init__(self, raw: bytes | None, value: object, offset: int = -1) -> None:
        self._raw = raw
        self.value = value
        self.offset = offset
        """Where it begins in the file; -1 when its layout is not ours."""
        self.rest = False
        """Whether it stands for all elements from here on, which were not parsed: `raw` is theirs."""
        if isinstance(value, dict):
            self.consumed = cast("dict[str, Any]", value).get("read") is True
            """Whether it is flagged as read."""
            self.unread = not self.consumed
            """Whether it waits for its reader. Elements that are no objects are neither."""
        else:
            self.consumed = raw is not None and value is None
            self.unread = False

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
    def entry(self) -> Entry:
        """The element as an entry. Raises NotAnArray for a consumed one that is none."""
        raw = self._raw
        return _known.entry(raw) if self.unread and raw and len(raw) <= _SHORT else parse_entry(self.fields)

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


def split(content: bytes, *, whole: bool = False) -> list[Item]:
    """The elements of the array. Raises NotAnArray for what is not one.

    A large array is parsed up to its first 1,064 unread elements, unless the `whole` is wanted: the last item is then
    the `rest` of the array.
    """
    try:
        found = _begin(content) if len(content) > _LARGE and not whole else _split_lines(content)
    except (ValueError, RecursionError):
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


def _begin(content: bytes) -> list[Item] | None:
    """The first elements of a large array; None for what does not look like an array."""
    try:
        return _begin_lines(content) or _begin_values(content)
    except ValueError:
        return _begin_values(content)


def _begin_lines(content: bytes) -> list[Item] | None:
    """The first elements when the layout is ours, else None. Raises ValueError for other layouts too."""
    if content[:4] != b'[\n{"' or content[-3:] != b"}\n]":
        return None
    items: list[Item] = []
    offset, end, unread, size = 2, len(content) - 2, 0, 0
    while offset < end:
        if _enough(unread, size):
            return [*items, _rest(content[offset:end])]
        stop = content.find(b",\n", offset, end)
        raw = content[offset : stop if stop >= 0 else end]
        if raw[:2] != b'{"' or raw[-1:] != b"}" or b"\n" in raw:
            return None
        if raw.endswith(READ):
            items.append(Item(raw, None, offset))
        else:
            items.append(Item(raw, json.loads(raw), offset))
            unread, size = unread + items[-1].unread, size + len(raw)
        offset += len(raw) + 2
    return items


def _begin_values(content: bytes) -> list[Item] | None:
    """The first elements in any layout; None for what does not look like an array."""
    text = content.decode().strip()
    if text[:1] != "[" or text[-1:] != "]":
        return None
    items: list[Item] = []
    at, end, unread, size = _after_blanks(text, 1), len(text) - 1, 0, 0
    while at < end:
        if _enough(unread, size):
            return [*items, _rest(text[at:end].rstrip().encode())]
        value, stop = _decode(text, at)
        items.append(Item(None, value))
        unread, size = unread + items[-1].unread, size + stop - at
        at = _after_blanks(text, stop)
        if at < end:
            if text[at] != ",":
                return None
            at = _after_blanks(text, at + 1)
    return items


def _after_blanks(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    return found.end() if found is not None else at


def _enough(unread: int, size: int) -> bool:
    return unread >= _MOST_PARSED or size > _MOST_PARSED_BYTES


def _rest(raw: bytes) -> Item:
    item = Item(raw, raw)
    item.rest = True
    return item


def encode(value: object) -> bytes:
    """A value on one line; half characters, which UTF-8 cannot hold, stay escaped as they came."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def _split_lines(content: bytes) -> list[Item] | None:
    """The elements when the layout is ours, else None. A raw newline never stands inside a JSON string."""
    if content[:4] != b'[\n{"' or content[-3:] != b"}\n]":
        return None
    lines = content[2:-2].split(b",\n")
    if content.count(b"\n") != len(lines) + 1:
        return None
    items: list[Item] = []
    offset = 2
    _known.begin()
    for raw in lines:
        if raw[:2] != b'{"' or raw[-1:] != b"}":
            return None
        if raw.endswith(READ):
            items.append(Item(raw, None, offset))
        else:
            items.append(Item(raw, _known.value(raw) if len(raw) <= _SHORT else json.loads(raw), offset))
        offset += len(raw) + 2
    return items


class _Known:
    """Unread lines that were parsed lately: each is read again with every later one.

    Two generations: what no reading of the last ones met is dropped, so consumed mail stays in memory of no process.
    """

    def __init__(self) -> None:
        self._new: dict[bytes, tuple[object, Entry | None]] = {}
        self._old: dict[bytes, tuple[object, Entry | None]] = {}
        self._missed = 0

    def __len__(self) -> int:
        return len(self._new) + len(self._old)

    def begin(self) -> None:
        """An array is about to be read: its lines are met again, or dropped at the next turn."""
        if self._missed >= _TURN:
            self._old, self._new, self._missed = self._new, {}, 0

    def value(self, raw: bytes) -> object:
        """The line's value. Raises ValueError."""
        found = self._new.get(raw)
        if found is None:
            found = self._old.pop(raw, None)
            if found is None:
                found = (json.loads(raw), None)
                self._missed += 1
            self._new[raw] = found
        return found[0]

    def entry(self, raw: bytes) -> Entry:
        """The line as an entry."""
        value = self.value(raw)
        entry = self._new[raw][1]
        if entry is None:
            entry = parse_entry(cast("dict[str, Any]", value))
            self._new[raw] = (value, entry)
        return entry


_known = _Known()
