"""The Python API: a team that a program holds, a run that is both awaitable and watchable.

Leaving the block is the guarantee: members are asked to stop, waited for, ended; state stays on disk. Built on
a session; adds names that read well and nothing else. Public names are those of `teamwright.__all__`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypedDict, Unpack

from teamwright.app.asking import OnRequest
from teamwright.app.budget import Budget
from teamwright.app.opening import open_session
from teamwright.app.options import Options
from teamwright.app.result import Result
from teamwright.app.session import Session
from teamwright.models.model import Model
from teamwright.protocol.blocks import text_block
from teamwright.protocol.errors import UnknownMember, UsageError
from teamwright.protocol.events import RunEnded, TeamEvent
from teamwright.protocol.task import Task
from teamwright.teams.ending import kill
from teamwright.teams.post import Sent, send_text
from teamwright.teams.spawning import spawn
from teamwright.teams.spec import SpawnSpec
from teamwright.teams.teammate import Teammate


@dataclass(frozen=True, slots=True)
class Member:
    """A teammate, by name: what it is doing, a way to write to it and to end it."""

    name: str
    _team: Team

    @property
    def state(self) -> str:
        """One of the lifecycle's states; `gone` when it is no longer there."""
        mate = self._team.session.team.find(self.name)
        return str(mate.state) if mate is not None else "gone"

    async def send(self, text: str, summary: str = "") -> Sent:
        """Write to it as the user. Raises UnknownMember when it is gone."""
        return await self._team.send(self.name, text, summary)

    async def stop(self) -> None:
        """End it at once; its open tasks go back to the list. Raises UnknownMember when it is gone."""
        await self._team.stop(self.name)


@dataclass(frozen=True, slots=True)
class Tasks:
    """The team's task list."""

    _team: Team

    async def add(
        self, subject: str, description: str = "", *, after: Sequence[Task | str] = (), active_form: str | None = None
    ) -> Task:
        """Put a task on the list; it waits for those in `after` (tasks or their ids). Raises TaskRefused."""
        tasks = self._team.session.team.tasks
        blockers = [one if isinstance(one, str) else one.id for one in after]
        return await tasks.create(
            subject, description or subject, by="user", active_form=active_form, blocked_by=blockers
        )

    async def all(self) -> list[Task]:
        """All tasks in numeric order."""
        return await self._team.session.team.tasks.all()

    async def get(self, task_id: str) -> Task | None:
        """One task, or None."""
        return await self._team.session.team.tasks.get(task_id)


class TeamOptions(TypedDict, total=False):
    """What `Team` and `run` take, all of it optional; see `Options` for what each means."""

    model: str | Model | None
    budget: Budget | None
    tools: Sequence[Callable[..., Any]]
    permission_mode: str
    allowed_tools: Sequence[str]
    disallowed_tools: Sequence[str]
    add_dirs: Sequence[str | Path]
    cwd: str | Path
    home: str | Path | None
    on_request: OnRequest | None
    append_system_prompt: str
    settings_file: str | Path | None
    trust: bool
    env: Mapping[str, str] | None


def options_of(given: TeamOptions) -> Options:
    """The options of a run from the keywords of the API. Raises UsageError for a keyword that is none of them."""
    unknown = set(given) - set(TeamOptions.__annotations__)
    if unknown:
        raise UsageError("usage", f"not an option: {', '.join(sorted(unknown))}", note="nothing was started")
    home, settings = given.get("home"), given.get("settings_file")
    return Options(
        cwd=Path(given.get("cwd") or Path.cwd()),
        home=str(home) if home is not None else None,
        model=given.get("model"),
        permission_mode=given.get("permission_mode", "default"),
        add_dirs=tuple(Path(one) for one in given.get("add_dirs", ())),
        allowed_tools=tuple(given.get("allowed_tools", ())),
        disallowed_tools=tuple(given.get("disallowed_tools", ())),
        settings_file=Path(settings) if settings is not None else None,
        trust=given.get("trust", False),
        budget=given.get("budget") or Budget(),
        append_system_prompt=given.get("append_system_prompt", ""),
        tools=tuple(given.get("tools", ())),
        on_request=given.get("on_request"),
        env=given.get("env"),
    )


