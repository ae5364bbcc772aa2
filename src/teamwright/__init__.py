"""Teamwright: teams of coding agents, as a Python library and a command line.

Public names are those of `__all__` here and of `teamwright.testing`; everything else may change. They load when
they are first used: importing this package touches no home, starts no thread and sets no signal handler.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from teamwright.agent.tool import ToolResult
    from teamwright.app.api import Member, Run, Team, run
    from teamwright.app.budget import Budget
    from teamwright.app.result import Result
    from teamwright.models.model import Model
    from teamwright.protocol.errors import (
        CannotStart,
        InvalidName,
        LimitExceeded,
        ModelFailed,
        TaskRefused,
        TeamRefused,
        TeamwrightError,
        UnknownMember,
        UsageError,
    )
    from teamwright.protocol.events import (
        LimitReached,
        MemberChanged,
        MessageSent,
        RequestOpened,
        RunEnded,
        TaskChanged,
        TeamEvent,
        TextDelta,
        ToolCalled,
    )
    from teamwright.protocol.task import Task
    from teamwright.protocol.usage import Usage

__version__ = "0.1.0"

__all__ = [
    "Budget",
    "CannotStart",
    "InvalidName",
    "LimitExceeded",
    "LimitReached",
    "Member",
    "MemberChanged",
    "MessageSent",
    "Model",
    "ModelFailed",
    "RequestOpened",
    "Result",
    "Run",
    "RunEnded",
    "Task",
    "TaskChanged",
    "TaskRefused",
    "Team",
    "TeamEvent",
    "TeamRefused",
    "TeamwrightError",
    "TextDelta",
    "ToolCalled",
    "ToolResult",
    "UnknownMember",
    "Usage",
    "UsageError",
    "run",
]

_ROOMS = {
    "teamwright.app.api": ("Member", "Run", "Team", "run"),
    "teamwright.app.budget": ("Budget",),
    "teamwright.app.result": ("Result",),
    "teamwright.agent.tool": ("ToolResult",),
    "teamwright.models.model": ("Model",),
    "teamwright.protocol.task": ("Task",),
    "teamwright.protocol.usage": ("Usage",),
    "teamwright.protocol.errors": (
        "CannotStart",
        "InvalidName",
        "LimitExceeded",
        "ModelFailed",
        "TaskRefused",
        "TeamRefused",
        "TeamwrightError",
        "UnknownMember",
        "UsageError",
    ),
    "teamwright.protocol.events": (
        "LimitReached",
        "MemberChanged",
        "MessageSent",
        "RequestOpened",
        "RunEnded",
        "TaskChanged",
        "TeamEvent",
        "TextDelta",
        "ToolCalled",
    ),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    if name not in _ROOM_OF:
        raise AttributeError(f"module 'teamwright' has no attribute {name!r}")
    value = getattr(import_module(_ROOM_OF[name]), name)
    globals()[name] = value
    return value
