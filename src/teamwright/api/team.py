"""The class Team: a team of agents as an async context manager.

Leaving the block waits for running turns and then ends all members. State stays on disk, and `Team.resume` continues
with it. Depends on sessions and on the handles.
"""

from __future__ import annotations

import builtins
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack, overload

from msgspec.structs import replace as replace_fields

from teamwright.agent.compaction_state import CompactResult
from teamwright.agent.context_window import ContextView
from teamwright.api.handles import IntegrationQueue, Member, Tasks, wait_until
from teamwright.api.options import (
    OnExit,
    OptionsWithoutOutput,
    PermissionMode,
    SpawnOptions,
    TeamOptions,
    check_option_types,
    refuse_unknown,
    require_budget,
    require_model,
    require_number,
    require_prompt,
    require_text,
    to_session_options,
    tool_names,
)
from teamwright.api.paced_steps import PacedSteps
from teamwright.api.run import EventIterator, EventReaders, Run, no_last_event, numbered
from teamwright.api.running_team import RunningTeam, not_running, require_asyncio
from teamwright.api.team_start import create_named_team, naming_home, options_to_open
from teamwright.config.settings.merge import lead_mode
from teamwright.models.effort import parse_optional_effort
from teamwright.models.model import Model
from teamwright.permissions.verdict import parse_mode
from teamwright.protocol.errors import TeamRefused, UsageError
from teamwright.protocol.events import Notice, TeamEvent
from teamwright.protocol.ids import team_name
from teamwright.protocol.messages import text_block
from teamwright.protocol.program_log import LOGGER
from teamwright.protocol.usage import NO_CAPS, Budget, Usage
from teamwright.session.agents.model_change import ModelChange
from teamwright.session.control.action_table import (
    ask_agent,
    clear_lead,
    compact_agent,
    context_view,
    reload_session,
    set_member_budget,
    set_model,
)
from teamwright.session.control.person_actions import delete_led_team, stop_task
from teamwright.session.open_session import open_session
from teamwright.session.reload_config import ReloadResult
from teamwright.session.result import OutputT, Result
from teamwright.session.session import Session
from teamwright.session.slash_command_call import list_commands, require_command, run_command
from teamwright.tasks.task_rules import USER
from teamwright.team_records.snapshots import resolve_home
from teamwright.team_records.spawn_spec import SpawnSpec
from teamwright.teams.mode_rank import ModeSet
from teamwright.teams.outgoing_mail import Sent, send_text
from teamwright.teams.spawn import spawn
from teamwright.teams.team_recovery import recover_teams

if TYPE_CHECKING:
    from teamwright.protocol.pending_request import PendingRequest
    from teamwright.storage.paths import Home
    from teamwright.team_records.snapshots import TeamView
    from teamwright.views.status import StatusView

T = TypeVar("T")

A_NAME = "a member's name"

_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def _log_notice(team: str, _number: int, event: TeamEvent) -> None:
    """Log the notices of a team under the logger `teamwright`."""
    if isinstance(event, Notice):
        LOGGER.log(_LEVELS.get(event.level, logging.INFO), "team %s, %s: %s", team, event.member, event.text)


def _home(home: str | Path | None) -> Home:
    check_option_types({"home": home})
    return resolve_home(None if home is None else str(home))


