"""The offer to run commands that the sandbox holds without a question, made once to the person at the terminal.

Loaded only for a session at a terminal whose user has not set the setting yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from teamwright.permissions.verdict import Approver, PermissionAnswer, Question
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import Emit, Notice
from teamwright.protocol.ids import LEAD
from teamwright.sandbox.policy import AUTO_ALLOW, NetworkAccess
from teamwright.session.preparation import SessionContext

if TYPE_CHECKING:
    from teamwright.sandbox.sandbox import Sandbox

ACCEPT = "Run them without a question"
DECLINE = "Ask about them, as before"

_NETWORK = {
    NetworkAccess.DENY: "They reach no host.",
    NetworkAccess.ASK: "The first connection to each host asks.",
    NetworkAccess.ALLOW: "They reach every host, because sandbox.network is allow.",
}


class AutoAllowOffer(Struct):
    """An approver that asks another one, and offers the setting once. Implements `permissions.verdict.Approver`."""

    approver: Approver
    context: SessionContext
    sandbox: Callable[[], Sandbox]
    emit: Emit
    is_made: bool = False

    async def ask(self, question: Question) -> PermissionAnswer:
        """Return the answer of the approver. The setting is offered before the allowed command runs."""
        answer = await self.approver.ask(question)
        # Another process, a hook or the lead may have answered: only the person at this terminal decides for the user.
        if answer.allowed and answer.by == "terminal" and question.auto_allow_answers and not self.is_made:
            self.is_made = True
            sandbox = self.sandbox()
            if sandbox.holds_all and not sandbox.settings.auto_allow:
                await self._offer(sandbox)
        return answer

    async def _offer(self, sandbox: Sandbox) -> None:
        """Ask the person, and keep both answers in the user's settings, so that no later session asks."""
        question = Question(LEAD, "Bash", "question", self._text(sandbox), "", options=(ACCEPT, DECLINE), owner=LEAD)
        answer = await self.approver.ask(question)
        if not answer.allowed or answer.by != "terminal":
            return
        accepts = answer.text.strip().lower() in {ACCEPT.lower(), "y", "yes"}
        try:
            text = await asyncio.to_thread(self._store, accepts)
        except TeamwrightError as problem:
            self.emit(Notice(member=LEAD, text=f"{AUTO_ALLOW} is not changed: {problem.what}", level="warning"))
            return
        if accepts:
            sandbox.turn_on_auto_allow()
        self.emit(Notice(member=LEAD, text=text))

    def _text(self, sandbox: Sandbox) -> str:
        return (
            "May commands like this one run without a question from now on, in all projects?\n"
            f"The sandbox ({sandbox.implementation().name}) lets them change only the session's directories and caches,"
            f" and hides credentials. {_NETWORK[sandbox.settings.network]}\n"
            "Deny and ask rules and the rules about git still apply."
        )

    def _store(self, accepts: bool) -> str:
        """Store the answer in the user's settings, and return a sentence that says so. Raises as `set_value` does."""
        from teamwright.config.settings.edit import SettingTarget, set_value  # loaded only for an answer

        value = "true" if accepts else "false"
        change = set_value(SettingTarget(self.context.home, self.context.cwd), AUTO_ALLOW, value)
        return f"saved in {change.file}: {AUTO_ALLOW} {value}"
