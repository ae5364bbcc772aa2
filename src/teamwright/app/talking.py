"""What a person at a session may do to it while it runs: write to a member, end one, look, leave it resumable.

A facade over `teams` for faces that hold a session. Every act is on the files before it returns. Knows sessions
and teams; knows no screen and no key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import field
from typing import TypeVar

from teamwright.app.acts.running import ids_running, named, running_of, stop_running
from teamwright.app.acts.running import to_background as here_to_background
from teamwright.app.acts.table import BACKGROUND, RUNNING, STOP
from teamwright.app.acts.whom import away
from teamwright.app.prompting import read_prompt
from teamwright.app.result import TaskLine
from teamwright.app.session import Session
from teamwright.protocol.errors import TeamRefused, TeamwrightError, UnknownMember
from teamwright.protocol.ids import LEAD, LEAD_ALIAS, addressee, nearest
from teamwright.protocol.usage import Usage
from teamwright.protocol.values import dataclass
from teamwright.teams.ending import BY_USER, delete_team, kill, refuse_open
from teamwright.teams.mailing.post import Sent, send_text
from teamwright.teams.member.away import Away
from teamwright.teams.member.mate import Mate
from teamwright.teams.places.place import IN_LEADS, Hides, Where

T = TypeVar("T")

ANSWERS_S = 3.0
"""How long members' own processes may take to say what runs there, in seconds."""


HERE = Where()


@dataclass(frozen=True, slots=True)
class LiveMember:
    """A member that is alive. `waiting_on` says what a blocked one waits for; `context` is in tokens.

    `mode` is its permission mode, `where` says where it lives; `edits_accepted`: a person accepted its edits ahead.
    """

    name: str
    state: str
    model: str
    agent_type: str
    waiting_on: str = ""
    turns: int = 0
    context: int = 0
    usage: Usage = field(default_factory=Usage)
    mode: str = ""
    where: Where = HERE
    edits_accepted: bool = False

    @property
    def elsewhere(self) -> bool:
        """Whether it has a place of its own."""
        return self.where.backend != IN_LEADS


def live_members(session: Session) -> list[LiveMember]:
    """The lead, then everybody who is alive, in the order of joining."""
    purse, lead = session.maker.purse, session.lead
    first = LiveMember(
        LEAD,
        "working" if lead.busy else "idle",
        lead.agent.model.card.name,
        "lead",
        turns=lead.turns,
        context=purse.context.get(LEAD, 0),
        usage=purse.by_member.get(LEAD, Usage()),
        mode=str(session.modes.mode),
    )
    others = [
        LiveMember(
            mate.name,
            str(mate.state),
            mate.model,
            mate.agent_type,
            mate.waiting_on,
            mate.turns,
            purse.context.get(mate.name, 0),
            purse.by_member.get(mate.name, Usage()),
            mate.mode,
            mate.where,
            bool(mate.edits_accepted_by),
        )
        for mate in session.team.live
    ]
    return [first, *others]


def member_names(session: Session) -> list[str]:
    """Names of the members that are alive, without the lead."""
    return [mate.name for mate in session.team.live]


def members_at_work(session: Session) -> list[str]:
    """Names of members that are working, or about to."""
    return [mate.name for mate in session.team.busy()]


def say_to_lead(session: Session, text: str) -> None:
    """The user's words, with the files that `@path` in them attaches: for the next turn, or the next round of it.

    Raises UsageError for a file that cannot be attached, StorageError for one that cannot be read.
    """
    session.lead.prompt(read_prompt(text, None, session.maker.cwd))


def run_in_shell(session: Session, command: str) -> None:
    """The user's own shell command: it runs between the lead's turns, and the lead reads what it printed later."""
    session.lead.shell(command)


async def write_to(session: Session, name: str, text: str) -> Sent:
    """Mail from the user to a member. Raises UnknownMember, InboxFull, LockTimeout; nothing is sent then."""
    if not session.team.exists:
        raise _unknown(session, name, "nothing was sent")
    return await send_text(session.team, "user", name, text)


async def stop_member(session: Session, name: str) -> tuple[str, list[TaskLine]]:
    """End a member at once; returns its name and the tasks that went back to the list.

    Its model call and its commands are over when this returns. Raises UnknownMember, InvalidName,
    and TeamRefused for the lead.
    """
    mate = _mate(session, name)
    tasks = session.team.tasks
    mine = {task.id for task in await tasks.all() if task.owner == mate.name and task.status != "completed"}
    await kill(session.team, mate, BY_USER)
    free = [task for task in await tasks.all() if task.id in mine and task.owner is None]
    return mate.name, [TaskLine(task.id, task.subject, str(task.status)) for task in free]


