"""Messages that are text: to one member, or to all."""

from __future__ import annotations

from teamwright.agent.tool import ToolContext, ToolResult
from teamwright.protocol.ids import LEAD, LEAD_ALIAS
from teamwright.teams.mailbox.outgoing import SendCall, Sent, broadcast, default_summary, send_text
from teamwright.teams.turn_end import LEAD_ADVICE, SENDER_NOTE
from teamwright.tools.caller import Caller, json_result

MAX_CONTENT = 200
"""The most characters of a message that its sender's result repeats."""

_OUTCOME_TEXT = {
    "woke": "It is awake now.",
    "queued_next_round": "It reads it before its next step.",
    "accepted": "It is in the inbox; it is not known whether a process reads it.",
    "no_consumer": "It is in the inbox, but no process reads it now.",
}


async def send_text_message(
    caller: Caller, to: str, text: str, summary: str, ctx: ToolContext, *, no_reply: bool = False
) -> ToolResult:
    """Send a text, once for each call; `*` means all members. Raises as `send_text` and `broadcast`."""
    call = SendCall(ctx.key, ctx.is_rerun, no_reply)
    if to.strip() == "*":
        messages = await broadcast(caller.team, caller.name, text, summary, call)
        return _broadcast_result(caller, messages, text, summary or default_summary(text))
    sent = await send_text(caller.team, caller.name, to, text, summary, call)
    return _sent_result(caller, sent, text, summary or default_summary(text))


def _broadcast_result(caller: Caller, messages: list[Sent], text: str, summary: str) -> ToolResult:
    names = [message.to for message in messages]
    shown = ", ".join(LEAD_ALIAS if name == LEAD else name for name in names)
    body = {
        "success": True,
        "message": f"Sent to {len(names)} {'member' if len(names) == 1 else 'members'}: {shown}.",
        "recipients": names,
        "msg_ids": {message.to: message.message_id for message in messages},
        "routing": {
            "sender": caller.name,
            "target": "@team",
            "summary": summary,
            "content": _excerpt(text),
        },
    }
    return json_result(body, f"sent to {shown}")


def _sent_result(caller: Caller, sent: Sent, text: str, summary: str) -> ToolResult:
    teammate = caller.team.find(caller.name)
    routing = {
        "sender": caller.name,
        "senderColor": teammate.color if teammate is not None else None,
        "target": f"@{sent.to}",
        "targetColor": sent.color,
        "summary": summary,
        "content": _excerpt(text),
    }
    shown = LEAD_ALIAS if sent.to == LEAD else sent.to
    body = {
        "success": True,
        "message": f"In {shown}'s inbox. {_outcome_text(caller, sent)}",
        "outcome": sent.outcome,
        "msg_id": sent.message_id,
        "routing": {key: value for key, value in routing.items() if value is not None},
    }
    return json_result(body, f"→ {shown}: {summary}")


def _outcome_text(caller: Caller, sent: Sent) -> str:
    recipient = caller.team.find(sent.to)
    if recipient is None or not recipient.cap_reason:
        return _OUTCOME_TEXT[sent.outcome]
    why = recipient.cap_reason.removeprefix("budget_exceeded: ")
    return f"It does nothing now: {why}. {LEAD_ADVICE if caller.is_lead else SENDER_NOTE}"


def _excerpt(text: str) -> str:
    """Return the beginning of the message: the sender knows the rest, and every model call reads the result again."""
    return text if len(text) <= MAX_CONTENT else text[:MAX_CONTENT] + "…"
