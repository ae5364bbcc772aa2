"""Plan mode of an agent, and the reminders of its mode that are appended to its user messages.

While an agent plans, it changes nothing except its plan. The state is stored in a small file before the policy changes,
so that a process that resumes the agent restores it. Format: docs/reference/formats/plans.md.

A reminder stays in its message: sent bytes never change, so that a service finds them in its cache. Therefore the full
text comes at the start of a turn only, and a short line with each set of results.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import asdict, replace

from teamwright.permissions.grant_bounds import check_rules
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.rules import Rule
from teamwright.permissions.verdict import Mode, PermissionUpdate
from teamwright.protocol.errors import UsageError
from teamwright.storage.files import read_plain, storage_error, write_atomic
from teamwright.storage.plan_file import create_plan_file, read_plan, remove_if_empty, reserve_plan, write_plan


class PlanExit(StrEnum):
    """The way in which plan mode is left."""

    FREELY = "freely"
    """By the agent: it entered plan mode on its initiative, and its rules apply again."""

    APPROVED = "approved"
    """After an approval of the plan."""

    NEVER = "never"
    """Never: a sub-agent that was started to plan. Its answer is the plan."""


class PlanMode:
    """The plan mode of the agent with this policy.

    `plans` is the directory of plan files, `record` the file of the stored state (None: it ends with the process).
    A lead needs an approval to leave a plan mode that it entered on its initiative. `deciding_policy` is the policy
    that decides its calls, when it is another one. `on_mode_change` receives each new mode and its author.
    """

    def __init__(
        self,
        policy: Policy,
        plans: Path,
        record: Path | None,
        *,
        is_lead: bool = False,
        deciding_policy: Policy | None = None,
        on_mode_change: Callable[[Mode, str], None] = lambda _mode, _by: None,
    ) -> None:
        self.policy = policy
        self._on_mode_change = on_mode_change
        self._deciding_policy = deciding_policy or policy
        self._plans = plans
        self._record_path = record
        self._own_exit = PlanExit.APPROVED if is_lead else PlanExit.FREELY
        self._mode_after = Mode.DEFAULT if is_lead else Mode.BUBBLE
        self._record = PlanRecord()

    @property
    def is_on(self) -> bool:
        """True when this agent is in plan mode."""
        return self.policy.mode is Mode.PLAN

    @property
    def is_inherited(self) -> bool:
        """True when the agent that started it is in plan mode: it may then change nothing either."""
        return self.policy.is_caller_planning

    @property
    def file(self) -> Path:
        """The path of the plan."""
        return Path(self._record.file)

    @property
    def exit_rule(self) -> PlanExit:
        """The rule for leaving plan mode."""
        return PlanExit(self._record.leaving)

    @property
    def mode_after(self) -> Mode:
        """The mode after an approval that names none; `bubble` is the mode of the agent that started this one."""
        return Mode(self._record.before or self._mode_after)

    @property
    def pending_request(self) -> str:
        """The id of the pending request; empty when there is none."""
        return self._record.waits

    @property
    def ended_by_call(self) -> str:
        """The call that ended plan mode last."""
        return self._record.left_by

    # ── entering and leaving ─────────────────────────────────────────────────────────────────────────────────────

    def enter(self, exit_rule: PlanExit | None = None, by: str = "") -> Path:
        """Enter plan mode; `by` names another agent or user that asked for it. Return the path of the plan.

        An agent that planned on its initiative needs an approval from then on, if `exit_rule` says so. Raises
        StorageError; then nothing changed.
        """
        was_on = self.is_on
        self.start(exit_rule)
        if not was_on:
            self._on_mode_change(Mode.PLAN, by)
        return self.file

    def start(self, exit_rule: PlanExit | None = None) -> None:
        """Enter plan mode like `enter`, at the start of the agent, whose mode does not change then."""
        if not (self.is_on and self._record.on):
            if self.is_on:
                self._begin(self._mode_after, exit_rule or PlanExit.APPROVED)
            else:
                self._begin(self.policy.mode, exit_rule or self._own_exit)
                self.policy.change_mode(Mode.PLAN)
        elif exit_rule is PlanExit.APPROVED and self.exit_rule is PlanExit.FREELY:
            self._save(replace(self._record, leaving=exit_rule))

    def _begin(self, before: Mode, leaving: PlanExit) -> None:
        path = reserve_plan(self._plans)
        record = replace(self._record, on=True, file=str(path), before=str(before), waits="", left_by="")
        self._save(replace(record, leaving=leaving))
        self._deciding_policy.allow_plan(path)

    def set_pending_request(self, request: str) -> None:
        """Record the request under which the plan was submitted; empty: none is pending. Raises StorageError."""
        self._save(replace(self._record, waits=request))

    def leave(self, mode: Mode | None = None, *, by: str = "", call: str = "", granted: Sequence[str] = ()) -> Mode:
        """Leave plan mode for `mode` or the mode before. Return the mode that applies now. Raises StorageError.

        `by` approved the plan, `call` is the call that ended plan mode; `granted` are rules for this agent only. A mode
        that was changed during planning stays.
        """
        record = self._record
        was_on = self.is_on
        after = mode or self.mode_after
        rules = tuple(dict.fromkeys((*record.granted, *granted)))
        self._save(replace(record, on=False, waits="", left_by=call, before=str(after), granted=rules))
        self._apply_granted_rules()
        if was_on:
            self.policy.change_mode(after)
            self._on_mode_change(self.policy.effective_mode, by)
        return self.policy.effective_mode

    def follow_mode_change(self, before: Mode | None = None) -> None:
        """End or start plan mode after a change of the mode, which was `before`. Raises StorageError."""
        if self.is_on and not self._record.on:
            self._begin(before or self._mode_after, PlanExit.APPROVED)
        elif self._record.on and not self.is_on:
            self._save(replace(self._record, on=False, waits="", before=str(self.policy.mode)))

    # ── the plan ─────────────────────────────────────────────────────────────────────────────────────────────────

    def read(self) -> str:
        """Return the text of the plan file; empty without one. Raises StorageError, also when it is too long."""
        return read_plan(self.file) or ""

    def write(self, text: str) -> None:
        """Write the plan to its file. Raises StorageError."""
        write_plan(self.file, text)

    def remove_unused_file(self) -> None:
        """Remove an empty plan file. The next process creates it again."""
        if self._record.file:
            remove_if_empty(self.file)

    # ── the next process ─────────────────────────────────────────────────────────────────────────────────────────

    def restore(self) -> bool:
        """Restore the state of the record. Return False without one. Raises StorageError."""
        record = None if self._record_path is None else read_record(self._record_path)
        if record is None:
            return False
        if record.on and not record.file:
            self.start(PlanExit.APPROVED)
            return True
        self._record = record
        self._apply_granted_rules()
        if record.file:
            self._deciding_policy.allow_plan(self.file)
        if record.on:
            create_plan_file(self.file)
            if not self.is_on and self.policy.mode is not Mode.BUBBLE:
                self._record = replace(record, before=str(self.policy.mode))
            self.policy.change_mode(Mode.PLAN)
        elif self.is_on and record.before:
            self.policy.change_mode(Mode(record.before))
        return True

    def remove_record(self) -> None:
        """Remove the record before a new incarnation of the member, which does not inherit it. Raises StorageError."""
        if self._record_path is not None:
            try:
                self._record_path.unlink(missing_ok=True)
            except OSError as problem:
                raise storage_error(problem, self._record_path) from problem

    def _apply_granted_rules(self) -> None:
        policy = self._deciding_policy
        policy.revoke(policy.granted)
        policy.grant([rule for text in self._record.granted for rule in self._rules(text)])

    def _rules(self, text: str) -> tuple[Rule, ...]:
        """Return the text as a rule; nothing for a text that is not a rule, and for a rule that is too broad."""
        update = PermissionUpdate("addRules", rules=(text,))
        try:
            return check_rules(update, self.policy.scope, "granted with the plan", by_user=False)
        except UsageError:
            return ()

    def _save(self, record: PlanRecord) -> None:
        if self._record_path is not None and record != self._record:
            write_atomic(self._record_path, record.encode())
        self._record = record


class PlanSubmission(Struct, frozen=True):
    """A submitted plan. `call` names the call; `rules` are permissions that the plan asks for.

    `is_rerun`: a kill interrupted the call before.
    """

    plan: str
    file: Path
    rules: tuple[str, ...] = ()
    call: str = ""
    tool_use_id: str = ""
    is_rerun: bool = False


class PlanOutcome(Struct, frozen=True):
    """The outcome of a submission.

    `approved` None: it waits under `request` for `approver`; `reason` explains a denial.
    """

    approved: bool | None
    by: str = ""
    reason: str = ""
    request: str = ""
    approver: str = ""


class PlanApproval(Protocol):
    """The port for plan approval, implemented in `approvals`."""

    async def submit(self, member: str, mode: PlanMode, submission: PlanSubmission) -> PlanOutcome:
        """Submit a plan for approval. Raises TeamwrightError when that is impossible; no request exists then."""
        ...


VERSION = 1


_MAX_RECORD_BYTES = 1_000_000
"""The largest record that is accepted, in bytes."""


class PlanRecord(Struct, frozen=True):
    """The stored state of plan mode of an agent."""

    on: bool = False
    """True while the agent is in plan mode."""
    file: str = ""
    """The plan's file."""
    before: str = ""
    """The mode after plan mode; after its end, the mode that was set (`bubble`: its caller's)."""
    leaving: str = PlanExit.FREELY
    """`freely`, `approved` (needs an approval) or `never`."""
    waits: str = ""
    """The request that is open, or empty."""
    left_by: str = ""
    """The call that ended plan mode, or empty."""
    granted: tuple[str, ...] = ()
    """Rules that were granted with plans."""

    def encode(self) -> bytes:
        """Return the bytes of the file."""
        return json.dumps({"v": VERSION} | asdict(self), indent=2, ensure_ascii=False).encode()


