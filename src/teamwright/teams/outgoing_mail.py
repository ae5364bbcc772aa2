"""Send mail: messages of members, protocol messages and notes of the runtime, with recipients, outcome and guard.

A send succeeds only when the entry is in the recipient's inbox. The runtime sets the sender's name; text that would
parse as a protocol message is fenced. The ping-pong guard stops two members that only write to each other, and notifies
the lead once; `incoming_mail` asks it which senders' mail waits.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from msgspec import Struct

from teamwright.mail.message_size import fit_text
from teamwright.protocol.errors import StorageError, TeamRefused, TeamwrightError, UsageError
from teamwright.protocol.events import MessageSent, Notice
from teamwright.protocol.ids import LEAD, LEAD_ALIAS, ended_member, iso_time, keyed_id, known_name, message_id
from teamwright.protocol.mail import (
    RUNTIME_SENDERS,
    IdleNotification,
    InboxEntry,
    PermissionResponse,
    ProtocolMessage,
    fence_protocol,
    wire_type,
)
from teamwright.protocol.members import IN_PROCESS, MemberState, RosterMember
from teamwright.protocol.runtime_tags import NO_KEY_TAGS, escape_tags
from teamwright.protocol.secret_texts import mask_keys, mask_values
from teamwright.storage.files import write_atomic

if TYPE_CHECKING:
    from teamwright.teams.team import SessionTeam
    from teamwright.teams.teammate import Teammate


class Sent(Struct, frozen=True):
    """The outcome of a message. `outcome` is `woke`, `queued_next_round`, `accepted` (an external member) or
    `no_consumer`.
    """

    to: str
    message_id: str
    outcome: str
    color: str | None = None
    summary: str = ""
    sender_color: str | None = None
    cap_reason: str = ""
    """The spent cap because of which the recipient does nothing now; empty without one."""


class Recipient(Struct, frozen=True):
    """A member that can read mail. `teammate` is its agent in this team; None for the lead and for one elsewhere."""

    name: str
    color: str | None
    teammate: Teammate | None
    remote_state: MemberState | None
    """Its state in the lead's process, for a sender in a member's own process; else None."""

    def outcome(self, team: SessionTeam, sender: str) -> str:
        """Return the outcome of a message that this member gets now."""
        name = self.name.lower()
        found = self.teammate
        if self.name == LEAD and team.ports.remote_state is None:
            if team.lead_mail is None:
                return "no_consumer"
            return "queued_next_round" if team.lead_mail.busy else "woke"
        if found is None and self.remote_state is not None:
            return "woke" if self.remote_state in _AT_REST else "queued_next_round"
        if found is None or name in team.external.external_names:
            return "queued_next_round" if name in team.resuming else "accepted"
        return "woke" if found.state in _AT_REST and not found.wake_target.is_held(sender) else "queued_next_round"


_AT_REST = {MemberState.IDLE, MemberState.AWAITING}


class SendCall(Struct, frozen=True):
    """The call that sends: its messages have their own ids and are sent once.

    `is_rerun`: a kill interrupted it before. `no_reply`: its messages wake no member, and are read with the next
    message.
    """

    key: str
    is_rerun: bool = False
    no_reply: bool = False

    def message_id_for(self, name: str) -> str:
        """Return the id of this call's message to that member."""
        return keyed_id(self.key, name.lower())


async def send_text(
    team: SessionTeam, sender: str, to: str, text: str, summary: str = "", call: SendCall | None = None
) -> Sent:
    """Send text from one member, or from `user`, to another; once for each `call`.

    Raises UnknownMember (nothing is created), TeamRefused for a message to oneself, UsageError for empty text,
    InboxFull, LockTimeout.
    """
    _require_text(text)
    if call is not None and call.is_rerun:
        sent = await _find_earlier_send(team, sender, team.recipient(to, "nothing was sent"), text, summary, call)
        if sent is not None:
            return sent
    recipient = await find_recipient(team, to)
    if recipient.name.lower() == sender.lower():
        raise TeamRefused(
            "team-refused",
            "you cannot send a message to yourself",
            do=["Write to another member, or continue your work."],
            note="nothing was sent",
        )
    return await _send(team, sender, recipient, text, summary, call)


