"""The commands that may run teammates, from the values of settings files; an error names file and key.

Only the user's settings define them: a repository can only name one. Variables are filled in later.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from teamwright.config.settings.files import bad_settings
from teamwright.config.settings.settings import EXTERNAL_START_S, ExternalCommand, ExternalCommandSettings
from teamwright.protocol.errors import CannotStart
from teamwright.protocol.ids import nearest

COMMANDS, COMMAND = "members.commands", "members.command"

OWN = "teamwright"
"""The name that selects our own program, regardless of `members.command`."""

_KEYS = ("argv", "env", "root", "start_s")


def commands_settings(values: Mapping[str, Any], origins: Mapping[str, str]) -> ExternalCommandSettings:
    """Return the commands in these values; `origins` names the file of each. Raises CannotStart (`bad-settings`)."""
    file = Path(origins.get(COMMANDS, ""))
    entries = cast("dict[str, object]", values.get(COMMANDS, {}))
    commands = {name: _command(name, value, file) for name, value in entries.items()}
    usual = str(values.get(COMMAND, ""))
    if usual and usual != OWN and usual not in commands:
        near = nearest(usual, [*commands, OWN])
        hint = f"; did you mean {near}?" if near else f"; there are {', '.join(commands) or 'none'}"
        raise bad_settings(Path(origins[COMMAND]), f"{usual!r} is none of {COMMANDS}{hint}", COMMAND)
    return ExternalCommandSettings(commands, "" if usual == OWN else usual)


def _command(name: str, value: object, file: Path) -> ExternalCommand:
    key = f"{COMMANDS}.{name}"
    if not name.strip() or name == OWN:
        raise bad_settings(file, f"{name!r} cannot be the name of a command", key)
    if not isinstance(value, dict):
        raise bad_settings(file, f"{key} must be an object with argv", key)
    fields = cast("dict[str, object]", value)
    for part in fields:
        if part not in _KEYS:
            near = nearest(part, _KEYS)
            raise bad_settings(file, f"{key} has no {part!r}" + (f"; did you mean {near}?" if near else ""), key)
    argv = fields.get("argv")
    env = fields.get("env", {})
    root = fields.get("root", "")
    start_s = fields.get("start_s", EXTERNAL_START_S)
    if not _texts(argv) or not argv:
        raise _wrong(file, key, "argv", 'a list of texts that begins with the program: ["claude"]')
    if not isinstance(env, dict) or not _texts(list(cast("dict[object, object]", env).values())):
        raise _wrong(file, key, "env", "an object with texts")
    if not isinstance(root, str):
        raise _wrong(file, key, "root", "a directory, such as ~/.claude")
    if isinstance(start_s, bool) or not isinstance(start_s, int | float) or not 0 < start_s < 10_000:
        raise _wrong(file, key, "start_s", "a number of seconds above 0")
    return ExternalCommand(name, tuple(cast("list[str]", argv)), cast("dict[str, str]", env), root, float(start_s))


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(part, str) and "\0" not in part for part in cast("list[Any]", value)
    )


def _wrong(file: Path, key: str, part: str, expected: str) -> CannotStart:
    return bad_settings(file, f"{key}.{part} must be {expected}", f"{key}.{part}")
