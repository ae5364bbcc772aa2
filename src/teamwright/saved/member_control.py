"""Messages of the user to a member from another process, and stops of a member or a whole team.

A message has the locks and limits of any other sender. A stop is a request to the lead's process, then force: only when
the lead does not answer, and only on the process that holds the lease, never on a bare pid. The team's own process
decides how members end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from shlex import quote
from typing import Any, cast

from msgspec import Struct

from teamwright.config.trust import require_person
from teamwright.protocol.errors import LimitExceeded, ModelFailed, TeamRefused, TeamwrightError, UsageError
from teamwright.protocol.events import MemberChanged, MessageDelivered, TeamEvent, TurnEnded
from teamwright.protocol.ids import (
    LEAD,
    LEAD_ALIAS,
    display_name,
    ended_member,
    iso_time,
    known_name,
    lead_stop_error,
    message_id,
)
from teamwright.protocol.mail import InboxEntry, fence_protocol
from teamwright.protocol.members import MemberState, RosterMember
from teamwright.protocol.time_limit import time_limit
from teamwright.requests.request_store import USER, StopRequest
from teamwright.saved.lead_request import TAKEN_S, LeadRequester, lead_process
from teamwright.saved.orphaned_members import EndedOrphans
from teamwright.saved.team_access import TERMINATE_S, LeadProcessWatch, TeamAddress, external_error, runs_with_lead
from teamwright.storage.event_log import LogTail, last_number
from teamwright.storage.file_watcher import Watcher
from teamwright.team_records.life_cycle import INCARNATION_ENDS
from teamwright.teams.outgoing_mail import default_summary

EVERYONE = "*"
"""The name that addresses all members of a team."""


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
    return Delivery(target.name, display_name(member.name), sent, outcome, member.color, resume)


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
        what = f'the process that led "{self.target.name}" is gone'
        raise TeamwrightError("failed", what, do=[self.target.resume_command], note="the message is stored")

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


TAKEN_NOW_S = 5.0
"""Seconds for the lead's process to begin with an immediate stop; see TAKEN_S."""

STOPS = "ends members and teams from outside"
"""The action that needs a person, in words."""


class StopResult(Struct, frozen=True):
    """The result of a stop. `outcome`: `ended`, `objected` (`reason` says why), `not_running`, `killed` (the lead's
    process did not answer), or `fenced` (nor did that of a team in a database, which can change nothing from now on).
    `member` is empty for the whole team; `handed_back` are numbers of tasks.
    """

    team: str
    member: str
    outcome: str
    reason: str = ""
    ended: tuple[str, ...] = ()
    handed_back: tuple[str, ...] = ()
    resume: str = ""
    remove: str = ""
    pid: int = 0


async def stop_member(target: TeamAddress, name: str, *, now: bool, timeout_s: float | None = None) -> StopResult:
    """Stop a member, which may object within its deadline, unless `now` is True.

    Raises UnknownMember, TeamRefused for an external member and for the lead, TeamwrightError (`failed`) when the
    lead's process does not answer, or the member has not ended within `timeout_s` seconds.
    """
    require_person(target.home, STOPS, f"stop {name}@{target.name}"[:100])
    recipient = known_name(name, target.names, target.member_names, f"team {target.name}")
    if recipient == LEAD:
        raise lead_stop_error([target.home.name_in(f"teamwright stop {quote(target.name)}")])
    if target.has_ended(recipient):
        return StopResult(target.name, recipient, "not_running", f"{recipient} has ended already")
    member = target.member(recipient)
    if target.file is None or not runs_with_lead(target, member):
        raise external_error(target, member.name)
    if not target.is_led():
        return await _stop_orphans(target, member.name)
    request = StopRequest.new(
        member.name, now=now, lead=lead_process(target), incarnation=target.file.incarnations.get(member.name.lower())
    )
    lead = target.lead()
    requester = LeadRequester(target, request, lead)
    try:
        answer = await requester.answered(timeout_s, TAKEN_S)
        pid = lead.pid if lead is not None else target.file.lead.pid
    finally:
        if lead is not None:
            lead.close()
    if answer is None:
        if not target.is_led():
            return await _stop_orphans(target, member.name)
        late = f"{member.name} has not ended yet; it was asked to stop, and ends later unless it objects"
        to_stop = f"{member.name}@{target.name}" if requester.is_acknowledged else target.name
        deaf = f"process {pid}, which runs {member.name}, does not answer"
        raise TeamwrightError(
            "failed",
            late if requester.is_acknowledged else deaf,
            do=[f"teamwright stop {quote(to_stop)} --now"],
            note="nothing was lost",
        )
    if answer["approve"] is not True:
        return StopResult(target.name, member.name, "objected", str(answer.get("reason", "")))
    ended = _texts(answer, "ended")
    outcome = "ended" if ended else "not_running"
    handed = _texts(answer, "handed_back")
    return StopResult(target.name, member.name, outcome, str(answer.get("reason", "")), ended, handed)


