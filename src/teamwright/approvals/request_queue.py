"""The queue of pending requests, which any user interface, any process, a policy or the lead may answer.

Each request is a file and an event. The first answer counts, and the deadline denies with a reason. Implements the port
of `permissions`. A member in mode delegate asks its lead by mail; a user's setting lets the lead answer for every
member. Without that setting the lead allows only calls that it is allowed to make.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.approvals.external_member_permissions import ExternalMemberPermissions
from teamwright.approvals.request_files import RequestFiles, parse_answer
from teamwright.permissions.verdict import Mode, PermissionAnswer, PermissionUpdate, Question, where_allowed
from teamwright.protocol.errors import StorageError, TeamRefused, TeamwrightError, UsageError
from teamwright.protocol.events import Emit, MessageSent, Notice, RequestAnswer, RequestClosed, RequestOpened
from teamwright.protocol.ids import LEAD, did_you_mean, iso_time, keyed_id, request_id
from teamwright.protocol.mail import InboxEntry, PermissionRequest, PermissionResponse
from teamwright.protocol.messages import decode, encode
from teamwright.protocol.pending_request import PendingRequest
from teamwright.protocol.program_log import log_failure
from teamwright.protocol.time_limit import time_limit
from teamwright.requests.request_store import REFUSED, RequestStore, is_asked_again
from teamwright.teams.team import SessionTeam

Answerer: TypeAlias = Callable[[Question], Awaitable[PermissionAnswer | None]]
"""A hook that answers a question, or returns None to leave it to the next one."""


OnRequest: TypeAlias = Callable[[RequestOpened], Awaitable[object] | None]
"""An approver of an embedding program: called with each request; answers through the request's methods.

