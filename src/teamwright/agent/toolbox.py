"""An agent's tools as one thing: find, validate, decide, run; a refusal is a result like any other.

Composed by wrapping: `run` is the innermost step, and whoever adds a step wraps it. Calls of one round run
together when they cannot disturb each other; one that fails never cancels its siblings. Knows the contract of a
tool and the verdict of a policy; knows no tool.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any, TypeAlias

from teamwright.agent.activity import Activity
from teamwright.agent.definition import ELSEWHERE, LEAD_ONLY
from teamwright.agent.schema import tool_schema, unread_arguments, validate
from teamwright.agent.tool import AnyTool, ToolContext, ToolInput, ToolResult
from teamwright.agent.workplace import Workplace
from teamwright.permissions.verdict import Access
from teamwright.protocol.blocks import UNPARSED, Block, ToolCall, text_of, tool_result_block
from teamwright.protocol.envelope import UNKEYED, RuntimeTags
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import Attended, Emit, TeamEvent, ToolCalled, ToolStarted, always
from teamwright.protocol.ids import nearest
from teamwright.protocol.values import dataclass
from teamwright.storage.counter import Counter

OUTPUT_IN_LOG = 4_000
"""Characters of a result that the event log keeps; the transcript has the whole."""

END_IN_EVENT = 600
"""Characters of the end of a longer output: an event has them beside its beginning."""

NUMBERS_KNOWN = 1_000
"""Calls whose numbers are in memory."""


@dataclass(slots=True)
class CallNumbers:
    """`cN` for the N-th tool call of a run, and which call of a model it was; shared by all agents of a run.

    The newest are remembered; `earlier` finds the number of an older call, also of an earlier life of the session, and
    is empty when there is none.
    """

    count: int = 0
    by_use: dict[str, str] = field(default_factory=dict[str, str])
    earlier: Callable[[str], str] | None = None
    shared: Counter | None = None
    """Counts for several processes of a run; without it only this one counts."""

    def share(self, path: Path) -> None:
        """Count together with other processes of the run from now on. Raises StorageError."""
        if self.shared is None:
            self.shared = Counter(path, self.count)

    def of(self, tool_use_id: str) -> str:
        """The number that a call had; empty when it has none."""
        found = self.by_use.get(tool_use_id, "")
        if not found and self.earlier is not None:
            found = self._remember(tool_use_id, self.earlier(tool_use_id))
        return found

    def number(self, tool_use_id: str) -> str:
        """The next number, remembered for this call."""
        self.count = self.count + 1 if self.shared is None else self.shared.next()
        return self._remember(tool_use_id, f"c{self.count}")

    def elsewhere(self, tool_use_id: str, number: str) -> None:
        """Another process of the run gave a call this number."""
        self._remember(tool_use_id, number)

    def _remember(self, tool_use_id: str, number: str) -> str:
        self.by_use[tool_use_id] = number
        if len(self.by_use) > NUMBERS_KNOWN:
            del self.by_use[next(iter(self.by_use))]
        return number


@dataclass(slots=True)
class Prepared:
    """A call that was found and validated, on its way through the steps.

    `hook_answer` is what a hook said of it before the gate decides: `allow` answers a question that the gate would
    ask and never lifts a refusal, `ask` has a call asked that the gate would let run; `hook_reason` says why. A call
    that was `revised` runs with another input than the model's; `note` is what the model is told beside its result.
    """

    tool: AnyTool
    input: ToolInput
    access: Access
    ctx: ToolContext
    summary: str
    denied: bool = False
    hook_answer: str = ""
    hook_reason: str = ""
    revised: bool = False
    note: str = ""


Step: TypeAlias = Callable[[Prepared], Awaitable[ToolResult]]
Gate: TypeAlias = Callable[[Prepared], Awaitable[ToolResult | None]]
"""Decides on a prepared call: None lets it run, a result is the refusal."""


async def run_tool(call: Prepared) -> ToolResult:
    """The innermost step: the tool itself. Errors of ours become results."""
    try:
        return await call.tool.run(call.input, call.ctx)
    except TeamwrightError as problem:
        return ToolResult(problem.for_model(), is_error=True, brief=problem.what)


def revise(call: Prepared, given: Mapping[str, Any]) -> ToolResult | None:
    """Give the call another input, which is validated and looked at like the first. What is wrong with it, or None."""
    checked = validate(call.tool, dict(given))
    if isinstance(checked, ToolResult):
        return checked
    try:
        access = call.tool.access(checked, call.ctx)
    except TeamwrightError as problem:
        return ToolResult(problem.for_model(), is_error=True, brief=problem.what)
    call.input, call.access, call.summary, call.revised = checked, access, call.tool.summary(checked), True
    return None


def gated(gate: Gate, inner: Step) -> Step:
    """A step that asks the gate first."""

    async def step(call: Prepared) -> ToolResult:
        if await call.tool.learn(call.input, call.ctx):
            call.access = call.tool.access(call.input, call.ctx)
        refusal = await gate(call)
        if refusal is not None:
            call.denied = True
            return refusal
        result = await inner(call)
        return replace(result, notes=(*result.notes, call.note)) if call.note else result

    return step


def instructed(nested: Callable[[Path], str], inner: Step) -> Step:
    """A step that adds the instructions of a directory to the first result that touches something in it."""

    async def step(call: Prepared) -> ToolResult:
        result = await inner(call)
        if not (call.access.reads or call.access.writes):
            return result
        notes = [note for path in (*call.access.reads, *call.access.writes) if (note := nested(path))]
        return replace(result, notes=(*result.notes, *notes)) if notes else result

    return step


def offered_tools(tools: Sequence[AnyTool]) -> list[AnyTool]:
    """The tools that a prefix names: those of the lead alone come last, so that all others begin every agent's list."""
    return sorted((tool for tool in tools if tool.offered), key=lambda tool: tool.name in LEAD_ONLY)


