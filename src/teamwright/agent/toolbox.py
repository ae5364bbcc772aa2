"""The tools of an agent as one object: find, validate, decide on and run a call. A refusal is a result like any other.

`run_tool` is the innermost step, and other steps wrap it. Calls of one answer run together when they cannot disturb
each other; a failed call never cancels the others. Calls have numbers, from a counter that the processes of a run can
share.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.agent.activity_monitor import AgentActivity
from teamwright.agent.agent_type import LEAD_ONLY, OTHER_PRODUCTS_TOOLS
from teamwright.agent.tool import (
    AnyTool,
    ToolContext,
    ToolResult,
    Workplace,
    refuse_host,
    tool_schema,
    unread_arguments,
    validate,
)
from teamwright.permissions.excluded_paths import NOTHING_EXCLUDED, ExcludedPaths
from teamwright.permissions.verdict import Access
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import Emit, HasListeners, ToolCalled, ToolStarted, always_true
from teamwright.protocol.ids import nearest
from teamwright.protocol.messages import UNPARSED_ARGUMENTS, Block, ToolCall, message_text, tool_result_block
from teamwright.protocol.runtime_tags import NO_KEY_TAGS, RuntimeTags
from teamwright.storage.files import storage_error
from teamwright.storage.paths import make_private

if TYPE_CHECKING:
    from teamwright.agent.tool_input import ToolInput


class PreparedCall(Struct):
    """A call that was found and validated, on its way through the steps.

    `hook_answer` is a hook's answer before the gate decides: `allow` answers a question of the gate and never lifts a
    denial, `ask` requires a question for a call that would run; `hook_reason` is its reason. `is_revised`: the input is
    not the model's; `note` is delivered to the model with the result.
    """

    tool: AnyTool
    input: ToolInput
    access: Access
    ctx: ToolContext
    summary: str
    denied: bool = False
    hook_answer: str = ""
    hook_reason: str = ""
    is_revised: bool = False
    note: str = ""


Step: TypeAlias = Callable[[PreparedCall], Awaitable[ToolResult]]


class CallGate(Protocol):
    """The decision on each call of an agent."""

    async def __call__(self, call: PreparedCall) -> ToolResult | None:
        """Return None to let the call run, or the refusal as a result."""
        ...

    def allows(self, tool: str, access: Access) -> bool:
        """Return True when such a call would run without a question."""
        ...

    async def may_connect(self, command: str, host: str, port: int, is_named: bool) -> bool:
        """Return True when a command, which names the host or not, may connect to it, perhaps after a question."""
        ...

    def excluded_paths(self, tool: str, directory: Path) -> ExcludedPaths:
        """Return the paths that a tool of this name must leave out of a listing of the directory."""
        ...

    def was_left_open(self, tool_use_id: str) -> bool:
        """Return True when this call waited for an answer when an earlier process ended: it never ran."""
        ...


class CallRecord(Protocol):
    """The record of an agent's calls, which its conversation keeps."""

    @property
    def tags(self) -> RuntimeTags:
        """The tags for notes in a result."""
        ...

    def step_key(self, what: str, /) -> str:
        """Return a permanent name of a call for the model's id of it."""
        ...


class NoCallRecord:
    """The record for calls outside a conversation."""

    tags = NO_KEY_TAGS

    def step_key(self, what: str, /) -> str:
        """Return the model's id."""
        return what


OUTPUT_IN_LOG = 4_000
"""Characters of a result in the event log; the transcript has all of it."""


