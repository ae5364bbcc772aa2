"""A database says which member changed a task: the lead waits for the report of a slow member, and only for that."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from teamwright.database.address import parse_address
from teamwright.database.connection import Database
from teamwright.database.database_stores import DatabaseStores
from teamwright.protocol.events import TaskChanged
from teamwright.protocol.messages import text_block
from teamwright.protocol.task import TaskStatus
from teamwright.session.open_session import open_session
from teamwright.session.options import Options
from teamwright.tasks.task_rules import task_info
from teamwright.tasks.task_store import team_member
from teamwright.teams.external import task_watcher
from teamwright.testing import ScriptedModel
from tests.database.spaces import make_space
from tests.support.waits import WAIT_S

START = [
    ("TeamCreate", {"team_name": "crew", "description": "a test"}),
    *[("TaskCreate", {"subject": f"part {n}", "description": "do it", "ready": True}) for n in range(1, 5)],
]


@asynccontextmanager
async def task_list(url, directory, member=""):
    """Give the team's task list in another process; `member` is the member that this process runs."""
    database = await Database.open(parse_address(url))
    database.member = member and team_member(directory, member)
    try:
        yield DatabaseStores(database).tasks(directory)
    finally:
        await database.close()


@pytest.mark.finding("T24")
async def test_a_change_by_a_remote_member_is_its_own_however_late_its_event_comes(tmp_path, postgres, monkeypatch):
    url = await make_space(postgres.new_space())
    calls = list(START)
    model = ScriptedModel(lambda _request: [calls.pop(0)] if calls else "ok")
    options = Options(cwd=tmp_path, model=model, permission_mode="bypassPermissions", database=url)
    async with open_session(options) as session:
        await session.run([text_block("go")])
        team, news = session.team, asyncio.Queue()
        team.external.process_names.add("ada")
        session.log.subscribe(lambda _number, event: isinstance(event, TaskChanged) and news.put_nowait(event))

        async def change_by(name: str, id: str, **changes: object):
            async with task_list(url, team.directory, name) as tasks:
                return (await tasks.change(id, lambda task, _open: task.copy_with(**changes))).after

        async def next_change() -> tuple[str, str, str]:
            event = await asyncio.wait_for(news.get(), WAIT_S)
            return event.task.id, event.change, event.member

        claimed = await change_by("Ada", "1", owner="ada", status=TaskStatus.IN_PROGRESS)
        await change_by("", "2", subject="by a person")
        assert await next_change() == ("2", "updated", "outside")  # and #1, which was changed before it, waits
        team.external.note_reported_task(task_info(claimed))
        monkeypatch.setattr(task_watcher, "AUTHOR_REPORT_WAIT_S", 0.05)
        await change_by("ada", "3", owner="ada", status=TaskStatus.COMPLETED)
        assert await next_change() == ("3", "completed", "ada")  # its process died before it reported this
        await change_by("stranger", "4", subject="by a stranger")
        assert await next_change() == ("4", "updated", "outside")
        assert news.empty()
