"""The search for the team that the flags of a member process mean: state root, team and session.

The flags name no root. It is `TEAMWRIGHT_HOME`, else the first of Teamwright's root and the other product's that has
the team. Reads names and rosters; creates only the home's own directories.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from teamwright.permissions.verdict import Mode
from teamwright.protocol.errors import CannotStart, InvalidName, StorageError, TeamwrightError, UsageError
from teamwright.protocol.ids import SessionId, keyed_id, member_name, parse_agent_id, session_id, team_dir, team_name
from teamwright.protocol.member_flags import MemberFlags
from teamwright.protocol.roster import TeamConfig
from teamwright.session.platform_check import require_platform
from teamwright.storage.paths import FOREIGN_ROOT, Home, find_home
from teamwright.team_records.file_stores import FileStores
from teamwright.team_records.roster import Roster

ROOT_VARIABLE = "CLAUDE_CONFIG_DIR"
"""The variable with the other product's root, which is `~/.claude` by default."""

WHOLE_S = 10.0
"""Seconds to wait for a roster that is being written."""

_NOTHING = "nothing was started"
_IGNORED = {
    "--lead-verify-key": "--lead-verify-key is not used: how the lead signs its messages is not known, so lead_sig is "
    "kept and not verified",
}
_MODES = frozenset({Mode.DEFAULT, Mode.ACCEPT_EDITS, Mode.DONT_ASK, Mode.BYPASS, Mode.PLAN})


class ExternalTeam(Struct, frozen=True):
    """The team of the member with these flags, in the directory `directory` of this home."""

    home: Home
    directory: str
    config: TeamConfig
    session: SessionId
    name: str
    mode: Mode | None
    plans: bool
    warnings: tuple[str, ...] = ()


async def find_external_team(flags: MemberFlags, env: Mapping[str, str]) -> ExternalTeam:
    """Find the team of this member. Raises TeamwrightError (`unknown-team`), UsageError for flags of no member."""
    require_platform()
    name, team = member_name(flags.agent_name), team_name(flags.team_name)
    if parse_agent_id(flags.agent_id)[0] != name:
        raise UsageError("usage", f"--agent-id {flags.agent_id[:80]} is not {name}'s", note=_NOTHING)
    home, directory = _root(team, env)
    home.prepare()
    config = await _complete_roster(Roster(FileStores(home).roster(directory)))
    _require_stranger(home, directory, name)
    mode, warnings = _mode(flags)
    warnings += tuple(_IGNORED.get(flag, f"the flag {flag} is not known here and is ignored") for flag in flags.ignored)
    session = _session(flags, config, directory)
    plans = flags.plan_mode_required or mode is Mode.PLAN
    return ExternalTeam(home, directory, config, session, name, None if mode is Mode.PLAN else mode, plans, warnings)


async def find_team_of_failed_start(flags: MemberFlags, env: Mapping[str, str]) -> ExternalTeam:
    """Find the team of a failed start, for the report to its lead. Raises TeamwrightError."""
    home, directory = _root(team_name(flags.team_name), env)
    config = await _complete_roster(Roster(FileStores(home).roster(directory)))
    session = _session(flags, config, directory)
    return ExternalTeam(home, directory, config, session, member_name(flags.agent_name), None, False)


def _root(team: str, env: Mapping[str, str]) -> tuple[Home, str]:
    own_root = env.get("TEAMWRIGHT_HOME")
    theirs = env.get(ROOT_VARIABLE) or f"~/{FOREIGN_ROOT}"
    roots = [find_home(own_root)] if own_root else [find_home("~/.teamwright"), find_home(theirs)]
    directory = team_dir(team)
    for home in roots:
        if home.team(directory).is_dir():
            if not own_root and home.shared == find_home(theirs).shared and not home.is_foreign:
                raise _unnamed(home.shared)
            return home, directory
    raise TeamwrightError(
        "unknown-team",
        f"there is no team {team}",
        looked_at=[("looked in", str(home.shared / "teams" / directory)) for home in roots],
        do=["set TEAMWRIGHT_HOME to the state root of the team's lead", "have the lead make the team first"],
        note=_NOTHING,
    )


def _unnamed(root: Path) -> TeamwrightError:
    return TeamwrightError(
        "unknown-team",
        f"the root of another program is known by its name, {FOREIGN_ROOT}, and {root} has another",
        looked_at=[("variable", ROOT_VARIABLE)],
        do=[f"name it by a link: ln -s {root} DIR/{FOREIGN_ROOT}; export TEAMWRIGHT_HOME=DIR/{FOREIGN_ROOT}"],
        note=_NOTHING,
    )


async def _complete_roster(roster: Roster) -> TeamConfig:
    """Return the roster, once it is completely written. Raises StorageError, TeamwrightError (`unknown-team`)."""
    deadline = asyncio.get_running_loop().time() + WHOLE_S
    while True:
        try:
            return await roster.read()
        except StorageError as problem:
            if problem.slug != "damaged-file" or asyncio.get_running_loop().time() >= deadline:
                raise


def _require_stranger(home: Home, directory: str, name: str) -> None:
    """Refuse a member that Teamwright's own lead started, which has a spawn file."""
    file = FileStores(home).read_state(directory)
    if file is not None and name.lower() in file.incarnation_records:
        raise CannotStart(
            "backend",
            f"{name} is a member that Teamwright itself leads, and its process is started by that lead",
            looked_at=[("team", str(home.team(directory)))],
            note=_NOTHING,
        )


def _session(flags: MemberFlags, config: TeamConfig, directory: str) -> SessionId:
    """Return the lead's session; without one in flags and roster, an id that the team always has."""
    for candidate in (flags.parent_session_id, config.lead_session_id):
        try:
            return session_id(candidate)
        except InvalidName:
            continue
    return SessionId(keyed_id("guest", directory, config.created_at))


def _mode(flags: MemberFlags) -> tuple[Mode | None, tuple[str, ...]]:
    """Return the mode that the flags name; an unknown one becomes the default."""
    if flags.dangerously_skip_permissions:
        return Mode.BYPASS, ()
    if not flags.permission_mode:
        return None, ()
    found = next((mode for mode in _MODES if mode == flags.permission_mode), None)
    if found is not None:
        return found, ()
    return Mode.DEFAULT, (f"the mode {flags.permission_mode[:40]} is not known here: {Mode.DEFAULT} holds",)


def working_directory() -> Path:
    """Return the working directory, as a real path. Raises CannotStart when it was deleted."""
    try:
        return Path(os.path.realpath(os.getcwd()))
    except OSError as problem:
        raise CannotStart("unknown-session", f"the working directory is gone: {problem}", note=_NOTHING) from None
