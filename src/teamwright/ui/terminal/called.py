"""Commands that people wrote, called at a terminal: each runs beside the line being typed, since it may ask something.

Knows sessions through `app`; shows what comes of it and writes nothing itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import field

from teamwright.app.session import Session
from teamwright.app.skills.calling import call_command
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.values import dataclass
from teamwright.ui.terminal.parsing import Called
from teamwright.ui.terminal.text import clean


@dataclass(slots=True)
class Calls:
    """The commands that are being prepared, or answered by a sub-agent."""

    session: Session
    show: Callable[[Sequence[str]], None]
    failed: Callable[[TeamwrightError], None]
    _tasks: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])

    @property
    def running(self) -> bool:
        """Whether one is."""
        return bool(self._tasks)

    def start(self, called: Called) -> None:
        """Call it; what comes of it is shown when it is there."""
        task = asyncio.create_task(self._run(called), name=f"command /{called.name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def cancel(self) -> None:
        """End those that run; nothing was told to the lead by them."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def interrupt(self) -> None:
        """End those that run, without waiting, and say so."""
        for task in self._tasks:
            task.cancel()
            self.show([f"{task.get_name().removeprefix('command ')} was ended; the lead was not notified."])

    async def _run(self, called: Called) -> None:
        try:
            answer = await call_command(self.session, called.name, called.rest)
        except TeamwrightError as problem:
            self.failed(problem)
            return
        if answer:
            self.show([clean(line) for line in answer.split("\n")])
        elif self.session.lead.busy:
            self.show(["  the lead reads it before its next step"])
