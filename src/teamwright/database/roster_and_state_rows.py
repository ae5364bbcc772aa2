"""The roster and the state of a team as rows of the database. Depends on the database and the formats of `teams`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from teamwright.database.connection import Database
from teamwright.database.driver import Connection
from teamwright.database.session_connection import SessionConnection
from teamwright.protocol.errors import StorageError, TeamwrightError
from teamwright.protocol.members import TeamConfig, parse_config
from teamwright.storage.file_watcher import Watcher
from teamwright.team_records.team_state import TeamFile, parse_team_file

T = TypeVar("T")


class DocumentFormat(NamedTuple, Generic[T]):
    """The kind of a document, and its format."""

    kind: str
    parse: Callable[[bytes], T]
    encode: Callable[[T], bytes]


ROSTER = DocumentFormat[TeamConfig]("roster", parse_config, TeamConfig.encode)
STATE = DocumentFormat[TeamFile]("state", parse_team_file, TeamFile.encode)


class _Known(NamedTuple, Generic[T]):
    version: int
    value: T


class DatabaseDocument(Generic[T]):
    """A document; see Document. A value that did not change is neither sent nor parsed again."""

    def __init__(
        self, database: Database, session: SessionConnection | None, team: str, format: DocumentFormat[T]
    ) -> None:
        self._database = database
        self._session = session
        self._team = team
        self._format = format
        self._known: _Known[T] | None = None

    @property
    def place(self) -> str:
        return f"team {self._team} in {self._database.place}"

    async def read(self) -> T | None:
        self._known = await self._database.read(self._load)
        return self._known.value if self._known is not None else None

    async def change(self, change: Callable[[T], T]) -> T:

        async def work(connection: Connection) -> _Known[T]:
            before = await self._load(connection, " for update")
            if before is None:
                raise self._missing_error()
            after = change(before.value)
            if after == before.value:
                return before
            await connection.execute(
                "update documents set body = $3, version = $4 where team = $1 and kind = $2",
                *(self._team, self._format.kind, self._format.encode(after), before.version + 1),
            )
            await self._database.notify(connection, self._topic)
            return _Known(before.version + 1, after)

        self._known = await self._database.write(work)
        return self._known.value

    def mark(self) -> None: ...

    def follow(self, watcher: Watcher, on_change: Callable[[], None]) -> Callable[[], None]:
        """See Document. The watcher, which watches files, is not used."""
        if self._session is None:
            return lambda: None
        return self._session.subscribe(self._topic, lambda _detail: on_change())

    @property
    def _topic(self) -> str:
        return f"{self._format.kind}:{self._team}"

    async def _load(self, connection: Connection, lock: str = "") -> _Known[T] | None:
        known = self._known
        row = await connection.fetchrow(
            "select version, case when version = $3 then null else body end as body from documents "
            f"where team = $1 and kind = $2{lock}",
            *(self._team, self._format.kind, known.version if known is not None else 0),
        )
        if row is None:
            return None
        if known is not None and row["version"] == known.version:
            return known
        return _Known(row["version"], self._format.parse(row["body"]))

    def _missing_error(self) -> TeamwrightError:
        if self._format.kind == ROSTER.kind:
            return TeamwrightError("unknown-team", f"there is no {self.place}")
        return StorageError("damaged-file", f"the state of {self.place} is missing")


class DatabaseRoster(DatabaseDocument[TeamConfig]):
    """A roster; see RosterDocument."""

    def __init__(self, database: Database, session: SessionConnection | None, team: str) -> None:
        super().__init__(database, session, team, ROSTER)
        self._was_missing = False

    @property
    def exists(self) -> bool:
        """See RosterDocument. False once a read found none: a team of the database ends in its lead's process only."""
        return not self._was_missing

    async def read(self) -> TeamConfig:
        config = await super().read()
        self._was_missing = config is None
        if config is None:
            raise self._missing_error()
        return config


async def insert_document(connection: Connection, team: str, kind: str, body: bytes) -> bool:
    """Add a document. Return False, without a change, when the team has one of this kind."""
    done = await connection.execute(
        "insert into documents (team, kind, body) values ($1, $2, $3) on conflict do nothing", team, kind, body
    )
    return done.endswith(" 1")
