"""Images that models accept, recognised by their bytes and not by a declared type.

A service refuses a whole request for one image that it cannot read, and every later request contains the same image:
one broken image would end a conversation. Checks the file's headers, not its pixels.
"""

from __future__ import annotations

import struct

MAX_IMAGE_BYTES = 3_750_000
"""Bytes of one image: 5 MB as base64, the smallest limit of the supported services."""

MAX_PIXELS = 8_000
"""Pixels of a side (as the Messages API documents it)."""

_PNG = b"\x89PNG\r\n\x1a\n"
_MAGIC = ((_PNG, "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF87a", "image/gif"), (b"GIF89a", "image/gif"))
_NO_FRAME = frozenset({0xC4, 0xC8, 0xCC})
"""Markers of a JPEG in the range of the frame markers that contain no size."""


def image_type(raw: bytes) -> str | None:
    """Return the media type of an image that models accept, by its first bytes; None for any other content."""
    if raw[:4] == b"RIFF" and raw[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _MAGIC if raw.startswith(magic)), None)


def image_problem(raw: bytes) -> str:
    """Return why these bytes are no image for a model, as a phrase that follows "it"; empty when they are one."""
    kind = image_type(raw)
    if kind is None:
        return "is no png, jpeg, gif or webp"
    if len(raw) > MAX_IMAGE_BYTES:
        return f"has {len(raw):,} bytes; {MAX_IMAGE_BYTES:,} is the most"
    try:
        width, height = _SIZES[kind](raw)
    except (struct.error, IndexError, ValueError):
        return f"is broken: it begins like {kind}, and cannot be read as that"
    if not (0 < width <= MAX_PIXELS and 0 < height <= MAX_PIXELS):
        return f"has {width:,} × {height:,} pixels; {MAX_PIXELS:,} a side is the most"
    return ""


def _png(raw: bytes) -> tuple[int, int]:
    at, data = len(_PNG), False
    while True:
        length, kind = struct.unpack_from(">I4s", raw, at)
        data = data or kind == b"IDAT"
        if kind == b"IEND":
            break
        at += 12 + length
    if not data or raw[12:16] != b"IHDR":
        raise ValueError
    width, height = struct.unpack_from(">II", raw, 16)
    return width, height


def _jpeg(raw: bytes) -> tuple[int, int]:
    at = 2
    while raw[at] == 0xFF:
        mark = raw[at + 1]
        if mark == 0xFF:
            at += 1
            continue
        if 0xC0 <= mark <= 0xCF and mark not in _NO_FRAME:
            height, width = struct.unpack_from(">HH", raw, at + 5)
            if raw.find(b"\xff\xd9", at) < 0:
                raise ValueError
            return width, height
        at += 2 + struct.unpack_from(">H", raw, at + 2)[0]
    raise ValueError


def _gif(raw: bytes) -> tuple[int, int]:
    if b";" not in raw[13:]:
        raise ValueError
    width, height = struct.unpack_from("<HH", raw, 6)
    return width, height


def _webp(raw: bytes) -> tuple[int, int]:
    if struct.unpack_from("<I", raw, 4)[0] + 8 > len(raw) + 1:
        raise ValueError
    match raw[12:16]:
        case b"VP8 ":
            width, height = struct.unpack_from("<HH", raw, 26)
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L":
            bits = struct.unpack_from("<I", raw, 21)[0]
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X":
            return (int.from_bytes(raw[24:27], "little") + 1, int.from_bytes(raw[27:30], "little") + 1)
        case _:
            raise ValueError


_SIZES = {"image/png": _png, "image/jpeg": _jpeg, "image/gif": _gif, "image/webp": _webp}
