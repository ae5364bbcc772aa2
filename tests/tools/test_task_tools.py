"""TaskCreate, TaskGet, TaskList and TaskUpdate as a model calls them."""

import json
import re
from contextlib import asynccontextmanager
from typing import cast

import pytest

from teamwright.agent.tool import ToolContext, ToolResult, tool_schema, validate
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.ids import LEAD
from teamwright.protocol.mail import TaskAssignment, parse_protocol
from teamwright.teams.team import SessionTeam
from teamwright.tools.caller import Caller
from teamwright.tools.tasks.task_create import TaskCreate
from teamwright.tools.tasks.task_get import TaskGet
from teamwright.tools.tasks.task_hooks import CompletionReview
from teamwright.tools.tasks.task_list import TaskListTool
from teamwright.tools.tasks.task_update import TaskUpdate
from tests.teams.crew import Holding, a_team

TOOLS = (TaskCreate, TaskGet, TaskListTool, TaskUpdate)
LOOKING_AT_NO_TEAM = Caller(LEAD, cast("SessionTeam", None))


@pytest.fixture
def opened_crew(tmp_path, monkeypatch, ctx):
    """Open a team whose members ann and bob think, so that they change no task themselves."""
    monkeypatch.setenv("TEAMWRIGHT_HOME", str(tmp_path / "home"))

    @asynccontextmanager
    async def opened():
        model = Holding({"lead": ["ok"], "ann": ["Done."] * 20, "bob": ["Done."] * 20}, "ann", "bob")
        async with a_team(tmp_path, model) as team:
            for name in ("ann", "bob"):
                await team.spawn(name, "Wait.")
            yield Crew(team.session.team, ctx)
            model.go.set()  # they can agree to stop

    return opened


class Crew:
    """The callers of tools, and a call as the toolbox does it: validate, run, errors of ours become results."""

    def __init__(self, team: SessionTeam, ctx: ToolContext) -> None:
        self.team, self.ctx = team, ctx
        self.lead, self.ann, self.bob = (Caller(name, team) for name in (LEAD, "ann", "bob"))

    async def use(self, tool, caller, **arguments):
        made = make(tool, caller)
        read = validate(made, arguments)
        if isinstance(read, ToolResult):
            return read
        try:
            return await made.run(read, self.ctx)
        except TeamwrightError as problem:
            return ToolResult.error(problem.for_model())

    async def assignments(self, name) -> list[str]:
        """The tasks of whose assignment the member was notified."""
        found = [parse_protocol(entry.text) for entry in await self.team.mailbox(name).unread()]
        return [one.task_id for one in found if isinstance(one, TaskAssignment)]


class NoHooks:
    """Hooks that refuse nothing."""

    def review_new_tasks(self) -> bool:
        return False

    async def before_task_completed(self, _name, _task, _team) -> CompletionReview:
        return CompletionReview()


def make(tool, caller):
    return tool(caller, NoHooks()) if tool in {TaskCreate, TaskUpdate} else tool(caller)


@pytest.mark.promise("B1")
def test_names_parameters_and_required_ones_are_as_observed_and_ours_are_optional():
    schemas = {
        schema["name"]: schema["input_schema"]
        for schema in (tool_schema(make(tool, LOOKING_AT_NO_TEAM)) for tool in TOOLS)
    }
    assert {name: list(s.get("properties", {})) for name, s in schemas.items()} == {
        "TaskCreate": [
            *["subject", "description", "activeForm", "owner", "for", "blockedBy"],
            *["ready", "writes", "metadata"],
        ],
        "TaskGet": ["taskId"],
        "TaskList": [],
        "TaskUpdate": [
            *["taskId", "subject", "description", "activeForm", "owner", "status"],
            *["ready", "addBlocks", "addBlockedBy", "review", "comment", "metadata"],
        ],
    }
    assert {name: s.get("required", []) for name, s in schemas.items()} == {
        "TaskCreate": ["subject", "description"],
        "TaskGet": ["taskId"],
        "TaskList": [],
        "TaskUpdate": ["taskId"],
    }
    assert all(s["additionalProperties"] is False for s in schemas.values())
    assert schemas["TaskUpdate"]["properties"]["status"]["enum"] == ["pending", "in_progress", "completed", "deleted"]


@pytest.mark.parametrize("tool", TOOLS)
def test_a_description_is_short(tool):
    assert 40 < len(make(tool, LOOKING_AT_NO_TEAM).description.encode()) <= 400


def test_looking_is_read_only_and_changing_is_not():
    assert [make(tool, LOOKING_AT_NO_TEAM).is_read_only(None) for tool in TOOLS] == [False, True, True, False]


