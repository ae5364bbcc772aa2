"""The hooks of one agent: the step around its tool calls, its start and its stop.

A toolbox receives `wrap`; a turn receives the stop hooks. An agent without hooks has no cost. Depends on the contract
of a tool call and on the package `hooks`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.agent.tool import ToolResult
from teamwright.agent.toolbox import PreparedCall, Step, revise_input
from teamwright.hooks import payload
from teamwright.hooks.hook_definitions import (
    ELICITATION,
    ELICITATION_RESULT,
    NOTIFICATION,
    PERMISSION,
    POST_COMPACT,
    POST_TOOL,
    PRE_COMPACT,
    PRE_TOOL,
    SESSION_END,
    SESSION_START,
    STOP_FAILURE,
    SUBAGENT_START,
    SUBAGENT_STOP,
    TASK_COMPLETED,
    TASK_CREATED,
    TOOL_BATCH,
    TOOL_FAILURE,
)
from teamwright.hooks.hook_outcome import ALLOW, ASK, DENY, NO_OUTCOME, HookOutcome
from teamwright.hooks.hook_runner import HookFiring, HookRunner, no_hook_runner
from teamwright.hooks.payload import HookAgent
from teamwright.models.model import Failure
from teamwright.protocol.messages import ToolCall, message_text
from teamwright.protocol.runtime_tags import escape_tags

if TYPE_CHECKING:
    from teamwright.hooks.started_agents_file import AgentStarts
    from teamwright.permissions.verdict import Access

HOOK_RULE = "hook"
"""The rule that a denial by a hook names."""


_LATER_CONTEXTS = frozenset(
    {
        *(TASK_CREATED, TASK_COMPLETED, PERMISSION),
        *(PRE_COMPACT, POST_COMPACT, NOTIFICATION),
        *(ELICITATION, ELICITATION_RESULT),
    }
)
"""The events whose contexts come with the agent's next input. Callers of other events give them to the model at once,
or the agent has ended."""


def drop_text(text: str, wakes: bool) -> None:
    """Drop the text of a background hook."""


class AgentHooks(Struct, eq=False, weakref=True):
    """The hooks of one agent. `cwd` and `mode` are called for each event; `record_denial` records denials by hooks.

    `starts` records the start until the stop hooks have run; None when that is not needed. `deliver_later` takes a text
    of a background hook for the agent, and whether it wakes the agent.
    """

    hooks: HookRunner = field(default_factory=no_hook_runner)
    agent: HookAgent = field(default_factory=lambda: HookAgent("", Path()))
    cwd: Callable[[], Path] = Path
    mode: Callable[[], str] = str
    record_denial: Callable[[PreparedCall, str, str], None] = lambda _call, _rule, _reason: None
    starts: AgentStarts | None = None
    deliver_later: Callable[[str, bool], None] = drop_text
    _is_running: bool = False

    async def fire(
        self,
        event: str,
        make_payload: Callable[[], Mapping[str, Any]],
        *subjects: str,
        access: Callable[[], Access] | None = None,
        takes_contexts: bool = False,
    ) -> HookOutcome:
        """Run the hooks of an event of this agent.

        `make_payload` returns the fields that its payload has besides the common ones. `access` returns what the tool
        call of the event touches, for conditions of hooks. `takes_contexts`: the caller gives the contexts to the model
        also of an event in _LATER_CONTEXTS.
        """
        if not self.hooks.wants(event):
            return NO_OUTCOME

        def matches(condition: str) -> bool:
            from teamwright.agent.hook_conditions import matches_condition  # only for hooks with a condition

            base = self.hooks.environment.project
            return access is not None and matches_condition(condition, subjects, access(), base)

        content = {**payload.common_fields(self.agent, self.cwd(), self.mode()), **make_payload()}
        agent = HookFiring(matches, self.deliver_later)
        outcome = await self.hooks.fire(event, content, subjects or ("",), self.cwd(), agent)
        if outcome.contexts and event in _LATER_CONTEXTS and not takes_contexts:
            self.deliver_later("\n".join(outcome.contexts), False)
        return outcome

    @property
    def is_running(self) -> bool:
        """True from the start of the agent until its stop hooks have run."""
        return self._is_running

    # ── tool calls ────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def wrap(self) -> Callable[[Step], Step] | None:
        """The step around all other steps of a call; None when no hook applies to tool calls."""
        if not self.hooks.wants(PRE_TOOL, POST_TOOL, TOOL_FAILURE):
            return None
        return lambda inner: partial(self._run_call, inner)

    async def _run_call(self, inner: Step, call: PreparedCall) -> ToolResult:
        """Run the hooks before a call, the call, and the hooks after it. A refused call runs no hooks after it."""
        tool = call.tool.name
        tool_use_id = call.ctx.tool_use_id
        asking = self._fire_for(PRE_TOOL, call, lambda: payload.pre_tool_use(tool, _call_input(call), tool_use_id))
        before, notes = await self._watch_file(call, asking)
        if before.halted or before.permission == DENY or before.blocked:
            reason = before.reason or before.halt_reason
            call.denied = True
            self.record_denial(call, HOOK_RULE, reason)
            what = f"A hook refused this call: {reason}"
            refusal = _with_notes(
                ToolResult.error(what, "Nothing was done. Follow the hook's reason."), before.contexts
            )
            return replace(refusal, ends_turn=True) if before.halted else refusal
        if before.input is not None:
            if (problem := revise_input(call, before.input)) is not None:
                what = problem.content if isinstance(problem.content, str) else problem.brief
                what = f"A hook changed this call, and it cannot run that way: {what}"
                return ToolResult.error(what, "Nothing was done.")
            notes = ["A hook changed the input of this call before it ran.", *notes]
        notes += before.contexts
        call.hook_answer = before.permission if before.permission in {ALLOW, ASK} else ""
        call.hook_reason = before.permission_reason

        def failed(error: str, *, interrupted: bool = False) -> Coroutine[Any, Any, HookOutcome]:
            def more() -> dict[str, Any]:
                return payload.tool_failure(tool, _call_input(call), tool_use_id, error, interrupted=interrupted)

            return self._fire_for(TOOL_FAILURE, call, more)

        try:
            result = await inner(call)
        except asyncio.CancelledError:  # its hooks run too; their output is not delivered
            cut = failed("the call was interrupted", interrupted=True)
            self.hooks.run_in_background(cut, f"hooks of {TOOL_FAILURE}")
            raise
        except Exception as problem:
            await failed(f"{type(problem).__name__}: {problem}")
            raise
        if call.denied:
            return _with_notes(result, notes)

        def done() -> dict[str, Any]:
            input_fields = _call_input(call)
            response = payload.tool_response(tool, input_fields, _result_text(result), result.facts)
            return payload.post_tool_use(tool, input_fields, tool_use_id, response)

        fired = failed(_result_text(result)) if result.is_error else self._fire_for(POST_TOOL, call, done)
        after, changed = await self._watch_file(call, fired)
        notes += changed
        if after.blocked:
            notes.append(f"A hook that ran after this call says: {after.reason}")
        result = _with_notes(result, [*notes, *after.contexts])
        return replace(result, ends_turn=True) if after.halted else result

    def _fire_for(
        self, event: str, call: PreparedCall, make_payload: Callable[[], Mapping[str, Any]]
    ) -> Coroutine[Any, Any, HookOutcome]:
        """Run the hooks of an event of this call."""
        return self.fire(event, make_payload, call.tool.name, *call.tool.aliases, access=lambda: call.access)

    async def _watch_file(self, call: PreparedCall, hooks: Awaitable[HookOutcome]) -> tuple[HookOutcome, list[str]]:
        """Run hooks of a call. What they do to its file belongs to the call; return the note about it too."""
        take_over = call.tool.watch_hooks(call.input, call.ctx)
        outcome = await hooks
        note = take_over() if take_over is not None else ""
        return outcome, [note] if note else []

    async def run_batch_hooks(self, calls: Sequence[ToolCall], results: Mapping[str, ToolResult]) -> HookOutcome:
        """Run the hooks after all calls of one answer, before their results go to the model."""
        if not self.hooks.wants(TOOL_BATCH):
            return NO_OUTCOME

        def more() -> dict[str, Any]:
            done: list[dict[str, Any]] = []
            for call in calls:
                if (result := results.get(call.id)) is not None:
                    response = payload.tool_response(call.name, call.input, _result_text(result), result.facts)
                    response["success"] = not result.is_error
                    done.append(payload.post_tool_use(call.name, call.input, call.id, response))
            return payload.tool_batch(done)

        return await self.fire(TOOL_BATCH, more)

    def note_failure(self, failure: Failure) -> None:
        """Run the hooks of a turn that a failure of the model's service ended, in the background."""
        if self.hooks.wants(STOP_FAILURE):
            error = _FAILURES.get(failure.slug, "unknown")
            error = "rate_limit" if failure.retry_after_s is not None else error
            content = payload.stop_failure(error, failure.sentence, failure.what)
            self.hooks.run_in_background(self.fire(STOP_FAILURE, lambda: content, error), f"hooks of {STOP_FAILURE}")

    # ── start and stop ────────────────────────────────────────────────────────────────────────────────────────

    async def run_start_hooks(self) -> tuple[str, ...]:
        """Run the hooks of an agent's start and return their texts for the agent."""
        if not self.hooks.wants(SUBAGENT_START, SUBAGENT_STOP):
            return ()
        self._note_start()
        outcome = await self.fire(SUBAGENT_START, lambda: payload.subagent_start(self.agent), self.agent.agent_type)
        return outcome.contexts

    async def run_session_end_hooks(self, reason: str) -> None:
        """Run the session-end hooks when the lead's conversation ends although its session continues."""
        if self.agent.kind == payload.LEAD:
            await self.fire(SESSION_END, lambda: payload.session_end(reason), reason)

    async def run_session_start_hooks(self, model: str, source: str = "compact") -> tuple[str, ...]:
        """Run the session-start hooks before the lead continues from a summary or an empty conversation.

        Return their texts.
        """
        if self.agent.kind != payload.LEAD:
            return ()
        outcome = await self.fire(SESSION_START, lambda: payload.session_start(source, model), source)
        return outcome.contexts

    async def run_stop_hooks(self, event: str, text: str, *, again: bool) -> HookOutcome:
        """Run the stop hooks at the end of a turn and return their outcome.

        A blocked agent continues and is still running.
        """
        who = self.agent
        if event != SUBAGENT_STOP:
            return await self.fire(event, lambda: payload.stop(text, is_repeated=again))
        self._note_stop()
        outcome = await self.fire(
            event, lambda: payload.subagent_stop(who, text, "done", is_repeated=again), who.agent_type
        )
        if outcome.blocked and not outcome.halted:
            self._note_start()
        return outcome

    def note_end(self, outcome: str, detail: str = "", text: str = "") -> None:
        """Note the end of the agent and run its stop hooks in the background, once for each start."""
        if not self._is_running:
            return
        self._note_stop()
        who = self.agent
        hooks = self.fire(SUBAGENT_STOP, lambda: payload.subagent_stop(who, text, outcome, detail), who.agent_type)
        self.hooks.run_in_background(hooks, f"end of {who.agent_id}")

    def _note_start(self) -> None:
        self._is_running = True
        if self.starts is not None:
            self.starts.record_start(self.agent)

    def _note_stop(self) -> None:
        self._is_running = False
        if self.starts is not None:
            self.starts.record_stop(self.agent)


NO_HOOKS = AgentHooks()
"""The hooks object that all agents without hooks share."""


_FAILURES = {
    "wrong-key": "authentication_failed",
    "no-access": "authentication_failed",
    "no-model": "authentication_failed",
    "unknown-model": "model_not_found",
    "no-network": "server_error",
    "model-failed": "server_error",
    "no-answer": "server_error",
    "context-full": "invalid_request",
    "window-too-small": "invalid_request",
}
"""The kinds of failures in `StopFailure`, by our slugs."""


def _call_input(call: PreparedCall) -> dict[str, Any]:
    return call.input.model_dump(mode="json", exclude_unset=True)


def _result_text(result: ToolResult) -> str:
    return result.content if isinstance(result.content, str) else message_text(result.content)


def _with_notes(result: ToolResult, notes: list[str] | tuple[str, ...]) -> ToolResult:
    return replace(result, notes=(*result.notes, *map(escape_tags, notes))) if notes else result
