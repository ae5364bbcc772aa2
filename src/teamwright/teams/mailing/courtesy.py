"""Endless courtesy: two members that only thank each other. Counted, told to the lead once, and no longer woken by.

Ends as soon as somebody else acts. Knows who writes to whom; does not know what.
"""

from __future__ import annotations

from teamwright.protocol.clock import iso
from teamwright.protocol.events import Notice
from teamwright.protocol.ids import LEAD
from teamwright.protocol.mail import Entry
from teamwright.teams.team import Team


def talked(team: Team, sender: str, to: str) -> bool:
    """One wrote to the other; True when the two talk in a circle from now on."""
    if LEAD in {sender, to} or sender == "user":
        # Somebody else acted: the two may talk again.
        for pair in [p for p in team.talk if to in p]:
            del team.talk[pair]
            for name in pair:
                team.ring(name)
        return False
    pair = frozenset({sender, to})
    team.talk[pair] = count = team.talk.get(pair, 0) + 1
    return count == team.settings.ping_pong


async def tell_of_circle(team: Team, one: str, other: str) -> None:
    """Tell the lead, once, that two members only talk to each other. Raises InboxFull, LockTimeout, StorageError."""
    count = team.settings.ping_pong
    text = (
        f"{one} and {other} exchanged {count} messages and no task changed. Their mail to each other no longer wakes "
        "them, until somebody else writes to one of them or a task changes."
    )
    team.emit(Notice(member=one, text=text, level="warning"))
    entry = Entry(sender="system", text=text, summary=f"{one} and {other} talk in a circle", timestamp=iso())
    await team.inbox(LEAD).send(entry, runtime=True)
    team.ring(LEAD)


def held(team: Team, name: str, sender: str) -> bool:
    """Whether mail between the two does not wake for now."""
    return team.talk.get(frozenset({name, sender}), 0) > team.settings.ping_pong


def held_by(team: Team, name: str) -> list[str]:
    """Whose mail does not wake this member for now."""
    return [other for pair in team.talk if name in pair for other in pair - {name} if held(team, name, other)]