A plain function returns the result of `allow`, `deny` or `answer`, and must not block. None leaves the request open for
other approvers, until its deadline.
"""


NO_APPROVER = "no user is present to ask"


AGAIN = "If it is still needed, make the call again."
"""The advice to an agent whose request was allowed too late."""


_PREFIX = {"permission": "perm"}
"""The beginnings of request ids; other kinds of requests have ids that begin with the kind."""


class _PendingRequest(Struct):
    """One open request: its question, the store of its file (None: the disk refused), and the answer to come."""

    id: str
    question: Question
    answered: asyncio.Future[RequestAnswer]
    box: RequestStore | None = None
    event: RequestOpened | None = None


class RequestQueue(Struct):
    """The queue of one run. `attended` returns True when an approver is present; without one a question is denied.

    `timeout_s` is the deadline of a request, in seconds; None waits without limit, for a person at a terminal.
    `answerer` names the approver here: `terminal` or `program`. `waits`: a request stays open until its deadline
    although no approver is here, because another process may answer it. `answerers` are tried in order before any
    approver.
    """

    emit: Emit
    attended: Callable[[], bool]
    files: RequestFiles
    timeout_s: float | None = None
    on_request: OnRequest | None = None
    answerer: str = "terminal"
    waits: bool = False
    answerers: list[Answerer] = field(default_factory=list[Answerer])
    lead: LeadApprover | None = None
    external_members: ExternalMemberPermissions | None = None
    settings: Path | None = None
    """The user's settings file, whose rules also answer requests."""
    _left_open: dict[tuple[str, str], tuple[PendingRequest, RequestAnswer] | None] = field(
        default_factory=dict[tuple[str, str], "tuple[PendingRequest, RequestAnswer] | None"]
    )
    """The calls, by agent and id, whose request was left open by an earlier process of the session or by the end of
    the agent's process; with the request and its answer, if one was given since.
    """
    _earlier_answers: list[tuple[PendingRequest, RequestAnswer]] = field(
        default_factory=list[tuple[PendingRequest, RequestAnswer]]
    )
    """The answers that were given since to requests of an earlier process without a call, such as reviews."""
    _suspended: Callable[[], None] | None = None
    _parked: list[Question] = field(default_factory=list[Question])
    """Questions that came after `suspend`, which the resume asks."""
    _left: str = ""
    """The reason why requests are not answered any more; empty while they are."""
    _open: dict[str, _PendingRequest] = field(default_factory=dict[str, _PendingRequest])
    _calls: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])

    def set_team(self, team: SessionTeam, *, always: bool) -> None:
        """Set the team whose requests are in the queue. `always`: its lead answers for every member."""
        self.join_team(team, LeadApprover(team, always))
        self.external_members = ExternalMemberPermissions(self, team)
        team.external.report_requests(self.external_members)

    def join_team(self, team: SessionTeam, lead: LeadApprover) -> None:
        """Write requests to the files of this team, whose lead may answer them."""
        self.files.use_team(team)
        self.lead = lead

    # ── asking ────────────────────────────────────────────────────────────────────────────────────────────────

    async def ask(self, question: Question) -> PermissionAnswer:
        if self._suspended is not None:
            self._parked.append(question)
            self._suspended()
            await asyncio.Event().wait()
        if self._left:
            return PermissionAnswer(False, "policy", self._left)
        if (earlier := self._take_earlier_answer(question)) is not None:
            return self._permission_answer(question, earlier)
        if (found := await ask_hooks(self.answerers, question, self.emit)) is not None:
            return found
        lead = self.lead if self.lead is not None and self.lead.answers(question) else None
        if not (lead or self.waits or self.on_request is not None or self.attended()):
            return PermissionAnswer(False, "policy", _no_answer(question, self.settings))
        waiting = self._open_request(question, target=LEAD if lead is not None else "user")
        try:
            async with time_limit(self.timeout_s):
                if self.lead is not None:
                    suggestions = _encode_suggestions(question)
                    await self._without_errors(self.lead.notify(waiting.id, question, suggestions))
                reply = await waiting.answered
        except TimeoutError:
            late = RequestAnswer(verdict="deny", text=f"no answer within {self.timeout_s:g} s", by="deadline")
            reply = self._settle(waiting, late)
        except asyncio.CancelledError:
            if self._suspended is not None and (waiting.answered.cancelled() or not waiting.answered.done()):
                self._open.pop(waiting.id, None)  # its file stays open, and the resume asks again
                raise
            # The agent was interrupted, or its process was killed: started again, it asks again.
            self._left_open[question.member, question.tool_use_id] = None
            self._finish(waiting, self._settle(waiting, RequestAnswer(verdict="deny", by="cancelled")))
            raise
        self._finish(waiting, reply)
        if reply.by == "deadline" and self.lead is not None:
            await self._without_errors(self.lead.notify_expired(waiting.id, question, reply.text))
        return self._permission_answer(question, reply)

    def _permission_answer(self, question: Question, reply: RequestAnswer) -> PermissionAnswer:
        granted = self._granted_updates(question, reply)
        return PermissionAnswer(reply.verdict == "allow", reply.by, reply.text, reply.always, reply.input, granted)

    def _open_request(self, question: Question, *, target: str) -> _PendingRequest:
        id = request_id(_PREFIX.get(question.kind, question.kind))
        waiting = _PendingRequest(id, question, asyncio.get_running_loop().create_future())
        suggestions = _encode_suggestions(question)
        try:
            waiting.box = self.files.open(
                id, question, suggestions, target=target, timeout_s=self.timeout_s, look=self.read_outside_answers
            )
        except StorageError as problem:
            text = f"{id} can be answered here only: {problem.what}"
            self.emit(Notice(member=question.member, text=text, level="warning"))
        self._open[id] = waiting
        event = RequestOpened(
            member=question.member,
            request=id,
            kind=question.kind,
            tool=question.tool,
            what=question.what,
            rule=question.rule,
            always=question.always,
            input=question.input,
            options=question.options,
            owner=question.owner,
            suggestions=suggestions,
            tool_use_id=question.tool_use_id,
            responder=self.answer,
        )
        if self.timeout_s is not None:
            event = replace(event, deadline=round(event.at + self.timeout_s, 3))
        waiting.event = event
        self.emit(event)
        if self.on_request is not None:
            task = asyncio.ensure_future(self._call(self.on_request, event))
            self._calls.add(task)
            task.add_done_callback(self._calls.discard)
        return waiting

    async def _without_errors(self, telling: Awaitable[None]) -> None:
        """Notify an agent without raising: the request is answered although the notification failed."""
        try:
            await telling
        except TeamwrightError as problem:
            self.emit(Notice(member=LEAD, text=f"the lead could not be notified: {problem.what}", level="warning"))

    async def _call(self, on_request: OnRequest, event: RequestOpened) -> None:
        """Call the program's approver. An exception in it denies the request, so that the agent can continue."""
        try:
            awaitable = on_request(event)
            if awaitable is not None:
                await awaitable
        except Exception as problem:
            log_failure("the function on_request failed", problem)
            why = f"the program's approver raised {type(problem).__name__}: {problem}"
            await event.deny(why)
            self.emit(Notice(member=event.member, text=f"{event.tool} was denied: {why}", level="warning"))

    # ── answering ─────────────────────────────────────────────────────────────────────────────────────────────

    async def answer(self, request_id: str, answer: RequestAnswer) -> bool:
        """Answer an open request. Return False when it is closed or was answered.

        Raises UsageError in another thread or event loop than that of the request.
        """
        waiting = self._open.get(request_id)
        if waiting is not None and waiting.answered.get_loop() is not asyncio.get_running_loop():
            raise UsageError(
                "usage",
                f"the request {request_id} belongs to another event loop than this thread's",
                do=["asyncio.run_coroutine_threadsafe(request.allow(), loop)"],
                note="nothing was answered",
            )
        return self._record_answer(request_id, answer)

    def _record_answer(self, request_id: str, answer: RequestAnswer, call: str = "") -> bool:
        answer = replace(answer, by=answer.by or self.answerer)
        waiting = self._open.get(request_id)
        if waiting is None:
            self._note_late(request_id, answer)
            return False
        if waiting.answered.done():
            return False
        if waiting.box is not None and not self.files.answer(waiting.box, waiting.id, answer, call):
            self._check_answer(waiting)
            return False
        waiting.answered.set_result(answer)
        return True

    async def answer_as_lead(self, request_id: str, answer: RequestAnswer, call: str, *, is_rerun: bool) -> str:
        waiting = self._open.get(request_id)
        if self.lead is not None and waiting is not None and not waiting.answered.done():
            if not self.lead.answers(waiting.question):
                raise not_allowed_error(request_id, waiting.question)
            if self._record_answer(request_id, answer, call):
                full_answer = replace(answer, input=waiting.question.input if answer.input is None else answer.input)
                await self.lead.send_answer(request_id, waiting.question.owner, full_answer, again=is_rerun)
                return waiting.question.owner
        over = self.files.closed_request(request_id)
        if self.lead is not None and over is not None and call and over[2] == call:
            full_answer = replace(answer, input=over[0].input if answer.input is None else answer.input)
            await self.lead.send_answer(request_id, over[0].owner, full_answer, again=True)
            return over[0].owner
        if waiting is not None and waiting.answered.done():
            raise too_late_error(request_id, waiting.answered.result())
        if over is not None:
            raise too_late_error(request_id, over[1])
        raise unknown_request_error(request_id, [one.id for one in self._open.values() if not one.answered.done()])

    def read_outside_answers(self) -> None:
        """Take answers that other processes gave, and report those that came too late."""
        for waiting in list(self._open.values()):
            self._check_answer(waiting)
        for body in self.files.late_answers():
            if tried := body.get(REFUSED):
                self.emit(Notice(member="system", text=str(tried)[:300], level="warning"))
            else:
                self._note_late(str(body.get("id") or ""), parse_answer(body))

    def close_abandoned(self) -> None:
        """Close the requests that an earlier incarnation of the session left open, and emit events for them.

        A call that waited is asked about again (`was_left_open`); an answer that came since then counts for it.
        """
        for request, answer in self.files.close_abandoned():
            given = None if answer.by == "cancelled" else (request, answer)
            if request.tool_use_id:
                self._left_open[request.asker, request.tool_use_id] = given
            elif given is not None and is_asked_again(request.kind, request.tool_use_id):
                self._earlier_answers.append(given)
            closed = RequestClosed(
                member=request.asker, request=request.id, verdict=answer.verdict, by=answer.by, reason=answer.text
            )
            self.emit(closed)

    def was_left_open(self, member: str, tool_use_id: str) -> bool:
        """Return True when this agent's call waited for an answer when its process ended. It never ran."""
        return (member, tool_use_id) in self._left_open

    def calls_left_open(self) -> list[tuple[str, str]]:
        """Return the calls of which `was_left_open` is true, by agent and id."""
        return list(self._left_open)

    def _take_earlier_answer(self, question: Question) -> RequestAnswer | None:
        """Return the answer that was given while no process asked, if this is the same question word for word."""
        if question.tool_use_id:
            found = self._left_open.pop((question.member, question.tool_use_id), None)
            return found[1] if found is not None and _asks_the_same(found[0], question) else None
        for found in self._earlier_answers:
            if found[0].asker == question.member and _asks_the_same(found[0], question):
                self._earlier_answers.remove(found)
                return found[1]
        return None

    def pending(self) -> list[PendingRequest]:
        """Return the requests that wait for an answer in this process, the oldest first."""
        team = self.files.team
        return [
            PendingRequest(
                id=one.id,
                kind=question.kind,
                owner=question.owner or question.member,
                asker=question.member,
                tool=question.tool,
                what=question.what,
                rule=question.rule,
                always=question.always,
                description=question.description,
                tool_use_id=question.tool_use_id,
                input=question.input,
                options=question.options,
                suggestions=one.event.suggestions,
                opened_at=one.event.at,
                deadline=one.event.deadline,
                team=team.name if team is not None and team.exists else "",
                session=self.files.session,
                pid=self.files.lead_process.pid,
                responder=self.answer,
            )
            for one in self._open.values()
            if one.event is not None and not one.answered.done()
            for question in (one.question,)
        ]

    def suspend(self, on_parked: Callable[[], None]) -> None:
        """Leave open requests open for the process that resumes the team, and open no more.

        An answer still counts until its agent is cancelled. `on_parked` is called for each question from now on.
        """
        self._suspended = on_parked

    @property
    def waiting_owners(self) -> set[str]:
        """The lead and the members that wait for an answer, also for one of their sub-agents."""
        waiting = [one.question for one in self._open.values() if not one.answered.done()]
        return {question.owner or question.member for question in (*waiting, *self._parked)}

    def close(self, reason: str) -> None:
        """Deny open and later requests, because the approvers are leaving, and release the approvers.

        After `suspend` open requests stay open.
        """
        self._left = reason
        self.read_outside_answers()
        for waiting in self._open.values() if self._suspended is None else ():
            if not waiting.answered.done():
                left = RequestAnswer(verdict="deny", text=reason, by="cancelled")
                waiting.answered.set_result(self._settle(waiting, left))
        for call in self._calls:
            call.cancel()
        self.files.close()

    def _check_answer(self, waiting: _PendingRequest) -> None:
        if waiting.box is None or waiting.answered.done():
            return
        found = self.files.answer_in(waiting.box, waiting.id)
        if found is not None and not waiting.answered.done():
            waiting.answered.set_result(found)

    def _settle(self, waiting: _PendingRequest, answer: RequestAnswer) -> RequestAnswer:
        """Record this answer of the runtime and return it, or return an earlier answer."""
        if waiting.answered.done() and not waiting.answered.cancelled():
            return waiting.answered.result()
        if waiting.box is None or self.files.answer(waiting.box, waiting.id, answer):
            return answer
        return self.files.answer_in(waiting.box, waiting.id) or answer

    def _finish(self, waiting: _PendingRequest, reply: RequestAnswer) -> None:
        self._open.pop(waiting.id, None)
        if waiting.box is not None:
            self.files.retire(waiting.box, waiting.id)
        who = waiting.question.member
        self.emit(RequestClosed(member=who, request=waiting.id, verdict=reply.verdict, by=reply.by, reason=reply.text))

    def _granted_updates(self, question: Question, reply: RequestAnswer) -> tuple[PermissionUpdate, ...]:
        """Return the updates granted with an approval. Invalid updates are reported and left out."""
        if not reply.updates or reply.verdict != "allow":
            return ()
        from teamwright.permissions.permission_update_json import from_wire

        updates: list[PermissionUpdate] = []
        for one in reply.updates:
            try:
                updates.append(from_wire(one))
            except TeamwrightError as problem:
                text = f"not granted with the answer about {question.tool}: {problem.what}"
                self.emit(Notice(member=question.member, text=text, level="warning"))
        return tuple(updates)

    def _note_late(self, id: str, answer: RequestAnswer) -> None:
        answer_text = f": {answer.text}" if answer.text else ""
        text = f"a late answer to {id}, by {answer.by}, changes nothing ({answer.verdict}{answer_text})"
        self.emit(Notice(member="system", text=text))
        over = self.files.closed_request(id) if answer.verdict == "allow" else None
        if over is not None and over[1].by == "deadline" and self.files.team is not None:
            self.files.team.deliver_late_answer(
                over[0].owner, f"{id} is allowed now, too late: what was asked for did not run. {AGAIN}"
            )


