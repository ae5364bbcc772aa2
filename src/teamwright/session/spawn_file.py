"""The spawn file: the start values of a member process beyond its flags, and its token for a later lead.

JSON, 0600, in the member's directory, named by an environment variable. Keys of model services are passed in the
environment alone, but `--mcp-config` may contain tokens: so the process deletes the file after reading it. The wire
file remains. Both processes use one installation, and a file of another version is refused. Format:
docs/reference/formats/spawn.md.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, field
from msgspec.structs import asdict

from teamwright.processes.program_environment import own_variables
from teamwright.protocol.errors import CannotStart
from teamwright.protocol.usage import NO_CAPS
from teamwright.session.options import Options
from teamwright.storage.files import storage_error, write_atomic
from teamwright.storage.paths import make_private

VARIABLE = "TEAMWRIGHT_SPAWN_FILE"
"""The environment variable with the file's path."""

WITHHELD_VARIABLE = "TEAMWRIGHT_WITHHELD_VARIABLES"
"""The environment variable with the person's variables that would add code to the member process itself, as JSON."""

VERSION = 1
FILE = "spawn.json"
WIRE_FILE = "wire.json"

_PATHS = frozenset({"cwd", "settings_file"})
_PATH_LISTS = frozenset({"add_dirs", "plugin_dirs"})
_LISTS = frozenset({"allowed_tools", "disallowed_tools", "mcp_config", "setting_sources", "fallback_models"})
_LEFT_OUT = frozenset(
    {"env", "budget", "tools", "own_hooks", "stores", "on_request", "session_id", "resume", "adopt", "model"}
    | {"spent", "start_source", "resume_at", "dropped_prompt"}
) | {"client_mcp", "output", "agent", "title", "persists", "worktree"}
"""Options that a member process gets in another way, or never: its environment is the process's own, its budget is
the lead's, and functions cannot be encoded.
"""


def member_environment(env: Mapping[str, str], spawn_file: Path) -> dict[str, str]:
    """Return the environment in which the program of a member starts.

    A command could change what some variables of the person name, such as `LD_LIBRARY_PATH`. They are only for the
    member's own commands: `restore_variables` sets them again once the program runs.
    """
    kept = own_variables(env) | {"PATH": env.get("PATH", os.defpath)}
    withheld = {name: value for name, value in env.items() if kept.get(name) != value}
    found = {**kept, VARIABLE: str(spawn_file)}
    return {**found, WITHHELD_VARIABLE: json.dumps(withheld)} if withheld else found


def restore_variables() -> None:
    """Set the person's variables that this program started without, for the commands of the member."""
    withheld = cast("dict[str, str]", json.loads(os.environ.pop(WITHHELD_VARIABLE, "{}")))
    os.environ.update(withheld)


class SpawnFile(Struct, frozen=True):
    """One start of one member process."""

    home: str
    """The state root."""
    session: str
    """The lead's session."""
    team: str
    """The team's name."""
    directory: str
    """The directory of the team's files."""
    member: str
    """The member's name."""
    incarnation: int
    """The member's incarnation."""
    wire: str
    """The socket on which the lead's process listens."""
    token: str
    """The token that identifies this process there."""
    resumed: bool
    """True when an earlier process began this incarnation."""
    model: str
    """The lead's model; the member uses it unless its incarnation names another one."""
    grace_s: float | None
    """The seconds after which the process ends if no lead answers at `wire`; null: no limit."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The lead's options."""
    database: str = ""
    """The database of a member on another machine; empty for others."""
    order: int = 0
    """The start order of a member on another machine; 0 for others."""

    def write(self, path: Path) -> None:
        """Write the file to this path, and the wire file beside it, 0600. Raises StorageError."""
        body = {"version": VERSION, **asdict(self)}
        make_private(path.parent)
        wire_fields = {"version": VERSION, "wire": self.wire, "token": self.token}
        write_atomic(path.parent / WIRE_FILE, json.dumps(wire_fields, indent=2).encode())
        write_atomic(path, json.dumps(body, indent=2, ensure_ascii=False).encode())

    @classmethod
    def read(cls, path: Path) -> SpawnFile:
        """Read the file at this path. Raises CannotStart (`backend`) for an invalid file or another version,
        StorageError.
        """
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
    """Return the token of this directory's last process for `wire`; empty when it used another socket."""
    try:
        content: object = json.loads((room / WIRE_FILE).read_bytes())
    except (OSError, ValueError):
        return ""
    known = cast("dict[str, Any]", content) if isinstance(content, dict) else {}
    return str(known.get("token") or "") if known.get("wire") == wire else ""


def discard(room: Path) -> None:
    """Delete the spawn file of this directory, if there is one. Never raises: the file may be gone or not removable."""
    with suppress(OSError):
        (room / FILE).unlink(missing_ok=True)


def options_to_json(options: Options) -> dict[str, Any]:
    """Return a session's options as JSON for member processes. Raises CannotStart for options that JSON cannot
    encode.
    """
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
    for name in Options.__struct_fields__:
        value = getattr(options, name)
        if name in _LEFT_OUT or value is None:
            continue
        if name in _PATHS and not isinstance(value, str):
            value = str(Path(value).absolute())
        elif name in _PATH_LISTS:
            value = [str(Path(one).absolute()) for one in value]
        elif isinstance(value, tuple):
            value = list(cast("tuple[object, ...]", value))
        elif isinstance(value, Mapping):
            value = dict(cast("Mapping[str, object]", value))
        out[name] = value
    return out


def options_of(spawn: SpawnFile) -> Options:
    """Return the options of the member process."""
    fields = dict(spawn.options)
    for name in _PATHS & fields.keys():
        fields[name] = fields[name] if str(fields[name]).startswith("{") else Path(fields[name])
    for name in _PATH_LISTS & fields.keys():
        fields[name] = tuple(Path(one) for one in fields[name])
    for name in _LISTS & fields.keys():
        fields[name] = tuple(fields[name])
    known = frozenset(Options.__struct_fields__) - _LEFT_OUT
    known_fields = {name: value for name, value in fields.items() if name in known}
    own: dict[str, Any] = {"home": spawn.home, "model": spawn.model, "budget": NO_CAPS}
    return Options(**{**known_fields, **own})