class Run:
    """A run of a team: `await` it for its Result, or watch `events()` first. Made by `Team.run`."""

    def __init__(self, session: Session, work: Callable[[], Awaitable[Result]], after: int) -> None:
        self._session = session
        self._after = after
        self._reason = ""
        self._task = asyncio.ensure_future(self._see(work))

    def __await__(self) -> Generator[Any, None, Result]:
        return asyncio.shield(self._task).__await__()

    @property
    def done(self) -> bool:
        """Whether the run is over."""
        return self._task.done()

    def cancel(self, reason: str = "") -> None:
        """End the run and keep the team: the result's `stop` is `cancelled`."""
        self._reason = reason or "cancelled by the program"
        self._task.cancel()

    async def events(self, after: int | None = None) -> AsyncGenerator[TeamEvent, None]:
        """What happens, from the run's beginning (or after that number of the log) until the run is over.

        May be called several times; a slow reader reads from the file and never blocks the team.
        """
        follow = self._session.log.follow(self._after if after is None else after)
        async with aclosing(follow) as numbered:
            async for _, event in numbered:
                yield event
                if isinstance(event, RunEnded):
                    return

    async def _see(self, work: Callable[[], Awaitable[Result]]) -> Result:
        try:
            return await work()
        except asyncio.CancelledError:
            if not self._reason:
                raise
            return await self._session.result("cancelled", self._session.lead.last.text, limit=self._reason)

    async def abandon(self) -> None:
        """End it without a result: the team's block was left."""
        self._task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await self._task


class Team:
    """A team that lives as long as its block.

    `model` is a name or any object with the Model contract; `tools` are plain functions; `on_request` is called
    with every RequestOpened. Lazy: nothing is touched before the block is entered. Entering raises CannotStart
    (no model, unreadable settings) and TeamRefused (the name is led by somebody else).
    """

    def __init__(self, name: str, **options: Unpack[TeamOptions]) -> None:
        self.name = name
        self.options = options_of(options)
        self.tasks = Tasks(self)
        self._stack = AsyncExitStack()
        self._session: Session | None = None
        self._runs: list[Run] = []

    @property
    def session(self) -> Session:
        """The session behind the team. Raises UsageError outside the block."""
        if self._session is None:
            raise UsageError("usage", "the team is not running", do=["async with Team(…) as team: …"])
        return self._session

    async def __aenter__(self) -> Self:
        """Start: settings, model, session, team."""
        if self._session is not None:
            raise UsageError("usage", "the team is running already")
        async with AsyncExitStack() as stack:
            session = await stack.enter_async_context(open_session(self.options))
            await session.team.create(self.name, None, None)
            self._stack = stack.pop_all()
        self._session = session
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ask members to stop, wait `goodbye_s` for those at work, end them; an error in the block is re-raised."""
        session, self._session = self.session, None
        for run in self._runs:
            if not run.done:
                await run.abandon()
        if error is None:
            await session.goodbye()
        await self._stack.__aexit__(kind, error, trace)

    def run(self, prompt: str) -> Run:
        """Give the lead a prompt and see it through: the result comes when the team is done."""
        session = self.session
        made = Run(session, lambda: session.run([text_block(prompt)]), session.log.last)
        self._runs.append(made)
        return made

    async def spawn(
        self,
        name: str,
        prompt: str,
        *,
        role: str = "general-purpose",
        model: str | None = None,
        mode: str | None = None,
    ) -> Member:
        """Start a teammate. Raises InvalidName, TeamRefused, LimitExceeded, CannotStart; nothing is left then."""
        spec = SpawnSpec(prompt=prompt, name=name, agent_type=role, model=model, mode=mode)
        mate = await spawn(self.session.team, spec)
        return Member(mate.name, self)

    @property
    def members(self) -> list[Member]:
        """The teammates that are alive."""
        return [Member(mate.name, self) for mate in self.session.team.live]

    async def send(self, to: str, text: str, summary: str = "") -> Sent:
        """Write to a member (or `lead`) as the user. Raises UnknownMember."""
        return await send_text(self.session.team, "user", to, text, summary)

    async def stop(self, name: str) -> None:
        """End a member at once; its open tasks go back to the list. Raises UnknownMember."""
        await kill(self.session.team, self._mate(name), "stopped by the program")

    def events(self) -> AsyncIterator[tuple[int, TeamEvent]]:
        """Everything that happens from now on, with its number in the log, until the block is left."""
        return self.session.log.follow(self.session.log.last)

    def _mate(self, name: str) -> Teammate:
        mate = self.session.team.find(name)
        if mate is None:
            known = ", ".join(m.name for m in self.session.team.live) or "nobody"
            raise UnknownMember("unknown-member", f'"{name}" is not running', looked_at=[("running", known)])
        return mate


async def run_once(prompt: str, options: Options) -> Result:
    """One prompt in a session of its own, seen through to the end."""
    async with open_session(options) as session:
        result = await session.run([text_block(prompt)])
        await session.goodbye()
        return replace(result, cut_off=tuple(session.cut_off))


def run(prompt: str, **options: Unpack[TeamOptions]) -> Result:
    """One call for scripts: a session for this prompt alone, its team included.

    Raises CannotStart when nothing could begin, UsageError inside a running event loop.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(run_once(prompt, options_of(options)))
    raise UsageError("usage", "run() does not work inside a running event loop", do=["async with Team(…) as team: …"])
