"""Returning: mail that a member never read goes back, in a sentence, to whoever wrote it.

A message is seen, or its sender is told. Knows the team and the ledger of the member that is over; does not know
why it ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from teamwright.agent.transcript import find_delivered_ids
from teamwright.protocol.clock import iso_time
from teamwright.protocol.events import MessageSent
from teamwright.protocol.ids import LEAD, keyed_id
from teamwright.protocol.mail import InboxEntry, parse_protocol
from teamwright.teams.mailbox.incoming import RUNTIME_SENDERS
from teamwright.teams.mailbox.outgoing import default_summary
from teamwright.teams.team import SessionTeam
from teamwright.teams.team_file import read_team_file

_RETURN_SUFFIX = " did not read a message"
"""What the summary of such a message ends with, after the name of the reader."""


def return_notice_id(msg_id: str) -> str:
    """The id of the message that says of another one that it was not read: a message goes back once."""
    return keyed_id("returned", msg_id)


async def return_mail(team: SessionTeam, name: str, transcript: Path | None) -> None:
    """Tell the senders of what this member did not read; to those that are gone themselves the lead stands in."""
    inbox = team.inbox(name)
    unread = [entry for entry in await inbox.unread() if entry.msg_id]
    held = (
        find_delivered_ids(transcript, [f"mail:{entry.msg_id}" for entry in unread])
        if transcript is not None
        else set[str]()
    )
    letters = _returnable_entries(unread, held)
    config = await team.roster.read() if letters else None
    for entry in letters:
        # Who is on the roster lives, or comes back: after a kill senders may be started later than this is told.
        sender = config.find(entry.sender) if config is not None and not _is_return_notice(entry) else None
        await _notify_sender(team, name, entry, sender.name if sender is not None else LEAD)
    await inbox.mark_read([entry.msg_id for entry in unread if entry.msg_id])


async def return_late_mail(team: SessionTeam) -> None:
    """The same for what came after its reader had ended: the sender had looked just before.

    Raises StorageError, LockTimeout.
    """
    file = read_team_file(team.home.team_file(team.directory))
    if file is None:
        return
    there = {member.name.lower() for member in (await team.roster.read()).members}
    there |= {name.lower() for name in team.starting}
    there |= {mate.name.lower() for mate in team.members.values() if not mate.end_processed}  # its own end returns it
    for path in sorted(team.home.inbox(team.directory, LEAD).parent.glob("*.json")):
        if path.stem.lower() not in there and path.stem.lower() in file.incarnations:
            await return_mail(team, path.stem, None)


def _returnable_entries(unread: Sequence[InboxEntry], delivered: set[str]) -> list[InboxEntry]:
    """What somebody wrote and nobody read: words, not what the runtimes tell each other."""
    own = RUNTIME_SENDERS - {"user"}
    return [
        entry
        for entry in unread
        if f"mail:{entry.msg_id}" not in delivered
        and (_is_return_notice(entry) or (entry.sender not in own and parse_protocol(entry.text) is None))
    ]


def _is_return_notice(entry: InboxEntry) -> bool:
    """Whether it says to somebody, who is over by now, that a message was not read: then the lead stands in."""
    return entry.sender == "system" and (entry.summary or "").endswith(_RETURN_SUFFIX)


async def _notify_sender(team: SessionTeam, name: str, entry: InboxEntry, to: str) -> None:
    id = return_notice_id(entry.msg_id or "")
    for told in {to, LEAD}:
        if await team.inbox(told).contains(id):
            return
    about = entry.summary or default_summary(entry.text)
    whose = "your message" if entry.sender.lower() == to.lower() else f"a message of {entry.sender}"
    text = f'{name} has ended and did not read {whose}: "{about}". Send it to another member if it still matters.'
    if entry.sender.lower() != to.lower():
        text = f"{text}\n\n{entry.text}"  # the sender has it in its conversation, anybody else has not
    if _is_return_notice(entry):
        text = f"{name} has ended and did not read this: {entry.text}"
    summary = f"{name}{_RETURN_SUFFIX}"
    await team.inbox(to).send(InboxEntry("system", text, summary, iso_time(), msg_id=id), runtime=True)
    team.emit(MessageSent(member="system", to=to, message_id=id, summary=summary))
    team.wake(to)
