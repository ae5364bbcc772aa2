"""Start a teammate: name, incarnation, first prompt, coroutine, announcement; a failure undoes them in reverse.

Order: reserve the name in the roster, record the incarnation in team.json, put the first prompt into the inbox, start,
wait until it runs, announce. After a kill in between, `team_resume` completes or undoes the start.

A resumed member is started from our own records, because other programs may write the roster. Changes of its entry go
into the file and into this process's memory in one step: the roster watcher takes every other content for the work of
another program.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from teamwright.mail.message_size import check_text_size
from teamwright.permissions.verdict import Mode
from teamwright.protocol.errors import CannotStart, StorageError, TeamRefused, UsageError
from teamwright.protocol.events import Notice
from teamwright.protocol.ids import LEAD, agent_id, iso_time, keyed_id, member_name, message_id, now_ms
from teamwright.protocol.mail import InboxEntry, parse_protocol
from teamwright.protocol.members import IN_PROCESS, MemberState, RosterMember, TeamConfig
from teamwright.protocol.time_limit import time_limit
from teamwright.protocol.usage import Budget
from teamwright.team_records.atomic_record import AtomicRecord
from teamwright.team_records.life_cycle import BUSY_STATES, ENDED_STATES, LifecycleEvent
from teamwright.team_records.spawn_spec import PreparedAgent, SpawnSpec
from teamwright.team_records.team_state import Incarnation, TeamFile, stored_entry
from teamwright.teams.backend import Location
from teamwright.teams.backend_teammate import ProcessTeammateBase
from teamwright.teams.incoming_mail import IncomingMail
from teamwright.teams.local_teammate import LocalTeammate
from teamwright.teams.local_teammate_access import LocalTeamAccess
from teamwright.teams.plan_requests import NO_PENDING_PLAN, pending_plan
from teamwright.teams.protocol_message_text import TeamMailRules
from teamwright.teams.shutdown import find_crashed
from teamwright.teams.shutdown_requests import find_read_request
from teamwright.teams.team import SessionTeam
from teamwright.teams.team_creation import ensure_team
from teamwright.teams.teammate import Teammate
from teamwright.worktrees.worktree_record import find_member_record

START_S = 120.0
"""Seconds until a member must be ready: enough for a busy machine, or a database that is far away."""

MAX_ENDED_KEPT = 64
"""Ended members that are still remembered."""


async def spawn(team: SessionTeam, spec: SpawnSpec, requester: str = LEAD) -> Teammate:
    """Start a teammate, or resume the crashed one of its name; creates the implicit team when there is none.

    Raises InvalidName, TeamRefused (a live name, a requester that is not the lead), LimitExceeded, CannotStart; then
    the start is undone.
    """
    if requester != LEAD:
        raise TeamRefused(
            "team-refused",
            "a teammate cannot start teammates: the team is flat",
            do=["Call Agent without name for a sub-agent, or ask lead for another teammate."],
            note="nothing was started",
        )
    if not spec.prompt.strip():
        raise UsageError("usage", "a teammate needs a prompt", note="nothing was started")
    check_text_size(spec.prompt, "the prompt", "nothing was started")
    name = member_name(spec.name)
    if before := next(
        (teammate for teammate in team.members.values() if spec.call and teammate.call == spec.call), None
    ):
        return before  # this call started it before a kill, perhaps as `name-2`; it may have ended
    earlier = await team.state.read() if spec.call and team.exists else None
    if earlier is not None and (over := earlier.describe_end(spec.call)):  # the call started it before a kill
        raise CannotStart("backend", over, do=["Start another one if the work is still to be done."])
    prepared = await team.builder.prepare(spec)
    spec = prepared.spec
    _refuse_while_closing(team)
    if not spec.command and (incarnation := await find_crashed(team, name)) is not None:
        return await _resume_crashed(team, name, incarnation, spec)
    backend = await team.launcher.choose_backend(spec) if team.launcher is not None else IN_PROCESS
    why = team.launcher.choice_reason if team.launcher is not None else ""
    team.limits.admit(depth=0, live_members=len(team.running_members) + len(team.starting_names))
    with _hold_name(team, name):
        async with AsyncExitStack() as undo:
            undo.callback(team.limits.undo)
            await ensure_team(team)
            roster = team.roster
            entry = _roster_entry(team, spec, name, prepared.model)
            member = await roster.join(entry, dedupe=team.settings.dedupe_names)
            undo.push_async_callback(roster.remove, member.name)
            spec, member = await _add_worktree(team, prepared, member, undo)
            incarnation = await _begin_incarnation(team, member, spec)
            undo.push_async_callback(end_incarnation, team, member.name, incarnation.incarnation)
            member = await _set_backend(team, member, backend)
            inbox = team.mailbox(member.name)
            # Requests and assignments to an earlier incarnation of the name; texts of people are kept.
            unread = await inbox.unread()
            await inbox.mark_delivered({e.msg_id for e in unread if e.msg_id and parse_protocol(e.text) is not None})
            undo.push_async_callback(inbox.mark_delivered, {incarnation.first})
            await send_first_prompt(team, member, incarnation, spec.description)
            if team.launcher is not None and backend != IN_PROCESS:
                teammate = await team.launcher.start(member, incarnation, undo)
            else:
                teammate = await start_in_process(team, member, incarnation, undo, replace(spec, name=member.name))
            undo.pop_all()
    teammate.location_reason = why
    return teammate


async def _add_worktree(
    team: SessionTeam, prepared: PreparedAgent, member: RosterMember, undo: AsyncExitStack
) -> tuple[SpawnSpec, RosterMember]:
    """Create the member's worktree if its spec wants one. Raises TeamwrightError; nothing is created then."""
    spec = prepared.spec
    if not spec.wants_worktree:
        return spec, member
    if spec.cwd is not None:
        raise UsageError(
            "usage",
            "a teammate in a worktree works where the session works in the repository: it takes no cwd",
            do=['Leave cwd out, or give isolation "none": it then works in cwd itself.'],
            note="nothing was started",
        )
    if team.ports.worktrees is None:
        raise CannotStart("no-git", "worktrees are not available here", note="nothing was started")
    worktrees = team.ports.worktrees()
    with suppress(StorageError, CannotStart):  # the queue's worker reports a damaged queue; hooks work without git
        if not await team.stores.integration(team.directory).entries():
            await worktrees.set_aside_integration(team.name)
    record = await worktrees.create(team.name or team.session_list_name, member.name, bounds=prepared.bounds)
    undo.push_async_callback(worktrees.discard, record)
    member = replace(member, cwd=record.path, worktree_path=record.path)
    await team.roster.add(member)
    return replace(spec, worktree=record.tree), member


