"""What the rules of the structure find: each function returns the exceptions that are left, as sorted texts."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import teamwright
from teamwright import testing
from tests.structure.assignments import assignments
from tests.structure.source import Module, by_name, length, modules

LAYERS = (
    *("protocol", "storage", "processes", "git", "sandbox", "shell_lines"),
    "models permissions hooks tasks skills mail mcp worktrees",
    *("requests", "agent", "team_records", "subagents", "teams", "backends", "external", "database"),
    *("tools", "config", "budgets", "approvals", "saved", "telemetry", "session", "member_process"),
    *("views", "edit_history", "api"),
    "ui testing",
)
"""Top-level packages, from below. A package imports those of earlier entries only, and none beside it."""

CATCH_ALLS = frozenset(
    ["words", "utils", "helpers", "common", "misc", "data", "manager", "handler", "making", "shown", "told"]
)
"""Module names that say nothing."""

DIALECT = re.compile(
    r"\b(whoever|whatever|whom|nobody|somebody|anew|goes on|go on with|gone on|is told|are told|was told|stands|lies|"
    r"bears|is over|of ours|of its own|by itself|meanwhile|mend|behind it)\b",
    re.IGNORECASE,
)
"""Words that plain technical English does without."""

STORES = {
    "roster": frozenset(["config"]),
    "team state": frozenset(["team_file"]),
    "mailbox": frozenset(["inbox", "inbox_archive"]),
    "requests": frozenset(["requests"]),
    "tasks": frozenset(["tasks"]),
    "doorbell": frozenset(["doorbell"]),
    "lease": frozenset(["LEASE"]),
    "event log": frozenset(["events.jsonl"]),
    "rate limits": frozenset(["rate_limits"]),
    "locks": frozenset(["guard"]),
}
"""Stores of state that processes share, with the names of their paths: attributes of a home, and constants."""

STORE_MODULES = (
    *("teamwright.storage.", "teamwright.tasks.", "teamwright.mail.", "teamwright.requests."),
    *("teamwright.team_records.roster", "teamwright.team_records.team_state"),
    "teamwright.team_records.file_stores",
    "teamwright.models.rate_limit",
)
"""The modules that implement stores on files, and the one that makes them for a session."""

EXPORTED = frozenset([*teamwright.__all__, *testing.__all__])
"""Names of the Python API."""

LEVEL = {package: level for level, entry in enumerate(LAYERS) for package in entry.split()}


def upward_imports() -> list[str]:
    """Return each import from a package of a layer that is not below."""
    return sorted(
        f"{module.name} -> {name}"
        for module in modules()
        for name in module.imported
        if module.layer
        and (target := by_name()[name].layer)
        and target != module.layer
        and LEVEL[target] >= LEVEL[module.layer]
    )


def two_way_folders() -> list[str]:
    """Return each pair of folders with one parent that import each other, at every level."""
    edges: set[tuple[str, str]] = set()
    for module in modules():
        for name in module.imported:
            ours, theirs = _folders(module.name, module.is_package), _folders(name, by_name()[name].is_package)
            edges |= set([pair for pair in zip(ours, theirs, strict=False) if pair[0] != pair[1]][:1])
    return sorted(f"{one} <-> {other}" for one, other in edges if one < other and (other, one) in edges)


def _folders(name: str, is_package: bool) -> list[str]:
    parts = name.split(".")
    count = len(parts) if is_package else len(parts) - 1
    return [".".join(parts[: depth + 1]) for depth in range(1, count)]


def repeated_class_names() -> list[str]:
    """Return each public class name that several modules use, with these."""
    places: dict[str, list[str]] = defaultdict(list)
    for module in modules():
        for node in module.classes():
            if not node.name.startswith("_"):
                places[node.name].append(module.name.removeprefix("teamwright."))
    return sorted(f"{name}: {', '.join(sorted(used))}" for name, used in places.items() if len(used) > 1)


def repeated_module_names() -> list[str]:
    """Return each module name that is used several times inside one top-level package."""
    places: dict[tuple[str, str], list[str]] = defaultdict(list)
    for module in modules():
        if not module.is_package and module.layer:
            places[module.layer, module.name.rpartition(".")[2]].append(module.name.removeprefix("teamwright."))
    return sorted(f"{name}: {', '.join(sorted(used))}" for (_, name), used in places.items() if len(used) > 1)


def catch_all_modules() -> list[str]:
    """Return each module and package with a name that says nothing."""
    return sorted(module.name for module in modules() if module.name.rpartition(".")[2] in CATCH_ALLS)


def dialect_words() -> dict[str, float]:
    """Return the words of the project's old dialect per 1,000 words of docstrings and comments, by package."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for module in modules():
        prose = module.prose()
        for key in (module.layer, "all"):
            counts[key][0] += len(DIALECT.findall(prose)) + len(_question_headings(module.prose()))
            counts[key][1] += len(prose.split())
    return {key: round(1000 * found / max(1, words), 1) for key, (found, words) in counts.items()}


def _question_headings(prose: str) -> list[str]:
    return re.findall(r"^(?:What|Who|Whom|Whether) ", prose, flags=re.M)


