"""Data classes like those of the standard library, whose methods are compiled at their first use.

`dataclass` takes the options of `dataclasses.dataclass` that this program uses, and they mean the same; `field`,
`fields`, `replace`, `asdict` and `match` work on its classes. The standard one writes and compiles six methods for each
class that is defined, and a start defines hundreds and instantiates few: that was a third of its CPU time. Here
`__init__`, `__eq__` and `__hash__` are compiled with their first use and are then as fast; the representation, the
refusal to change a frozen instance, and copies need not be fast and are one function for all classes.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError, fields
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    from dataclasses import dataclass as _standard

    def dataclass(cls=None, /, *, frozen=False, eq=True, **layout):
        """Make the class a data class.

        `frozen` instances refuse to change; with `eq` two are equal when their fields are, and frozen ones have a
        hash. `layout` (`slots`, `kw_only`, `weakref_slot`) is the standard library's. A method that the class
        writes itself stays. Raises TypeError for fields that the standard library refuses.
        """

        def made(cls):
            return _completed(_standard(init=False, repr=False, eq=False, **layout)(cls), frozen, eq)

        return made if cls is None else made(cls)


class _Later:
    """A method that is not compiled yet: its first access compiles it and replaces this descriptor."""

    __slots__ = ("_cls", "_make", "_name")

    def __init__(self, cls: Any, name: str, make: Callable[[Any], Any]) -> None:
        self._cls = cls
        self._name = name
        self._make = make

    def __get__(self, instance: object, owner: Any = None) -> Any:
        method = self._make(self._cls)
        setattr(self._cls, self._name, method)
        return method.__get__(instance, owner)


def _completed(cls: Any, frozen: bool, eq: bool) -> Any:
    there: Mapping[str, Any] = cls.__dict__
    methods: dict[str, Any] = {"__init__": _Later(cls, "__init__", _init), "__repr__": _said}
    if eq:
        methods["__eq__"] = _Later(cls, "__eq__", _equal)
    if frozen:
        methods.update(_FROZEN)
    unhashable = there.get("__hash__") is None
    for name, method in methods.items():
        if name not in there:
            setattr(cls, name, method)
    if eq and unhashable:
        cls.__hash__ = _Later(cls, "__hash__", _hash) if frozen else None
    return cls


def _init(cls: Any) -> Any:
    """Return the `__init__` of the class: the fields in order, keyword-only ones last, then `__post_init__`."""
    known: dict[str, Any] = {"_absent": MISSING}
    positional = ["self"]
    by_keyword: list[str] = []
    body: list[str] = []
    for one in fields(cls):
        default, value = _default(one, known)
        if one.init:
            (by_keyword if one.kw_only else positional).append(one.name + default)
        if value:
            body.append(_put(cls, one.name, value, known))
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    params = [*positional, "*", *by_keyword] if by_keyword else positional
    init = _compiled(cls, "__init__", params, body or ["pass"], known)
    init.__annotations__ = {one.name: one.type for one in fields(cls) if one.init} | {"return": None}
    return init


def _put(cls: Any, name: str, value: str, known: dict[str, Any]) -> str:
    """Return the statement that assigns a value to a field; `known` receives the names that it calls."""
    if cls.__setattr__ is not _refuse_to_set:
        return f"self.{name} = {value}"
    place: object = getattr(cls, name, None)
    if isinstance(place, MemberDescriptorType):  # a slot is assigned in half the time
        known[f"_put_{name}"] = place.__set__
        return f"_put_{name}(self, {value})"
    known["_put"] = object.__setattr__
    return f"_put(self, {name!r}, {value})"


def _default(one: Field[Any], known: dict[str, Any]) -> tuple[str, str]:
    """Return the default in the parameter list, and the value assigned to the field; `known` receives the names in
    both."""
    if one.default is not MISSING:
        known[name := f"_default_of_{one.name}"] = one.default
        return f"={name}", one.name if one.init else name
    if one.default_factory is not MISSING:
        known[name := f"_factory_of_{one.name}"] = one.default_factory
        return "=_absent", f"{name}() if {one.name} is _absent else {one.name}" if one.init else f"{name}()"
    return "", one.name if one.init else ""


def _equal(cls: Any) -> Any:
    body = [
        "if other.__class__ is not self.__class__:",
        "  return NotImplemented",
        f"return {_compared(cls, 'self')} == {_compared(cls, 'other')}",
    ]
    return _compiled(cls, "__eq__", ["self", "other"], body, {})


def _hash(cls: Any) -> Any:
    return _compiled(cls, "__hash__", ["self"], [f"return hash({_compared(cls, 'self')})"], {})


def _compared(cls: Any, whose: str) -> str:
    return f"({''.join(f'{whose}.{one.name},' for one in fields(cls) if one.compare)})"


def _compiled(cls: Any, name: str, params: Sequence[str], body: Sequence[str], known: Mapping[str, Any]) -> Any:
    names = {"__name__": cls.__module__, **known}
    exec(f"def {name}({', '.join(params)}):\n " + "\n ".join(body), names)
    method = names[name]
    method.__qualname__ = f"{cls.__qualname__}.{name}"
    return method


@reprlib.recursive_repr()
def _said(self: Any) -> str:
    said = ", ".join(f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr)
    return f"{self.__class__.__qualname__}({said})"


def _refuse_to_set(_self: Any, name: str, _value: Any) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(_self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, one.name) for one in fields(self)]


def _take_state(self: Any, state: Sequence[Any]) -> None:
    for one, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)


_FROZEN: Mapping[str, Any] = {
    "__setattr__": _refuse_to_set,
    "__delattr__": _refuse_to_delete,
    "__getstate__": _state,
    "__setstate__": _take_state,
}
"""The methods of a frozen class; the last two allow copying it without assignment."""
