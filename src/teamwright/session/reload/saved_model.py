"""The lead's model that a person chose at run time, saved in the session's directory for a resume."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from teamwright.storage.atomic import write_atomic
from teamwright.storage.paths import make_private

FILE = "model.json"
VERSION = 1


def save_lead_model(directory: Path, name: str) -> None:
    """Save this model for the next resume. Raises StorageError."""
    make_private(directory)
    write_atomic(directory / FILE, json.dumps({"version": VERSION, "model": name}).encode())


def load_lead_model(directory: Path) -> str | None:
    """Return the saved model of a session; None without one, and for an unreadable file."""
    try:
        name = cast("dict[str, Any]", json.loads((directory / FILE).read_bytes()))["model"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return name if isinstance(name, str) else None