MODULE_LINES, FUNCTION_LINES = 700, 80
"""Above these sizes a module or a function needs one sentence of reason in `size_reasons.json`."""


def large_pieces() -> list[str]:
    """Return each module and each function (`module:function`) that is larger than usual."""
    found = [module.name for module in modules() if module.lines > MODULE_LINES]
    for module in modules():
        found += [f"{module.name}:{one.name}" for one in module.functions() if length(one) > FUNCTION_LINES]
    return sorted(found)


def size_reasons() -> dict[str, str]:
    """Return the reason for each module and function that may be larger than usual."""
    reasons: dict[str, str] = json.loads((Path(__file__).parent / "size_reasons.json").read_text())
    return reasons


SMALL_LINES = 8


def small_functions_used_once() -> list[str]:
    """Return the private functions of a few lines that their module names once: often a jump where a line would do."""
    found: list[str] = []
    for module in modules():
        used = Counter(node.id for node in module.nodes if isinstance(node, ast.Name))
        used.update(node.attr for node in module.nodes if isinstance(node, ast.Attribute))
        for one in module.functions():
            is_private = one.name.startswith("_") and not one.name.startswith("__")
            if is_private and length(one) <= SMALL_LINES and used[one.name] == 1 and not one.decorator_list:
                found.append(f"{module.name}:{one.name}")
    return found


def packed_assignments() -> int:
    """Return the number of assignments of several values to several names in one statement."""
    return sum(
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Tuple)
        and any(isinstance(target, ast.Tuple) for target in node.targets)
        for module in modules()
        for node in module.nodes
    )


def stores_named_by_path() -> list[str]:
    """Return each module outside the stores that names one by its path, with the store."""
    outside = [module for module in modules() if not module.name.startswith(STORE_MODULES)]
    return sorted(
        f"{module.name.removeprefix('teamwright.')} -> {store}"
        for module, used in zip(outside, map(_path_names, outside), strict=True)
        for store, names in STORES.items()
        if names & used
    )


def _path_names(module: Module) -> set[str]:
    """Return the attributes of homes, the constants and the names of files in a module."""
    found: set[str] = set()
    for node in module.nodes:
        match node:
            case ast.Attribute(value=ast.Name(id=owner) | ast.Attribute(attr=owner), attr=name) if "home" in owner:
                found.add(name)
            case ast.Name(id=name) if name.isupper():
                found.add(name)
            case ast.Constant(value="events.jsonl"):
                found.add("events.jsonl")
            case _:
                pass
    return found


def foreign_assignments() -> list[str]:
    """Return each attribute that code of another top-level package assigns to."""
    found = {f"{one.module.layer} -> {one.owner.name}.{one.attribute}" for one in assignments() if one.is_foreign}
    return sorted(found)


def late_callbacks() -> list[str]:
    """Return each attribute with a callable that is assigned outside of its class."""
    return sorted({f"{one.owner.name}.{one.attribute}" for one in assignments() if one.is_callback})


def names_resolved_elsewhere() -> list[str]:
    """Return each module outside `saved` and `live_agents` that decides that a name means no member."""
    return sorted(
        module.name
        for module in modules()
        if not module.name.startswith(
            ("teamwright.saved.", "teamwright.session.control.live_agents", "teamwright.protocol.")
        )
        and re.search(r"raise unknown_\w*member\(|return unknown_\w*member\(|raise UnknownMember\(", module.text)
    )


def unused_public_names() -> list[str]:
    """Return each public function, method and constant that nothing in the source names but its definition.

    Left out are names of the Python API, of the shipped fakes, of overriding methods, and of decorated functions, which
    a decorator registers.
    """
    named: Counter[str] = Counter()
    defined: dict[str, list[str]] = defaultdict(list)
    for module in modules():
        for node in module.nodes:
            named.update(_names_in(node))
        if module.layer not in {"api", "testing", ""}:
            for name in _public_definitions(module.tree):
                defined[name.rpartition(".")[2]].append(f"{module.name}:{name}")
    return sorted(place for name, places in defined.items() if not named[name] for place in places)


def _names_in(node: ast.AST) -> list[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name, ctx=ast.Load()) | ast.keyword(arg=str(name)):
            return [name]
        case ast.alias(name=name):
            return [name]
        case ast.Constant(value=str(text)) if text.isidentifier():
            return [text]
        case ast.JoinedStr() | _:
            return []


def _public_definitions(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_exempt(node):
            yield node.name
        elif isinstance(node, ast.ClassDef) and not node.bases and node.name not in EXPORTED:
            methods = [inner for inner in node.body if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef)]
            yield from (f"{node.name}.{method.name}" for method in methods if not _is_exempt(method))
        elif isinstance(node, ast.AnnAssign | ast.Assign):
            targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
            yield from (t.id for t in targets if isinstance(t, ast.Name) and not t.id.startswith("_"))


def _is_exempt(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    plain = {"property", "staticmethod", "classmethod", "cache", "asynccontextmanager", "contextmanager"}
    return node.name.startswith("_") or any(ast.unparse(d).rpartition(".")[2] not in plain for d in node.decorator_list)
