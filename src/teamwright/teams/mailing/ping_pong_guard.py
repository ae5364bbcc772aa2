"""The ping-pong guard: two members that only write to each other are stopped, and the lead is notified once.

Depends on the team and its inboxes. The delivery itself is left to `desk`: it asks which senders' mail waits.
"""

from __future__ import annotations

from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import Notice
from teamwright.protocol.ids import LEAD
from teamwright.teams.mailing.notes import leave_note
from teamwright.teams.team import Team


def talked(team: Team, sender: str, to: str) -> bool:
    """Count a message between two members; True when the guard stops the two from now on."""
    if LEAD in {sender, to} or sender == "user":
        # Another member acted: the two may talk again.
        for pair in [p for p in team.talk if to in p]:
            del team.talk[pair]
            for name in pair:
                team.ring(name)
        return False
    pair = frozenset({sender, to})
    team.talk[pair] = count = team.talk.get(pair, 0) + 1
    return count == team.settings.ping_pong


async def notify_lead(team: Team, one: str, other: str) -> None:
    """Notify the lead that the guard stopped two members. Emit an event when its mailbox takes no notice."""
    count = team.settings.ping_pong
    text = (
        f"{one} and {other} exchanged {count} messages and no task changed. Their further messages to each other are "
        "kept, and are delivered when you or the user write to one of them, when a task changes, or after a resume. "
        "Write to one of them what to do next, or leave them idle."
    )
    team.emit(Notice(member=one, text=text, level="warning"))
    try:
        await leave_note(team, "system", LEAD, text, f"{one} and {other} only write to each other")
    except TeamwrightError as problem:
        # The message of the member is in its recipient's inbox: its sender must not read that it failed.
        team.emit(Notice(member=LEAD, text=f"the lead was not notified of that: {problem.what}", level="warning"))


def held(team: Team, name: str, sender: str) -> bool:
    """Return True while mail of this sender does not wake the member."""
    return team.talk.get(frozenset({name, sender}), 0) > team.settings.ping_pong


def held_by(team: Team, name: str) -> list[str]:
    """Return the senders whose mail does not wake this member for now."""
    return [other for pair in team.talk if name in pair for other in pair - {name} if held(team, name, other)]


async def keeps_mail(team: Team) -> bool:
    """Return True when the guard keeps mail that its recipient has not read. Raises StorageError."""
    for name in {name for pair in team.talk for name in pair}:
        senders = {sender.lower() for sender in held_by(team, name)}
        if senders and any(entry.sender.lower() in senders for entry in await team.inbox(name).unread()):
            return True
    return False
