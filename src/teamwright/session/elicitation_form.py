"""Forms of MCP servers as questions: one for each field, with the values that it accepts.

A form is an object of plain values, as the protocol defines it. Depends on nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from teamwright.mcp.json_rpc import plain_line

MAX_FIELDS, MAX_CHOICES = 20, 50

DECLINE, LEAVE_OUT = "decline", "leave out"
"""Answers that refuse the form, and that leave a field out."""

_NUMBERS = {"integer", "number"}


class FormField(Struct, frozen=True):
    """One field. `choices` are pairs of value and label; `several`: any number of them may be chosen.

    `default` is the value of a field that is left out; None without one.
    """

    name: str
    kind: str
    title: str
    required: bool
    choices: tuple[tuple[Any, str], ...] = ()
    several: bool = False
    bounds: Mapping[str, Any] = {}
    default: Any = None

    @property
    def may_be_left_out(self) -> bool:
        """True when the form is complete without an answer to this field."""
        return not self.required or self.default is not None

    @property
    def options(self) -> tuple[str, ...]:
        """The answers to choose from; empty for a field that is typed, because a number would mean an option."""
        if not self.choices:
            return ()
        return (*(label for _, label in self.choices), *((LEAVE_OUT,) if self.may_be_left_out else ()), DECLINE)

    @property
    def question(self) -> str:
        """The question of this field."""
        usual = "" if self.default is None else f" (left out: {plain_line(str(self.default), 100)})"
        if self.choices:
            return self.title + usual
        limits = ", ".join(f"{name} {value}" for name, value in self.bounds.items())
        kind = "a text" if self.kind == "string" else f"a{'n' if self.kind == 'integer' else ''} {self.kind}"
        leave = f', "{LEAVE_OUT}"{usual}' if self.may_be_left_out else ""
        return f'{self.title}\nType {kind}{f" ({limits})" if limits else ""}{leave} or "{DECLINE}".'

    def parse(self, answer: str) -> list[Any]:
        """Return the value of an answer in a list; an empty list when it is left out. Raises ValueError."""
        text = answer.strip()
        if text.lower() == LEAVE_OUT and self.may_be_left_out:
            return [] if self.default is None else [self.default]
        if self.choices:
            return [self._choose(text)]
        if self.kind in _NUMBERS:
            return [self._number(text)]
        least, most = self.bounds.get("minLength", 0), self.bounds.get("maxLength", len(answer))
        if not least <= len(answer) <= most:
            raise ValueError(f"it has {len(answer)} characters")
        return [answer]

    def _choose(self, text: str) -> Any:
        values = {label.lower(): value for value, label in self.choices}
        if not self.several:
            if text.lower() not in values:
                raise ValueError("it is none of the answers")
            return values[text.lower()]
        words = [word.strip().lower() for word in text.split(",") if word.strip()]
        if unknown := [word for word in words if word not in values]:
            raise ValueError(f"{unknown[0]!r} is none of the answers")
        return [values[word] for word in words]

    def _number(self, text: str) -> int | float:
        try:
            value: int | float = int(text) if self.kind == "integer" else float(text)
        except ValueError:
            raise ValueError(f"it is no {self.kind}") from None
        least, most = self.bounds.get("minimum", value), self.bounds.get("maximum", value)
        if not least <= value <= most:
            raise ValueError("it is outside of the bounds")
        return value


def parse_form(schema: object) -> list[FormField]:
    """Return the fields of a form. Raises ValueError for one that cannot be shown."""
    form = _object(schema)
    properties, required = form.get("properties"), form.get("required")
    if not isinstance(properties, dict) or len(cast("dict[str, Any]", properties)) > MAX_FIELDS:
        raise ValueError(f"it has no fields, or more than {MAX_FIELDS}")
    needed = cast("list[object]", required) if isinstance(required, list) else []
    fields = (
        (one, _field(name, _object(one), name in needed)) for name, one in cast("dict[str, Any]", properties).items()
    )
    return [replace(field, default=_default(field, _object(one).get("default"))) for one, field in fields]


def _default(field: FormField, value: Any) -> Any:
    """Return the default of a field; None for a value that the field does not accept."""
    if field.several:
        values = cast("list[Any]", value) if isinstance(value, list) else [None]
        return values if all(one in dict(field.choices) for one in values) else None
    if field.choices:
        return value if isinstance(value, str | bool) and value in dict(field.choices) else None
    if field.kind in _NUMBERS:
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        return value if fits and (field.kind == "number" or isinstance(value, int)) else None
    return plain_line(value, 1_000) if isinstance(value, str) else None


def _field(name: str, definition: Mapping[str, Any], required: bool) -> FormField:
    kind = definition.get("type")
    label = plain_line(str(definition.get("title") or name), 100)
    about = plain_line(str(definition.get("description") or ""), 300)
    title = f"{label}: {about}" if about else label
    if kind == "boolean":
        return FormField(name, kind, title, required, ((True, "yes"), (False, "no")))
    if kind == "array":
        return FormField(name, kind, title, required, _choices(_object(definition.get("items"))), several=True)
    if kind == "string" and (definition.get("enum") is not None or definition.get("oneOf") is not None):
        return FormField(name, kind, title, required, _choices(definition))
    if kind == "string":
        return FormField(name, kind, title, required, bounds=_bounds(definition, "minLength", "maxLength"))
    if kind in _NUMBERS:
        return FormField(name, str(kind), title, required, bounds=_bounds(definition, "minimum", "maximum"))
    raise ValueError(f"the field {name[:60]!r} has the type {str(kind)[:40]!r}")


def _bounds(definition: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {
        name: definition[name]
        for name in names
        if isinstance(definition.get(name), int | float) and not isinstance(definition[name], bool)
    }


def _choices(definition: Mapping[str, Any]) -> tuple[tuple[Any, str], ...]:
    """Return values with their labels: of `enum` with `enumNames`, or of `oneOf` or `anyOf` with titles."""
    titled = definition.get("oneOf") or definition.get("anyOf")
    if isinstance(titled, list):
        entries = [_object(one) for one in cast("list[object]", titled)]
        pairs = [(one.get("const"), one.get("title") or one.get("const")) for one in entries]
    else:
        values, names = definition.get("enum"), definition.get("enumNames")
        listed = cast("list[Any]", values) if isinstance(values, list) else []
        labels = cast("list[Any]", names) if isinstance(names, list) else []
        pairs = [(value, labels[at] if at < len(labels) else value) for at, value in enumerate(listed)]
    if not pairs or len(pairs) > MAX_CHOICES or not all(isinstance(value, str) for value, _ in pairs):
        raise ValueError("a field has no choices, too many, or one that is no text")
    return tuple((value, plain_line(str(label).replace(",", " "), 80)) for value, label in pairs)


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}