class Team(Generic[OutputT]):
    """A team that runs as long as its block: `async with Team("release", model="sonnet") as team: …`.

    The constructor changes nothing on disk. It raises InvalidName and UsageError for an invalid name or option.

    Entering the block raises CannotStart (no model, unreadable settings) and TeamRefused. TeamRefused means that
    another process leads the name, or that an earlier team of that name left open work; `replace=True` archives the
    earlier team first.

    Leaving the block, also by an exception or a cancellation, waits `shutdown_timeout_s` for running turns and ends all
    members. They can be resumed with `Team.resume`. With `keep=False` leaving archives the team, also with open tasks,
    unless an exception ends the block. See TeamOptions for the keywords.

    With `on_exit="suspend"`, for services, leaving loses nothing: no model call starts any more, running calls get
    `shutdown_timeout_s`, and open requests stay open. `Team.resume` makes the next model calls and asks again. Requests
    wait for an answer from any process; they are not denied because no loop reads events. The cancellation of a task
    that awaits a run leaves the run to the block. With `keep=False` too, a block that ends without an exception
    archives the team.

    For a type checker `Team(…, output_type=Report)` is a `Team[Report]`, and the results of its runs have
    `output: Report`. A team, its members, tasks and runs belong to the event loop that entered it: elsewhere they raise
    UsageError, and `asyncio.run_coroutine_threadsafe` reaches them from another thread.
    """

    @overload
    def __init__(
        self: Team[T],
        name: str,
        *,
        replace: bool = False,
        keep: bool = True,
        on_exit: OnExit = "end",
        output_type: type[T],
        **options: Unpack[OptionsWithoutOutput],
    ) -> None: ...

    @overload
    def __init__(
        self: Team[None],
        name: str,
        *,
        replace: bool = False,
        keep: bool = True,
        on_exit: OnExit = "end",
        **options: Unpack[OptionsWithoutOutput],
    ) -> None: ...

    @overload
    def __init__(
        self: Team[Any],
        name: str,
        *,
        replace: bool = False,
        keep: bool = True,
        on_exit: OnExit = "end",
        **options: Unpack[TeamOptions],
    ) -> None: ...

    def __init__(
        self,
        name: str,
        *,
        replace: bool = False,
        keep: bool = True,
        on_exit: OnExit = "end",
        **options: Unpack[TeamOptions],
    ) -> None:
        self.name: str = team_name(require_text("a team's name", name))
        self._options = to_session_options(options)
        check_option_types({"replace": replace, "keep": keep, "on_exit": on_exit})
        self._replace = replace
        self._keep = keep
        self._suspends = on_exit == "suspend"
        if self._suspends:
            self._options = replace_fields(self._options, ask="wait")
        self._suspended = False
        self._opening_mode = ""
        self._stack = AsyncExitStack()
        self._running: RunningTeam | None = None
        self._readers = EventReaders()
        self._run: Run[OutputT] | None = None

    @overload
    @classmethod
    def resume(
        cls,
        name: str,
        *,
        keep: bool = True,
        on_exit: OnExit = "end",
        output_type: type[T],
        **options: Unpack[OptionsWithoutOutput],
    ) -> Team[T]: ...

    @overload
    @classmethod
    def resume(
        cls, name: str, *, keep: bool = True, on_exit: OnExit = "end", **options: Unpack[OptionsWithoutOutput]
    ) -> Team[None]: ...

    @overload
    @classmethod
    def resume(
        cls, name: str, *, keep: bool = True, on_exit: OnExit = "end", **options: Unpack[TeamOptions]
    ) -> Team[Any]: ...

    @classmethod
    def resume(
        cls, name: str, *, keep: bool = True, on_exit: OnExit = "end", **options: Unpack[TeamOptions]
    ) -> Team[Any]:
        """Return a team that continues one on disk: `async with Team.resume("release") as team: …`.

        Entering resumes the session that led the team: the lead's conversation, the members with theirs, tasks, unread
        mail and owed answers. Each call that waited for an answer is asked about again, also after a kill; an answer
        that came since counts. Caps of the run start at zero again; caps of members include their earlier use. Raises
        TeamwrightError (`unknown-team` for an unknown name, `unknown-session` when the lead's conversation is missing),
        CannotStart while another process leads the team, and TeamRefused for a team of another product. Options as for
        Team; the directory is that of the session.
        """
        team = cls(name, keep=keep, on_exit=on_exit, **options)
        team._opening_mode = "resume"
        return team

    @overload
    @classmethod
    def adopt(
        cls,
        name: str,
        *,
        keep: bool = True,
        on_exit: OnExit = "end",
        output_type: type[T],
        **options: Unpack[OptionsWithoutOutput],
    ) -> Team[T]: ...

    @overload
    @classmethod
    def adopt(
        cls, name: str, *, keep: bool = True, on_exit: OnExit = "end", **options: Unpack[OptionsWithoutOutput]
    ) -> Team[None]: ...

    @overload
    @classmethod
    def adopt(
        cls, name: str, *, keep: bool = True, on_exit: OnExit = "end", **options: Unpack[TeamOptions]
    ) -> Team[Any]: ...

    @classmethod
    def adopt(
        cls, name: str, *, keep: bool = True, on_exit: OnExit = "end", **options: Unpack[TeamOptions]
    ) -> Team[Any]:
        """Return a team on disk with a new lead: `async with Team.adopt("release") as team: …`.

        Entering starts a session in `cwd` that leads the team; the members return with their conversations. Raises the
        same errors as `resume`, but needs no data of the former lead.
        """
        team = cls(name, keep=keep, on_exit=on_exit, **options)
        team._opening_mode = "adopt"
        return team

    @staticmethod
    def list(home: str | Path | None = None, *, archived: bool = False) -> builtins.list[TeamView]:
        """Return the teams on disk, the newest first; with `archived` also the teams in the archive after them.

        `home` is the state root, as in TeamOptions. Starts nothing. Raises CannotStart for an unreadable state root.
        """
        from teamwright.team_records.snapshots import archived_teams, team_views

        root = _home(home)
        return [*team_views(root), *(archived_teams(root) if archived else ())]

    @staticmethod
    def read(name: str, home: str | Path | None = None) -> StatusView:
        """Return the state of a team from its files: running in any process, left open, finished or archived.

        It has members, tasks, usage (`tokens`, `usd`), and how its last run ended (`ended`). Starts nothing. Raises
        TeamwrightError (`unknown-team`) with the nearest name.
        """
        from teamwright.views.status import read_status

        root = _home(home)
        with naming_home(home):
            return read_status(root, require_text("a team's name", name), archived=True)

    @staticmethod
    def read_events(name: str, home: str | Path | None = None, *, after: int = 0) -> Iterator[tuple[int, TeamEvent]]:
        """Iterate over the logged events of a team, with their numbers, from its file; those after number `after`.

        For finished teams and those of other processes; the final text of a run is in its RunEnded. Raises
        TeamwrightError (`unknown-team`) with the nearest name.
        """
        from teamwright.saved.teams import find_team_view
        from teamwright.storage.event_log import read_events

        root = _home(home)
        with naming_home(home):
            log = find_team_view(root, require_text("a team's name", name), archived=True).log
        return read_events(Path(log), require_number("after", after)) if log else iter(())

    @staticmethod
    def open_requests(home: str | Path | None = None) -> builtins.list[PendingRequest]:
        """Return the open requests of all teams and sessions of this state root, the oldest first.

        The methods of a request answer it, from any process. A request of a process that has ended (`is_alive` False)
        can be answered too: the answer counts when its team is resumed. Answering raises UsageError
        (`not-for-agents`) in a command of an agent.
        """
        from teamwright.approvals.answer_from_outside import answerable_requests

        return answerable_requests(_home(home))

    @property
    def requests(self) -> builtins.list[PendingRequest]:
        """The open requests of this team, the oldest first; their methods answer them."""
        return self.session.requests.pending()

    def __repr__(self) -> str:
        return f"<Team {self.name!r}, {'running' if self._is_running() else 'not running'}>"

    @property
    def session(self) -> Session:
        """The session of the team, which is not public API. Raises UsageError outside the block, and outside the event
        loop that entered it."""
        return self._require_running().session

    def _is_running(self) -> bool:
        return self._running is not None and not self._running.left

    def _require_running(self) -> RunningTeam:
        """Raise UsageError outside the block, and outside the event loop that entered it."""
        if self._running is None:
            raise not_running(self.name)
        self._running.require_entered()
        return self._running

    async def __aenter__(self) -> Self:
        """Start the session and the team. After an error, no files or processes are left."""
        require_asyncio()
        if self._is_running():
            raise UsageError("usage", f'the team "{self.name}" is running already')
        with naming_home(self._options.home):
            self._running = await PacedSteps(self._start())
        return self

    async def _start(self) -> RunningTeam:
        async with AsyncExitStack() as stack:
            undo_creation = stack.enter_context(ExitStack())
            home = resolve_home(self._options.home)
            rebuilt = await recover_teams(home, word=self.name) if self._opening_mode else ()
            session = await stack.enter_async_context(
                open_session(await options_to_open(self._options, self.name, self._opening_mode))
            )
            session.warnings += rebuilt
            for warning in session.warnings:
                LOGGER.warning("team %s: %s", self.name, warning)
            stack.callback(session.log.subscribe(partial(_log_notice, self.name), live=False))
            session.requests.attended = self._readers.may_answer
            if not self._opening_mode:
                undo_creation.callback(session.remove_files)
                await create_named_team(session, self.name, replace=self._replace)
            undo_creation.pop_all()
            self._stack = stack.pop_all()
        return RunningTeam(self.name, session)

    if not TYPE_CHECKING:  # a type checker reports this mistake

        def __enter__(self) -> None:
            """Raise UsageError: the block needs `async with`."""
            what = "a team is entered with `async with`, in a coroutine or a notebook"
            raise UsageError("usage", what, do=[f"async with Team({self.name!r}, …) as team: …"])

        def __exit__(self, *_error: object) -> None: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait `shutdown_timeout_s` for running turns, then end all members; they can be resumed. Errors propagate."""
        running = self._require_running()
        session = running.session
        archives = not self._keep and kind is None and session.team.exists
        try:
            if self._suspends and not archives:
                await self.suspend()
            if self._run is not None and not self._run.done:
                await self._run.stop()
            if commands := session.running_commands():
                session.warn(f"these background commands end with the team: {'; '.join(commands)}")
            await session.agent_factory.plans.close()
            session.requests.close("the team was left")
            if self._suspended:
                await session.stop_members("the team was suspended", keep=True)
            elif archives:
                await delete_led_team(session, force=True)
            else:
                await session.finish(keep=True)
        finally:
            running.left = True
            self._run = None
            await self._stack.__aexit__(kind, error, trace)

    async def suspend(self) -> None:
        """Stop all agents where `Team.resume` continues them; leave the block after that.

        No model call starts any more. Running calls of models and tools get `shutdown_timeout_s`, then they are
        interrupted. Open requests stay open. An active run ends with `stop` suspended. Does nothing the second time.
        Raises UsageError outside the block.
        """
        self._require_running()
        if self._suspended:
            return
        self._suspended = True
        await self.session.suspend()
        if self._run is not None and not self._run.done:
            await self._run.stop("suspended", "its team was suspended")

    def run(self, prompt: str) -> Run[OutputT]:
        """Give the lead a prompt; the result is ready when no member works any more.

        Only one run at a time is possible; a run that was cancelled ends first. Raises UsageError for an empty prompt
        and outside the block, and TeamRefused during another run.
        """
        session = self.session
        require_prompt(prompt)
        return self._begin(lambda: session.run([text_block(prompt)]))

    def command(self, name: str, arguments: str = "") -> Run[OutputT]:
        """Call a custom slash command or a skill, as a person does with `/name arguments`.

        A prompt of `run` never calls one, even if it starts with a slash. Only one run at a time is possible. Raises
        UsageError for an unknown name, with the nearest name, and TeamRefused during another run. Awaiting the run
        raises UsageError when a shell line of the command was not allowed or its arguments do not fit; no message
        reached the lead then.
        """
        session = self.session
        require_command(session, require_text("a command's name", name))
        require_text("what a command is called with", arguments)
        return self._begin(lambda: run_command(session, name, arguments))

    @property
    def commands(self) -> builtins.list[str]:
        """The names of the commands and skills that `command` accepts."""
        return [one.name.removeprefix("/") for one in list_commands(self.session)]

    def _begin(self, work: Callable[[], Awaitable[Result]]) -> Run[OutputT]:
        running = self._require_running()
        if self._suspended:
            raise TeamRefused("team-refused", "the team is suspended", do=[f"Team.resume({self.name!r})"])
        before = self._run if self._run is not None and not self._run.done else None
        if before is not None and not before.cancelled:
            raise TeamRefused(
                "team-refused",
                "a run of this team is still active",
                do=["await it first, or cancel it", 'await team.send("lead", …) reaches the lead during the run'],
                note="nothing was started",
            )

        async def judged_work() -> Result:
            return running.session.judged_run(await work())

        self._run = Run(running, judged_work, self._readers, before, outlives_wait=self._suspends)
        return self._run

    async def spawn(self, name: str, prompt: str, **options: Unpack[SpawnOptions]) -> Member:
        """Start a teammate. It works on its prompt at once, then claims tasks and answers mail.

        See SpawnOptions for the keywords. Raises InvalidName,
        UsageError, TeamRefused, LimitExceeded and CannotStart; no files or processes are left then.
        """
        running = self._require_running()
        session = running.session
        refuse_unknown(options, builtins.list(SpawnOptions.__annotations__))
        check_option_types({"name": require_text(A_NAME, name), **options})
        require_text("a prompt", prompt)
        model = options.get("model")
        mode = options.get("mode")
        spec = SpawnSpec(
            prompt=prompt,
            name=name,
            agent_type=options.get("agent_type", "general-purpose"),
            model=session.models.bring(model) if model is not None else None,
            effort=parse_optional_effort(options.get("effort")),
            tools=tool_names(options.get("tools")),
            mode=str(parse_mode(mode, "mode=")) if mode is not None else None,
            budget=options.get("budget") or NO_CAPS,
            command=options.get("command", ""),
            isolation=options.get("isolation"),
        )
        teammate = await spawn(session.team, spec)
        return Member(teammate.name, running)

    async def set_budget(self, name: str, budget: Budget) -> Budget:
        """Change the caps of a member, also for a resume; a member that paused at a cap continues.

        Caps that `budget` does not name stay as they are. Returns the caps that apply. Raises UnknownMember, UsageError
        for the lead, and TeamRefused for a member that another program runs.
        """
        require_budget(budget)
        running = self._require_running()
        return await set_member_budget(running.session, Member(name, running).require(), budget)

    async def wait_idle(self) -> None:
        """Wait until no member and no background sub-agent has anything to do. A run of the lead is not waited for."""
        team = self.session.team
        await wait_until(team, team.is_quiet)

    @property
    def tasks(self) -> Tasks:
        """The team's task list."""
        return Tasks(self._require_running())

    @property
    def integration(self) -> IntegrationQueue:
        """The integration of the finished work of members in worktrees."""
        return IntegrationQueue(self._require_running())

    @property
    def members(self) -> builtins.list[Member]:
        """The running teammates, in the order of joining, without the lead."""
        running = self._require_running()
        return [Member(teammate.name, running) for teammate in running.team.running_members]

    @property
    def usage(self) -> Usage:
        """The usage of the team so far, over all runs and members, also before a resume.

        `Result.usage` counts from entering the block.
        """
        return self.session.agent_factory.budget_tracker.total_with_earlier

    @property
    def mode(self) -> str:
        """The lead's permission mode."""
        return str(self.session.modes.mode)

    def set_mode(self, mode: PermissionMode) -> ModeSet:
        """Set the lead's permission mode from its next call on; `Team.resume` keeps it.

        Members without a mode follow at once, and no member is allowed more than the lead; `delegate` restricts the
        lead alone. Raises UsageError for an unknown mode, and TeamRefused for bypassPermissions in a session that did
        not start in it.
        """
        modes = self.session.modes
        return modes.set_lead(lead_mode(require_text("a mode", mode), "mode="))

    @property
    def model(self) -> str:
        """The name of the lead's model, as `provider/model`."""
        return self.session.lead.agent.model.card.name

    async def set_model(self, model: str | Model, member: str = "lead") -> ModelChange:
        """Change the model of the lead, or of a member, from its next call on; `Team.resume` keeps it.

        The new model starts with a new prefix. Agents started later without a model use the lead's.
        Raises UnknownMember, UsageError for an object without the Model contract, and CannotStart for a model that is
        not available or that has no known price under a cap on money. Raises TeamRefused for a model object when the
        member runs in a separate process. Nothing is changed then.
        """
        require_model(model, or_none=False)
        return await set_model(self.session, model, require_text(A_NAME, member), by=USER)

    async def send(self, to: str, text: str, summary: str = "") -> Sent:
        """Send a message to a member, or to `lead`, as the user.

        Raises UsageError for empty text, UnknownMember with the nearest name, and StorageError (InboxFull, LockTimeout)
        when the inbox does not accept the message; nothing is sent then.
        """
        session = self.session
        to = require_text(A_NAME, to)
        text = require_text("a message", text)
        return await send_text(session.team, USER, to, text, require_text("a summary", summary))

    async def ask(self, question: str, name: str = "lead") -> str:
        """Ask the lead, or a member, a question in passing and return its answer, also while it works.

        It answers from what it knows, without tools, and remembers neither the question nor the answer. The call costs
        a read of its cached conversation and the answer; `/cost` has it as `side question`. Raises UsageError for an
        empty question, UnknownMember, LimitExceeded when a cap is spent, and TeamRefused when the model gives no
        answer.
        """
        return await ask_agent(
            self.session, require_text("a question", question), require_text(A_NAME, name), "program"
        )

    async def compact(self, name: str = "lead", keep: str = "") -> CompactResult:
        """Replace the conversation of the lead, or of a member, by a summary; `keep` says what the summary must
        contain.

        An idle agent is compacted at once, a working one before its next model call. Returns when the compaction is
        done. `done` of the result is False when nothing was changed; `why` has the reason. Raises UnknownMember.
        """
        return await compact_agent(self.session, require_text(A_NAME, name), require_text("what to keep", keep))

    async def clear(self) -> CompactResult:
        """Empty the lead's conversation. Team, members, tasks, unread mail and the transcript file stay.

        The lead receives a summary of the team's state. `done` of the result is False when the conversation was empty.
        Raises TeamRefused during a turn of the lead.
        """
        return await clear_lead(self.session)

    async def context(self, name: str = "lead") -> ContextView:
        """Return the contents of the context window of an agent, and when it is compacted. Raises UnknownMember."""
        return await context_view(self.session, require_text(A_NAME, name))

    async def reload(self) -> ReloadResult:
        """Read instructions, skills, agent types, MCP servers and rules again, and use what changed.

        The result lists the changes, the agents with a new prefix, and the settings that apply only after a restart.
        Raises CannotStart for unreadable settings; nothing is changed then.
        """
        return await reload_session(self.session)

    async def stop(self, name: str) -> None:
        """Kill a member, a sub-agent or a background command, by its name or id.

        Open tasks of a member return to the list; the caller of a sub-agent is notified. Raises UnknownMember, and
        UsageError for the lead.
        """
        running = self._require_running()
        if await stop_task(running.session, require_text(A_NAME, name)) is None:
            await Member(name, running).stop()

    async def delete(self, *, force: bool = False) -> None:
        """End all members and archive the team with its requests, mail and tasks.

        Running turns may take up to `shutdown_timeout_s` to finish. No member can be started afterwards: leave the
        block. Raises TeamRefused during a run, and, without `force`, while a task is open; no member was ended then.
        """
        self._require_running()
        if self._run is not None and not self._run.done:
            raise TeamRefused("team-refused", "a run of this team is still active", do=["await it first, or cancel it"])
        await delete_led_team(self.session, force=force)

    def events(self, after: int | None = None, *, answers: bool = True) -> AsyncIterator[tuple[int, TeamEvent]]:
        """Iterate over all events from now (or after that number of the log) until the block is left.

        For user interfaces: each event comes with its number, which `after` accepts. Events that are not logged
        (TextDelta, ThinkingDelta, ToolStarted, AssistantText) have the number of the last logged event. After the block
        was left, the iterator reads the log and ends. See Run.events for `answers`. Raises UsageError before the block
        was entered.
        """
        running = self._running or self._require_running()
        last = running.log.last_number
        start = last if after is None else min(require_number("after", after), last)
        iterator: EventIterator[tuple[int, TeamEvent]] = EventIterator(running, start, numbered, no_last_event)
        return self._readers.add(iterator) if answers else iterator