async def broadcast(
    team: SessionTeam, sender: str, text: str, summary: str = "", call: SendCall | None = None
) -> list[Sent]:
    """Send text to every other member, once for each `call`.

    Raises TeamRefused when there is no other member, or naming those that did not receive it.
    """
    _require_text(text)
    config = await team.roster.read()
    others = [_as_recipient(team, m) for m in config.members if m.name.lower() != sender.lower()]
    if not any(others):
        raise TeamRefused(
            "team-refused",
            "the team has no other member",
            do=["Start a teammate first, or do the work yourself."],
            note="nothing was sent",
        )
    sent: list[Sent] = []
    refused: list[tuple[str, TeamwrightError]] = []
    for recipient in filter(None, others):
        try:
            earlier = (
                await _find_earlier_send(team, sender, recipient.name, text, summary, call)
                if call is not None and call.is_rerun
                else None
            )
            sent.append(earlier or await _send(team, sender, recipient, text, summary, call))
        except TeamwrightError as problem:
            refused.append((recipient.name, problem))
    if refused:
        _raise_partial_send(sent, refused)
    return sent


async def _send(
    team: SessionTeam, sender: str, recipient: Recipient, text: str, summary: str, call: SendCall | None
) -> Sent:
    """Put the message into the inbox, wake its reader, and count it for the ping-pong guard."""
    text = _masked(team, text)
    summary = _masked(team, summary) or default_summary(text)
    author = team.find(sender)
    name = recipient.name
    is_quiet = call is not None and call.no_reply
    entry = InboxEntry(
        sender=sender,
        text=fence_protocol(text),
        summary=summary,
        timestamp=iso_time(),
        color=author.color if author is not None else None,
        msg_id=call.message_id_for(name) if call is not None else message_id(),
        extra={"no_reply": True} if is_quiet else {},
    )
    outcome = recipient.outcome(team, sender)
    if outcome == "woke" and is_quiet:
        outcome = "queued_next_round"
    mailbox = team.mailbox(name)
    id = await mailbox.put(entry, runtime=False)
    team.wake(name)
    if outcome in {"woke", "queued_next_round"} and not _can_read(team, recipient):
        outcome = "no_consumer"  # the recipient ended during the send
    if author is not None and name == LEAD:
        author.turn_notes.wrote_lead = True
    elif author is not None:
        author.turn_notes.peer_mail = f"[to {name}] {summary}"
    team.emit(MessageSent(member=sender, to=name, message_id=id, summary=summary, file=mailbox.mark()))
    if count_message(team, sender, name):
        await notify_lead(team, sender, name)
    cap_reason = recipient.teammate.cap_reason if recipient.teammate is not None else ""
    return Sent(name, id, outcome, recipient.color, summary, entry.color, cap_reason)


async def send_protocol(
    team: SessionTeam, sender: str, to: str, message: ProtocolMessage, *, summary: str | None = None, id: str = ""
) -> str:
    """Send a protocol message of the runtime, with this id if one is given. Returns its message id.

    Secrets are masked in it, except in an answer to a permission request: its input is used as it is.
    """
    masked = str if isinstance(message, PermissionResponse) else partial(_masked, team)
    entry = InboxEntry(
        sender=sender,
        text=masked(message.encode()),
        summary=summary,
        timestamp=iso_time(),
        color=_color(team, sender),
        msg_id=id or message_id(),
    )
    sent = entry.msg_id or ""
    if not await put_entry(team, to, entry):
        return sent
    wire = wire_type(message)
    is_idle = isinstance(message, IdleNotification)
    short = message.result or message.failure_reason or "idle" if is_idle else wire
    team.emit(MessageSent(member=sender, to=to, message_id=sent, summary=default_summary(masked(short)), wire=wire))
    team.wake(to)
    return sent


