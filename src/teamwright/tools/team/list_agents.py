"""The ListAgents tool: shows the members of the team with their states."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from teamwright.agent.tool import Tool, ToolContext, ToolResult
from teamwright.agent.tool_input import NoInput
from teamwright.protocol.clock import now_ms
from teamwright.protocol.ids import LEAD
from teamwright.protocol.states import MemberState
from teamwright.protocol.task import open_blockers
from teamwright.teams.lifecycle import ENDED_STATES
from teamwright.teams.status.member_state import (
    WAITING_STATES,
    OpenTask,
    RemoteMember,
    ShownState,
    member_facts,
    remote_members,
    shown_state,
)
from teamwright.teams.status.team_status import MemberActivity
from teamwright.teams.team import SessionTeam
from teamwright.teams.teammate import Teammate
from teamwright.tools.caller import Caller, json_result

MAX_SUBAGENTS = 20
"""The most sub-agents in the list. Older ones can still be reached by their ids."""


class ListAgents(Tool[NoInput]):
    """The ListAgents tool."""

    name = "ListAgents"
    input_type = NoInput

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def is_read_only(self, call: NoInput) -> bool:
        """Return True: it only reads."""
        return True

    async def run(self, call: NoInput, ctx: ToolContext) -> ToolResult:
        """Return one object a member: state, what it waits for or does, last step, open tasks, model, tokens."""
        team = self._caller.team
        if not team.exists:
            return json_result({"members": [], **self._subagents()}, "no team")
        tasks = await _open_tasks(team)
        members: list[dict[str, object]] = [{"name": LEAD, "type": "lead", "you": self._caller.is_lead}]
        for mate in team.members.values():
            if mate.state in ENDED_STATES and mate.state is not MemberState.FAILED:
                continue
            members.append(_without_empty({**_line(team, mate, tasks), "you": mate.name == self._caller.name}))
        members += [_without_empty(_remote_row(team, one, tasks)) for one in await remote_members(team)]
        body = {"team_name": team.name, "members": members, **self._subagents()}
        return json_result(body, f"{len(members)} members")

    def _subagents(self) -> dict[str, object]:
        """Return the sub-agents that the caller may write to, running ones first, then the newest."""
        agents, me = self._caller.team.subagents, self._caller
        if agents is None:
            return {}
        mine = [run for run in agents.runs.values() if me.is_lead or run.owner == me.name]
        mine.sort(key=lambda run: (not run.is_running, -run.started_ms))
        rows = [
            {"agentId": run.id, "of": run.owner, "state": run.state, "type": run.agent_type, "does": run.description}
            for run in mine[:MAX_SUBAGENTS]
        ]
        return {"sub_agents": rows} if rows else {}


def _without_empty(row: Mapping[str, object]) -> dict[str, object]:
    """Return the row without empty fields."""
    return {key: value for key, value in row.items() if value or (value == 0 and value is not False)}


def _remote_row(team: SessionTeam, member: RemoteMember, tasks: Mapping[str, OpenTask]) -> dict[str, object]:
    """Return the row of a member in another process, from its last report."""
    entry, known = member.entry, member.activity
    seen = shown_state(member_facts(known, team.status, tasks, alive=True, why=""))
    waits = seen.state in WAITING_STATES
    return {
        "name": entry.name,
        "type": entry.agent_type,
        "state": seen.state,
        "waiting_for": seen.reason if waits else None,
        "doing": seen.reason if seen.state is MemberState.WORKING else None,
        "reason": None if waits or seen.state is MemberState.WORKING else seen.reason,
        "open_tasks": [id for id, task in tasks.items() if task.owner == entry.name],
        "model": known.model or entry.model,
        "mode": known.mode or entry.mode or str(team.lead_policy.effective_mode),
        "tokens": known.usage.tokens,
    }


def _line(team: SessionTeam, teammate: Teammate, tasks: Mapping[str, OpenTask]) -> dict[str, object]:
    seen = member_state(team, teammate, tasks)
    waits = seen.state in WAITING_STATES
    asked = next((id for id, one in team.status.requests.items() if one.blocks(teammate.name)), None)
    return {
        "name": teammate.name,
        "type": teammate.agent_type,
        "state": seen.state,
        "waiting_for": seen.reason if waits else None,
        "request": teammate.pending_plan.request_id or asked,
        "doing": seen.reason if seen.state is MemberState.WORKING else None,
        "reason": None if waits or seen.state is MemberState.WORKING else seen.reason,
        "last_step_s_ago": int(_last_step_age_s(team, teammate)),
        "open_tasks": [id for id, task in tasks.items() if task.owner == teammate.name],
        "model": teammate.model,
        "mode": teammate.mode,
        "tokens": _tokens(team, teammate),
    }


def member_state(team: SessionTeam, teammate: Teammate, tasks: Mapping[str, OpenTask]) -> ShownState:
    """Return the member's state as all readers see it, from its coroutine and its own state."""
    known = team.status.members.get(teammate.name) or MemberActivity(teammate.name)
    if known.state != teammate.state:
        known = replace(known, state=teammate.state, lost=False)
    alive = teammate.run_task is None or not teammate.run_task.done() or teammate.state in ENDED_STATES
    seen = member_facts(known, team.status, tasks, alive=alive, why="" if alive else "its coroutine has ended")
    return shown_state(seen)


async def _open_tasks(team: SessionTeam) -> dict[str, OpenTask]:
    tasks = await team.tasks.all()
    statuses = {task.id: task.status for task in tasks}
    return {t.id: OpenTask(t.owner or "", open_blockers(t, statuses)) for t in tasks if t.status != "completed"}


def _last_step_age_s(team: SessionTeam, teammate: Teammate) -> float:
    known = team.status.members.get(teammate.name)
    by_log = time.time() - known.active if known is not None and known.active else float("inf")
    return max(0.0, min(by_log, (now_ms() - teammate.last_active_ms) / 1000))


def _tokens(team: SessionTeam, teammate: Teammate) -> int:
    known = team.status.members.get(teammate.name)
    return max(teammate.usage.tokens, known.usage.tokens if known is not None else 0)