@pytest.mark.promise("B1")
async def test_a_created_task_is_named_by_its_number(opened_crew):
    async with opened_crew() as crew:
        use, lead = crew.use, crew.lead
        made = await use(TaskCreate, lead, subject="Map the flags", description="all", metadata={"k": None})
        assert made.content == "Task #1 created: Map the flags" and made.facts["task"]["metadata"].keys() == {"k"}
        assert (await use(TaskCreate, lead, subject=" ", description="x")).is_error


@pytest.mark.promise("B1", "B3")
async def test_the_list_is_numeric_with_owner_and_open_blockers(opened_crew):
    async with opened_crew() as crew:
        use, lead, ann = crew.use, crew.lead, crew.ann
        assert (await use(TaskListTool, lead)).content == "The task list is empty."
        for n in range(11):
            await use(TaskCreate, lead, subject=f"t{n + 1}", description="")
        await use(TaskUpdate, ann, taskId="2", status="in_progress")
        await use(TaskUpdate, lead, taskId="3", addBlockedBy=["11", "2"])
        shown = (await use(TaskListTool, ann)).content.split("\n")
        assert shown[:3] == ["#1 [pending] t1", "#2 [in_progress] t2 (ann)", "#3 [pending] t3 [blocked by #2, #11]"]
        assert [line.split()[0] for line in shown] == [f"#{n}" for n in range(1, 12)]
        await use(TaskUpdate, ann, taskId="2", status="completed")
        assert "#3 [pending] t3 [blocked by #11]" in (await use(TaskListTool, ann)).content


@pytest.mark.promise("B1", "F17")
@pytest.mark.finding("S14")
async def test_a_task_is_shown_in_full_and_list_and_get_agree_on_what_it_waits_for(opened_crew):
    async with opened_crew() as crew:
        use, lead = crew.use, crew.lead
        await use(TaskCreate, lead, subject="one", description="")
        await use(TaskCreate, lead, subject="two", description="first line\nsecond", metadata={"k": "é"})
        await use(TaskCreate, lead, subject="three", description="")
        await use(TaskUpdate, lead, taskId="2", addBlockedBy=["1", "3"], owner="ann")
        await use(TaskUpdate, lead, taskId="3", status="completed")
        shown = (await use(TaskGet, lead, taskId="#2")).content
        times = re.search(r"^Times: created \S+Z, changed \S+Z\n", shown, re.M)
        assert times is not None and shown.replace(times[0], "") == (
            "Task #2: two\nStatus: pending\nOwner: ann\nDescription: first line\nsecond\n"
            'Blocked by: #1\nBlockers that are done: #3\nMetadata: {"k": "é"}'
        )
        assert "#2 [pending] two (ann) [blocked by #1]" in (await use(TaskListTool, lead)).content
        assert "Blocks: #2" in (await use(TaskGet, lead, taskId="1")).content


@pytest.mark.finding("3S10")
async def test_what_only_the_runtime_uses_is_not_shown_and_a_new_owner_leaves_a_task_pending(opened_crew):
    async with opened_crew() as crew:
        use, lead = crew.use, crew.lead
        made = await use(TaskCreate, lead, subject="one", description="")
        changed = await use(TaskUpdate, lead, taskId="1", owner="ann")
        shown = await use(TaskGet, lead, taskId="1")
        assert "Status: pending\nOwner: ann" in shown.content and "Metadata" not in shown.content
        for result in (made, changed, shown):
            assert not {"call", "draft"} & set(result.facts["task"].get("metadata", {}))


@pytest.mark.promise("B1")
@pytest.mark.parametrize("number", ["7", "x", "../1", "0"])
async def test_an_unknown_number_is_an_error_on_every_path(opened_crew, number):
    async with opened_crew() as crew:
        use, lead = crew.use, crew.lead
        for answer in (
            await use(TaskGet, lead, taskId=number),
            await use(TaskUpdate, lead, taskId=number, status="completed"),
            await use(TaskUpdate, lead, taskId=number, status="deleted"),
        ):
            assert answer.is_error and "TaskList" in answer.content


