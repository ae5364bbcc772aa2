"""Messages from the user to a member from another process, with the locks and limits of any other sender.

The result is described as in the team itself. Depends on team addresses and event logs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from teamwright.config.person_authority import require_person
from teamwright.protocol.errors import (
    LimitExceeded,
    ModelFailed,
    TeamRefused,
    TeamwrightError,
    UsageError,
)
from teamwright.protocol.events import MemberChanged, MessageDelivered, TeamEvent, TurnEnded
from teamwright.protocol.ids import LEAD, LEAD_ALIAS, message_id
from teamwright.protocol.mail import InboxEntry, fence_protocol
from teamwright.protocol.member_states import MemberState
from teamwright.protocol.roster import RosterMember
from teamwright.protocol.time_limit import time_limit
from teamwright.protocol.timestamps import iso_time
from teamwright.protocol.unknown_names import ended_member
from teamwright.requests.stop_request import USER
from teamwright.saved.saved_team_access import LeadProcessWatch
from teamwright.saved.team_address import TeamAddress, runs_with_lead
from teamwright.storage.event_log_reader import LogTail, last_number
from teamwright.storage.file_watcher import Watcher
from teamwright.team_records.life_cycle import INCARNATION_ENDS
from teamwright.teams.mailbox.outgoing import default_summary

EVERYONE = "*"

"""States of ended members. A suspended member keeps its place and continues when the team is resumed."""


class Delivery(Struct, frozen=True):
    """The result of a message. `outcome` is `woke`, `queued_next_round`, `accepted` (an external member) or
    `no_consumer`: no process runs the team, and `resume` is the command after which it is delivered.
    """

    team: str
    to: str
    message_id: str
    outcome: str
    color: str | None = None
    resume: str = ""


async def send(target: TeamAddress, name: str, text: str) -> Delivery:
    """Put the user's message into a member's inbox and ring its doorbell.

    Raises UnknownMember (also for an ended member; then nothing is created), UsageError, InboxFull, LockTimeout,
    LockLost, StorageError.
    """
    require_person(target.home, "writes to members as the user", f"send {name}@{target.name}"[:100])
    if not text.strip():
        raise UsageError("usage", "the message is empty", do=["say it in words"], note="nothing was sent")
    member = target.member(name)
    led = target.is_led()
    if led and member.name != LEAD and runs_with_lead(target, member) and target.state(member.name) in INCARNATION_ENDS:
        raise ended_member(member.name, target.member_names, note="nothing was sent")
    words = fence_protocol(text)
    entry = InboxEntry(
        sender=USER, text=words, summary=default_summary(words), timestamp=iso_time(), msg_id=message_id()
    )
    outcome = _outcome(target, member, led=led)  # a member that is idle may begin with the message at once
    sent = await target.access.send_mail(target.directory, member.name, entry)
    resume = target.resume_command if outcome == "no_consumer" else ""
    display_name = LEAD_ALIAS if member.name == LEAD else member.name
    return Delivery(target.name, display_name, sent, outcome, member.color, resume)


async def send_to_all(target: TeamAddress, text: str) -> list[Delivery]:
    """Send the message to all of the team, the lead too. Raises TeamRefused naming members that it did not reach."""
    sent: list[Delivery] = []
    refused: list[tuple[str, TeamwrightError]] = []
    for member in target.config.members:
        try:
            sent.append(await send(target, member.name, text))
        except TeamwrightError as problem:
            refused.append((member.name, problem))
    if not refused:
        return sent
    first = refused[0][1]
    if not sent:
        raise first
    raise TeamRefused(
        "team-refused",
        f"{', '.join(name for name, _ in refused)} did not get the message",
        looked_at=[(refused[0][0][:11], first.what)],
        do=["write to those again, one by one"],
        note=f"it was sent to {', '.join(one.to for one in sent)}",
    )


def _outcome(target: TeamAddress, member: RosterMember, *, led: bool) -> str:
    if not runs_with_lead(target, member) or target.file is None:
        return "accepted"
    if not led:
        return "no_consumer"
    return "woke" if target.state(member.name) in {MemberState.IDLE, ""} else "queued_next_round"


# ── waiting for the result ─────────────────────────────────────────────────────────────────────────────


class AnswerFollower(Struct):
    """The wait for the turn that answers a message. Created by `follow_answer`, before the message is sent."""

    target: TeamAddress
    _tail: LogTail
    _lead: LeadProcessWatch
    _news: asyncio.Event

    async def answer_to(self, delivery: Delivery, timeout_s: float | None) -> str:
        """Return the final text of the turn in which the message was delivered.

        Raises LimitExceeded at the time limit, ModelFailed or TeamwrightError (`failed`) when the turn failed, the
        member ended, or the lead's process exited: the message is stored in any case.
        """
        try:
            async with time_limit(timeout_s):
                return await self._follow(delivery)
        except TimeoutError:
            raise LimitExceeded(
                "limit",
                f"{delivery.to} has not answered within {timeout_s:g} s",
                do=[f"teamwright log {self.target.name} --member {delivery.to}"],
                note="the message is in its inbox",
            ) from None

    async def _follow(self, delivery: Delivery) -> str:
        member = LEAD if delivery.to == LEAD_ALIAS else delivery.to
        seen = False
        async for event in self._events():
            if event.member != member:
                continue
            seen = seen or (isinstance(event, MessageDelivered) and delivery.message_id in event.message_ids)
            if (text := _answered(event, delivery, seen=seen)) is not None:
                return text
        raise self._gone()

    async def _events(self) -> AsyncIterator[TeamEvent]:
        """Yield the log's events from now on, until the process that writes it has exited."""
        alive = True
        while alive:
            self._news.clear()
            alive = self._lead.is_alive  # checked first, so that its last events are still read
            while batch := self._tail.read():
                for _, event in batch:
                    yield event
            if alive:
                await self._news.wait()

    def _gone(self) -> TeamwrightError:
        what = f'the process that led "{self.target.name}" is gone'
        return TeamwrightError("failed", what, do=[self.target.resume_command], note="the message is stored")


def _answered(event: TeamEvent, delivery: Delivery, *, seen: bool) -> str | None:
    if isinstance(event, TurnEnded) and seen:
        if event.stop == "done":
            return event.text
        kind, slug = (LimitExceeded, "limit") if event.stop == "limit" else (ModelFailed, "model-failed")
        raise kind(slug, f"the turn of {delivery.to} failed: {event.detail or event.stop}")
    if isinstance(event, MemberChanged) and event.state in INCARNATION_ENDS:
        why = f": {event.detail}" if event.detail else ""
        raise TeamwrightError("failed", f"{delivery.to} ended before it answered{why}", note="the message is stored")
    return None


@asynccontextmanager
async def follow_answer(target: TeamAddress, name: str) -> AsyncGenerator[AnswerFollower | None, None]:
    """Follow the team's log from before the send; None when no Teamwright process leads the team.

    Raises UsageError for an external member, whose turns are not in the log.
    """
    if target.file is None or not runs_with_lead(target, target.member(name)):
        raise UsageError(
            "usage",
            f"--wait: {name} is run by another program, and its turns are not in the log",
            do=["leave --wait out"],
            note="nothing was sent",
        )
    lead = target.lead() if target.file.log else None
    if lead is None:
        yield None
        return
    log = Path(target.file.log)
    news = asyncio.Event()
    async with Watcher() as watcher:
        unfollow = watcher.follow(log, news.set)
        deaf = lead.on_end(news.set)
        try:
            yield AnswerFollower(target, LogTail(log, last_number(log)), lead, news)
        finally:
            deaf()
            unfollow()
            lead.close()
