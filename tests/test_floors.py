"""The floor plan is a test: imports point down, rooms stay small, and there is no list of exemptions."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "src" / "teamwright"

FLOORS = [
    {"protocol"},
    {"storage"},
    {"models", "permissions", "hooks", "tasks", "worktrees", "skills", "mail", "mcp"},
    {"agent"},
    {"teams"},
    {"tools"},
    {"app"},
    {"ui", "interop", "testing"},
]
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
FACES_SEE = {"app", "protocol"}
MODULES = sorted(ROOT.rglob("*.py"))


def room_of(path: Path) -> str:
    parts = path.relative_to(ROOT).parts
    return parts[0] if len(parts) > 1 else "front door"


def rooms_imported(tree: ast.AST) -> set[str]:
    names = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    parts = (name.split(".") for name in names if name.startswith("teamwright."))
    return {part[1] for part in parts if part[1] in FLOOR_OF}


def functions(tree: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_only_point_down(path):
    here = room_of(path)
    if here == "front door":
        return
    reached = rooms_imported(ast.parse(path.read_text())) - {here}
    assert not {room for room in reached if FLOOR_OF[room] >= FLOOR_OF[here]}


@pytest.mark.parametrize("path", [p for p in MODULES if room_of(p) == "ui"], ids=lambda p: str(p.relative_to(ROOT)))
def test_faces_see_only_app_and_protocol(path):
    assert rooms_imported(ast.parse(path.read_text())) - {"ui"} <= FACES_SEE


def test_every_room_has_a_floor():
    assert {room_of(path) for path in MODULES} <= set(FLOOR_OF) | {"front door"}


def test_no_room_of_ours_imports_the_shipped_fakes():
    assert not [p for p in MODULES if room_of(p) != "testing" and "testing" in rooms_imported(ast.parse(p.read_text()))]


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_module_has_a_docstring_at_most_400_lines_and_functions_of_at_most_50(path):
    text = path.read_text()
    tree = ast.parse(text)
    assert ast.get_docstring(tree)
    assert text.count("\n") <= (300 if path.name == "loop.py" else 400)
    long = [f.name for f in functions(tree) if (f.end_lineno or f.lineno) - f.lineno + 1 > 50]
    assert not long


def test_a_directory_holds_at_most_25_modules():
    crowded = {d for d in {p.parent for p in MODULES} if len(list(d.glob("*.py"))) > 26}
    assert not crowded


def test_data_classes_are_made_in_one_way():
    """`protocol/values.py` says why; for type checkers it is the standard one."""
    standard = re.compile(r"^from dataclasses import (\(\n)?[^)\n]*\bdataclass\b|\bdataclasses\.dataclass\b", re.M)
    ways = [str(p.relative_to(ROOT)) for p in MODULES if standard.search(p.read_text())]
    assert ways == ["protocol/values.py"], "write: from teamwright.protocol.values import dataclass"


def test_no_check_is_silenced():
    silenced = ("noqa", "type: ignore", "pragma: no cover", "pyright: ignore")
    assert not [p for p in MODULES if any(word in p.read_text() for word in silenced)]


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: Path, known: set[str]) -> set[str]:
    """The modules of ours that a module names, at its top, inside functions, or for types alone."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names} & known or {node.module} & known
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names} & known
    return found - {module_of(path)}


def test_no_modules_import_each_other_in_a_circle():
    known = {module_of(path) for path in MODULES}
    below = {module_of(path): imported(path, known) for path in MODULES if room_of(path) != "front door"}
    while leaves := {name for name, needs in below.items() if not needs & below.keys()}:
        below = {name: needs for name, needs in below.items() if name not in leaves}
    assert not below
