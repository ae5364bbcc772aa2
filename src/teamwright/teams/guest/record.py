"""guest.json: what the next process of a member needs to go on, where another program leads its team.

In the member's room; team.json is not ours to make there. JSON, 0600, `version` 1. Below it: `storage`. Format:
docs/guest.md. Refuses to know how a life is begun and ended.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from teamwright.protocol.errors import StorageError
from teamwright.protocol.roster import Member, parse_member
from teamwright.protocol.values import dataclass
from teamwright.storage.atomic import storage_error, write_atomic
from teamwright.storage.paths import make_private
from teamwright.teams.incarnation import Life, parse_life

FILE = "guest.json"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Farewell:
    """How a life ends: `how` and `cause` (see `leaving`), `agreed_to` the request to stop that it agreed to.

    `told` is the id of what its lead is told of it.
    """

    how: str
    cause: str
    agreed_to: str
    told: str


@dataclass(frozen=True, slots=True)
class GuestRecord:
    """One life of a member in the team of `directory` that was made at `created_at` (milliseconds since 1970).

    `entry` is its place on the roster; `found`: the lead's program had put it there. `mode` is the permission mode that
    the lead gave last, empty: the flags' own. `farewell`: it is on its way out; `over`: that is done.
    """

    directory: str
    created_at: int
    life: Life
    entry: Member
    found: bool
    mode: str = ""
    farewell: Farewell | None = None
    over: bool = False

    def of_team(self, directory: str, created_at: int) -> bool:
        """Whether it is a life in that very team: names are used again."""
        return (self.directory, self.created_at) == (directory, created_at)

    def write(self, room: Path) -> None:
        """Keep it. Raises StorageError."""
        body = {
            "version": VERSION,
            "directory": self.directory,
            "created_at": self.created_at,
            "life": self.life.as_json(),
            "entry": self.entry.to_json(),
            "found": self.found,
            "mode": self.mode,
            "farewell": asdict(self.farewell) if self.farewell is not None else None,
            "over": self.over,
        }
        make_private(room)
        write_atomic(room / FILE, json.dumps(body, indent=2, ensure_ascii=False).encode())


def read_record(room: Path) -> GuestRecord | None:
    """The record in that room, None without one. Raises StorageError, `damaged-file` for what is none of ours."""
    path = room / FILE
    try:
        data = cast("dict[str, Any]", json.loads(path.read_bytes()))
        farewell = cast("Mapping[str, Any] | None", data.get("farewell"))
        return GuestRecord(
            str(data["directory"]),
            int(data["created_at"]),
            parse_life(data["life"]),
            parse_member(data["entry"]),
            data["found"] is True,
            str(data.get("mode", "")),
            None if farewell is None else Farewell(**{key: str(value) for key, value in farewell.items()}),
            data.get("over") is True,
        )
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise storage_error(problem, path) from problem
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        do = [f"remove {path}: the member then starts with an empty conversation"]
        raise StorageError("damaged-file", f"{path} is not ours: {problem}", do=do) from problem
