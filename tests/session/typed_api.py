"""The public API as a type checker sees it: read by pyright in strict mode, never run.

`assert_type` says what users are told; a `match` without `case _` says that the union is complete.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import assert_never, assert_type

import teamwright
from teamwright import (
    AssistantText,
    Budget,
    Compacted,
    IntegrationChanged,
    LimitReached,
    Member,
    MemberChanged,
    MemberState,
    MessageDelivered,
    MessageSent,
    ModeChanged,
    Model,
    ModelCallEnded,
    ModelCard,
    ModelChanged,
    Notice,
    OnRequest,
    Part,
    Progress,
    Reloaded,
    Reply,
    Request,
    RequestClosed,
    RequestOpened,
    Result,
    Run,
    RunEnded,
    SandboxRefused,
    Sent,
    SessionOpened,
    SubagentChanged,
    Task,
    TaskChanged,
    TaskInfo,
    Team,
    TeamChanged,
    TeamEvent,
    TeamOptions,
    TextDelta,
    TextPart,
    ToolCalled,
    ToolResult,
    ToolStarted,
    TurnEnded,
    Usage,
)
from teamwright.testing import ScriptedModel


class Own:
    """A model of a program's own, by its shape alone."""

    @property
    def card(self) -> ModelCard:
        return ModelCard("own/own", "own", "own", usd_in=1.0, usd_out=2.0)

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        yield TextPart(request.agent_name)
        yield Reply([{"type": "text", "text": "hello"}], "end_turn", Usage(requests=1), "own")

    async def aclose(self) -> None:
        return None


def tool(title: str, labels: Sequence[str] = ()) -> ToolResult:
    """Open a ticket."""
    return ToolResult(title + ", ".join(labels))


async def answers(request: RequestOpened) -> None:
    assert_type(await request.allow(always=bool(request.always)), bool)
    assert_type(await request.allow(input={**request.input, "timeout": 5}, updates=request.suggestions), bool)


def hands_on(request: RequestOpened) -> None:
    print(request.what)


def denies(request: RequestOpened) -> Awaitable[bool]:
    return request.deny("no")


ANSWERERS: list[OnRequest] = [answers, hands_on, denies, lambda request: request.answer("yes")]
MODELS: list[Model | str | None] = [Own(), ScriptedModel("ok"), "sonnet", None]
SHARED: TeamOptions = {"model": Own(), "permission_mode": "dontAsk", "tools": [tool], "budget": Budget(usd=1.0)}
ELSEWHERE: TeamOptions = {"backend": "detached"}


async def holds_a_team() -> Result:
    async with Team("crew", replace=True, **SHARED) as team:
        assert_type(team, Team)
        first = await team.tasks.add("one")
        assert_type(first, Task)
        await team.tasks.add("two", after=first)
        await team.tasks.add("three", after=[first, "2"], metadata={"for": ["ada"]})
        assert_type(await team.tasks.update(first, status="completed", owner=""), Task)
        assert_type(await team.tasks.get("1"), Task | None)
        ada = await team.spawn("ada", "Go.", agent_type="Explore", model=Own(), effort="high", mode="default")
        assert_type(ada, Member)
        assert_type(ada.state, MemberState)
        assert_type(await ada.send("hello"), Sent)
        assert_type(team.members, list[Member])
        run = team.run("Go.")
        assert_type(run, Run)
        async for event in run.events(after=0, answers=False):
            shows(event)
        async for number, event in team.events():
            assert_type(number, int)
            shows(event)
        result = await run
        assert_type(result, Result)
        assert_type(result.usage.usd, float | None)
        assert_type(result.by_member, dict[str, Usage])
        assert_type(team.usage, Usage)
        return result


def ended(result: Result) -> str:
    match result.stop:
        case "done" | "failed" | "limit":
            return result.text
        case "cut_off":
            return ", ".join(result.cut_off)
        case "cancelled" | "suspended":
            return result.resume_command
        case _:
            assert_never(result.stop)


def calls_once() -> int:
    result = teamwright.run("Go.", model="sonnet", allowed_tools=["python__tool"], tools=[tool], on_request=denies)
    result.raise_for_stop()
    return result.exit_code


def shows(event: TeamEvent) -> object:
    match event:
        case TaskChanged(task=task):
            assert_type(task, TaskInfo)
            return task.id, task.status, task.owner
        case RequestOpened() | RequestClosed():
            return event.request
        case ToolCalled() | ToolStarted() | MessageSent():
            return event.summary
        case TextDelta() | Notice() | RunEnded() | TurnEnded():
            return event.text
        case MessageDelivered():
            return event.message_ids
        case (
            MemberChanged()
            | SubagentChanged()
            | ModeChanged()
            | IntegrationChanged()
            | ModelChanged()
            | Reloaded()
            | Progress()
            | TeamChanged()
            | SessionOpened()
            | Compacted()
            | SandboxRefused()
        ):
            return event.member
        case LimitReached():
            return event.limit
        case ModelCallEnded():
            return event.usage
        case AssistantText():
            return event.content
        case _:
            assert_never(event)


EXPECTED: Callable[[], int] = calls_once
