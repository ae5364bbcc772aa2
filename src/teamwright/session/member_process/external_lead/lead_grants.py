"""Grants of an external lead that come with an approval: for this incarnation of the member, and within bounds.

Nothing is saved permanently, and bypassPermissions is never granted at run time. The deny rules of the member's own
settings always apply. Depends on policies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from teamwright.permissions.decide import Policy
from teamwright.permissions.grant_bounds import check_mode
from teamwright.permissions.verdict import Mode, PermissionAnswer, PermissionUpdate
from teamwright.protocol.errors import TeamwrightError, UsageError
from teamwright.protocol.events import Emit, ModeChanged, Notice
from teamwright.protocol.values import dataclass
from teamwright.session.factory.agent_policies import AgentPolicies

_SOURCE = "granted by the lead's mail"


@dataclass(slots=True)
class ExternalLeadGrants:
    """Grants to the member of this name. `kept` is called with the mode, for its next process."""

    name: str
    policies: AgentPolicies
    emit: Emit
    kept: Callable[[Mode], None]
    may_bypass: bool = False

    async def __call__(self, owner: str, policy: Policy, answer: PermissionAnswer) -> None:
        """Implement the grant port of `agent`. A grant that fails is reported and left out. Never raises."""
        for update in answer.updates:
            try:
                if update.kind == "setMode":
                    self._enter(check_mode(update, policy.effective_mode))
                else:
                    self._hold(replace(update, destination="session"))
            except TeamwrightError as problem:
                self._tell(f"not granted: {problem.what}")

    def in_mode(self, text: str) -> None:
        """Set the mode that the lead named with the approval of a plan, as far as it is allowed."""
        wished = next((mode for mode in Mode if mode == text), None)
        if wished is Mode.BYPASS and not self.may_bypass:
            self._tell(f"{Mode.BYPASS} is not granted to a running member: the mode is {Mode.ACCEPT_EDITS}")
            wished = Mode.ACCEPT_EDITS
        try:
            if wished is not Mode.BYPASS:
                wished = check_mode(
                    PermissionUpdate("setMode", mode=text if wished is None else str(wished)), Mode.DEFAULT
                )
            self._enter(wished, told=True)
        except TeamwrightError as problem:
            self._tell(f"the mode stays as it was: {problem.what}")

    def _enter(self, mode: Mode, *, told: bool = False) -> None:
        """Bound the member and its sub-agents by this mode from the next call on. Raises UsageError."""
        session = self.policies.session
        if mode is Mode.PLAN:
            raise UsageError("usage", "only the member can enter plan mode, or it is started in it")
        if session.mode is mode:
            return
        session.mode = mode
        self.kept(mode)
        if not told:
            self.emit(ModeChanged(member=self.name, mode=str(mode), by="lead"))

    def _hold(self, update: PermissionUpdate) -> None:
        for one in list(self.policies):
            if one.mode is not Mode.BUBBLE:
                one.apply_update(update, _SOURCE, by_user=False)

    def _tell(self, text: str) -> None:
        self.emit(Notice(member=self.name, text=text, level="warning"))
