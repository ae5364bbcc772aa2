"""The hooks of a session: hooks of each agent, and events that belong to no tool call.

Implements ports of `tools` and of the request queue. Depends on the packages below and settings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.agent.agent_hooks import NO_HOOKS, AgentHooks, drop_text
from teamwright.agent.permission_gate import Denial
from teamwright.agent.tool import Workplace
from teamwright.agent.toolbox import PreparedCall
from teamwright.hooks import payload
from teamwright.hooks.hook_definitions import (
    NOTIFICATION,
    PERMISSION,
    SESSION_END,
    SESSION_START,
    SETUP,
    SUBAGENT_STOP,
    TASK_COMPLETED,
    TASK_CREATED,
    WORKTREE_CREATE,
    WORKTREE_REMOVE,
    HookSpec,
)
from teamwright.hooks.hook_index import HookIndex
from teamwright.hooks.hook_outcome import NO_OUTCOME, HookOutcome
from teamwright.hooks.hook_runner import HookRunner
from teamwright.hooks.payload import HookAgent
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.verdict import Access, PermissionAnswer, PermissionUpdate, Question
from teamwright.protocol.errors import TeamwrightError, WorktreeRefused
from teamwright.protocol.events import Emit, Notice, RequestOpened, RunEnded, TeamEvent
from teamwright.protocol.ids import LEAD, display_name
from teamwright.protocol.runtime_tags import escape_tags
from teamwright.protocol.task import Task
from teamwright.teams.team import SessionTeam

if TYPE_CHECKING:
    from teamwright.approvals.request_queue import Answerer
    from teamwright.hooks.started_agents_file import AgentStarts
    from teamwright.teams.lead_agent import Lead
    from teamwright.tools.tasks.task_hooks import CompletionReview

CRASHED = "crashed"
"""The ending of an agent whose process was killed, reported when its session is resumed."""


_ASKED = {"question": "question_prompt", "budget": "question_prompt"}


class HookedAgent(Struct, frozen=True):
    """A new agent for its hooks. `display_name` is the agent as shown to people.

    `deliver_later` takes a text of a background hook for the agent, and whether it wakes the agent.
    """

    who: HookAgent
    display_name: str
    workplace: Workplace
    policy: Policy
    deliver_later: Callable[[str, bool], None] = drop_text


class SessionHooks(Struct):
    """All hooks of one session. `directory` is the session's; `agents` are the hooks of live agents, by name."""

    hooks: HookRunner
    identity: HookAgent
    directory: Path
    emit: Emit
    own_of: Callable[[str], Sequence[HookSpec]]
    """Returns the hooks of an agent type's definition."""
    answerers: list[Answerer]
    """The answerers of requests, to which the hooks are added when one of them answers requests."""
    agents: WeakKeyDictionary[AgentHooks, str] = field(default_factory=WeakKeyDictionary[AgentHooks, str])
    runs_own: bool = True
    """True when hooks of agent definitions run."""
    _starts: AgentStarts | None = None
    _open: bool = False

    @property
    def starts(self) -> AgentStarts | None:
        """The record of starts without a stop; None without a hook for stops."""
        return self._starts_for(self.hooks)

    def _starts_for(self, hooks: HookRunner) -> AgentStarts | None:
        from teamwright.hooks.started_agents_file import FILE_NAME, AgentStarts

        if self._starts is None and hooks.wants(SUBAGENT_STOP, SESSION_END):
            self._starts = AgentStarts(self.directory / FILE_NAME)
        return self._starts

    # ── agents ────────────────────────────────────────────────────────────────────────────────────────────────

    def make(self, agent: HookedAgent, denials: list[Denial], own: Sequence[HookSpec] = ()) -> AgentHooks:
        """Return the hooks of a new agent: the session's, and `own`, which run for it alone.

        `denials` collects what hooks refuse.
        """
        display_name = agent.display_name
        hooks = self.with_own(own)
        if not hooks.index.hooks:
            return NO_HOOKS

        def denied(call: PreparedCall, rule: str, reason: str) -> None:
            tool_input = call.input.model_dump(exclude_unset=True)
            denials.append(Denial(display_name, call.tool.name, call.ctx.tool_use_id, tool_input, rule, reason))

        def mode() -> str:
            return str(agent.policy.display_mode)

        agent_hooks = AgentHooks(
            hooks, agent.who, lambda: agent.workplace.cwd, mode, denied, self._starts_for(hooks), agent.deliver_later
        )
        self.agents[agent_hooks] = display_name  # sub-agents may have equal names: each keeps its own hooks
        return agent_hooks

    def _of(self, display_name: str) -> AgentHooks | None:
        """Return the hooks of a live agent, by its name as shown to people."""
        return next((hooks for hooks, name in list(self.agents.items()) if name == display_name), None)

    def with_own(self, own: Sequence[HookSpec]) -> HookRunner:
        """Return the session's hooks with one agent's own, unless all hooks are disabled."""
        if not own or not self.runs_own:
            return self.hooks
        runner = replace(self.hooks, index=HookIndex((*self.hooks.index.hooks, *own)))
        if runner.wants(PERMISSION):
            self.answer_requests()
        return runner

    def answer_requests(self) -> None:
        """Answer requests from now on, before any approver."""
        if self.answer not in self.answerers:
            self.answerers.append(self.answer)

    async def answer(self, question: Question) -> PermissionAnswer | None:
        """Return the answer of hooks to a request; None leaves it to the next answerer."""
        own = self._of(question.member)
        if own is None or question.kind != "permission":
            return None  # plans and questions are only for their addressees
        from teamwright.permissions.permission_update_json import to_wire

        updates = [to_wire(one) for one in question.suggestions]
        request_payload = payload.permission_request(question.tool, question.input, question.tool_use_id, updates)
        reply = (
            await own.fire(PERMISSION, lambda: request_payload, question.tool, access=lambda: _access(question, own))
        ).answer
        if reply is None:
            return None
        granted = tuple(self._granted(update, question.member) for update in reply.updates) if reply.allowed else ()
        whole = tuple(update for update in granted if update is not None)
        return PermissionAnswer(reply.allowed, "hook", reply.message, input=reply.input, updates=whole)

    def _granted(self, update: Mapping[str, Any], member: str) -> PermissionUpdate | None:
        from teamwright.permissions.permission_update_json import from_wire

        try:
            return from_wire(update)
        except TeamwrightError as problem:
            text = f"a hook would grant what is not understood: {problem.what}"
            self.emit(Notice(member=member, text=text, level="warning"))
            return None

    async def fire_for_lead(
        self, event: str, make_payload: Callable[[], Mapping[str, Any]], subject: str
    ) -> HookOutcome:
        """Run the hooks of an event that belongs to the lead; none before the lead is there."""
        lead = self._of(LEAD) if self.hooks.wants(event) else None
        return NO_OUTCOME if lead is None else await lead.fire(event, make_payload, subject)

    # ── worktrees ─────────────────────────────────────────────────────────────────────────────────────────────

    async def create_worktree(self, name: str) -> str:
        """Return the directory that a hook made as a worktree; empty without a hook. Raises WorktreeRefused."""
        if not self.hooks.wants(WORKTREE_CREATE):
            return ""
        outcome = await self._fire_of_session(WORKTREE_CREATE, payload.worktree_create(name))
        if outcome.worktree and not outcome.blocked and not outcome.problem:
            return outcome.worktree
        why = outcome.reason or outcome.problem or "it printed no path"
        what = f"the WorktreeCreate hook made no worktree {name}: {why}"
        raise WorktreeRefused("worktree-refused", what, note="nothing was started")

    async def remove_worktree(self, path: Path) -> str:
        """Let hooks remove a worktree that a hook made; return why they did not, or an empty text."""
        if not self.hooks.wants(WORKTREE_REMOVE):
            return "no WorktreeRemove hook removes it"
        outcome = await self._fire_of_session(WORKTREE_REMOVE, payload.worktree_remove(path))
        return outcome.reason or outcome.problem

    async def _fire_of_session(self, event: str, more: Mapping[str, Any]) -> HookOutcome:
        common = payload.common_fields(self.identity, self.hooks.environment.project, "")
        return await self.hooks.fire(event, {**common, **more})

    # ── tasks ─────────────────────────────────────────────────────────────────────────────────────────────────

    def review_new_tasks(self) -> bool:
        """Return True when hooks review new tasks."""
        return self.hooks.wants(TASK_CREATED)

    async def after_task_created(self, name: str, task: Task, team: SessionTeam) -> str:
        """Return why hooks refuse a new task; empty when they accept it."""
        outcome = await self._of_task(TASK_CREATED, name, task, team)
        return outcome.reason if outcome.blocked else ""

    async def before_task_completed(self, name: str, task: Task, team: SessionTeam) -> CompletionReview:
        """Review the completion of a task; a hook may end the teammate that completes it."""
        from teamwright.tools.tasks.task_hooks import CompletionReview

        outcome = await self._of_task(TASK_COMPLETED, name, task, team)
        if outcome.halted and (teammate := team.find(name)) is not None:
            teammate.note_end_cause(f"ended by a hook: {outcome.halt_reason}")
        return CompletionReview(
            outcome.halt_reason if outcome.halted else outcome.reason if outcome.blocked else "",
            ends_turn=outcome.halted,
        )

    async def _of_task(self, event: str, name: str, task: Task, team: SessionTeam) -> HookOutcome:
        own = self._of(name)
        if own is None:
            return HookOutcome()
        event_payload = payload.task_event(task.id, task.subject, task.description, name, team.name)
        return await own.fire(event, lambda: event_payload)

    # ── the session ───────────────────────────────────────────────────────────────────────────────────────────

    async def fire_start(self, source: str, lead: Lead, setup: str = "") -> None:
        """Fire the start of the session: first the stops that a kill left out, then the hooks of this start.

        `setup` is the trigger of `Setup` hooks, which run before those of the start.
        """
        if source == "resume":
            await self.stop_crashed(self.directory)
        if setup:
            prepared = await lead.agent.hooks.fire(SETUP, lambda: payload.setup(setup), setup)
            for context in prepared.contexts:
                lead.add_note(escape_tags(context))
        if not self.hooks.wants(SESSION_START, SESSION_END):
            return
        self._open = True
        if self.starts is not None:
            self.starts.record_start(self.identity)
        outcome = await lead.agent.hooks.fire(
            SESSION_START, lambda: payload.session_start(source, lead.agent.model.card.name), source
        )
        for context in outcome.contexts:
            lead.add_note(escape_tags(context))

    async def stop_crashed(self, *directories: Path) -> None:
        """Fire the stops of agents whose process was killed, of the sessions in these directories."""
        from teamwright.hooks.started_agents_file import FILE_NAME, AgentStarts

        left: list[HookAgent] = []
        for directory in directories:
            if not (directory / FILE_NAME).exists():
                continue
            ledger = AgentStarts(directory / FILE_NAME)
            found = ledger.unstopped()
            for who in found:
                ledger.record_stop(who)
            ledger.close()
            left += found
        await asyncio.gather(*(self._crashed(who) for who in left))

    async def _crashed(self, who: HookAgent) -> None:
        event_payload = payload.common_fields(who, self.hooks.environment.project, "")
        if who.kind == payload.LEAD:
            await self.hooks.fire(SESSION_END, {**event_payload, **payload.session_end("other", CRASHED)}, ("other",))
        else:
            detail = "its process was killed"
            event_payload |= payload.subagent_stop(who, "", CRASHED, detail)
            await self.with_own(self.own_of(who.agent_type)).fire(SUBAGENT_STOP, event_payload, (who.agent_type,))

    async def fire_end(self, reason: str, mode: str) -> None:
        """Fire the end of the session, then close the hooks that run in the background. May be called twice."""
        if self._open:
            self._open = False
            if self.starts is not None:
                self.starts.record_stop(self.identity)
            event_payload = {
                **payload.common_fields(self.identity, self.hooks.environment.project, mode),
                **payload.session_end(reason),
            }
            await self.hooks.fire(SESSION_END, event_payload, (reason,))
        await self.hooks.close()
        if self._starts is not None:
            self._starts.close()

    # ── notifications ─────────────────────────────────────────────────────────────────────────────────────────

    def notify(self, event: TeamEvent) -> None:
        """Fire `Notification` for an event that a person should see, without waiting for it."""
        match event:
            case RequestOpened():
                kind = _ASKED.get(event.kind, "permission_prompt")
                first_line = event.what.split("\n", 1)[0]
                self._notify(kind, f"{display_name(event.member)} asks: {event.tool} {first_line[:200]}")
            case RunEnded(stop="done"):
                self._notify("idle_prompt", "The lead has answered and waits for your words.")
            case RunEnded():
                self._notify("run_failed", f"The run ended ({event.stop}): {event.detail}")
            case _:
                pass

    def _notify(self, kind: str, message: str) -> None:
        own = self._of(LEAD)
        if own is not None:
            firing = own.fire(NOTIFICATION, lambda: payload.notification(kind, message), kind)
            self.hooks.run_in_background(firing, f"hooks of {NOTIFICATION}")


def _access(question: Question, own: AgentHooks) -> Access:
    from teamwright.agent.hook_conditions import access_of_input

    return access_of_input(question.input, own.cwd())
