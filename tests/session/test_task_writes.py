"""Writes outside the paths that an agent's tasks in progress declare: only a person allows them."""

import pytest

from teamwright import Team
from teamwright.protocol.events import RequestOpened
from teamwright.protocol.ids import LEAD
from teamwright.storage.paths import find_home
from teamwright.tasks.file_task_store import FileTaskStore
from teamwright.tasks.task_list import TaskList
from teamwright.testing import ScriptedModel
from tests.support.waiting_crew import bash, complete, finished, waiting_scripts, write
from tests.teams.crew import a_team, told

pytestmark = pytest.mark.finding("L7")


def sub_agent():
    return ("Agent", {"description": "write it", "prompt": "Write it.", "subagent_type": "general-purpose"})


def model_of(*turns) -> ScriptedModel:
    """Ann starts without a task, then does these turns for the task that she claims; her sub-agents write `sub.txt`."""
    scripts = waiting_scripts(ann=turns)
    scripts[LEAD] = scripts.pop("lead")

    def answer(request):
        script = scripts.setdefault(request.agent_name, [write("sub.txt"), "Done."])
        return script.pop(0) if script else "Done."

    return ScriptedModel(answer)


async def test_a_person_is_asked_before_a_write_outside_the_set_by_tools_the_shell_and_sub_agents(tmp_path):
    asked: list[RequestOpened] = []

    async def answer(request: RequestOpened):
        asked.append(request)
        return await (request.allow() if "allowed.txt" in request.what else request.deny("Not that one."))

    turns = (
        write("docs/a.md"),
        bash("echo x > docs/b.md"),
        write("denied.txt"),
        write("allowed.txt"),
        bash("echo x > shell.txt"),
        sub_agent(),
        complete("1"),
        write("later.txt"),
        "Done.",
    )
    model = model_of(*turns)
    async with a_team(tmp_path, model, on_request=answer) as team:
        await team.spawn("ann", "Take a task.")
        await team.tasks.add("Write the documents", metadata={"for": ["ann"]}, writes=["docs/**"])
        await finished(team)
    there = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.suffix in {".md", ".txt"}}
    assert there == {"docs/a.md", "docs/b.md", "allowed.txt", "later.txt"}
    assert len(asked) == 4 and all("writes of task #1" in request.rule for request in asked)
    assert not any(request.always or request.suggestions for request in asked)
    assert "denied.txt is none of them. Not that one" in told(model, "ann")


@pytest.mark.parametrize("strict", [False, True])
async def test_without_a_person_and_with_strict_such_a_write_is_denied(tmp_path, strict):
    asked: list[RequestOpened] = []

    async def answer(request: RequestOpened):
        asked.append(request)
        return await request.allow()

    (tmp_path / ".teamwright").mkdir()
    (tmp_path / ".teamwright/team.toml").write_text(f"[team]\nstrict = {str(strict).lower()}\n")
    model = model_of(write("docs/a.md"), write("out.txt"), bash("touch shell.txt"), complete("1"), "Done.")
    async with a_team(tmp_path, model, trust=True, **({"on_request": answer} if strict else {})) as team:
        await team.spawn("ann", "Take a task.")
        await team.tasks.add("Write the documents", metadata={"for": ["ann"]}, writes=["docs"])
        await finished(team)
    assert (tmp_path / "docs/a.md").exists()
    assert not (tmp_path / "out.txt").exists() and not (tmp_path / "shell.txt").exists()
    assert not asked and told(model, "ann").count("writes of task #1") == 2


async def test_the_lead_asks_too_while_it_works_on_such_a_task(tmp_path):
    claim = ("TaskUpdate", {"taskId": "1", "status": "in_progress", "owner": "lead"})
    model = ScriptedModel([claim, write("out.txt"), write("docs/a.md"), complete("1"), write("later.txt"), "Done."])
    async with a_team(tmp_path, model) as team:
        await team.tasks.add("Write the documents", metadata={"for": ["lead"]}, writes=["docs/**"])
        await team.run("Do task 1.")
    assert not (tmp_path / "out.txt").exists()
    assert (tmp_path / "docs/a.md").exists() and (tmp_path / "later.txt").exists()


PROCESS_SCRIPT = """
[script]
name = "crew"

[[agent.ann.turn]]
when.task = "Write the documents"
[[agent.ann.turn.call]]
tool = "Write"
input = { file_path = "out.txt", content = "x" }
[[agent.ann.turn.call]]
tool = "Bash"
input = { command = "touch shell.txt" }
[[agent.ann.turn.call]]
tool = "Write"
input = { file_path = "docs/a.md", content = "x" }
[[agent.ann.turn.call]]
tool = "TaskUpdate"
input = { taskId = "1", status = "completed" }

[[agent.ann.turn]]
when.text = "Go on"
[[agent.ann.turn.call]]
tool = "Write"
input = { file_path = "out.txt", content = "x" }
[[agent.ann.turn.call]]
tool = "Write"
input = { file_path = "docs/a.md", content = "x" }
[[agent.ann.turn.call]]
tool = "TaskUpdate"
input = { taskId = "1", status = "completed" }

[[agent."*".otherwise]]
say = "Nothing."
"""


@pytest.mark.slow
async def test_a_member_in_its_own_process_asks_too(tmp_path):
    (tmp_path / "script.toml").write_text(PROCESS_SCRIPT)
    work = tmp_path / "work"
    work.mkdir()
    async with a_team(work, f"scripted:{tmp_path / 'script.toml'}", backend="detached") as team:
        await team.spawn("ann", "Wait.")
        await team.tasks.add("Write the documents", metadata={"for": ["ann"]}, writes=["docs/**"])
        await finished(team)
    assert (work / "docs/a.md").exists()
    assert not (work / "out.txt").exists() and not (work / "shell.txt").exists()


@pytest.mark.parametrize("backend", ["in-process", "detached"])
@pytest.mark.slow_after(1)
async def test_after_a_resume_the_task_that_was_begun_bounds_its_owner(tmp_path, backend):
    (tmp_path / "script.toml").write_text(PROCESS_SCRIPT)
    work, home, model = tmp_path / "work", find_home(), f"scripted:{tmp_path / 'script.toml'}"
    work.mkdir()
    async with a_team(work, model, backend=backend) as team:
        await team.spawn("ann", "Wait.")
    tasks = TaskList(FileTaskStore(home.tasks("crew"), home.guard))
    await tasks.create("Documents", "", by="user", metadata={"writes": ["docs/**"]})
    await tasks.update("1", by="ann", status="in_progress", owner="ann")
    options = {"model": model, "cwd": work, "backend": backend, "permission_mode": "bypassPermissions"}
    async with Team.resume("crew", **options) as team:
        await team.send("ann", "Go on")
        await finished(team)
    assert (work / "docs/a.md").exists() and not (work / "out.txt").exists()
