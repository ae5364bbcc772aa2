"""The keys of a task's metadata that Teamwright defines: their values as a caller may set them, and merging.

Depends on task values. The meaning of the keys is in `protocol.task`; another program's keys are kept unread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from teamwright.protocol.errors import UsageError
from teamwright.protocol.review import Reviewer
from teamwright.protocol.task import CHECK, CHECKED, DRAFT, INTEGRATION, REVIEW, REVIEWED, WORKTREE, WRITES

RUNTIME_KEYS = frozenset({CHECKED, DRAFT, INTEGRATION, REVIEWED, WORKTREE})
"""Metadata keys that only the runtime writes."""

MAX_PATTERNS = 100
"""Patterns of one task."""


def merge_metadata(metadata: Mapping[str, Any] | None, more: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the merged metadata. A None deletes its key; empty metadata is None."""
    both = {**(metadata or {}), **more}
    return {key: value for key, value in both.items() if key not in more or value is not None} or None


def requested_metadata(wish: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of a change or of a new task, with the keys that have a field of their own."""
    metadata = dict(wish.get("metadata") or {})
    if "writes" in wish:
        metadata[WRITES] = list(wish["writes"]) or None
    if "review" in wish:
        metadata[REVIEW] = wish["review"] or None
    return metadata


def require_metadata(metadata: Mapping[str, Any] | None) -> None:
    """Check the known keys of `metadata`. Raises UsageError for a value of another type."""
    for key, value in (metadata or {}).items():
        if key == CHECK and not isinstance(value, str | None):
            raise UsageError(
                "usage",
                f"metadata.check must be a command as text, not {value!r:.60}",
                do=['{"check": "make test"}'],
                note="nothing was changed",
            )
        if key == WRITES:
            require_write_set(value)
        if key == REVIEW and value is not None and value not in tuple(Reviewer):
            raise UsageError(
                "usage",
                f"review must be {', '.join(Reviewer)}, not {value!r:.60}",
                note="nothing was changed",
            )
        if key in {"for", "needs"} and not _is_names(value):
            raise UsageError(
                "usage",
                f"metadata.{key} must be a list of names, not {value!r:.60}",
                do=[f'{{"{key}": ["ada"]}}' if key == "for" else '{"needs": ["Bash"]}'],
                note="nothing was changed",
            )


def _is_names(value: object) -> bool:
    """Return True for a name, a list of names, or nothing."""
    return isinstance(value, str | None) or (
        isinstance(value, list | tuple) and all(isinstance(one, str) for one in cast("Sequence[object]", value))
    )


def is_path_pattern(value: object) -> bool:
    """Return True for a pattern below the repository: a text without a leading `/` or `~` and without `..`."""
    if not isinstance(value, str) or not value.strip("/. ") or "\n" in value or "\0" in value:
        return False
    return not value.startswith(("/", "~")) and ".." not in value.split("/")


def require_write_set(value: object) -> None:
    """Check the value of `metadata.writes`: a list of patterns, or None. Raises UsageError."""
    patterns = list(cast("list[object]", value)) if isinstance(value, list | tuple) else [None]
    if value is not None and not (len(patterns) <= MAX_PATTERNS and all(map(is_path_pattern, patterns))):
        raise UsageError(
            "usage",
            f"writes must be at most {MAX_PATTERNS} path patterns below the repository, not {value!r:.60}",
            do=['["src/parser/**", "docs/parser.md"]'],
            note="nothing was changed",
        )
