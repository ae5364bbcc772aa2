"""The reminder for an agent after the compaction of its conversation: team state from files and live members.

Team state is never only in a conversation. Implements the port of compaction. Depends on the team, incoming mail, jobs
and sub-agents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from teamwright.agent.background_jobs import BackgroundJobs
from teamwright.agent.compaction_state import CompactedAgent
from teamwright.protocol.ids import LEAD, LEAD_ALIAS, display_name, iso_time
from teamwright.protocol.runtime_tags import escape_tags
from teamwright.protocol.task import Task, open_blockers
from teamwright.subagents.registry import Subagents
from teamwright.teams.team import SessionTeam

if TYPE_CHECKING:
    from teamwright.teams.incoming_mail import IncomingMail

MAX_TASKS = 40
"""Open tasks that are listed, the agent's own and others; the rest is counted."""

MAX_LINES = 20
"""Jobs, sub-agents and requests that are listed of each."""

_ANSWERS = {"plan_approval": "plan_approval_response", "permission": "permission_response"}
"""The answering message for each kind of a member's request."""

_MAX_LINE = 200
"""Characters of other authors' text in one line."""


class StateReminder(Struct):
    """The port of compaction for an agent of this team. `team` is None for a sub-agent, which belongs to no team.

    `extra_text` returns the text that a fork received at its start, which is repeated.
    """

    team: SessionTeam | None
    jobs: BackgroundJobs
    agents: Subagents
    extra_text: Callable[[], str] | None = None

    async def wait_until_marked_read(self, agent: CompactedAgent, /) -> None:
        desk = self._incoming(agent)
        if desk is not None:
            await desk.mark_delivered_read()

    async def status_text(self, agent: CompactedAgent, /) -> str:
        lines = [f"The current state ({iso_time()}); read from the files, not from memory."]
        lines += self._identity(agent)
        if self.team is not None:
            lines += self._members(self.team, agent.name)
            from teamwright.teams.member_state import remote_members

            others = await remote_members(self.team)
            lines += (["Members:"] if others else []) + [
                f"- {member.name} ({escape_tags(member.agent_type)}): {member.state}" for member in others
            ]
            found = await self.team.tasks.snapshot()
            lines += _tasks(found.tasks, agent.name)
            lines += [f"- #{one.id} [damaged] {escape_tags(str(one))}" for one in found.damaged]
            lines += self._requests(self.team, agent.name)
        lines += _mode(agent)
        lines += self._running(agent.name)
        if self.extra_text is not None:
            lines.append(self.extra_text())
        return "\n".join(lines)

    def _incoming(self, agent: CompactedAgent) -> IncomingMail | None:
        if self.team is None:
            return None
        if agent.name == LEAD:
            return self.team.lead_mail
        teammate = self.team.find_in_process(agent.name)
        return teammate.incoming if teammate is not None else None

    def _identity(self, agent: CompactedAgent) -> Iterator[str]:
        place = f"You work in {agent.toolbox.workplace.cwd}."
        if self.team is None:
            yield f"You are the sub-agent {agent.agent_id}: your final answer goes to who started you. {place}"
        elif agent.name != LEAD:
            name = agent.name
            team = self.team.name
            yield f'You are {name}, a member of the team "{team}"; its lead is {LEAD_ALIAS}. {place}'
        elif self.team.exists:
            yield f'You lead the team "{self.team.name}". {place}'
        else:
            yield f"You have no team. {place}"

    def _members(self, team: SessionTeam, name: str) -> Iterator[str]:
        others = [teammate for teammate in team.running_members if teammate.name != name]
        if others:
            yield "Members:"
        for teammate in others:
            waits = f", waits for {_shorten(teammate.waiting_on)}" if teammate.waiting_on else ""
            yield f"- {teammate.name} ({escape_tags(teammate.agent_type)}): {teammate.state}{waits}"

    def _requests(self, team: SessionTeam, name: str) -> Iterator[str]:
        if not team.exists:
            return
        found = [body for body in team.requests.open_requests() if name in {body.get("target"), _requester(body)}]
        if found:
            yield "Open requests:"
        for body in found[:MAX_LINES]:
            yield _request(body, own=_requester(body) == name)
        yield from _remainder(found)

    def _running(self, name: str) -> Iterator[str]:
        jobs = [job for job in self.jobs.list(name) if job.state == "running"]
        if jobs:
            yield "Your running background commands:"
        for job in jobs[:MAX_LINES]:
            yield f"- {job.id}: {_shorten(job.description or job.command)}; output in {job.file}"
        yield from _remainder(jobs)
        runs = self.agents.running_runs(name)
        if runs:
            yield "Your running sub-agents; you are notified when one ends:"
        for run in runs[:MAX_LINES]:
            about = str(run.spec_fields.get("description") or run.name or "")
            yield f"- {run.id}" + (f": {_shorten(about)}" if about else "")
        yield from _remainder(runs)


