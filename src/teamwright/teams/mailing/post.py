"""Sending: who may write to whom, and what became of it.

A send succeeds only when the entry is in the recipient's inbox. The sender's name is set here, by the runtime;
text that would parse as a protocol message is fenced. Knows the team and its inboxes; does not know a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NoReturn

from teamwright.protocol.clock import iso
from teamwright.protocol.errors import TeamRefused, TeamwrightError, UnknownMember, UsageError
from teamwright.protocol.events import MessageSent
from teamwright.protocol.ids import LEAD, LEAD_ALIAS, MemberName, addressee, keyed_id, message_id, nearest
from teamwright.protocol.mail import Entry, IdleNotification, Protocol, fenced
from teamwright.protocol.roster import Member
from teamwright.protocol.secret_texts import mask_keys, mask_values
from teamwright.protocol.values import dataclass
from teamwright.storage.marks import mark_of
from teamwright.teams.lifecycle import State
from teamwright.teams.mailing.notes import put
from teamwright.teams.mailing.ping_pong_guard import notify_lead, talked
from teamwright.teams.team import Team


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of a message. `outcome` is `woke`, `queued_next_round`, `accepted` (a stranger) or `no_consumer`."""

    to: str
    message_id: str
    outcome: str
    color: str | None = None


def _masked(team: Team, text: str) -> str:
    """The text without secrets of the session's environment and keys of known services."""
    return mask_keys(mask_values(text, team.secrets))


def summary_of(text: str) -> str:
    """A summary for a message without one: its first words, at most 60 characters."""
    words = " ".join(text.split())
    return words if len(words) <= 60 else words[:57].rsplit(" ", 1)[0] + "…"


@dataclass(frozen=True, slots=True)
class Call:
    """The call that sends: what it sends is sent once, under ids of its own.

    `again`: a kill cut it off before. `no_reply`: what it sends wakes nobody, and is read with the next message.
    """

    key: str
    again: bool = False
    no_reply: bool = False

    def message_to(self, name: str) -> str:
        """The id of what this call sends to that member."""
        return keyed_id(self.key, name.lower())


async def send_text(team: Team, sender: str, to: str, text: str, summary: str = "", call: Call | None = None) -> Sent:
    """Text from one member, or from `user`, to another; once for each `call`.

    Raises UnknownMember (nothing is created), TeamRefused for a message to oneself, UsageError for empty text,
    InboxFull, LockTimeout.
    """
    if not text.strip():
        raise UsageError(
            "usage", "a message needs text", do=["Say it in words, or send nothing."], note="nothing was sent"
        )
    text, summary = _masked(team, text), _masked(team, summary)
    if call is not None and call.again:
        sent = await _sent_before(team, addressee(to, team.names), call)
        if sent is not None:
            return sent
    member = await recipient(team, to)
    if member.name.lower() == sender.lower():
        raise TeamRefused(
            "team-refused",
            "you cannot send a message to yourself",
            do=["Write to another member, or continue your work."],
            note="nothing was sent",
        )
    id = call.message_to(member.name) if call is not None else message_id()
    entry = Entry(
        sender=sender,
        text=fenced(text),
        summary=summary or summary_of(text),
        timestamp=iso(),
        color=_color(team, sender),
        msg_id=id,
        extra={"no_reply": True} if call is not None and call.no_reply else {},
    )
    sent = await _deliver(team, member, entry)
    if _note(team, sender, member.name, sent, summary or summary_of(text)):
        await notify_lead(team, sender, member.name)
    return sent


async def _sent_before(team: Team, name: str, call: Call) -> Sent | None:
    """What became of it before the kill; None when it was not sent."""
    id, inboxes = call.message_to(name), team.inbox(LEAD).path.parent.glob("*.json")
    name = next((path.stem for path in inboxes if path.stem.lower() == name.lower()), name)  # as its file has it
    if not await team.inbox(name).has(id):
        return None
    mate = team.find(name)
    return Sent(
        mate.name if mate is not None else name, id, "queued_next_round", mate.color if mate is not None else None
    )


async def broadcast(team: Team, sender: str, text: str, summary: str = "", call: Call | None = None) -> list[Sent]:
    """Text to every other member, once for each `call`.

    Raises TeamRefused when there is nobody, or naming who did not get it.
    """
    if not text.strip():
        raise UsageError(
            "usage", "a message needs text", do=["Say it in words, or send nothing."], note="nothing was sent"
        )
    config = await team.roster.read()
    others = [m for m in config.members if m.name.lower() != sender.lower() and _reachable(team, m)]
    if not others:
        raise TeamRefused(
            "team-refused",
            "the team has no other member",
            do=["Start a teammate first, or do the work yourself."],
            note="nothing was sent",
        )
    sent: list[Sent] = []
    refused: list[tuple[str, TeamwrightError]] = []
    for member in others:
        try:
            sent.append(await send_text(team, sender, member.name, text, summary, call))
        except TeamwrightError as problem:
            refused.append((member.name, problem))
    if refused:
        _not_all(sent, refused)
    return sent


def _not_all(sent: Sequence[Sent], refused: Sequence[tuple[str, TeamwrightError]]) -> NoReturn:
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


