"""Stops of a member or a whole team from another process: by a request to the lead's process, then by force.

Force is used when the lead does not answer, and only on the process that holds the lease, never on a bare pid. Depends
on team addresses and request files; the team's own process decides how members end.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from shlex import quote
from typing import Any, cast

from msgspec import Struct

from teamwright.config.person_authority import require_person
from teamwright.protocol.errors import TeamRefused, TeamwrightError
from teamwright.protocol.ids import LEAD
from teamwright.protocol.time_limit import time_limit
from teamwright.protocol.unknown_names import known_name
from teamwright.requests.request_store import RequestStore, file_stem
from teamwright.requests.stop_request import (
    LeadProcess,
    StopRequest,
    acknowledged_for_s,
    acknowledgement_path,
    stop_answer,
)
from teamwright.saved.orphaned_members import EndedOrphans
from teamwright.saved.saved_team_access import TERMINATE_S, LeadProcessWatch
from teamwright.saved.team_address import TeamAddress, external_error, runs_with_lead
from teamwright.storage.doorbell import TeamDoorbells
from teamwright.storage.file_watcher import Watcher
from teamwright.teams.shutdown import lead_stop_error

TAKEN_S = 10.0
"""Seconds for the lead's process to begin with a request, before it counts as hung."""

TAKEN_NOW_S = 5.0
"""The same for an immediate stop."""

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
        raise lead_stop_error([target.resume_command.replace("teamwright resume", "teamwright stop")])
    if target.has_ended(recipient):
        return StopResult(target.name, recipient, "not_running", f"{recipient} has ended already")
    member = target.member(recipient)
    if target.file is None or not runs_with_lead(target, member):
        raise external_error(target, member.name)
    if not target.is_led():
        return await _stop_orphans(target, member.name)
    request = StopRequest.new(
        member.name, now=now, lead=_lead_process(target), incarnation=target.file.incarnations.get(member.name.lower())
    )
    lead = target.lead()
    requester = _StopRequester(target, request, lead)
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
    ended = _words(answer, "ended")
    outcome = "ended" if ended else "not_running"
    handed = _words(answer, "handed_back")
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
    request = StopRequest.new(LEAD, now=now, lead=_lead_process(target))
    lead = target.lead()
    if lead is None:
        if not target.is_led():
            return await _stop_orphans(target, "")
        raise _unknown_lead(target)
    try:
        answer = await _StopRequester(target, request, lead).answered(timeout_s, TAKEN_NOW_S if now else TAKEN_S)
        if answer is not None and answer["approve"] is not True:
            raise _refused(target, lead.pid, str(answer.get("reason", "")))
        ended, handed = _words(answer or {}, "ended"), _words(answer or {}, "handed_back")
        if await lead.wait_for_end(TERMINATE_S if answer is not None else 0.0):
            return StopResult(
                target.name, "", "ended", "", ended, handed, target.resume_command, target.remove_command, lead.pid
            )
        outcome = await lead.force_end()
        return StopResult(
            target.name, "", outcome, "", ended, handed, target.resume_command, target.remove_command, lead.pid
        )
    finally:
        lead.close()


async def _stop_orphans(target: TeamAddress, member: str) -> StopResult:
    """Stop member processes that outlived their lead; the members keep their places."""
    reason, found = f'no process runs the team "{target.name}" now', EndedOrphans()
    if target.file is not None:
        found = await target.access.stop_orphans(target.file, [member] if member else ())
    if found.stayed:
        numbers = ", ".join(map(str, found.stayed))
        raise TeamwrightError("failed", f"some processes would not end: {numbers}", note="nothing was lost")
    outcome = "ended" if found.members else "not_running"
    ended = found.members
    return StopResult(
        target.name, member, outcome, reason, ended, resume=target.resume_command, remove=target.remove_command
    )


def _lead_process(target: TeamAddress) -> LeadProcess:
    assert target.file is not None
    return LeadProcess.from_lease(target.file.lead.session, Path(target.file.lead.lease))


def _unknown_lead(target: TeamAddress) -> TeamwrightError:
    assert target.file is not None
    return TeamwrightError(
        "failed",
        "it is not sure which process leads the team",
        looked_at=[("lease", target.file.lead.lease or "none"), ("team.json", f"process {target.file.lead.pid}")],
        do=["end it in the terminal where it runs"],
        note="nothing was done",
    )


def _refused(target: TeamAddress, pid: int, reason: str) -> TeamRefused:
    return TeamRefused(
        "team-refused",
        reason or "its lead refused",
        looked_at=[("team", target.name), ("process", str(pid))],
        note="nothing was done",
    )


def _words(answer: dict[str, Any], key: str) -> tuple[str, ...]:
    value = answer.get(key)
    return tuple(str(one) for one in cast("list[object]", value)) if isinstance(value, list) else ()


class _StopRequester(Struct):
    """One request, from its creation to its answer."""

    target: TeamAddress
    request: StopRequest
    lead: LeadProcessWatch | None
    is_acknowledged: bool = False
    """True when the lead's process carries out the request: only its answer is late."""

    async def answered(self, timeout_s: float | None, taken_s: float) -> dict[str, Any] | None:
        """Return the answer; None when the lead's process ended without one, or does not answer in time.

        It has `taken_s` seconds to begin, then the time that it announces; `timeout_s` bounds both. An unanswered
        request is withdrawn, so that it is not carried out later.
        """
        box = RequestStore.of_team(self.target.home, self.target.directory)
        self.request.open_in(box, taken_s)
        try:
            async with Watcher() as watcher:
                return await self._wait(box, watcher, timeout_s, taken_s)
        finally:
            self._retire(box)

    async def _wait(
        self, box: RequestStore, watcher: Watcher, timeout_s: float | None, taken_s: float
    ) -> dict[str, Any] | None:
        news = asyncio.Event()
        answer = box.directory / f"{file_stem(self.request.id)}.answer.json"
        for path in (answer, acknowledgement_path(box, self.request.id)):
            watcher.follow(path, news.set)
        deaf = self.lead.on_end(news.set) if self.lead is not None else None
        loop = asyncio.get_running_loop()
        begun, patience = loop.time(), taken_s
        TeamDoorbells(self.target.home, self.target.directory).ring(LEAD)
        try:
            while True:
                news.clear()
                alive = self.lead is None or self.lead.is_alive
                if (found := box.get_answer(self.request.id)) is not None or not alive:
                    return found
                granted = acknowledged_for_s(box, self.request.id)
                if granted is not None:
                    patience = loop.time() - begun + granted
                left = (patience if timeout_s is None else min(patience, timeout_s)) - (loop.time() - begun)
                async with time_limit(left):
                    await news.wait()
        except TimeoutError:
            self.is_acknowledged = acknowledged_for_s(box, self.request.id) is not None
            return None
        finally:
            if deaf is not None:
                deaf()

    def _retire(self, box: RequestStore) -> None:
        with contextlib.suppress(TeamwrightError):
            box.answer(self.request.id, stop_answer(False, "withdrawn by the sender") | {"by": "user"})
            box.retire(self.request.id)
        with contextlib.suppress(OSError):
            acknowledgement_path(box, self.request.id).unlink(missing_ok=True)
