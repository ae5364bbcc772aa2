"""The spawn file: everything that a member's own process is told, beside who it is; and how a later lead knows it.

JSON, 0600, in the member's room, named by the environment. Keys of model services travel by the environment alone, but
`--mcp-config` may contain tokens: the process deletes the file when it has read it. The wire file remains. Both ends
are of one installation, and a file of another version is refused. Format: docs/formats/spawn.md. Starts nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field, fields
from pathlib import Path
from typing import Any, cast

from teamwright.protocol.budget import NO_CAPS
from teamwright.protocol.errors import CannotStart
from teamwright.protocol.values import dataclass
from teamwright.session.options import Options
from teamwright.storage.atomic import storage_error, write_atomic
from teamwright.storage.paths import make_private

VARIABLE = "TEAMWRIGHT_SPAWN_FILE"
"""Names the file to the process that is started."""

VERSION = 1
FILE = "spawn.json"
WIRE_FILE = "wire.json"

_PATHS = frozenset({"cwd", "settings_file"})
_PATH_LISTS = frozenset({"add_dirs", "plugin_dirs"})
_LISTS = frozenset({"allowed_tools", "disallowed_tools", "mcp_config"})
_LEFT_OUT = frozenset({"env", "budget", "tools", "own_hooks", "on_request", "session_id", "resume", "adopt", "model"})
"""What a member's process is told otherwise, or never: its environment is the process's own, its room for calls its
lead has, and functions do not travel."""


@dataclass(frozen=True, slots=True)
class SpawnFile:
    """One start of one member's process.

    `directory` is its team's; `resumed` says that a process before this one began the life; `wire` is the path where it
    calls, with `token`. `grace_s`: how long it stays when nobody answers there, in seconds; None: for ever. `model` is
    the lead's.
    """

    home: str
    session: str
    team: str
    directory: str
    member: str
    incarnation: int
    wire: str
    token: str
    resumed: bool
    model: str
    grace_s: float | None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def write(self, path: Path) -> None:
        """Write it to this path, and the wire file beside it, 0600. Raises StorageError."""
        body = {"version": VERSION, **{item.name: getattr(self, item.name) for item in fields(self)}}
        make_private(path.parent)
        kept = {"version": VERSION, "wire": self.wire, "token": self.token}
        write_atomic(path.parent / WIRE_FILE, json.dumps(kept, indent=2).encode())
        write_atomic(path, json.dumps(body, indent=2, ensure_ascii=False).encode())

    @classmethod
    def read(cls, path: Path) -> SpawnFile:
        """The file there. Raises CannotStart (`backend`) for what is none of this version, StorageError."""
        try:
            data = cast("dict[str, Any]", json.loads(path.read_bytes()))
            if data.pop("version") != VERSION:
                raise ValueError("it is of another version")
            return cls(**data)
        except OSError as problem:
            raise storage_error(problem, path) from problem
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise CannotStart("backend", f"{path} is not a Teamwright spawn file: {problem}") from None


def wire_token(room: Path, wire: str) -> str:
    """The token with which the last process of this room calls at `wire`; empty when it calls elsewhere."""
    try:
        told: object = json.loads((room / WIRE_FILE).read_bytes())
    except (OSError, ValueError):
        return ""
    known = cast("dict[str, Any]", told) if isinstance(told, dict) else {}
    return str(known.get("token") or "") if known.get("wire") == wire else ""


def discard(room: Path) -> None:
    """Delete the spawn file of this room, if there is one. Never raises: the file may be gone or not ours to delete."""
    with suppress(OSError):
        (room / FILE).unlink(missing_ok=True)


def options_to_json(options: Options) -> dict[str, Any]:
    """What of a session's options its members' processes are told. Raises CannotStart for what does not travel."""
    cannot = [
        what
        for what, there in (
            ("a model object", options.model is not None and not isinstance(options.model, str)),
            ("functions as tools", bool(options.tools)),
            ("functions as hooks", bool(options.own_hooks)),
        )
        if there
    ]
    if cannot:
        raise CannotStart(
            "backend",
            f"{' and '.join(cannot)} cannot be handed to another process",
            do=["start this member in-process", "name the model, and put tools behind an MCP server"],
            note="nothing was started",
        )
    out: dict[str, Any] = {}
    for item in fields(Options):
        value = getattr(options, item.name)
        if item.name in _LEFT_OUT or value is None:
            continue
        if item.name in _PATHS:
            value = str(Path(value).absolute())
        elif item.name in _PATH_LISTS:
            value = [str(Path(one).absolute()) for one in value]
        elif isinstance(value, tuple):
            value = list(cast("tuple[object, ...]", value))
        elif isinstance(value, Mapping):
            value = dict(cast("Mapping[str, object]", value))
        out[item.name] = value
    return out


def options_of(spawn: SpawnFile) -> Options:
    """The options of the member's process."""
    said = dict(spawn.options)
    for name in _PATHS & said.keys():
        said[name] = Path(said[name])
    for name in _PATH_LISTS & said.keys():
        said[name] = tuple(Path(one) for one in said[name])
    for name in _LISTS & said.keys():
        said[name] = tuple(said[name])
    known = {item.name for item in fields(Options)} - _LEFT_OUT
    kept = {name: value for name, value in said.items() if name in known}
    own: dict[str, Any] = {"home": spawn.home, "model": spawn.model, "budget": NO_CAPS}
    return Options(**{**kept, **own})
