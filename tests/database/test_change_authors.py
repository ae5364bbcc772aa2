"""A database says which member changed a task: the lead waits for the report of a slow member, and only for that."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from teamwright.database.address import parse_address
from teamwright.database.connection import Database
from teamwright.database.database_stores import DatabaseStores
from teamwright.external import task_watcher
from teamwright.protocol.events import TaskChanged
from teamwright.protocol.messages import text_block
from teamwright.protocol.task import Task, TaskStatus
from teamwright.session.open_session import open_session
from teamwright.session.options import Options
from teamwright.storage.file_watcher import Watcher
from teamwright.tasks.task_rules import Actor, task_info
from teamwright.tasks.task_store import TaskInterest, team_member
from teamwright.testing import ScriptedModel
from tests.database.spaces import holder, make_space
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


@pytest.mark.finding("T25")
async def test_a_member_need_not_read_tasks_that_others_have_and_learns_when_its_own_task_is_taken(postgres):
    url = await make_space(postgres.new_space())
    async with holder(url, "member/crew/ada") as (stores, _), task_list(url, "crew") as others:
        tasks, news = stores.tasks("crew"), asyncio.Queue()
        follower = tasks.follow(lambda _change: None)
        interest = TaskInterest("Ada", lambda ids: [news.put_nowait(("taken", id)) for id in ids])
        end = tasks.watch(Watcher(), lambda ids: news.put_nowait(("read", *(ids or ["all"]))), interest)

        async def following() -> tuple[str, ...]:
            return await asyncio.wait_for(news.get(), WAIT_S)

        assert await following() == ("read", "all")  # the notifications begin
        for id in ("1", "2"):
            await others.create(lambda id: Task(id, f"part {id}", ""))
            assert await following() == ("read", id)
        assert (await tasks.claim_next(Actor("ada"))).claimed.after.id == "1"
        assert (await others.claim_next(Actor("bob"))).claimed.after.id == "2"
        assert await following() == ("taken", "2")
        await others.change("1", lambda task, _open: task.copy_with(owner="bob"))
        assert await following() == ("read", "1")
        await others.change("2", lambda task, _open: task.copy_with(owner=None, status=TaskStatus.PENDING))
        assert await following() == ("read", "2")
        end()
        follower.close()