async def _resume_crashed(team: SessionTeam, name: str, incarnation: Incarnation, spec: SpawnSpec) -> Teammate:
    """Resume the member with its conversation; the prompt is its next message. Raises as `spawn`."""
    team.limits.admit(depth=0, live_members=len(team.running_members) + len(team.starting_names))
    with _hold_name(team, name):
        async with AsyncExitStack() as undo:
            undo.callback(team.limits.undo)
            member = await team.roster.find(name)
            id = keyed_id(spec.call, name.lower()) if spec.call else message_id()
            inbox = team.mailbox(member.name)
            if not await inbox.contains(id):
                await inbox.put(
                    InboxEntry(LEAD, spec.prompt, spec.description or None, iso_time(), msg_id=id), runtime=True
                )
                undo.push_async_callback(inbox.mark_delivered, {id})
            teammate = await restart(team, member, incarnation, undo)
            undo.pop_all()
    again = replace(incarnation, crashed="", call=spec.call or incarnation.call)
    await team.state.change(lambda file: file.with_resumed(name, again))
    teammate.crash_cause = incarnation.crashed
    teammate.call = again.call
    return teammate


async def restart(team: SessionTeam, member: RosterMember, incarnation: Incarnation, undo: AsyncExitStack) -> Teammate:
    """Start a member of an earlier process again, in its former backend or an available one. Raises TeamwrightError."""
    member = with_own_directory(team, member, incarnation)
    if team.launcher is not None and (incarnation.command or member.backend_type != IN_PROCESS):
        return await team.launcher.resume(member, incarnation, undo)
    return await start_in_process(team, member, incarnation, undo, resumed=True)


