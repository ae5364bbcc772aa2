"""Return a message that a member never read to its sender, with a sentence: it is read, or its sender knows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from teamwright.agent.transcript import find_delivered_ids
from teamwright.protocol.events import MessageSent
from teamwright.protocol.ids import LEAD, iso_time, keyed_id
from teamwright.protocol.mail import InboxEntry, parse_protocol
from teamwright.teams.incoming_mail import RUNTIME_SENDERS
from teamwright.teams.outgoing_mail import default_summary

if TYPE_CHECKING:
    from teamwright.teams.team import SessionTeam

_RETURN_SUFFIX = " did not read a message"
"""The end of such a message's summary, after the name of the reader."""


def return_notice_id(msg_id: str) -> str:
    """Return the id of the return notice of a message, which is returned once."""
    return keyed_id("returned", msg_id)


async def return_mail(team: SessionTeam, name: str, transcript: Path | None) -> None:
    """Notify the senders of mail that this member did not read; the lead replaces senders that have ended."""
    inbox = team.mailbox(name)
    unread = [entry for entry in await inbox.unread() if entry.msg_id]
    delivered_ids = (
        find_delivered_ids(transcript, [f"mail:{entry.msg_id}" for entry in unread])
        if transcript is not None
        else set[str]()
    )
    letters = _returnable_entries(unread, delivered_ids)
    config = await team.roster.read() if letters else None
    for entry in letters:
        # A member on the roster lives or will be resumed: after a kill, senders may start after this notice.
        sender = config.find(entry.sender) if config is not None and not _is_return_notice(entry) else None
        await _notify_sender(team, name, entry, sender.name if sender is not None else LEAD)
    await inbox.mark_delivered([entry.msg_id for entry in unread if entry.msg_id])


async def return_late_mail(team: SessionTeam) -> None:
    """Return mail that arrived after its reader had ended, from senders that did not know this yet.

    Raises StorageError, LockTimeout.
    """
    file = await team.state.read()
    if file is None:
        return
    there = {member.name.lower() for member in (await team.roster.read()).members}
    there |= {name.lower() for name in team.starting}
    there |= {
        teammate.name.lower() for teammate in team.members.values() if not teammate.end_processed
    }  # its own end returns it
    for name in await team.stores.mailbox_names(team.directory):
        if name.lower() not in there and name.lower() in file.incarnations:
            await return_mail(team, name, None)


def _returnable_entries(unread: Sequence[InboxEntry], delivered: set[str]) -> list[InboxEntry]:
    """Return the texts that members wrote and no reader received, without messages between runtimes."""
    own = RUNTIME_SENDERS - {"user"}
    return [
        entry
        for entry in unread
        if f"mail:{entry.msg_id}" not in delivered
        and (_is_return_notice(entry) or (entry.sender not in own and parse_protocol(entry.text) is None))
    ]


def _is_return_notice(entry: InboxEntry) -> bool:
    """Return True for a notice of an unread message to a member that has ended: then the lead replaces that member."""
    return entry.sender == "system" and (entry.summary or "").endswith(_RETURN_SUFFIX)


async def _notify_sender(team: SessionTeam, name: str, entry: InboxEntry, to: str) -> None:
    id = return_notice_id(entry.msg_id or "")
    for recipient in {to, LEAD}:
        if await team.mailbox(recipient).contains(id):
            return
    about = entry.summary or default_summary(entry.text)
    whose = "your message" if entry.sender.lower() == to.lower() else f"a message of {entry.sender}"
    text = f'{name} has ended and did not read {whose}: "{about}". Send it to another member if it still matters.'
    if entry.sender.lower() != to.lower():
        text = f"{text}\n\n{entry.text}"  # only the sender has the text in its conversation
    if _is_return_notice(entry):
        text = f"{name} has ended and did not read this: {entry.text}"
    summary = f"{name}{_RETURN_SUFFIX}"
    await team.mailbox(to).put(InboxEntry("system", text, summary, iso_time(), msg_id=id), runtime=True)
    team.emit(MessageSent(member="system", to=to, message_id=id, summary=summary))
    team.wake(to)
