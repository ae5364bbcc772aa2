"""Notebooks (nbformat 4, nbformat.readthedocs.io): conversion between bytes, document and text for a model.

Opens no file and changes no cell.
"""

from __future__ import annotations

import json
import re
from typing import Any, Literal, TypeAlias, cast

from msgspec import Struct

Notebook: TypeAlias = dict[str, Any]
Cell: TypeAlias = dict[str, Any]
EditMode: TypeAlias = Literal["replace", "insert", "delete"]

_OUTPUT = 2_000
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def parse(content: bytes) -> Notebook:
    """Parse the document. Raises ValueError when it is not a notebook of format 4."""
    document: Any = json.loads(content.decode("utf-8-sig"))
    if not isinstance(document, dict) or not isinstance(cast("Notebook", document).get("cells"), list):
        raise ValueError("there is no list of cells in it")
    return cast("Notebook", document)


class _Style(Struct, frozen=True):
    """The style of a JSON file: its line end and its indent, both empty for one line. `is_ascii`: it has escapes."""

    line_end: str
    indent: str
    is_ascii: bool
    comma: str = ", "
    colon: str = ": "

    @classmethod
    def read(cls, text: str) -> _Style:
        found = re.match(r"\s*\{(\r?\n)([ \t]*)\"", text)
        is_ascii = text.isascii() and "\\u" in text
        if found is not None:
            return cls(found[1], found[2], is_ascii)
        return cls("", "", is_ascii, ", " if '", "' in text or "}, {" in text else ",", ": " if '": ' in text else ":")

    def dump(self, value: object, depth: int) -> str:
        """Return the value as a line of this depth has it."""
        if not self.line_end:
            return json.dumps(value, ensure_ascii=self.is_ascii, separators=(self.comma, self.colon))
        text = json.dumps(value, ensure_ascii=self.is_ascii, indent=self.indent, separators=(",", ": "))
        return text.replace("\n", self.line_end + self.indent * depth)

    def begin(self, depth: int) -> str:
        """Return the beginning of a line of this depth."""
        return self.line_end + self.indent * depth if self.line_end else ""

    def after_comma(self, depth: int) -> str:
        """Return the characters between a comma and the next value."""
        return self.begin(depth) or self.comma[1:]


def replace_bytes(content: bytes, document: Notebook, at: int, mode: EditMode) -> bytes:
    """Return the bytes with one cell of the document replaced, inserted or deleted; all other bytes stay.

    `document` has the change already; `at` is the index of the cell, in the old document where it was deleted. Raises
    ValueError when the change would need other bytes too.
    """
    text = content.decode("utf-8").removeprefix(_BOM)
    style = _Style.read(text)
    array = _members(text, _skip(text, 0))["cells"]
    items = _items(text, array[0])
    if mode == "delete":
        start, end = _deleted_span(array, items, at)
        changed = text[:start] + text[end:]
    elif mode == "insert":
        changed = _insert_text(text, style, array, items, at, style.dump(cells(document)[at], 2))
    else:
        changed = _replace_text(text, style, items[at], cells(document)[at])
    if json.loads(changed) != document:
        raise ValueError("its cells cannot be found in its text")
    return content[: len(content) - len(text.encode("utf-8"))] + changed.encode("utf-8", "surrogatepass")


_BOM = "\ufeff"
_BLANK = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()
_Span: TypeAlias = tuple[int, int]


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return at if found is None else found.end()


def _members(text: str, at: int) -> dict[str, _Span]:
    """Return the places of the values of the object that begins here."""
    found: dict[str, _Span] = {}
    at = _skip(text, at + 1)
    while text[at] != "}":
        key, at = _DECODER.raw_decode(text, at)
        start = _skip(text, _skip(text, at) + 1)
        _, at = _DECODER.raw_decode(text, start)
        found[str(key)] = (start, at)
        at = _skip(text, at)
        at = _skip(text, at + 1) if text[at] == "," else at
    return found