def _asks_the_same(earlier: PendingRequest, question: Question) -> bool:
    asked = (earlier.kind, earlier.tool, earlier.what, earlier.rule, earlier.input)
    return asked == (question.kind, question.tool, question.what, question.rule, decode(encode(question.input)))


def _encode_suggestions(question: Question) -> tuple[Mapping[str, Any], ...]:
    """Return the suggestions in wire format."""
    if not question.suggestions:
        return ()
    from teamwright.permissions.permission_update_json import to_wire

    return tuple(to_wire(one) for one in question.suggestions)


def _no_answer(question: Question, settings: Path | None) -> str:
    if question.kind == "question":
        return f"{NO_APPROVER}; decide yourself"
    where = where_allowed(settings) if question.kind == "permission" else ""
    return f"{NO_APPROVER}, and it would have to be asked{where}"


async def ask_hooks(answerers: Iterable[Answerer], question: Question, emit: Emit) -> PermissionAnswer | None:
    """Return the first answer that a hook gives; None leaves the question to the approver."""
    for answerer in answerers:
        try:
            found = await answerer(question)
        except Exception as problem:  # a failing hook is another program's fault and decides nothing
            text = f"an approval hook failed and was skipped: {type(problem).__name__}: {problem}"
            emit(Notice(member=question.member, text=text, level="warning"))
            continue
        if found is not None:
            return found
    return None