class Toolbox(Struct, eq=False, dict=True):
    """The tools of one agent. `schemas` is the part of the prefix, fixed when the agent is created.

    `has_listeners` returns True when a subscriber wants the events of calls that start. `record` is the conversation
    with its calls. `wrap` adds a step around all others: it runs before a call is decided on, and after the call.
    """

    member: str
    tools: Sequence[AnyTool]
    workplace: Workplace
    gate: CallGate
    numbers: CallNumbers
    emit: Emit
    has_listeners: HasListeners = always_true
    short_refusals: bool = False
    """True when the model gets one sentence about a refused call, as with the compact prompt."""
    activity: AgentActivity = field(default_factory=AgentActivity)
    record: CallRecord = field(default_factory=NoCallRecord)
    wrap: Callable[[Step], Step] | None = None
    _by_name: dict[str, AnyTool] = field(default_factory=dict[str, AnyTool])
    _begun: set[str] = field(default_factory=set[str])
    """The ids of the calls of the newest answer whose tools have begun, after every question about them."""
    _other_calls: dict[str, ToolCall] = field(default_factory=dict[str, ToolCall])
    """The calls of the newest answer that ran with another tool or input than the model's, as they ran."""

    def __post_init__(self) -> None:
        self.set_tools(self.tools)

    @cached_property
    def _step(self) -> Step:
        step = with_gate(self.gate, with_instructions(self.workplace, self._begin))
        return step if self.wrap is None else self.wrap(step)

    async def _begin(self, call: PreparedCall) -> ToolResult:
        self._begun.add(call.ctx.tool_use_id)
        return await run_tool(call)

    def has_begun(self, call: ToolCall) -> bool:
        """Return True when the tool of this call of the newest answer has begun: it was allowed, if that was asked."""
        return call.id in self._begun

    def call_as_run(self, call: ToolCall) -> ToolCall:
        """Return this call of the newest answer as it ran: a hook, or a tool that calls others, may have changed it."""
        return self._other_calls.get(call.id, call)

    def shorten_refusals(self, *, short: bool) -> None:
        """Give the model one sentence about each refused call from now on, or the whole text again."""
        self.short_refusals = short

    def set_tools(self, tools: Sequence[AnyTool]) -> None:
        """Replace the tools. For a running agent this needs a new prefix that names them."""
        self.tools = tuple(tools)
        self._by_name = {tool.name: tool for tool in tools}
        self._by_name |= {alias: tool for tool in tools for alias in tool.aliases if alias not in self._by_name}

    def _may_call(self, tool: str, access: Access) -> bool:
        return tool in self.names and self.gate.allows(tool, access)

    @property
    def names(self) -> frozenset[str]:
        """The names of the tools, without aliases."""
        return frozenset(tool.name for tool in self.tools)

    @property
    def offered_tools(self) -> list[AnyTool]:
        """The tools that the prefix names, in order."""
        return offered_tools(self.tools)

    @property
    def schemas(self) -> list[Mapping[str, Any]]:
        """The schemas of the tools for the model, in order."""
        return [tool_schema(tool) for tool in self.offered_tools]

    async def run_all(self, calls: Sequence[ToolCall], done: dict[str, tuple[Block, ToolResult]]) -> None:
        """Run the calls of one answer. `done` is filled as they end, also when this is cancelled."""
        self._begun.clear()
        self._other_calls.clear()
        if len(calls) == 1:
            await self._run_into(calls[0], done)
            return
        checked = {call.id: self._check_call(call, "") for call in calls}
        for number, group in enumerate(_groups(calls, checked)):
            # Calls of an earlier group may have changed what a path leads to, or which tools there are.
            ready = {call.id: self._prepare_again(call, checked[call.id]) for call in group} if number else checked
            if len(group) == 1:
                await self._run_into(group[0], done, ready[group[0].id])
                continue
            async with asyncio.TaskGroup() as together:
                for call in group:
                    together.create_task(self._run_into(call, done, ready[call.id]))

    def is_wait(self, call: ToolCall, result: ToolResult | None, /) -> bool:
        """Return True for a call that waited for what may still come (see Tool.is_wait)."""
        if result is None or result.invalid:
            return False
        prepared = self._check_call(call, "")
        return isinstance(prepared, PreparedCall) and prepared.tool.is_wait(prepared.input, result)

    def makes_known_change(self, call: ToolCall, /) -> bool:
        """Return True for a call that changes only what its input says (see Tool.makes_known_change)."""
        prepared = self._check_call(call, "")
        return isinstance(prepared, PreparedCall) and prepared.tool.makes_known_change(prepared.input)

    async def rerun(self, calls: Sequence[ToolCall], done: dict[str, tuple[Block, ToolResult]]) -> None:
        """Run the interrupted calls that may run again or never ran, one after another in their order."""
        for call in calls:
            never_ran = self.gate.was_left_open(call.id)
            prepared = self._check_call(call, "", again=not never_ran)
            if not isinstance(prepared, ToolResult) and (never_ran or prepared.tool.can_rerun(prepared.input)):
                await self._run_into(call, done, prepared)

    async def _run_into(
        self,
        call: ToolCall,
        done: dict[str, tuple[Block, ToolResult]],
        prepared: PreparedCall | ToolResult | None = None,
    ) -> None:
        result = await self.run_call(call, prepared)
        content = _with_notes(self.record.tags, result)
        done[call.id] = (tool_result_block(call.id, content, is_error=result.is_error), result)

    async def run_call(self, call: ToolCall, prepared: PreparedCall | ToolResult | None = None) -> ToolResult:
        """Find, validate, decide and run one call. Raises only `CancelledError`.

        `prepared` is the call when it was found and validated already, or its refusal.
        """
        number = self.numbers.next_number(call.id)
        if prepared is None:
            prepared = self._check_call(call, number)
        elif isinstance(prepared, PreparedCall):
            prepared.ctx.call = number
        if isinstance(prepared, ToolResult):
            prepared = self._refusal(prepared)
            self._emit_called(number, call, call.name, prepared, "failed", 0.0)
            return prepared
        if self.has_listeners():
            self.emit(ToolStarted(member=self.member, call=number, tool=prepared.tool.name, summary=prepared.summary))
        started = time.perf_counter()
        self.activity.start_tool_call(number, f"{prepared.tool.name} {prepared.summary}")
        try:
            result = await self._step(prepared)
        except asyncio.CancelledError as problem:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # This task was not cancelled: an operation that the tool waited for was.
            result = _crash_result(call, problem)
        except (Exception, SystemExit) as problem:
            # A fault in a tool or in a user's function: the model is notified, and other calls continue.
            result = _crash_result(call, problem)
        finally:
            self.activity.end_tool_call(number)
        if prepared.denied:
            result = self._refusal(result)
        outcome = "denied" if prepared.denied else "failed" if result.is_error else "done"
        tool = prepared.tool
        if prepared.is_revised or call.name not in {tool.name, *tool.aliases}:  # another tool may have called it
            call = replace(call, name=tool.name, input=prepared.input.model_dump(exclude_unset=True))
            self._other_calls[call.id] = call
        self._emit_called(number, call, prepared.summary, result, outcome, time.perf_counter() - started)
        return result

    def _refusal(self, result: ToolResult) -> ToolResult:
        """Return the result of a call that did not run, as the agent's model gets it."""
        if not self.short_refusals or not isinstance(result.content, str):
            return result
        return replace(result, content=result.content.split("\n", 1)[0])

    def _check_call(self, call: ToolCall, number: str, *, again: bool = False) -> PreparedCall | ToolResult:
        try:
            return self._find_and_validate(call, number, again=again)
        except (ValueError, TypeError, RecursionError, OverflowError) as problem:
            # The input is beyond what Python or a schema can examine.
            return replace(_crash_result(call, problem), invalid="input")

    def _find_and_validate(self, call: ToolCall, number: str, *, again: bool) -> PreparedCall | ToolResult:
        found = self._by_name.get(call.name) or next(
            (found for tool in self.tools if (found := tool.find_unlisted(call.name)) is not None), None
        )
        if found is None:
            close = nearest(call.name, self._by_name)
            instead = OTHER_PRODUCTS_TOOLS.get(call.name, "")
            hint = f"{instead}. " if instead else f"Did you mean {close}? " if close else ""
            have = f"You have: {', '.join(sorted(self.names))}."
            what = f"There is no tool {call.name[:60]!r}."
            if self.short_refusals:
                what = f"{what} {hint.strip() or have}"
            return replace(ToolResult.error(what, f"{hint}{have}"), invalid="tool")
        tool = found.load()
        if UNPARSED_ARGUMENTS in call.input:
            return replace(unread_arguments(tool, str(call.input[UNPARSED_ARGUMENTS])), invalid="json")
        checked = validate(tool, call.input)
        while not isinstance(checked, ToolResult) and (target := tool.target_call(checked)) is not None:
            tool, input_fields = target
            checked = validate(tool, dict(input_fields))
        if isinstance(checked, ToolResult):
            return replace(checked, invalid="input")
        ctx = ToolContext(
            self.member,
            self.workplace,
            number,
            call.id,
            again,
            self.record.step_key,
            may_call=self._may_call,
            may_connect=self.gate.may_connect,
            excluded_paths=self.gate.excluded_paths,
        )
        return _with_access(call, tool, checked, ctx)

    def _prepare_again(self, call: ToolCall, checked: PreparedCall | ToolResult) -> PreparedCall | ToolResult:
        """Return a call that other calls ran before, with its access as it is now; a refused one is checked again."""
        if isinstance(checked, ToolResult):
            return self._check_call(call, "")
        return _with_access(call, checked.tool, checked.input, checked.ctx)

    def _emit_called(
        self, number: str, call: ToolCall, summary: str, result: ToolResult, outcome: str, seconds: float
    ) -> None:
        content = result.content if isinstance(result.content, str) else message_text(result.content)
        brief = {"brief": result.brief} if result.brief else {}
        self.emit(
            ToolCalled(
                member=self.member,
                call=number,
                tool=call.name,
                summary=summary,
                outcome=outcome,
                seconds=round(seconds, 4),
                input=call.input,
                output=content[:OUTPUT_IN_LOG],
                use=call.id,
                facts={**brief, **result.facts},
            )
        )
        if result.refusal is not None:
            self.emit(replace(result.refusal, member=self.member, call=number))