async def stop_team(target: TeamAddress, *, now: bool, timeout_s: float | None = None) -> StopResult:
    """Stop the process that leads a team, so that the team can be resumed; by force when it does not answer.

    `timeout_s` is how long a stop without force may take, in seconds. Raises TeamRefused for another product's team,
    and for a team that a program of the user leads; TeamwrightError (`failed`) when the process cannot be stopped.
    """
    require_person(target.home, STOPS, f"stop {target.name}"[:100])
    if target.file is None:
        raise external_error(target, target.name)
    if not target.is_led():
        return await _stop_orphans(target, "")
    request = StopRequest.new(LEAD, now=now, lead=lead_process(target))
    lead = target.lead()
    if lead is None:
        if not target.is_led():
            return await _stop_orphans(target, "")
        raise _unknown_lead(target)
    try:
        answer = await LeadRequester(target, request, lead).answered(timeout_s, TAKEN_NOW_S if now else TAKEN_S)
        if answer is not None and answer["approve"] is not True:
            raise TeamRefused(
                "team-refused",
                str(answer.get("reason", "")) or "its lead refused",
                looked_at=[("team", target.name), ("process", str(lead.pid))],
                note="nothing was done",
            )
        ended = _texts(answer or {}, "ended")
        handed = _texts(answer or {}, "handed_back")
        has_ended = await lead.wait_for_end(TERMINATE_S if answer is not None else 0.0)
        return StopResult(
            target.name,
            "",
            "ended" if has_ended else await lead.force_end(),
            ended=ended,
            handed_back=handed,
            resume=target.resume_command,
            remove=target.remove_command,
            pid=lead.pid,
        )
    finally:
        lead.close()


async def _stop_orphans(target: TeamAddress, member: str) -> StopResult:
    """Stop member processes that outlived their lead; the members keep their places."""
    reason = f'no process runs the team "{target.name}" now'
    found = EndedOrphans()
    if target.file is not None:
        found = await target.access.stop_orphans(target.file, [member] if member else ())
    if found.stayed:
        numbers = ", ".join(map(str, found.stayed))
        raise TeamwrightError("failed", f"some processes would not end: {numbers}", note="nothing was lost")
    return StopResult(
        target.name,
        member,
        "ended" if found.members else "not_running",
        reason,
        found.members,
        resume=target.resume_command,
        remove=target.remove_command,
    )


def _unknown_lead(target: TeamAddress) -> TeamwrightError:
    assert target.file is not None
    return TeamwrightError(
        "failed",
        "it is not sure which process leads the team",
        looked_at=[("lease", target.file.lead.lease or "none"), ("team.json", f"process {target.file.lead.pid}")],
        do=["end it in the terminal where it runs"],
        note="nothing was done",
    )


def _texts(answer: dict[str, Any], key: str) -> tuple[str, ...]:
    value = answer.get(key)
    return tuple(str(one) for one in cast("list[object]", value)) if isinstance(value, list) else ()
