"""The representation of values without some fields: secrets, and long content.

Works on any struct.
"""

from __future__ import annotations

from msgspec import Struct


def repr_without(value: Struct, *hidden: str) -> str:
    """Return the usual representation of a value, without the hidden fields."""
    shown = ", ".join(f"{name}={getattr(value, name)!r}" for name in value.__struct_fields__ if name not in hidden)
    return f"{type(value).__name__}({shown})"
