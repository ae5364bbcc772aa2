"""What holds where nobody says anything: each key's default, taken from the room that it belongs to.

Knows which field of a room a key is; the value itself stands in the room alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, reduce
from typing import Any

from teamwright.app.settings.model import Settings
from teamwright.models.settings import ModelSettings

FIELDS: Mapping[str, str] = {
    "disableAllHooks": "hooks_off",
    "skills.enabled": "skills",
    "permissions.defaultMode": "mode",
    "permissions.leadAnswers": "lead_answers",
    "members.backend": "places.backend",
    "members.pane_layout": "places.layout",
    "members.lead_share": "places.lead_share",
    "members.grace_s": "places.grace_s",
    "limits.members": "limits.members",
    "limits.spawns": "limits.spawns",
    "limits.spawns_per_minute": "limits.per_minute",
    "limits.agents": "limits.agents",
    "limits.depth": "limits.depth",
    "bash.timeout_s": "bash.timeout_s",
    "bash.max_timeout_s": "bash.max_timeout_s",
    "bash.output_chars": "bash.max_output",
    "bash.startup": "bash.startup",
    "bash.startup_s": "bash.startup_s",
    "shutdown_objection_s": "team.shutdown_objection_s",
    "cancel_grace_s": "team.cancel_grace_s",
    "goodbye_s": "team.goodbye_s",
    "dedupe_names": "team.dedupe_names",
    "task_check_timeout_s": "check.timeout_s",
    "agents.background": "agents.background",
    "agents.background_after_s": "agents.background_after_s",
    "agents.jobs_wait_s": "agents.jobs_wait_s",
    "agents.fork": "agents.fork",
    "coordinator": "agents.coordinator",
    "assistant": "agents.assistant",
    "mcp.start_s": "mcp.start_s",
    "mcp.wait_s": "mcp.wait_s",
    "mcp.call_s": "mcp.call_s",
    "mcp.prefix_tools": "mcp.tools",
    "mcp.prefix_bytes": "mcp.size",
    "compact_at": "compact.at",
    "compat.claude": "compat",
    **{
        name: name
        for name in ("teams", "plan_approval", "headless_asks", "git_trailer", "stalled_after_s", "retention_days")
    },
}
"""The field of `Settings` that a key decides."""

OF_MODELS = frozenset({"thinking", "retries", "stagger_s", "stall_s"})
"""Keys that decide a field of the models' settings, of the same name."""


@cache
def default_of(key: str) -> Any:
    """The default as JSON holds it; None where there is none, or nothing is the default."""
    if key in OF_MODELS:
        return getattr(ModelSettings(), key)
    if key not in FIELDS:
        return None
    found: Any = reduce(getattr, FIELDS[key].split("."), Settings())
    if isinstance(found, str):
        return str(found) or None
    return found if isinstance(found, bool | int | float) else None
