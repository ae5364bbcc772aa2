"""Values of the flags `--agents` and `--plugin-dir`.

The contents of a definition are validated elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from teamwright.config.agent_types.definition_sources import parse_agents_flag
from teamwright.ui.cli.run_location import RunLocation


def parse_agents(where: RunLocation, flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definitions of `--agents`, given as JSON or as `@FILE`. Raises UsageError."""
    text = flags.get("agents")
    return parse_agents_flag(text, where.cwd) if text is not None else {}


def parse_plugin_dirs(where: RunLocation, flags: Mapping[str, Any]) -> tuple[Path, ...]:
    """Return the directories of `--plugin-dir`."""
    return tuple(where.resolve(given) for given in flags.get("plugin_dir") or ())
