"""Notes of the runtime to a member or the lead: by mail, or in memory when the team has no files.

Depends on the team and its inboxes.
"""

from __future__ import annotations

import secrets

from teamwright.mail.message_size import fit_text
from teamwright.protocol.errors import StorageError
from teamwright.protocol.events import MessageSent
from teamwright.protocol.ids import LEAD, message_id
from teamwright.protocol.mail import RUNTIME_SENDERS, InboxEntry
from teamwright.protocol.runtime_tags import NO_KEY_TAGS, escape_tags
from teamwright.protocol.timestamps import iso_time
from teamwright.storage.atomic_write import write_atomic
from teamwright.teams.team import SessionTeam


async def send_note(team: SessionTeam, sender: str, to: str, text: str, summary: str, id: str = "") -> None:
    """Send a note to the live member of this name, or to the lead; a member that has ended receives none.

    A note with an `id` is sent once, also when a kill came after the send.

    Raises InboxFull, LockTimeout, StorageError.
    """
    if to != LEAD and team.find(to) is None:
        return
    if id and team.exists and await team.mailbox(to).contains(id):
        return
    id = id or message_id()
    if await put_entry(
        team, to, InboxEntry(sender=sender, text=text, summary=summary, timestamp=iso_time(), msg_id=id)
    ):
        file = team.mailbox(to).mark()
        team.emit(MessageSent(member=sender, to=to, message_id=id, summary=summary, file=file))
        team.wake(to)


async def put_entry(team: SessionTeam, to: str, entry: InboxEntry) -> bool:
    """Put an entry of the runtime into an inbox. False: the team has no files, so the note was passed on in memory.

    A text that is too long for a message is cut, and names the file that has all of it: so the runtime's own words
    never end an agent. A message does not recreate a team that another program removed. Raises as `Mailbox.put`.
    """
    if team.exists and team.roster.document.exists:
        text = fit_text(entry.text, lambda whole: _save(team, whole))
        await team.mailbox(to).put(entry.copy_with(text=text) if text != entry.text else entry, runtime=True)
        return True
    teammate = team.find(to)
    if teammate is not None:
        own = entry.sender in RUNTIME_SENDERS
        teammate.notify(escape_tags(entry.text) if own else NO_KEY_TAGS.entry(entry))
    elif to == LEAD and team.lead is not None:
        team.lead.queue_unread_mail([entry])
    team.changed.set()
    return False


def _save(team: SessionTeam, text: str) -> str:
    """Store a text that is too long for a message beside other long outputs. Return its path; empty on a full disk."""
    if team.output is None:
        return ""
    file = team.output / f"mail-{secrets.token_hex(4)}.output"
    try:
        write_atomic(file, text.encode("utf-8", "replace"))
    except StorageError:
        return ""
    return str(file)
