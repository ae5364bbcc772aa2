"""Assignments to attributes of other objects, found by the annotations of the source.

A class is known by its name, which is unique in the tree. The type of an expression is read from annotations of
parameters, fields, properties and functions, and from calls of classes; an expression without one is left out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

from tests.structure.source import Function, Module, modules

_WRAPPERS = {"Optional", "Awaitable", "Annotated", "Final", "ClassVar"}
_COLLECTIONS = {
    "list",
    "tuple",
    "set",
    "frozenset",
    "Sequence",
    "Iterable",
    "Iterator",
    "Collection",
    "dict",
    "Mapping",
}


@dataclass
class Class:
    """A class of the source, with the annotations of its fields, properties and methods."""

    name: str
    module: Module
    bases: list[str]
    fields: dict[str, str] = field(default_factory=dict)

    @property
    def package(self) -> str:
        """The top-level package that contains it."""
        return self.module.layer


@dataclass(frozen=True)
class Assignment:
    """An assignment to `owner.attribute` in `module`, outside of the class and its base classes."""

    module: Module
    owner: Class
    attribute: str

    @property
    def is_foreign(self) -> bool:
        """True when the class is in another package, or group of packages that work on one object."""
        ours, theirs = _GROUPS.get(self.module.layer, self.module.layer), self.owner.package
        return _GROUPS.get(theirs, theirs) != ours

    @property
    def is_callback(self) -> bool:
        """True when a callable is assigned to the attribute."""
        return _is_callable(_field(self.owner, self.attribute))


_GROUPS = {
    **dict.fromkeys(("team_records", "subagents", "backends", "external"), "teams"),
    **dict.fromkeys(("saved", "member_process"), "session"),
}
"""Packages that carry on the objects of another one: a backend sets the state of its teammate."""


@cache
def classes() -> dict[str, Class]:
    """Return the classes of the source by name, also nested and private ones."""
    found: dict[str, Class] = {}
    for module in modules():
        for node in module.nodes:
            if isinstance(node, ast.ClassDef):
                bases = [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases]
                found[node.name] = Class(node.name, module, bases, _fields_of(node))
    return found


@cache
def aliases() -> dict[str, str]:
    """Return the type aliases of the source: name and definition."""
    return {name: text for module in modules() for node in module.tree.body for name, text in _aliases_of(node)}


def _aliases_of(node: ast.stmt) -> Iterator[tuple[str, str]]:
    match node:
        case ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id="TypeAlias"), value=ast.expr() as value):
            yield name, ast.unparse(value)
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript(value=ast.Name(id="Callable")) as value):
            yield name, ast.unparse(value)
        case _:
            pass


@cache
def functions() -> dict[str, str]:
    """Return the result annotations of functions at the top of a module, where all functions of a name agree."""
    found: dict[str, set[str]] = {}
    for module in modules():
        for node in module.tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
                found.setdefault(node.name, set()).add(ast.unparse(node.returns))
    return {name: next(iter(results)) for name, results in found.items() if len(results) == 1}


@cache
def assignments() -> tuple[Assignment, ...]:
    """Return the assignments to attributes of other objects."""
    return tuple(one for module in modules() if module.layer not in {"", "testing"} for one in _of_module(module))


def _of_module(module: Module) -> Iterator[Assignment]:
    for node in module.tree.body:
        if isinstance(node, Function):
            yield from _of_function(module, node, {}, "")
        elif isinstance(node, ast.ClassDef):
            for method in node.body:
                yield from _of_function(module, method, {}, node.name) if isinstance(method, Function) else ()


def _of_function(module: Module, node: Function, outer: dict[str, str], owner: str) -> Iterator[Assignment]:
    known = dict(outer)
    if owner:
        known["self"] = known["cls"] = owner
    arguments = node.args
    for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        if one.annotation is not None:
            known[one.arg] = ast.unparse(one.annotation)
    body = list(_walk(node))
    for inner in body:
        known |= {name: found for name, found in _names_of(inner, known) if found}
    for target in (target for inner in body for target in _targets(inner)):
        definer = _definer_of(target, known) if isinstance(target, ast.Attribute) else None
        if isinstance(target, ast.Attribute) and definer is not None and not _is_a(owner, definer):
            yield Assignment(module, definer, target.attr)
    for inner in body:
        if isinstance(inner, Function):
            yield from _of_function(module, inner, known, "")


def _definer_of(target: ast.Attribute, known: dict[str, str]) -> Class | None:
    """Return the class that defines the attribute; None for the own object and for an unknown type."""
    if isinstance(target.value, ast.Name) and target.value.id == "self":
        return None
    found = _class_of(_type_of(target.value, known))
    return None if found is None else _definer(found, target.attr)


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _walk(child)


def _targets(node: ast.AST) -> Iterator[ast.expr]:
    given: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        given = node.targets
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        given = [node.target]
    for target in given:
        yield from target.elts if isinstance(target, ast.Tuple) else [target]


def _names_of(node: ast.AST, known: dict[str, str]) -> Iterator[tuple[str, str]]:
    match node:
        case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
            yield name, ast.unparse(annotation)
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
            pairs = zip(names, values, strict=False)
            yield from ((one.id, _type_of(value, known)) for one, value in pairs if isinstance(one, ast.Name))
        case ast.Assign(targets=targets, value=value):
            yield from ((one.id, _type_of(value, known)) for one in targets if isinstance(one, ast.Name))
        case ast.NamedExpr(target=ast.Name(id=name), value=value):
            yield name, _type_of(value, known)
        case ast.For(target=ast.Name(id=name), iter=value) | ast.comprehension(target=ast.Name(id=name), iter=value):
            yield name, _element(_type_of(value, known))
        case ast.withitem(optional_vars=ast.Name(id=name), context_expr=value):
            yield name, _element(_type_of(value, known))
        case _:
            pass


def _type_of(node: ast.expr, known: dict[str, str]) -> str:
    """Return the annotation of an expression; empty when it is not known."""
    match node:
        case ast.Name(id=name):
            return known.get(name, "")
        case ast.Attribute(value=value, attr=attr):
            owner = _class_of(_type_of(value, known))
            return _field(owner, attr) if owner is not None else ""
        case ast.Call(func=ast.Name(id=name)):
            return name if name in classes() else functions().get(name, "")
        case ast.Call(func=ast.Attribute() as value) | ast.Await(value=value) | ast.NamedExpr(value=value):
            return _type_of(value, known)
        case ast.IfExp(body=one, orelse=other):
            return _type_of(one, known) or _type_of(other, known)
        case ast.BoolOp(values=values):
            return next((found for value in values if (found := _type_of(value, known))), "")
        case ast.Subscript(value=value):
            return _element(_type_of(value, known))
        case _:
            return ""


def _element(annotation: str) -> str:
    """Return the last argument of a collection's annotation: its elements, or the values of a mapping."""
    found = re.fullmatch(r"\w+\[(.*)\]", annotation)
    if found is None:
        return ""
    return re.split(r", (?![^\[]*\])", found[1].replace(", ...", ""))[-1]


