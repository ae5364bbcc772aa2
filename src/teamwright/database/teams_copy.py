"""Copy the teams of a database into files of a private home, where a person's command reads them.

`refresh` reads what changed, in one snapshot of the database. `send_requests` gives requests and answers that the
command wrote into the copy to the process of the lead. `follow_copy` refreshes after each notification of a session,
and every few seconds, which finds new teams and leads that were killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.database.connection import Database
from teamwright.database.driver import Connection, Row
from teamwright.database.lead_elsewhere import LeadElsewhere
from teamwright.database.session_connection import SessionConnection
from teamwright.database.session_files import ANSWER, GROWING, REQUESTS, SessionFiles, requests_topic, session_topic
from teamwright.database.team_rows import held_sessions, load_archived_teams, load_teams
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.time_limit import time_limit
from teamwright.requests.request_store import RETIRED_DIRECTORY, RequestStore
from teamwright.storage.event_log import log_path
from teamwright.storage.file_lease import Lease, lease_path
from teamwright.storage.file_watcher import Names, Watcher
from teamwright.storage.files import storage_error, write_atomic
from teamwright.storage.json_array import encode_array
from teamwright.storage.paths import Home
from teamwright.team_records.file_stores import FileStores
from teamwright.team_records.stored_teams import StoredTeam
from teamwright.team_records.team_state import LeadLease

if TYPE_CHECKING:
    from teamwright.database.address import DatabaseAddress


_TEAM_MARKS = (
    "select s.team, r.xmin::text || ' ' || s.xmin::text as mark from documents s "
    "join documents r on r.team = s.team and r.kind = 'roster' where s.kind = 'state'"
)
"""The marks of all teams: each change of a row gives it the number of another transaction."""

MAIL_MARKS = (
    "select b.reader, b.shown_name, (select m.number from mail m where m.team = b.team and m.reader = b.reader "
    "order by m.number desc limit 1) as last, (select count(*) from mail m where m.team = b.team "
    "and m.reader = b.reader and not m.is_read) as unread from mailboxes b where b.team = $1"
)
"""The marks of the mailboxes of a team. Costs nothing for messages that were read: each change that adds none lowers
the number of unread ones.
"""

_CHANGED_MAIL = (
    "select number, body, is_read from mail where team = $1 and reader = $2 and number > $3 union all "
    "select number, body, is_read from mail where team = $1 and reader = $2 and number = any($4::bigint[])"
)

_PARTS = "select start, content from session_parts where session = $1 and name = $2 and start >= $3 order by start"

_INSERT_FILE = "insert into session_files (session, name, size, digest) values ($1, $2, $3, '') on conflict do nothing"
_INSERT_PART = "insert into session_parts (session, name, start, content) values ($1, $2, 0, $3)"


class _MailItem(NamedTuple):
    body: bytes
    is_read: bool


class _Mailbox(Struct):
    """The messages of a mailbox in the copy, by their numbers, and the mark of the mailbox at that time."""

    mark: tuple[int, int] = (0, 0)
    items: dict[int, _MailItem] = field(default_factory=dict[int, _MailItem])


class _Held(Struct, frozen=True):
    """The lease of a lead that lives, as the copy holds it, with the note in it."""

    note: bytes
    lease: Lease
    lead: LeadElsewhere


class TeamsCopy:
    """A copy of the teams of a database in an empty home.

    `word`, the name of a team, a member's address or the beginning of a session's id, restricts it to one team.
    """

    def __init__(self, database: Database, home: Home, word: str = "") -> None:
        self.database = database
        self.home = home
        self.own_sessions: set[str] = set()
        """Sessions whose lease this process holds, so that no lead does."""
        self._word = word
        self._paths = FileStores(home)
        self._team_marks: dict[str, str] = {}
        self._teams: dict[str, StoredTeam] = {}
        self._shown: dict[str, str] = {}
        self.sessions: tuple[str, ...] = ()
        """The sessions in the copy."""
        self._archived: dict[str, StoredTeam] = {}
        self._tasks: dict[str, dict[int, str]] = {}
        self._mail: dict[tuple[str, str], _Mailbox] = {}
        self._files: dict[str, dict[str, tuple[int, str]]] = {}
        self._notes: dict[str, bytes] = {}
        self._held: dict[str, _Held] = {}
        self._busy = asyncio.Lock()
        self._refreshed = asyncio.Event()

    async def refresh(self) -> None:
        """Bring the copy up to date. Raises StorageError."""
        async with self._busy:
            await self.database.read(self._refresh)
        self._refreshed.set()
        self._refreshed = asyncio.Event()

    async def wait_for_refresh(self) -> None:
        """Wait until the copy is brought up to date the next time."""
        await self._refreshed.wait()

    async def _refresh(self, connection: Connection) -> None:
        transaction = connection.transaction()
        await transaction.start()
        try:
            await connection.execute("set transaction isolation level repeatable read, read only")
            await self._copy(connection)
        finally:
            await transaction.rollback()

    async def _copy(self, connection: Connection) -> None:
        """Copy what changed: sessions first, so that what a team names is there before the team."""
        marks = {str(row["team"]): str(row["mark"]) for row in await connection.fetch(_TEAM_MARKS)}
        if marks != self._team_marks:
            self._teams = {team.directory: team for team in await load_teams(connection)}
            self._team_marks = marks
        named = self._named_teams()
        copied = named or [*self._teams.values()]
        archived = [] if named else await self._copy_archived(connection)
        sessions = {str(row["session"]): row for row in await connection.fetch("select session, cwd from sessions")}
        self.sessions = tuple(self._wanted_sessions(named, archived, sessions))
        for session in self.sessions:
            await self._copy_session(connection, session, str(sessions[session]["cwd"]))
        live = await held_sessions(connection, [team.file.lead.session for team in copied]) - self.own_sessions
        for team in copied:
            await self._copy_team(connection, team)
        for directory in self._shown.keys() - {team.directory for team in copied}:
            self._forget(directory)
        for team in copied:
            self._set_lease(team, is_live=team.file.lead.session in live)

    # ── teams ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _named_teams(self) -> list[StoredTeam]:
        """Return the teams that the word names; none for the beginning of a session's id, and without a word."""
        name = self._word.rpartition("@")[2].lower()
        return [team for team in self._teams.values() if name in {team.config.name.lower(), team.directory.lower()}]

    async def _copy_team(self, connection: Connection, team: StoredTeam) -> None:
        """Write the files of a team, its roster last: a reader that finds the team finds the rest."""
        await self._copy_tasks(connection, team.directory, self._paths.task_directory(team.directory))
        roster = self._paths.roster(team.directory).path
        await self._copy_mail(connection, team.directory, roster.parent / "inboxes")
        mark = self._team_marks[team.directory]
        if self._shown.get(team.directory) != mark:
            place = self._session_place(team)
            lead = LeadLease(team.file.lead.session, team.file.lead.pid, str(lease_path(place)))
            file = replace(team.file, lead=lead, log=str(log_path(place)))
            write_atomic(self._paths.state(team.directory).path, file.encode())
            write_atomic(roster, team.config.encode())
            self._shown[team.directory] = mark

    def _session_place(self, team: StoredTeam) -> Path:
        return self.home.session(Path(team.config.members[0].cwd), team.file.lead.session)

    def _forget(self, directory: str) -> None:
        """Remove a team that is no longer in the database."""
        shutil.rmtree(self.home.team(directory), ignore_errors=True)
        shutil.rmtree(self._paths.task_directory(directory), ignore_errors=True)
        del self._shown[directory]
        self._tasks.pop(directory, None)
        self._mail = {key: box for key, box in self._mail.items() if key[0] != directory}

    async def _copy_archived(self, connection: Connection) -> list[StoredTeam]:
        """Copy the archived teams that are new, and return all of them."""
        for entry, team in await load_archived_teams(connection, known=[*self._archived]):
            place = self.home.archive / entry.partition("/")[2]
            await self._copy_tasks(connection, entry, place / "tasks")
            await self._copy_mail(connection, entry, place / "inboxes")
            write_atomic(place / "team.json", team.file.encode())
            write_atomic(place / "config.json", team.config.encode())
            self._archived[entry] = team
        return [*self._archived.values()]

    async def _copy_tasks(self, connection: Connection, task_list: str, directory: Path) -> None:
        known = self._tasks.get(task_list, {})
        rows = await connection.fetch("select id, xmin::text as mark from tasks where list = $1", task_list)
        marks = {int(row["id"]): str(row["mark"]) for row in rows}
        changed = [id for id, mark in marks.items() if known.get(id) != mark]
        for row in await connection.fetch(
            "select id, body from tasks where list = $1 and id = any($2::bigint[])", task_list, changed
        ):
            write_atomic(directory / f"{row['id']}.json", bytes(row["body"]))
        for id in known.keys() - marks.keys():
            (directory / f"{id}.json").unlink(missing_ok=True)
        self._tasks[task_list] = marks

    async def _copy_mail(self, connection: Connection, team: str, directory: Path) -> None:
        for row in await connection.fetch(MAIL_MARKS, team):
            key = (team, str(row["reader"]))
            mark = (int(row["last"] or 0), int(row["unread"]))
            box = self._mail.setdefault(key, _Mailbox())
            path = directory / f"{row['shown_name']}.json"
            if box.mark == mark and path.exists():
                continue
            unread = [number for number, item in box.items.items() if not item.is_read]
            for number in unread:  # a notice that says only idle may have been replaced
                del box.items[number]
            for item in await connection.fetch(_CHANGED_MAIL, *key, box.mark[0], unread):
                box.items[int(item["number"])] = _MailItem(bytes(item["body"]), bool(item["is_read"]))
            items = [box.items[number] for number in sorted(box.items)]
            write_atomic(path, encode_array([_encode_item(item) for item in items]))
            box.mark = mark

    # ── sessions ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _wanted_sessions(
        self, named: Sequence[StoredTeam], archived: Sequence[StoredTeam], known: Mapping[str, Row]
    ) -> Iterator[str]:
        """Yield the sessions of the teams that the word names, and those whose id begins so; else all."""
        own = [session for session in known if self._word and session.startswith(self._word)]
        deleted = [team for team in archived if team.config.name.lower() == self._word.lower()]
        led = [session for team in (*named, *deleted) for session in _sessions_of(team) if session in known]
        yield from dict.fromkeys((*own, *led)) or known

    async def _copy_session(self, connection: Connection, session: str, cwd: str) -> None:
        files = SessionFiles(self.home, session, Path(cwd))
        known = self._files.setdefault(session, {})
        rows = await connection.fetch("select name, size, digest from session_files where session = $1", session)
        there = {str(row["name"]): (int(row["size"]), str(row["digest"])) for row in rows}
        for name in known.keys() - there.keys():
            files.locate(name).unlink(missing_ok=True)
            del known[name]
        for name, mark in there.items():
            if known.get(name) == mark:
                continue
            if name == files.note_name:  # the note in the file, which is held only while its process lives
                parts = await connection.fetch(_PARTS, session, name, 0)
                self._notes[session] = b"".join(bytes(part["content"]) for part in parts)
            else:
                await self._copy_file(connection, session, name, files.locate(name), known.get(name, (0, ""))[0])
            known[name] = mark

    async def _copy_file(self, connection: Connection, session: str, name: str, path: Path, size: int) -> None:
        """Append the new lines of a file that grows; write another one, or one that was replaced, as a whole."""
        parts = await connection.fetch(_PARTS, session, name, size) if size and path.suffix == GROWING else ()
        if parts and int(parts[0]["start"]) == size:
            try:
                with open(path, "ab") as file:
                    file.write(b"".join(bytes(part["content"]) for part in parts))
            except OSError as problem:
                raise storage_error(problem, path) from problem
            return
        parts = await connection.fetch(_PARTS, session, name, 0)
        write_atomic(path, b"".join(bytes(part["content"]) for part in parts))

    # ── leads ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def lead(self, session: str) -> LeadElsewhere | None:
        """Return the process that runs a session of the copy; None without one."""
        held = self._held.get(session)
        return held.lead if held is not None else None

    def _set_lease(self, team: StoredTeam, *, is_live: bool) -> None:
        """Hold the copied lease file of a lead that lives, with its note; release that of another one."""
        session = team.file.lead.session
        path = lease_path(self._session_place(team))
        note = self._notes.get(session, b"") or json.dumps({"pid": team.file.lead.pid, "who": "a lead"}).encode()
        held = self._held.get(session)
        if held is not None and (not is_live or held.note != note):
            held.lease.release()
            del self._held[session]
            held.lead.note_end()
        if is_live and session not in self._held and (lease := Lease.hold_copy(path, note)) is not None:
            self._held[session] = _Held(note, lease, LeadElsewhere(self.database, session, team.file.lead.pid))

    # ── requests ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def send_requests(self) -> None:
        """Send the requests and answers that were written into the copy, and remove those that were closed there.

        An answer is sent only while its request is open, and only when it is the first; the next refresh replaces one
        that came too late. Raises StorageError.
        """
        async with self._busy:
            for directory in tuple(self._shown):
                await self._send_requests_of(directory, self._teams[directory].file.lead.session)

    def request_directories(self) -> list[Path]:
        """Return the directories in which the requests of the shown teams are."""
        return [self._request_directory(directory) for directory in self._shown]

    def _request_directory(self, directory: str) -> Path:
        return RequestStore.of_team(self.home, directory).directory

    async def _send_requests_of(self, directory: str, session: str) -> None:
        new, gone = self._changed_requests(directory, session)
        if not (new or gone):
            return
        await self.database.write(partial(self._send, session=session, new=new, gone=gone))
        known = self._files.setdefault(session, {})
        known.update({name: (len(content), "") for name, content in new.items()})
        for name in gone:
            del known[name]

    def _changed_requests(self, directory: str, session: str) -> tuple[dict[str, bytes], list[str]]:
        box = self._request_directory(directory)
        known = self._files.get(session, {})
        prefix = f"{REQUESTS}{directory}/"
        paths = [path for path in box.glob("*") if path.is_file() and ".tmp." not in path.name]
        new = {f"{prefix}{path.name}": path.read_bytes() for path in paths if f"{prefix}{path.name}" not in known}
        names = {f"{prefix}{path.name}" for path in paths}
        gone = [
            name
            for name in known
            if name.startswith(prefix) and f"/{RETIRED_DIRECTORY}/" not in name and name not in names
        ]
        return new, gone

    async def _send(self, connection: Connection, *, session: str, new: Mapping[str, bytes], gone: list[str]) -> None:
        for table in ("session_parts", "session_files"):
            await connection.execute(f"delete from {table} where session = $1 and name = any($2)", session, gone)
        for name, content in sorted(new.items(), key=lambda item: item[0].endswith(ANSWER)):
            if name.endswith(ANSWER) and not await self._is_open(connection, session, name):
                continue
            done = await connection.execute(_INSERT_FILE, session, name, len(content))
            if done.endswith(" 1"):
                await connection.execute(_INSERT_PART, session, name, content)
        await self.database.notify(connection, requests_topic(session))

    async def _is_open(self, connection: Connection, session: str, answer: str) -> bool:
        found = await connection.fetchval(
            "select 1 from session_files where session = $1 and name = $2 for share",
            *(session, f"{answer.removesuffix(ANSWER)}.json"),
        )
        return found is not None

    def close(self) -> None:
        """Release the leases of the copy."""
        for held in self._held.values():
            held.lease.release()
        self._held.clear()


