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

from teamwright.permissions.bounds import check_rules
from teamwright.permissions.decide import Policy
from teamwright.permissions.rule import Rule
from teamwright.permissions.verdict import Mode, Update
from teamwright.protocol.errors import UsageError
from teamwright.protocol.values import dataclass
from teamwright.storage.atomic import storage_error, write_atomic
from teamwright.storage.plain import read_plain
from teamwright.storage.plan_file import drop_if_empty, keep_plan, read_plan, reserve_plan, write_plan

VERSION = 1

_RECORD_MOST = 1_000_000
"""Bytes of a record that is still believed."""


class Leaving(StrEnum):
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
    leaving: str = Leaving.FREELY
    waits: str = ""
    left_by: str = ""
    granted: tuple[str, ...] = ()

    def encode(self) -> bytes:
        """The file's bytes."""
        return json.dumps({"v": VERSION} | asdict(self), indent=2, ensure_ascii=False).encode()


@dataclass(frozen=True, slots=True)
class Submission:
    """A plan as it was handed in by the call of this name; `rules` are what it would like to be granted with it.

    `again`: a kill cut the call off before.
    """

    plan: str
    file: Path
    rules: tuple[str, ...] = ()
    call: str = ""
    tool_use_id: str = ""
    again: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a plan. `approved` None: it waits under `request` for `whom`; `why` is the reason of a no."""

    approved: bool | None
    by: str = ""
    why: str = ""
    request: str = ""
    whom: str = ""


class Approval(Protocol):
    """The port for whoever approves plans: filled in `app`."""

    async def submit(self, member: str, mode: PlanMode, given: Submission) -> Outcome:
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
        entered: Leaving = Leaving.FREELY,
        otherwise: Mode = Mode.BUBBLE,
        gate: Policy | None = None,
    ) -> None:
        self.policy = policy
        self.tell: Callable[[Mode, str], None] = _nobody
        """Told of each change of mode, and who made it; filled when the agent is born."""
        self._gate = gate or policy
        self._plans = plans
        self._path = record
        self._entered = entered
        self._otherwise = otherwise
        self._record = PlanRecord()

    @property
    def on(self) -> bool:
        """Whether this agent itself is in plan mode."""
        return self.policy.mode is Mode.PLAN

    @property
    def inherited(self) -> bool:
        """Whether whoever started it plans: then it changes nothing either."""
        return self.policy.held_to_plan

    @property
    def file(self) -> Path:
        """The file with the plan."""
        return Path(self._record.file)

    @property
    def leaving(self) -> Leaving:
        """How it is left."""
        return Leaving(self._record.leaving)

    @property
    def waits(self) -> str:
        """The request that waits for an answer; empty when none does."""
        return self._record.waits

    @property
    def left_by(self) -> str:
        """The call that ended plan mode last."""
        return self._record.left_by

    # ── entering and leaving ─────────────────────────────────────────────────────────────────────────────────────

    def enter(self, leaving: Leaving | None = None, by: str = "") -> Path:
        """Plan from now on; `by` is who said so, if it was another. Returns where the plan is to be written.

        Who planned by itself needs an approval from then on, if that is how it is to leave. Raises StorageError; then
        nothing changed.
        """
        if not (self.on and self._record.on):
            was_on = self.on
            before, usual = (self._otherwise, Leaving.APPROVED) if was_on else (self.policy.mode, self._entered)
            self._begin(before, leaving or usual)
            if not was_on:
                self.policy.mode = Mode.PLAN
                self.tell(Mode.PLAN, by)
        elif leaving is Leaving.APPROVED and self.leaving is Leaving.FREELY:
            self._keep(replace(self._record, leaving=leaving))
        return self.file

    def _begin(self, before: Mode, leaving: Leaving) -> None:
        path = reserve_plan(self._plans)
        record = replace(self._record, on=True, file=str(path), before=str(before), waits="", left_by="")
        self._keep(replace(record, leaving=leaving))
        self._gate.plan_file = path

    def waits_for(self, request: str) -> None:
        """The plan was handed in under this request; empty: none waits any more. Raises StorageError."""
        self._keep(replace(self._record, waits=request))

    def leave(self, mode: Mode | None = None, *, by: str = "", call: str = "", granted: Sequence[str] = ()) -> Mode:
        """Plan no longer: the mode of before holds again, or this one; returns what now decides. Raises StorageError.

        `by` approved it, `call` names the call that ended it; `granted` are rules of this agent alone. A mode that
        somebody changed meanwhile stays as it is.
        """
        record, was_on = self._record, self.on
        after = mode or Mode(record.before or self._otherwise)
        rules = tuple(dict.fromkeys((*record.granted, *granted)))
        self._keep(replace(record, on=False, waits="", left_by=call, before=str(after), granted=rules))
        self._grant()
        if was_on:
            self.policy.mode = after
            self.tell(self.policy.lasting_mode, by)
        return self.policy.lasting_mode

    def changed(self, before: Mode | None = None) -> None:
        """Somebody changed the mode, from this one: plan mode is over by that, or begins. Raises StorageError."""
        if self.on and not self._record.on:
            self._begin(before or self._otherwise, Leaving.APPROVED)
        elif self._record.on and not self.on:
            self._keep(replace(self._record, on=False, waits="", before=str(self.policy.mode)))

    # ── the plan ─────────────────────────────────────────────────────────────────────────────────────────────────

    def read(self) -> str:
        """The plan as its file has it; empty without one. Raises StorageError, also when it is too long."""
        return read_plan(self.file) or ""

    def write(self, text: str) -> None:
        """Put the plan into its file. Raises StorageError."""
        write_plan(self.file, text)

    def drop_unused(self) -> None:
        """Remove a plan file in which nothing was ever written; it is made again with the next process."""
        if self._record.file:
            drop_if_empty(self.file)

    # ── the next process ─────────────────────────────────────────────────────────────────────────────────────────

    def restore(self) -> bool:
        """Be in what the record says; False without one. Raises StorageError."""
        record = None if self._path is None else read_record(self._path)
        if record is None:
            return False
        if record.on and not record.file:
            self.enter(Leaving.APPROVED)
            return True
        self._record = record
        self._grant()
        if record.file:
            self._gate.plan_file = self.file
        if record.on:
            keep_plan(self.file)
            if not self.on and self.policy.mode is not Mode.BUBBLE:
                self._record = replace(record, before=str(self.policy.mode))
            self.policy.mode = Mode.PLAN
        elif self.on and record.before:
            self.policy.mode = Mode(record.before)
        return True

    def forget(self) -> None:
        """Another life begins under the name: what is kept of an earlier one is not this one's. Raises StorageError."""
        if self._path is not None:
            try:
                self._path.unlink(missing_ok=True)
            except OSError as problem:
                raise storage_error(problem, self._path) from problem

    def _grant(self) -> None:
        self._gate.granted = tuple(rule for text in self._record.granted for rule in self._rules(text))

    def _rules(self, text: str) -> tuple[Rule, ...]:
        """The text as a rule; none for words that are no rule, and for a rule that reaches too far."""
        update = Update("addRules", rules=(text,))
        try:
            return check_rules(update, self.policy.scope, "granted with the plan", by_user=False)
        except UsageError:
            return ()

    def _keep(self, record: PlanRecord) -> None:
        if self._path is not None and record != self._record:
            write_atomic(self._path, record.encode())
        self._record = record


def _nobody(_mode: Mode, _by: str) -> None:
    """Nobody is told."""


def read_record(path: Path) -> PlanRecord | None:
    """The record in that file, None without one. Raises StorageError when it cannot be read.

    One that is damaged says that the agent plans, and needs an approval: the stricter of what it may have said.
    """
    try:
        raw = read_plain(path, _RECORD_MOST)
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise storage_error(problem, path) from problem
    try:
        data = cast("dict[str, Any]", json.loads(raw))
        return _record(data)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return PlanRecord(on=True, leaving=Leaving.APPROVED)


def _record(data: Mapping[str, Any]) -> PlanRecord:
    before = str(data["before"])
    return PlanRecord(
        on=data["on"] is True,
        file=str(data["file"]),
        before=str(Mode(before)) if before else "",
        leaving=str(Leaving(data["leaving"])),
        waits=str(data.get("waits", "")),
        left_by=str(data.get("left_by", "")),
        granted=tuple(str(rule) for rule in data.get("granted", ())),
    )
