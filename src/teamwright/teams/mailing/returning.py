"""Returning: mail that a member never read goes back, in a sentence, to whoever wrote it.

A message is seen, or its sender is told. Knows the team and the ledger of the member that is over; does not know
why it ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from teamwright.agent.transcript import ids_held
from teamwright.protocol.clock import iso
from teamwright.protocol.events import MessageSent
from teamwright.protocol.ids import LEAD, keyed_id
from teamwright.protocol.mail import Entry, parse_protocol
from teamwright.teams.mailing.desk import RUNTIME_SENDERS
from teamwright.teams.mailing.post import summary_of
from teamwright.teams.team import Team
from teamwright.teams.team_file import read_team_file

_RETURNED = " did not read a message"
"""What the summary of such a message ends with, after the name of the reader."""


def returned_id(msg_id: str) -> str:
    """The id of the message that says of another one that it was not read: a message goes back once."""
    return keyed_id("returned", msg_id)


async def return_mail(team: Team, name: str, transcript: Path | None) -> None:
    """Tell the senders of what this member did not read; to those that are gone themselves the lead stands in."""
    inbox = team.inbox(name)
    unread = [entry for entry in await inbox.unread() if entry.msg_id]
    held = ids_held(transcript, [f"mail:{entry.msg_id}" for entry in unread]) if transcript is not None else set[str]()
    letters = _letters(unread, held)
    config = await team.roster.read() if letters else None
    for entry in letters:
        # Who is on the roster lives, or comes back: after a kill senders may be started later than this is told.
        sender = config.find(entry.sender) if config is not None and not _is_return(entry) else None
        await _tell(team, name, entry, sender.name if sender is not None else LEAD)
    await inbox.mark_read([entry.msg_id for entry in unread if entry.msg_id])


async def return_late_mail(team: Team) -> None:
    """The same for what came after its reader had ended: the sender had looked just before.

    Raises StorageError, LockTimeout.
    """
    file = read_team_file(team.home.team_file(team.directory))
    if file is None:
        return
    there = {member.name.lower() for member in (await team.roster.read()).members}
    there |= {name.lower() for name in team.starting}
    there |= {mate.name.lower() for mate in team.members.values() if not mate.parted}  # its own end returns it
    for path in sorted(team.home.inbox(team.directory, LEAD).parent.glob("*.json")):
        if path.stem.lower() not in there and path.stem.lower() in file.incarnations:
            await return_mail(team, path.stem, None)


def _letters(unread: Sequence[Entry], held: set[str]) -> list[Entry]:
    """What somebody wrote and nobody read: words, not what the runtimes tell each other."""
    own = RUNTIME_SENDERS - {"user"}
    return [
        entry
        for entry in unread
        if f"mail:{entry.msg_id}" not in held
        and (_is_return(entry) or (entry.sender not in own and parse_protocol(entry.text) is None))
    ]


def _is_return(entry: Entry) -> bool:
    """Whether it says to somebody, who is over by now, that a message was not read: then the lead stands in."""
    return entry.sender == "system" and (entry.summary or "").endswith(_RETURNED)


async def _tell(team: Team, name: str, entry: Entry, to: str) -> None:
    id = returned_id(entry.msg_id or "")
    for told in {to, LEAD}:
        if await team.inbox(told).has(id):
            return
    about = entry.summary or summary_of(entry.text)
    whose = "your message" if entry.sender.lower() == to.lower() else f"a message of {entry.sender}"
    text = f'{name} has ended and did not read {whose}: "{about}". Send it to another member if it still matters.'
    if entry.sender.lower() != to.lower():
        text = f"{text}\n\n{entry.text}"  # the sender has it in its conversation, anybody else has not
    if _is_return(entry):
        text = f"{name} has ended and did not read this: {entry.text}"
    summary = f"{name}{_RETURNED}"
    await team.inbox(to).send(Entry("system", text, summary, iso(), msg_id=id), runtime=True)
    team.emit(MessageSent(member="system", to=to, message_id=id, summary=summary))
    team.ring(to)
