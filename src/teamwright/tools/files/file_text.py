"""Conversion of a text file's bytes to text and back, with everything that the text does not show.

Byte order mark, UTF-16, Windows line ends and bytes that are not UTF-8 are kept by a change elsewhere in the file.
Opens no file.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

_BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_PROBE = 8192
_CONTEXT = 3
_DIFFABLE_LINES = 5_000
_HUNK = re.compile(r"^@@ -(\d+)(,\d+)? \+(\d+)(,\d+)? @@")


class FileText(Struct, frozen=True):
    """A text with its encoding. With `crlf` every line ended in CR LF and `text` has plain line feeds."""

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""
    crlf: bool = False

    def encode(self) -> bytes:
        """Return the bytes. Raises UnicodeEncodeError for text that the encoding cannot represent."""
        text = self.text.replace("\n", "\r\n") if self.crlf else self.text
        return self.mark + text.encode(self.encoding, "surrogateescape")

    def with_text(self, text: str) -> FileText:
        """Return another text with the same encoding: with `crlf` both kinds of line ends in it become CR LF."""
        return replace(self, text=text.replace("\r\n", "\n") if self.crlf else text)


def decode(content: bytes) -> FileText:
    """Decode the bytes. Bytes that are not UTF-8 become lone surrogates, which `encode` turns back."""
    mark, encoding = next(((m, e) for m, e in _BYTE_ORDER_MARKS if content.startswith(m)), (b"", "utf-8"))
    text = content[len(mark) :].decode(encoding, "surrogateescape" if encoding == "utf-8" else "replace")
    crlf = "\r\n" in text and text.count("\r\n") == text.count("\n")
    return FileText(text.replace("\r\n", "\n") if crlf else text, encoding, mark, crlf)


def is_binary(content: bytes) -> bool:
    """Return True for bytes that are not text: a NUL near the beginning, or a UTF-16 mark before other data."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "\ufffd" in decode(content).text
    return b"\0" in content[:_PROBE]


def replace_surrogates(text: str) -> str:
    """Return the text for a model or a screen: lone surrogates become the replacement character."""
    return text.encode("utf-8", "replace").decode() if _has_surrogates(text) else text


def unified_diff(name: str, before: str, after: str) -> str:
    """Return a unified diff, empty for equal texts.

    Equal ends are not compared, so a small change in a large file is cheap; two texts with thousands of different lines
    are given as counts.
    """
    old, new = _lines(before), _lines(after)
    start = _common_length(old, new)
    end = _common_length(old[start:][::-1], new[start:][::-1])
    first, last = max(0, start - _CONTEXT), max(0, end - _CONTEXT)
    old_part, new_part = old[first : len(old) - last], new[first : len(new) - last]
    heads = f"--- a/{name}\n+++ b/{name}\n"
    if len(old_part) + len(new_part) > _DIFFABLE_LINES:
        return f"{heads}@@ {len(old_part)} lines replaced by {len(new_part)} from line {first + 1} on @@\n"
    import difflib

    lines = list(difflib.unified_diff(old_part, new_part, n=_CONTEXT))[2:]
    return heads + "".join(_diff_line(line, first) for line in lines) if lines else ""


def count_changes(diff: str) -> tuple[int, int]:
    """Return the numbers of added and removed lines in a unified diff."""
    lines = diff.split("\n")[2:]
    return sum(line.startswith("+") for line in lines), sum(line.startswith("-") for line in lines)


def _lines(text: str) -> list[str]:
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _has_surrogates(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _common_length(first: Sequence[str], second: Sequence[str]) -> int:
    count = 0
    for left, right in zip(first, second, strict=False):
        if left != right:
            break
        count += 1
    return count


def _diff_line(line: str, offset: int) -> str:
    if found := _HUNK.match(line):
        old, old_size, new, new_size = found.groups()
        return f"@@ -{int(old) + offset}{old_size or ''} +{int(new) + offset}{new_size or ''} @@\n"
    return line if line.endswith("\n") else line + "\n\\ No newline at end of file\n"
