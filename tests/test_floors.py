"""The floor plan is a test: imports point down, rooms stay small, and there is no list of exemptions."""

import ast
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

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


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def rooms_imported(tree: ast.AST) -> set[str]:
    names = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    parts = (name.split(".") for name in names if name.startswith("teamwright."))
    return {part[1] for part in parts if part[1] in FLOOR_OF}


def functions(tree: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def lines_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def named(paths: Iterable[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


def points_down(path: Path) -> bool:
    here = room_of(path)
    reached = rooms_imported(tree_of(path)) - {here}
    return here == "front door" or not {room for room in reached if FLOOR_OF[room] >= FLOOR_OF[here]}


def test_imports_only_point_down():
    assert not named(path for path in MODULES if not points_down(path))


def test_faces_see_only_app_and_protocol():
    faces = [path for path in MODULES if room_of(path) == "ui"]
    assert not named(path for path in faces if rooms_imported(tree_of(path)) - {"ui"} - FACES_SEE)


def test_every_room_has_a_floor():
    assert {room_of(path) for path in MODULES} <= set(FLOOR_OF) | {"front door"}


def test_no_room_of_ours_imports_the_shipped_fakes():
    outside = [path for path in MODULES if room_of(path) != "testing"]
    assert not named(path for path in outside if "testing" in rooms_imported(tree_of(path)))


def test_a_module_has_a_docstring():
    assert not named(path for path in MODULES if not ast.get_docstring(tree_of(path)))


def test_a_module_has_at_most_400_lines():
    assert not named(
        path for path in MODULES if path.read_text().count("\n") > (300 if path.name == "loop.py" else 400)
    )


def test_a_function_has_at_most_50_lines():
    long = [(path, one) for path in MODULES for one in functions(tree_of(path)) if lines_of(one) > 50]
    assert not [f"{path.relative_to(ROOT)}: {one.name}" for path, one in long]


def test_a_directory_holds_at_most_25_modules():
    crowded = {d for d in {p.parent for p in MODULES} if len(list(d.glob("*.py"))) > 26}
    assert not crowded


def test_data_classes_are_made_in_one_way():
    """`protocol/values.py` says why; for type checkers it is the standard one."""
    standard = re.compile(r"^from dataclasses import (\(\n)?[^)\n]*\bdataclass\b|\bdataclasses\.dataclass\b", re.M)
    ways = [str(p.relative_to(ROOT)) for p in MODULES if standard.search(p.read_text())]
    assert ways == ["protocol/values.py"], "write: from teamwright.protocol.values import dataclass"


def test_no_check_is_silenced():
    silenced = re.compile(r"# *(noqa|type: ignore|pragma: no cover|pyright: ignore)")
    assert not [p for p in MODULES if silenced.search(p.read_text())]


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: Path, known: set[str]) -> set[str]:
    """The modules of ours that a module names, at its top, inside functions, or for types alone."""
    found: set[str] = set()
    for node in ast.walk(tree_of(path)):
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
