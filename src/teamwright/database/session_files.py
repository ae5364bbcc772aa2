"""The files of a session as rows of the database: new bytes are shipped with every write, and fetched elsewhere.

Transcripts and the event log grow at their end, so that only their new lines are sent. The pending requests of the
session's team are part of them. Depends on the driver. Leaves the meaning of the files to their packages.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import socket
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from teamwright.database.driver import Connection, Row
from teamwright.protocol.errors import StorageError
from teamwright.requests.request_store import RequestStore
from teamwright.storage.file_lease import lease_path
from teamwright.storage.files import storage_error, write_atomic, write_new
from teamwright.storage.paths import Home

GROWING = ".jsonl"
"""The ending of files that grow at their end."""

_NOTE = lease_path(Path()).name
"""The lease file of a session: the note of its process is in it."""

_SHIPPED = ("*.jsonl", "*.json", "calls", _NOTE, "agents/*.jsonl", "history/*.jsonl", "prefixes/*.json")
"""The files in a session's directory that a resume reads, and the lease file with the note of its process."""

_SHIPPED_OF_MEMBER = (
    *("agents/*.jsonl", "prefixes/*.json", "members/*/*.jsonl", "members/*/calls"),
    *("members/*/history/*.jsonl", "members/*/prefixes/*.json"),
)
"""The files of a member on another machine, in the session's directory there."""

REQUESTS = "requests/"
"""The beginning of the names of request files; the directory of the team follows."""

ANSWER = ".answer.json"
"""The ending of the names of answers to requests."""

_MOST_BYTES = 4_000_000
"""Bytes of one row: a longer piece is divided."""

_MOST_SMALL = 1_000_000
"""Bytes of a file that is replaced as a whole; a longer one stays on its machine."""


_CONTENT = "select string_agg(content, '' order by start) from session_parts where session = $1 and name = $2"
_FILES = "select name, size, digest from session_files where session = $1"
_PREFIX = re.compile(rb'"prefix":"([0-9a-f]{64})"')
"""The digest of a prefix in a line of a transcript. Quotes inside texts are escaped there."""


class SizeMark(NamedTuple):
    """The size and the time of change of a local file."""

    size: int
    mtime_ns: int


class ShippedChange(NamedTuple):
    """The new bytes of a file. `is_whole`: they replace what the database has. `is_gone`: the file was removed."""

    name: str
    mark: SizeMark
    start: int
    content: bytes
    digest: str = ""
    is_whole: bool = False
    is_gone: bool = False


class _Shipped(NamedTuple):
    """The state of a file in the database, and the mark of the local file at that time."""

    size: int
    digest: str
    mark: SizeMark | None = None


