"""Notebooks (nbformat 4, nbformat.readthedocs.io): conversion between bytes, document and text for a model.

Opens no file and changes no cell.
"""

from __future__ import annotations

import json
import re
from typing import Any, TypeAlias, cast

Notebook: TypeAlias = dict[str, Any]
Cell: TypeAlias = dict[str, Any]

_OUTPUT = 2_000
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def parse(content: bytes) -> Notebook:
    """Parse the document. Raises ValueError when it is not a notebook of format 4."""
    document: Any = json.loads(content.decode("utf-8-sig"))
    if not isinstance(document, dict) or not isinstance(cast("Notebook", document).get("cells"), list):
        raise ValueError("there is no list of cells in it")
    return cast("Notebook", document)


def serialise(document: Notebook, former: bytes) -> bytes:
    """Return the bytes, with the indent and the ending of the former ones."""
    indent = re.match(rb"\{\r?\n( *)\"", former)
    text = json.dumps(document, ensure_ascii=False, indent=len(indent.group(1)) if indent else None)
    return text.encode("utf-8", "surrogatepass") + (b"\n" if former.endswith(b"\n") else b"")


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
    """All cells with their ids, and their outputs, cut."""
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