def _with_access(call: ToolCall, tool: AnyTool, input: ToolInput, ctx: ToolContext) -> PreparedCall | ToolResult:
    try:
        return PreparedCall(tool, input, tool.access(input, ctx), ctx, tool.summary(input))
    except TeamwrightError as problem:
        return ToolResult(problem.for_model(), is_error=True, brief=problem.what)
    except Exception as problem:
        # The input cannot be examined: a path with a NUL, or a fault in a user's tool.
        return _crash_result(call, problem)


def _groups(calls: Sequence[ToolCall], checked: Mapping[str, PreparedCall | ToolResult]) -> list[list[ToolCall]]:
    """Return groups of consecutive calls that may run together: all read only, or they write different files."""
    groups: list[list[ToolCall]] = []
    paths: set[str] = set()
    reading = False
    for call in calls:
        reads, writes = _footprint(checked[call.id])
        joins = bool(groups) and ((reading and reads) or (writes is not None and paths and not writes & paths))
        if joins:
            groups[-1].append(call)
            reading = reading and reads
            paths |= writes or set()
        else:
            groups.append([call])
            reading = reads
            paths = set(writes or ())
    return groups


def _footprint(prepared: PreparedCall | ToolResult) -> tuple[bool, set[str] | None]:
    """Return whether the call is read-only, and the paths it writes (None: unknown, so it runs alone)."""
    if isinstance(prepared, ToolResult) or prepared.tool.is_read_only(prepared.input):
        return True, None
    return False, {str(path) for path in prepared.access.writes} or None


