"""The suggestion of the next line in the empty input line: it is asked for after a turn, and gone when work begins."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from msgspec import Struct

from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.time_limit import time_limit
from teamwright.session.session import Session
from teamwright.ui.display_text import one_line

ANSWER_S = 20.0
"""Seconds after which no suggestion is waited for."""


class LineSuggestion(Struct):
    """The suggestion of one screen. `on_change` redraws the input line; `mask` masks secrets."""

    session: Session
    mask: Callable[[str], str]
    on_change: Callable[[], None]
    text: str = ""
    _task: asyncio.Task[None] | None = None

    def ask(self) -> None:
        """Ask for a suggestion, unless the setting is off or a cap is spent. It is shown when it comes."""
        self.clear()
        if self.session.settings.side_calls.prompt_suggestion:
            self._task = asyncio.create_task(self._ask(), name="a suggestion of the next line")

    def clear(self) -> None:
        """Remove the suggestion, and end its call."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        if self.text:
            self.text = ""
            self.on_change()

    async def close(self) -> None:
        """End the call, and wait for its end."""
        task = self._task
        self.clear()
        if task is not None:
            await asyncio.gather(task, return_exceptions=True)

    async def _ask(self) -> None:
        from teamwright.agent.prompt_suggestion import suggest_prompt

        if not self.session.side_call_caps.admit():
            return
        with contextlib.suppress(TeamwrightError, TimeoutError):
            async with time_limit(ANSWER_S):
                self.text = one_line(self.mask(await suggest_prompt(self.session.lead.agent)))
                self.on_change()
