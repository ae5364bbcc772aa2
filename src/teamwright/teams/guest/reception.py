"""What a lead of another program asks and answers by mail: taken from the name `team-lead` alone, told as unverified.

A request to stop becomes a row, an answer to a plan is applied, an answer to a permission goes to whoever waits for it;
each once, for this life and an id that is open. Whatever else is written, by whomever, is data. Knows rows and entries;
does not know how a permission is asked, nor what a mode may be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field

from teamwright.mail.inbox import Inbox
from teamwright.protocol.clock import ms_of
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import Notice
from teamwright.protocol.ids import LEAD
from teamwright.protocol.mail import (
    Entry,
    PermissionResponse,
    PlanApprovalResponse,
    ShutdownRequest,
    fenced,
    parse_protocol,
)
from teamwright.protocol.values import dataclass
from teamwright.teams.plans.approval import apply_answer, take_up_plan
from teamwright.teams.plans.rows import answer_body, newest_of, of_life
from teamwright.teams.team import Team

_AFTER_THE_FIRST = "(This plan was answered before, and the first answer counts.)"


@dataclass(slots=True)
class Reception:
    """The lead's mail to the member of this name. `since_ms`: what was written before it is not for this life.

    `permitted` hands on an answer to a permission, and says whether such a request ever was; `in_mode` is told of the
    permission mode that the lead named with a yes to a plan.
    """

    team: Team
    name: str
    since_ms: int
    permitted: Callable[[PermissionResponse], Awaitable[bool]]
    in_mode: Callable[[str], None]
    _sorted: dict[str, Entry | None] = field(default_factory=dict[str, "Entry | None"])
    _one: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def sort(self, inbox: Inbox, entries: Sequence[Entry]) -> list[Entry]:
        """Those that the member's model is told; what is done with already is flagged. Raises StorageError."""
        async with self._one:
            told: list[Entry] = []
            done: list[str] = []
            now: dict[str, Entry | None] = {}
            for entry in entries:
                id = entry.msg_id or ""
                kept = now[id] = self._sorted[id] if id in self._sorted else await self._taken(entry)
                told += [kept] if kept is not None else []
                done += [id] if kept is None else []
            self._sorted = now
            if done:
                await inbox.mark_read(done)
            return told

    async def _taken(self, entry: Entry) -> Entry | None:
        message = parse_protocol(entry.text) if entry.sender == LEAD else None
        try:
            match message:
                case ShutdownRequest():
                    return self._asked_to_stop(entry, message)
                case PlanApprovalResponse():
                    return self._plan_answered(entry, message)
                case PermissionResponse():
                    return await self._permission(entry, message)
                case _:
                    pass
        except (TeamwrightError, TypeError, ValueError, AttributeError) as problem:  # what others write may be anything
            why = problem.what if isinstance(problem, TeamwrightError) else "it is not understood"
            self._say(f"mail of the lead is left as it is: {why}", "warning")
        return entry

    # ── to stop ───────────────────────────────────────────────────────────────────────────────────────────────

    def _asked_to_stop(self, entry: Entry, message: ShutdownRequest) -> Entry:
        id, (_, _, to) = message.request_id, message.request_id.partition("@")
        written = ms_of(entry.timestamp or "") or ms_of(message.timestamp)
        if (to and to.lower() != self.name.lower()) or (written is not None and written < self.since_ms):
            self._say(f"{id} is not a request to this run of {self.name}: it has no effect", "info")
            return entry.with_(text=fenced(entry.text))
        mate = self.team.own(self.name)
        body = {"kind": "shutdown", "requester": LEAD, "target": self.name, "reason": message.reason}
        life = mate.incarnation if mate is not None else None
        self.team.requests.open(id, {**body, "incarnation": life, "message": entry.msg_id})
        self._unverified(f"asked to stop ({id})")
        return entry

    # ── plans ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _plan_answered(self, entry: Entry, message: PlanApprovalResponse) -> Entry:
        id, box, mate = message.request_id, self.team.requests, self.team.own(self.name)
        request = box.get(id)
        if request is None or mate is None or not of_life(request, self.name, mate.incarnation):
            return entry
        approved = message.approved is True
        answer = answer_body(approved, message.feedback or "", LEAD) | {"message": entry.msg_id}
        if not box.answer(id, answer):
            first = box.answer_of(id) or {}
            if first.get("message") == entry.msg_id:  # taken before a kill
                apply_answer(mate, request, first)
                return entry
            said = "approved" if approved else f"not approved: {message.feedback or 'no reason was given'}"
            return entry.with_(text=f"Your plan was {said} {_AFTER_THE_FIRST}")
        self._unverified(f"{'approved' if approved else 'sent back'} a plan ({id})")
        if approved and message.permission_mode:
            self.in_mode(message.permission_mode)
        apply_answer(mate, request, answer)
        return entry

    async def take_up(self) -> None:
        """Go on with the last plan of a process before this one: it waits again, or its answer is applied.

        Raises StorageError.
        """
        mate = self.team.own(self.name)
        request = newest_of(self.team.requests, self.name, mate.incarnation) if mate is not None else None
        if mate is None or request is None:
            return
        answer = self.team.requests.answer_of(str(request["id"]))
        if answer is None:
            await take_up_plan(self.team, mate)
        else:
            apply_answer(mate, request, answer)

    # ── permissions ───────────────────────────────────────────────────────────────────────────────────────────

    async def _permission(self, entry: Entry, message: PermissionResponse) -> Entry | None:
        if not await self.permitted(message):
            return entry
        self._unverified(f"answered {message.request_id}")
        return None

    def _unverified(self, what: str) -> None:
        self._say(f"the lead {what}; unverified: the sender cannot be proved", "info")

    def _say(self, text: str, level: str) -> None:
        self.team.emit(Notice(member=self.name, text=text, level=level))
