"""ListAgents: who is there, in what state, waiting for what."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from teamwright.agent.tool import NoInput, Tool, ToolContext, ToolResult
from teamwright.protocol.clock import now_ms
from teamwright.protocol.ids import LEAD
from teamwright.protocol.task import open_blockers
from teamwright.teams.health.beside import Other, beside
from teamwright.teams.health.standing import MemberStanding
from teamwright.teams.health.table import WAITS, Health, OpenTask, health, seen_of
from teamwright.teams.lifecycle import GONE, State
from teamwright.teams.member.mate import Mate
from teamwright.teams.team import Team
from teamwright.tools.team.caller import Caller, json_result

AGENTS_SHOWN = 20
"""Sub-agents that are listed; older ones are reached by their ids all the same."""


class ListAgents(Tool[NoInput]):
    """The members of the team with their state."""

    name = "ListAgents"

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def read_only(self, call: NoInput) -> bool:
        """It only looks."""
        return True

    async def run(self, call: NoInput, ctx: ToolContext) -> ToolResult:
        """One object a member: state, what it waits for or does, last step, open tasks, model, tokens."""
        team = self._caller.team
        if not team.exists:
            return json_result({"members": [], **self._agents()}, "no team")
        tasks = await _open_tasks(team)
        members: list[dict[str, object]] = [{"name": LEAD, "type": "lead", "you": self._caller.is_lead}]
        for mate in team.members.values():
            if mate.state in GONE and mate.state is not State.FAILED:
                continue
            members.append(_shown({**_line(team, mate, tasks), "you": mate.name == self._caller.name}))
        members += [_shown(_other(team, one, tasks)) for one in await beside(team)]
        body = {"team_name": team.name, "members": members, **self._agents()}
        return json_result(body, f"{len(members)} members")

    def _agents(self) -> dict[str, object]:
        """The sub-agents that the caller may write to: the newest, those that run first."""
        agents, me = self._caller.team.agents, self._caller
        if agents is None:
            return {}
        mine = [run for run in agents.runs.values() if me.is_lead or run.owner == me.name]
        mine.sort(key=lambda run: (not run.running, -run.started_ms))
        rows = [
            {"agentId": run.id, "of": run.owner, "state": run.state, "type": run.kind, "does": run.description}
            for run in mine[:AGENTS_SHOWN]
        ]
        return {"sub_agents": rows} if rows else {}


def _shown(one: Mapping[str, object]) -> dict[str, object]:
    """What says something."""
    return {key: value for key, value in one.items() if value or (value == 0 and value is not False)}


def _other(team: Team, one: Other, tasks: Mapping[str, OpenTask]) -> dict[str, object]:
    """A member in another process, by what was told of it."""
    entry, known = one.entry, one.stands
    seen = health(seen_of(known, team.standing, tasks, alive=True, why=""))
    waits = seen.state in WAITS
    return {
        "name": entry.name,
        "type": entry.agent_type,
        "state": seen.state,
        "waiting_for": seen.on if waits else None,
        "doing": seen.on if seen.state == "working" else None,
        "reason": None if waits or seen.state == "working" else seen.on,
        "open_tasks": [id for id, task in tasks.items() if task.owner == entry.name],
        "model": known.model or entry.model,
        "mode": known.mode or entry.mode or str(team.lead_policy.lasting_mode),
        "tokens": known.usage.tokens,
    }


def _line(team: Team, mate: Mate, tasks: Mapping[str, OpenTask]) -> dict[str, object]:
    seen = health_of(team, mate, tasks)
    waits = seen.state in WAITS
    asked = next((id for id, one in team.standing.requests.items() if one.holds_up(mate.name)), None)
    return {
        "name": mate.name,
        "type": mate.agent_type,
        "state": seen.state,
        "waiting_for": seen.on if waits else None,
        "request": mate.plan.request or asked,
        "doing": seen.on if seen.state == "working" else None,
        "reason": None if waits or seen.state == "working" else seen.on,
        "last_step_s_ago": int(_last_step_s(team, mate)),
        "open_tasks": [id for id, task in tasks.items() if task.owner == mate.name],
        "model": mate.model,
        "mode": mate.mode,
        "tokens": _tokens(team, mate),
    }


def health_of(team: Team, mate: Mate, tasks: Mapping[str, OpenTask]) -> Health:
    """The member's state as everybody sees it; its coroutine is probed, and its own state counts."""
    known = team.standing.members.get(mate.name) or MemberStanding(mate.name)
    if known.state != mate.state:
        known = replace(known, state=str(mate.state), lost=False)
    alive = mate.task is None or not mate.task.done() or mate.state in GONE
    seen = seen_of(known, team.standing, tasks, alive=alive, why="" if alive else "its coroutine has ended")
    return health(seen)


async def _open_tasks(team: Team) -> dict[str, OpenTask]:
    tasks = await team.tasks.all()
    statuses = {task.id: task.status for task in tasks}
    return {t.id: OpenTask(t.owner or "", open_blockers(t, statuses)) for t in tasks if t.status != "completed"}


def _last_step_s(team: Team, mate: Mate) -> float:
    known = team.standing.members.get(mate.name)
    by_log = time.time() - known.active if known is not None and known.active else float("inf")
    return max(0.0, min(by_log, (now_ms() - mate.last_active_ms) / 1000))


def _tokens(team: Team, mate: Mate) -> int:
    known = team.standing.members.get(mate.name)
    return max(mate.usage.tokens, known.usage.tokens if known is not None else 0)
