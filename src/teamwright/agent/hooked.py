"""The hooks of one agent: whose they are, the step around its tool calls, and its start and stop.

Composed from outside: a toolbox is handed `wrap`, a turn is handed `may_stop`. An agent without hooks pays nothing.
Knows the contract of a call and the room of hooks; knows no settings, no team and no screen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from teamwright.agent.tool import ToolResult
from teamwright.agent.toolbox import Prepared, Step, revise
from teamwright.hooks import payload
from teamwright.hooks.book import (
    POST_TOOL,
    PRE_TOOL,
    SESSION_END,
    SESSION_START,
    SUBAGENT_START,
    SUBAGENT_STOP,
    TOOL_FAILURE,
)
from teamwright.hooks.firing import Hooks, no_hooks
from teamwright.hooks.outcome import ALLOW, ASK, DENY, NOTHING, Outcome
from teamwright.hooks.payload import Who
from teamwright.hooks.starts import Starts
from teamwright.protocol.blocks import text_of
from teamwright.protocol.envelope import harmless
from teamwright.protocol.values import dataclass

REFUSED_BY = "hook"
"""The rule that a refusal of a hook names."""


def _nowhere() -> Path:
    return Path()


def _no_mode() -> str:
    return ""


def _not_noted(call: Prepared, rule: str, reason: str) -> None:
    """Nobody keeps what was refused."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class AgentHooks:
    """The hooks of one agent. `cwd` and `mode` are asked each time; `denied` keeps what a hook refused.

    `starts` notes the start until its stop; None where nobody needs it.
    """

    hooks: Hooks = field(default_factory=no_hooks)
    who: Who = field(default_factory=lambda: Who("", Path()))
    cwd: Callable[[], Path] = _nowhere
    mode: Callable[[], str] = _no_mode
    denied: Callable[[Prepared, str, str], None] = _not_noted
    starts: Starts | None = None
    _runs: bool = False

    async def fire(self, event: str, more: Callable[[], Mapping[str, Any]], *subjects: str) -> Outcome:
        """Run the hooks of an event of this agent; `more` makes what its payload has beside the common keys."""
        if not self.hooks.wants(event):
            return NOTHING
        return await self.hooks.fire(event, self._whole(more()), subjects or ("",), self.cwd())

    @property
    def runs(self) -> bool:
        """Whether the agent began, and no stop was told of it yet."""
        return self._runs

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def wrap(self) -> Callable[[Step], Step] | None:
        """The step around all others of a call; None when no hook is for calls."""
        return self._around if self.hooks.wants(PRE_TOOL, POST_TOOL, TOOL_FAILURE) else None

    def _around(self, inner: Step) -> Step:
        async def step(call: Prepared) -> ToolResult:
            before = await self._before(call)
            if before.halted or before.permission == DENY or before.blocked:
                return self._refused(call, before)
            if before.input is not None and (problem := revise(call, before.input)) is not None:
                return _unfit(problem)
            call.hook_answer = before.permission if before.permission in {ALLOW, ASK} else ""
            call.hook_reason = before.permission_reason
            result = await self._run(inner, call)
            notes = [*_changed(before), *before.contexts]
            if call.denied:
                return _with(result, notes)
            after = await (self._failed(call, _text(result)) if result.is_error else self._after(call, result))
            if after.blocked:
                notes.append(f"A hook that ran after this call says: {after.reason}")
            made = _with(result, [*notes, *after.contexts])
            return replace(made, ends_turn=True) if after.halted else made

        return step

    async def _run(self, inner: Step, call: Prepared) -> ToolResult:
        """The call. One that is cut off, or breaks, has its hooks too; nobody is told what they add to that."""
        try:
            return await inner(call)
        except asyncio.CancelledError:
            cut = self._failed(call, "the call was interrupted", interrupted=True)
            self.hooks.later(cut, f"hooks of {TOOL_FAILURE}")
            raise
        except Exception as problem:
            await self._failed(call, f"{type(problem).__name__}: {problem}")
            raise

    async def _failed(self, call: Prepared, error: str, *, interrupted: bool = False) -> Outcome:
        def more() -> dict[str, Any]:
            return payload.tool_failure(
                call.tool.name, _given(call), call.ctx.tool_use_id, error, interrupted=interrupted
            )

        return await self.fire(TOOL_FAILURE, more, call.tool.name, *call.tool.aliases)

    async def _before(self, call: Prepared) -> Outcome:
        def more() -> dict[str, Any]:
            return payload.pre_tool_use(call.tool.name, _given(call), call.ctx.tool_use_id)

        return await self.fire(PRE_TOOL, more, call.tool.name, *call.tool.aliases)

    async def _after(self, call: Prepared, result: ToolResult) -> Outcome:
        def more() -> dict[str, Any]:
            given = _given(call)
            response = payload.tool_response(call.tool.name, given, _text(result), result.facts)
            return payload.post_tool_use(call.tool.name, given, call.ctx.tool_use_id, response)

        return await self.fire(POST_TOOL, more, call.tool.name, *call.tool.aliases)

    def _refused(self, call: Prepared, said: Outcome) -> ToolResult:
        reason = said.reason or said.halt_reason
        call.denied = True
        self.denied(call, REFUSED_BY, reason)
        made = ToolResult.error(f"A hook refused this call: {reason}", "Nothing was done. Go on as it says.")
        made = _with(made, said.contexts)
        return replace(made, ends_turn=True) if said.halted else made

    # ── start and stop ────────────────────────────────────────────────────────────────────────────────────────

    async def began(self) -> tuple[str, ...]:
        """The agent begins to run; what hooks want it to know."""
        if not self.hooks.wants(SUBAGENT_START, SUBAGENT_STOP):
            return ()
        self._note_start()
        said = await self.fire(SUBAGENT_START, lambda: payload.subagent_start(self.who), self.who.agent_type)
        return said.contexts

    async def ended_by(self, reason: str) -> None:
        """The lead's conversation is about to be over, though its session goes on."""
        if self.who.kind == payload.LEAD:
            await self.fire(SESSION_END, lambda: payload.session_end(reason), reason)

    async def began_anew(self, model: str, source: str = "compact") -> tuple[str, ...]:
        """The lead is about to go on from a summary, or from nothing: what hooks of a start want it to know again."""
        if self.who.kind != payload.LEAD:
            return ()
        said = await self.fire(SESSION_START, lambda: payload.session_start(source, model), source)
        return said.contexts

    async def may_stop(self, event: str, said: str, *, again: bool) -> Outcome:
        """The agent has come to its end: what the hooks say to that. Blocked, it goes on, and is still running."""
        who = self.who
        if event != SUBAGENT_STOP:
            return await self.fire(event, lambda: payload.stop(said, again=again))
        self._note_stop()
        outcome = await self.fire(event, lambda: payload.subagent_stop(who, said, "done", again=again), who.agent_type)
        if outcome.blocked and not outcome.halted:
            self._note_start()
        return outcome

    def ended(self, outcome: str, detail: str = "", said: str = "") -> None:
        """The agent runs no more, however that came; its stop hooks run without anybody waiting. Once a start."""
        if not self._runs:
            return
        self._note_stop()
        self.hooks.later(self._stopped(outcome, detail, said), f"end of {self.who.agent_id}")

    async def _stopped(self, outcome: str, detail: str, said: str) -> None:
        who = self.who
        await self.fire(SUBAGENT_STOP, lambda: payload.subagent_stop(who, said, outcome, detail), who.agent_type)

    def _note_start(self) -> None:
        self._runs = True
        if self.starts is not None:
            self.starts.begun(self.who)

    def _note_stop(self) -> None:
        self._runs = False
        if self.starts is not None:
            self.starts.over(self.who)

    def _whole(self, more: Mapping[str, Any]) -> dict[str, Any]:
        return {**payload.common(self.who, self.cwd(), self.mode()), **more}


UNHOOKED = AgentHooks()
"""What all agents without hooks share."""


def _given(call: Prepared) -> dict[str, Any]:
    return call.input.model_dump(mode="json", exclude_unset=True)


def _text(result: ToolResult) -> str:
    return result.content if isinstance(result.content, str) else text_of(result.content)


def _changed(said: Outcome) -> list[str]:
    return [] if said.input is None else ["A hook changed the input of this call before it ran."]


def _unfit(problem: ToolResult) -> ToolResult:
    what = problem.content if isinstance(problem.content, str) else problem.brief
    return ToolResult.error(f"A hook changed this call, and it cannot run that way: {what}", "Nothing was done.")


def _with(result: ToolResult, notes: list[str] | tuple[str, ...]) -> ToolResult:
    return replace(result, notes=(*result.notes, *map(harmless, notes))) if notes else result
