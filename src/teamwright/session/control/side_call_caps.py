"""The caps of a session on model calls beside the agents' work that no person asked for."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from teamwright.agent.prompt_suggestion import PROMPT_SUGGESTION
from teamwright.budgets.budget_tracker import BudgetTracker
from teamwright.config.settings.settings import SideCallSettings
from teamwright.protocol.events import Emit, Notice

UNASKED_PURPOSES: Sequence[str] = (PROMPT_SUGGESTION,)
"""The purposes of these calls."""


class SideCallCaps(Struct):
    """The caps, and what was used of them. A spent cap ends all such calls, with one notice."""

    settings: SideCallSettings
    budget_tracker: BudgetTracker
    emit: Emit
    _begun: int = 0
    _is_spent: bool = False

    def admit(self) -> bool:
        """Return True when one more call may begin, and count it. The usage of cancelled calls is not known."""
        if self._is_spent:
            return False
        used = self.budget_tracker.usage_beside(UNASKED_PURPOSES)
        calls, usd = max(self._begun, used.requests), used.usd or 0.0
        if calls < self.settings.max_calls and usd < self.settings.max_usd:
            self._begun = calls + 1
            return True
        self._is_spent = True
        cap = f"side_calls.max_calls, {calls}" if calls >= self.settings.max_calls else f"side_calls.max_usd, {usd:.4f}"
        self.emit(Notice(member="system", text=f"no more side calls in this session: {cap}, is reached"))
        return False