def read_record(path: Path) -> PlanRecord | None:
    """Return the plan record in that file, None without one. Raises StorageError when it cannot be read.

    A damaged record counts as plan mode that needs an approval, which is the strictest state.
    """
    try:
        raw = read_plain(path, _MAX_RECORD_BYTES)
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise storage_error(problem, path) from problem
    try:
        data = cast("dict[str, Any]", json.loads(raw))
        return _parse_record(data)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return PlanRecord(on=True, leaving=PlanExit.APPROVED)


def _parse_record(data: Mapping[str, Any]) -> PlanRecord:
    before = str(data["before"])
    return PlanRecord(
        on=data["on"] is True,
        file=str(data["file"]),
        before=str(Mode(before)) if before else "",
        leaving=str(PlanExit(data["leaving"])),
        waits=str(data.get("waits", "")),
        left_by=str(data.get("left_by", "")),
        granted=tuple(str(rule) for rule in data.get("granted", ())),
    )


Remind: TypeAlias = Callable[[bool], str]
"""Return the reminder for the next user message; empty for none.

The parameter is true at the start of a turn, false with results.
"""


def no_reminder(_begins: bool) -> str:
    return ""


class ReminderRole(StrEnum):
    """The role of the agent whose mode it is."""

    LEAD = "lead"
    MEMBER = "member"


