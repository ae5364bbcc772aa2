"""Plan mode of one agent: entered, handed in, left, and the same again in the next process.

Nothing is changed while an agent plans, but its plan. What it is in is kept in a small file, written before the
policy follows: whoever goes on with the agent finds it as it was. Knows the policy and the plan's file; does not
know who approves a plan. Format: docs/formats/plans.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, cast

from teamwright.permissions.decide import Policy
from teamwright.permissions.grant_bounds import check_rules
from teamwright.permissions.rules import Rule
from teamwright.permissions.verdict import Mode, PermissionUpdate
from teamwright.protocol.errors import UsageError
from teamwright.protocol.values import dataclass
from teamwright.storage.atomic import storage_error, write_atomic
from teamwright.storage.plan_file import create_plan_file, read_plan, remove_if_empty, reserve_plan, write_plan
from teamwright.storage.read_bounded import read_plain

VERSION = 1

_MAX_RECORD_BYTES = 1_000_000
"""Bytes of a record that is still believed."""


class PlanExit(StrEnum):
    """How plan mode is left."""

    FREELY = "freely"
    """By the agent itself: it entered by itself, and its own rules hold again."""

    APPROVED = "approved"
    """When somebody approved the plan."""

    NEVER = "never"
    """A sub-agent that was started to plan: its answer is the plan."""


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """What is kept. `before` is the mode that comes afterwards; `waits` the request that is open, `left_by` the call
    that ended plan mode; `granted` are rules in rule syntax.
    """

    on: bool = False
    file: str = ""
    before: str = ""
    leaving: str = PlanExit.FREELY
    waits: str = ""
    left_by: str = ""
    granted: tuple[str, ...] = ()

    def encode(self) -> bytes:
        """The file's bytes."""
        return json.dumps({"v": VERSION} | asdict(self), indent=2, ensure_ascii=False).encode()


@dataclass(frozen=True, slots=True)
class PlanSubmission:
    """A plan as it was handed in by the call of this name; `rules` are what it would like to be granted with it.

    `again`: a kill cut the call off before.
    """

    plan: str
    file: Path
    rules: tuple[str, ...] = ()
    call: str = ""
    tool_use_id: str = ""
    is_rerun: bool = False


@dataclass(frozen=True, slots=True)
class PlanOutcome:
    """What became of a plan. `approved` None: it waits under `request` for `whom`; `why` is the reason of a no."""

    approved: bool | None
    by: str = ""
    reason: str = ""
    request: str = ""
    approver: str = ""


class PlanApproval(Protocol):
    """The port for whoever approves plans: filled in `app`."""

    async def submit(self, member: str, mode: PlanMode, submission: PlanSubmission) -> PlanOutcome:
        """Hand in a plan that needs an approval. Raises TeamwrightError when that cannot be; then nothing was asked."""
        ...


