"""What `--agents` and `--plugin-dir` say, for a run and for a look.

Knows the flags; what a definition may say is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from teamwright.app.agents.reading import agents_of_flag
from teamwright.ui.cli.place import Place


def agents_given(place: Place, flags: Mapping[str, Any]) -> dict[str, Any]:
    """The definitions that `--agents` gave, as JSON or as `@FILE`. Raises UsageError."""
    text = flags.get("agents")
    return agents_of_flag(text, place.cwd) if text is not None else {}


def plugins_given(place: Place, flags: Mapping[str, Any]) -> tuple[Path, ...]:
    """The directories that `--plugin-dir` named."""
    return tuple(place.path(given) for given in flags.get("plugin_dir") or ())
