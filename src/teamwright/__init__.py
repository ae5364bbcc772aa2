"""Teamwright: teams of coding agents, as a Python library and a command line.

Public names are those of `__all__` here and of `teamwright.testing`; everything else may change. They load when
they are first used: importing this package touches no home, starts no thread and sets no signal handler.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from teamwright.agent.compacting.state import Shortened
    from teamwright.agent.tool import ToolResult
    from teamwright.app.api.handles import Member, Tasks
    from teamwright.app.api.hook import Hook
    from teamwright.app.api.once import run
    from teamwright.app.api.options import PermissionMode, TeamOptions
    from teamwright.app.api.running import Run
    from teamwright.app.api.team import Team
    from teamwright.app.asking import OnRequest
    from teamwright.app.looking.context import ContextView
    from teamwright.app.renewing.model import ModelSet
    from teamwright.app.renewing.reload import Reload
    from teamwright.app.result import MemberLine, Result, TaskLine
    from teamwright.models.model import (
        Failure,
        Model,
        ModelCard,
        Part,
        Prefix,
        Reply,
        Request,
        Retrying,
        TextPart,
        ThinkingPart,
    )
    from teamwright.protocol.budget import Budget
    from teamwright.protocol.errors import (
        CannotStart,
        InboxFull,
        InvalidName,
        LimitExceeded,
        ModelFailed,
        StorageError,
        TaskRefused,
        TeamRefused,
        TeamwrightError,
        UnknownMember,
        UsageError,
    )
    from teamwright.protocol.events import (
        AgentChanged,
        Compacted,
        LimitReached,
        MemberChanged,
        MessageSeen,
        MessageSent,
        ModeChanged,
        ModelChanged,
        Notice,
        Reloaded,
        RequestClosed,
        RequestOpened,
        RoundEnded,
        RunEnded,
        SessionOpened,
        Spoken,
        TaskChanged,
        TaskInfo,
        TeamChanged,
        TeamEvent,
        TextDelta,
        ToolCalled,
        ToolStarted,
        TurnEnded,
        Underway,
    )
    from teamwright.protocol.task import Task
    from teamwright.protocol.usage import Usage
    from teamwright.teams.mailing.post import Sent
    from teamwright.teams.modes.reach import ModeSet

__version__ = "0.1.0"

__all__ = [
    "AgentChanged",
    "Budget",
    "CannotStart",
    "Compacted",
    "ContextView",
    "Failure",
    "Hook",
    "InboxFull",
    "InvalidName",
    "LimitExceeded",
    "LimitReached",
    "Member",
    "MemberChanged",
    "MemberLine",
    "MessageSeen",
    "MessageSent",
    "ModeChanged",
    "ModeSet",
    "Model",
    "ModelCard",
    "ModelChanged",
    "ModelFailed",
    "ModelSet",
    "Notice",
    "OnRequest",
    "Part",
    "PermissionMode",
    "Prefix",
    "Reload",
    "Reloaded",
    "Reply",
    "Request",
    "RequestClosed",
    "RequestOpened",
    "Result",
    "Retrying",
    "RoundEnded",
    "Run",
    "RunEnded",
    "Sent",
    "SessionOpened",
    "Shortened",
    "Spoken",
    "StorageError",
    "Task",
    "TaskChanged",
    "TaskInfo",
    "TaskLine",
    "TaskRefused",
    "Tasks",
    "Team",
    "TeamChanged",
    "TeamEvent",
    "TeamOptions",
    "TeamRefused",
    "TeamwrightError",
    "TextDelta",
    "TextPart",
    "ThinkingPart",
    "ToolCalled",
    "ToolResult",
    "ToolStarted",
    "TurnEnded",
    "Underway",
    "UnknownMember",
    "Usage",
    "UsageError",
    "run",
]

_ROOMS = {
    "teamwright.agent.compacting.state": ("Shortened",),
    "teamwright.agent.tool": ("ToolResult",),
    "teamwright.app.api.handles": (
        "Member",
        "Tasks",
    ),
    "teamwright.app.api.hook": ("Hook",),
    "teamwright.app.api.once": ("run",),
    "teamwright.app.api.options": (
        "PermissionMode",
        "TeamOptions",
    ),
    "teamwright.app.api.running": ("Run",),
    "teamwright.app.api.team": ("Team",),
    "teamwright.app.asking": ("OnRequest",),
    "teamwright.app.looking.context": ("ContextView",),
    "teamwright.app.renewing.model": ("ModelSet",),
    "teamwright.app.renewing.reload": ("Reload",),
    "teamwright.protocol.budget": ("Budget",),
    "teamwright.app.result": (
        "MemberLine",
        "Result",
        "TaskLine",
    ),
    "teamwright.models.model": (
        "Failure",
        "Model",
        "ModelCard",
        "Part",
        "Prefix",
        "Reply",
        "Request",
        "Retrying",
        "TextPart",
        "ThinkingPart",
    ),
    "teamwright.protocol.errors": (
        "CannotStart",
        "InboxFull",
        "InvalidName",
        "LimitExceeded",
        "ModelFailed",
        "StorageError",
        "TaskRefused",
        "TeamRefused",
        "TeamwrightError",
        "UnknownMember",
        "UsageError",
    ),
    "teamwright.protocol.events": (
        "AgentChanged",
        "Compacted",
        "LimitReached",
        "MemberChanged",
        "MessageSeen",
        "MessageSent",
        "ModeChanged",
        "ModelChanged",
        "Notice",
        "Reloaded",
        "RequestClosed",
        "RequestOpened",
        "RoundEnded",
        "RunEnded",
        "SessionOpened",
        "Spoken",
        "TaskChanged",
        "TaskInfo",
        "TeamChanged",
        "TeamEvent",
        "TextDelta",
        "ToolCalled",
        "ToolStarted",
        "TurnEnded",
        "Underway",
    ),
    "teamwright.protocol.task": ("Task",),
    "teamwright.protocol.usage": ("Usage",),
    "teamwright.teams.modes.reach": ("ModeSet",),
    "teamwright.teams.mailing.post": ("Sent",),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    if name not in _ROOM_OF:
        raise AttributeError(f"module 'teamwright' has no attribute {name!r}")
    value = getattr(import_module(_ROOM_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names, loaded or not."""
    return sorted({*globals(), *__all__})