def _with_notes(tags: RuntimeTags, result: ToolResult) -> str | Sequence[Block]:
    """Return the content of a result followed by the runtime's notes."""
    if not result.notes:
        return result.content
    if isinstance(result.content, str):
        texts = (result.content, *map(tags.reminder, result.notes))
        return "\n\n".join(text for text in texts if text)
    return [*result.content, *map(tags.note, result.notes)]


def _crash_result(call: ToolCall, problem: BaseException) -> ToolResult:
    return ToolResult.error(f"{call.name} broke: {type(problem).__name__}: {problem}", "Try another way.")


def offered_tools(tools: Sequence[AnyTool]) -> list[AnyTool]:
    """Return the tools that a prefix names. Tools of the lead only come last, so that all lists begin alike."""
    return sorted(
        (tool for tool in tools if tool.is_offered and not tool.is_deferred), key=lambda tool: tool.name in LEAD_ONLY
    )


async def run_tool(call: PreparedCall) -> ToolResult:
    """Run the tool: the innermost step. A TeamwrightError becomes a result."""
    try:
        return await call.tool.run(call.input, call.ctx)
    except TeamwrightError as problem:
        return ToolResult(problem.for_model(), is_error=True, brief=problem.what)


def revise_input(call: PreparedCall, input: Mapping[str, Any]) -> ToolResult | None:
    """Replace the input of the call; it is validated like the first. Return the refusal of a bad input, or None."""
    checked = validate(call.tool, dict(input))
    if isinstance(checked, ToolResult):
        return checked
    try:
        access = call.tool.access(checked, call.ctx)
    except TeamwrightError as problem:
        return ToolResult(problem.for_model(), is_error=True, brief=problem.what)
    call.summary = call.tool.summary(checked)
    call.input = checked
    call.access = access
    call.is_revised = True
    return None


def with_gate(gate: CallGate, inner: Step) -> Step:
    """Return a step that asks the gate first."""

    async def step(call: PreparedCall) -> ToolResult:
        if await call.tool.find_facts(call.input, call.ctx):
            call.access = call.tool.access(call.input, call.ctx)
        refusal = await gate(call)
        if refusal is not None:
            call.denied = True
            return refusal
        result = await inner(call)
        return replace(result, notes=(*result.notes, call.note)) if call.note else result

    return step


