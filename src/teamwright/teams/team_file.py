"""team.json: what of a team is only ours.

Its uuid, who leads it and by which lease, how many lives each name has had, where the event log lies. Below it:
`storage`. Format: JSON, `version` 1; an older version is always readable, keys of a newer one are kept.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from teamwright.protocol.errors import StorageError
from teamwright.storage.atomic import storage_error, write_atomic
from teamwright.storage.lease import lease_held
from teamwright.storage.lock import lock_for
from teamwright.storage.paths import Home

VERSION = 1

_KEYS = ("version", "uuid", "lead", "incarnations", "log")


@dataclass(frozen=True, slots=True)
class LeadLease:
    """Who leads: the session, the process, and the lease file that it holds for life (empty: none yet)."""

    session: str
    pid: int
    lease: str = ""


@dataclass(frozen=True, slots=True)
class TeamFile:
    """The whole file. `incarnations`: how many lives a member of this name (in lower case) has begun."""

    uuid: str
    lead: LeadLease
    incarnations: Mapping[str, int] = field(default_factory=dict[str, int])
    log: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @classmethod
    def new(cls, lead: LeadLease, log: str = "") -> TeamFile:
        """The file of a team that begins now."""
        return cls(str(uuid.uuid4()), lead, log=log)

    def next_life(self, name: str) -> tuple[TeamFile, int]:
        """With one more life of that name; and its number, from 1."""
        life = self.incarnations.get(name.lower(), 0) + 1
        return replace(self, incarnations={**self.incarnations, name.lower(): life}), life

    def encode(self) -> bytes:
        """The file's bytes: 2-space JSON."""
        data = {
            "version": VERSION,
            "uuid": self.uuid,
            "lead": {"session": self.lead.session, "pid": self.lead.pid, "lease": self.lead.lease},
            "incarnations": dict(self.incarnations),
            "log": self.log,
        }
        return json.dumps(data | dict(self.extra), indent=2, ensure_ascii=False).encode()


def lead_lives(lead: LeadLease) -> bool:
    """Whether that lead is there: its lease is held; of one without a lease, its process exists."""
    if lead.lease:
        return lease_held(Path(lead.lease))
    if lead.pid <= 0:
        return False
    try:
        os.kill(lead.pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # it is another user's
    return True


def parse_team_file(raw: bytes) -> TeamFile:
    """The file in these bytes. Raises StorageError (`damaged-file`)."""
    try:
        data = cast("dict[str, Any]", json.loads(raw))
        lead = data["lead"]
        return TeamFile(
            uuid=str(data["uuid"]),
            lead=LeadLease(str(lead["session"]), int(lead["pid"]), str(lead.get("lease", ""))),
            incarnations={str(name): int(life) for name, life in data.get("incarnations", {}).items()},
            log=str(data.get("log", "")),
            extra={key: value for key, value in data.items() if key not in _KEYS},
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise StorageError("damaged-file", f"team.json is not ours: {problem}") from problem


def read_team_file(path: Path) -> TeamFile | None:
    """The file there, None when there is none: then the team is another product's. Raises StorageError."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise storage_error(problem, path) from problem
    return parse_team_file(raw)


async def change_team_file(home: Home, directory: str, change: Callable[[TeamFile], TeamFile]) -> TeamFile:
    """Change the file under its lock. Raises StorageError, LockTimeout; `damaged-file` too when there is none."""
    path = home.team_file(directory)
    if not path.exists():
        raise StorageError("damaged-file", f"{path} is missing")
    async with lock_for(path, home.guard(path)).hold() as held:
        before = read_team_file(path)
        if before is None:
            raise StorageError("damaged-file", f"{path} is missing")
        after = change(before)
        if after != before:
            held.check()
            write_atomic(path, after.encode())
    return after


async def bind_lead(home: Home, directory: str, lead: LeadLease) -> TeamFile:
    """Note who leads from now on: a session that was resumed, or that adopted the team."""
    return await change_team_file(home, directory, lambda file: replace(file, lead=lead))


async def begin_life(home: Home, directory: str, name: str) -> int:
    """Count one more life of a member. Returns its number, from 1: never the same twice for a name."""
    life = 0

    def counted(file: TeamFile) -> TeamFile:
        nonlocal life
        file, life = file.next_life(name)
        return file

    await change_team_file(home, directory, counted)
    return life
