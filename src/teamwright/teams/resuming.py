"""Resuming: the members of a team whose processes ended come back, each with its transcript, its mail and its tasks.

What a kill left half done is seen through first: a spawn is completed or taken back, a parting goes on, a shutdown
request is sent and has its deadline again. Knows the team and how a member is started; knows no session.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path

from teamwright.agent.transcript import calls_without_result, read_header
from teamwright.protocol.errors import CannotStart, StorageError, TeamwrightError
from teamwright.protocol.events import Notice
from teamwright.protocol.ids import message_id
from teamwright.protocol.roster import Member
from teamwright.protocol.values import dataclass
from teamwright.storage.atomic import storage_error
from teamwright.teams.ending import bound, see_off, tell_of
from teamwright.teams.incarnation import Life, Parting
from teamwright.teams.lifecycle import GONE
from teamwright.teams.mailing.returning import return_late_mail
from teamwright.teams.member.elsewhere import IN_PROCESS
from teamwright.teams.member.mate import Mate
from teamwright.teams.own_entries import change_entry, note_mode
from teamwright.teams.plans.approval import take_up_plan
from teamwright.teams.spawning import end_life, send_first, start_again
from teamwright.teams.stopping import Asked, arm, send_request
from teamwright.teams.team import Team
from teamwright.teams.team_file import TeamFile, change_team_file, read_team_file
from teamwright.teams.teammate import Teammate

_ENDED_MOST = 5
"""Members that had ended before and are named when their team is resumed."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """Who is back, and who was on the way out and is gone now (with those that could not come back).

    `tasks` were open and `unread` messages waited when it began; `repaired` calls had been cut off without a result.
    """

    members: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    tasks: int = 0
    unread: int = 0
    repaired: int = 0
    ended: tuple[str, ...] = ()
    """Members that had ended before, each with the cause."""

    def __str__(self) -> str:
        """One line for people; empty when there was nothing but the conversation."""
        counts = (
            (len(self.members), "member", ""),
            (self.tasks, "open task", ""),
            (self.unread, "unread message", ""),
            (self.repaired, "call", " repaired"),
        )
        parts = [f"{number} {what}{'' if number == 1 else 's'}{rest}" for number, what, rest in counts if number]
        gone = f"gone: {', '.join(self.gone)}" if self.gone else ""
        more = f" and {len(self.ended) - _ENDED_MOST} more" if len(self.ended) > _ENDED_MOST else ""
        ended = f"ended before: {', '.join(self.ended[-_ENDED_MOST:])}{more}" if self.ended else ""
        return "; ".join(part for part in (", ".join(parts), gone, ended) if part)


async def resume_members(team: Team, deadlines: set[asyncio.Task[None]]) -> Resumed:
    """Bring back the members of the team that this session leads; `deadlines` takes the timers of open requests.

    A member that cannot come back is declared dead: its tasks go back and the lead is told why. Raises StorageError,
    LockTimeout when the team's own files cannot be read.
    """
    file = read_team_file(team.home.team_file(team.directory))
    if file is None:
        return Resumed()
    left = await team.teams.leftovers(team.directory)
    repaired = sum(_cut_off(life) for life in file.lives.values())
    await _see_partings(team, file)
    teammates = (await team.roster.read()).teammates
    _arm_beyond(team, [m.name for m in teammates if not _is_ours(m, file)], deadlines)
    here = [m for m in teammates if _is_ours(m, file)]
    back: list[str] = []
    gone = [parting.name for parting in file.partings.values() if not parting.keeps]
    team.coming_back = {name for member in here if (name := member.name.lower()) in file.lives}
    for member in here:
        life = file.lives.get(member.name.lower())
        if life is None:
            await team.roster.remove(member.name)  # its start had come no further than the name
        elif (parting := _agreed(team, member, life)) is not None:
            await _part(team, parting)
            gone.append(member.name)
        elif (trouble := await _go_on(team, member, life, deadlines)) is None:
            (back if team.find(member.name) is not None else gone).append(member.name)
        else:
            cause = f"could not be resumed: {trouble}"
            team.emit(Notice(member=member.name, text=f"{member.name} {cause}", level="warning"))
            await _part(team, Parting(member.name, life.incarnation, cause, message_id()))
            gone.append(member.name)
        team.coming_back.discard(member.name.lower())
        team.changed.set()
    gone += await _see_out_the_lost(team, [m.name.lower() for m in here])
    await return_late_mail(team)
    ended = tuple(f"{name} ({one.cause})" for name, one in file.ended.items() if name not in file.lives)
    return Resumed(tuple(back), tuple(gone), len(left.tasks), left.unread, repaired, ended)


def _arm_beyond(team: Team, names: list[str], deadlines: set[asyncio.Task[None]]) -> None:
    """Members that other programs put on the roster have their deadlines again."""
    for request in team.requests.open_requests():
        for name in (name for name in names if bound(request, name, 0)):
            arm(team, Asked(name, 0), str(request["id"]), deadlines)


async def _see_partings(team: Team, file: TeamFile) -> None:
    for name, parting in file.partings.items():
        life = file.lives.get(name)
        if life is not None and life.incarnation > parting.incarnation:
            # The name lives again already: only what the lead has to hear is left.
            await tell_of(team, parting, [*parting.tasks], again=True)
            await end_life(team, parting.name, parting.incarnation)
        else:
            if life is not None and life.incarnation == parting.incarnation:
                await _clear(team, parting.name, life)
            await see_off(team, parting, again=True)


def _is_ours(member: Member, file: TeamFile) -> bool:
    """Whether the member is one of ours: it lived in its lead's process, or has a life that we began."""
    return member.backend_type == IN_PROCESS or member.name.lower() in file.lives


