"""AWS event streams: binary frames with named headers, checked by CRC-32, cut anywhere.

Format: https://docs.aws.amazon.com/transcribe/latest/dg/event-stream.html (seen 2026-11-21). Knows no Bedrock.
"""

from __future__ import annotations

import json
import struct
from binascii import crc32
from typing import Any, cast

from teamwright.models.trouble import Trouble

PRELUDE = 12
"""Bytes before the headers: length of the frame, length of the headers, and their check."""
FRAME_MOST = 24 * 1024 * 1024
"""Bytes of a frame at most."""
_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Bytes of a header's value by its kind, where they are fixed."""
_BYTES, _STRING = 6, 7


class EventStreamReader:
    """Feed it bytes; it gives each event as `{"NAME": payload}`, and exceptions named `error`."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, chunk: bytes) -> list[tuple[str, bytes]]:
        """The events that these bytes complete. Raises `Trouble` for what is no event stream."""
        self._held += chunk
        events: list[tuple[str, bytes]] = []
        while (frame := self._frame()) is not None:
            events.append(_event(*frame))
        return events

    def _frame(self) -> tuple[dict[str, str], bytes] | None:
        if len(self._held) < PRELUDE:
            return None
        whole, headers, check = struct.unpack_from(">III", self._held)
        if check != crc32(self._held[:8]) or not PRELUDE + headers + 4 <= whole <= FRAME_MOST:
            raise Trouble("broken", "a frame of the event stream is damaged")
        if len(self._held) < whole:
            return None
        frame = bytes(self._held[:whole])
        del self._held[:whole]
        if crc32(frame[:-4]) != struct.unpack(">I", frame[-4:])[0]:
            raise Trouble("broken", "a frame of the event stream is damaged")
        end = PRELUDE + headers
        try:
            return _headers(frame[PRELUDE:end]), frame[end:-4]
        except (struct.error, IndexError, KeyError, ValueError):
            raise Trouble("broken", "a frame of the event stream is damaged") from None


def _headers(raw: bytes) -> dict[str, str]:
    """The headers that are strings; the others are passed over."""
    found: dict[str, str] = {}
    at = 0
    while at < len(raw):
        length = raw[at]
        name = raw[at + 1 : at + 1 + length].decode()
        kind = raw[at + 1 + length]
        at += 2 + length
        if kind in (_BYTES, _STRING):
            (size,) = struct.unpack_from(">H", raw, at)
            at += 2
            if kind == _STRING:
                found[name] = raw[at : at + size].decode()
        else:
            size = _SIZES[kind]
        at += size
    return found


def _event(headers: dict[str, str], payload: bytes) -> tuple[str, bytes]:
    kind = headers.get(":message-type", "event")
    if kind == "event":
        name = headers.get(":event-type", "")
        return name, b'{"%s":%s}' % (name.encode(), payload or b"{}")
    name = headers.get(":exception-type") or headers.get(":error-code", "error")
    message = headers.get(":error-message", "") or _message(payload)
    return "error", json.dumps({"error": {"type": name, "message": message}}).encode()


def _message(payload: bytes) -> str:
    try:
        said: object = json.loads(payload)
    except ValueError:
        return payload[:400].decode("utf-8", "replace")
    return str(cast("dict[str, Any]", said).get("message") or "") if isinstance(said, dict) else ""
