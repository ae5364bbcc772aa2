"""Values of permission decisions: the access of a call, the verdict with its reason, and the port for approvers.

The decision is made in `permission_decision`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct, field

from teamwright.protocol.errors import UsageError
from teamwright.protocol.ids import did_you_mean
from teamwright.sandbox.policy import PolicyName


class Verdict(StrEnum):
    """The verdicts, the strictest last."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


_ORDER = {Verdict.ALLOW: 0, Verdict.ASK: 1, Verdict.DENY: 2}


def stricter(one: Verdict, other: Verdict) -> Verdict:
    """Return the stricter of two verdicts."""
    return one if _ORDER[one] >= _ORDER[other] else other


class Mode(StrEnum):
    """Permission modes, with the names of the other product."""

    DEFAULT = "default"
    """Reads inside the directories are allowed; all other calls ask."""

    ACCEPT_EDITS = "acceptEdits"
    """Like default, and files inside the directories may be changed."""

    PLAN = "plan"
    """Only calls that change nothing, until a plan is approved."""

    DELEGATE = "delegate"
    """A lead that only coordinates; a teammate that edits as in acceptEdits and asks its lead."""

    DONT_ASK = "dontAsk"
    """Like default, but a call that would ask is denied."""

    BYPASS = "bypassPermissions"
    """Every call without a deny rule is allowed."""

    BUBBLE = "bubble"
    """The current mode of the agent that started this one."""


MODES_OF_OTHERS = {"manual": Mode.DEFAULT, "auto": Mode.DEFAULT}
"""Modes of the other product, and the mode that each is here. No model decides here, so `auto` asks a person."""

AUTO_NOTICE = "the mode auto is default here: a person decides, and no model"


def parse_mode(text: str, source: str = "--permission-mode") -> Mode:
    """Return the mode of this name, also of one of the other product. Raises UsageError for an unknown one."""
    try:
        return MODES_OF_OTHERS.get(text) or Mode(text)
    except ValueError:
        raise UsageError(
            "usage",
            f"{text[:60]!r} is not a permission mode",
            looked_at=[("from", source), ("modes", ", ".join(mode for mode in Mode if mode is not Mode.BUBBLE))],
            do=did_you_mean(text, list(Mode)),
        ) from None


class Access(Struct, frozen=True):
    """The files, command or address that a tool call would touch, as its tool derives them from the validated input.

    `reads` and `writes` are absolute paths; `command` is a shell command and `cwd` its directory; `expanded_command` is
    the command with the shell's aliases expanded, if it has any; `url` is the address to fetch; `subject` is the text
    that `Tool(pattern)` rules match in other cases (an agent type for `Agent`,
    whose `reads` is the directory in which it starts). `harmless` marks calls that touch only
    the team's files; `starts_teammate`: a teammate starts, not a sub-agent. `sandbox` has the policies in which the
    command would run, and which answer a question about effects that are not known. `search_path` is the PATH of the
    command; empty: no program of the project is looked for. `changeable` are directories, besides those of the
    policy, in which commands may create programs. `is_named`: the address is one that an allowed command
    names, so that only a rule decides otherwise. `needs_port`: only a rule that names the port of the address allows
    it. `is_read_otherwise`: the user's shell runs the command and
    may read it in another way than the rules do.
    """

    reads: tuple[Path, ...] = ()
    writes: tuple[Path, ...] = ()
    command: str | None = None
    cwd: Path | None = None
    expanded_command: str = ""
    url: str | None = None
    is_named: bool = False
    needs_port: bool = False
    subject: str | None = None
    harmless: bool = False
    starts_teammate: bool = False
    sandbox: frozenset[PolicyName] = frozenset()
    search_path: str = ""
    changeable: tuple[str, ...] = ()
    is_read_otherwise: bool = False


HARMLESS = Access(harmless=True)

BY_SANDBOX = "sandbox"
"""The rule of a decision that the sandbox made, because it bounds the line."""


class Decision(Struct, frozen=True):
    """A verdict with its reason. `rule` names a rule, a mode or a built-in reason; `reason` is one plain sentence.

    `find_always` finds the allow rule that "always" would store, in rule syntax, when a question is made of it; empty
    when none is offered. `confinement` is the sandbox policy of a command that is or gets allowed. `is_unproven`: it
    only asks because effects of a command are not known. `needs_person`: no rule, mode or lead answers the question.
    """

    verdict: Verdict
    rule: str
    reason: str
    find_always: Callable[[], str] = str
    confinement: PolicyName = PolicyName.WORK
    is_unproven: bool = False
    needs_person: bool = False

    @property
    def is_by_mode(self) -> bool:
        """True when the mode or the git policy decides, and no rule, guarded path or owner."""
        return self.rule.startswith("mode ") or self.rule == "git policy"


class PermissionUpdate(Struct, frozen=True):
    """A change of permissions that is offered with a request, or granted with its answer.

    `kind` is addRules (`rules` in rule syntax, with `behavior` allow, ask or deny), addDirectories (`directories`,
    absolute paths) or setMode (`mode`). `destination` is session, or the settings file that stores it: localSettings,
    projectSettings, userSettings. Wire format: `permissions.permission_update_json`.
    """

    kind: str
    rules: tuple[str, ...] = ()
    behavior: str = "allow"
    directories: tuple[str, ...] = ()
    mode: str = ""
    destination: str = "session"


class Question(Struct, frozen=True):
    """A question for an approver: the member, the whole command or diff, the rule that asked, and the "always" rule.

    `member` is the display name (`lead › Explore: find it`); `owner` the member that waits (its sub-agents ask in its
    name). `kind` is permission, question, plan or budget. `suggestions` are grants that a person may add to an
    approval. `mode` is the display name of the mode that asks. `lead_may_answer`: the lead would be allowed the call,
    so it may allow it to a member. `auto_allow_answers`: the setting `sandbox.auto_allow` would answer it.
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
    auto_allow_answers: bool = False


def where_allowed(settings: Path | None) -> str:
    """Return the end of a denial that a rule of the user would have prevented; empty when the file is not known."""
    return "" if settings is None else f"; a rule in permissions.allow of {settings} would allow it"


class PermissionAnswer(Struct, frozen=True):
    """The answer to a question.

    `by` names the approver: terminal, program, another terminal, hook, lead, policy or deadline. `text` is a reason or
    a question's answer; `input` replaces the input of the call; `updates` are grants that came with an approval.
    """

    allowed: bool
    by: str
    text: str = ""
    always: bool = False
    input: Mapping[str, Any] | None = None
    updates: tuple[PermissionUpdate, ...] = ()


class Approver(Protocol):
    """The port for approvers: a terminal, a program, a stated policy. Implemented in `approvals`."""

    async def ask(self, question: Question) -> PermissionAnswer:
        """Return the answer. Raises only CancelledError. Without an approver the answer is a denial that says so."""
        ...
