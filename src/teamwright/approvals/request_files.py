"""The request files of a running session, in its team's directory, or in its own before it has a team.

Opens, answers and retires the files, and reads the answers of other processes. Depends on the team and its request
stores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from teamwright.approvals.requests_on_disk import (
    REQUESTS,
    answer_body,
    doorbell_of,
    parse_answer,
    parse_request,
    request_body,
)
from teamwright.permissions.verdict import Question
from teamwright.protocol.errors import TeamRefused, TeamwrightError
from teamwright.protocol.pending_request import PendingRequest
from teamwright.protocol.pending_request_events import RequestAnswer
from teamwright.protocol.timestamps import now_ms
from teamwright.requests.request_store import RequestStore
from teamwright.requests.stop_request import LeadProcess
from teamwright.storage.doorbell import listen
from teamwright.storage.file_lease import lease_path
from teamwright.teams.team import SessionTeam

CUT_OFF = "the process that asked ended before anybody answered"


class RequestFiles(Struct):
    """The request files of the session in this directory, or in that of its team.

    `watch` calls back when a directory changes, for answers without a doorbell.
    """

    directory: Path
    session: str
    team: SessionTeam | None = None
    watch: Callable[[Path, Callable[[], None]], Callable[[], None]] | None = None
    _hung: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    _lead_process: LeadProcess | None = None

    @property
    def lead_process(self) -> LeadProcess:
        """The incarnation of this process, to which its requests are bound."""
        if self._lead_process is None:
            self._lead_process = LeadProcess.from_lease(self.session, lease_path(self.directory))
        return self._lead_process

    def open(
        self,
        id: str,
        question: Question,
        suggestions: Sequence[Mapping[str, Any]],
        *,
        target: str,
        timeout_s: float | None,
        look: Callable[[], None],
    ) -> RequestStore:
        """Write the request. Return the store that contains it. Raises StorageError.

        `look` is called when an answer may have arrived.
        """
        team = self.team if self.team is not None and self.team.exists else None
        box = team.requests if team is not None else self._own_box
        if team is None:
            self._open_doorbell(look)
        owner = team.find(question.owner) if team is not None else None
        body = request_body(question, suggestions, self.lead_process, owner.incarnation if owner is not None else None)
        opened = now_ms()
        times = {"opened_at": opened, "deadline": None if timeout_s is None else opened + int(timeout_s * 1000)}
        box.open(id, {**body, "target": target, **times})
        return box

    def answer(self, box: RequestStore, id: str, answer: RequestAnswer, call: str = "") -> bool:
        """Record an answer and return True when it is the first. Without a writable file, only memory counts.

        `call` names the tool call of a lead that answers.
        """
        try:
            return box.answer(id, answer_body(answer, answer.by) | ({"call": call} if call else {}))
        except TeamwrightError:
            return True

    def answer_in(self, box: RequestStore, id: str) -> RequestAnswer | None:
        """Return the answer that another process wrote; None without one."""
        with suppress(TeamwrightError):
            body = box.get_answer(id)
            return None if body is None else parse_answer(body)
        return None

    def closed_request(self, id: str) -> tuple[PendingRequest, RequestAnswer, str] | None:
        """Return a closed request, its answer and the tool call that gave it; None for an unknown id."""
        for box in self._boxes():
            with suppress(TeamwrightError):
                found = box.get_answered(id)
                parsed = parse_request(found[0]) if found is not None else None
                if found is not None and parsed is not None:
                    return parsed[0], parse_answer(found[1]), str(found[1].get("call") or "")
        return None

    def retire(self, box: RequestStore, id: str) -> None:
        """Retire the closed request, so that it is not read again."""
        with suppress(TeamwrightError):
            box.retire(id)

    def late_answers(self) -> Iterator[dict[str, Any]]:
        """Yield the late notes of other processes, each once: late answers, and attempts of agents' commands."""
        for box in self._boxes():
            with suppress(TeamwrightError):
                yield from box.take_late_answers()

    def close_abandoned(self) -> Iterator[tuple[PendingRequest, RequestAnswer]]:
        """Close the requests of earlier incarnations, which no process waits for. Yield each with its answer.

        A request that was answered just before the kill, or since then, keeps its answer. No call of these ran: a
        process retires a request before it runs the call.
        """
        for box in self._boxes():
            with suppress(TeamwrightError):
                yield from self._abandoned_in(box)

    def _abandoned_in(self, box: RequestStore) -> Iterator[tuple[PendingRequest, RequestAnswer]]:
        for body in (*box.open_requests(), *(request for request, _ in box.answered_requests())):
            parsed = parse_request(body)
            if parsed is None or parsed[1] == self.lead_process:
                continue
            id, cut_off = parsed[0].id, RequestAnswer(verdict="deny", text=CUT_OFF, by="cancelled")
            with suppress(TeamRefused):
                box.answer(id, answer_body(cut_off, cut_off.by))
            counts = self.answer_in(box, id) or cut_off
            box.retire(id)
            yield parsed[0], counts

    def close(self) -> None:
        """Stop listening for answers."""
        while self._hung:
            self._hung.pop()()

    @property
    def _own_box(self) -> RequestStore:
        return RequestStore(self.directory / REQUESTS)

    def _boxes(self) -> Iterator[RequestStore]:
        yield self._own_box
        if self.team is not None and self.team.exists:
            yield self.team.requests

    def use_team(self, team: SessionTeam) -> None:
        """Write the requests to the files of this team from now on, once it exists."""
        self.team = team

    def _open_doorbell(self, look: Callable[[], None]) -> None:
        """Open the session's own doorbell; a team has one already."""
        if self._hung:
            return
        box = self._own_box.directory
        self._hung.append(listen(doorbell_of(box), look))
        if self.watch is not None:
            self._hung.append(self.watch(box, look))