async def send_note(team: SessionTeam, sender: str, to: str, text: str, summary: str, id: str = "") -> None:
    """Send a note to the live member of this name, or to the lead; a member that has ended receives none.

    A note with an `id` is sent once, also when a kill came after the send.

    Raises InboxFull, LockTimeout, StorageError.
    """
    if to != LEAD and team.find(to) is None:
        return
    if id and team.exists and await team.mailbox(to).contains(id):
        return
    id = id or message_id()
    if await put_entry(
        team, to, InboxEntry(sender=sender, text=text, summary=summary, timestamp=iso_time(), msg_id=id)
    ):
        file = team.mailbox(to).mark()
        team.emit(MessageSent(member=sender, to=to, message_id=id, summary=summary, file=file))
        team.wake(to)


async def put_entry(team: SessionTeam, to: str, entry: InboxEntry) -> bool:
    """Put an entry of the runtime into an inbox. False: the team has no files, so the note was passed on in memory.

    A text that is too long for a message is cut, and names the file that has all of it: so the runtime's own words
    never end an agent. A message does not recreate a team that another program removed. Raises as `Mailbox.put`.
    """
    if team.exists and team.roster.document.exists:
        text = fit_text(entry.text, lambda whole: _save_long_text(team, whole))
        await team.mailbox(to).put(entry.copy_with(text=text) if text != entry.text else entry, runtime=True)
        return True
    teammate = team.find(to)
    if teammate is not None:
        own = entry.sender in RUNTIME_SENDERS
        teammate.notify(escape_tags(entry.text) if own else NO_KEY_TAGS.entry(entry))
    elif to == LEAD and team.lead is not None:
        team.lead.queue_unread_mail([entry])
    team.changed.set()
    return False


async def find_recipient(team: SessionTeam, to: str, note: str = "nothing was sent") -> Recipient:
    """Return the member that a `to` means: a name, an agent id, or the lead's alias.

    Raises UnknownMember listing the members and the nearest name; for an agent type it names its member. `note` is the
    error's sentence that nothing was done.
    """
    config = await team.roster.read()
    name = known_name(to, team.names, [one.name for one in config.members], f"team {config.name}", note)
    advice = "Use the name of one of these members, or start a teammate of that name first."
    member = config.get(name, note=note, otherwise=[advice])
    recipient = _as_recipient(team, member)
    if recipient is None:
        file = await team.state.read()
        is_resumable = file is not None and file.find_crashed(member.name) is not None
        crashed = [f'Agent with name "{member.name}" resumes it with its conversation.'] if is_resumable else []
        do = [*crashed, "Give the work to an agent that is running, or start a new teammate."]
        here = [m.name for m in team.running_members]
        known = team.status.members if team.ports.remote_state is not None else {}
        others = [name for name, one in known.items() if name not in {LEAD, *here} and not one.has_ended]
        raise ended_member(member.name, [LEAD_ALIAS, *here, *others], note=note, do=do, crashed=is_resumable)
    return recipient


def _as_recipient(team: SessionTeam, member: RosterMember) -> Recipient | None:
    """Return the member of the roster as a recipient; None when no one can read its mail.

    The lead, a live member of this process and an external member can.
    """
    ask = team.ports.remote_state
    state = ask(member.name) if ask is not None and member.name != LEAD else None
    recipient = Recipient(member.name, member.color, team.find(member.name), state)
    is_foreign = member.backend_type != IN_PROCESS and member.name.lower() not in team.external.process_names
    return recipient if is_foreign or _can_read(team, recipient) else None


def _can_read(team: SessionTeam, recipient: Recipient) -> bool:
    name = recipient.name.lower()
    if recipient.name == LEAD or name in team.external.external_names or team.find(name) is not None:
        return True
    ask = team.ports.remote_state
    return ask(recipient.name) is not None if ask is not None else name in team.resuming


def default_summary(text: str) -> str:
    """Return a summary for a message without one: its first words, at most 60 characters."""
    words = " ".join(text.split())
    return words if len(words) <= 60 else words[:57].rsplit(" ", 1)[0] + "…"


def _require_text(text: str) -> None:
    if not text.strip():
        raise UsageError(
            "usage", "a message needs text", do=["Say it in words, or send nothing."], note="nothing was sent"
        )


