"""Presence of a lead that is another program, and its mail to our member.

Signs of absence, the surest first: the team's files are gone; the process that the roster names (newer format), or that
the tmux server is named after, has ended; mail to the lead is unread for ten grace periods.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, field

from teamwright.mail.mailbox import FollowedMailbox, Mailbox
from teamwright.processes.pid_watch import WatchedProcess
from teamwright.protocol.errors import StorageError, TeamwrightError
from teamwright.protocol.events import Notice
from teamwright.protocol.ids import LEAD, parse_iso_ms
from teamwright.protocol.mail import (
    InboxEntry,
    PermissionResponse,
    PlanApprovalResponse,
    ShutdownRequest,
    fence_protocol,
    parse_protocol,
)
from teamwright.protocol.members import TeamConfig
from teamwright.teams.plan_approval import apply_answer, resume_plan
from teamwright.teams.plan_requests import answer_body, is_plan_of, newest_plan
from teamwright.teams.team import SessionTeam

_SECOND_ANSWER_NOTE = "(This plan was answered before, and the first answer counts.)"


class LeadMail(Struct):
    """The lead's mail to the member of this name. `since_ms`: earlier mail is not for this incarnation.

    `apply_permission` passes on a permission answer, and returns True when such a request existed; `set_mode` receives
    the permission mode that the lead gave when it approved a plan.
    """

    team: SessionTeam
    name: str
    since_ms: int
    apply_permission: Callable[[PermissionResponse], Awaitable[bool]]
    set_mode: Callable[[str], None]
    _filtered: dict[str, InboxEntry | None] = field(default_factory=dict[str, "InboxEntry | None"])
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def filter_entries(self, inbox: Mailbox, entries: Sequence[InboxEntry]) -> list[InboxEntry]:
        """Return the entries for the member's model; entries that are handled here are flagged. Raises StorageError."""
        async with self._lock:
            deliveries: list[InboxEntry] = []
            done: list[str] = []
            now: dict[str, InboxEntry | None] = {}
            for entry in entries:
                id = entry.msg_id or ""
                delivery = now[id] = self._filtered[id] if id in self._filtered else await self._handle(entry)
                deliveries += [delivery] if delivery is not None else []
                done += [id] if delivery is None else []
            self._filtered = now
            if done:
                await inbox.mark_delivered(done)
            return deliveries

    async def _handle(self, entry: InboxEntry) -> InboxEntry | None:
        message = parse_protocol(entry.text) if entry.sender == LEAD else None
        try:
            match message:
                case ShutdownRequest():
                    return self._handle_stop_request(entry, message)
                case PlanApprovalResponse():
                    return self._handle_plan_answer(entry, message)
                case PermissionResponse():
                    return await self._handle_permission(entry, message)
                case _:
                    pass
        except (TeamwrightError, TypeError, ValueError, AttributeError) as problem:  # other programs may write anything
            why = problem.what if isinstance(problem, TeamwrightError) else "it is not understood"
            self._report(f"mail of the lead is left as it is: {why}", "warning")
        return entry

    # ── stop requests ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _handle_stop_request(self, entry: InboxEntry, message: ShutdownRequest) -> InboxEntry:
        id = message.request_id
        _, _, to = id.partition("@")
        written = parse_iso_ms(entry.timestamp or "") or parse_iso_ms(message.timestamp)
        if (to and to.lower() != self.name.lower()) or (written is not None and written < self.since_ms):
            self._report(f"{id} is not a request to this run of {self.name}: it has no effect", "info")
            return entry.copy_with(text=fence_protocol(entry.text))
        teammate = self.team.find_in_process(self.name)
        body = {"kind": "shutdown", "requester": LEAD, "target": self.name, "reason": message.reason}
        incarnation = teammate.incarnation if teammate is not None else None
        self.team.requests.open(id, {**body, "incarnation": incarnation, "message": entry.msg_id})
        self._report_unverified(f"asked to stop ({id})")
        return entry

    # ── plans ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _handle_plan_answer(self, entry: InboxEntry, message: PlanApprovalResponse) -> InboxEntry:
        id = message.request_id
        box = self.team.requests
        teammate = self.team.find_in_process(self.name)
        request = box.get(id)
        if request is None or teammate is None or not is_plan_of(request, self.name, teammate.incarnation):
            return entry
        approved = message.approved is True
        answer = answer_body(approved, message.feedback or "", LEAD) | {"message": entry.msg_id}
        if not box.answer(id, answer):
            first = box.get_answer(id) or {}
            if first.get("message") == entry.msg_id:  # applied before a kill
                apply_answer(teammate, request, first)
                return entry
            outcome = "approved" if approved else f"not approved: {message.feedback or 'no reason was given'}"
            return entry.copy_with(text=f"Your plan was {outcome} {_SECOND_ANSWER_NOTE}")
        self._report_unverified(f"{'approved' if approved else 'sent back'} a plan ({id})")
        if approved and message.permission_mode:
            self.set_mode(message.permission_mode)
        apply_answer(teammate, request, answer)
        return entry

    async def resume_plan(self) -> None:
        """Resume the last plan of an earlier process: it waits again, or its answer is applied.

        Raises StorageError.
        """
        teammate = self.team.find_in_process(self.name)
        request = newest_plan(self.team.requests, self.name, teammate.incarnation) if teammate is not None else None
        if teammate is None or request is None:
            return
        answer = self.team.requests.get_answer(str(request["id"]))
        if answer is None:
            await resume_plan(self.team, teammate)
        else:
            apply_answer(teammate, request, answer)

    # ── permissions ───────────────────────────────────────────────────────────────────────────────────────────

    async def _handle_permission(self, entry: InboxEntry, message: PermissionResponse) -> InboxEntry | None:
        if not await self.apply_permission(message):
            return entry
        self._report_unverified(f"answered {message.request_id}")
        return None

    def _report_unverified(self, what: str) -> None:
        self._report(f"the lead {what}; unverified: the sender cannot be proved", "info")

    def _report(self, text: str, level: str) -> None:
        self.team.emit(Notice(member=self.name, text=text, level=level))