class SessionFiles:
    """The files of one session: `<session>.jsonl` and the directory `<session>` in its project's directory, and the
    requests of the team that it leads.
    """

    def __init__(self, home: Home, session: str, cwd: Path, member: str = "") -> None:
        """Create them. `member`: the name of the only transcript here, in the process of a member elsewhere."""
        self._home = home
        self._member = member
        self.session = session
        self._project = home.project(cwd)
        self._team = ""
        self._knows_team = False
        self._shipped: dict[str, _Shipped] = {}
        self._remote = set[str]()
        self._fetched = set[str]()
        self.shares_requests = bool(member)
        """True while processes on several machines write requests of the team."""

    @property
    def topic(self) -> str:
        """The topic of the changes of these files."""
        return session_topic(self.session)

    @property
    def note_name(self) -> str:
        """The name of the lease file with the note of the session's process."""
        return f"{self.session}/{_NOTE}"

    @property
    def are_here(self) -> bool:
        """True when the session's own transcript is on this machine."""
        return (self._project / f"{self.session}{GROWING}").exists()

    def leave_to_member(self, member: str) -> None:
        """Leave the transcript of this name to the member's process on another machine."""
        self._remote.add(f"{member}{GROWING}")
        self.shares_requests = True

    def take_from_member(self, member: str) -> None:
        """Ship the transcript of this name from here again."""
        self._remote.discard(f"{member}{GROWING}")

    def set_team(self, directory: str) -> None:
        """Ship the requests of the team in this directory too; empty: the team was deleted, and they are removed."""
        if not directory and self._team:
            shutil.rmtree(RequestStore.of_team(self._home, self._team).directory, ignore_errors=True)
        self._team = directory
        self._knows_team = True

    async def begin(self, connection: Connection, cwd: str) -> None:
        """Record the session and its machine, and read what the database has of it."""
        if not self._member:
            await connection.execute(
                "insert into sessions (session, cwd, host) values ($1, $2, $3) "
                "on conflict (session) do update set cwd = excluded.cwd, host = excluded.host",
                *(self.session, cwd, socket.gethostname()),
            )
        rows = await self._read_rows(connection)
        self._shipped = {str(row["name"]): _Shipped(int(row["size"]), str(row["digest"])) for row in rows}

    def find_changes(self) -> list[ShippedChange]:
        """Return the bytes that the database does not have. Costs one look at each file. Raises StorageError."""
        found: list[ShippedChange] = []
        for path in self._paths():
            mark = _mark(path)
            known = self._shipped.get(name := self._name(path))
            if mark is not None and (known is None or known.mark != mark):
                change = (_new_lines if path.suffix == GROWING else _new_content)(path, name, mark, known)
                found += [change] if change is not None else []
        for name in self._shipped if self._knows_team else ():
            if name.startswith(REQUESTS) and _mark(self.locate(name)) is None:
                found.append(ShippedChange(name, SizeMark(0, 0), 0, b"", is_whole=True, is_gone=True))
        return found

    async def send(self, connection: Connection, changes: Sequence[ShippedChange]) -> None:
        """Store the changes in the transaction of this connection."""
        for name in [change.name for change in changes if change.is_whole]:
            await connection.execute("delete from session_parts where session = $1 and name = $2", self.session, name)
        await connection.executemany(
            "insert into session_parts (session, name, start, content) values ($1, $2, $3, $4) "
            "on conflict (session, name, start) do update set content = excluded.content",
            [
                (self.session, change.name, change.start + at, change.content[at : at + _MOST_BYTES])
                for change in changes
                for at in range(0, len(change.content), _MOST_BYTES)
            ],
        )
        await connection.executemany(
            "insert into session_files (session, name, size, digest) values ($1, $2, $3, $4) "
            "on conflict (session, name) do update set size = excluded.size, digest = excluded.digest",
            [(self.session, one.name, one.start + len(one.content), one.digest) for one in changes if not one.is_gone],
        )
        if gone := [change.name for change in changes if change.is_gone]:
            await connection.execute(
                "delete from session_files where session = $1 and name = any($2)", self.session, gone
            )

    def note_sent(self, changes: Sequence[ShippedChange]) -> None:
        """Record that the transaction of these changes is committed."""
        for change in changes:
            if change.is_gone:
                self._shipped.pop(change.name, None)
                continue
            self._shipped[change.name] = _Shipped(change.start + len(change.content), change.digest, change.mark)

    async def fetch(self, connection: Connection) -> int:
        """Write the files that another machine continued, or that are missing. Return how many. Raises StorageError.

        A longer file here that begins as the one of the database is kept: this machine was killed before it sent the
        rest. Requests that another machine has closed are removed here, and the lease file of this process, which it
        holds already, is kept. The process of a member fetches only the prefixes that its transcript names.
        """
        rows = [row for row in await self._read_rows(connection) if self._member or row["name"] != self.note_name]
        self._remove_closed_requests({str(row["name"]) for row in rows})
        count = await self._fetch_rows(connection, rows)
        if self._member and (prefixes := self._named_prefixes()):
            rows = await connection.fetch(f"{_FILES} and name = any($2)", self.session, prefixes)
            count += await self._fetch_rows(connection, rows)
        return count

    async def _read_rows(self, connection: Connection) -> Sequence[Row]:
        """Return the rows of the files that this process ships: of a member's process only those of the member."""
        if not self._member:
            return await connection.fetch(_FILES, self.session)
        own = f"{self.session}/"
        return await connection.fetch(
            f"{_FILES} and (name = $2 or starts_with(name, $3) or starts_with(name, $4))",
            *(self.session, f"{own}agents/{self._member}{GROWING}", f"{own}members/{self._member}/", REQUESTS),
        )

    def _named_prefixes(self) -> list[str]:
        """Return the names of the prefixes that the member's transcript here refers to."""
        transcript = _read(self._project / self.session / "agents" / f"{self._member}{GROWING}", 0)
        found = sorted(set(_PREFIX.findall(transcript)))
        return [f"{self.session}/prefixes/{digest.decode()}.json" for digest in found]

    async def _fetch_rows(self, connection: Connection, rows: Sequence[Row]) -> int:
        count = 0
        for row in rows:
            path = self.locate(str(row["name"]))
            if not await self._continues(connection, path, str(row["name"]), int(row["size"])):
                content = bytes(await connection.fetchval(_CONTENT, self.session, row["name"]) or b"")
                write_atomic(path, content)
                count += 1
                self._note_fetched(path, str(row["name"]), len(content))
        return count

    def _note_fetched(self, path: Path, name: str, size: int) -> None:
        """Record that a file here is that of the database: it is not shipped before it changes here."""
        known = self._shipped.get(name)
        self._shipped[name] = _Shipped(size, known.digest if known is not None else "", _mark(path))

    async def fetch_transcript(self, connection: Connection, member: str) -> None:
        """Write the transcript that a member has shipped from another machine, if it has begun one."""
        name = f"{self.session}/agents/{member}{GROWING}"
        content = await connection.fetchval(_CONTENT, self.session, name)
        if content is not None:
            write_atomic(self.locate(name), bytes(content))
            self._note_fetched(self.locate(name), name, len(content))

    async def fetch_requests(self, connection: Connection) -> None:
        """Write the open requests and answers that another process stored, and remove those that it closed.

        Of two answers the one that is here already counts. An answer to a request that is closed here is dropped.
        """
        if not self._team:
            return
        rows = await connection.fetch(
            f"{_FILES} and starts_with(name, $2) and position('/answered/' in name) = 0",
            *(self.session, f"{REQUESTS}{self._team}/"),
        )
        there = {str(row["name"]): row for row in rows}
        for name in [name for name in self._shipped if name.startswith(REQUESTS) and "/answered/" not in name]:
            if name not in there:
                self.locate(name).unlink(missing_ok=True)
                del self._shipped[name]
        for name in sorted(there.keys() - self._shipped.keys(), key=_is_answer):
            path = self.locate(name)
            row = there[name]
            if _mark(path) is not None:
                continue  # it is shipped with the next write
            mark = None
            if not _is_answer(name) or _mark(_request_of(path)) is not None:
                content = await connection.fetchval(_CONTENT, self.session, name)
                if not write_new(path, bytes(content or b"")):
                    continue
                mark = _mark(path)
                self._fetched.add(name)
            self._shipped[name] = _Shipped(int(row["size"]), str(row["digest"]), mark)

    @property
    def awaits_answer(self) -> bool:
        """True while a request that another process stored has no shipped answer."""
        self._fetched &= self._shipped.keys()
        return any(
            not _is_answer(name) and f"{name.removesuffix('.json')}{ANSWER}" not in self._shipped
            for name in self._fetched
        )

    @property
    def requests_directory(self) -> Path | None:
        """The directory of the requests of the session's team; None without a team."""
        return RequestStore.of_team(self._home, self._team).directory if self._team else None

    def _remove_closed_requests(self, names: Collection[str]) -> None:
        """Remove the request files of the teams of these names that the database does not have."""
        for team in {name.split("/")[1] for name in names if name.startswith(REQUESTS)}:
            requests = RequestStore.of_team(self._home, team).directory
            for path in requests.glob("**/*"):
                if path.is_file() and f"{REQUESTS}{team}/{path.relative_to(requests).as_posix()}" not in names:
                    path.unlink(missing_ok=True)

    async def _continues(self, connection: Connection, path: Path, name: str, size: int) -> bool:
        """Return True when the file here ends as the one of the database, or continues it."""
        mark = _mark(path)
        if mark is None or mark.size < size or path.suffix != GROWING:
            return False
        last = await connection.fetchrow(
            "select start, content from session_parts where session = $1 and name = $2 order by start desc limit 1",
            *(self.session, name),
        )
        if last is None:
            return True
        content = bytes(last["content"])
        return _read(path, int(last["start"]))[: len(content)] == content

    def _paths(self) -> list[Path]:
        directory = self._project / self.session
        found = [] if self._member else [self._project / f"{self.session}{GROWING}"]
        for pattern in _SHIPPED_OF_MEMBER if self._member else _SHIPPED:
            found += [path for path in directory.glob(pattern) if path.name not in self._remote]
        if self._team:
            requests = RequestStore.of_team(self._home, self._team).directory
            found += [path for path in requests.glob("**/*") if path.is_file() and ".tmp." not in path.name]
        return found

    def _name(self, path: Path) -> str:
        if path.is_relative_to(self._project):
            return path.relative_to(self._project).as_posix()
        requests = RequestStore.of_team(self._home, self._team).directory
        return f"{REQUESTS}{self._team}/{path.relative_to(requests).as_posix()}"

    def locate(self, name: str) -> Path:
        """Return the path of a file of this name here. Raises StorageError for a name outside the session."""
        _require_relative(name)
        if not name.startswith(REQUESTS):
            return self._project / name
        directory, _, rest = name.removeprefix(REQUESTS).partition("/")
        return RequestStore.of_team(self._home, directory).directory / rest