def _masked(team: SessionTeam, text: str) -> str:
    """Return the text with secrets of the session's environment and keys of known services masked."""
    return mask_keys(mask_values(text, team.secrets))


async def _find_earlier_send(
    team: SessionTeam, sender: str, name: str, text: str, summary: str, call: SendCall
) -> Sent | None:
    """Return the outcome of this send before a kill; None when it was not sent."""
    id = call.message_id_for(name)
    known = await team.stores.mailbox_names(team.directory)
    name = next((one for one in known if one.lower() == name.lower()), name)  # the spelling of its mailbox
    if not await team.mailbox(name).contains(id):
        return None
    summary = _masked(team, summary) or default_summary(_masked(team, text))
    found = team.find(name)
    own_color = _color(team, sender)
    if found is None:
        return Sent(name, id, "queued_next_round", None, summary, own_color)
    return Sent(found.name, id, "queued_next_round", found.color, summary, own_color, found.cap_reason)


def _raise_partial_send(sent: Sequence[Sent], refused: Sequence[tuple[str, TeamwrightError]]) -> NoReturn:
    name, first = refused[0]
    if not sent:
        raise first
    raise TeamRefused(
        "team-refused",
        f"{', '.join(who for who, _ in refused)} did not get the message",
        looked_at=[(name, first.what)],
        do=["Write to those again, one by one."],
        note=f"it was sent to {', '.join(one.to for one in sent)}",
    )


def _color(team: SessionTeam, sender: str) -> str | None:
    member = team.find(sender)
    return member.color if member is not None else None


def count_message(team: SessionTeam, sender: str, to: str) -> bool:
    """Count a message between two members; True when the guard stops the two from now on."""
    if LEAD in {sender, to} or sender == "user":
        # Another member acted: the two may talk again.
        for pair in [p for p in team.message_counts if to in p]:
            del team.message_counts[pair]
            for name in pair:
                team.wake(name)
        return False
    pair = frozenset({sender, to})
    team.message_counts[pair] = count = team.message_counts.get(pair, 0) + 1
    return count == team.settings.ping_pong


async def notify_lead(team: SessionTeam, first: str, second: str) -> None:
    """Notify the lead that the guard stopped two members. Emit an event when its mailbox takes no notice."""
    count = team.settings.ping_pong
    text = (
        f"{first} and {second} exchanged {count} messages and no task changed. "
        "Their further messages to each other are "
        "kept, and are delivered when you or the user write to one of them, when a task changes, or after a resume. "
        "Write to one of them what to do next, or leave them idle."
    )
    team.emit(Notice(member=first, text=text, level="warning"))
    try:
        await send_note(team, "system", LEAD, text, f"{first} and {second} only write to each other")
    except TeamwrightError as problem:
        # The message of the member is in its recipient's inbox: its sender must not read that it failed.
        team.emit(Notice(member=LEAD, text=f"the lead was not notified of that: {problem.what}", level="warning"))


def is_held(team: SessionTeam, name: str, sender: str) -> bool:
    """Return True while mail of this sender does not wake the member."""
    if sender in team.held_senders:
        return True
    return team.message_counts.get(frozenset({name, sender}), 0) > team.settings.ping_pong


def held_senders(team: SessionTeam, name: str) -> list[str]:
    """Return the senders whose mail does not wake this member for now."""
    return [
        other for pair in team.message_counts if name in pair for other in pair - {name} if is_held(team, name, other)
    ]


async def has_held_mail(team: SessionTeam) -> bool:
    """Return True when the guard keeps mail that its recipient has not read. Raises StorageError."""
    for name in {name for pair in team.message_counts for name in pair}:
        senders = {sender.lower() for sender in held_senders(team, name)}
        if senders and any(entry.sender.lower() in senders for entry in await team.mailbox(name).unread()):
            return True
    return False


def _save_long_text(team: SessionTeam, text: str) -> str:
    """Store a text that is too long for a message beside other long outputs. Return its path; empty on a full disk."""
    if team.output is None:
        return ""
    file = team.output / f"mail-{secrets.token_hex(4)}.output"
    try:
        write_atomic(file, text.encode("utf-8", "replace"))
    except StorageError:
        return ""
    return str(file)
