"""Teamwright: teams of coding agents, as a Python library and a command line.

Public names are those of `__all__` here and of `teamwright.testing`; everything else may change. A name loads at its
first use: importing this package reads no state root, starts no thread and sets no signal handler.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing takes as long to import as Python itself to start

if TYPE_CHECKING:
    from typing import Any

    from teamwright.agent.compaction_state import CompactResult
    from teamwright.agent.context_window import ContextView
    from teamwright.agent.tool import (
        CallContext,
        ToolResult,
    )
    from teamwright.api.handles import (
        IntegrationQueue,
        Member,
        TaskRef,
        Tasks,
        TaskTerms,
    )
    from teamwright.api.options import (
        Hook,
        OnExit,
        PermissionMode,
        SpawnOptions,
        TeamOptions,
    )
    from teamwright.api.run import Run, run
    from teamwright.api.team import Team
    from teamwright.approvals.request_queue import OnRequest
    from teamwright.models.effort import Effort
    from teamwright.models.model import (
        AlivePart,
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
        UsagePart,
    )
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
        AssistantText,
        Compacted,
        HookEnded,
        IntegrationChanged,
        LimitReached,
        MemberChanged,
        MessageDelivered,
        MessageSent,
        ModeChanged,
        ModelCallEnded,
        ModelChanged,
        Notice,
        Progress,
        Reloaded,
        RequestAnswer,
        RequestClosed,
        RequestOpened,
        Responder,
        RunEnded,
        SandboxRefused,
        SessionOpened,
        SideCallEnded,
        SubagentChanged,
        TaskChanged,
        TaskInfo,
        TeamChanged,
        TeamEvent,
        TextDelta,
        ThinkingDelta,
        ToolCalled,
        ToolStarted,
        TurnEnded,
    )
    from teamwright.protocol.members import MemberState
    from teamwright.protocol.pending_request import PendingRequest
    from teamwright.protocol.task import IntegrationState, Task
    from teamwright.protocol.usage import Budget, Usage
    from teamwright.session.agents.model_change import ModelChange
    from teamwright.session.reload_config import ReloadResult
    from teamwright.session.result import (
        MemberResult,
        Result,
        Stop,
        TaskResult,
    )
    from teamwright.tasks.task_rules import TaskWishes
    from teamwright.team_records.snapshots import TaskView, TeamView
    from teamwright.team_records.team_status import MemberStatus
    from teamwright.teams.mode_rank import ModeSet
    from teamwright.teams.outgoing_mail import Sent
    from teamwright.views.status import StatusView
    from teamwright.worktrees.integration_store import IntegrationEntry

__version__ = "0.1.0"

__all__ = [
    "AlivePart",
    "AssistantText",
    "Budget",
    "CallContext",
    "CannotStart",
    "CompactResult",
    "Compacted",
    "ContextView",
    "Effort",
    "Failure",
    "Hook",
    "HookEnded",
    "InboxFull",
    "IntegrationChanged",
    "IntegrationEntry",
    "IntegrationQueue",
    "IntegrationState",
    "InvalidName",
    "LimitExceeded",
    "LimitReached",
    "Member",
    "MemberChanged",
    "MemberResult",
    "MemberState",
    "MemberStatus",
    "MessageDelivered",
    "MessageSent",
    "ModeChanged",
    "ModeSet",
    "Model",
    "ModelCallEnded",
    "ModelCard",
    "ModelChange",
    "ModelChanged",
    "ModelFailed",
    "Notice",
    "OnExit",
    "OnRequest",
    "Part",
    "PendingRequest",
    "PermissionMode",
    "Prefix",
    "Progress",
    "ReloadResult",
    "Reloaded",
    "Reply",
    "Request",
    "RequestAnswer",
    "RequestClosed",
    "RequestOpened",
    "Responder",
    "Result",
    "Retrying",
    "Run",
    "RunEnded",
    "SandboxRefused",
    "Sent",
    "SessionOpened",
    "SideCallEnded",
    "SpawnOptions",
    "StatusView",
    "Stop",
    "StorageError",
    "SubagentChanged",
    "Task",
    "TaskChanged",
    "TaskInfo",
    "TaskRef",
    "TaskRefused",
    "TaskResult",
    "TaskTerms",
    "TaskView",
    "TaskWishes",
    "Tasks",
    "Team",
    "TeamChanged",
    "TeamEvent",
    "TeamOptions",
    "TeamRefused",
    "TeamView",
    "TeamwrightError",
    "TextDelta",
    "TextPart",
    "ThinkingDelta",
    "ThinkingPart",
    "ToolCalled",
    "ToolResult",
    "ToolStarted",
    "TurnEnded",
    "UnknownMember",
    "Usage",
    "UsageError",
    "UsagePart",
    "run",
]

_PUBLIC_NAMES = {
    "teamwright.protocol.events": (
        "AssistantText",
        "Compacted",
        "HookEnded",
        "IntegrationChanged",
        "LimitReached",
        "MemberChanged",
        "MessageDelivered",
        "MessageSent",
        "ModeChanged",
        "ModelCallEnded",
        "ModelChanged",
        "Notice",
        "Progress",
        "Reloaded",
        "RequestAnswer",
        "RequestClosed",
        "RequestOpened",
        "Responder",
        "RunEnded",
        "SandboxRefused",
        "SessionOpened",
        "SideCallEnded",
        "SubagentChanged",
        "TaskChanged",
        "TaskInfo",
        "TeamChanged",
        "TeamEvent",
        "TextDelta",
        "ThinkingDelta",
        "ToolCalled",
        "ToolStarted",
        "TurnEnded",
    ),
    "teamwright.models.effort": ("Effort",),
    "teamwright.tasks.task_rules": ("TaskWishes",),
    "teamwright.views.status": ("StatusView",),
    "teamwright.team_records.team_status": ("MemberStatus",),
    "teamwright.team_records.snapshots": (
        "TaskView",
        "TeamView",
    ),
    "teamwright.protocol.pending_request": ("PendingRequest",),
    "teamwright.agent.compaction_state": ("CompactResult",),
    "teamwright.agent.tool": (
        "CallContext",
        "ToolResult",
    ),
    "teamwright.api.handles": (
        "IntegrationQueue",
        "Member",
        "TaskRef",
        "TaskTerms",
        "Tasks",
    ),
    "teamwright.api.options": (
        "Hook",
        "OnExit",
        "PermissionMode",
        "SpawnOptions",
        "TeamOptions",
    ),
    "teamwright.api.run": (
        "Run",
        "run",
    ),
    "teamwright.api.team": ("Team",),
    "teamwright.approvals.request_queue": ("OnRequest",),
    "teamwright.agent.context_window": ("ContextView",),
    "teamwright.session.agents.model_change": ("ModelChange",),
    "teamwright.session.reload_config": ("ReloadResult",),
    "teamwright.protocol.usage": (
        "Budget",
        "Usage",
    ),
    "teamwright.session.result": (
        "MemberResult",
        "Result",
        "Stop",
        "TaskResult",
    ),
    "teamwright.models.model": (
        "AlivePart",
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
        "UsagePart",
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
    "teamwright.protocol.task": (
        "IntegrationState",
        "Task",
    ),
    "teamwright.worktrees.integration_store": ("IntegrationEntry",),
    "teamwright.protocol.members": ("MemberState",),
    "teamwright.teams.mode_rank": ("ModeSet",),
    "teamwright.teams.outgoing_mail": ("Sent",),
}
_MODULE_OF = {name: module for module, names in _PUBLIC_NAMES.items() for name in names}


def public_module(name: str) -> str:
    """Return the module that defines a public name."""
    return _MODULE_OF[name]


def __getattr__(name: str) -> Any:
    """Load a public name at its first use. Raises AttributeError for another name."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'teamwright' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, loaded or not."""
    return sorted({*globals(), *__all__})
