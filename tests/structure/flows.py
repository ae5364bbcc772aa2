"""The flows of ARCHITECTURE.md: the files that each passes, and the functions that it names."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/teamwright"
_NAMED = re.compile(r"`([\w/]+\.py)(?::([\w.]+))?`")


def flows() -> dict[str, list[tuple[str, str]]]:
    """Return the paths and names of each flow in order, by its heading. A path without a name has an empty one."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    sections = re.findall(r"^### (From .+)\n((?:(?!^#).*\n)+)", text, re.M)
    return {heading: _NAMED.findall(body) for heading, body in sections}


def named() -> list[tuple[str, str]]:
    """Return all paths and names of the page."""
    return _NAMED.findall((ROOT / "ARCHITECTURE.md").read_text())


def is_defined(path: str, name: str) -> bool:
    """Return True when the module exists and has the function, the class, or the method of the class."""
    file = next((one for one in (SOURCE / path, ROOT / path) if one.is_file()), None)
    if file is None:
        return False
    return not name or name in set(_definitions(ast.parse(file.read_text()).body, ""))


def _definitions(body: list[ast.stmt], outer: str) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield outer + node.name
        if isinstance(node, ast.ClassDef):
            yield from _definitions(node.body, f"{node.name}.")