CARRIED = 20_000
"""Maximum characters of one input value in a message to the lead."""

CUT = "… (cut here; the request's file has the whole)"

SHOWN = 300
"""Maximum characters of the request's description in a note to the lead."""


class LeadApprover(Struct):
    """The lead as approver for its teammates. `always`: a user's setting lets it answer for all of them."""

    team: SessionTeam
    always: bool = False

    def answers(self, question: Question) -> bool:
        """Return True when the lead may answer: the call is another member's, and that member asks its lead."""
        return self._concerns(question) and (self.always or question.lead_may_answer)

    async def notify(self, id: str, question: Question, suggestions: tuple[Mapping[str, Any], ...]) -> None:
        """Ask the lead by mail, or notify it that a member waits for the user when the lead may not answer."""
        if not self._concerns(question):
            return
        if not self.answers(question):
            text = (
                f"{question.member} waits for the user's permission ({id}) to run {question.tool}: "
                f"{_beginning(question.what)}. You cannot allow it: you would have to ask for it yourself."
            )
            await self._note(id, "waits", text, f"{question.owner} waits for the user", no_reply=True)
            return
        await self.ask(id, question, suggestions, _shortened(question.input))

    async def ask(
        self, id: str, question: Question, suggestions: tuple[Mapping[str, Any], ...], shown_input: Mapping[str, Any]
    ) -> None:
        """Ask the lead by mail, with the part `shown_input` of the input. Raises TeamwrightError."""
        from teamwright.teams.outgoing_mail import default_summary, send_protocol

        request = PermissionRequest(
            request_id=id,
            agent_id=question.owner,
            tool_name=question.tool,
            tool_use_id=question.tool_use_id,
            description=question.description or default_summary(question.what),
            input=dict(shown_input),
            permission_suggestions=[dict(one) for one in suggestions],
        )
        await send_protocol(self.team, question.owner, LEAD, request, id=keyed_id(id, "request"))

    async def notify_expired(self, id: str, question: Question, reason: str) -> None:
        """Notify the lead, once, that a request of a member expired without an answer."""
        if question.owner in {"", LEAD} or not self.team.exists:
            return
        text = (
            f"{question.member} asked to run {question.tool} ({id}): {reason}, so it was denied. It was notified and "
            f"continues without it. The request: {_beginning(question.what)}"
        )
        await self._note(id, "expired", text, f"{question.owner}: a request got no answer")

    async def send_answer(self, id: str, member: str, answer: RequestAnswer, *, again: bool) -> None:
        """Put the lead's answer into the member's inbox, in the format of other programs, without waking the member.

        `again`: the answer may be in the inbox already.
        """
        from teamwright.teams.outgoing_mail import send_protocol

        msg_id = keyed_id(id, "response")
        if self.team.find(member) is None or (again and await self.team.mailbox(member).contains(msg_id)):
            return
        if answer.verdict == "allow":
            updated_input = _shortened(answer.input or {})
            response = {"updated_input": updated_input, "permission_updates": [dict(one) for one in answer.updates]}
            message = PermissionResponse(request_id=id, subtype="success", response=response)
        else:
            message = PermissionResponse(request_id=id, subtype="error", error=answer.text or "Permission denied")
        await send_protocol(self.team, LEAD, member, message, id=msg_id)

    def _concerns(self, question: Question) -> bool:
        """Return True when the member asks its lead and the lead can read its mail."""
        if question.kind != "permission" or question.owner in {"", LEAD} or self.team.lead_mail is None:
            return False
        return self.team.exists and (self.always or question.mode == Mode.DELEGATE)

    async def _note(self, id: str, about: str, text: str, summary: str, *, no_reply: bool = False) -> None:
        from teamwright.teams.outgoing_mail import put_entry

        msg_id = keyed_id(id, about)
        extra = {"no_reply": True} if no_reply else {}
        entry = InboxEntry(
            sender="system", text=text, summary=summary, timestamp=iso_time(), msg_id=msg_id, extra=extra
        )
        if await put_entry(self.team, LEAD, entry):
            file = self.team.mailbox(LEAD).mark()
            self.team.emit(MessageSent(member="system", to=LEAD, message_id=msg_id, summary=summary, file=file))
            self.team.wake(LEAD)