async def _begin_incarnation(team: SessionTeam, member: RosterMember, spec: SpawnSpec) -> Incarnation:
    """Record a new incarnation of the member, with a separate transcript for each."""

    def make(incarnation: int) -> Incarnation:
        number = incarnation
        while True:
            stem = member.name if number <= 1 else f"{member.name}-{number}"
            path = team.home.agent_transcript(team.cwd, team.session, stem)
            if not path.exists():
                break
            number += 1  # an earlier team of this session had a member of the name
        return Incarnation(
            incarnation,
            str(path),
            message_id(),
            spec.call,
            spec.model,
            spec.max_turns,
            spec.budget,
            spec.bounds,
            spec.mode or "",
            spec.effort,
            command=spec.command,
            entry=stored_entry(member),
        )

    return await begin_incarnation(team.state, member.name, make)


async def end_incarnation(team: SessionTeam, name: str, incarnation: int) -> None:
    """Remove that incarnation of the member, and its pending end."""
    await team.state.change(lambda file: file.without_incarnation(name, incarnation))


async def send_first_prompt(
    team: SessionTeam, member: RosterMember, incarnation: Incarnation, summary: str = ""
) -> None:
    """Put the member's first prompt into its inbox as the first entry."""
    entry = InboxEntry(
        sender=LEAD,
        text=member.prompt or "",
        summary=summary or None,
        timestamp=iso_time(),
        msg_id=incarnation.first,
    )
    await team.mailbox(member.name).put(entry, runtime=True)


@contextmanager
def _hold_name(team: SessionTeam, name: str) -> Generator[None]:
    team.starting.append(name)
    try:
        yield
    finally:
        team.starting.remove(name)
        team.changed.set()


def _refuse_while_closing(team: SessionTeam) -> None:
    if team.closing:
        raise TeamRefused("team-refused", "the session is ending", note="nothing was started")


async def _set_backend(team: SessionTeam, member: RosterMember, backend: str) -> RosterMember:
    """Write the backend into the roster, after the incarnation is recorded: until then a kill leaves an entry that is
    surely ours.
    """
    if backend == IN_PROCESS:
        return member
    member = replace(member, backend_type=backend, pane_id="")
    await team.roster.add(member)
    return member


def _roster_entry(team: SessionTeam, spec: SpawnSpec, name: str, model: str) -> RosterMember:
    return RosterMember(
        agent_id=agent_id(name, team.name or team.session_list_name),
        name=name,
        agent_type=spec.agent_type,
        model=model,
        prompt=spec.prompt,
        plan_mode_required=spec.starts_in_plan_mode,
        joined_at=now_ms(),
        pane_id=IN_PROCESS,
        cwd=str(spec.cwd or team.ports.work_directory or team.cwd),
        backend_type=IN_PROCESS,
        mode=spec.mode,
        color=spec.definition.color if spec.definition is not None else None,
    )


