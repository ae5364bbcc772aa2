"""From single values to the settings of each room, with the room's own defaults for what nobody said.

Knows keys and rooms; which of several values holds was decided before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from teamwright.agent.activity import STALLED_AFTER_S
from teamwright.agent.compacting.state import CompactSettings
from teamwright.agent.limits import SpawnSettings
from teamwright.app.checking.settings import CheckSettings
from teamwright.app.members.settings import places_settings
from teamwright.app.shells.settings import bash_settings
from teamwright.app.strangers.settings import commands_settings
from teamwright.protocol.budget import NAMES as CAPS
from teamwright.protocol.budget import Budget
from teamwright.teams.agents.ports import AgentSettings
from teamwright.teams.member.settings import TeamSettings

_FOR_MODELS = frozenset(
    {
        "model",
        "effort",
        "thinking",
        "context_tokens",
        "max_output_tokens",
        "retries",
        "stagger_s",
        "stall_s",
        "providers",
        "prices",
    }
)


def of_rooms(values: Mapping[str, Any], origins: Mapping[str, str]) -> dict[str, Any]:
    """Fields of `Settings` that single values decide; `origins` names the file of each.

    Raises CannotStart (`bad-settings`) with file and key for a value that its room does not take.
    """
    get = values.get
    limits, team, check = SpawnSettings(), TeamSettings(), CheckSettings()
    return {
        "hooks_off": bool(get("disableAllHooks")),
        "models": {name: value for name, value in values.items() if name in _FOR_MODELS},
        "limits": SpawnSettings(
            members=get("limits.members", limits.members),
            agents=get("limits.agents", limits.agents),
            spawns=get("limits.spawns", limits.spawns),
            per_minute=get("limits.spawns_per_minute", limits.per_minute),
            depth=get("limits.depth", limits.depth),
        ),
        "team": TeamSettings(
            shutdown_objection_s=get("shutdown_objection_s", team.shutdown_objection_s),
            cancel_grace_s=get("cancel_grace_s", team.cancel_grace_s),
            goodbye_s=get("goodbye_s", team.goodbye_s),
            dedupe_names=get("dedupe_names", team.dedupe_names),
        ),
        "bash": bash_settings(values),
        "each": Budget.from_json({name: get(f"budget.agent.{name}") for name in CAPS}),
        "agents": _agents(values),
        "places": places_settings(values, origins),
        "commands": commands_settings(values, origins),
        "check": CheckSettings(get("task_check", "").strip(), get("task_check_timeout_s", check.timeout_s)),
        "compact": CompactSettings(get("compact_at", CompactSettings().at)),
        "teams": get("teams", True),
        "ask_timeout_s": get("ask_timeout_s"),
        "headless_asks": get("headless_asks", "deny"),
        "lead_answers": get("permissions.leadAnswers", False),
        "plan_approval": get("plan_approval", "lead"),
        "git_trailer": get("git_trailer", ""),
        "retention_days": get("retention_days", 30),
        "stalled_after_s": get("stalled_after_s", STALLED_AFTER_S),
        "skills": get("skills.enabled", True),
    }


def _agents(values: Mapping[str, Any]) -> AgentSettings:
    usual = AgentSettings()
    return AgentSettings(
        background=values.get("agents.background", usual.background),
        background_after_s=values.get("agents.background_after_s", usual.background_after_s),
        jobs_wait_s=values.get("agents.jobs_wait_s", usual.jobs_wait_s),
        coordinator=values.get("coordinator", usual.coordinator),
        assistant=values.get("assistant", usual.assistant),
        fork=values.get("agents.fork", usual.fork),
    )
