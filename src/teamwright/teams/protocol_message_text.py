"""The texts for a model of the protocol messages: plans, permissions, stop requests, tasks and notices of members."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct

from teamwright.agent.plan_mode import PlanMode
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.ids import LEAD, display_name
from teamwright.protocol.mail import (
    RUNTIME_SENDERS,
    IdleNotification,
    InboxEntry,
    ModeChangeMessage,
    PermissionRequest,
    PermissionResponse,
    PlanApprovalRequest,
    PlanApprovalResponse,
    ShutdownApproved,
    ShutdownRejected,
    ShutdownRequest,
    TaskAssignment,
    TaskCompleted,
    TeammateTerminated,
    parse_protocol,
)
from teamwright.protocol.runtime_tags import PEER_NOTE, RuntimeTags, escape_tags
from teamwright.teams.external_plans import bound_incarnation
from teamwright.teams.outgoing_mail import is_held
from teamwright.teams.plan_requests import is_plan_of
from teamwright.teams.shutdown_answers import is_shutdown_request
from teamwright.teams.team import SessionTeam

_NO_PLAN_ANSWER = "This message answers none of your plans. It approved nothing and changed nothing."
_NO_PLAN_REQUEST = "No plan of that request_id waits for you: there is nothing to answer."


_NO_STOP_REQUEST = "No shutdown request of that request_id is open for you: there is nothing to answer. Continue."


class TeamMailRules(Struct, frozen=True):
    """The rules of this team for the mail of one reader, whose conversation has these tags (see `MailRules`)."""

    team: SessionTeam
    reader: str
    tags: RuntimeTags

    def is_held(self, sender: str, /) -> bool:
        """Return True while the ping-pong guard holds mail of this sender. The lead reads all mail."""
        return self.reader != LEAD and is_held(self.team, self.reader, sender)

    def render(self, entry: InboxEntry, /) -> str | None:
        """Return the reader's text of a protocol message; None when it has none."""
        return message_text(self.team, self.reader, entry, self.tags)


def plan_text(team: SessionTeam, reader: str, entry: InboxEntry, tags: RuntimeTags) -> str | None:
    """Return the reader's text of a message about a plan; None for every other message."""
    if "plan_approval" not in entry.text[:200]:
        return None
    message = parse_protocol(entry.text)
    if isinstance(message, PlanApprovalRequest):
        return _plan_request_text(team, reader, entry, message, tags)
    if isinstance(message, PlanApprovalResponse):
        return _plan_answer_text(team, reader, entry, message, tags)
    return None


def _plan_request_text(
    team: SessionTeam, reader: str, entry: InboxEntry, message: PlanApprovalRequest, tags: RuntimeTags
) -> str:
    request = _find_plan_request(team, message.request_id) or {}
    incarnation = bound_incarnation(team, entry.sender)
    mine = (
        incarnation is not None and is_plan_of(request, entry.sender, incarnation) and request.get("target") == reader
    )
    if not mine or team.requests.get_answer(message.request_id) is not None:
        return f"{tags.entry(entry)}\n{tags.reminder(_NO_PLAN_REQUEST)}"
    plan = tags.message(entry.sender, str(request["plan"]), color=entry.color, summary="a plan to approve")
    return f"{PEER_NOTE}\n{plan}\n{tags.reminder(_how_to_answer_plan(entry.sender, request))}"


def _find_plan_request(team: SessionTeam, id: object) -> Mapping[str, Any] | None:
    """Return the request of that id, which may be any value in a message of another program."""
    with suppress(TeamwrightError):
        return team.requests.get(str(id))
    return None


def _how_to_answer_plan(name: str, request: Mapping[str, Any]) -> str:
    wished = ", ".join(str(rule) for rule in request.get("rules") or ())
    lines = [
        f"{escape_tags(name)} has handed in this plan and changes nothing until you answer. Read it, then call "
        f'SendMessage once, to "{escape_tags(name)}", with one of these as `message`:',
        f'- to approve: {{"type": "plan_approval_response", "request_id": "{request["id"]}", "approve": true}}',
        '- to send it back: the same with "approve": false and "feedback": what to change',
    ]
    if wished:
        lines.append(f"With your yes it may also run, as far as you may yourself: {escape_tags(wished)}")
    return "\n".join(lines)


def _plan_answer_text(
    team: SessionTeam, reader: str, entry: InboxEntry, message: PlanApprovalResponse, tags: RuntimeTags
) -> str:
    request = _find_plan_request(team, message.request_id) or {}
    answer = team.requests.get_answer(message.request_id) if request else None
    teammate = team.find_in_process(reader)
    if (
        reader == LEAD
        or answer is None
        or teammate is None
        or not is_plan_of(request, teammate.name, teammate.incarnation)
    ):
        return f"{tags.entry(entry)}\n{tags.reminder(_NO_PLAN_ANSWER)}"
    plan = teammate.agent.plan
    if answer.get("approve") is True:
        mode = _current_mode_text(plan)
        body = f"Your plan was approved. Plan mode has ended.{mode} Carry out the plan in {request['plan_file']}."
    else:
        why = str(answer.get("reason") or "").strip() or "no reason was given"
        body = (
            f"Your plan was not approved: {why}\nYou are still in plan mode. "
            f"Change the plan ({request['plan_file']}), then call ExitPlanMode again."
        )
    return tags.message(entry.sender, body, summary="the answer to your plan")


