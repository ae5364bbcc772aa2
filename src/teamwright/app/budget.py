"""Budgets as callers give them; the purse that keeps them is in `spending`.

Knows the value; counts nothing.
"""

from __future__ import annotations

from teamwright.protocol.budget import Budget

__all__ = ["Budget"]