def _items(text: str, at: int) -> list[_Span]:
    """Return the places of the values of the array that begins here."""
    found: list[_Span] = []
    at = _skip(text, at + 1)
    while text[at] != "]":
        _, end = _DECODER.raw_decode(text, at)
        found.append((at, end))
        at = _skip(text, end)
        at = _skip(text, at + 1) if text[at] == "," else at
    return found


def _deleted_span(array: _Span, items: list[_Span], at: int) -> _Span:
    if len(items) == 1:
        return array[0] + 1, array[1] - 1
    return (items[at][0], items[at + 1][0]) if at + 1 < len(items) else (items[at - 1][1], items[at][1])


def _insert_text(text: str, style: _Style, array: _Span, items: list[_Span], at: int, cell: str) -> str:
    if not items:
        return f"{text[: array[0]]}[{style.begin(2)}{cell}{style.begin(1)}]{text[array[1] :]}"
    if at == 0:
        start = items[0][0]
        return f"{text[:start]}{cell},{style.after_comma(2)}{text[start:]}"
    end = items[at - 1][1]
    return f"{text[:end]},{style.after_comma(2)}{cell}{text[end:]}"


def _replace_text(text: str, style: _Style, span: _Span, cell: Cell) -> str:
    """Replace the values of the cell that differ; the whole cell when it has other keys now."""
    places = _members(text, span[0])
    if set(places) != set(cell):
        return text[: span[0]] + style.dump(cell, 2) + text[span[1] :]
    for key, (start, end) in sorted(places.items(), key=lambda one: -one[1][0]):
        if _DECODER.raw_decode(text, start)[0] != cell[key]:
            text = text[:start] + style.dump(cell[key], 3) + text[end:]
    return text


def cells(document: Notebook) -> list[Cell]:
    """Return the cells in order."""
    return cast("list[Cell]", document["cells"])


def join_source(source: str | list[str] | None) -> str:
    """Return a multi-line string of the format as text."""
    return source if isinstance(source, str) else "".join(source or ())


def split_source(text: str) -> list[str]:
    """Return a text as a multi-line string of the format."""
    return text.splitlines(keepends=True)


def find_cell(document: Notebook, name: str) -> int | None:
    """Return the index of the cell with this id or number (`3`, `cell-3`, from 0), or None."""
    listed = cells(document)
    by_id = [n for n, cell in enumerate(listed) if cell.get("id") == name]
    if by_id:
        return by_id[0]
    number = name.strip().removeprefix("cell-")
    return int(number) if number.isdecimal() and int(number) < len(listed) else None


def render(document: Notebook) -> str:
    """Return all cells with their ids, and their outputs, cut."""
    parts: list[str] = []
    for n, cell in enumerate(cells(document)):
        kind = cell.get("cell_type", "raw")
        parts.append(
            f'<cell {n} id="{cell.get("id", f"cell-{n}")}" type="{kind}">\n{join_source(cell.get("source"))}\n</cell>'
        )
        outputs = [text for one in cast("list[Cell]", cell.get("outputs") or []) if (text := _output(one))]
        if outputs:
            parts.append(f"<output {n}>\n" + "\n".join(outputs) + "\n</output>")
    return "\n".join(parts)


def _output(output: Cell) -> str:
    match output.get("output_type"):
        case "stream":
            text = join_source(output.get("text"))
        case "error":
            text = join_source([f"{line}\n" for line in output.get("traceback") or [str(output.get("evalue", ""))]])
        case _:
            content_by_type = cast("dict[str, Any]", output.get("data") or {})
            others = [f"[{kind}]" for kind in content_by_type if not kind.startswith("text/")]
            text = join_source(content_by_type.get("text/plain")) + ("\n" + " ".join(others) if others else "")
    text = _ANSI.sub("", text).strip("\n")
    return text if len(text) <= _OUTPUT else f"{text[:_OUTPUT]}\n[… {len(text) - _OUTPUT:,} characters more]"