async def delete_led_team(session: Session, *, force: bool) -> None:
    """End all members and put the team into the archive.

    Raises TeamRefused while a task is open, unless `force`; nothing was ended then.
    """
    session.team.require()
    if not force:
        await refuse_open(session.team)
    await session.goodbye()
    await delete_team(session.team, force=force)


async def stop_task(session: Session, name: str) -> str | None:
    """End a sub-agent, by its id or name, or a background command, by its id; whoever started it is told.

    Returns what became of it, in a line; None when the name is neither's.
    """
    if session.team.find(name) is not None:
        return None
    found = named(session.maker, name)
    if found is None or found.state != "running":
        for mate in away(session):
            if (stopped := await _of(STOP.at(mate, name=name), None)) is not None:
                return stopped
    return None if found is None else await stop_running(session.maker, found)


async def tasks_of(session: Session, owner: str) -> list[str]:
    """What a member started and what still runs: its sub-agents, then its background commands, a line each."""
    mate = session.team.find(owner)
    if isinstance(mate, Away):
        return list(await _of(RUNNING.at(mate), ()))
    return running_of(session.maker, owner)


async def _of(asked: Awaitable[T], otherwise: T) -> T:
    """What a member's process says within a moment; one that does not answer is passed over."""
    try:
        async with asyncio.timeout(ANSWERS_S):
            return await asked
    except (TeamwrightError, TimeoutError):
        return otherwise


def interrupt_member(session: Session, name: str) -> bool:
    """Cut a member's turn short; False when it is not in one.

    Raises UnknownMember, InvalidName, and TeamRefused for the lead.
    """
    return _mate(session, name).interrupt()


async def to_background(session: Session, name: str = "") -> list[str]:
    """Let what is waited for go on in the background: sub-agents and commands, of everybody or of that one.

    `name` is a sub-agent's id or name, or a member's. Returns what went, as people read it. Raises UsageError for a
    name that nothing has.
    """
    maker, theirs = session.maker, away(session)
    if not name:
        here = here_to_background(maker) or ()
        moved = await asyncio.gather(*(_of(BACKGROUND.at(mate, name=""), None) for mate in theirs))
        return [*here, *(line for lines in moved for line in lines or ())]
    if (found := here_to_background(maker, name)) is not None:
        return found
    wanted = addressee(name, session.team.names)
    mate = session.team.find(wanted)
    if isinstance(mate, Away):
        return list(await BACKGROUND.at(mate, name="") or ())
    if mate is not None or wanted == LEAD:
        return here_to_background(maker, owner=LEAD if mate is None else mate.name) or []
    for one in theirs:
        if (there := await _of(BACKGROUND.at(one, name=name), None)) is not None:
            return list(there)
    raise _unknown(session, name, "nothing was moved")


async def put_out_of_sight(session: Session, name: str, *, hidden: bool) -> str:
    """Hide the pane of a member that has one, or show it again; it goes on meanwhile. Returns what became of it.

    The roster names the panes that are hidden. Raises UnknownMember, InvalidName, CannotStart, and TeamRefused for the
    lead and for a member that has no pane, or whose place cannot do that.
    """
    mate = _mate(session, name)
    verb, place = "hidden" if hidden else "shown", getattr(mate, "place", None)
    if mate.spot is None or not isinstance(place, Hides):
        raise TeamRefused(
            "team-refused",
            f"{mate.name} runs in {mate.where}: it has no pane",
            note="nothing was changed",
        )
    spot = mate.spot
    if not await (place.hide(spot) if hidden else place.show(spot)):
        raise TeamRefused(
            "team-refused", f"{mate.name} cannot be {verb} in {mate.where}, or is gone", note="nothing was changed"
        )
    await session.team.roster.change(lambda config: config.with_hidden(spot.id, hidden=hidden))
    return f"{mate.name} is {verb} ({mate.where})"


def lead_was_interrupted(session: Session) -> None:
    """The person ended the lead's turn: it owes no answer until the next words. Raises StorageError."""
    session.lead.interrupted()


def _mate(session: Session, name: str) -> Mate:
    wanted = addressee(name, session.team.names)
    if wanted == LEAD:
        raise TeamRefused("team-refused", "the lead ends with its session", do=["/quit"], note="nothing was stopped")
    mate = session.team.find(wanted)
    if mate is None:
        raise _unknown(session, name, "nothing was stopped")
    return mate


def _unknown(session: Session, name: str, note: str) -> UnknownMember:
    names: Sequence[str] = member_names(session)
    tasks = ids_running(session.maker)
    close = nearest(name, [*names, *tasks])
    return UnknownMember(
        "unknown-member",
        f'"{name}" is not in the team' if names else f'there is no "{name}": the lead is alone',
        looked_at=[("members", ", ".join([LEAD_ALIAS, *names])), *([("running", ", ".join(tasks))] if tasks else [])],
        do=[f"did you mean {close}?"] if close else [],
        note=note,
    )
