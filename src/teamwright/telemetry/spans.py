"""Spans of a session, built from the events of its log in their order.

    session ─┬─ member ── turn ─┬─ chat (a model call)
             │                  ├─ execute_tool ── wait for a person, hook
             └─ turn of the lead└─ invoke_agent of a sub-agent

A span has the times at which its work began and ended, also if it is built much later. Its id is computed from the
events (`protocol.trace_context`). A message is a link from the turn that reads it to the turn that sent it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from msgspec import Struct, field

from teamwright.protocol.events import (
    HookEnded,
    MemberChanged,
    MessageDelivered,
    MessageSent,
    ModelCallEnded,
    RequestClosed,
    RequestOpened,
    RunEnded,
    SessionOpened,
    SubagentChanged,
    TeamChanged,
    TeamEvent,
    ToolCalled,
    TurnEnded,
)
from teamwright.protocol.ids import LEAD, display_name
from teamwright.protocol.members import MemberState
from teamwright.protocol.trace_context import SpanId, parse_traceparent, span_of, trace_of
from teamwright.telemetry import conventions as c

Attributes: TypeAlias = dict[str, str | int | float | bool | list[str]]

MAX_SENT = 4_096
"""The sent messages whose turn is remembered for the link of their reader."""

_TURN_STATES = frozenset({MemberState.WORKING, MemberState.BLOCKED, MemberState.AWAITING, MemberState.STOPPING})
_ENDS = frozenset(
    {MemberState.COMPLETED, MemberState.FAILED, MemberState.CRASHED, MemberState.KILLED, MemberState.SUSPENDED}
)
_SUBAGENT_ENDS = frozenset({"completed", "failed", "killed"})


class Content(Struct, frozen=True):
    """Which contents are exported: texts of answers, and inputs and outputs of tools. Both are off by default."""

    texts: bool = False
    tools: bool = False


NO_CONTENT = Content()


class FinishedSpan(Struct, frozen=True):
    """A span that has ended. Times in seconds since 1970. `is_client`: a request to another service."""

    name: str
    id: SpanId
    parent: SpanId | None
    start: float
    end: float
    attributes: Attributes
    links: tuple[SpanId, ...] = ()
    error: str = ""
    is_client: bool = False


class OpenSpan(Struct):
    """A span that has not ended."""

    name: str
    id: SpanId
    parent: SpanId | None
    start: float
    attributes: Attributes
    links: list[SpanId] = field(default_factory=list[SpanId])

    def finish(self, end: float, more: Attributes, error: str = "") -> FinishedSpan:
        """Return the span as it ended."""
        end = max(self.start, end)
        return FinishedSpan(
            self.name, self.id, self.parent, self.start, end, self.attributes | more, tuple(self.links), error
        )


class SpanBuilder:
    """The spans of one session. `content` says which contents they have.

    `was_killed`: the first process of these events was killed.
    """

    def __init__(self, session: str, content: Content = NO_CONTENT, *, was_killed: bool = False) -> None:
        self.session = session
        self.content = content
        self.trace = trace_of(session)
        self._team = ""
        self._last = 0.0
        self._process: OpenSpan | None = None
        self._has_ended = False
        self._was_killed = was_killed
        self._members: dict[str, OpenSpan] = {}
        self._turns: dict[str, OpenSpan] = {}
        self._models: dict[str, str] = {}
        self._subagents: dict[str, OpenSpan] = {}
        self._requests: dict[str, OpenSpan] = {}
        self._sent: dict[str, SpanId] = {}

    @property
    def process_span(self) -> SpanId | None:
        """The span of the process that drives the session; None before it is known."""
        return None if self._process is None else self._process.id

    def add(self, number: int, event: TeamEvent) -> Iterator[FinishedSpan]:
        """Add the next event, and yield the spans that end with it."""
        if isinstance(event, SessionOpened):
            is_cut = self._process is not None and (self._was_killed or not self._has_ended)
            self._was_killed = self._was_killed and self._process is None
            yield from self.finish(None if is_cut else self._last)
            self._begin_process(number, event)
        self._has_ended = isinstance(event, RunEnded) or (self._has_ended and isinstance(event, MemberChanged))
        self._last = max(self._last, event.at)
        match event:
            case TeamChanged():
                self._team = "" if event.change == "deleted" else event.team
            case MemberChanged():
                yield from self._change_member(number, event)
            case TurnEnded():
                yield from self._end_turn(event.member, event.at, event)
            case ModelCallEnded():
                yield self._model_call(number, event)
            case ToolCalled():
                yield self._tool_call(number, event)
            case HookEnded():
                yield self._hook(number, event)
            case SubagentChanged():
                yield from self._change_subagent(event)
            case RequestOpened():
                self._open_request(event)
            case RequestClosed():
                if (wait := self._requests.pop(event.request, None)) is not None:
                    yield wait.finish(event.at, {c.VERDICT: event.verdict, c.ANSWERED_BY: event.by})
            case MessageSent():
                self._note_sent(event)
            case MessageDelivered():
                self._note_delivered(event)
            case _:
                pass

    def finish(self, at: float | None = None) -> Iterator[FinishedSpan]:
        """Yield everything that is open, inner spans first: the process has ended, at `at` or without a word."""
        more: Attributes = {} if at is not None else {c.CUT_OFF: True}
        end = self._last if at is None else max(at, self._last)
        for kind in (self._requests, self._subagents, self._turns, self._members):
            for span in kind.values():
                yield span.finish(end, more)
            kind.clear()
        if self._process is not None:
            process, self._process = self._process, None
            yield process.finish(end, more)

    # ── the parts ─────────────────────────────────────────────────────────────────────────────────────────────

    def _begin_process(self, number: int, event: SessionOpened) -> None:
        self.trace = trace_of(self.session, event.traceparent)
        id = self._id("session", number)
        parent = parse_traceparent(event.traceparent)
        attributes: Attributes = {c.SESSION: self.session, c.CONVERSATION: self.session, "process.pid": event.pid}
        self._process = OpenSpan("session", id, parent, event.at, attributes)
        self._models.clear()

    def _change_member(self, number: int, event: MemberChanged) -> Iterator[FinishedSpan]:
        name = event.member
        if event.model:
            self._models[name] = event.model
        if event.state in _ENDS:
            yield from self._end_turn(name, event.at)
            if (member := self._members.pop(name, None)) is not None:
                error = event.detail if event.state in {MemberState.FAILED, MemberState.CRASHED} else ""
                yield member.finish(event.at, {c.MEMBER_STATE: str(event.state)}, error)
            return
        if name != LEAD and name not in self._members:
            id = self._id("member", name, event.incarnation or number)
            attributes = self._attributes(name) | {c.INCARNATION: event.incarnation}
            self._members[name] = OpenSpan(f"member {name}", id, self.process_span, event.at, attributes)
        if event.state in _TURN_STATES:
            self._begin_turn(number, event)
        elif event.state is MemberState.IDLE:
            yield from self._end_turn(name, event.at)

    def _begin_turn(self, number: int, event: MemberChanged) -> None:
        if event.member in self._turns:
            return
        id = self._id("turn", event.member, event.incarnation, event.turn or number)
        attributes = (
            self._attributes(event.member)
            | {
                c.OPERATION: c.INVOKE_AGENT,
                c.AGENT_NAME: display_name(event.member),
            }
            | ({c.TURN: event.turn} if event.turn else {})
        )
        name = f"{c.INVOKE_AGENT} {display_name(event.member)}"
        self._turns[event.member] = OpenSpan(name, id, self._member_span(event.member), event.at, attributes)

    def _end_turn(self, member: str, at: float, event: TurnEnded | None = None) -> Iterator[FinishedSpan]:
        turn = self._turns.get(member)
        if turn is None:
            return
        if event is not None and c.STOP not in turn.attributes:
            turn.attributes[c.STOP] = event.stop
            if self.content.texts and event.text:
                message = [{"role": "assistant", "parts": [{"type": "text", "content": event.text[: c.MAX_TEXT]}]}]
                turn.attributes[c.OUTPUT_MESSAGES] = json.dumps(message, ensure_ascii=False)
        del self._turns[member]
        stop = turn.attributes.get(c.STOP)
        yield turn.finish(at, {}, (event.detail or "failed") if event is not None and stop == "failed" else "")

    def _model_call(self, number: int, event: ModelCallEnded) -> FinishedSpan:
        usage = event.usage
        provider, _, _ = self._models.get(event.member, "").partition("/")
        attributes = self._attributes(event.member) | {
            c.OPERATION: c.CHAT,
            c.PROVIDER: provider,
            c.REQUEST_MODEL: event.model,
            c.RESPONSE_MODEL: event.model,
            c.INPUT_TOKENS: usage.prompt_tokens,
            c.OUTPUT_TOKENS: usage.output_tokens,
            c.CACHE_READ: usage.cache_read,
            c.CACHE_WRITE: usage.cache_write,
            c.TIME_TO_FIRST_CHUNK: event.first_part_s,
            c.TASK: event.task,
            c.PURPOSE: event.aside,
            c.REQUEST_ID: event.request_id,
            c.FINISH_REASONS: [event.end] if event.end else [],
        }
        if usage.usd is not None:
            attributes[c.COST_USD] = usage.usd
        return FinishedSpan(
            f"{c.CHAT} {event.model}",
            self._id("call", number),
            self._work_span(event.member, event.caller),
            event.at - event.seconds,
            event.at,
            _filled(attributes | ({c.ERROR_TYPE: event.error} if event.error else {})),
            error=event.error,
            is_client=True,
        )

    def _tool_call(self, number: int, event: ToolCalled) -> FinishedSpan:
        attributes = self._attributes(event.member) | {
            c.OPERATION: c.EXECUTE_TOOL,
            c.TOOL_NAME: event.tool,
            c.TOOL_CALL_ID: event.use,
            c.CALL: event.call,
            c.OUTCOME: event.outcome,
        }
        if self.content.tools:
            attributes[c.TOOL_ARGUMENTS] = json.dumps(event.input, ensure_ascii=False, default=str)[: c.MAX_TEXT]
            attributes[c.TOOL_RESULT] = event.output[: c.MAX_TEXT]
        return FinishedSpan(
            f"{c.EXECUTE_TOOL} {event.tool}",
            self._id("tool", event.use or number),
            self._work_span(event.member),
            event.at - event.seconds,
            event.at,
            _filled(attributes),
            error="" if event.outcome == "done" else event.outcome,
        )

    def _hook(self, number: int, event: HookEnded) -> FinishedSpan:
        attributes = self._attributes(event.member) | {c.HOOK_EVENT: event.hook, c.HOOK_KIND: event.kind}
        parent = SpanId(self.trace, span_of(self.session, "tool", event.use)) if event.use else None
        return FinishedSpan(
            f"hook {event.hook}",
            self._id("hook", number),
            parent or self._work_span(event.member),
            event.at - event.seconds,
            event.at,
            _filled(attributes),
            error=event.detail if self.content.tools or not event.detail else "failed",  # it may quote its output
        )

    def _change_subagent(self, event: SubagentChanged) -> Iterator[FinishedSpan]:
        if event.state in _SUBAGENT_ENDS:
            if (run := self._subagents.pop(event.agent, None)) is not None:
                yield run.finish(event.at, {}, "failed" if event.state == "failed" else "")
        elif event.agent not in self._subagents:
            kind = event.kind or "agent"
            attributes = self._attributes(event.member) | {
                c.OPERATION: c.INVOKE_AGENT,
                c.AGENT_NAME: event.name or kind,
                c.AGENT_DESCRIPTION: event.description,
                c.AGENT_ID: event.agent,
                c.PARENT_AGENT_ID: event.member,
            }
            id = self._id("subagent", event.agent, event.at)
            parent = self._work_span(event.member)
            self._subagents[event.agent] = OpenSpan(
                f"{c.INVOKE_AGENT} {kind}", id, parent, event.at, _filled(attributes)
            )

    def _open_request(self, event: RequestOpened) -> None:
        attributes = self._attributes(event.owner or event.member) | {
            c.REQUEST_KIND: event.kind,
            c.TOOL_NAME: event.tool,
            c.TOOL_CALL_ID: event.tool_use_id,
        }
        parent = self._work_span(event.owner or event.member)
        id = self._id("request", event.request)
        self._requests[event.request] = OpenSpan("wait for a person", id, parent, event.at, _filled(attributes))

    def _note_sent(self, event: MessageSent) -> None:
        if (turn := self._turns.get(event.member)) is not None:
            self._sent[event.message_id] = turn.id
            if len(self._sent) > MAX_SENT:
                del self._sent[next(iter(self._sent))]

    def _note_delivered(self, event: MessageDelivered) -> None:
        if (turn := self._turns.get(event.member)) is not None:
            found = (self._sent.pop(id, None) for id in event.message_ids)
            turn.links += [id for id in found if id is not None]

    # ── inside ────────────────────────────────────────────────────────────────────────────────────────────────

    def _id(self, kind: str, *keys: object) -> SpanId:
        return SpanId(self.trace, span_of(self.session, kind, *keys))

    def _attributes(self, agent: str) -> Attributes:
        run = self._subagents.get(agent)
        of_run = {} if run is None else {name: run.attributes[name] for name in (c.AGENT_ID, c.PARENT_AGENT_ID)}
        member = agent if run is None else str(run.attributes[c.PARENT_AGENT_ID])
        named = {c.CONVERSATION: self.session, c.TEAM: self._team, c.MEMBER: display_name(member)}
        return _filled({**named, **of_run})

    def _member_span(self, member: str) -> SpanId | None:
        span = self._members.get(member)
        return self.process_span if span is None else span.id

    def _work_span(self, agent: str, caller: str = "") -> SpanId | None:
        """Return the span in which an agent works: its run as a sub-agent, its turn, or that of its caller."""
        for name in (agent, caller):
            if (span := self._subagents.get(name) or self._turns.get(name)) is not None:
                return span.id
        return self._member_span(agent)


def _filled(attributes: Mapping[str, Any]) -> Attributes:
    """Return the attributes that have a value."""
    return {name: value for name, value in attributes.items() if value not in ("", None, [])}
