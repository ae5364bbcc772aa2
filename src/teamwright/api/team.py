"""A team that a program holds.

Leaving the block is the guarantee: turns that run are waited for, then everybody is ended; state stays on disk, and
`Team.resume` goes on with it. Knows the session and the handles; knows no screen.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace as replace_fields
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

from teamwright.agent.compaction.compaction_state import CompactResult
from teamwright.agent.context_window import ContextView
from teamwright.api.argument_checks import (
    check_option_types,
    require_model,
    require_number,
    require_prompt,
    require_text,
)
from teamwright.api.event_stream import EventIterator, EventReaders, no_last_event, numbered
from teamwright.api.handles import USER, Member, Tasks
from teamwright.api.options import (
    PermissionMode,
    SpawnOptions,
    TeamOptions,
    refuse_unknown,
    to_session_options,
)
from teamwright.api.run import Run
from teamwright.approvals.request_queue import RequestQueue
from teamwright.config.settings.merge import lead_mode
from teamwright.models.effort import parse_optional_effort
from teamwright.models.model import Model
from teamwright.permissions.decide import parse_mode
from teamwright.protocol.budget import NO_CAPS, Budget
from teamwright.protocol.errors import TeamRefused, UsageError
from teamwright.protocol.events import TeamEvent
from teamwright.protocol.ids import team_name
from teamwright.protocol.messages import text_block
from teamwright.protocol.usage import Usage
from teamwright.session.control.agent_actions import clear_lead, compact_agent, context_view, reload_session, set_model
from teamwright.session.control.live_members import delete_led_team, stop_task
from teamwright.session.control.remote_actions import ALLOW
from teamwright.session.lookup.saved_teams import find_saved_team, find_session_of_team, require_adoptable
from teamwright.session.open import open_session
from teamwright.session.options import Options
from teamwright.session.reload.change_model import ModelChange
from teamwright.session.reload.reload_config import ReloadResult
from teamwright.session.result import Result
from teamwright.session.session import Session
from teamwright.session.skills.run_command import find_command, list_commands, run_command
from teamwright.storage.event_log import EventLog
from teamwright.teams.backend_teammate import ProcessTeammateBase
from teamwright.teams.creation import create_team
from teamwright.teams.mailbox.outgoing import Sent, send_text
from teamwright.teams.mode_rank import ModeSet
from teamwright.teams.recovery import recover_teams
from teamwright.teams.spawn import spawn
from teamwright.teams.spawn_spec import SpawnSpec
from teamwright.teams.status.team_views import resolve_home
from teamwright.teams.team_file import save_budget

A_NAME = "a member's name"


class Team:
    """A team that lives as long as its block: `async with Team("release", model="sonnet") as team: …`.

    Nothing is touched before the block is entered. Entering raises CannotStart (no model, unreadable settings) and
    TeamRefused (the name is led by somebody else, or its last team left something open: `replace=True` archives
    that first). Leaving, also by an exception or a cancellation, waits `goodbye_s` for turns that run and ends
    everybody; members keep their places for `Team.resume`. See TeamOptions for the keywords. Raises InvalidName and
    UsageError at once for a name or an option that cannot be. With `keep=False` the team goes into the archive with
    the block, also with open tasks, unless an exception ends it.
    """

    def __init__(self, name: str, *, replace: bool = False, keep: bool = True, **options: Unpack[TeamOptions]) -> None:
        self.name: str = team_name(require_text("a team's name", name))
        self._options = to_session_options(options)
        check_option_types({"replace": replace, "keep": keep})
        self._replace = replace
        self._keep = keep
        self._goes_on = ""
        self._stack = AsyncExitStack()
        self._session: Session | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._past: tuple[EventLog, RequestQueue] | None = None
        self._readers = EventReaders()
        self._run: Run | None = None

    @classmethod
    def resume(cls, name: str, **options: Unpack[TeamOptions]) -> Self:
        """A team that is on disk, to go on with: `async with Team.resume("release") as team: …`.

        Entering goes on with the session that led it: the lead's conversation, the members with theirs, tasks, unread
        mail, owed answers. Caps of the run begin anew, those of members count their lives. Raises TeamwrightError
        (`unknown-team` for a name that no team has, `unknown-session` when its lead's conversation is gone),
        CannotStart while another process leads it, TeamRefused for another product's. Options as for Team; the
        directory is the session's.
        """
        team = cls(name, **options)
        team._goes_on = "resume"
        return team

    @classmethod
    def adopt(cls, name: str, **options: Unpack[TeamOptions]) -> Self:
        """A team whose lead is gone, with a new lead: `async with Team.adopt("release") as team: …`.

        Entering begins a session in `cwd` that leads it from now on; the members come back with their conversations.
        Raises as `resume`, but needs nothing of the former lead.
        """
        team = cls(name, **options)
        team._goes_on = "adopt"
        return team

    def __repr__(self) -> str:
        return f"<Team {self.name!r}, {'running' if self._session is not None else 'not running'}>"

    @property
    def session(self) -> Session:
        """The machinery behind the team, not a part of what is promised. Raises UsageError outside the block."""
        if self._session is None:
            raise UsageError("usage", f'the team "{self.name}" is not running', do=["async with Team(…) as team: …"])
        return self._session

    def _require_running(self) -> None:
        """Raises UsageError outside the block, and elsewhere than in the event loop that entered it."""
        _ = self.session
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is not self._loop:
            raise UsageError(
                "usage",
                f'the team "{self.name}" belongs to the event loop that entered it, and this is another thread or loop',
                do=["asyncio.run_coroutine_threadsafe(…, loop) calls it from another thread"],
                note="nothing was started",
            )

    async def __aenter__(self) -> Self:
        """Start: settings, model, session, team. Either all of it stands, or nothing is left."""
        if self._session is not None:
            raise UsageError("usage", f'the team "{self.name}" is running already')
        async with AsyncExitStack() as stack:
            never_was = stack.enter_context(ExitStack())
            home = resolve_home(self._options.home)
            rebuilt = await recover_teams(home, word=self.name) if self._goes_on else ()
            session = await stack.enter_async_context(open_session(self._opening()))
            session.warnings += rebuilt
            session.requests.attended = self._readers.may_answer
            if not self._goes_on:
                never_was.callback(session.remove_files)
                await self._create(session)
            never_was.pop_all()
            self._stack = stack.pop_all()
        self._session, self._loop = session, asyncio.get_running_loop()
        self._past = (session.log, session.requests)
        return self

    if not TYPE_CHECKING:  # a type checker says it by itself

        def __enter__(self) -> None:
            """Whoever forgot the `async` of the block."""
            what = "a team is entered with `async with`, in a coroutine or a notebook"
            raise UsageError("usage", what, do=[f"async with Team({self.name!r}, …) as team: …"])

        def __exit__(self, *_error: object) -> None: ...

    def _opening(self) -> Options:
        """What the session is opened with: for a team that is on disk, its session, or a new one that takes it over."""
        home = resolve_home(self._options.home)
        if self._goes_on == "resume":
            return replace_fields(self._options, resume=find_session_of_team(home, self.name).id)
        if self._goes_on == "adopt":
            require_adoptable(find_saved_team(home, self.name))
            return replace_fields(self._options, adopt=self.name)
        return self._options

    async def _create(self, session: Session) -> None:
        if self._replace:
            await session.archive_team(self.name)
        try:
            await create_team(session.team, self.name, None, None)
        except TeamRefused as refused:
            if not await session.find_archivable_teams(self.name):
                raise
            do = [f"Team({self.name!r}, replace=True) puts it into the archive first", *refused.do]
            raise TeamRefused(
                refused.slug, refused.what, looked_at=refused.looked_at, do=do, note=refused.note
            ) from None

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait `goodbye_s` for turns that run, then end everybody, to be resumed; an error in the block goes on."""
        session = self.session
        try:
            if self._run is not None and not self._run.done:
                await self._run.stop()
            await session.maker.plans.close()
            session.requests.close("the team was left")
            if self._keep or kind is not None or not session.team.exists:
                await session.finish(keep=True)
            else:
                await delete_led_team(session, force=True)
        finally:
            self._session = self._run = None
            await self._stack.__aexit__(kind, error, trace)

    def run(self, prompt: str) -> Run:
        """Give the lead a prompt and see it through: the result comes when nobody works any more.

        One run at a time; one that was cancelled is waited for. Raises UsageError for an empty prompt, TeamRefused
        while another run goes on.
        """
        session = self.session
        require_prompt(prompt)
        return self._begin(lambda: session.run([text_block(prompt)]))

    def command(self, name: str, arguments: str = "") -> Run:
        """Call a slash command or a skill that somebody wrote, as a person does with `/name arguments`.

        A prompt of `run` never calls one, whatever it begins with. One run at a time. Raises UsageError naming the
        nearest for a name that there is not, TeamRefused while another run goes on. Awaiting the run raises UsageError
        when a shell line of the command was not allowed, or its arguments do not fit; nobody was told anything then.
        """
        session = self.session
        find_command(session, require_text("a command's name", name))
        require_text("what a command is called with", arguments)
        return self._begin(lambda: run_command(session, name, arguments))

    @property
    def commands(self) -> list[str]:
        """Names of the commands and skills that `command` takes."""
        return [one.name.removeprefix("/") for one in list_commands(self.session)]

    def _begin(self, work: Callable[[], Awaitable[Result]]) -> Run:
        self._require_running()
        before = self._run if self._run is not None and not self._run.done else None
        if before is not None and not before.cancelled:
            raise TeamRefused(
                "team-refused",
                "a run of this team is going on",
                do=["await it first, or cancel it", 'await team.send("lead", …) reaches the lead during the run'],
                note="nothing was started",
            )
        self._run = Run(self.session, work, self._readers, before)
        return self._run

    async def spawn(self, name: str, prompt: str, **how: Unpack[SpawnOptions]) -> Member:
        """Start a teammate; it works on its prompt at once, then claims tasks and answers mail.

        See SpawnOptions for the keywords: `agent_type`, `model`, `effort`, `mode`, `budget`. Raises InvalidName,
        UsageError, TeamRefused, LimitExceeded, CannotStart; nothing is left then.
        """
        self._require_running()
        session = self.session
        refuse_unknown(how, list(SpawnOptions.__annotations__))
        check_option_types({"name": require_text(A_NAME, name), **how})
        require_text("a prompt", prompt)
        model, mode = how.get("model"), how.get("mode")
        spec = SpawnSpec(
            prompt=prompt,
            name=name,
            agent_type=how.get("agent_type", "general-purpose"),
            model=session.models.bring(model) if model is not None else None,
            effort=parse_optional_effort(how.get("effort")),
            mode=str(parse_mode(mode, "mode=")) if mode is not None else None,
            budget=how.get("budget") or NO_CAPS,
            command=how.get("command", ""),
        )
        mate = await spawn(session.team, spec)
        return Member(mate.name, session.team, session.modes)

    async def set_budget(self, name: str, budget: Budget) -> Budget:
        """Give a member other caps, also for a resume; one that rests at a cap goes on where it stopped.

        Caps that `budget` does not name stay as they are. Returns what holds now. Raises UnknownMember, TeamRefused for
        one that another program runs.
        """
        check_option_types({"budget": budget})
        mate, team = Member(name, self.session.team, self.session.modes).require(), self.session.team
        if mate.name.lower() in team.external.external_names:
            what = f"another program runs {mate.name}: what it uses is not counted here, and cannot be capped"
            raise TeamRefused("team-refused", what, note="nothing was changed")
        if isinstance(mate, ProcessTeammateBase):
            holds = await ALLOW.perform_at(mate, budget=budget.as_json())
        else:
            holds = self.session.maker.purse.set_budget(mate.name, budget)
        await save_budget(team.home, team.directory, name, holds)
        return holds

    @property
    def tasks(self) -> Tasks:
        """The team's task list."""
        return Tasks(self.session.team, self._require_running)

    @property
    def members(self) -> list[Member]:
        """The teammates that are alive, in the order of joining; the lead is not among them."""
        team, modes = self.session.team, self.session.modes
        return [Member(mate.name, team, modes) for mate in team.running_members]

    @property
    def usage(self) -> Usage:
        """What the team has used so far, all runs and members together."""
        return self.session.maker.purse.total

    @property
    def mode(self) -> str:
        """The lead's permission mode."""
        return str(self.session.modes.mode)

    def set_mode(self, mode: PermissionMode) -> ModeSet:
        """Another permission mode for the lead, from its next call on; kept for `Team.resume`.

        Members without a mode of their own follow at once, and none exceeds it; `delegate` restricts the lead alone.
        Raises UsageError for no mode, TeamRefused for bypassPermissions in a session that did not begin in it.
        """
        modes = self.session.modes
        return modes.set_lead(lead_mode(require_text("a mode", mode), "mode="))

    @property
    def model(self) -> str:
        """The model that the lead runs on, as `provider/model`."""
        return self.session.lead.agent.model.card.name

    async def set_model(self, model: str | Model, member: str = "lead") -> ModelChange:
        """Another model for the lead, or a member, from its next call on: a new prefix begins; kept for `Team.resume`.

        Whoever is started later without a model of its own has the lead's. Raises UnknownMember, CannotStart for a
        model that is not to be had or, where money is capped, has no known price; nothing is changed then.
        """
        require_model(model, or_none=False)
        return await set_model(self.session, model, require_text(A_NAME, member), by=USER)

    async def send(self, to: str, text: str, summary: str = "") -> Sent:
        """Write to a member, or to `lead`, as the user. Raises UnknownMember naming the nearest, UsageError."""
        session = self.session
        to, text = require_text(A_NAME, to), require_text("a message", text)
        return await send_text(session.team, USER, to, text, require_text("a summary", summary))

    async def compact(self, name: str = "lead", keep: str = "") -> CompactResult:
        """Have the lead, or a member, go on from a summary of its conversation; `keep` says what it must not lose.

        At once when it rests, before its next model call when it works; returns when it is done. `done` of the result
        says whether it was, `why` what was in the way; nothing was changed then. Raises UnknownMember.
        """
        return await compact_agent(self.session, require_text(A_NAME, name), require_text("what to keep", keep))

    async def clear(self) -> CompactResult:
        """Have the lead go on with an empty conversation: team, members, tasks and unread mail stay, as does its file.

        It is told anew how things stand. `done` of the result is false where nothing was said yet. Raises TeamRefused
        while it is in a turn.
        """
        return await clear_lead(self.session)

    async def context(self, name: str = "lead") -> ContextView:
        """What fills the window of the lead, or of a member, and when it is compacted. Raises UnknownMember."""
        return await context_view(self.session, require_text(A_NAME, name))

    async def reload(self) -> ReloadResult:
        """Read instructions, skills, kinds of agents, MCP servers and rules again, and take over what is new.

        The result says what is different, whose prefix is new, and which settings hold from the next start on. Raises
        CannotStart for settings that cannot be read; nothing is changed then.
        """
        return await reload_session(self.session)

    async def stop(self, name: str) -> None:
        """End a member, a sub-agent or a background command at once, by its name or id.

        Open tasks of a member go back to the list; who started a sub-agent is notified. Raises UnknownMember.
        """
        if await stop_task(self.session, require_text(A_NAME, name)) is None:
            await Member(name, self.session.team, self.session.modes).stop()

    async def delete(self, *, force: bool = False) -> None:
        """End all members and put the team into the archive: requests, mail and tasks.

        Turns that run are waited for, up to `goodbye_s`. No member can be started afterwards: leave the block. Raises
        TeamRefused during a run, and while a task is open without `force`; nothing was ended then.
        """
        self._require_running()
        if self._run is not None and not self._run.done:
            raise TeamRefused("team-refused", "a run of this team is going on", do=["await it first, or cancel it"])
        await delete_led_team(self.session, force=force)

    def events(self, after: int | None = None, *, answers: bool = True) -> AsyncIterator[tuple[int, TeamEvent]]:
        """Everything that happens from now on (or after that number of the log) until the block is left.

        For surfaces: each event comes with its number, which is what `after` takes; events that are never in the log
        (TextDelta, ToolStarted, AssistantText) come with the number of the last one that is. When the block was left,
        what is in the log. See Run.events for the rest. Raises UsageError before the block was ever entered.
        """
        log, requests = self._past or (self.session.log, self.session.requests)
        start = log.last_number if after is None else min(require_number("after", after), log.last_number)
        made: EventIterator[tuple[int, TeamEvent]] = EventIterator(log, requests, start, numbered, no_last_event)
        return self._readers.add(made) if answers else made
