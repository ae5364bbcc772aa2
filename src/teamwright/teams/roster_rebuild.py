"""The roster of a team whose config.json is damaged: rebuilt from team.json, the transcripts and the inboxes.

Depends on these files alone. Leaves the decision and the write to the roster and to the recovery of a team.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from teamwright.agent.transcript import read_header
from teamwright.mail.inbox import read_entries
from teamwright.protocol.clock import parse_iso_ms
from teamwright.protocol.errors import StorageError
from teamwright.protocol.ids import LEAD, agent_id
from teamwright.protocol.mail import InboxEntry, parse_entry
from teamwright.protocol.roster import RosterMember, TeamConfig, parse_config, parse_member
from teamwright.storage.jsonl import read_lines
from teamwright.storage.paths import Home
from teamwright.teams.incarnation import Incarnation
from teamwright.teams.team_file import TeamFile

IN_PROCESS = "in-process"


def rebuilt_roster(home: Home, directory: str, file: TeamFile) -> TeamConfig:
    """Return the roster of the team in `directory`, rebuilt from its team.json, the transcripts and the inboxes."""
    headers = {key: read_transcript_header(Path(one.transcript)) for key, one in file.incarnation_records.items()}
    name = _team_name(file, headers) or directory
    made = parse_config(json.dumps(_facts_of_team(file, name)).encode())
    others = [member for member in made.teammates if member.name.lower() not in file.incarnation_records]
    ours = [
        _rebuild_entry(home, directory, key, one, headers[key], name) for key, one in file.incarnation_records.items()
    ]
    entries = sorted([*ours, *others], key=lambda member: member.joined_at)
    return replace(made, members=(*(member for member in made.members if member.is_lead), *entries))


def _facts_of_team(file: TeamFile, name: str) -> dict[str, Any]:
    """Return the roster without our members: the recorded facts, else those of the lead's transcript."""
    lead = read_transcript_header(Path(file.lead.lease).parent.with_suffix(".jsonl"))
    began = parse_iso_ms(str(lead.get("at", ""))) or 0
    entry: dict[str, Any] = {
        "agentId": agent_id(LEAD, name),
        "name": LEAD,
        "agentType": LEAD,
        "model": str(lead.get("model", "")),
        "joinedAt": began,
        "tmuxPaneId": "",
        "cwd": str(lead.get("cwd", "")),
        "subscriptions": [],
    }
    facts: dict[str, Any] = {"name": name, "createdAt": began, "leadAgentId": agent_id(LEAD, name), "members": [entry]}
    return {**facts, **file.roster, "leadSessionId": file.lead.session}


def _team_name(file: TeamFile, headers: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the team's name: the recorded one, else that of the members' ids; empty when neither is known."""
    if isinstance(name := file.roster.get("name"), str):
        return name
    ids = (str(header.get("agent_id", "")) for header in headers.values())
    return next((team for id in ids if (team := id.partition("@")[2])), "")


def _rebuild_entry(
    home: Home, directory: str, key: str, incarnation: Incarnation, header: Mapping[str, Any], team: str
) -> RosterMember:
    name = str(incarnation.entry.get("name") or header.get("member") or key)
    place = incarnation.place or {}
    made = parse_member(
        {
            "agentId": agent_id(name, team),
            "name": name,
            "model": str(header.get("model", "")),
            "planModeRequired": False,
            "joinedAt": parse_iso_ms(str(header.get("at", ""))) or 0,
            "cwd": str(header.get("cwd", "")),
            "tmuxPaneId": str(place.get("id", IN_PROCESS)),
            "backendType": str(place.get("kind", IN_PROCESS)),
            **incarnation.entry,
        }
    )
    first = (entry.text for entry in all_mail(home, directory, name) if entry.msg_id == incarnation.first)
    return replace(made, prompt=next(first, ""), mode=incarnation.mode or None)


def read_transcript_header(transcript: Path) -> Mapping[str, Any]:
    """Return the first line of a transcript; empty when it is missing or damaged."""
    with suppress(StorageError, OSError):
        return read_header(transcript) or {}
    return {}


def all_mail(home: Home, directory: str, name: str) -> Iterator[InboxEntry]:
    """Return the entries of a member's inbox and of its archive; unreadable ones are left out."""
    with suppress(StorageError, OSError):
        yield from read_entries(home.inbox(directory, name))
    with suppress(StorageError, OSError, ValueError, TypeError, AttributeError):
        for line in read_lines(home.inbox_archive(directory, name)):
            yield parse_entry(json.loads(line))
