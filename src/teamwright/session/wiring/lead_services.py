"""The lead's process answers the calls of member processes and gives them the lead's policy.

One request queue, one budget tracker and one policy apply to all processes of a session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, convert, field, to_builtins
from msgspec.structs import replace

from teamwright.agent.permission_gate import Denial
from teamwright.budgets.budget_scope import Estimate, Scope
from teamwright.budgets.budget_tracker import BudgetTracker, Reservation
from teamwright.models.model import BudgetRefusal
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.rules import Rule, parse_rules
from teamwright.permissions.verdict import Mode, PermissionAnswer, Question, Verdict
from teamwright.processes.ipc import IpcBody
from teamwright.protocol.errors import TeamRefused
from teamwright.protocol.event_json import usage_from_json
from teamwright.protocol.events import FAILED_ATTEMPTS, ModelCallEnded, SubagentChanged, TeamEvent, ToolCalled
from teamwright.protocol.ids import now_ms
from teamwright.session.agents.factory import AgentFactory
from teamwright.session.modes_and_grants import set_of_member
from teamwright.session.wiring.process_assembly import call_counter_path
from teamwright.team_records.life_cycle import USER_CAUSE
from teamwright.teams.shutdown import kill

_RUNS = ("running", "background")
"""States of a running sub-agent."""


class LeadServices(Struct):
    """The services of one session (see `backends.connections.MemberCallHandler`)."""

    agent_factory: AgentFactory
    attended: Callable[[], bool]
    settings_rules: tuple[Rule, ...]
    """The rules of the session's policy that member processes load from settings."""
    calls_left_open: Callable[[], list[tuple[str, str]]]
    """Returns the calls, by agent and id, that never ran because their request was left open."""
    _holds: dict[tuple[str, int], Reservation] = field(default_factory=dict[tuple[str, int], Reservation])
    _next: int = field(default_factory=now_ms)
    """The number of the newest reservation, above those of an earlier lead process."""

    @property
    def _budget_tracker(self) -> BudgetTracker:
        return self.agent_factory.budget_tracker

    def welcome_facts(self, name: str) -> IpcBody:
        """Implement `MemberCallHandler.welcome_facts`; release reservations of the process's earlier incarnation."""
        self.gone(name)
        agent_factory = self.agent_factory
        agent_factory.numbers.share(call_counter_path(agent_factory.home, agent_factory.cwd, agent_factory.session))
        return {"policy": self.policy(), "left_open": self.calls_left_open()}

    def policy(self) -> IpcBody:
        """Return the session's present policy, which bounds all agents."""
        return policy_to_json(self.agent_factory.policy, self.settings_rules)

    def gone(self, name: str) -> None:
        """Release the reservations of a member's process that has ended."""
        for key in [key for key in self._holds if key[0] == name]:
            self._holds.pop(key).settle(None)
        self.agent_factory.limits.forget_elsewhere(name)

    def process_ended(self, name: str, directory: Path) -> None:
        """Implement `MemberCallHandler.process_ended`, and fire the stop hooks of agents that were killed."""
        self.gone(name)
        hooking = self.agent_factory.toolset.hooking
        hooking.hooks.run_in_background(hooking.stop_crashed(directory), f"end of the process of {name}")

    def receive_note(self, name: str, what: str, arguments: IpcBody) -> None:
        match what:
            case "settle":
                usage = None if arguments["usage"] is None else usage_from_json(arguments["usage"])
                if (hold := self._holds.pop((name, int(arguments["hold"])), None)) is not None:
                    hold.settle(usage)
            case "denied":
                self.agent_factory.denials.extend(Denial(**one) for one in arguments["denials"])
            case "always":
                self.agent_factory.policies.keep_always(str(arguments["rule"]))
            case _:
                pass

    async def handle_call(self, name: str, what: str, arguments: IpcBody) -> IpcBody:
        match what:
            case "ask":
                return to_builtins(await self.agent_factory.approver.ask(convert(arguments["question"], Question)))
            case "reserve":
                return await self._reserve(name, arguments)
            case "charge":
                hold = self._holds.get((name, int(arguments["hold"])))
                got = None if hold is None else await hold.charge(usage_from_json(arguments["usage"]))
                return {} if got is None else {"refused": [got.limit, got.reason]}
            case "admit":
                return {"admitted": await self._budget_tracker.admit(self._scopes(name), int(arguments["calls"]))}
            case "start":
                agent_factory = self.agent_factory
                agent_factory.limits.check_subagents(len(agent_factory.toolset.agents.running_runs()))
                agent_factory.limits.admit(depth=0)
                return {}
            case "grant":
                await self.agent_factory.keep_grant(
                    str(arguments["owner"]), self.agent_factory.policy, convert(arguments["answer"], PermissionAnswer)
                )
                return {}
            case "commits":
                return await self._exchange_commits(name, arguments)
            case "mode" | "stop":
                return await self._run_person_action(name, what, arguments)
            case _:
                raise TeamRefused("team-refused", f"{what!r} is nothing that a lead does", note="nothing was done")

    async def _exchange_commits(self, name: str, fields: IpcBody) -> IpcBody:
        """Store the commits of a member on another machine in the repository, and return the integrated ones."""
        from teamwright.session.wiring.worktree_factory import exchange_commits

        team = self.agent_factory.team
        if team is None:
            raise TeamRefused("team-refused", "there is no team any more", note="nothing was done")
        cwd = self.agent_factory.work_directory
        has = str(fields["has"])
        bundle = str(fields["bundle"])
        return await asyncio.to_thread(exchange_commits, cwd, team, name, has, bundle)

    async def _run_person_action(self, name: str, what: str, fields: IpcBody) -> IpcBody:
        """Carry out an action of a person at the member's terminal, under the rules of the lead's terminal."""
        team = self.agent_factory.team
        if team is None:
            raise TeamRefused("team-refused", "there is no team any more", note="nothing was done")
        if what == "mode":
            return {
                "words": str(await set_of_member(self.agent_factory, team, str(fields["mode"]), name, source="/mode"))
            }
        if (teammate := team.find(name)) is not None:
            await kill(team, teammate, USER_CAUSE)
        return {}

    async def _reserve(self, name: str, fields: IpcBody) -> IpcBody:
        """Reserve budget for a call of this member or its sub-agent, in the run and in its task."""
        budget_tracker = self._budget_tracker
        call = Estimate(**fields["call"])
        got = await budget_tracker.reserve(self._scopes(name), call, str(fields.get("agent") or name), name)
        if isinstance(got, BudgetRefusal):
            return {"refused": [got.limit, got.reason]}
        self._next += 1
        self._holds[name, self._next] = got
        return {"hold": self._next}

    def _scopes(self, name: str) -> list[Scope]:
        task = self._budget_tracker.task_scope(self._budget_tracker.task_of(name))
        return [self._budget_tracker.run] if task is None else [self._budget_tracker.run, task]

    def translate(self, name: str, event: TeamEvent) -> TeamEvent:
        """Return an event of a member's process as an event of the session, and record its usage."""
        match event:
            case ModelCallEnded():
                budget_tracker = self._budget_tracker
                task = event.task
                failed = event.aside == FAILED_ATTEMPTS
                budget_tracker.add_usage(
                    event.member,
                    event.usage,
                    event.model,
                    caller=event.caller,
                    task=task,
                    failed=failed,
                    purpose=event.aside,
                )
                budget_tracker.count_tool_calls(event.member, event.tools)
            case SubagentChanged():
                self.agent_factory.limits.note_elsewhere(name, event.agent, is_running=event.state in _RUNS)
            case ToolCalled():
                self.agent_factory.numbers.record(event.use, event.call)
            case _:
                pass
        return event