def with_instructions(workplace: Workplace, inner: Step) -> Step:
    """Return a step that adds the instructions of a directory to the first result that touches a file in it."""
    if workplace.instructions is None:
        return inner

    async def step(call: PreparedCall) -> ToolResult:
        result = await inner(call)
        if not (call.access.reads or call.access.writes):
            return result
        notes = [
            note for path in (*call.access.reads, *call.access.writes) if (note := workplace.instructions_for(path))
        ]
        return replace(result, notes=(*result.notes, *notes)) if notes else result

    return step


MAX_KNOWN_NUMBERS = 1_000
"""The number of calls whose numbers are kept in memory."""


class CallNumbers(Struct):
    """The numbers `cN` of the tool calls of a run, by the model's ids; shared by all agents of a run.

    The newest are kept in memory. `find_earlier` returns the number of an older call, also of an earlier run of the
    session, and an empty text when there is none.
    """

    count: int = 0
    by_tool_use_id: dict[str, str] = field(default_factory=dict[str, str])
    find_earlier: Callable[[str], str] | None = None
    counter: Counter | None = None
    """The counter that several processes of a run share; None when only this process counts."""

    def share(self, path: Path) -> None:
        """Share the counter with other processes of the run from now on. Raises StorageError."""
        if self.counter is None:
            self.counter = Counter(path, self.count)

    def number_for(self, tool_use_id: str) -> str:
        """Return the number of a call; empty when it has none."""
        found = self.by_tool_use_id.get(tool_use_id, "")
        if not found and self.find_earlier is not None:
            found = self._remember(tool_use_id, self.find_earlier(tool_use_id))
        return found

    def next_number(self, tool_use_id: str) -> str:
        """Return the next number and keep it for this call."""
        self.count = self.count + 1 if self.counter is None else self.counter.next()
        return self._remember(tool_use_id, f"c{self.count}")

    def record(self, tool_use_id: str, number: str) -> None:
        """Record the number that another process of the run gave to this call."""
        self._remember(tool_use_id, number)

    def _remember(self, tool_use_id: str, number: str) -> str:
        self.by_tool_use_id[tool_use_id] = number
        if len(self.by_tool_use_id) > MAX_KNOWN_NUMBERS:
            del self.by_tool_use_id[next(iter(self.by_tool_use_id))]
        return number


_BYTES = 8


class Counter:
    """The counter in a file, which is created when it is missing. The owner calls `close`. Raises StorageError."""

    __slots__ = ("_fd", "path")

    def __init__(self, path: Path, at_least: int = 0) -> None:
        """Open the counter. `at_least` is the number of values that were given before the file existed."""
        self.path = path
        try:
            make_private(path.parent)
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as problem:
            raise storage_error(problem, path) from problem
        self._change(lambda before: max(before, at_least))

    def next(self) -> int:
        """Return the next value, from 1. Raises StorageError."""
        return self._change(lambda before: before + 1)

    def _change(self, change: Callable[[int], int]) -> int:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            try:
                value = change(int.from_bytes(os.pread(self._fd, _BYTES, 0), "big"))
                os.pwrite(self._fd, value.to_bytes(_BYTES, "big"), 0)
            finally:
                fcntl.flock(self._fd, fcntl.LOCK_UN)
        except OSError as problem:
            raise storage_error(problem, self.path) from problem
        return value

    def close(self) -> None:
        """Close the file; harmless when already closed."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class _ClosedGate:
    """The gate of a terminated agent."""

    may_connect = staticmethod(refuse_host)

    async def __call__(self, call: PreparedCall) -> ToolResult | None:
        return ToolResult.error("This agent has ended.", "Nothing was done.")

    def allows(self, tool: str, access: Access) -> bool:
        return False

    def excluded_paths(self, tool: str, directory: Path) -> ExcludedPaths:
        return NOTHING_EXCLUDED

    def was_left_open(self, tool_use_id: str) -> bool:
        return False


NO_TOOLS = Toolbox(
    "",
    (),
    Workplace(Path(), tuple, Path(), Path()),
    gate=_ClosedGate(),
    numbers=CallNumbers(),
    emit=lambda _event: None,
)
"""The toolbox of terminated agents: no tools, and no record of seen files."""