async def send_protocol(
    team: Team, sender: str, to: str, message: Protocol, *, summary: str | None = None, id: str = ""
) -> str:
    """A protocol message of the runtime, under this id if one is given. Returns its message id."""
    masked = partial(_masked, team) if isinstance(message, IdleNotification) else str
    entry = Entry(
        sender=sender,
        text=masked(message.encode()),
        summary=summary,
        timestamp=iso(),
        color=_color(team, sender),
        msg_id=id or message_id(),
    )
    sent = entry.msg_id or ""
    if not await put(team, to, entry):
        return sent
    short = (
        message.result or message.failure_reason or "idle" if isinstance(message, IdleNotification) else message.TYPE
    )
    team.emit(MessageSent(member=sender, to=to, message_id=sent, summary=summary_of(masked(short)), wire=message.TYPE))
    team.ring(to)
    return sent


async def recipient(team: Team, to: str, note: str = "nothing was sent") -> Member:
    """The member that a `to` means: a name, an agent id, or the lead's alias.

    Raises UnknownMember listing the members and the nearest name; an agent type names the member that has it. `note`
    says in the error that nothing was done.
    """
    name: MemberName = addressee(to, team.names)
    config = await team.roster.read()
    member = config.find(name)
    if member is None:
        raise _unknown(team, name, config.members, note)
    if not _reachable(team, member):
        mate = team.members.get(member.name)
        kept = mate is not None and mate.kept
        crashed = [f'Agent with name "{member.name}" resumes it with its conversation.'] if kept else []
        raise UnknownMember(
            "unknown-member",
            f'"{member.name}" {"has crashed" if kept else "is no longer running"}',
            looked_at=[("running", _names(team))],
            do=[*crashed, "Give the work to an agent that is running, or start a new teammate."],
            note=note,
        )
    return member


def _reachable(team: Team, member: Member) -> bool:
    """Whether somebody may read it: the lead always, a member of this process while it lives, any other program's."""
    name = member.name.lower()
    if member.name == LEAD or (member.backend_type != "in-process" and name not in team.outside.processes):
        return True
    if team.reached is not None and team.find(name) is None:
        return team.reached(member.name) is not None or name in team.outside.strangers
    return team.find(name) is not None or name in team.coming_back or name in team.outside.strangers


def _unknown(team: Team, name: str, members: Sequence[Member], note: str) -> UnknownMember:
    same_type = next((m.name for m in members if m.agent_type.lower() == name.lower()), None)
    close = same_type or nearest(name, [m.name for m in members])
    do = ["Name one of the members."]
    if same_type:
        do = [f'"{name}" is an agent type; the member of that type is {same_type}']
    elif close:
        do = [f"did you mean {LEAD_ALIAS if close == LEAD else close}?"]
    return UnknownMember(
        "unknown-member",
        f'"{name}" is not in team {team.name}',
        looked_at=[("members", ", ".join(LEAD_ALIAS if m.is_lead else m.name for m in members))],
        do=do,
        note=note,
    )


async def _deliver(team: Team, member: Member, entry: Entry) -> Sent:
    idle = _outcome(team, entry.sender, member)
    if idle == "woke" and entry.extra.get("no_reply"):
        idle = "queued_next_round"
    sent = await team.inbox(member.name).send(entry, runtime=False)
    team.ring(member.name)
    if idle in {"woke", "queued_next_round"} and not _reachable(team, member):
        idle = "no_consumer"  # it ended while the message was on its way
    return Sent(member.name, sent, idle, member.color)


def _outcome(team: Team, sender: str, member: Member) -> str:
    if member.name == LEAD and team.reached is None:
        if team.lead_desk is None:
            return "no_consumer"
        return "queued_next_round" if team.lead_desk.busy else "woke"
    found = team.find(member.name)
    if found is None and team.reached is not None and (state := team.reached(member.name)) is not None:
        return "woke" if state in {State.IDLE, State.AWAITING} else "queued_next_round"
    if found is None or member.name.lower() in team.outside.strangers:
        return "queued_next_round" if member.name.lower() in team.coming_back else "accepted"
    held = found.door.held(sender)
    return "woke" if found.state in {State.IDLE, State.AWAITING} and not held else "queued_next_round"


def _note(team: Team, sender: str, to: str, sent: Sent, summary: str) -> bool:
    """Count the message for its sender's turn and for the ping-pong guard; True when the guard stops the two."""
    author = team.find(sender)
    if author is not None:
        if to == LEAD:
            author.notes.wrote_lead = True
        else:
            author.notes.peer_mail = f"[to {to}] {summary}"
    file = mark_of(team.home, str(team.inbox(to).path))
    team.emit(MessageSent(member=sender, to=to, message_id=sent.message_id, summary=summary, file=file))
    return talked(team, sender, to)


def _color(team: Team, sender: str) -> str | None:
    member = team.find(sender)
    return member.color if member is not None else None


def _names(team: Team) -> str:
    here = [m.name for m in team.live]
    known = team.standing.members if team.reached is not None else {}
    others = [name for name, one in known.items() if name not in {LEAD, *here} and not one.gone]
    return ", ".join([LEAD_ALIAS, *here, *others])