def _class_of(annotation: str) -> Class | None:
    """Return the class that an annotation names; None for none, several or a collection."""
    parts = [part.strip().strip("'\"") for part in annotation.split("|")]
    named = [part for part in parts if part and part != "None"]
    if len(named) != 1:
        return None
    name, _, inner = named[0].partition("[")
    if name in _WRAPPERS and inner:
        return _class_of(inner.rstrip("]"))
    return classes().get(name) if name not in _COLLECTIONS else None


def _field(owner: Class, name: str) -> str:
    """Return the annotation of a field, property or method's result; of base classes too."""
    if name in owner.fields:
        return owner.fields[name]
    for base in owner.bases:
        if base in classes() and (found := _field(classes()[base], name)):
            return found
    return ""


def _definer(owner: Class, name: str) -> Class | None:
    if name in owner.fields:
        return owner
    found = (_definer(classes()[base], name) for base in owner.bases if base in classes())
    return next((one for one in found if one is not None), None)


def _is_a(name: str, other: Class) -> bool:
    if name == other.name:
        return True
    return name in classes() and any(_is_a(base, other) for base in classes()[name].bases)


def _fields_of(node: ast.ClassDef) -> dict[str, str]:
    found: dict[str, str] = {}
    for inner in node.body:
        if isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name):
            found[inner.target.id] = ast.unparse(inner.annotation)
        elif isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
            if inner.name == "__init__":
                found |= _fields_of_init(inner)
            elif inner.returns is not None:
                found[inner.name] = ast.unparse(inner.returns)
    return found


def _fields_of_init(node: Function) -> dict[str, str]:
    known = {one.arg: ast.unparse(one.annotation) for one in node.args.args + node.args.kwonlyargs if one.annotation}
    found: dict[str, str] = {}
    for inner in ast.walk(node):
        match inner:
            case ast.AnnAssign(target=ast.Attribute(value=ast.Name(id="self"), attr=name), annotation=annotation):
                found[name] = ast.unparse(annotation)
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=value):
                found.setdefault(name, _plain_type(value, known))
            case _:
                pass
    return found


def _plain_type(node: ast.expr, known: dict[str, str]) -> str:
    if isinstance(node, ast.Name):
        return known.get(node.id, "")
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id
    return ""


def _is_callable(annotation: str) -> bool:
    names = re.findall(r"\w+", annotation)
    return "Callable" in names or any("Callable" in aliases().get(name, "") for name in names)