async def start_in_process(
    team: SessionTeam,
    member: RosterMember,
    incarnation: Incarnation,
    undo: AsyncExitStack,
    spec: SpawnSpec | None = None,
    *,
    resumed: bool = False,
) -> LocalTeammate:
    """Build the member's agent and start it; returns when it runs. `undo` reverts the start when a later step fails.

    `spec` is the resolved spec; None for a resumed member, whose spec is on disk. `resumed`: an earlier process began
    the incarnation; a member that is ended during its resume is handled by the code that ended it. Raises
    TeamwrightError.
    """
    agent = await team.builder.build_teammate(spec or resumed_spec(member, incarnation), team, incarnation)
    undo.callback(agent.conversation.close)
    _refuse_while_closing(team)
    name = member.name
    rules = TeamMailRules(team, name, agent.tags)
    incoming = IncomingMail(name, team.mailbox(name), agent.conversation, team.emit, rules)
    teammate = LocalTeammate(
        agent=agent,
        incoming=incoming,
        team_access=LocalTeamAccess(team),
        emit=team.emit,
        incarnation=incarnation.incarnation,
        color=member.color,
        model=agent.model.card.name,
        effort=agent.effort_text,
        agent_type=member.agent_type,
        team_changed=team.changed,
        resumed=resumed,
        call=incarnation.call,
        stop_request=find_read_request(team, name, incarnation.incarnation, agent.conversation) if resumed else None,
        pending_plan=pending_plan(team.requests, name, incarnation.incarnation) if resumed else NO_PENDING_PLAN,
    )
    over = [
        teammate.name for teammate in team.members.values() if teammate.state in ENDED_STATES and teammate.end_processed
    ]
    for gone in over[: max(0, len(over) - MAX_ENDED_KEPT)]:
        del team.members[gone]
        team.external.own_entries.pop(gone, None)
    team.members[name] = teammate
    team.external.own_entries[name] = member
    unfollow = team.watch_inbox(name, incoming)
    teammate.run_task = asyncio.create_task(teammate.run(), name=f"member {name}")
    teammate.run_task.add_done_callback(lambda task: _on_run_end(team, teammate, unfollow, task))
    undo.push_async_callback(_remove_member, team, teammate)
    async with time_limit(START_S):  # wait_for of Python 3.11 loses a cancellation that comes with the wake-up
        await teammate.ready.wait()
    if teammate.state in ENDED_STATES and not teammate.turns and not resumed:
        raise TeamRefused("team-refused", f"{teammate.name} was ended while it started", note="nothing was started")
    return teammate


def _on_run_end(
    team: SessionTeam, teammate: LocalTeammate, unfollow: Callable[[], None], task: asyncio.Task[None]
) -> None:
    """Release the member's resources at any end of its task, also a cancellation before its first step."""
    unfollow()
    if teammate.state not in ENDED_STATES and not teammate.end_cause and not team.closing:
        # An unknown cause cancelled it: it has ended, and its end is processed like any other.
        teammate.end_cause = "its task was cancelled"
        teammate.transition(LifecycleEvent.FAILED, teammate.end_cause)
        teammate.end_task = asyncio.create_task(
            teammate.team_access.process_end(teammate.name, f"failed: {teammate.end_cause}", None),
            name=f"end of {teammate.name}",
        )
    teammate.agent.conversation.close()
    if teammate.agent.hooks.is_running:
        text = teammate.agent.conversation.text_since(0)
        teammate.agent.hooks.note_end(
            "done" if teammate.state is MemberState.COMPLETED else str(teammate.state), teammate.end_cause, text
        )
    teammate.agent = teammate.agent.without_history()
    teammate.incoming = IncomingMail(teammate.name, teammate.incoming.inbox, teammate.agent.conversation, team.emit)
    if teammate.state in ENDED_STATES:
        teammate.run_task = None  # a cancelled task keeps its frames, and they keep the conversation
        entry = team.external.own_entries.get(teammate.name)
        if entry is not None and team.members.get(teammate.name) is teammate:
            team.external.own_entries[teammate.name] = replace(entry, prompt="")
    teammate.ready.set()
    team.changed.set()
    problem = None if task.cancelled() else task.exception()
    if problem is not None:
        team.emit(Notice(member=teammate.name, text=f"{type(problem).__name__}: {problem}", level="warning"))


