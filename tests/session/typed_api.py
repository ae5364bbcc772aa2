"""The public API as a type checker sees it: read by pyright in strict mode, never run.

`assert_type` says what users are told; a `match` without `case _` says that the union is complete.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, TypedDict, assert_never, assert_type

import teamwright
from teamwright import (
    AssistantText,
    Budget,
    Compacted,
    HookEnded,
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
    SideCallEnded,
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
    ThinkingDelta,
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


class Report(TypedDict):
    title: str


async def holds_a_team() -> Result:
    async with Team("crew", replace=True, **SHARED) as team:
        assert_type(team, Team[Any])
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
        assert_type(run, Run[Any])
        async for event in run.events(after=0, answers=False):
            shows(event)
        async for number, event in team.events():
            assert_type(number, int)
            shows(event)
        result = await run
        assert_type(result, Result[Any])
        assert_type(result.usage.usd, float | None)
        assert_type(result.by_member, dict[str, Usage])
        assert_type(team.usage, Usage)
        return result


async def types_its_results(shared: TeamOptions) -> Result[object]:
    async with Team("crew", replace=True, model="sonnet", output_type=Report) as team:
        assert_type(team, Team[Report])
        run = team.run("Report.")
        assert_type(run, Run[Report])
        async for event in run.events():
            shows(event)
        assert_type((await run).output, Report)
        assert_type((await team.command("report")).output["title"], str)
        assert_type(team.members, list[Member])
    for again in (Team.resume("crew", output_type=Report), Team.adopt("crew", keep=False, output_type=Report)):
        assert_type(again, Team[Report])
    assert_type(Team("crew", output_type=list[Report]), Team[list[Report]])
    assert_type(Team("crew", model="sonnet"), Team[None])
    assert_type(Team.resume("crew"), Team[None])
    assert_type(Team("crew", **shared), Team[Any])
    assert_type(Team.adopt("crew", **shared), Team[Any])
    assert_type(teamwright.run("Report.", output_type=Report, budget=Budget(usd=1.0)), Result[Report])
    assert_type(teamwright.run("Go.").output, None)
    assert_type(teamwright.run("Go.", **shared), Result[Any])
    any_output: Team = team
    return await any_output.run("Report.")


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
        case TextDelta() | ThinkingDelta() | Notice() | RunEnded() | TurnEnded() | SideCallEnded():
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
            | HookEnded()
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