@pytest.mark.promise("B2")
@pytest.mark.finding("U12")
async def test_an_update_says_what_changed_in_the_fixed_order(opened_crew):
    async with opened_crew() as crew:
        use, lead = crew.use, crew.lead
        await use(TaskCreate, lead, subject="one", description="")
        done = await use(TaskUpdate, lead, taskId="1", metadata={"k": 1}, subject="new", status="in_progress")
        assert done.content == 'Task #1 updated: subject = new, metadata = {"k": 1}, status = in_progress'
        assert done.facts["changed"] == ["subject", "metadata", "status"]
        again = await use(TaskUpdate, lead, taskId="1", metadata={"k": None}, status="in_progress")
        assert again.content == "Task #1 updated: metadata = none"
        assert "nothing changed" in (await use(TaskUpdate, lead, taskId="1", subject="new")).content
        assert (await use(TaskUpdate, lead, taskId="1", status="deleted")).content == "Task #1 deleted"


@pytest.mark.promise("B6", "B2")
async def test_a_member_that_completes_is_pointed_to_the_list_and_told_what_it_freed(opened_crew):
    async with opened_crew() as crew:
        use, lead, ann = crew.use, crew.lead, crew.ann
        await use(TaskCreate, lead, subject="one", description="")
        await use(TaskCreate, lead, subject="two", description="")
        await use(TaskUpdate, lead, taskId="2", addBlockedBy=["1"])
        done = await use(TaskUpdate, ann, taskId="1", status="completed")
        assert "No longer waiting: #2" in done.content and "TaskList" in done.content
        assert done.brief == "Task #1 updated: owner = ann, status = completed"
        assert "TaskList" not in (await use(TaskUpdate, lead, taskId="2", status="completed")).content


@pytest.mark.promise("B4", "B5")
async def test_a_new_owner_is_told_once_and_one_that_takes_a_task_is_not(opened_crew):
    async with opened_crew() as crew:
        use, lead, ann = crew.use, crew.lead, crew.ann
        await use(TaskCreate, lead, subject="one", description="")
        await use(TaskCreate, lead, subject="two", description="")
        for _ in range(2):
            await use(TaskUpdate, lead, taskId="1", owner="ann")
        await use(TaskUpdate, ann, taskId="2", status="in_progress")
        assert await crew.assignments("ann") == ["1"] and await crew.assignments(LEAD) == []
        refused = await use(TaskUpdate, crew.bob, taskId="2", owner="bob")
        assert refused.is_error and "#2 belongs to ann" in refused.content


async def test_arguments_as_weak_models_write_them_are_understood(opened_crew):
    async with opened_crew() as crew:
        use, lead, ann = crew.use, crew.lead, crew.ann
        await use(TaskCreate, lead, subject="one", description="d")
        await use(TaskCreate, lead, subject="two", description="d")
        empty = {"subject": "", "description": "", "activeForm": "", "owner": "", "addBlocks": [], "metadata": {}}
        assert (await use(TaskUpdate, ann, taskId=1, status="in_progress", **empty)).content == (
            "Task #1 updated: owner = ann, status = in_progress"
        )
        assert (await use(TaskUpdate, ann, taskId="1", status="completed", **empty)).facts["task"]["owner"] == "ann"
        assert (
            await use(TaskUpdate, lead, taskId="2", addBlockedBy="1")
        ).content == 'Task #2 updated: blockedBy = ["1"]'
        wrong = await use(TaskUpdate, ann, taskId="2", status="done")
        assert wrong.is_error and "in_progress" in wrong.content
        unknown = await use(TaskUpdate, ann, taskId="2", state="completed")
        assert unknown.is_error and "state" in unknown.content


async def test_an_empty_owner_hands_a_task_back(opened_crew):
    async with opened_crew() as crew:
        use, lead, ann = crew.use, crew.lead, crew.ann
        await use(TaskCreate, lead, subject="one", description="d")
        await use(TaskUpdate, ann, taskId="1", status="in_progress")
        back = await use(TaskUpdate, ann, taskId="1", owner="")
        assert back.content == "Task #1 updated: owner = none, status = pending"
        data = json.loads((lead.team.tasks.store.directory / "1.json").read_bytes())
        assert data["status"] == "pending" and "owner" not in data


@pytest.mark.promise("F17", "B3")
async def test_a_refusal_says_why_and_what_to_do(opened_crew):
    async with opened_crew() as crew:
        use, lead = crew.use, crew.lead
        await use(TaskCreate, lead, subject="one", description="")
        await use(TaskCreate, lead, subject="two", description="")
        await use(TaskUpdate, lead, taskId="1", addBlocks=["2"])
        circle = await use(TaskUpdate, lead, taskId="1", addBlockedBy=["2"])
        assert circle.is_error and "#1 → #2 → #1" in circle.content and "nothing was changed" in circle.content
        early = await use(TaskUpdate, lead, taskId="2", status="completed")
        assert early.is_error and "#2 waits for #1" in early.content