class PlanMode:
    """The plan mode of the agent with this policy.

    `plans` is the directory of plan files, `record` the file that keeps this (None: it ends with the process);
    `entered` says how the agent leaves a plan mode that it entered by itself, `otherwise` is the mode that comes after
    one that it was born with. `gate` is the policy that its calls are decided by, where that is another one.
    """

    def __init__(
        self,
        policy: Policy,
        plans: Path,
        record: Path | None,
        *,
        own_exit: PlanExit = PlanExit.FREELY,
        mode_after: Mode = Mode.BUBBLE,
        deciding_policy: Policy | None = None,
    ) -> None:
        self.policy = policy
        self.on_mode_change: Callable[[Mode, str], None] = _ignore_mode_change
        """Told of each change of mode, and who made it; filled when the agent is born."""
        self._deciding_policy = deciding_policy or policy
        self._plans = plans
        self._record_path = record
        self._own_exit = own_exit
        self._mode_after = mode_after
        self._record = PlanRecord()

    @property
    def is_on(self) -> bool:
        """Whether this agent itself is in plan mode."""
        return self.policy.mode is Mode.PLAN

    @property
    def is_inherited(self) -> bool:
        """Whether whoever started it plans: then it changes nothing either."""
        return self.policy.is_caller_planning

    @property
    def file(self) -> Path:
        """The file with the plan."""
        return Path(self._record.file)

    @property
    def exit_rule(self) -> PlanExit:
        """How it is left."""
        return PlanExit(self._record.leaving)

    @property
    def pending_request(self) -> str:
        """The request that waits for an answer; empty when none does."""
        return self._record.waits

    @property
    def ended_by_call(self) -> str:
        """The call that ended plan mode last."""
        return self._record.left_by

    # ── entering and leaving ─────────────────────────────────────────────────────────────────────────────────────

    def enter(self, exit_rule: PlanExit | None = None, by: str = "") -> Path:
        """Plan from now on; `by` is who said so, if it was another. Returns where the plan is to be written.

        Who planned by itself needs an approval from then on, if that is how it is to leave. Raises StorageError; then
        nothing changed.
        """
        if not (self.is_on and self._record.on):
            was_on = self.is_on
            before, usual = (self._mode_after, PlanExit.APPROVED) if was_on else (self.policy.mode, self._own_exit)
            self._begin(before, exit_rule or usual)
            if not was_on:
                self.policy.mode = Mode.PLAN
                self.on_mode_change(Mode.PLAN, by)
        elif exit_rule is PlanExit.APPROVED and self.exit_rule is PlanExit.FREELY:
            self._save(replace(self._record, leaving=exit_rule))
        return self.file

    def _begin(self, before: Mode, leaving: PlanExit) -> None:
        path = reserve_plan(self._plans)
        record = replace(self._record, on=True, file=str(path), before=str(before), waits="", left_by="")
        self._save(replace(record, leaving=leaving))
        self._deciding_policy.plan_file = path

    def set_pending_request(self, request: str) -> None:
        """The plan was handed in under this request; empty: none waits any more. Raises StorageError."""
        self._save(replace(self._record, waits=request))

    def leave(self, mode: Mode | None = None, *, by: str = "", call: str = "", granted: Sequence[str] = ()) -> Mode:
        """Plan no longer: the mode of before holds again, or this one; returns what now decides. Raises StorageError.

        `by` approved it, `call` names the call that ended it; `granted` are rules of this agent alone. A mode that
        somebody changed meanwhile stays as it is.
        """
        record, was_on = self._record, self.is_on
        after = mode or Mode(record.before or self._mode_after)
        rules = tuple(dict.fromkeys((*record.granted, *granted)))
        self._save(replace(record, on=False, waits="", left_by=call, before=str(after), granted=rules))
        self._apply_granted_rules()
        if was_on:
            self.policy.mode = after
            self.on_mode_change(self.policy.effective_mode, by)
        return self.policy.effective_mode

    def follow_mode_change(self, before: Mode | None = None) -> None:
        """Somebody changed the mode, from this one: plan mode is over by that, or begins. Raises StorageError."""
        if self.is_on and not self._record.on:
            self._begin(before or self._mode_after, PlanExit.APPROVED)
        elif self._record.on and not self.is_on:
            self._save(replace(self._record, on=False, waits="", before=str(self.policy.mode)))

    # ── the plan ─────────────────────────────────────────────────────────────────────────────────────────────────

    def read(self) -> str:
        """The plan as its file has it; empty without one. Raises StorageError, also when it is too long."""
        return read_plan(self.file) or ""

    def write(self, text: str) -> None:
        """Put the plan into its file. Raises StorageError."""
        write_plan(self.file, text)

    def remove_unused_file(self) -> None:
        """Remove a plan file in which nothing was ever written; it is made again with the next process."""
        if self._record.file:
            remove_if_empty(self.file)

    # ── the next process ─────────────────────────────────────────────────────────────────────────────────────────

    def restore(self) -> bool:
        """Be in what the record says; False without one. Raises StorageError."""
        record = None if self._record_path is None else read_record(self._record_path)
        if record is None:
            return False
        if record.on and not record.file:
            self.enter(PlanExit.APPROVED)
            return True
        self._record = record
        self._apply_granted_rules()
        if record.file:
            self._deciding_policy.plan_file = self.file
        if record.on:
            create_plan_file(self.file)
            if not self.is_on and self.policy.mode is not Mode.BUBBLE:
                self._record = replace(record, before=str(self.policy.mode))
            self.policy.mode = Mode.PLAN
        elif self.is_on and record.before:
            self.policy.mode = Mode(record.before)
        return True

    def remove_record(self) -> None:
        """Another life begins under the name: what is kept of an earlier one is not this one's. Raises StorageError."""
        if self._record_path is not None:
            try:
                self._record_path.unlink(missing_ok=True)
            except OSError as problem:
                raise storage_error(problem, self._record_path) from problem

    def _apply_granted_rules(self) -> None:
        self._deciding_policy.granted = tuple(rule for text in self._record.granted for rule in self._rules(text))

    def _rules(self, text: str) -> tuple[Rule, ...]:
        """The text as a rule; none for words that are no rule, and for a rule that reaches too far."""
        update = PermissionUpdate("addRules", rules=(text,))
        try:
            return check_rules(update, self.policy.scope, "granted with the plan", by_user=False)
        except UsageError:
            return ()

    def _save(self, record: PlanRecord) -> None:
        if self._record_path is not None and record != self._record:
            write_atomic(self._record_path, record.encode())
        self._record = record


def _ignore_mode_change(_mode: Mode, _by: str) -> None:
    """Nobody is told."""


def read_record(path: Path) -> PlanRecord | None:
    """The record in that file, None without one. Raises StorageError when it cannot be read.

    One that is damaged says that the agent plans, and needs an approval: the stricter of what it may have said.
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