def policy_to_json(policy: Policy, from_settings: Sequence[Rule]) -> dict[str, Any]:
    """Return the present mode and directories of the session's policy, and its rules that are not from settings."""
    known = set(map(id, from_settings))
    return {
        "mode": str(policy.effective_mode),
        "rules": [
            [str(one.verdict), one.text, one.source, one.by_user, one.trusted]
            for one in policy.rules
            if id(one) not in known
        ],
        "directories": [str(path) for path in policy.scope.directories],
    }


def rules_from_json(data: Mapping[str, Any], base: Path) -> tuple[Rule, ...]:
    """Return the rules in an object of `policy_to_json`."""
    rules: list[Rule] = []
    for verdict, text, source, *flags in cast("list[tuple[str, str, str, bool, bool]]", data["rules"]):
        rules += parse_rules([text], Verdict(verdict), source, base, *flags)
    return tuple(rules)


def apply_policy(policy: Policy, data: Mapping[str, Any], *, is_elsewhere: bool) -> tuple[Path, ...]:
    """Apply the lead's mode and directories to this process's policy; return the new directories.

    `is_elsewhere`: the lead is on another machine, and the same paths are other directories here. So none applies.
    """
    before = policy.scope.directories
    directories = before if is_elsewhere else tuple(Path(path) for path in data["directories"])
    if directories != before:
        policy.change_scope(replace(policy.scope, directories=directories))
    if (mode := Mode(data["mode"])) is not policy.mode:
        policy.change_mode(mode)
    return tuple(one for one in directories if one not in before)
