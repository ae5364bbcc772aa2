"""Writing a file that the user asked for: errors in our form, nothing half written."""

from __future__ import annotations

import os
from pathlib import Path

from teamwright.protocol.errors import StorageError


def write_report(path: Path, text: str) -> None:
    """Write a text file at a path of the user's. Raises StorageError naming path and reason; the old file stays."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        draft.write_text(text, encoding="utf-8")
        os.replace(draft, path)
    except OSError as problem:
        draft.unlink(missing_ok=True)
        raise StorageError(
            "disk-full",
            f"the report could not be written to {path}",
            looked_at=[("reason", problem.strerror or str(problem))],
            do=["give another path with --report FILE"],
            note="the run itself is done",
        ) from problem