async def _remove_member(team: SessionTeam, teammate: LocalTeammate) -> None:
    """Remove a member whose start failed."""
    teammate.end_cause = "it could not be started"
    if teammate.run_task is not None:
        teammate.run_task.cancel()
        await asyncio.wait({teammate.run_task}, timeout=team.settings.cancel_grace_s)
    if teammate.state not in ENDED_STATES:
        teammate.transition(LifecycleEvent.FAILED, teammate.end_cause)
    if team.members.get(teammate.name) is teammate:
        del team.members[teammate.name]


def with_own_directory(team: SessionTeam, member: RosterMember, incarnation: Incarnation) -> RosterMember:
    """Return the entry of a resumed member with the directory that was recorded for it.

    Other programs may write the roster: a worktree counts only when it was made for the member. Raises TeamRefused.
    """
    if not member.worktree_path:
        return replace(member, cwd=str(incarnation.entry.get("cwd") or team.cwd))
    names = {team.name, team.session_list_name}
    record = find_member_record(team.home.worktrees, Path(member.worktree_path), names, member.name)
    if record is None:
        raise TeamRefused(
            "team-refused",
            f"the roster names a worktree that was not made for {member.name}: {member.worktree_path[:200]}",
            do=["teamwright worktrees"],
            note="it was not started there",
        )
    return replace(member, cwd=record.path)


def resumed_spec(member: RosterMember, incarnation: Incarnation) -> SpawnSpec:
    """Return the spec of a resumed member, from its files on disk."""
    return SpawnSpec(
        prompt=member.prompt or "",
        name=member.name,
        agent_type=member.agent_type,
        model=incarnation.model,
        effort=incarnation.effort,
        mode=incarnation_mode(member, incarnation),
        max_turns=incarnation.max_turns,
        budget=incarnation.budget,
        cwd=Path(member.cwd),
        worktree=Path(member.worktree_path) if member.worktree_path else None,
        bounds=incarnation.bounds,
        plan_mode_required=bool(member.plan_mode_required),
        call=incarnation.call,
    )


def incarnation_mode(member: RosterMember, incarnation: Incarnation) -> str | None:
    """Return the incarnation's mode, and not the roster's, which any program may change."""
    if incarnation.mode is not None:
        return incarnation.mode or None
    return member.mode if member.mode is None or member.mode in list(Mode) else str(Mode.DEFAULT)


async def begin_incarnation(
    state: AtomicRecord[TeamFile], name: str, make: Callable[[int], Incarnation]
) -> Incarnation:
    """Record one more incarnation of a member; `make` receives its number, from 1, never used twice for a name."""
    incarnation: Incarnation | None = None

    def begun(file: TeamFile) -> TeamFile:
        nonlocal incarnation
        incarnation = make(file.next_incarnation(name))
        return file.with_incarnation(name, incarnation)

    await state.change(begun)
    assert incarnation is not None
    return incarnation


async def save_budget(state: AtomicRecord[TeamFile], name: str, budget: Budget) -> None:
    """Record the caps of the member's incarnation, also for a resume."""
    await _change_incarnation(state, name, lambda incarnation: replace(incarnation, budget=budget))


async def save_location(state: AtomicRecord[TeamFile], name: str, location: Mapping[str, Any] | None) -> None:
    """Record the location of the member's separate process; None: it runs in the lead's from now on."""
    await _change_incarnation(state, name, lambda incarnation: replace(incarnation, place=location))


async def save_model(state: AtomicRecord[TeamFile], name: str, model: str) -> None:
    """Record the model of the member's incarnation, also for a resume."""
    await _change_incarnation(state, name, lambda incarnation: replace(incarnation, model=model))


async def save_mode(state: AtomicRecord[TeamFile], name: str, mode: Mode) -> None:
    """Record the permission mode of the member's incarnation, also for a resume; `bubble`: its lead's."""
    await _change_incarnation(
        state, name, lambda incarnation: replace(incarnation, mode="" if mode is Mode.BUBBLE else str(mode))
    )