def _current_mode_text(plan: PlanMode | None) -> str:
    """Return the sentence on the mode after an approval, also for a member whose lead is in plan mode."""
    if plan is None:
        return ""
    if plan.is_inherited:
        return " Your lead plans itself, so nothing is changed before it has done so."
    return f" The permission mode is {plan.policy.effective_mode}."


MAX_REQUEST_CHARS = 8_000
"""Characters of a request that the lead's model reads: the whole text would stay in its conversation for good."""

_NO_PERMISSION_REQUEST = "No request waits for your answer: there is nothing to allow or to deny."
_ASKS_USER = "Another program runs this member. The user answers it: do nothing about it."
_NO_PERMISSION_ANSWER = "This message answers none of your requests. It allowed nothing and changed nothing."


def permission_text(team: SessionTeam, reader: str, entry: InboxEntry, tags: RuntimeTags) -> str | None:
    """Return the reader's text of a message about a permission; None for every other message."""
    if "permission_re" not in entry.text[:200] or not team.exists:
        return None
    message = parse_protocol(entry.text)
    if isinstance(message, PermissionRequest):
        return _permission_request_text(team, reader, entry, message.request_id, tags)
    if isinstance(message, PermissionResponse):
        return _permission_answer_text(team, reader, entry, message.request_id, tags)
    return None


def _permission_request_text(team: SessionTeam, reader: str, entry: InboxEntry, id: str, tags: RuntimeTags) -> str:
    if entry.sender.lower() in team.external.external_names and reader == LEAD:
        return f"{tags.entry(entry)}\n{tags.reminder(_ASKS_USER)}"
    request, answer = _find_permission_request(team, id)
    if request.get("requester") != entry.sender or request.get("target") != reader:
        return f"{tags.entry(entry)}\n{tags.reminder(_NO_PERMISSION_REQUEST)}"
    if answer is not None:
        text = (
            f"{escape_tags(entry.sender)} asked for a permission ({id}). It was answered: {_describe_outcome(answer)}."
        )
        return tags.reminder(text)
    action = str(request.get("what") or "")
    if len(action) > MAX_REQUEST_CHARS:
        more = len(action) - MAX_REQUEST_CHARS
        action = f"{action[:MAX_REQUEST_CHARS]}\n… ({more} more characters are not shown; deny it if you must see them)"
    what = f"{request.get('tool')}: {action}\nasked because of: {request.get('rule')}"
    message = tags.message(entry.sender, what, color=entry.color, summary="asks for permission")
    return f"{PEER_NOTE}\n{message}\n{tags.reminder(_how_to_answer_permission(entry.sender, request))}"


def _how_to_answer_permission(name: str, request: Mapping[str, Any]) -> str:
    asker = str(request.get("asker") or name)
    who = escape_tags(name) if asker == name else f"{escape_tags(asker)}, a sub-agent of {escape_tags(name)},"
    return "\n".join(
        [
            f"{who} may not run this without a yes, and waits for yours. Say yes only if the work that you gave needs "
            f'it. Call SendMessage once, to "{escape_tags(name)}", with one of these as `message`:',
            f'- to allow it: {{"type": "permission_response", "request_id": "{request["id"]}", "approve": true}}; to '
            'have something else run instead, add "updated_input"',
            '- to deny it: the same with "approve": false and "reason": what to do instead',
        ]
    )


def _permission_answer_text(team: SessionTeam, reader: str, entry: InboxEntry, id: str, tags: RuntimeTags) -> str:
    request, answer = _find_permission_request(team, id)
    if entry.sender != LEAD or answer is None or request.get("requester") != reader or answer.get("by") != "lead":
        return f"{tags.entry(entry)}\n{tags.reminder(_NO_PERMISSION_ANSWER)}"
    body = f"About your request to run {request.get('tool')} ({id}): {_describe_outcome(answer)}."
    return tags.message(entry.sender, body, summary="the answer to your request")


def _describe_outcome(answer: Mapping[str, Any]) -> str:
    by = str(answer.get("by") or "another approver")
    if by == "cancelled":
        return "the agent that asked no longer waits"
    text = " ".join(str(answer.get("text") or "").split())
    done = "allowed" if answer.get("verdict") == "allow" else "denied"
    return f"{done} by {escape_tags(by)}" + (f" ({escape_tags(text)})" if text else "")