class ReminderTexts(Struct, frozen=True):
    """Texts for a mode: `at_start` of the mode or a turn, `each_call` with results, `at_end` once after the mode."""

    at_start: str
    each_call: str
    at_end: str = ""


MODE_MEANINGS: Mapping[Mode, str] = {
    Mode.DEFAULT: "reading inside the directories is allowed, the rest asks",
    Mode.ACCEPT_EDITS: "as default, and files inside the directories may be changed",
    Mode.PLAN: "only what changes nothing, until a plan was approved",
    Mode.DELEGATE: "a lead only coordinates; a member edits and asks its lead",
    Mode.DONT_ASK: "as default, and what would ask is denied",
    Mode.BYPASS: "everything is allowed that no deny rule names",
    Mode.BUBBLE: "the mode of the agent that started it, also when that changes",
}
"""The meaning of each mode in one line, for people and for models."""


def describe_modes() -> list[tuple[str, str]]:
    """Return all modes that may be set, each with its meaning in a line."""
    return [(str(mode), line) for mode, line in MODE_MEANINGS.items() if mode is not Mode.BUBBLE]


REMINDERS: Mapping[tuple[ReminderRole, Mode], ReminderTexts] = {
    (ReminderRole.LEAD, Mode.DELEGATE): ReminderTexts(
        "You are in delegate mode: you coordinate, your teammates do the work.\n"
        "What works: TeamCreate, TeamDelete, Agent with a name, SendMessage, the Task tools, ListAgents, "
        "AskUserQuestion. Everything else is refused, reading files too. Give each piece of work to a teammate: as a "
        "task, or as a message. Only the user ends this mode.",
        "Delegate mode: coordinate. Teammates do all other work.",
        "Delegate mode has ended. All your tools work again.",
    ),
    (ReminderRole.LEAD, Mode.PLAN): ReminderTexts(
        "You are in plan mode: read, search and think; change nothing.\n"
        "When the plan is whole, call ExitPlanMode with it: its result says how you continue.",
        "Plan mode: read and think; change nothing.",
        "Plan mode has ended.",
    ),
    (ReminderRole.MEMBER, Mode.PLAN): ReminderTexts(
        "You are in plan mode: read, search and think; change nothing.\n"
        "When the plan is whole, call ExitPlanMode with it: its result says how you continue.",
        "Plan mode: read and think; change nothing.",
        "Plan mode has ended.",
    ),
}
"""The texts by role and mode. A mode without texts is announced once, when it changes."""


def mode_notice(mode: Mode) -> str:
    """Return the notice of a new mode."""
    return f"The permission mode is {mode} now: {MODE_MEANINGS[mode]}."


class ModeReminder:
    """The reminder of one agent. `mode` returns its current mode, its caller's when it has none.

    `known_mode` is the mode that its conversation knows, None when that is unknown. `announces`: mode changes are
    announced here; teammates learn of them by mail.
    """

    def __init__(
        self, mode: Callable[[], Mode], role: ReminderRole, known_mode: Mode | None, *, announces: bool
    ) -> None:
        self._mode = mode
        self._role = role
        self._known_mode = known_mode
        self._announces = announces
        self._full_text_next = True

    def __call__(self, begins: bool) -> str:
        """Return the reminder; see Remind."""
        mode = self._mode()
        before = self._known_mode
        texts = REMINDERS.get((self._role, mode))
        if mode is before and texts is None:
            return ""
        self._known_mode = mode
        lines: list[str] = []
        if mode is not before and self._announces:
            old = REMINDERS.get((self._role, before)) if before is not None else None
            if old is not None and old.at_end:
                lines.append(old.at_end)
            if texts is None:
                lines.append(mode_notice(mode))
        if texts is not None:
            whole = begins or self._full_text_next or mode is not before
            lines.append(texts.at_start if whole else texts.each_call)
        self._full_text_next = False
        return "\n".join(lines)