def _mode(agent: CompactedAgent) -> Iterator[str]:
    yield f"Your permission mode is {agent.policy.display_mode}."
    plan = agent.plan
    if plan is not None and plan.is_on:
        waits = f" It was handed in as {plan.pending_request} and waits for an answer." if plan.pending_request else ""
        yield f"You are in plan mode: change nothing but the plan in {plan.file}.{waits}"
    elif plan is not None and plan.ended_by_call and str(plan.file) not in {"", "."}:
        yield f"Your last plan was approved; it is in {plan.file}."


def _tasks(tasks: Sequence[Task], name: str) -> Iterator[str]:
    """Yield the agent's own open tasks first, then the others'."""
    by_id = {task.id: task for task in tasks}
    still_open = [task for task in tasks if task.status != "completed"]
    own = [task for task in still_open if task.owner == name]
    others = [task for task in still_open if task.owner != name]
    for title, found in (("Your tasks:", own), ("Other open tasks:", others)):
        if found:
            yield title
            yield from (_task(task, by_id) for task in found[:MAX_TASKS])
        if len(found) > MAX_TASKS:
            yield f"- and {len(found) - MAX_TASKS} more: TaskList"
    if tasks and not still_open:
        yield f"All {len(tasks)} tasks are completed."


def _task(task: Task, by_id: Mapping[str, Task]) -> str:
    owner = f" ({escape_tags(display_name(task.owner))})" if task.owner else ""
    blockers = ", ".join(f"#{id}" for id in open_blockers(task, by_id))
    waits = f", waits for {blockers}" if blockers else ""
    return f"- #{task.id} [{task.status}] {_shorten(task.subject)}{owner}{waits}"


def _request(body: Mapping[str, Any], *, own: bool) -> str:
    """Return one line for a request: its owner, its subject, and how to answer it."""
    kind = str(body.get("kind", "request"))
    id = body.get("id")
    asker = escape_tags(str(_requester(body)))
    what = str(body.get("tool") or body.get("plan_file") or body.get("reason") or "")
    line = f"- {escape_tags(kind)} {id}, {'yours' if own else f'of {asker}'}" + (f": {_shorten(what)}" if what else "")
    if own or kind not in _ANSWERS:
        return line
    answer = f'{{"type": "{_ANSWERS[kind]}", "request_id": "{id}", "approve": true}}'
    return f'{line}. SendMessage to "{asker}" with {answer} as `message` says yes; with "approve": false, no.'


def _requester(body: Mapping[str, Any]) -> object:
    return body.get("requester") or body.get("member")


def _remainder(found: Sequence[object]) -> list[str]:
    return [f"- and {len(found) - MAX_LINES} more"] if len(found) > MAX_LINES else []


def _shorten(text: str) -> str:
    """Shorten other authors' text to one line."""
    line = " ".join(text.split())
    return escape_tags(line if len(line) <= _MAX_LINE else f"{line[:_MAX_LINE]}…")
