"""The files of a session as rows of the database: lines are shipped as they grow, and fetched on another machine.

Transcripts and the event log grow at their end, so that only their new bytes are sent. Depends on the database. Leaves
the meaning of the files to their packages.
"""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from teamwright.database.connection import Database
from teamwright.database.driver import Connection
from teamwright.protocol.errors import StorageError
from teamwright.storage.atomic import storage_error, write_atomic

_GROWING = ".jsonl"
"""The ending of files that grow at their end."""

_SHIPPED = ("*.jsonl", "*.json", "calls", "agents/*.jsonl", "history/*.jsonl", "prefixes/*.json")
"""The files in a session's directory that a resume reads."""

_MOST_BYTES = 4_000_000
"""Bytes of one row: a longer piece is divided."""

_MOST_SMALL = 1_000_000
"""Bytes of a file that is replaced as a whole; a longer one stays on its machine."""


class SessionFiles:
    """The files of one session below its project's directory: `<session>.jsonl`, and the directory `<session>`."""

    def __init__(self, database: Database, session: str, project: Path) -> None:
        self._database = database
        self._session = session
        self._project = project
        self._shipped: dict[str, tuple[int, int]] = {}

    async def begin(self, cwd: str) -> None:
        """Record the session and the machine on which it runs."""
        await self._database.write(
            lambda connection: connection.execute(
                "insert into sessions (session, cwd, host) values ($1, $2, $3) "
                "on conflict (session) do update set cwd = excluded.cwd, host = excluded.host",
                *(self._session, cwd, socket.gethostname()),
            )
        )

    async def ship(self) -> None:
        """Send every file that changed since the last call. Raises StorageError."""
        marks = {path: mark for path in self._paths() if (mark := _mark(path)) is not None}
        changed = [path for path, mark in marks.items() if self._shipped.get(self._name(path)) != mark]
        if not changed:
            return

        async def work(connection: Connection) -> None:
            for path in changed:
                await self.append(connection, path)

        await self._database.write(work, durable=False)
        self._shipped |= {self._name(path): marks[path] for path in changed}

    async def append(self, connection: Connection, path: Path) -> None:
        """Send the new bytes of one file in the transaction of this connection."""
        name = self._name(path)
        row = await connection.fetchrow(
            "insert into session_files (session, name, size) values ($1, $2, 0) on conflict (session, name) "
            "do update set size = session_files.size returning size, digest",
            *(self._session, name),
        )
        size, digest = (int(row["size"]), str(row["digest"])) if row is not None else (0, "")
        if path.suffix == _GROWING:
            await self._append_lines(connection, path, name, size)
        else:
            await self._replace(connection, path, name, digest)

    async def _append_lines(self, connection: Connection, path: Path, name: str, size: int) -> None:
        if _size(path) < size:  # it was written anew: damaged lines were set aside
            await self._forget_parts(connection, name)
            size = 0
        content = _read_lines(path, size)
        parts = [(size + at, content[at : at + _MOST_BYTES]) for at in range(0, len(content), _MOST_BYTES)]
        if not parts:
            return
        await connection.executemany(
            "insert into session_parts (session, name, start, content) values ($1, $2, $3, $4)",
            [(self._session, name, start, part) for start, part in parts],
        )
        await self._set_size(connection, name, size + len(content))

    async def _replace(self, connection: Connection, path: Path, name: str, digest: str) -> None:
        content = _read_lines(path, 0, whole=True)
        now = hashlib.sha256(content).hexdigest()
        if now == digest or len(content) > _MOST_SMALL:
            return
        await self._forget_parts(connection, name)
        await connection.execute(
            "insert into session_parts (session, name, start, content) values ($1, $2, 0, $3)",
            *(self._session, name, content),
        )
        await self._set_size(connection, name, len(content), now)

    async def _set_size(self, connection: Connection, name: str, size: int, digest: str = "") -> None:
        await connection.execute(
            "update session_files set size = $3, digest = $4 where session = $1 and name = $2",
            *(self._session, name, size, digest),
        )

    async def _forget_parts(self, connection: Connection, name: str) -> None:
        await connection.execute("delete from session_parts where session = $1 and name = $2", self._session, name)

    async def fetch(self) -> int:
        """Write the files that are longer in the database than here, or missing. Return how many. Raises StorageError.

        A longer file here is kept: it has all that the read flags imply, and more.
        """
        rows = await self._database.read(
            lambda connection: connection.fetch(
                "select name, size from session_files where session = $1", self._session
            )
        )
        wanted = [
            str(row["name"]) for row in rows if row["size"] > _size(self._project / require_relative(str(row["name"])))
        ]
        for name in wanted:
            write_atomic(self._project / require_relative(name), b"".join(await self._parts(name)))
        return len(wanted)

    async def _parts(self, name: str) -> Sequence[bytes]:
        rows = await self._database.read(
            lambda connection: connection.fetch(
                "select content from session_parts where session = $1 and name = $2 order by start",
                *(self._session, name),
            )
        )
        return [bytes(row["content"]) for row in rows]

    def _paths(self) -> list[Path]:
        directory = self._project / self._session
        found = [self._project / f"{self._session}{_GROWING}"]
        for pattern in _SHIPPED:
            found += directory.glob(pattern)
        return found

    def _name(self, path: Path) -> str:
        return path.relative_to(self._project).as_posix()


def _mark(path: Path) -> tuple[int, int] | None:
    with suppress(OSError):
        stat = path.stat()
        return stat.st_size, stat.st_mtime_ns
    return None


def _size(path: Path) -> int:
    mark = _mark(path)
    return mark[0] if mark is not None else -1


def _read_lines(path: Path, start: int, *, whole: bool = False) -> bytes:
    """Return the complete lines after `start`, or all bytes. Raises StorageError."""
    try:
        with open(path, "rb") as file:
            file.seek(start)
            content = file.read()
    except FileNotFoundError:
        return b""
    except OSError as problem:
        raise storage_error(problem, path) from problem
    return content if whole else content[: content.rfind(b"\n") + 1]


def require_relative(name: str) -> str:
    """Return the name of a session's file. Raises StorageError for one that would leave the directory."""
    parts = Path(name).parts
    if not parts or Path(name).is_absolute() or ".." in parts:
        raise StorageError("damaged-file", f"the database names a file outside the session: {name[:80]!r}")
    return name