def _agreed(team: Team, member: Member, life: Life) -> Parting | None:
    """A member that agreed to its shutdown, or was ended, just before the kill."""
    for request, answer in team.requests.answered():
        if bound(request, member.name, life.incarnation) and answer.get("approve") is True:
            cause = "shut down on request"
            agreed = str(request["id"]) if answer.get("by") != "system" and not life.command else ""
            return Parting(member.name, life.incarnation, cause, message_id(), agreed)
    return None


async def _clear(team: Team, name: str, life: Life) -> None:
    """Nothing of a member that is over runs on where it was started."""
    if team.elsewhere is None or life.place is None:
        return
    try:
        await team.elsewhere.clear(life)
    except TeamwrightError as problem:
        text = f"{name} has ended, and may still run where it was started: {problem.what}"
        team.emit(Notice(member=name, text=text, level="warning"))


async def _part(team: Team, parting: Parting) -> None:
    file = read_team_file(team.home.team_file(team.directory))
    life = file.lives.get(parting.name.lower()) if file is not None else None
    if life is not None:
        await _clear(team, parting.name, life)
    await change_team_file(team.home, team.directory, lambda file: file.leaving(parting))
    await see_off(team, parting)


async def _go_on(team: Team, member: Member, life: Life, deadlines: set[asyncio.Task[None]]) -> str | None:
    """Let the member live on. None, or why it cannot.

    Raises StorageError, LockTimeout for what may be well another time: that costs no member its place.
    """
    try:
        life = life if life.command else await _found(team, member, life)
        mate = await _started(team, member, life)
    except StorageError as problem:
        if problem.slug != "damaged-file":
            raise
        return problem.what
    except TeamwrightError as problem:
        return problem.what
    except TimeoutError:
        return "it was not ready in time"
    if mate.state not in GONE and not mate.external:
        await note_mode(team, mate)  # a mode that another program wrote does not hold
    elif life.mode is not None:
        said = life.mode or None
        await change_entry(team, member.name, lambda entry: replace(entry, mode=said))
    if life.crashed:
        await change_team_file(team.home, team.directory, lambda file: file.resumed(member.name, life))
    if isinstance(mate, Teammate) and mate.state not in GONE:
        await take_up_plan(team, mate)
    for request in team.requests.open_requests() if mate.state not in GONE else ():
        if bound(request, member.name, life.incarnation):
            mate.asked = str(request["id"])
            await send_request(team, mate.name, request, again=True)
            arm(team, Asked.of(mate), mate.asked, deadlines)
    return None


async def _found(team: Team, member: Member, life: Life) -> Life:
    """The life with its transcript where it lies now, or with its first prompt when it had not begun.

    Raises StorageError (`damaged-file`) when the transcript is gone: a member does not begin anew without a word.
    """
    path = Path(life.transcript)
    moved = team.home.ours.joinpath("projects", *path.parts[-4:])
    if path.parts[-4:-3] and not path.exists() and moved.exists():  # the home was moved, with all that is in it
        path, life = moved, replace(life, transcript=str(moved))
        await change_team_file(team.home, team.directory, lambda file: file.begun(member.name, life))
    if _begun(path):
        return life
    inbox = team.inbox(member.name)
    if not await inbox.has(life.first):
        await send_first(team, member, life)
    elif all(entry.msg_id != life.first for entry in await inbox.unread()):
        raise StorageError("damaged-file", f"its transcript is gone: {path}")
    return life


async def _started(team: Team, member: Member, life: Life) -> Mate:
    """The member at work again; with the lead's model when its own is not to be had any more."""
    try:
        async with AsyncExitStack() as undo:
            mate = await start_again(team, member, life, undo)
            undo.pop_all()
    except CannotStart as problem:
        if life.model is None or life.command:
            raise
        text = f"{member.name} continues with the lead's model: {problem.what}"
        team.emit(Notice(member=member.name, text=text, level="warning"))
        return await _started(team, member, replace(life, model=None))
    return mate


def _cut_off(life: Life) -> int:
    """How many calls of the member have no result."""
    with suppress(OSError, ValueError, KeyError, TypeError):  # then the member says what is wrong with its transcript
        return calls_without_result(Path(life.transcript))
    return 0


def _begun(transcript: Path) -> bool:
    """Whether the transcript has at least its first line; a kill may leave an empty file."""
    try:
        return read_header(transcript) is not None
    except StorageError:
        return True
    except OSError as problem:
        raise storage_error(problem, transcript) from problem


async def _see_out_the_lost(team: Team, names: list[str]) -> list[str]:
    """A life whose member is on the roster no more, though nobody saw it out: another program wrote it away.

    What it was made of is lost with its entry. Returns the names of those whose tasks went back.
    """
    file = read_team_file(team.home.team_file(team.directory))
    lost = {name: life for name, life in file.lives.items() if name not in names} if file is not None else {}
    for name, life in lost.items():
        cause = "could not be resumed: another program had taken it off the roster"
        await _part(team, Parting(name, life.incarnation, cause, message_id()))
    return list(lost)
