"""`teamwright inbox NAME@TEAM`: the mail of a member, without marking it as read."""

from __future__ import annotations

import textwrap
from shlex import quote

import click

from teamwright.protocol.errors import UsageError
from teamwright.protocol.ids import LEAD, LEAD_ALIAS, parse_agent_id
from teamwright.protocol.unknown_names import MAX_LISTED
from teamwright.saved.saved_members import find_inbox
from teamwright.saved.teams import find_team_view
from teamwright.team_records.views import MailView, mail_views
from teamwright.ui.cli.output import WIDTH, format_iso, json_flag, say, say_json
from teamwright.ui.cli.run_location import open_home, run_location
from teamwright.ui.display_text import clean, cut, one_line
from teamwright.ui.protocol_text import message_words


@click.command()
@click.argument("address", metavar="NAME@TEAM")
@click.option("--unread", "only_unread", is_flag=True, help="Only unread messages.")
@json_flag
@click.pass_context
def inbox(ctx: click.Context, /, address: str, only_unread: bool, as_json: bool) -> int:
    """List the messages of a member, oldest first. `lead@TEAM` is the lead. Nothing is marked as read."""
    name, team = parse_agent_id(address)
    team = team if name else ""
    view = find_team_view(open_home(run_location(ctx), team or address), team or address, archived=True)
    if not team:
        names = [LEAD_ALIAS if member == LEAD else member for member in view.member_names]
        do = [f"teamwright inbox {quote(f'{member}@{view.name}')}" for member in names[:MAX_LISTED]]
        raise UsageError("usage", f"{address!r} is a team, and names no member", do=do)
    mail = [one for one in mail_views(find_inbox(view, name)) if not (only_unread and one.read)]
    if as_json:
        say_json(mail)
        return 0
    if not mail:
        say("No mail." if not only_unread else "No unread mail.")
    for one in mail:
        _show(one)
    return 0


def _show(mail: MailView) -> None:
    head = (format_iso(mail.timestamp), mail.sender, "" if mail.read else "unread", mail.kind)
    say(cut("  ".join(one_line(part) for part in head if part), WIDTH))
    for line in clean(message_words(mail.text)).splitlines():
        for part in textwrap.wrap(line, WIDTH - 4) or [""]:
            say(f"    {part}".rstrip())
    say()
