"""A whole team on stores in memory: a lead and two members in its process work through tasks and mail."""

import re

from teamwright.protocol.ids import LEAD
from teamwright.protocol.messages import text_block
from teamwright.session.open_session import open_session
from teamwright.session.options import Options
from teamwright.storage.paths import find_home
from teamwright.teams.team_creation import create_team
from teamwright.testing import ScriptedModel
from tests.support.memory_stores import MemoryStores
from tests.teams.crew import newest, told

TASKS = 4
LEAD_CALLS = [
    *[("TaskCreate", {"subject": f"part {n}", "description": "do it"}) for n in range(1, TASKS + 1)],
    ("TaskUpdate", {"taskId": "4", "addBlockedBy": ["1", "2", "3"]}),
    ("Agent", {"name": "ada", "description": "work", "prompt": "Work through the list."}),
    ("Agent", {"name": "bob", "description": "work", "prompt": "Work through the list."}),
]


def work(request):
    """A member completes each task that it receives, and reports the last one to the lead."""
    said = newest(request)
    ids = [one or other for one, other in re.findall(r"#(\d+)(?: part|: )|\"taskId\":\"(\d+)\"", said)]
    if ids and "pdated" not in said:
        return [("TaskUpdate", {"taskId": id, "status": "completed"}) for id in ids]
    if "#4" in said:
        return [("SendMessage", {"to": "lead", "message": "All parts are done.", "summary": "done"})]
    return "Waiting."


async def test_a_lead_and_two_members_work_through_tasks_and_mail_on_stores_in_memory(tmp_path, own_home):
    calls, stores = list(LEAD_CALLS), MemoryStores()
    model = ScriptedModel(
        lambda request: work(request) if request.agent_name != LEAD else [calls.pop(0)] if calls else "ok"
    )
    options = Options(cwd=tmp_path, model=model, permission_mode="bypassPermissions", stores=stores)
    async with open_session(options) as session:
        await create_team(session.team, "crew", None, None)
        await session.run([text_block("Have it done.")])
        found = await stores.tasks("crew").read()
        assert [(task.id, str(task.status)) for task in found.tasks] == [(str(n), "completed") for n in range(1, 5)]
        assert {task.owner for task in found.tasks} <= {"ada", "bob"}
        members = await stores.roster("crew").read()
        assert {member.name for member in members.members} == {LEAD, "ada", "bob"}
        assert set((await stores.state("crew").read()).incarnation_records) == {"ada", "bob"}
    assert "All parts are done." in told(model, LEAD)
    home = find_home()
    assert not home.team("crew").joinpath("config.json").exists() and not home.tasks("crew").exists()
    assert not home.team("crew").joinpath("inboxes").exists() and not home.team_file("crew").exists()
