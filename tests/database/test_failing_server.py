"""A server that is killed, read-only, full, slow, or behind a connection pooler."""

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from teamwright.database import connection as connection_module
from teamwright.database.address import parse_address
from teamwright.database.administration import find_problems, read_facts
from teamwright.database.connection import Database
from teamwright.database.driver import Connection
from teamwright.database.mailbox import MailSettings
from teamwright.protocol.errors import CannotStart, LockTimeout, StorageError
from teamwright.protocol.mail import InboxEntry
from teamwright.tasks.task_rules import Actor
from tests.database.spaces import holder, make_space
from tests.support.cutting_proxy import CuttingProxy
from tests.support.postgres import PostgresServer, run_server, unprivileged
from tests.support.programs import require
from tests.support.waits import WAIT_S, wait_until


@pytest.fixture
def own_server():
    """A server that this test may kill."""
    yield from run_server()


@pytest.mark.slow
@pytest.mark.promise("J6")
async def test_no_acknowledged_message_is_lost_or_doubled_when_the_server_is_killed(own_server):
    url = await make_space(own_server.new_space())
    acknowledged: list[str] = []
    async with holder(url, mail=MailSettings(is_durable=True)) as (stores, _):
        mailbox, ended = stores.mailbox("demo", "ann"), asyncio.Event()

        async def send() -> None:
            while not ended.is_set():
                text = str(len(acknowledged))
                await mailbox.put(InboxEntry("ben", text), runtime=True)
                acknowledged.append(text)
                if len(acknowledged) % 100 == 0:
                    await mailbox.mark_delivered([entry.msg_id for entry in await mailbox.unread()])

        sending = asyncio.create_task(send())
        for _ in range(3):
            before = len(acknowledged)
            await asyncio.to_thread(wait_until, lambda before=before: len(acknowledged) > before + 60 or sending.done())
            await asyncio.to_thread(restart, own_server)
        before = len(acknowledged)
        await asyncio.to_thread(wait_until, lambda: len(acknowledged) > before + 20 or sending.done())
        ended.set()
        await sending
    rows = own_server.sql(f"select convert_from(body, 'utf8') from {parse_address(url).schema}.mail order by number")
    stored = [row.split('"text":"')[1].split('"')[0] for row in rows.splitlines()]
    assert len(stored) == len(set(stored))
    assert not set(acknowledged) - set(stored)


@pytest.mark.promise("J6")
@pytest.mark.slow
async def test_a_write_that_a_crash_of_the_server_took_is_made_again_although_its_number_has_a_new_owner(own_server):
    url = await make_space(own_server.new_space())
    schema = parse_address(url).schema
    database = await Database.open(parse_address(url))
    attempts = 0

    async def note(connection: Connection) -> None:
        nonlocal attempts
        attempts += 1
        await connection.execute("insert into sessions (session, cwd, host) values ('s', '/', 'here')")
        if attempts == 1:
            restart(own_server)
            for _ in range(20):  # the server gives the numbers of lost transactions to these
                own_server.sql(f"insert into {schema}.archived_teams values (gen_random_uuid()::text, 'other')")

    await database.write(note)
    await database.close()
    assert own_server.sql(f"select count(*) from {schema}.sessions").strip() == "1"
    assert attempts == 2


def restart(server: PostgresServer) -> None:
    server.kill()
    server.start()


async def test_a_read_only_database_is_refused_and_named(postgres):
    url = await make_space(postgres.new_space())
    read_only = f"{url}&options=-c%20default_transaction_read_only%3Don"
    with pytest.raises(CannotStart, match="the database is read-only") as caught:
        await Database.open(parse_address(read_only))
    assert caught.value.slug == "database"


async def test_a_server_that_becomes_read_only_refuses_a_write_and_says_so(postgres):
    url = await make_space(postgres.new_space())
    async with holder(url) as (stores, _):
        mailbox = stores.mailbox("demo", "ann")
        await mailbox.put(InboxEntry("ben", "before"))

        async def lock(connection) -> None:
            await connection.execute("set transaction read only")
            await connection.execute("delete from mail")

        with pytest.raises(StorageError, match="read-only") as caught:
            await stores.database.write(lock)
        assert caught.value.slug == "database-failed"
        assert [entry.text for entry in await mailbox.unread()] == ["before"]


async def test_a_row_that_another_process_keeps_locked_is_a_lock_timeout(postgres, monkeypatch):
    url = await make_space(postgres.new_space())
    async with holder(url) as (stores, _):
        await stores.tasks("demo").create(lambda id: task(id))

        async def impatient(connection) -> None:
            await connection.execute("set local lock_timeout to '50ms'")
            await connection.execute("select 1 from tasks where id = 1 for update")

        async def keep(connection) -> None:
            await connection.execute("select 1 from tasks where id = 1 for update")
            with pytest.raises(LockTimeout):
                await stores.database.write(impatient)

        await stores.database.write(keep)


async def test_a_free_task_that_another_process_had_locked_is_claimed_once_it_is_released(postgres):
    url = await make_space(postgres.new_space())
    async with holder(url) as (stores, _), holder(url, "session/two") as (others, _):
        await stores.tasks("demo").create(lambda id: task(id))
        locked, claiming = asyncio.Event(), asyncio.Event()

        async def keep(connection) -> None:
            await connection.execute("select 1 from tasks where id = 1 for update")
            locked.set()
            await claiming.wait()

        keeping = asyncio.create_task(others.database.write(keep))
        await locked.wait()
        claim = asyncio.create_task(stores.tasks("demo").claim_next(Actor("ann")))
        waits = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%for update%'"
        await asyncio.to_thread(wait_until, lambda: postgres.sql(waits) != "0" or claim.done())
        claiming.set()
        assert (await claim).claimed is not None
        await keeping


