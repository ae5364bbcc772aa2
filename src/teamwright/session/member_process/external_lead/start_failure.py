"""A member that cannot begin: its lead, which is another program and sees no exit code, hears why by mail.

Knows files of the team alone: of the process itself little may stand.
"""

from __future__ import annotations

from contextlib import suppress

from teamwright.mail.inbox import inbox_for
from teamwright.protocol.clock import iso_time
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.ids import LEAD, message_id
from teamwright.protocol.mail import InboxEntry
from teamwright.protocol.member_flags import MemberFlags
from teamwright.session.member_process.external_lead.team_search import ExternalTeam
from teamwright.teams.external.external_inbox import ExternalMailFormat
from teamwright.teams.roster import Roster


async def report_start_failure(found: ExternalTeam, flags: MemberFlags, problem: TeamwrightError) -> None:
    """Tell the lead, and take the own entry off: nobody lives behind it. Never raises."""
    dialect, home = ExternalMailFormat(), found.home
    dialect.note_roster(found.config)
    path = home.inbox(found.directory, LEAD)
    text = f"{found.name} could not start: {problem.what}."
    entry = InboxEntry(found.name, text, text[:60], iso_time(), flags.agent_color or None, message_id())
    with suppress(TeamwrightError):
        inbox = inbox_for(path, home.guard(path), home.inbox_archive(found.directory, LEAD))
        for letter in dialect.encode_entries(entry):
            await inbox.send(letter, runtime=True)
    with suppress(TeamwrightError):
        await Roster(home, found.directory).change(lambda config: config.without_member(found.name))
