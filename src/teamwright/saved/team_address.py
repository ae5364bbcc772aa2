"""Lookup by an address of the command line: a team on disk, its lead's process, one of its members.

Reads without locks. Depends on rosters, team files, leases and logs.
"""

from __future__ import annotations

import shlex
from itertools import islice
from pathlib import Path

from msgspec import Struct

from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import MemberChanged
from teamwright.protocol.ids import LEAD, parse_agent_id
from teamwright.protocol.roster import RosterMember, TeamConfig
from teamwright.protocol.unknown_names import ended_member, known_name, unknown_member
from teamwright.saved.saved_team_access import LeadProcessWatch, SavedTeamAccess
from teamwright.saved.teams import SavedTeam, all_teams, find_saved_team
from teamwright.storage.event_log_reader import parse_event
from teamwright.storage.jsonl import read_backward
from teamwright.storage.paths import Home
from teamwright.team_records.team_state_file import TeamFile, is_lead_alive

MOST_LINES = 20_000
"""Maximum lines of a log that are read backward for a member's state."""


class TeamAddress(Struct, frozen=True):
    """A saved team. `file` is None for another product's team."""

    access: SavedTeamAccess
    directory: str
    config: TeamConfig
    file: TeamFile | None

    @property
    def home(self) -> Home:
        """The home with the team's files; of a database, a private copy of them."""
        return self.access.home

    @property
    def name(self) -> str:
        """The team's name."""
        return self.config.name

    @property
    def member_names(self) -> list[str]:
        """The names of the members on the roster, the lead first."""
        return [one.name for one in self.config.members]

    @property
    def names(self) -> tuple[str, ...]:
        """The texts that may follow the `@` of a member's id in this team."""
        return self.name, self.directory

    @property
    def resume_command(self) -> str:
        """The command that resumes the team."""
        return f"teamwright resume {shlex.quote(self.name)}"

    @property
    def remove_command(self) -> str:
        """The command that removes the team."""
        return f"teamwright teams rm {shlex.quote(self.name)}"

    def is_led(self) -> bool:
        """Return True when a Teamwright process leads it now."""
        return self.file is not None and is_lead_alive(self.file.lead)

    def lead(self) -> LeadProcessWatch | None:
        """Return a watch on the process that leads it, which the caller closes; None without one, or when it is
        uncertain.
        """
        return self.access.watch_lead(self.file) if self.file is not None else None

    def member(self, name: str) -> RosterMember:
        """Return the member of that name, `lead` for the lead. Raises UnknownMember, also for an ended member."""
        recipient = known_name(name, self.names, self.member_names, f"team {self.name}")
        member = self.config.find(recipient)
        if member is not None:
            return member
        if self.has_ended(recipient):
            do = ["write to a present member: the lead can start another one"]
            raise ended_member(recipient, self.member_names, do=do)
        raise unknown_member(recipient, self.member_names, f"team {self.name}")

    def has_ended(self, name: str) -> bool:
        """Return True when a member of that name was in the team and has ended."""
        known = self.file is not None and name.lower() in self.file.incarnations
        return known and self.config.find(name) is None

    def state(self, name: str) -> str:
        """Return the member's state from the log: a state of the lifecycle, or empty when the log has none."""
        if self.file is None or not self.file.log:
            return ""
        mark = f'"member":"{name}"'.encode()
        for line in islice(read_backward(Path(self.file.log)), MOST_LINES):
            if b'"member_changed"' in line[:80] and mark in line[:200]:
                event = parse_event(line)
                if isinstance(event, MemberChanged) and event.member == name:
                    return event.state
        return ""


def find_address(access: SavedTeamAccess, address: str) -> tuple[TeamAddress, str]:
    """Return the team and the member's name in `NAME@TEAM`; an empty name when the address is only a team's.

    A team's name may contain an `@`, so the whole address is tried as a team first. Raises as `find_saved_team`, and
    StorageError for a team that cannot be read.
    """
    name, team = parse_agent_id(address)
    if name and team and all(one.name != address for one in all_teams(access.home)):
        return _address(access, find_saved_team(access.home, team)), name
    return _address(access, find_saved_team(access.home, address)), ""


def _address(access: SavedTeamAccess, team: SavedTeam) -> TeamAddress:
    config = team.config
    if config is None or (team.damaged and team.may_be_own):
        config = team.require_own()
    return TeamAddress(access, team.directory, config, team.file)


def runs_with_lead(target: TeamAddress, member: RosterMember) -> bool:
    """Return True when the lead's process runs or started the member. The lead of Teamwright's own team counts too."""
    begun = target.file is not None and member.name.lower() in target.file.incarnation_records
    return member.name == LEAD or member.backend_type == "in-process" or begun


def external_error(target: TeamAddress, what: str) -> TeamwrightError:
    """Return the error for a team, or a member, that another product runs."""
    return TeamwrightError(
        "team-refused",
        f"{what} is run by another program",
        looked_at=[("team", str(target.home.team(target.directory)))],
        do=["end it where it runs"],
        note="nothing was done",
    )
