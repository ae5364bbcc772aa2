"""The lead as approver: the members' requests that go to the lead, and the mail about them.

A member in mode delegate asks its lead; a user's setting lets the lead answer for every member. Without that setting
the lead allows only calls that it is allowed to make. Depends on the team and its mail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from msgspec import Struct

from teamwright.permissions.verdict import Mode, Question
from teamwright.protocol.errors import TeamRefused
from teamwright.protocol.events import MessageSent
from teamwright.protocol.ids import LEAD, keyed_id
from teamwright.protocol.mail import InboxEntry, PermissionRequest, PermissionResponse
from teamwright.protocol.pending_request_events import RequestAnswer
from teamwright.protocol.timestamps import iso_time
from teamwright.protocol.unknown_names import did_you_mean
from teamwright.teams.team import SessionTeam

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
        from teamwright.teams.mailbox.outgoing import default_summary, send_protocol

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
        from teamwright.teams.mailbox.outgoing import send_protocol

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
        from teamwright.teams.mailbox.runtime_notes import put_entry

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
