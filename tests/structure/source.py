"""The source of the package, parsed once for all tests of its structure."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent / "src"
PACKAGE = "teamwright"
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """One module: its dotted name, its file and what the file contains."""

    name: str
    path: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.text)

    @property
    def is_package(self) -> bool:
        """True for an `__init__.py`."""
        return self.path.name == "__init__.py"

    @property
    def layer(self) -> str:
        """The top-level package that contains it; empty for the modules of the root package."""
        parts = self.name.split(".")
        return parts[1] if len(parts) > 2 or (self.is_package and len(parts) == 2) else ""

    @property
    def lines(self) -> int:
        """The number of lines."""
        return self.text.count("\n")

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of the tree."""
        return list(ast.walk(self.tree))

    def functions(self) -> Iterator[Function]:
        """Each function and method, nested ones too."""
        return (node for node in self.nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))

    def classes(self) -> Iterator[ast.ClassDef]:
        """Each class at the top of the module."""
        return (node for node in self.tree.body if isinstance(node, ast.ClassDef))

    @cached_property
    def imported(self) -> frozenset[str]:
        """The modules of the package that it imports, inside functions and for types too."""
        known = by_name()
        found: set[str] = set()
        for node in self.nodes:
            if isinstance(node, ast.ImportFrom) and node.module:
                inner = {f"{node.module}.{alias.name}" for alias in node.names}
                found |= inner & known.keys() or {node.module} & known.keys()
            elif isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names} & known.keys()
        return frozenset(found - {self.name})

    def prose(self) -> str:
        """Docstrings and comments, without code in backquotes."""
        texts = [
            doc
            for node in self.nodes
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and (doc := ast.get_docstring(node))
        ]
        comments = re.findall(r"(?:^|\s)#\s(.*)$", self.text, flags=re.M)
        return re.sub(r"`[^`]*`", "", "\n".join([*texts, *comments]))


@cache
def modules() -> tuple[Module, ...]:
    """Return every module, by path."""
    return tuple(Module(_name(path), path, path.read_text()) for path in sorted((ROOT / PACKAGE).rglob("*.py")))


@cache
def by_name() -> dict[str, Module]:
    """Return the modules by their dotted names."""
    return {module.name: module for module in modules()}


def length(function: Function) -> int:
    """Return how many lines a function has."""
    return (function.end_lineno or function.lineno) - function.lineno + 1


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
