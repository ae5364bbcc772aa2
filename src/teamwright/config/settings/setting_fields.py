"""Which field of a run's settings a key decides, one table for reading a value and for telling a default.

Knows no room: the defaults are those of the object that is filled.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from msgspec.structs import replace

FIELDS: Mapping[str, str] = {
    "agent": "lead_type",
    "outputStyle": "output_style",
    "statusLine": "status_line",
    "disableAllHooks": "hooks_off",
    "allowedHttpHookUrls": "hook_urls",
    "httpHookAllowedEnvVars": "hook_variables",
    "skills.enabled": "skills",
    "permissions.leadAnswers": "lead_answers",
    "members.backend": "places.backend",
    "members.pane_layout": "places.layout",
    "members.lead_share": "places.lead_share",
    "members.orphan_timeout_s": "places.orphan_timeout_s",
    "limits.members": "limits.members",
    "limits.spawns": "limits.spawns",
    "limits.spawns_per_minute": "limits.per_minute",
    "limits.agents": "limits.agents",
    "limits.depth": "limits.depth",
    "bash.timeout_s": "bash.timeout_s",
    "bash.max_timeout_s": "bash.max_timeout_s",
    "bash.output_chars": "bash.max_output",
    "bash.pass_env": "bash.pass_env",
    "bash.shell": "bash.shell",
    "bash.startup": "bash.startup",
    "bash.startup_s": "bash.startup_s",
    "sandbox.mode": "sandbox.mode",
    "sandbox.network": "sandbox.network",
    "sandbox.read": "sandbox.read",
    "sandbox.write": "sandbox.write",
    "sandbox.auto_allow": "sandbox.auto_allow",
    "sandbox.memory_mb": "sandbox.memory_mb",
    "sandbox.processes": "sandbox.processes",
    "shutdown_objection_s": "team.shutdown_objection_s",
    "cancel_grace_s": "team.cancel_grace_s",
    "shutdown_timeout_s": "team.shutdown_timeout_s",
    "dedupe_names": "team.dedupe_names",
    "task_check": "check.command",
    "task_check_timeout_s": "check.timeout_s",
    "worktrees.setup": "worktrees.setup",
    "worktrees.setup_timeout_s": "worktrees.setup_timeout_s",
    "worktrees.merge": "worktrees.merge",
    "worktrees.uncommitted": "worktrees.uncommitted",
    "worktrees.commit_hooks": "worktrees.commit_hooks",
    "worktrees.max_file_mb": "worktrees.max_file_mb",
    "worktrees.max_commit_mb": "worktrees.max_commit_mb",
    "checks.integration": "worktrees.check",
    "checks.integration_timeout_s": "worktrees.check_timeout_s",
    "agents.background": "agents.background",
    "agents.background_after_s": "agents.background_after_s",
    "agents.jobs_wait_s": "agents.jobs_wait_s",
    "agents.fork": "agents.fork",
    "coordinator": "agents.coordinator",
    "mcp.start_s": "mcp.start_s",
    "mcp.wait_s": "mcp.wait_s",
    "mcp.call_s": "mcp.call_s",
    "mcp.sampling": "mcp.sampling",
    "mcp.sampling_calls": "mcp.sampling_calls",
    "mcp.prefix_tools": "mcp.tools",
    "mcp.prefix_bytes": "mcp.size",
    "compact_at": "compact.at",
    "teams": "teams",
    "ask_timeout_s": "ask_timeout_s",
    "unattended_requests": "unattended_requests",
    "plan_approval": "plan_approval",
    "git_trailer": "git_trailer",
    "markdown": "markdown",
    "terminal.plain": "plain_terminal",
    "undo.bash_changes": "bash.records_changes",
    "notify.terminal": "notify.terminal",
    "notify.command": "notify.command",
    "notify.webhook": "notify.webhook",
    "notify.format": "notify.format",
    "web_search.service": "web_search.service",
    "web_search.command": "web_search.command",
    "web_search.tool": "web_search.tool",
    "retention_days": "retention_days",
    "database": "database",
    "database_durable_mail": "database_durable_mail",
    "stalled_after_s": "stalled_after_s",
}
"""The field of `Settings` that a key decides; behind a dot, the field of that room's own settings."""

Room = TypeVar("Room")


def fill_settings(usual: Room, room: str, values: Mapping[str, Any]) -> Room:
    """The settings of a room: `usual`, with what these values say of its fields."""
    there = {key: path.partition(".") for key, path in FIELDS.items() if key in values}
    changes = {field: values[key] for key, (where, _, field) in there.items() if where == room and field}
    settings: Room = replace(cast("Any", usual), **changes)
    return settings


def plain_fields(usual: object, values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that belong to no room, each as it is said, else as `usual` has it."""
    return {path: values.get(key, getattr(usual, path)) for key, path in FIELDS.items() if "." not in path}