def copy_home(directory: Path, database: Database) -> Home:
    """Return the home of a copy in an empty directory."""
    return replace(Home.at(directory), origin=database.place)


@asynccontextmanager
async def open_teams_copy(address: DatabaseAddress, word: str = "") -> AsyncGenerator[TeamsCopy]:
    """Give a copy of the teams, which is removed after the block. Raises CannotStart (`database`), StorageError."""
    with tempfile.TemporaryDirectory(prefix="teamwright-", ignore_cleanup_errors=True) as directory:
        database = await Database.open(address)
        try:
            copy = TeamsCopy(database, copy_home(Path(directory), database), word)
            try:
                await copy.refresh()
                yield copy
            finally:
                copy.close()
        finally:
            await database.close()


def _sessions_of(team: StoredTeam) -> list[str]:
    """Return the session that leads a team, and those in which its members began."""
    lives = team.file.incarnation_records.values()
    return [team.file.lead.session, *(Path(life.transcript).parent.parent.name for life in lives)]


def _encode_item(item: _MailItem) -> bytes:
    return item.body.replace(b'"read":false}', b'"read":true }') if item.is_read else item.body


SPACING_S = 0.3
"""The least number of seconds between two refreshes: a team at work sends many notifications."""

AGAIN_S = 3.0
"""Seconds without a notification after which the database is read again."""


