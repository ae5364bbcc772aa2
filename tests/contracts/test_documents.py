"""The contract of every document, on files, in memory and in a database; `open_document` is like one more process."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial

import pytest
from msgspec.structs import replace

from teamwright.protocol.errors import StorageError, TeamRefused, TeamwrightError
from teamwright.protocol.members import RosterMember, TeamConfig
from teamwright.storage.file_watcher import Watcher
from teamwright.storage.files import write_atomic
from teamwright.storage.paths import Home
from teamwright.team_records.atomic_record import AtomicRecord
from teamwright.team_records.roster import Roster, RosterFile
from teamwright.team_records.team_state import LeadLease, TeamFile, TeamStateFile
from tests.contracts.database_processes import database_processes
from tests.support.memory_stores import MemoryCell, MemoryDocument, MemoryRoster
from tests.support.waits import WAIT_S

FIRST = TeamFile.new(LeadLease("session", 0))


@pytest.fixture(params=["files", "memory", "database"])
async def open_missing(
    request, tmp_path
) -> AsyncIterator[Callable[[TeamFile | None], Callable[[], AtomicRecord[TeamFile]]]]:
    """Return a function that puts a value there, and returns the opener."""
    if request.param == "database":
        async with database_processes(request.getfixturevalue("postgres").new_space()) as stores:
            yield partial(put_into_database, stores, request.getfixturevalue("postgres"))
        return
    home, cell = Home.at(tmp_path / "home"), MemoryCell[TeamFile]()

    def make(value: TeamFile | None) -> Callable[[], AtomicRecord[TeamFile]]:
        if request.param == "memory":
            cell.value = value
            return lambda: MemoryDocument(cell)
        home.team("demo").mkdir(parents=True)
        if value is not None:
            write_atomic(home.team_file("demo"), value.encode())
        return lambda: TeamStateFile(home, "demo")

    yield make


def put_into_database(stores, server, value: TeamFile | None) -> Callable[[], AtomicRecord[TeamFile]]:
    schema = stores().schema
    if value is not None:
        body = value.encode().hex()
        server.sql(
            f"insert into {schema}.documents (team, kind, body) values ('demo', 'state', decode('{body}', 'hex'))"
        )
    return lambda: stores().state("demo")


@pytest.fixture
def open_document(open_missing) -> Callable[[], AtomicRecord[TeamFile]]:
    return open_missing(FIRST)


def with_log(log: str) -> Callable[[TeamFile], TeamFile]:
    return lambda file: replace(file, log=log)


async def test_a_change_is_read_by_every_process(open_document):
    one, other = open_document(), open_document()
    assert await one.read() == FIRST
    assert (await one.change(with_log("a"))).log == "a"
    assert await other.read() == replace(FIRST, log="a")


async def test_a_document_that_does_not_exist_is_none_and_a_change_does_not_create_it(open_missing):
    document = open_missing(None)()
    assert await document.read() is None
    with pytest.raises(StorageError):
        await document.change(with_log("a"))
    assert await document.read() is None


async def test_no_change_is_lost_when_several_change_it(open_document):
    documents = [open_document() for _ in range(3)]

    def count(file: TeamFile) -> TeamFile:
        return replace(file, incarnations={"ann": file.incarnations.get("ann", 0) + 1})

    await asyncio.gather(*[document.change(count) for document in documents for _ in range(10)])
    assert (await open_document().read()).incarnations == {"ann": 30}


async def test_a_refused_change_changes_nothing(open_document):
    document = open_document()

    def refuse(file: TeamFile) -> TeamFile:
        raise TeamRefused("team-refused", "no")

    with pytest.raises(TeamRefused):
        await document.change(refuse)
    assert await open_document().read() == FIRST


async def test_a_follower_is_called_when_another_process_changes_it(open_document):
    own, other, rung = open_document(), open_document(), asyncio.Event()
    async with Watcher() as watcher:
        end = own.follow(watcher, rung.set)
        await other.change(with_log("theirs"))
        async with asyncio.timeout(WAIT_S):
            await rung.wait()
        assert (await own.read()).log == "theirs"
        end()


@pytest.mark.parametrize("kind", ["files", "memory"])
async def test_a_roster_that_does_not_exist_is_an_error_and_a_change_does_not_create_it(tmp_path, kind):
    cell = MemoryCell[TeamConfig]()
    roster = Roster(RosterFile(Home.at(tmp_path), "demo") if kind == "files" else MemoryRoster(cell))
    for call in (roster.read, lambda: roster.change(lambda config: config)):
        with pytest.raises(TeamwrightError):
            await call()
    assert not roster.document.exists


@pytest.mark.parametrize("kind", ["files", "memory"])
async def test_members_that_join_a_roster_at_once_are_all_in_it(tmp_path, kind):
    lead = RosterMember("team-lead@demo", "team-lead", model="m")
    config = TeamConfig("demo", lead.agent_id, "s", 1, None, (lead,))
    file, cell = RosterFile(Home.at(tmp_path), "demo"), MemoryCell(config)
    assert file.create(config)
    rosters = [Roster(RosterFile(Home.at(tmp_path), "demo") if kind == "files" else MemoryRoster(cell)) for _ in "abc"]
    joins = [roster.join(RosterMember("", f"m{n}")) for n, roster in enumerate(rosters * 3)]
    assert len({member.agent_id for member in await asyncio.gather(*joins)}) == 9
    assert [m.name for m in (await rosters[0].read()).teammates] == [f"m{n}" for n in range(9)]
