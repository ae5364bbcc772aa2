"""A member that cannot begin: its lead, which is another program and sees no exit code, hears why by mail.

Knows files of the team alone: of the process itself little may stand.
"""

from __future__ import annotations

from contextlib import suppress

from teamwright.app.members.guest.finding import Found
from teamwright.mail.inbox import inbox_for
from teamwright.protocol.argv import MemberFlags
from teamwright.protocol.clock import iso
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.ids import LEAD, message_id
from teamwright.protocol.mail import Entry
from teamwright.teams.guest.dialect import Dialect
from teamwright.teams.roster import Roster


async def tell_failed(found: Found, flags: MemberFlags, problem: TeamwrightError) -> None:
    """Tell the lead, and take the own entry off: nobody lives behind it. Never raises."""
    dialect, home = Dialect(), found.home
    dialect.note_roster(found.config)
    path = home.inbox(found.directory, LEAD)
    text = f"{found.name} could not start: {problem.what}."
    entry = Entry(found.name, text, text[:60], iso(), flags.agent_color or None, message_id())
    with suppress(TeamwrightError):
        inbox = inbox_for(path, home.guard(path), home.inbox_archive(found.directory, LEAD))
        for letter in dialect.letters(entry):
            await inbox.send(letter, runtime=True)
    with suppress(TeamwrightError):
        await Roster(home, found.directory).change(lambda config: config.without(found.name))