UNREAD_GRACE_FACTOR = 10
"""A lead without a known process counts as gone once mail is unread for this many grace periods."""

_TMUX_SERVER = re.compile(r"claude-swarm-(\d+)")


def lead_pid_from_env(env: Mapping[str, str]) -> int:
    """Return the lead's pid from the name of the current tmux server (as observed); 0 without one."""
    found = _TMUX_SERVER.fullmatch(Path(env.get("TMUX", "").partition(",")[0]).name)
    return int(found[1]) if found is not None else 0


def lead_process(config: TeamConfig, env: Mapping[str, str]) -> WatchedProcess | None:
    """Return the lead's process by the roster or the tmux server; None when neither names one that runs here.

    Call this before the member is on the roster: the end of the lead is noticed from then on.
    """
    return WatchedProcess.open(_lead_pid(config)) or WatchedProcess.open(lead_pid_from_env(env))


def _lead_pid(config: TeamConfig) -> int:
    process = config.extra.get("leadProcess")
    pid = cast("dict[str, Any]", process).get("pid") if isinstance(process, dict) else None
    return pid if isinstance(pid, int) else 0


class LeadPresence:
    """The presence of one lead. `on_gone` is called once, with the reason. `process` is its process, if the start names
    one.

    `grace_s`: seconds to wait after its process ended; another process may resume the team.
    """

    def __init__(
        self,
        mailbox: FollowedMailbox,
        grace_s: float,
        on_gone: Callable[[str], None],
        process: WatchedProcess | None = None,
    ) -> None:
        self._mailbox = mailbox
        self._grace_s = grace_s
        self._on_gone = on_gone
        self._pid = 0
        self._process: WatchedProcess | None = None
        self._stop_watch: Callable[[], object] = _stop_nothing
        self._grace_timer: asyncio.TimerHandle | None = None
        self._unread_timer: asyncio.TimerHandle | None = None
        if process is not None:
            self._watch(process)

    def note_roster(self, config: TeamConfig | None) -> None:
        """Record the current roster; None means that the team's files are gone."""
        if config is None:
            self._report_gone("its team was removed")
            return
        pid = _lead_pid(config)
        if pid != self._pid and (process := WatchedProcess.open(pid)) is not None:
            self._watch(process)  # a pid without a process means nothing: it may be of another machine or namespace

    def note_sent(self, msg_id: str) -> None:
        """Record a message to the lead while there is no other work: a present lead reads it."""
        if self._unread_timer is not None:
            self._unread_timer.cancel()
        loop = asyncio.get_running_loop()
        self._unread_timer = loop.call_later(UNREAD_GRACE_FACTOR * self._grace_s, self._check_unread, msg_id)

    def note_work(self) -> None:
        """Record that there is work: no mail is waited for."""
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None

    def close(self) -> None:
        """Stop following the lead."""
        self._stop_watch()
        self.note_work()
        if self._grace_timer is not None:
            self._grace_timer.cancel()
        if self._process is not None:
            self._process.close()
            self._process = None

    def _watch(self, process: WatchedProcess) -> None:
        self._stop_watch()
        if self._process is not None:
            self._process.close()
        if self._grace_timer is not None:
            self._grace_timer.cancel()
            self._grace_timer = None
        self._pid = process.pid
        self._process = process
        self._stop_watch = process.on_end(self._on_process_end)

    def _on_process_end(self) -> None:
        self._stop_watch = _stop_nothing
        what = f"its lead was gone for {self._grace_s:g} s: process {self._pid} has ended"
        self._grace_timer = asyncio.get_running_loop().call_later(self._grace_s, self._report_gone, what)

    def _check_unread(self, msg_id: str) -> None:
        self._unread_timer = None
        if self._process is not None and self._process.is_alive:
            return
        with suppress(StorageError):
            if any(one.msg_id == msg_id and not one.read for one in self._mailbox.entries()):
                self._report_gone(f"its lead read no mail for {UNREAD_GRACE_FACTOR * self._grace_s:g} s")

    def _report_gone(self, why: str) -> None:
        on_gone, self._on_gone = self._on_gone, _ignore_reason
        on_gone(why)


def _stop_nothing() -> None:
    """Do nothing, since nothing is followed."""


def _ignore_reason(_why: str) -> None:
    """Ignore the reason, which was reported before."""
