"""A team on disk for audits: made by the rooms that own the files, then damaged by hand where a test says so."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from teamwright.agent.conversation import Conversation, UserMessage
from teamwright.agent.prompt import store_prefix
from teamwright.mail.inbox import Inbox, inbox_for
from teamwright.models.model import Prefix, Reply
from teamwright.protocol.events import MessageSent, TaskChanged, TaskInfo
from teamwright.protocol.ids import LEAD, iso_time, message_id, now_ms
from teamwright.protocol.mail import InboxEntry
from teamwright.protocol.members import RosterMember
from teamwright.protocol.messages import text_block, tool_result_block
from teamwright.protocol.runtime_tags import NO_KEY_TAGS
from teamwright.protocol.usage import Usage
from teamwright.storage.event_log import EventLog
from teamwright.storage.file_lease import lease_path
from teamwright.storage.paths import Home
from teamwright.tasks.file_task_store import FileTaskStore
from teamwright.tasks.task_list import TaskList
from teamwright.team_records.roster import Roster, RosterFile
from teamwright.team_records.team_catalogue import NewTeam, Teams
from teamwright.team_records.team_state import LeadLease
from teamwright.views.audit.audit import Audit, audit

SESSION = "7f3a0000-0000-4000-8000-0000000000a1"
PREFIX = Prefix.build({"model": "m", "system": []})


@dataclass
class Audited:
    """The team `crew` with the member ann: a lead's session, a log, a task list, mail that goes its proper way."""

    home: Home
    cwd: Path
    directory: str = ""
    talks: dict[str, Conversation] = field(default_factory=dict)
    pid: int = 999_999_999

    async def made(self, name: str = "crew", session: str = SESSION) -> Audited:
        base = self.home.session(self.cwd, session)
        self.log = EventLog(base / "events.jsonl")
        store_prefix(base / "prefixes", PREFIX)
        lead = LeadLease(session, self.pid, str(lease_path(base)))
        new = NewTeam(name, lead, str(self.cwd), "m", now_ms(), log=str(self.log.path))
        self.session, self.name = session, name
        self.directory = (await Teams(self.home).create(new)).directory
        self.tasks = TaskList(FileTaskStore(self.home.tasks(self.directory), self.home.guard), on_change=self._changed)
        if LEAD not in self.talks:
            self.born(LEAD)
        await self.joins("ann")
        return self

    async def joins(self, name: str, **more: Any) -> None:
        self.lives(name, 1)
        member = RosterMember(
            f"{name}@{self.name}", name, model="m", joined_at=1, **{"backend_type": "in-process", **more}
        )
        await Roster(RosterFile(self.home, self.directory)).join(member)
        self.born(name)

    def lives(self, name: str, number: int) -> None:
        path = self.home.team_file(self.directory)
        data = json.loads(path.read_bytes())
        data["incarnations"][name] = number
        path.write_text(json.dumps(data))

    def born(self, name: str, file: str = "") -> Conversation:
        if name == LEAD:
            path, id = self.home.transcript(self.cwd, self.session), LEAD
        else:
            path, id = self.home.agent_transcript(self.cwd, self.session, file or name), f"{name}@{self.name}"
            if path.exists():  # an earlier team of the session had one of the name
                path = path.with_stem(f"{path.stem}-2")
        about = {"session": self.session, "member": name, "agent_id": id, "cwd": str(self.cwd), "model": "m"}
        self.talks[name] = Conversation.start(path, PREFIX, about)
        return self.talks[name]

    # ── mail ─────────────────────────────────────────────────────────────────────────────────────────────────

    def inbox(self, name: str) -> Inbox:
        path = self.home.inbox(self.directory, name)
        return inbox_for(path, self.home.guard(path), self.home.inbox_archive(self.directory, name))

    def array(self, name: str) -> list[dict[str, Any]]:
        return json.loads(self.home.inbox(self.directory, name).read_bytes())

    def rewrite(self, name: str, entries: Sequence[dict[str, Any]]) -> None:
        """As a stranger does it: the whole array, in a layout of its own."""
        self.home.inbox(self.directory, name).write_text(json.dumps(list(entries), indent=2))

    async def send(self, to: str, text: str, sender: str = LEAD, *, logged: bool = True) -> InboxEntry:
        entry = InboxEntry(sender, text, timestamp=iso_time(), msg_id=message_id())
        await self.inbox(to).put(entry)
        if logged:
            self.sent(entry, to)
        return entry

    def sent(self, entry: InboxEntry, to: str, wire: str = "", summary: str = "words") -> None:
        event = MessageSent(member=entry.sender, to=to, message_id=entry.msg_id or "", summary=summary, wire=wire)
        self.log.emit(event)

    async def read(self, name: str) -> list[InboxEntry]:
        """The member's next turn: what is unread is told, answered, flagged."""
        entries = await self.inbox(name).unread()
        self.told(name, *entries)
        self.answers(name)
        await self.inbox(name).mark_delivered([e.msg_id for e in entries if e.msg_id])
        return entries

    def told(self, name: str, *entries: InboxEntry) -> None:
        blocks = tuple(text_block(NO_KEY_TAGS.entry(entry)) for entry in entries)
        self.talks[name].append_user_message(UserMessage(blocks, tuple(f"mail:{entry.msg_id}" for entry in entries)))

    def answers(self, name: str) -> None:
        self.talks[name].append_reply(_reply({"type": "text", "text": "well"}))

    def calls(self, name: str, tool: str, given: dict[str, Any], result: str | None, *, error: bool = False) -> None:
        """A call and its result (None: it has none yet)."""
        id = message_id()
        self.talks[name].append_reply(_reply({"type": "tool_use", "id": id, "name": tool, "input": given}))
        if result is not None:
            self.talks[name].append_user_message(UserMessage((tool_result_block(id, result, is_error=error),)))
            self.answers(name)

    # ── tasks ────────────────────────────────────────────────────────────────────────────────────────────────

    async def does(self, id: str, by: str) -> None:
        await self.tasks.update(id, by=by, status="in_progress")
        await self.tasks.update(id, by=by, status="completed")

    def _changed(self, task: Any, change: str, by: str) -> None:
        self.step(task.id, change, str(task.status), task.owner, task.blocked_by, by)

    def step(
        self,
        id: str,
        change: str,
        status: str,
        owner: str | None,
        blocked_by: Sequence[str] = (),
        by: str = "",
        **at: Any,
    ) -> None:
        info = TaskInfo(id=id, subject="s", status=status, owner=owner, blocked_by=tuple(blocked_by))
        self.log.emit(TaskChanged(member=by or owner or LEAD, task=info, change=change, **at))

    def edit_task(self, id: str, **changes: Any) -> None:
        path = self.home.tasks(self.directory) / f"{id}.json"
        path.write_text(json.dumps({**json.loads(path.read_bytes()), **changes}))

    # ── looking ──────────────────────────────────────────────────────────────────────────────────────────────

    def audit(self, team: str = "", **more: Any) -> Audit:
        self.log.flush()
        return audit(self.home, team or self.name, **more)


def _reply(*content: dict[str, Any]) -> Reply:
    return Reply(list(content), "tool_use" if content[0]["type"] == "tool_use" else "end_turn", Usage(), "m", "r")
