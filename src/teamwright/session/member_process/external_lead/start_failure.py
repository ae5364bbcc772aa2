"""The report of a failed start to an external lead, by mail, because that lead sees no exit code.

Depends only on files of the team, because the process may be incomplete.
"""

from __future__ import annotations

from contextlib import suppress

from teamwright.protocol.clock import iso_time
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.ids import LEAD, message_id
from teamwright.protocol.mail import InboxEntry
from teamwright.protocol.member_flags import MemberFlags
from teamwright.session.member_process.external_lead.team_search import ExternalTeam
from teamwright.teams.external.external_inbox import ExternalMailFormat
from teamwright.teams.file_stores import FileStores


async def report_start_failure(found: ExternalTeam, flags: MemberFlags, problem: TeamwrightError) -> None:
    """Notify the lead, and remove the roster entry without a process. Never raises."""
    dialect, home = ExternalMailFormat(), found.home
    dialect.note_roster(found.config)
    text = f"{found.name} could not start: {problem.what}."
    entry = InboxEntry(found.name, text, text[:60], iso_time(), flags.agent_color or None, message_id())
    with suppress(TeamwrightError):
        inbox = FileStores(home).mailbox(found.directory, LEAD)
        for letter in dialect.encode_entries(entry):
            await inbox.put(letter, runtime=True)
    with suppress(TeamwrightError):
        await FileStores(home).roster(found.directory).change(lambda config: config.without_member(found.name))
