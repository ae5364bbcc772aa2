"""Errors as JSON objects between Teamwright processes, with all parts that a person would read.

Depends on `errors`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from teamwright.protocol import errors
from teamwright.protocol.errors import SLUGS, TaskRefused, TeamwrightError

_BY_NAME = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, TeamwrightError) and kind is not TaskRefused
}


def error_to_json(problem: Exception) -> dict[str, Any]:
    """Return the error as an object; any error other than a TeamwrightError is a bug of Teamwright (`bug`)."""
    if not isinstance(problem, TeamwrightError):
        return {"kind": "TeamwrightError", "slug": "bug", "what": f"{type(problem).__name__}: {problem}"}
    return {
        "kind": type(problem).__name__,
        "slug": problem.slug,
        "what": problem.what,
        "looked_at": [list(pair) for pair in problem.looked_at],
        "do": list(problem.do),
        "note": problem.note,
    } | ({"code": problem.code} if isinstance(problem, TaskRefused) else {})


def error_from_json(data: Mapping[str, Any]) -> TeamwrightError:
    """Return the error that `error_to_json` encoded; an unknown kind or slug becomes the base class or the general
    slug."""
    what, do, note = str(data.get("what", "")), [str(way) for way in data.get("do") or ()], str(data.get("note", ""))
    if data.get("kind") == TaskRefused.__name__:
        return TaskRefused(str(data.get("code", "")), what, do=do, note=note)
    slug = str(data.get("slug"))
    kind = _BY_NAME.get(str(data.get("kind")), TeamwrightError)
    looked_at = [(str(label), str(value)) for label, value in data.get("looked_at") or ()]
    return kind(slug if slug in SLUGS else "failed", what, looked_at=looked_at, do=do, note=note)
