"""What a person at a session may do to it while it runs: write to a member, end one, look, leave it resumable.

A facade over `teams` for faces that hold a session. Every act is on the files before it returns. Knows sessions
and teams; knows no screen and no key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from teamwright.agent.job_journal import Job
from teamwright.app.prompting import read_prompt
from teamwright.app.result import TaskLine
from teamwright.app.session import Session
from teamwright.protocol.errors import TeamRefused, UnknownMember
from teamwright.protocol.ids import LEAD, LEAD_ALIAS, addressee, nearest
from teamwright.protocol.usage import Usage
from teamwright.teams.agents.run import Run
from teamwright.teams.ending import kill
from teamwright.teams.member.mate import Mate
from teamwright.teams.post import Sent, send_text


@dataclass(frozen=True, slots=True)
class LiveMember:
    """A member that is alive. `waiting_on` says what a blocked one waits for; `context` is in tokens.

    `mode` is its permission mode.
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
    await kill(session.team, mate, "stopped by the user")
    free = [task for task in await tasks.all() if task.id in mine and task.owner is None]
    return mate.name, [TaskLine(task.id, task.subject, str(task.status)) for task in free]


async def stop_task(session: Session, name: str) -> str | None:
    """End a sub-agent, by its id or name, or a background command, by its id; whoever started it is told.

    Returns what became of it, in a line; None when the name is neither's.
    """
    agents, jobs = session.agents, session.jobs
    found = None if session.team.find(name) is not None else agents.find(name) or jobs.known(name)
    if found is None:
        return None
    what = _shown(found)
    if found.state != "running":
        return f"{what} does not run: it is {found.state}"
    if isinstance(found, Run):
        await agents.stop(found, "stopped by the user")
    else:
        await jobs.stop(found.id)
    return f"{what} was stopped"


def tasks_of(session: Session, owner: str) -> list[str]:
    """What a member started and what still runs: its sub-agents, then its background commands, a line each."""
    runs = [f"{_shown(run)}{'' if run.background else ', waited for'}" for run in session.agents.running(owner)]
    return [*runs, *(_shown(job) for job in session.jobs.list(owner) if job.state == "running")]


def interrupt_member(session: Session, name: str) -> bool:
    """Cut a member's turn short; False when it is not in one.

    Raises UnknownMember, InvalidName, and TeamRefused for the lead.
    """
    return _mate(session, name).interrupt()


def to_background(session: Session, name: str = "") -> list[str]:
    """Let what is waited for go on in the background: sub-agents and commands, of everybody or of that one.

    `name` is a sub-agent's id or name, or a member's. Returns what went, as people read it. Raises UsageError for a
    name that nothing has.
    """
    agents, owner = session.agents, None
    chosen = agents.find(name) if name else None
    if chosen is not None:
        return [_shown(chosen)] if agents.to_background(chosen) else []
    if name:
        wanted = addressee(name)
        mate = session.team.find(wanted)
        if mate is None and wanted != LEAD:
            raise _unknown(session, name, "nothing was moved")
        owner = LEAD if mate is None else mate.name
    moved = [run for run in agents.running(owner, background=False) if agents.to_background(run)]
    return [*map(_shown, moved), *session.jobs.let_go(owner)]


def _shown(task: Run | Job) -> str:
    return f"{task.id} {task.description or (task.command if isinstance(task, Job) else task.kind)}"


def lead_was_interrupted(session: Session) -> None:
    """The person ended the lead's turn: it owes no answer until the next words. Raises StorageError."""
    session.lead.interrupted()


def _mate(session: Session, name: str) -> Mate:
    wanted = addressee(name)
    if wanted == LEAD:
        raise TeamRefused("team-refused", "the lead ends with its session", do=["/quit"], note="nobody was stopped")
    mate = session.team.find(wanted)
    if mate is None:
        raise _unknown(session, name, "nobody was stopped")
    return mate


def _unknown(session: Session, name: str, note: str) -> UnknownMember:
    names: Sequence[str] = member_names(session)
    tasks = [one.id for one in (*session.agents.running(), *session.jobs.list()) if one.state == "running"]
    close = nearest(name, [*names, *tasks])
    return UnknownMember(
        "unknown-member",
        f'"{name}" is not in the team' if names else f'there is no "{name}": the lead is alone',
        looked_at=[("members", ", ".join([LEAD_ALIAS, *names])), *([("running", ", ".join(tasks))] if tasks else [])],
        do=[f"did you mean {close}?"] if close else [],
        note=note,
    )
