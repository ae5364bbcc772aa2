"""A schema of an earlier version gets the tables of this one, and keeps its rows."""

import pytest

from teamwright.database.address import parse_address
from teamwright.database.administration import upgrade_schema
from teamwright.database.connection import Database
from teamwright.database.schema import VERSION
from teamwright.protocol.errors import CannotStart
from teamwright.protocol.mail import InboxEntry
from teamwright.protocol.task import Task, TaskStatus
from teamwright.tasks.task_rules import Actor
from tests.database.spaces import holder


@pytest.mark.promise("J6")
async def test_an_older_schema_is_refused_until_it_is_upgraded_and_keeps_its_mail(postgres):
    url = postgres.new_space()
    address = parse_address(url)
    await upgrade_schema(address, create=True, target=1)
    postgres.sql(
        f"insert into {address.schema}.mail (team, reader, msg_id, sender, body, is_contentless, stored_by) "
        """values ('demo', 'ann', '1', 'ben', '{"from":"ben","text":"before"}', false, 'x')"""
    )
    with pytest.raises(CannotStart, match=f"has version 1, and this Teamwright needs {VERSION}"):
        await Database.open(address)
    upgrade = await upgrade_schema(address, create=False)
    assert (upgrade.before, upgrade.after) == (1, VERSION)
    async with holder(url) as (stores, _):
        mailbox = stores.mailbox("demo", "ann")
        await mailbox.put(InboxEntry("ben", "after"))
        assert [entry.text for entry in await mailbox.unread()] == ["before", "after"]


async def test_a_completed_task_of_an_older_schema_blocks_nothing_after_the_upgrade(postgres):
    url = postgres.new_space()
    address = parse_address(url)
    await upgrade_schema(address, create=True, target=3)
    bodies = [Task("1", "a", "", status=TaskStatus.COMPLETED), Task("2", "b", "", blocked_by=("1",))]
    for task in bodies:
        blockers, body = f"array{list(map(int, task.blocked_by))}::bigint[]", task.encode().decode()
        postgres.sql(
            f"insert into {address.schema}.tasks (list, id, body, status, is_internal, blocked_by, changed_by) values "
            f"('demo', {task.id}, convert_to('{body}', 'utf8'), '{task.status}', false, {blockers}, '')"
        )
    await upgrade_schema(address, create=False)
    async with holder(url) as (stores, _):
        claimed = (await stores.tasks("demo").claim_next(Actor("ann"))).claimed
        assert claimed is not None and claimed.after.id == "2"
