"""The command-line flags of a member process: written and parsed from one table (names and order as observed).

The flags identify the member. Everything else is in its spawn file, or in the files of the team. Depends on
`errors`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from teamwright.protocol.errors import UsageError


class MemberFlags(Struct, frozen=True):
    """The identity of a member process. Empty and False are left out on the command line; lists are one argument a
    name."""

    agent_id: str
    agent_name: str
    team_name: str
    agent_color: str = ""
    parent_session_id: str = ""
    plan_mode_required: bool = False
    agent_type: str = ""
    dangerously_skip_permissions: bool = False
    permission_mode: str = ""
    model: str = ""
    allowed_tools: tuple[str, ...] = ()
    disallowed_tools: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    """Flags of another program that are unknown here, or not used; never written."""


_NAMES = {
    "--agent-id": "agent_id",
    "--agent-name": "agent_name",
    "--team-name": "team_name",
    "--agent-color": "agent_color",
    "--parent-session-id": "parent_session_id",
    "--plan-mode-required": "plan_mode_required",
    "--agent-type": "agent_type",
    "--dangerously-skip-permissions": "dangerously_skip_permissions",
    "--permission-mode": "permission_mode",
    "--model": "model",
    "--allowedTools": "allowed_tools",
    "--disallowedTools": "disallowed_tools",
}
"""Every flag and its field, in the order in which they are written."""

REQUIRED = ("--agent-id", "--agent-name", "--team-name")
"""The flags that a member process requires."""

_SWITCHES = frozenset({"plan_mode_required", "dangerously_skip_permissions"})
_LISTS = frozenset({"allowed_tools", "disallowed_tools"})


def to_argv(flags: MemberFlags) -> list[str]:
    """Return the arguments for these flags, after the program's own."""
    out: list[str] = []
    for flag, name in _NAMES.items():
        value = getattr(flags, name)
        if name in _SWITCHES:
            out += [flag] if value else []
        elif name in _LISTS:
            out += [flag, *value] if value else []
        elif value:
            out += [flag, str(value)]
    return out


def parse_argv(argv: Sequence[str], *, foreign: bool = False) -> MemberFlags:
    """Return the flags of these arguments. Raises UsageError for an unknown or repeated flag, or one without its value.

    `foreign`: another program starts the member. Unknown flags are then ignored with their values.
    """
    values: dict[str, Any] = {}
    ignored: list[str] = []
    waiting = list(argv)
    while waiting:
        flag, equals, value = waiting.pop(0).partition("=")
        name = _NAMES.get(flag)
        if foreign and name is None:
            ignored.append(flag[:60])
            _take_names(waiting)
            continue
        if name is None or name in values:
            raise _flag_error(f"{flag[:60]!r} is {'said twice' if name in values else 'no flag of a member'}")
        if name in _SWITCHES:
            values[name] = True
        elif name in _LISTS:
            values[name] = (value,) if equals else _take_names(waiting)
        elif equals or (waiting and not waiting[0].startswith("--")):
            values[name] = value if equals else waiting.pop(0)
        else:
            raise _flag_error(f"{flag} needs a value")
    missing = [flag for flag in REQUIRED if not values.get(_NAMES[flag])]
    if missing:
        raise _flag_error(f"{', '.join(missing)} must be said")
    return MemberFlags(**values, ignored=tuple(ignored))


def _take_names(waiting: list[str]) -> tuple[str, ...]:
    """Remove and return the names after a flag that takes several."""
    names: list[str] = []
    while waiting and not waiting[0].startswith("--"):
        names.append(waiting.pop(0))
    return tuple(names)


def _flag_error(what: str) -> UsageError:
    return UsageError(
        "usage",
        f"as a member's process: {what}",
        looked_at=[("flags", " ".join(_NAMES))],
        note="nothing was started",
    )
