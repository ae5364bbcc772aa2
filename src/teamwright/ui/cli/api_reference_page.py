"""The generated lines of the page of the Python API: every public name, in Markdown that reads without a site.

Docstrings, signatures and the texts under fields are read from the source code.
"""

from __future__ import annotations

import ast
import inspect
import sys
from enum import Enum
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import teamwright
from teamwright.protocol.events import TeamEvent
from teamwright.protocol.field_docs import extended_typed_dicts, field_texts

FIRST_NAMES = ("run", "Team", "TeamOptions", "SpawnOptions", "Run", "Member", "Tasks", "Budget", "Result")
"""The names with which the page begins."""

_MADE_BY_TEAMWRIGHT = frozenset({"Run"})
"""Classes whose objects programs only receive: their constructors are not public."""

_PRIVATE = "not public API"
"""Words of the docstring of a member that the page leaves out."""


def render_api() -> str:
    """Return the generated lines: every name of the library in four groups."""
    groups: dict[str, list[str]] = {"Teams, results, models": [], "Events": [], "Errors": []}
    events = (*get_args(TeamEvent), TeamEvent)
    for name in dict.fromkeys((*FIRST_NAMES, *teamwright.__all__)):
        value = getattr(teamwright, name)
        is_error = isinstance(value, type) and issubclass(value, Exception)
        title = "Errors" if is_error else "Events" if value in events else "Teams, results, models"
        groups[title].append(_entry(name, value))
    fakes = import_module("teamwright.testing")  # for its texts alone: no package imports the shipped fakes
    testing = [_entry(name, getattr(fakes, name)) for name in fakes.__all__]
    groups["Tests without a service: `teamwright.testing`"] = testing
    return "\n\n".join("\n\n".join((f"## {title}", *entries)) for title, entries in groups.items())


def _entry(name: str, value: Any) -> str:
    """Return the section of one public name."""
    if inspect.isfunction(value):
        return "\n\n".join((f"### {name}", _code(_signature(_definition(value), name)), *_paragraphs(value.__doc__)))
    if isinstance(value, type):
        return "\n\n".join((f"### {name}", *_class_parts(name, value)))
    definition, text = _alias(name)
    return "\n\n".join((f"### {name}", _code(definition), *_paragraphs(text)))


def _class_parts(name: str, kind: type) -> list[str]:
    definition = _definition(kind)
    assert isinstance(definition, ast.ClassDef)
    parts = _paragraphs(ast.get_docstring(definition))
    named = [base.id for base in definition.bases if isinstance(base, ast.Name)]
    classes = (base for base in reversed(kind.__mro__) if base.__module__.startswith("teamwright."))
    bases = [*extended_typed_dicts(kind, named), *classes]
    bodies = [body for base in bases if isinstance(body := _definition(base), ast.ClassDef)]
    fields = dict[str, tuple[str, str]]()
    properties = dict[str, str]()
    methods = dict[str, str]()
    for base, body in zip(bases, bodies, strict=True):
        texts = field_texts(base)
        for node in body.body:
            match node:
                case ast.AnnAssign(target=ast.Name(id=field)) if _is_public(field) and field != "KIND":
                    shown = ast.unparse(node.annotation) + (f" = {ast.unparse(node.value)}" if node.value else "")
                    fields[field] = (_shortened(shown), texts.get(field, ""))
                case ast.Assign(targets=[ast.Name(id=field)]) if issubclass(kind, Enum):
                    fields[field] = (ast.unparse(node.value), texts.get(field, ""))
                case ast.FunctionDef() if _is_overload(node):
                    pass
                case ast.FunctionDef() | ast.AsyncFunctionDef() if (
                    node.name == "__init__" and base is kind and name not in _MADE_BY_TEAMWRIGHT
                ):
                    methods[node.name] = _code(_signature(node, name))
                case ast.FunctionDef() | ast.AsyncFunctionDef() if _is_public(node.name):
                    _add_method(name, node, properties, methods)
                case _:
                    pass
    if issubclass(kind, Exception):
        fields, properties = {}, {key: value for key, value in properties.items() if kind.__name__ == "TeamwrightError"}
        methods = {key: value for key, value in methods.items() if kind.__name__ == "TeamwrightError"}
    created = methods.pop("__init__", "")
    if created:
        parts.insert(0, created)
    if fields:
        has_texts = any(text for _, text in fields.values())
        rows = [
            f"| `{field}` | `{_cell(shown)}` |" + (f" {_cell(text)} |" if has_texts else "")
            for field, (shown, text) in fields.items()
        ]
        head = ["| name | type | meaning |", "|---|---|---|"] if has_texts else ["| name | type |", "|---|---|"]
        parts.append("\n".join([*head, *rows]))
    if properties:
        rows = [f"| `{key}` | {_cell(text)} |" for key, text in properties.items()]
        parts.append("\n".join(["| property | meaning |", "|---|---|", *rows]))
    return [*parts, *methods.values()]


