"""The path of the record of a worktree, for callers that need nothing else of this package."""

from __future__ import annotations

from pathlib import Path


def record_file(tree: Path) -> Path:
    """Return the file of the record of a worktree."""
    return tree.parent / f"{tree.name}.json"


def has_record(tree: Path) -> bool:
    """Return True when the worktree is known, also if its directory is gone."""
    return record_file(tree).exists()