def not_allowed_error(id: str, question: Question) -> TeamRefused:
    """Return the error for a request that the lead may not answer."""
    return TeamRefused(
        "team-refused",
        f"{id} of {question.owner} is for the user to answer: you would have to ask for such a call yourself",
        do=["Leave it to the user, or give the member another way."],
        note="nothing was answered",
    )


def too_late_error(id: str, first: RequestAnswer) -> TeamRefused:
    """Return the error for a request that has an earlier answer."""
    verdict = "allowed" if first.verdict == "allow" else "denied"
    return TeamRefused(
        "team-refused",
        f"{id} was answered before: {verdict} by {first.by}; the first answer counts",
        do=["Continue: the member has received it."],
        note="nothing was answered",
    )


def unknown_request_error(id: str, known: Sequence[str]) -> TeamRefused:
    """Return the error for an id that no pending request has."""
    return TeamRefused(
        "team-refused",
        f"{id[:80]!r} is no request that waits for you",
        do=did_you_mean(id, known, ["Copy the request_id from the request."]),
        note="nothing was answered",
    )


def _shortened(full_input: Mapping[str, Any]) -> dict[str, Any]:
    """Return an input with values cut for a notice: a message has a size limit, and the request's file has the rest."""
    return {key: _shortened_value(value) for key, value in full_input.items()}


def _shortened_value(value: Any) -> Any:
    match value:
        case str():
            return value[:CARRIED] + CUT if len(value) > CARRIED else value
        case dict():
            return {key: _shortened_value(one) for key, one in cast("dict[Any, Any]", value).items()}
        case list():
            return [_shortened_value(one) for one in cast("list[Any]", value)]
        case _:
            return value


def _beginning(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= SHOWN else flat[:SHOWN] + "…"