class Toolbox:
    """The tools of one agent. `schemas` is what goes into the prefix: fixed at birth."""

    def __init__(
        self,
        member: str,
        tools: Sequence[AnyTool],
        workplace: Workplace,
        *,
        gate: Gate,
        numbers: CallNumbers,
        emit: Emit,
    ) -> None:
        self.member = member
        self.workplace = workplace
        self.hand(tools)
        self.lets: Callable[[str, Access], bool] = lambda _tool, _access: False
        """Whether a call of that tool would run without a question; filled with the gate's."""
        self._numbers = numbers
        self._emit = emit
        self.attended: Attended = always
        """Whether events of calls that begin are wanted by anybody."""
        self.find_more: Callable[[str], AnyTool | None] = lambda _name: None
        """Finds tools that the prefix does not name; filled where there are any."""
        self.activity = Activity()
        self.key_of: Callable[[str], str] = str
        """Names a call for good, from the model's own id of it; filled when the toolbox gets its conversation."""
        self.tags = UNKEYED
        """The tags for notes beside a result; filled when the toolbox gets its conversation."""
        self._step = gated(gate, run_tool if workplace.nested is None else instructed(workplace.nested, run_tool))

    def hand(self, tools: Sequence[AnyTool]) -> None:
        """Have these tools from now on. In an agent's life only where a new prefix begins, which names them."""
        self.tools = tuple(tools)
        self._by_name: dict[str, AnyTool] = {tool.name: tool for tool in tools}
        self._by_name |= {alias: tool for tool in tools for alias in tool.aliases if alias not in self._by_name}

    def _may(self, tool: str, access: Access) -> bool:
        return tool in self.names and self.lets(tool, access)

    @property
    def names(self) -> frozenset[str]:
        """Names of the tools, without aliases."""
        return frozenset(tool.name for tool in self.tools)

    @property
    def offered(self) -> list[AnyTool]:
        """The tools that the prefix names, in order."""
        return offered_tools(self.tools)

    @property
    def schemas(self) -> list[Mapping[str, Any]]:
        """What the model is told of the tools, in order."""
        return [tool_schema(tool) for tool in self.offered]

    def put_around(self, wrap: Callable[[Step], Step]) -> None:
        """Put a step around all others: what happens before a call is decided on, and after it ran."""
        self._step = wrap(self._step)

    async def run_all(self, calls: Sequence[ToolCall], done: dict[str, tuple[Block, ToolResult]]) -> None:
        """Run the calls of one round; `done` is filled as they end, also when this is cancelled."""
        if len(calls) == 1:
            await self._run_into(calls[0], done)
            return
        for group in self._groups(calls):
            if len(group) == 1:
                await self._run_into(group[0], done)
                continue
            async with asyncio.TaskGroup() as together:
                for call in group:
                    together.create_task(self._run_into(call, done))

    def repeats(self, call: ToolCall) -> bool:
        """Whether a call that a kill cut off may be run again (see Tool.repeats)."""
        prepared = self._prepare(call, "")
        return not isinstance(prepared, ToolResult) and prepared.tool.repeats(prepared.input)

    def waits(self, call: ToolCall) -> bool:
        """Return True for a call that waits for an outside event (see Tool.waits)."""
        prepared = self._prepare(call, "")
        return not isinstance(prepared, ToolResult) and prepared.tool.waits(prepared.input)

    async def run_again(self, calls: Sequence[ToolCall], done: dict[str, tuple[Block, ToolResult]]) -> None:
        """Run those of the calls, which a kill cut off, that may be run again: one after another, as they were made."""
        for call in calls:
            if self.repeats(call):
                await self._run_into(call, done, again=True)

    async def _run_into(
        self, call: ToolCall, done: dict[str, tuple[Block, ToolResult]], *, again: bool = False
    ) -> None:
        result = await self.run_one(call, again=again)
        content = _with_notes(self.tags, result)
        done[call.id] = (tool_result_block(call.id, content, is_error=result.is_error), result)

    async def run_one(self, call: ToolCall, *, again: bool = False) -> ToolResult:
        """Find, validate, decide, run one call. Raises nothing but `CancelledError`."""
        number = self._numbers.number(call.id)
        prepared = self._prepare(call, number, again=again)
        if isinstance(prepared, ToolResult):
            self._emit_called(number, call, call.name, prepared, "failed", 0.0)
            return prepared
        if self.attended():
            self._emit(ToolStarted(member=self.member, call=number, tool=prepared.tool.name, summary=prepared.summary))
        started = time.perf_counter()
        self.activity.runs(number, f"{prepared.tool.name} {prepared.summary}")
        try:
            result = await self._step(prepared)
        except asyncio.CancelledError as problem:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Nobody ended us: something that the tool waited for was cancelled.
            result = _broke(call, problem)
        except (Exception, SystemExit) as problem:
            # A mistake of a tool of ours, or of a user's function: the model is told, siblings go on.
            result = _broke(call, problem)
        finally:
            self.activity.ran(number)
        outcome = "denied" if prepared.denied else "failed" if result.is_error else "done"
        if prepared.revised:
            call = replace(call, input=prepared.input.model_dump(exclude_unset=True))
        self._emit_called(number, call, prepared.summary, result, outcome, time.perf_counter() - started)
        return result

    def _prepare(self, call: ToolCall, number: str, *, again: bool = False) -> Prepared | ToolResult:
        tool = self._by_name.get(call.name) or self.find_more(call.name)
        if tool is None:
            close, instead = nearest(call.name, self._by_name), ELSEWHERE.get(call.name, "")
            hint = f"{instead}. " if instead else f"Did you mean {close}? " if close else ""
            what, do = f"There is no tool {call.name[:60]!r}.", f"{hint}You have: {', '.join(sorted(self.names))}."
            return replace(ToolResult.error(what, do), unfit="tool")
        if UNPARSED in call.input:
            return replace(unread_arguments(tool, str(call.input[UNPARSED])), unfit="json")
        checked = validate(tool, call.input)
        if not isinstance(checked, ToolResult) and (meant := tool.stands_for(checked)) is not None:
            tool, given = meant
            checked = validate(tool, dict(given))
        if isinstance(checked, ToolResult):
            return replace(checked, unfit="input")
        ctx = ToolContext(self.member, self.workplace, number, call.id, again, self.key_of, self._may)
        try:
            return Prepared(tool, checked, tool.access(checked, ctx), ctx, tool.summary(checked))
        except TeamwrightError as problem:
            return ToolResult(problem.for_model(), is_error=True, brief=problem.what)
        except Exception as problem:
            # What was given cannot even be looked at: a path with a NUL, a mistake of a user's tool.
            return _broke(call, problem)

    def _groups(self, calls: Sequence[ToolCall]) -> list[list[ToolCall]]:
        """Neighbouring calls that may run together: all read only, or files that differ."""
        groups: list[list[ToolCall]] = []
        taken: set[str] = set()
        reading = False
        for call in calls:
            reads, writes = self._footprint(call)
            joins = bool(groups) and ((reading and reads) or (writes is not None and taken and not writes & taken))
            if joins:
                groups[-1].append(call)
                reading = reading and reads
                taken |= writes or set()
            else:
                groups.append([call])
                reading, taken = reads, set(writes or ())
        return groups

    def _footprint(self, call: ToolCall) -> tuple[bool, set[str] | None]:
        """Whether the call is read-only, and the paths it writes (None: unknown, so it runs alone)."""
        prepared = self._prepare(call, "")
        if isinstance(prepared, ToolResult):
            return True, None
        if prepared.tool.read_only(prepared.input):
            return True, None
        return False, {str(path) for path in prepared.access.writes} or None

    def _emit_called(
        self, number: str, call: ToolCall, summary: str, result: ToolResult, outcome: str, seconds: float
    ) -> None:
        content = result.content if isinstance(result.content, str) else text_of(result.content)
        ended = {"end": content[-END_IN_EVENT:]} if len(content) > OUTPUT_IN_LOG else {}
        self._emit(
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
                facts={**result.facts, **ended},
            )
        )


async def _refuse(call: Prepared) -> ToolResult:
    return ToolResult.error("This agent has ended.", "Nothing was done.")


def _unheard(event: TeamEvent) -> None:
    """Nobody is told."""


NO_TOOLS = Toolbox("", (), Workplace(Path(), (), Path(), Path()), gate=_refuse, numbers=CallNumbers(), emit=_unheard)
"""The toolbox of agents that are over: nothing in it, and nothing remembered of what was read."""


def _with_notes(tags: RuntimeTags, result: ToolResult) -> str | Sequence[Block]:
    """The content of a result with the runtime's notes behind it."""
    if not result.notes:
        return result.content
    if isinstance(result.content, str):
        texts = (result.content, *map(tags.reminder, result.notes))
        return "\n\n".join(text for text in texts if text)
    return [*result.content, *map(tags.note, result.notes)]


def _broke(call: ToolCall, problem: BaseException) -> ToolResult:
    return ToolResult.error(f"{call.name} broke: {type(problem).__name__}: {problem}", "Try another way.")
