"""A whole team in a database: a lead and two members in its process, and the same team on another machine."""

import asyncio
import json
import re
import sys

import pytest

from teamwright.database.address import parse_address
from teamwright.database.administration import upgrade_schema
from teamwright.database.connection import Database
from teamwright.database.database_stores import DatabaseStores
from teamwright.database.session_connection import SILENT_S
from teamwright.database.team_rows import session_lease
from teamwright.protocol.errors import CannotStart
from teamwright.protocol.ids import LEAD
from teamwright.protocol.messages import text_block
from teamwright.saved.teams import find_team_view
from teamwright.session.database_session import copy_teams, fetch_session
from teamwright.session.open_session import open_session
from teamwright.session.options import Options
from teamwright.storage.paths import Home, find_home
from teamwright.testing import ScriptedModel
from teamwright.ui.terminal.history_commands import review_team_lines
from tests.database.spaces import holder
from tests.support import preloaded
from tests.support.waits import WAIT_S, wait_until
from tests.teams.crew import newest, told

TASKS = 3
START = [
    ("TeamCreate", {"team_name": "crew", "description": "a test"}),
    *[("TaskCreate", {"subject": f"part {n}", "description": "do it", "ready": True}) for n in range(1, TASKS + 1)],
    ("Agent", {"name": "ada", "description": "work", "prompt": "Work through the list."}),
    ("Agent", {"name": "bob", "description": "work", "prompt": "Work through the list."}),
]


def work(request):
    """A member completes each task that it receives, and reports the last one to the lead."""
    said = newest(request)
    ids = [one or other for one, other in re.findall(r"#(\d+)(?: part|: )|\"taskId\":\"(\d+)\"", said)]
    if ids and "pdated" not in said:
        return [("TaskUpdate", {"taskId": id, "status": "completed"}) for id in ids]
    if f"#{TASKS}" in said:
        return [("SendMessage", {"to": "lead", "message": "All parts are done.", "summary": "done"})]
    return "Waiting."


def scripted() -> ScriptedModel:
    calls = list(START)
    return ScriptedModel(
        lambda request: work(request) if request.agent_name != LEAD else [calls.pop(0)] if calls else "ok"
    )


@pytest.fixture
async def space(postgres) -> str:
    url = postgres.new_space()
    await upgrade_schema(parse_address(url), create=True)
    return url


def options(tmp_path, url, model, **more) -> Options:
    return Options(cwd=tmp_path, model=model, permission_mode="bypassPermissions", database=url, **more)


async def run_crew(tmp_path, url) -> tuple[str, ScriptedModel]:
    model = scripted()
    async with open_session(options(tmp_path, url, model)) as session:
        await session.run([text_block("Have it done.")])
        return session.id, model


@pytest.mark.promise("J6")
@pytest.mark.slow
async def test_a_team_works_through_tasks_and_mail_in_a_database_and_leaves_no_team_files(tmp_path, space, own_home):
    session, model = await run_crew(tmp_path, space)
    assert "All parts are done." in told(model, LEAD)
    database = await Database.open(parse_address(space))
    try:
        stores = DatabaseStores(database)
        tasks = (await stores.tasks("crew").read()).tasks
        assert [(task.id, str(task.status)) for task in tasks] == [(str(n), "completed") for n in range(1, TASKS + 1)]
        assert {task.owner for task in tasks} <= {"ada", "bob"}
        assert {member.name for member in (await stores.roster("crew").read()).members} >= {LEAD}
        assert (await stores.state("crew").read()).lead.session == session
        assert set(await stores.mailbox_names("crew")) == {LEAD, "ada", "bob"}
    finally:
        await database.close()
    home = find_home()
    assert not home.team("crew").joinpath("config.json").exists() and not home.tasks("crew").exists()
    assert not home.team("crew").joinpath("inboxes").exists() and not home.team_file("crew").exists()


@pytest.mark.promise("J6")
@pytest.mark.slow
async def test_mail_that_is_flagged_as_read_is_in_the_shipped_transcript(tmp_path, space, own_home):
    session, _ = await run_crew(tmp_path, space)
    elsewhere = Home.at(tmp_path / "elsewhere")
    assert await fetch_session(parse_address(space), elsewhere, "crew") == session
    database = await Database.open(parse_address(space))
    try:
        rows = await database.read(
            lambda connection: connection.fetch("select reader, msg_id from mail where team = 'crew' and is_read")
        )
    finally:
        await database.close()
    assert rows
    for row in rows:
        name = row["reader"]
        path = elsewhere.transcript(tmp_path, session)
        if name != LEAD:
            path = elsewhere.agent_transcript(tmp_path, session, name)
        lines = [json.loads(line) for line in path.read_bytes().splitlines()]
        assert f"mail:{row['msg_id']}" in {id for line in lines for id in line.get("injected", ())}, (name, row)