@asynccontextmanager
async def follow_copy(copy: TeamsCopy) -> AsyncGenerator[None]:
    """Keep the copy up to date while the block runs, and send what the block writes into it.

    When the database fails, the block is cancelled, and its error is raised here. Raises CannotStart (`database`).
    """
    owner = asyncio.current_task()
    problems = list[TeamwrightError]()
    follower = _Follower(copy)

    async def work() -> None:
        try:
            await follower.run()
        except TeamwrightError as problem:
            problems.append(problem)
            if owner is not None:
                owner.cancel()

    await follower.connection.open()
    worker = asyncio.create_task(work(), name="follow the database")
    try:
        yield
    except asyncio.CancelledError:
        if not problems or owner is None:
            raise
        owner.uncancel()
        raise problems[0] from None
    finally:
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        await follower.connection.close()
        if not problems:
            await copy.send_requests()


class _Follower:
    """The refreshes of a copy."""

    def __init__(self, copy: TeamsCopy) -> None:
        self._copy = copy
        self.connection = SessionConnection(copy.database)
        self._is_changed = False
        self._due = asyncio.Event()
        """Set when the database changed, or a request was written into the copy."""
        self._followed: dict[str | Path, Callable[[], None]] = {}

    async def run(self) -> None:
        """Refresh the copy when it is due. Raises StorageError."""
        loop = asyncio.get_running_loop()
        again_at = 0.0
        spaced_until = 0.0
        async with Watcher() as watcher:
            while True:
                self._follow_changes(watcher)
                await self._wait_until_due(again_at)
                await asyncio.sleep(max(0.0, spaced_until - loop.time()))
                self._due.clear()
                await self._copy.send_requests()
                if self._is_changed or loop.time() >= again_at:
                    self._is_changed = False
                    await self._copy.refresh()
                    spaced_until = loop.time() + SPACING_S
                    again_at = loop.time() + AGAIN_S

    async def _wait_until_due(self, again_at: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with time_limit(again_at - asyncio.get_running_loop().time()):
                await self._due.wait()

    def _follow_changes(self, watcher: Watcher) -> None:
        """Follow the sessions in the copy and the requests of its teams, and no others."""
        wanted: dict[str | Path, Callable[[], Callable[[], None]]] = {
            session: partial(self.connection.subscribe, session_topic(session), self._note_change)
            for session in self._copy.sessions
        }
        wanted |= {
            directory: partial(watcher.follow_directory, directory, self._note_written, _is_whole)
            for directory in self._copy.request_directories()
        }
        for gone in self._followed.keys() - wanted.keys():
            self._followed.pop(gone)()
        for new in wanted.keys() - self._followed.keys():
            self._followed[new] = wanted[new]()

    def _note_change(self, _detail: str | None) -> None:
        self._is_changed = True
        self._due.set()

    def _note_written(self, _names: Names) -> None:
        self._due.set()


def _is_whole(name: str) -> bool:
    """Return True for the name of a file that is not being written."""
    return ".tmp." not in name