def _add_method(
    owner: str, node: ast.FunctionDef | ast.AsyncFunctionDef, properties: dict[str, str], methods: dict[str, str]
) -> None:
    text = ast.get_docstring(node)
    if _PRIVATE in (text or ""):
        return
    if any(isinstance(one, ast.Name) and one.id == "property" for one in node.decorator_list):
        shown = ast.unparse(node.returns).replace("builtins.", "") if node.returns else ""
        properties[node.name] = f"`{shown}`: {' '.join((text or '').split())}"
        return
    head = f"#### {owner}.{node.name}"
    methods[node.name] = "\n\n".join((head, _code(_signature(node, node.name)), *_paragraphs(text)))


@cache
def _module(name: str) -> ast.Module:
    file = sys.modules[name].__file__
    assert file is not None
    return ast.parse(Path(file).read_text("utf-8"))


def _definition(value: Any) -> ast.stmt:
    """Return the definition of a class or a function in its module."""
    for node in ast.walk(_module(value.__module__)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == value.__name__ and not _is_overload(node):
            return node
    raise ValueError(f"{value.__name__} is not defined in {value.__module__}")


def _is_overload(node: ast.ClassDef | ast.FunctionDef) -> bool:
    return any(isinstance(one, ast.Name) and one.id == "overload" for one in node.decorator_list)


def _alias(name: str) -> tuple[str, str]:
    """Return the definition of a type alias, and the text under it."""
    module = teamwright.public_module(name)
    for node, text in pairwise(_module(module).body):
        match node, text:
            case (
                ast.AnnAssign(target=ast.Name(id=found)) | ast.Assign(targets=[ast.Name(id=found)]),
                ast.Expr(value=ast.Constant(value=str(about))),
            ) if found == name and node.value is not None:
                return f"{name} = {ast.unparse(node.value)}", about
            case _:
                pass
    raise ValueError(f"{name} has no text under its definition in {module}")


def _signature(node: ast.stmt, name: str) -> str:
    """Return a call as Python code, one parameter a line when it is long."""
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    arguments = node.args
    for position in (arguments.posonlyargs, arguments.args):
        if position and position[0].arg in {"self", "cls"}:
            del position[0]
            break
    returned = f" -> {ast.unparse(node.returns)}" if node.returns is not None and node.name != "__init__" else ""
    start = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    line = f"{start}{name}({ast.unparse(arguments)}){returned}"
    return line.replace("builtins.", "")


def _is_public(name: str) -> bool:
    return not name.startswith("_")


def _code(text: str) -> str:
    return f"```text\n{text}\n```"


def _shortened(text: str) -> str:
    return text.split(" = field(")[0]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _paragraphs(text: str | None) -> list[str]:
    """Return the paragraphs of a docstring, each on the lines that it has."""
    cleaned = inspect.cleandoc(text or "")
    return [cleaned] if cleaned else []
