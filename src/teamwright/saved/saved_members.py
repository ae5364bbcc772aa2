"""Lookup of members of saved teams by name, from files alone.

Depends on the views of teams on disk.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from teamwright.protocol.errors import UnknownMember
from teamwright.protocol.ids import (
    LEAD,
    LEAD_ALIAS,
    MAX_LISTED,
    display_name,
    inbox_stem,
    known_name,
    parse_recipient,
    unknown_member,
)
from teamwright.protocol.members import RosterMember, TeamConfig, parse_config
from teamwright.saved.teams import find_team_view
from teamwright.storage.paths import Home
from teamwright.team_records.snapshots import TeamView, team_views


def find_saved_member(home: Home, text: str) -> tuple[TeamConfig, RosterMember]:
    """Return the team's roster and the member: `NAME@TEAM`, or a name that only one team has.

    Raises UnknownMember with the known members, and for a name that several teams have.
    """
    name, _, team = text.partition("@")
    views = [find_team_view(home, team)] if team else team_views(home)
    matches: list[tuple[TeamConfig, RosterMember]] = []
    known: list[str] = []
    for view in views:
        config = parse_config((view.path / "config.json").read_bytes()) if not view.damaged else None
        for member in config.members if config is not None else ():
            known.append(f"{member.name}@{view.name}")
            if config is not None and member.name.lower() == parse_recipient(name, None).lower():
                matches.append((config, member))
    if len(matches) == 1:
        return matches[0]
    if not matches:
        where = f"team {views[0].name}" if team else "any team on disk"
        raise unknown_member(text, known[:MAX_LISTED], where, note="nothing was run")
    raise UnknownMember(
        "unknown-member",
        f"{len(matches)} teams have a member '{name[:60]}'",
        looked_at=[("members", ", ".join(f"{member.name}@{config.name}" for config, member in matches[:MAX_LISTED]))],
        do=[f"--member {name[:60]}@TEAM"],
        note="nothing was run",
    )


def match_member_name(text: str, names: Sequence[str], where: str) -> str:
    """Return the one of these shown names that the text means, in any case. Raises UnknownMember with the nearest."""
    lower_name = known_name(text, None, names, where, "nothing was changed").lower()
    lower_name = display_name(lower_name)
    found = next((name for name in names if name.lower() == lower_name), None)
    if found is None:
        raise unknown_member(text, names, where, note="nothing was changed")
    return found


def find_inbox(team: TeamView, name: str) -> Path:
    """Return the inbox of a member, or of a name that has left one. Raises UnknownMember naming the nearest."""
    lower_name = LEAD_ALIAS if name.lower() == LEAD else name.lower()
    member = next((known for known in team.member_names if known.lower() == lower_name), None)
    stem = inbox_stem(LEAD if member == LEAD_ALIAS else member or name)
    path = team.path / "inboxes" / f"{stem}.json"
    if member is None and not os.path.exists(path):
        raise unknown_member(name, team.member_names, f"team {team.name}", note="nothing was read")
    return path


def transcripts_of(session: Path, agent: str) -> list[Path]:
    """Return the paths of an agent's transcripts in a session's directory, the oldest incarnation first.

    `agent` is a member's name or a sub-agent's id. The files may not exist.
    """
    if agent == LEAD:
        return [session.with_suffix(".jsonl")]
    stem = inbox_stem(agent)
    later = sorted((session / "agents").glob(f"{stem}-*.jsonl"))
    return [session / "agents" / f"{stem}.jsonl", *later]