async def _change_incarnation(
    state: AtomicRecord[TeamFile], name: str, change: Callable[[Incarnation], Incarnation]
) -> None:
    """Change the present incarnation of that name; does nothing without one. Raises StorageError, LockTimeout."""

    def changed(file: TeamFile) -> TeamFile:
        incarnation = file.incarnation_records.get(name.lower())
        return (
            file
            if incarnation is None
            else replace(file, incarnation_records={**file.incarnation_records, name.lower(): change(incarnation)})
        )

    await state.change(changed)


EntryChange = Callable[[RosterMember], RosterMember]


def is_written_by_lead(team: SessionTeam) -> bool:
    """Return True in a member process, whose entry the lead's process writes."""
    return team.ports.report_end is not None and not team.external.led_externally


async def change_entry(team: SessionTeam, name: str, change: EntryChange) -> TeamConfig:
    """Change the entry of this member. Raises StorageError, LockTimeout; then nothing is changed."""
    return await change_entries(team, {name: change})


async def change_entries(team: SessionTeam, changes: Mapping[str, EntryChange]) -> TeamConfig:
    """Change the entries of these members; a name that is not on the roster is left out. Raises as `change_entry`."""
    entries = team.external.own_entries
    before = {name: entries[name] for name in changes if name in entries}

    def changed(config: TeamConfig) -> TeamConfig:
        for name, change in changes.items():
            if (entry := entries.get(name)) is not None:
                entries[name] = change(entry)
            if (found := config.find(name)) is not None:
                config = config.with_member(change(found))
        return config

    try:
        return await team.roster.change(changed)
    except BaseException:
        entries.update({name: entry for name, entry in before.items() if name in entries})
        raise


def set_location(location: Location) -> EntryChange:
    """Return the change of an entry whose member runs at this location from now on."""
    return lambda entry: replace(entry, pane_id=location.id, backend_type=location.kind)


async def save_mode_everywhere(team: SessionTeam, teammate: Teammate) -> None:
    """Write the member's present mode into team.json, which a resume reads, and into the roster, which others read.

    Raises StorageError, LockTimeout.
    """
    await save_mode(team.state, teammate.name, teammate.own_mode)
    await change_entry(team, teammate.name, lambda entry: replace(entry, mode=_roster_mode(teammate, entry)))


async def update_entries(team: SessionTeam) -> TeamConfig | None:
    """Bring the entries of our members up to date: the mode, and of a member process whether a turn runs.

    Returns the roster when something was written. Raises StorageError, LockTimeout.
    """
    stale: dict[str, EntryChange] = {}
    for name, teammate in list(team.members.items()):
        entry = team.external.own_entries.get(name)
        if entry is None or (present := _current_entry(teammate, entry)) is entry or present == entry:
            continue
        if not teammate.is_external and entry.mode != present.mode:
            await save_mode(team.state, teammate.name, teammate.own_mode)
        stale[teammate.name] = lambda entry, teammate=teammate: _current_entry(teammate, entry)
    return await change_entries(team, stale) if stale else None


def _current_entry(teammate: Teammate, entry: RosterMember) -> RosterMember:
    """Return the entry with the member's present values."""
    if teammate.keeps_place:
        return replace(entry, is_active=False) if entry.is_active else entry
    if teammate.state in ENDED_STATES or teammate.end_cause:
        return entry
    mode = _roster_mode(teammate, entry)
    is_active = entry.is_active
    if isinstance(teammate, ProcessTeammateBase) and (is_active is not None or teammate.turns):
        is_active = teammate.state in BUSY_STATES
    if (mode, is_active) == (entry.mode, entry.is_active):
        return entry  # the usual case, for each member of a large team
    return replace(entry, mode=mode, is_active=is_active)


def _roster_mode(teammate: Teammate, entry: RosterMember) -> str | None:
    """Return the member's own mode; None for one that follows the lead's."""
    if teammate.is_external:  # only its program knows its present mode
        return entry.mode if entry.mode is None else teammate.mode
    mode = teammate.own_mode
    return None if mode is Mode.BUBBLE else str(mode)
