"""The ping-pong guard: two members that only write to each other are stopped, and the lead is notified once.

Depends on the team and its inboxes. The delivery itself is left to `incoming`: it asks which senders' mail waits.
"""

from __future__ import annotations

from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import Notice
from teamwright.protocol.ids import LEAD
from teamwright.teams.mailbox.runtime_notes import send_note
from teamwright.teams.team import SessionTeam


def count_message(team: SessionTeam, sender: str, to: str) -> bool:
    """Count a message between two members; True when the guard stops the two from now on."""
    if LEAD in {sender, to} or sender == "user":
        # Another member acted: the two may talk again.
        for pair in [p for p in team.message_counts if to in p]:
            del team.message_counts[pair]
            for name in pair:
                team.wake(name)
        return False
    pair = frozenset({sender, to})
    team.message_counts[pair] = count = team.message_counts.get(pair, 0) + 1
    return count == team.settings.ping_pong


async def notify_lead(team: SessionTeam, first: str, second: str) -> None:
    """Notify the lead that the guard stopped two members. Emit an event when its mailbox takes no notice."""
    count = team.settings.ping_pong
    text = (
        f"{first} and {second} exchanged {count} messages and no task changed. "
        "Their further messages to each other are "
        "kept, and are delivered when you or the user write to one of them, when a task changes, or after a resume. "
        "Write to one of them what to do next, or leave them idle."
    )
    team.emit(Notice(member=first, text=text, level="warning"))
    try:
        await send_note(team, "system", LEAD, text, f"{first} and {second} only write to each other")
    except TeamwrightError as problem:
        # The message of the member is in its recipient's inbox: its sender must not read that it failed.
        team.emit(Notice(member=LEAD, text=f"the lead was not notified of that: {problem.what}", level="warning"))


def is_held(team: SessionTeam, name: str, sender: str) -> bool:
    """Return True while mail of this sender does not wake the member."""
    if sender in team.held_senders:
        return True
    return team.message_counts.get(frozenset({name, sender}), 0) > team.settings.ping_pong


def held_senders(team: SessionTeam, name: str) -> list[str]:
    """Return the senders whose mail does not wake this member for now."""
    return [
        other for pair in team.message_counts if name in pair for other in pair - {name} if is_held(team, name, other)
    ]


async def has_held_mail(team: SessionTeam) -> bool:
    """Return True when the guard keeps mail that its recipient has not read. Raises StorageError."""
    for name in {name for pair in team.message_counts for name in pair}:
        senders = {sender.lower() for sender in held_senders(team, name)}
        if senders and any(entry.sender.lower() in senders for entry in await team.mailbox(name).unread()):
            return True
    return False
