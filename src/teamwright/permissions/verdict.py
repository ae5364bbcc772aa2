"""What is decided, about what: a call as facts in, a verdict with its reason out; and the port for asking.

The decision itself is in `decide`; this file only has its words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from teamwright.protocol.values import dataclass


class Verdict(StrEnum):
    """Strictest last: `stricter` of two is the later one."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


_ORDER = {Verdict.ALLOW: 0, Verdict.ASK: 1, Verdict.DENY: 2}


def stricter(one: Verdict, other: Verdict) -> Verdict:
    """The stricter of two verdicts."""
    return one if _ORDER[one] >= _ORDER[other] else other


class Mode(StrEnum):
    """Permission modes (names as in the ecosystem)."""

    DEFAULT = "default"
    """Reading inside the directories is allowed; all else asks."""

    ACCEPT_EDITS = "acceptEdits"
    """As default, and files inside the directories may be changed."""

    PLAN = "plan"
    """Only what changes nothing, until a plan was approved."""

    DELEGATE = "delegate"
    """A lead that only coordinates; a teammate that edits as in acceptEdits and asks its lead."""

    DONT_ASK = "dontAsk"
    """As default, but what would ask is denied."""

    BYPASS = "bypassPermissions"
    """Everything is allowed but what a deny rule names."""

    BUBBLE = "bubble"
    """No mode of its own: as whoever started it, whatever becomes of that one's mode."""


@dataclass(frozen=True, slots=True)
class Access:
    """What a tool call would touch, as its tool says from the validated input.

    `reads` and `writes` are absolute paths; `command` is a shell command with the directory it runs in as `cwd`;
    `expand_command` is the command with the aliases of the shell in place, where there are any in it;
    `url` is what would be fetched; `subject` is what `Tool(pattern)` rules match where none of these applies
    (an agent type for `Agent`). `harmless` marks calls that touch nothing outside the team's own files; `named` that
    what is started is a member of the team, not a sub-agent.
    """

    reads: tuple[Path, ...] = ()
    writes: tuple[Path, ...] = ()
    command: str | None = None
    cwd: Path | None = None
    expanded_command: str = ""
    url: str | None = None
    subject: str | None = None
    harmless: bool = False
    starts_teammate: bool = False


HARMLESS = Access(harmless=True)


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict with what said so. `rule` names a rule, a mode or a built-in reason; `reason` is one plain sentence.

    `always` is the allow rule that "always" would store, in rule syntax; empty when none is offered.
    """

    verdict: Verdict
    rule: str
    reason: str
    always: str = ""


@dataclass(frozen=True, slots=True)
class PermissionUpdate:
    """A change of permissions that is offered with a request, or granted with its answer.

    `kind` is addRules (`rules` in rule syntax, with `behavior` allow, ask or deny), addDirectories (`directories`,
    absolute paths) or setMode (`mode`). `destination` is session, or the settings file that keeps it: localSettings,
    projectSettings, userSettings. Shapes on the wire: `permissions.updates`.
    """

    kind: str
    rules: tuple[str, ...] = ()
    behavior: str = "allow"
    directories: tuple[str, ...] = ()
    mode: str = ""
    destination: str = "session"


@dataclass(frozen=True, slots=True)
class Question:
    """What an asker shows: who asks, the whole command or diff, the rule that asked, what "always" would store.

    `member` is who asks as people read it (`lead › Explore: find it`); `owner` the member at whose desk the answer
    is missed (its sub-agents ask in its name). `kind` is permission, question or plan. `suggestions` are what a person
    may grant along with a yes. `mode` is the mode that asks, as people read it. `lead_may_answer`: the lead would be
    allowed the call, so it may allow it to a member.
    """

    member: str
    tool: str
    kind: str
    what: str
    rule: str
    always: str = ""
    input: Mapping[str, Any] = field(default_factory=dict[str, Any])
    options: tuple[str, ...] = ()
    owner: str = ""
    tool_use_id: str = ""
    description: str = ""
    suggestions: tuple[PermissionUpdate, ...] = ()
    lead_may_answer: bool = False
    mode: str = ""


def where_allowed(settings: Path | None) -> str:
    """The words behind a refusal that a rule of the user would have answered; empty where the file is not known."""
    return "" if settings is None else f"; a rule in permissions.allow of {settings} would allow it"


@dataclass(frozen=True, slots=True)
class PermissionAnswer:
    """What came back. `by` says who: terminal, program, another terminal, hook, lead, policy or deadline.

    `text` is a reason or a question's answer; `input` what is to be run in the place of what was asked; `updates` what
    was granted along with a yes.
    """

    allowed: bool
    by: str
    text: str = ""
    always: bool = False
    input: Mapping[str, Any] | None = None
    updates: tuple[PermissionUpdate, ...] = ()


class Approver(Protocol):
    """The port for whoever can answer: a terminal, a program, stated policy. Filled in `app`."""

    async def ask(self, question: Question) -> PermissionAnswer:
        """The answer; never raises but `CancelledError`. Without anybody to ask it denies and says so."""
        ...
