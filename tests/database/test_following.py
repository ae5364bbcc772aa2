"""Commands that follow a team read the database after notifications, at a cost that does not grow with read mail."""

import asyncio
import json
import re
from contextlib import AsyncExitStack

import pytest

from teamwright.database import teams_copy
from teamwright.database.address import parse_address
from teamwright.database.teams_copy import MAIL_MARKS, follow_copy, open_teams_copy
from teamwright.protocol.mail import InboxEntry, parse_entry
from teamwright.protocol.messages import text_block
from teamwright.session.open_session import open_session
from teamwright.session.options import Options
from teamwright.storage.files import write_atomic
from teamwright.testing import ScriptedModel
from tests.database.spaces import holder, make_space
from tests.support.postgres import PostgresServer, run_server
from tests.support.waits import WAIT_S, wait_until

pytestmark = pytest.mark.promise("J6")

PROMPTS = 5


@pytest.fixture
def own_server():
    """A server that notes every statement in its log."""
    for server in run_server():
        server.sql("alter database postgres set log_statement = 'all'")
        yield server


@pytest.fixture
async def space(own_server) -> str:
    return await make_space(own_server.new_space())


def refreshes(server: PostgresServer) -> int:
    """Return how often a copy of the teams was brought up to date."""
    return len(re.findall(r"execute \S+: select s\.team, r\.xmin", (server.directory / "log").read_text()))


def crew_options(directory, space: str) -> Options:
    """Return the options of a session whose lead creates a team with the first prompt."""
    calls = [("TeamCreate", {"team_name": "crew", "description": "a test"})]
    model = ScriptedModel(lambda _request: [calls.pop(0)] if calls else "ok")
    return Options(cwd=directory, model=model, database=space)


@pytest.mark.slow
async def test_a_follower_reads_the_database_after_notifications_alone(
    tmp_path, space, own_server, own_home, monkeypatch
):
    monkeypatch.setattr(teams_copy, "AGAIN_S", 3600.0)
    async with AsyncExitStack() as opened, open_teams_copy(parse_address(space)) as copy:
        session = await opened.enter_async_context(open_session(crew_options(tmp_path, space)))
        await session.run([text_block("Begin.")])
        await copy.refresh()
        transcript = next(copy.home.own.glob("projects/*/*.jsonl"))
        before = refreshes(own_server)
        async with follow_copy(copy):
            for number in range(1, PROMPTS + 1):
                await session.run([text_block(f"Prompt {number}.")])
                text = f"Prompt {number}."
                await asyncio.to_thread(wait_until, lambda text=text: text in transcript.read_text())
            assert refreshes(own_server) - before <= 2 + 4 * PROMPTS
            lead = copy.lead(session.id)
            assert lead is not None and lead.is_alive
            ended = asyncio.create_task(lead.wait_for_end(WAIT_S))
            await opened.aclose()
            assert await ended


@pytest.mark.slow
async def test_a_request_that_is_written_into_the_copy_is_sent_at_once(
    tmp_path, space, own_server, own_home, monkeypatch
):
    monkeypatch.setattr(teams_copy, "AGAIN_S", 3600.0)
    schema = parse_address(space).schema
    stored = f"select count(*) from {schema}.session_files where name like '%/wish.json'"
    async with open_session(crew_options(tmp_path, space)) as session, open_teams_copy(parse_address(space)) as copy:
        await session.run([text_block("Begin.")])
        await copy.refresh()
        [directory] = copy.request_directories()
        async with follow_copy(copy):
            await copy.wait_for_refresh()  # the follower is at work
            write_atomic(directory / "wish.json", b"{}")
            await asyncio.to_thread(wait_until, lambda: own_server.sql(stored) == "1")


@pytest.mark.slow
async def test_the_marks_of_mailboxes_cost_the_same_with_many_messages_that_were_read(space, own_server):
    schema = parse_address(space).schema
    async with holder(space) as (stores, _):
        await stores.mailbox("demo", "ann").put(InboxEntry("ben", "first"))
    costs = []
    for _ in range(2):
        plan = f"explain (analyze, buffers, format json) {MAIL_MARKS.replace('$1', chr(39) + 'demo' + chr(39))}"
        own_server.sql(f"vacuum analyze {schema}.mail")
        [found] = json.loads(own_server.sql(f"set search_path to {schema}; {plan}"))
        costs.append(found["Plan"]["Shared Hit Blocks"] + found["Plan"]["Shared Read Blocks"])
        own_server.sql(
            f"insert into {schema}.mail (team, reader, msg_id, sender, body, is_contentless, is_read, stored_by) "
            "select 'demo', 'ann', n::text, 'ben', convert_to(repeat('x', 200), 'utf8'), false, true, 'x' "
            "from generate_series(1, 20000) n on conflict do nothing"
        )
    assert costs[1] <= costs[0] + 5, costs


@pytest.mark.slow
async def test_a_copy_has_new_read_and_replaced_messages_after_each_refresh(tmp_path, space, own_home):
    idle = json.dumps({"type": "idle_notification", "from": "ben", "timestamp": "", "idleReason": "available"})
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(open_session(crew_options(tmp_path, space)))
        await session.run([text_block("Begin.")])
        stores, _ = await stack.enter_async_context(holder(space, "session/other"))
        copy = await stack.enter_async_context(open_teams_copy(parse_address(space), "crew"))
        mailbox = stores.mailbox("crew", "ann")
        for text in ("one", idle, idle):
            await mailbox.put(InboxEntry("ben", text))
            await copy.refresh()
        await mailbox.mark_delivered([(await mailbox.unread())[0].msg_id])
        await copy.refresh()
        content = json.loads((copy.home.team("crew") / "inboxes" / "ann.json").read_bytes())
        assert [(entry.text, entry.read) for entry in map(parse_entry, content)] == [("one", True), (idle, False)]
