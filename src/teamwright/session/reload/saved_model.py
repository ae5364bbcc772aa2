"""The lead's model, once a person chose another one while the session ran: kept in its directory for a resume.

Knows a file; opens no model.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from teamwright.storage.atomic import write_atomic
from teamwright.storage.paths import make_private

FILE = "model.json"
VERSION = 1


def save_lead_model(directory: Path, name: str) -> None:
    """Go on with this model at the next resume. Raises StorageError."""
    make_private(directory)
    write_atomic(directory / FILE, json.dumps({"version": VERSION, "model": name}).encode())


def load_lead_model(directory: Path) -> str | None:
    """The model that a session was left with, None when nobody chose one; what cannot be read was none."""
    try:
        name = cast("dict[str, Any]", json.loads((directory / FILE).read_bytes()))["model"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return name if isinstance(name, str) else None