def task(id):
    from teamwright.protocol.task import Task

    return Task(id, "part", "")


@pytest.mark.slow
async def test_a_server_that_does_not_come_back_is_an_error_and_not_a_hang(own_server, monkeypatch):
    monkeypatch.setattr(connection_module, "PATIENCE_S", 0.3)
    url = await make_space(own_server.new_space())
    async with holder(url) as (stores, _):
        await asyncio.to_thread(own_server.kill)
        async with asyncio.timeout(WAIT_S):
            with pytest.raises(StorageError) as caught:
                await stores.mailbox("demo", "ann").put(InboxEntry("ben", "lost"))
        assert caught.value.slug == "database-failed"
        own_server.start()
        await stores.mailbox("demo", "ann").put(InboxEntry("ben", "there again"))
        assert [entry.text for entry in await stores.mailbox("demo", "ann").unread()] == ["there again"]


def test_failures_long_after_the_last_one_are_another_outage(monkeypatch):
    times = iter([0.0, 20.0, 40.0, 40.0 + 2 * connection_module.PATIENCE_S])
    outage = connection_module.Outage()
    with monkeypatch.context() as patch:
        patch.setattr(connection_module.time, "monotonic", lambda: next(times))
        began = [outage.note_failure() for _ in range(4)]
    assert began == [0.0, 0.0, 0.0, 40.0 + 2 * connection_module.PATIENCE_S]


async def test_an_address_where_no_server_answers_is_refused_with_a_reason():
    with pytest.raises(CannotStart, match="cannot be reached") as caught:
        await Database.open(parse_address("postgresql://nobody@127.0.0.1:1/none"))
    assert caught.value.slug == "database"


async def test_a_write_that_is_cancelled_while_its_transaction_begins_leaves_no_transaction_open(postgres):
    url = await make_space(postgres.new_space())
    proxy = CuttingProxy(postgres.port)
    problems = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: problems.append(context["message"]))
    try:
        async with holder(url.replace(f":{postgres.port}/", f":{proxy.port}/")) as (stores, _):
            mailbox = stores.mailbox("demo", "ann")
            await mailbox.put(InboxEntry("ben", "before"))
            proxy.stall()
            write = asyncio.create_task(mailbox.put(InboxEntry("ben", "cancelled")))
            for _ in range(10):  # it waits for the answer to its first statement after some of them
                await asyncio.sleep(0)
            write.cancel()
            proxy.release()
            await asyncio.gather(write, return_exceptions=True)
            await mailbox.put(InboxEntry("ben", "after"))
            assert [entry.text for entry in await mailbox.unread()] == ["before", "after"]
        assert not problems
    finally:
        proxy.close()


class Pooler:
    """A connection pooler in front of a server."""

    def __init__(self, server: PostgresServer, directory: Path, mode: str) -> None:
        require("pgbouncer")
        self.directory, self.mode = directory, mode
        os.chmod(directory, 0o777)
        assert any(self._starts(server) for _ in range(5)), "its port was taken each time"

    def _starts(self, server: PostgresServer) -> bool:
        """Start it on a free port, and wait until it listens. Return False when another program took the port first."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        settings = [
            "[databases]",
            f"postgres = host=127.0.0.1 port={server.port} user=postgres",
            "[pgbouncer]",
            f"listen_addr=127.0.0.1\nlisten_port={self.port}\nauth_type=any\npool_mode={self.mode}",
            f"unix_socket_dir=\nlogfile={self.directory}/log\npidfile=",
            "ignore_startup_parameters=extra_float_digits",
        ]
        (self.directory / "pgbouncer.ini").write_text("\n".join(settings) + "\n")
        program = [*unprivileged(), str(shutil.which("pgbouncer")), "-q", str(self.directory / "pgbouncer.ini")]
        self.process = subprocess.Popen(program, cwd="/", stderr=subprocess.DEVNULL)
        for _ in range(int(WAIT_S * 20)):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.05)
                return False
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return True
        return False

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(WAIT_S)


@pytest.fixture(params=["session", "transaction"])
def pooler(request, postgres, tmp_path_factory):
    directory = Path(subprocess.check_output(["mktemp", "-d"], text=True).strip())
    made = Pooler(postgres, directory, request.param)
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(directory, ignore_errors=True)


@pytest.mark.promise("J6")
async def test_a_pooler_in_session_mode_is_used_and_one_in_transaction_mode_refused(postgres, pooler):
    url = await make_space(postgres.new_space())
    behind = parse_address(url.replace(f":{postgres.port}/", f":{pooler.port}/").replace("postgres@", "any@"))
    facts = await read_facts(behind)
    assert facts.pooler == pooler.mode
    problems = [what for what, _ in find_problems(behind, facts)]
    assert any("transaction mode" in what for what in problems) == (pooler.mode == "transaction")
    if pooler.mode == "session":
        async with holder(str(behind)) as (stores, _):
            await stores.mailbox("demo", "ann").put(InboxEntry("ben", "hello"))
            assert len(await stores.mailbox("demo", "ann").unread()) == 1