@pytest.mark.promise("J6")
@pytest.mark.slow
async def test_a_session_that_another_machine_drives_is_not_fetched_and_the_error_names_its_process(
    tmp_path, space, postgres, own_home
):
    session, _ = await run_crew(tmp_path, space)
    address, elsewhere = parse_address(space), Home.at(tmp_path / "elsewhere")
    async with holder(space, session_lease(session)):
        with pytest.raises(CannotStart, match="a test drives this session already") as refused:
            await fetch_session(address, elsewhere, "crew")
        assert refused.value.slug == "session-busy"
        command = [sys.executable, "-m", "teamwright", "--home", str(tmp_path / "elsewhere"), "--database", space]
        done = await asyncio.to_thread(preloaded.run, [*command, "resume", "crew", "-p", "Go on."], timeout=WAIT_S)
        assert done.returncode == 3 and "a test drives this session already" in str(done.stderr), done
        assert await fetch_session(address, find_home(), "crew") == session
        postgres.sql(f"update {address.schema}.leases set beat_at = now() - interval '{SILENT_S + 1} s'")
        assert await fetch_session(address, elsewhere, "crew") == session, "its machine may be lost"
    assert elsewhere.transcript(tmp_path, session).exists()


@pytest.mark.promise("J6")
@pytest.mark.slow
async def test_a_team_continues_on_another_machine_with_its_conversations(tmp_path, space, own_home):
    session, _ = await run_crew(tmp_path, space)
    elsewhere = tmp_path / "elsewhere"
    await fetch_session(parse_address(space), Home.at(elsewhere), session[:8])
    model = ScriptedModel(lambda _request: "I remember.")
    async with open_session(options(tmp_path, space, model, home=str(elsewhere), resume=session)) as resumed:
        assert resumed.team.name == "crew" and resumed.resumed is not None
        await resumed.run([text_block("What was done?")])
    assert "All parts are done." in told(model, LEAD)


@pytest.mark.slow
async def test_a_view_shows_the_team_from_a_copy_in_the_formats_of_files(tmp_path, space, own_home):
    session, _ = await run_crew(tmp_path, space)

    def look():
        return find_team_view(copy_teams(parse_address(space), "crew"), "crew")

    view = await asyncio.to_thread(look)
    assert (view.session, view.description) == (session, "a test")
    assert view.state == ("open" if view.unread else "finished")  # the last notices of members may be unread
    assert [(task.id, task.status) for task in view.tasks] == [(str(n), "completed") for n in range(1, TASKS + 1)]
    assert view.member_names == ["lead", "ada", "bob"]


@pytest.mark.slow
async def test_two_people_with_one_database_do_not_see_each_others_teams(tmp_path, postgres, own_home):
    spaces = [postgres.new_space(), postgres.new_space()]
    for url in spaces:
        await upgrade_schema(parse_address(url), create=True)
    await run_crew(tmp_path, spaces[0])
    assert not await fetch_session(parse_address(spaces[1]), Home.at(tmp_path / "other"), "crew")


@pytest.mark.promise("J6")
async def test_a_team_is_adopted_on_another_machine_and_its_members_keep_their_conversations(tmp_path, space, own_home):
    model = scripted()
    async with open_session(options(tmp_path, space, model)) as first:
        await first.run([text_block("Have it done.")])
        await first.stop_members("as a kill would", keep=True)
    model = ScriptedModel(lambda _request: "I remember.")
    async with open_session(options(tmp_path, space, model, home=str(tmp_path / "second"), adopt="crew")) as adopted:
        assert adopted.team.name == "crew" and adopted.id != first.id
        assert adopted.resumed is not None and set(adopted.resumed.members) == {"ada", "bob"}
        path = Home.at(tmp_path / "second").agent_transcript(tmp_path, adopted.id, "ada")
        assert b"Work through the list." in path.read_bytes()
    third = Home.at(tmp_path / "third")
    assert await fetch_session(parse_address(space), third, "crew") == adopted.id
    assert third.agent_transcript(tmp_path, adopted.id, "ada").read_bytes() == path.read_bytes()


@pytest.mark.slow
async def test_a_review_in_the_session_of_a_team_in_a_database_returns_a_task_with_a_comment(tmp_path, space, own_home):
    model = scripted()
    async with open_session(options(tmp_path, space, model)) as session:
        await session.run([text_block("Have it done.")])
        lines = await review_team_lines(session, "")
        assert any("part 1" in line for line in lines), lines
        tasks = await session.team.tasks.all()
        owner = tasks[-1].owner
        last = [task.id for task in tasks if task.owner == owner][-1]
        [line] = await review_team_lines(session, f"return {owner} Please add a test.")
        assert f"returned to {owner}, task #{last} is open again" in line
        await asyncio.to_thread(wait_until, lambda: "Please add a test." in told(model, owner))
