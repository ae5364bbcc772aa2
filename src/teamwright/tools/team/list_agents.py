"""The ListAgents tool: shows the members of the team with their states."""

from __future__ import annotations

import time
from collections.abc import Mapping

from msgspec.structs import replace

from teamwright.agent.tool import Tool, ToolContext, ToolResult
from teamwright.agent.tool_input import NoInput
from teamwright.protocol.ids import LEAD, display_name, now_ms
from teamwright.protocol.members import MemberState
from teamwright.team_records.life_cycle import ENDED_STATES
from teamwright.team_records.team_status import MemberStatus
from teamwright.teams.member_state import OpenTask, remote_members, with_state
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
        found = await team.tasks.snapshot()
        still_open = [task for task in found.tasks if task.status != "completed"]
        tasks = {task.id: OpenTask(task.owner or "", found.open_blockers(task)) for task in still_open}
        members: list[dict[str, object]] = [{"name": LEAD, "type": "lead", "you": self._caller.is_lead}]
        for teammate in team.members.values():
            if teammate.state in ENDED_STATES and teammate.state is not MemberState.FAILED:
                continue
            members.append(
                _without_empty({**_local_row(team, teammate, tasks), "you": teammate.name == self._caller.name})
            )
        members += [_without_empty(_remote_row(team, one, tasks)) for one in await remote_members(team)]
        body = {"team_name": team.name, "members": members, **self._subagents()}
        return json_result(body, f"{len(members)} members")

    def _subagents(self) -> dict[str, object]:
        """Return the sub-agents that the caller may write to, running ones first, then the newest."""
        agents = self._caller.team.subagents
        me = self._caller
        if agents is None:
            return {}
        mine = [run for run in agents.runs.values() if me.is_lead or run.owner == me.name]
        mine.sort(key=lambda run: (not run.is_running, -run.started_ms))
        rows = [
            {
                "agentId": run.id,
                "of": display_name(run.owner),
                "state": run.state,
                "type": run.agent_type,
                "does": run.description,
            }
            for run in mine[:MAX_SUBAGENTS]
        ]
        return {"sub_agents": rows} if rows else {}


def _without_empty(row: Mapping[str, object]) -> dict[str, object]:
    """Return the row without empty fields."""
    return {key: value for key, value in row.items() if value or (value == 0 and value is not False)}


def _row(
    member: MemberStatus, tasks: Mapping[str, OpenTask], request: str | None = None, last_step_s_ago: int | None = None
) -> dict[str, object]:
    works = member.state is MemberState.WORKING
    return {
        "name": member.name,
        "type": member.agent_type,
        "state": member.state,
        "waiting_for": member.reason if member.is_waiting else None,
        "request": request,
        "doing": member.reason if works else None,
        "reason": None if member.is_waiting or works else member.reason,
        "last_step_s_ago": last_step_s_ago,
        "open_tasks": [id for id, task in tasks.items() if task.owner == member.name],
        "model": member.model,
        "mode": member.mode,
        "tokens": member.tokens,
    }


def _local_row(team: SessionTeam, teammate: Teammate, tasks: Mapping[str, OpenTask]) -> dict[str, object]:
    member = local_status(team, teammate, tasks)
    request_id = next((id for id, request in team.status.requests.items() if request.blocks(teammate.name)), None)
    known = team.status.members.get(teammate.name)
    by_log = time.time() - known.active if known is not None and known.active else float("inf")
    row = _row(
        member,
        tasks,
        teammate.pending_plan.request_id or request_id,
        int(max(0.0, min(by_log, (now_ms() - teammate.last_active_ms) / 1000))),
    )
    return {**row, "tokens": max(teammate.usage.tokens, member.tokens)}


def _remote_row(team: SessionTeam, member: MemberStatus, tasks: Mapping[str, OpenTask]) -> dict[str, object]:
    """Return the row of a member in another process, from its last report."""
    mode = member.mode or str(team.lead_policy.effective_mode)
    return _row(replace(with_state(member, team.status, tasks), mode=mode), tasks)


def local_status(team: SessionTeam, teammate: Teammate, tasks: Mapping[str, OpenTask]) -> MemberStatus:
    """Return the member with its state as all readers see it, from its coroutine and its own state."""
    known = team.status.members.get(teammate.name) or MemberStatus(teammate.name)
    if known.state != teammate.state:
        known = replace(known, state=teammate.state, lost=False)
    alive = teammate.run_task is None or not teammate.run_task.done() or teammate.state in ENDED_STATES
    status = with_state(known, team.status, tasks, gone="" if alive else "its coroutine has ended")
    return replace(status, agent_type=teammate.agent_type, model=teammate.model, mode=teammate.mode)
