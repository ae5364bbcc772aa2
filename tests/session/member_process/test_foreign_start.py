"""A start by a lead of another program: flags that are not known here, and a start that fails."""

import json
import os
import time
from contextlib import AsyncExitStack

import pytest

from teamwright.member_process.external_membership import find_external_team
from teamwright.member_process.join_external import join_external_team
from teamwright.protocol.errors import UsageError
from teamwright.protocol.mail import InboxEntry, parse_entry
from teamwright.protocol.member_flags import MemberFlags, parse_argv
from teamwright.protocol.members import RosterMember
from teamwright.storage.paths import Home, find_home
from teamwright.team_records.roster import Roster, RosterFile
from teamwright.team_records.team_catalogue import NewTeam, Teams
from teamwright.team_records.team_state import LeadLease

ARGV = ["--agent-id", "bob@crew", "--lead-verify-key", "1795.MCow", "--agent-name", "bob", "--brand-new", "--team-name"]
SESSION = "50101e6d-0000-4000-8000-000000000000"


@pytest.fixture
async def home(own_home) -> Home:
    """A home with another program's team, on whose roster bob is."""
    made = find_home()
    lead = LeadLease(SESSION, os.getpid(), "/nowhere/lease")
    await Teams(made).create(NewTeam("crew", lead, "/repo", "m", int(time.time() * 1000)))
    made.team_file("crew").unlink()
    await Roster(RosterFile(made, "crew")).add(
        RosterMember("bob@crew", "bob", model="haiku", joined_at=1, backend_type="tmux")
    )
    return made


@pytest.mark.finding("N1")
@pytest.mark.promise("E8")
async def test_flags_of_a_newer_lead_are_ignored_with_a_notice_and_ours_stay_strict(home):
    flags = parse_argv([*ARGV, "crew", "--agent-color=red"], foreign=True)
    assert (flags.agent_id, flags.team_name, flags.agent_color) == ("bob@crew", "crew", "red")
    assert flags.ignored == ("--lead-verify-key", "--brand-new")
    found = await find_external_team(flags, {"TEAMWRIGHT_HOME": str(home.shared)})
    assert ["not verified" in found.warnings[0], "--brand-new is not known" in found.warnings[1]] == [True, True]
    with pytest.raises(UsageError, match="--lead-verify-key"):
        parse_argv([*ARGV, "crew"])


@pytest.mark.finding("N1")
@pytest.mark.promise("E8")
async def test_a_start_that_fails_before_the_member_is_found_is_told_to_the_lead_and_frees_the_name(home):
    async with AsyncExitStack() as stack:
        with pytest.raises(UsageError):
            await join_external_team(
                MemberFlags("zed@crew", "bob", "crew"), {"TEAMWRIGHT_HOME": str(home.shared)}, stack
            )
    [entry] = json.loads(home.inbox("crew", "team-lead").read_bytes())
    assert entry["from"] == "bob" and "bob could not start: --agent-id zed@crew is not bob's" in entry["text"]
    assert (await Roster(RosterFile(home, "crew")).read()).find("bob") is None


@pytest.mark.finding("N1")
def test_the_signature_of_a_lead_is_kept_with_its_message():
    raw = {"from": "team-lead", "text": "x", "timestamp": "t", "read": False, "lead_sig": "abc"}
    entry = parse_entry(raw)
    assert isinstance(entry, InboxEntry) and entry.extra["lead_sig"] == "abc"