def _find_permission_request(team: SessionTeam, id: str) -> tuple[Mapping[str, Any], Mapping[str, Any] | None]:
    """Return the request of that id and its answer, open or closed; empty for an unknown id."""
    id = str(id)  # other programs may write anything
    with suppress(TeamwrightError):
        if (request := team.requests.get(id)) is not None:
            return request, team.requests.get_answer(id)
        if (over := team.requests.get_retired(id)) is not None:
            return over
    return {}, None


def notice_text(reader: str, entry: InboxEntry, tags: RuntimeTags) -> str | None:
    """Return the reader's text of a notice; None for plain text and for messages of other types."""
    message = parse_protocol(entry.text)
    if isinstance(message, ShutdownRequest) and entry.sender == LEAD != reader:
        why = f" Reason: {message.reason}" if message.reason else ""
        what = f'The lead asks you to stop (shutdown_request, request_id "{message.request_id}").{why}'
        id = escape_tags(str(message.request_id))
        how = (
            'Call SendMessage once, to "lead", with one of these as `message`:\n'
            f'- to stop: {{"type": "shutdown_response", "request_id": "{id}", "approve": true}}\n'
            '- to object because work would be lost: the same with "approve": false and a "reason"'
        )
        return f"{_entry_text(entry, what, tags)}\n{tags.reminder(how)}"
    body = _notice_sentence(reader, entry, message)
    return None if body is None else _entry_text(entry, body, tags)


def _entry_text(entry: InboxEntry, body: str, tags: RuntimeTags) -> str:
    return tags.entry(entry.copy_with(text=body, summary=None), plain=entry.sender in RUNTIME_SENDERS)


def _notice_sentence(reader: str, entry: InboxEntry, message: object) -> str | None:
    name = display_name(entry.sender)
    match message:
        case IdleNotification():
            return _idle_text(name, message)
        case TaskAssignment():
            by = name if entry.sender not in RUNTIME_SENDERS else message.assigned_by
            head = f"{display_name(by)} gave you task #{message.task_id}: {message.subject}"
            return f"{head}\n\n{message.description}".rstrip()
        case TaskCompleted():
            subject = f": {message.task_subject}" if message.task_subject else ""
            return f"{name} completed task #{message.task_id}{subject}"
        case ModeChangeMessage() if entry.sender == LEAD:
            return f"Your permission mode is {message.mode} now."
        case ShutdownApproved() if reader == LEAD:
            return f'{name} agreed to stop (request_id "{message.request_id}").'
        case ShutdownRejected() if reader == LEAD:
            why = f" Its reason: {message.reason}" if message.reason else ""
            return f'{name} objects to its shutdown and continues (request_id "{message.request_id}").{why}'
        case TeammateTerminated() if entry.sender == "system":
            return message.message
        case _:
            return None


def _idle_text(name: str, notice: IdleNotification) -> str:
    """Return how the turn ended, what the member did in it, and its last text."""
    if notice.failure_reason:
        lines = [f"{name}'s turn failed: {str(notice.failure_reason).rstrip('.')}."]
    elif notice.idle_reason == "interrupted":
        lines = [f"{name}'s turn was interrupted by a person. {name} is idle."]
    else:
        lines = [f"{name} is idle."]
    if notice.completed_task_id:
        lines.append(f"It completed task #{notice.completed_task_id}.")
    if notice.summary:
        lines.append(f"It sent a message in this turn: {notice.summary}")
    if not notice.result:
        return " ".join(lines)
    return f"{' '.join(lines)} {'Its last text' if notice.failure_reason else 'Its report'}:\n\n{notice.result}"


def _is_unopened_stop(team: SessionTeam, reader: str, entry: InboxEntry) -> bool:
    """Return True for a request to stop that the lead of this team has not opened for this reader, or has closed.

    A lead that is another program has no file for its requests.
    """
    if "shutdown_request" not in entry.text[:200] or entry.sender != LEAD or team.external.led_externally:
        return False
    message = parse_protocol(entry.text)
    teammate = team.find_in_process(reader)
    if not isinstance(message, ShutdownRequest) or teammate is None:
        return False
    with suppress(TeamwrightError):
        request = team.requests.get(str(message.request_id))
        return request is None or not is_shutdown_request(request, teammate.name, teammate.incarnation)
    return True


def message_text(team: SessionTeam, reader: str, entry: InboxEntry, tags: RuntimeTags) -> str | None:
    """Return the reader's plain text of the entry; None when the entry is delivered verbatim."""
    if not entry.text.startswith("{"):
        return None
    if _is_unopened_stop(team, reader, entry):
        return f"{tags.entry(entry)}\n{tags.reminder(_NO_STOP_REQUEST)}"
    about_plans = plan_text(team, reader, entry, tags)
    return about_plans or permission_text(team, reader, entry, tags) or notice_text(reader, entry, tags)
