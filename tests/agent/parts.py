"""Small parts for tests of one agent: a model that answers from a list, a toolbox without questions."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from teamwright.agent.agent import Agent
from teamwright.agent.conversation import Conversation
from teamwright.agent.tool import AnyTool, Tool, ToolContext, ToolResult, Workplace
from teamwright.agent.tool_input import ToolInput
from teamwright.agent.toolbox import CallNumbers, PreparedCall, Toolbox
from teamwright.models.model import BudgetRefusal, Failure, ModelCard, Part, Prefix, Reply, Request, TextPart
from teamwright.permissions.excluded_paths import NOTHING_EXCLUDED, ExcludedPaths
from teamwright.permissions.verdict import Access
from teamwright.protocol.events import TeamEvent
from teamwright.protocol.messages import Block, text_block
from teamwright.protocol.usage import Usage


def call(name: str, use: str = "toolu_1", **given: object) -> Block:
    return {"type": "tool_use", "id": use, "name": name, "input": given}


def says(*content: Block | str, stop: str = "end_turn") -> Reply:
    blocks = [text_block(c) if isinstance(c, str) else c for c in content]
    stop = "tool_use" if any(b["type"] == "tool_use" for b in blocks) else stop
    return Reply(blocks, stop, Usage(10, 5, requests=1), "m")


class Listed:
    """Answers with these parts, one list entry a call; keeps the requests it saw as decoded messages."""

    def __init__(self, *answers: Reply | Failure | Callable[[], Reply]) -> None:
        self.card = ModelCard("test/m", "m", "test", usd_in=0.0, usd_out=0.0)
        self.answers = list(answers)
        self.seen: list[list[dict]] = []
        self.hang = asyncio.Event()

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        self.seen.append([json.loads(item) for item in request.items])
        if not self.answers:
            self.hang.set()
            await asyncio.Event().wait()
        answer = self.answers.pop(0)
        answer = answer() if callable(answer) else answer
        if isinstance(answer, Reply):
            for block in answer.content:
                if block["type"] == "text":
                    yield TextPart(block["text"])
        yield answer

    async def aclose(self) -> None:
        pass


class Free:
    """A meter without a cap."""

    def __init__(self) -> None:
        self.used = Usage()
        self.why: str | None = None

    async def reserve(self, request: Request, card: ModelCard) -> BudgetRefusal | None:
        return None if self.why is None else BudgetRefusal(self.why, "")

    async def charge(self, usage: Usage) -> BudgetRefusal | None:
        return None

    def settle(self, answer: Reply | Failure | None) -> str:
        self.used += answer.usage if isinstance(answer, Reply) else Usage()
        return ""

    async def admit(self, calls: int) -> int:
        return calls

    def beside(self) -> "Free":
        return self


class EchoInput(ToolInput):
    text: str = Field(description="What to say.")
    path: str | None = None


class Echo(Tool[EchoInput]):
    """Says its input again; `gate` holds it until it is set."""

    name = "Echo"
    input_type = EchoInput

    def __init__(self, *, reads: bool = True, gate: asyncio.Event | None = None) -> None:
        self.reads = reads
        self.gate = gate
        self.running = 0
        self.most = 0
        self.started = asyncio.Event()

    @property
    def description(self) -> str:
        return "Says it again."

    def is_read_only(self, call: EchoInput) -> bool:
        return self.reads

    def access(self, call: EchoInput, ctx: ToolContext) -> Access:
        return Access(writes=(Path(call.path),) if call.path else ())

    async def run(self, call: EchoInput, ctx: ToolContext) -> ToolResult:
        self.running += 1
        self.most = max(self.most, self.running)
        self.started.set()
        try:
            if self.gate is not None:
                await self.gate.wait()
            else:
                await asyncio.sleep(0)
            if call.text == "break":
                raise RuntimeError("broken tool")
            return ToolResult(call.text)
        finally:
            self.running -= 1


async def lets_all_run(call: PreparedCall) -> None:
    return None


class FunctionGate:
    """A gate whose decision is this function's. No call runs without a question to anybody else."""

    def __init__(self, decide) -> None:
        self._decide = decide

    async def __call__(self, prepared: PreparedCall):
        return await self._decide(prepared)

    def allows(self, tool: str, access: Access) -> bool:
        return False

    async def may_connect(self, command: str, host: str, port: int, is_named: bool) -> bool:
        return False

    def excluded_paths(self, tool: str, directory: Path) -> ExcludedPaths:
        return NOTHING_EXCLUDED

    def was_left_open(self, tool_use_id: str) -> bool:
        return False


def an_agent(
    tmp_path: Path,
    model: Listed,
    tools: Sequence[AnyTool] = (),
    gate=lets_all_run,
    name: str = "ada",
    *,
    conversation: Conversation | None = None,
    **more: Any,
) -> tuple[Agent, list[TeamEvent]]:
    """An agent with a transcript in tmp_path, and the list of its events."""
    events: list[TeamEvent] = []
    place = Workplace(
        tmp_path,
        lambda: (tmp_path,),
        tmp_path / "out",
        tmp_path / "history",
        instructions=more.pop("instructions", None),
    )
    if conversation is None:
        conversation = Conversation.start(tmp_path / f"{name}.jsonl", Prefix.build({"model": "m"}), {"member": name})
    call = {"gate": FunctionGate(gate), "numbers": CallNumbers(), "emit": events.append, "record": conversation}
    toolbox = Toolbox(name, tools, place, **call, **more)
    return Agent(name, f"{name}@t", model, conversation, toolbox, Free(), events.append, **more), events
