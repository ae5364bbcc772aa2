"""A request of a person's command to the process that leads a team: a file and a ring of the lead's doorbell."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from teamwright.protocol.ids import LEAD
from teamwright.protocol.time_limit import time_limit
from teamwright.requests.request_store import (
    LeadProcess,
    RequestStore,
    acknowledged_for_s,
    acknowledgement_path,
    file_stem,
)
from teamwright.saved.team_access import LeadProcessWatch, TeamAddress
from teamwright.storage.doorbell import TeamDoorbells
from teamwright.storage.file_watcher import Watcher

TAKEN_S = 10.0
"""Seconds for the lead's process to begin with a request, before it counts as hung."""


class LeadRequest(Protocol):
    """A request to the process that leads a team."""

    @property
    def id(self) -> str:
        """Its id in the request files."""
        ...

    def open_in(self, store: RequestStore, within_s: float) -> None:
        """Open it. `within_s`: seconds that the requester waits for an acknowledgement. Raises StorageError."""
        ...

    def withdraw(self, store: RequestStore) -> None:
        """Close it: no answer is expected from now on."""
        ...


def lead_process(target: TeamAddress) -> LeadProcess:
    """Return the process that leads the team, as its lease names it."""
    assert target.file is not None
    return LeadProcess.from_lease(target.file.lead.session, Path(target.file.lead.lease))


class LeadRequester(Struct):
    """One request, from its creation to its answer."""

    target: TeamAddress
    request: LeadRequest
    lead: LeadProcessWatch | None
    is_acknowledged: bool = False
    """True when the lead's process carries out the request: only its answer is late."""

    async def answered(self, timeout_s: float | None, taken_s: float) -> dict[str, Any] | None:
        """Return the answer; None when the lead's process ended without one, or does not answer in time.

        It has `taken_s` seconds to begin, then the time that it announces; `timeout_s` bounds both. An unanswered
        request is withdrawn, so that it is not carried out later.
        """
        box = RequestStore.of_team(self.target.home, self.target.directory)
        self.request.open_in(box, taken_s)
        try:
            async with Watcher() as watcher:
                return await self._wait(box, watcher, timeout_s, taken_s)
        finally:
            self.request.withdraw(box)

    async def _wait(
        self, box: RequestStore, watcher: Watcher, timeout_s: float | None, taken_s: float
    ) -> dict[str, Any] | None:
        news = asyncio.Event()
        answer = box.directory / f"{file_stem(self.request.id)}.answer.json"
        for path in (answer, acknowledgement_path(box, self.request.id)):
            watcher.follow(path, news.set)
        deaf = self.lead.on_end(news.set) if self.lead is not None else None
        loop = asyncio.get_running_loop()
        begun = loop.time()
        patience = taken_s
        TeamDoorbells(self.target.home, self.target.directory).ring(LEAD)
        try:
            while True:
                news.clear()
                alive = self.lead is None or self.lead.is_alive
                if (found := box.get_answer(self.request.id)) is not None or not alive:
                    return found
                granted = acknowledged_for_s(box, self.request.id)
                if granted is not None:
                    patience = loop.time() - begun + granted
                left = (patience if timeout_s is None else min(patience, timeout_s)) - (loop.time() - begun)
                async with time_limit(left):
                    await news.wait()
        except TimeoutError:
            self.is_acknowledged = acknowledged_for_s(box, self.request.id) is not None
            return None
        finally:
            if deaf is not None:
                deaf()