def _new_lines(path: Path, name: str, mark: SizeMark, known: _Shipped | None) -> ShippedChange | None:
    """Return the new complete lines; all of them when the file was written again, as after damage."""
    start = known.size if known is not None else 0
    is_whole = mark.size < start
    start = 0 if is_whole else start
    content = _read(path, start)
    content = content[: content.rfind(b"\n") + 1]
    return (
        ShippedChange(name, SizeMark(start + len(content), mark.mtime_ns), start, content, "", is_whole)
        if content
        else None
    )


def _new_content(path: Path, name: str, mark: SizeMark, known: _Shipped | None) -> ShippedChange | None:
    content = _read(path, 0)
    digest = hashlib.sha256(content).hexdigest()
    if len(content) > _MOST_SMALL or (known is not None and known.digest == digest):
        return None
    return ShippedChange(name, mark, 0, content, digest, is_whole=True)


def _mark(path: Path) -> SizeMark | None:
    with suppress(OSError):
        stat = path.stat()
        return SizeMark(stat.st_size, stat.st_mtime_ns)
    return None


def _read(path: Path, start: int) -> bytes:
    """Return the bytes after `start`. Raises StorageError."""
    try:
        with open(path, "rb") as file:
            file.seek(start)
            return file.read()
    except FileNotFoundError:
        return b""
    except OSError as problem:
        raise storage_error(problem, path) from problem


async def read_requests(connection: Connection, team: str) -> list[bytes]:
    """Return the requests of a team that are not closed, whichever session stored them."""
    rows = await connection.fetch(
        "select string_agg(content, '' order by start) as content from session_parts where starts_with(name, $1)"
        " and position('/answered/' in name) = 0 and not name like $2 group by session, name",
        *(f"{REQUESTS}{team}/", f"%{ANSWER}"),
    )
    return [bytes(row["content"] or b"") for row in rows]


def requests_topic(session: str) -> str:
    """Return the topic of requests and answers that processes of the person store for a session."""
    return f"requests:{session}"


def session_topic(session: str) -> str:
    """Return the topic of the files of a session, and of its lease, which has the same name."""
    return f"session/{session}"


def _is_answer(name: str) -> bool:
    return name.endswith(ANSWER)


def _request_of(answer: Path) -> Path:
    return answer.with_name(f"{answer.name.removesuffix(ANSWER)}.json")


def _require_relative(name: str) -> str:
    """Return the name of a session's file. Raises StorageError for one that would leave the directory."""
    parts = Path(name).parts
    if not parts or Path(name).is_absolute() or ".." in parts:
        raise StorageError("damaged-file", f"the database names a file outside the session: {name[:80]!r}")
    return name
