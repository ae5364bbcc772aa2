"""The texts under the fields of a class, for `help()` and for the reference pages. Reads source code."""

from __future__ import annotations

import sys
from functools import cache
from itertools import pairwise
from typing import SupportsIndex


@cache
def field_texts(kind: type) -> dict[str, str]:
    """Return the text under each field of a class, by field; empty when its source is not available.

    Those of a TypedDict come after those of the TypedDicts that it extends.
    """
    import ast  # only `help()` and the reference pages pay for these imports
    import inspect

    try:
        [definition] = ast.parse(inspect.cleandoc("\n" + inspect.getsource(kind))).body
    except (OSError, TypeError, ValueError, SyntaxError):
        return {}
    if not isinstance(definition, ast.ClassDef):
        return {}
    texts: dict[str, str] = {}
    for base in extended_typed_dicts(kind, [base.id for base in definition.bases if isinstance(base, ast.Name)]):
        texts |= field_texts(base)
    for field, text in pairwise(definition.body):
        match field, text:
            case (
                (ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)])),
                ast.Expr(value=ast.Constant(value=str(about))),
            ):
                texts[name] = " ".join(about.split())
            case _:
                pass
    return texts


def extended_typed_dicts(kind: type, bases: list[str]) -> list[type]:
    """Return the TypedDicts of these names in the module of a class. Python 3.11 does not keep the bases of one."""
    from typing import is_typeddict

    module = sys.modules[kind.__module__]
    return [base for name in bases if isinstance(base := getattr(module, name, None), type) and is_typeddict(base)]


class FieldDocs(str):
    """The docstring of a class with the texts of its fields, computed when it is read.

    `help()` does not ask the class for it: it takes this text itself, and expands its tabs first.
    """

    kind: type

    def __get__(self, _instance: object, _kind: type) -> str:
        return self.expandtabs()

    def expandtabs(self, tabsize: SupportsIndex = 8) -> str:
        """Return the whole text."""
        import inspect

        fields = [f"{name}: {text}" for name, text in field_texts(self.kind).items()]
        return "\n\n".join((inspect.cleandoc(str(self)), *fields)).expandtabs(tabsize)


def show_fields(*kinds: type) -> None:
    """Let `help()` show the texts under the fields of these classes."""
    for kind in kinds:
        docs = FieldDocs(kind.__doc__ or "")
        docs.kind = kind
        type.__setattr__(kind, "__doc__", docs)
