"""Reviews in a running team: a reviewer is asked, answers, is replaced; a kill asks again once."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from teamwright import Budget, Team
from teamwright.mail.inbox import read_entries
from teamwright.protocol.events import MemberChanged, RequestOpened, TaskChanged, TeamEvent
from teamwright.storage.event_log import read_recent
from teamwright.storage.paths import find_home
from teamwright.tasks.completion_conditions import ReviewAnswer, task_notes
from teamwright.tasks.file_task_store import FileTaskStore
from teamwright.tasks.task_list import TaskList
from teamwright.ui.terminal.panel import task_rows
from teamwright.views.live_status import TaskBoard
from tests.crash.integration import live
from tests.support.repositories import git, make_repository
from tests.support.waiting_crew import complete, finished, update, waiting_crew, write
from tests.support.waits import WAIT_S
from tests.teams.crew import a_team, told, until

pytestmark = pytest.mark.finding("L8")

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
async def test_a_member_returns_work_with_a_comment_and_approves_the_next_round(tmp_path):
    model = waiting_crew(
        ann=[
            write("a.txt", "one\n"),
            complete("1"),
            "Done.",
            [("Read", {"file_path": "a.txt"}), write("a.txt", "two\n")],
            complete("1"),
            "Done again.",
        ],
        bob=[update("1", review="return", comment="Say two."), "Returned.", update("1", review="approve"), "Approved."],
    )
    async with a_team(tmp_path, model) as team:
        await team.spawn("bob", "Wait for a review.")
        await team.spawn("ann", "Take a task.")
        await team.tasks.add("Write a.txt", metadata={"for": ["ann"]}, review="member")
        [task] = await finished(team, 1)
        assert task.review_note is not None
        assert (task.review_note.round, task.review_note.returns, task.review_note.by) == (2, 1, "bob")
        asked, returned = told(model, "bob"), told(model, "ann")
        assert "+one" in asked and "+two" in asked and asked.count("Review the finished work of ann") == 2
        assert returned.count("Say two.") == 1 and "bob returned your work on task #1" in returned


async def test_a_reviewer_that_rests_without_an_answer_is_replaced_and_then_the_lead_is_asked(tmp_path):
    model = waiting_crew(ann=[complete("1"), "Done."], bob=["Looks good to me."], cid=["It is fine, I think."])
    async with a_team(tmp_path, model) as team:
        for name in ("bob", "cid", "ann"):
            await team.spawn(name, "Wait.")
        reviewers: set[str] = set()

        def note(_number: int, event: TeamEvent) -> None:
            if isinstance(event, TaskChanged):
                reviewers.add(event.task.reviewer)
                team.session.team.changed.set()

        team.session.log.subscribe(note, live=False)
        await team.tasks.add("Do it", metadata={"for": ["ann"]}, review="member")
        await until(team, lambda: "team-lead" in reviewers)
        [task] = await team.tasks.all()
        assert task.review_note is not None
        assert set(task.review_note.asked) == {"bob", "cid", "team-lead"}
        await team.tasks.answer_review(task, approve=True)
        [task] = await finished(team, 1)
        assert task.review_note is not None and task.review_note.by == "user"


async def test_a_run_does_not_end_while_a_reviewer_whose_cap_is_spent_is_replaced(tmp_path):
    model = waiting_crew(ann=[complete("1"), "Done."], bob=["Too late."])
    async with a_team(tmp_path, model) as team:
        await team.spawn("bob", "Wait.", budget=Budget(turns=1))
        ann = await team.spawn("ann", "Wait.")
        await until(team, lambda: ann.state == "idle")
        await team.tasks.add("Do it", metadata={"for": ["ann"]}, review="member")
        await team.run("Wait for the review.")
        [task] = await team.tasks.all()
        assert task.review_note is not None
        assert "team-lead" in task.review_note.asked
        assert "Review the finished work of ann" in told(model, model.requests[-1].agent_name)


def is_asking() -> bool:
    return any(task.get_name() == "reviews" and not task.done() for task in asyncio.all_tasks())


async def test_a_run_does_not_end_while_a_reviewer_is_replaced_whose_wake_up_had_no_mail(tmp_path):
    """The wake-up is pending when the review worker looks, and no event says that nothing came of it.

    Another program holds the lead's inbox, so that the reviewer cannot go on between its rest and the look.
    """
    model = waiting_crew(ann=[complete("1"), "Done."], bob=["Looks good to me."])
    async with a_team(tmp_path, model) as team:
        for name in ("bob", "ann"):
            await team.spawn(name, "Wait.")
        await until(team, team.session.team.is_quiet)
        model.held.add("bob")
        await team.tasks.add("Do it", metadata={"for": ["ann"]}, review="member")
        async with asyncio.timeout(WAIT_S):
            await model.thinking.wait()
        await until(team, lambda: team.session.team.find("ann").is_resting)
        bob = team.session.team.find("bob")
        assert bob is not None
        held = find_home().shared / "teams" / "crew" / "inboxes" / "team-lead.json.lock"
        pending: list[bool] = []

        def note(_number: int, event: TeamEvent) -> None:
            if isinstance(event, MemberChanged) and (event.member, event.state) == ("bob", "idle") and not pending:
                bob.wake_target.wake()
                pending.append(bob.wake_target.wake_pending)

        team.session.log.subscribe(note, live=False)
        held.mkdir()
        try:
            model.go.set()
            await until(team, lambda: pending and not is_asking())
            assert bob.wake_target.wake_pending, "the worker looked while the wake-up was pending"
        finally:
            held.rmdir()
        await until(team, team.session.team.is_quiet)
        [task] = await team.tasks.all()
        assert task.review_note is not None
        assert "team-lead" in task.review_note.asked


async def test_a_person_answers_by_the_queue_of_requests(tmp_path):
    asked: list[RequestOpened] = []

    async def answer(request: RequestOpened):
        asked.append(request)
        return await (request.deny("Too short.") if len(asked) == 1 else request.allow())

    model = waiting_crew(
        ann=[
            write("a.txt", "one\n"),
            complete("1"),
            "Done.",
            complete("1"),
            "Done again.",
        ]
    )
    async with a_team(tmp_path, model, on_request=answer) as team:
        await team.spawn("ann", "Take a task.")
        await team.tasks.add("Write a.txt", metadata={"for": ["ann"]}, review="human")
        [task] = await finished(team, 1)
        assert task.review_note is not None and task.review_note.by == "user"
        assert "Too short." in told(model, "ann")
    assert [request.kind for request in asked] == ["review", "review"]
    assert "+one" in asked[0].what and asked[0].member == "ann"


async def test_a_review_by_a_person_stays_open_where_nobody_can_answer(tmp_path):
    model = waiting_crew(ann=[complete("1"), "Done."])
    async with a_team(tmp_path, model) as team:
        await team.spawn("ann", "Take a task.")
        await team.tasks.add("Do it", metadata={"for": ["ann"]}, review="human")
        await team.run("Wait.")
        [task] = await team.tasks.all()
        assert task.in_review and task.status == "in_progress"
        assert "needs a review by the user" in told(model, model.requests[-1].agent_name)


@pytest.mark.slow
async def test_only_approved_work_of_a_worktree_is_integrated(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    shop = make_repository(tmp_path / "shop", {"a.txt": "one\n"})
    model = waiting_crew(
        ann=[write("b.txt", "new\n"), complete("1"), "Done."],
        bob=[update("1", review="approve"), "Approved."],
    )
    async with a_team(shop, model) as team:
        await team.spawn("bob", "Wait for a review.")
        await team.spawn("ann", "Take a task.", isolation="worktree")
        await team.tasks.add("Write b.txt", metadata={"for": ["ann"]}, review="member")
        await finished(team, 1)
        assert [(entry.task, entry.state) for entry in await team.integration.entries()] == [("1", "merged")]
        assert "+new" in told(model, "bob") and "teamwright/crew/ann" in told(model, "bob")
    assert git(shop, "show", "teamwright/crew/integration:b.txt") == "new"


async def program(*words: str, cwd: Path) -> str:
    """The output of the program in another process, which must exit with 0."""
    words = (sys.executable, "-m", "teamwright", *words)
    child = await asyncio.create_subprocess_exec(*words, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    async with asyncio.timeout(WAIT_S):
        out, err = await child.communicate()
    assert child.returncode == 0, err
    return out.decode()


@pytest.mark.slow
async def test_a_person_answers_from_another_terminal(tmp_path):
    asked = asyncio.Event()
    model = waiting_crew(ann=[complete("1"), "Done.", complete("1"), "Done again."])
    async with a_team(tmp_path, model, on_request=lambda _request: asked.set()) as team:
        await team.spawn("ann", "Take a task.")
        await team.tasks.add("Do it", metadata={"for": ["ann"]}, review="human")
        for answer in (("deny", "--reason", "Too short."), ("allow",)):
            async with asyncio.timeout(WAIT_S):
                await asked.wait()
            asked.clear()
            [request] = json.loads(await program("requests", "--wait", "30s", "--json", cwd=tmp_path))
            assert (request["kind"], request["owner"]) == ("review", "ann")
            await program("requests", answer[0], request["id"], *answer[1:], cwd=tmp_path)
        [task] = await finished(team, 1)
        assert task.review_note is not None and (task.review_note.by, task.review_note.returns) == ("user", 1)
        assert "Too short." in told(model, "ann")


async def test_the_review_of_the_team_file_applies_to_each_task(tmp_path):
    (tmp_path / ".teamwright").mkdir()
    (tmp_path / ".teamwright/team.toml").write_text("[team]\nreview = 'member'\n")
    model = waiting_crew(ann=[complete("1"), "Done."], bob=[update("1", review="approve"), "Approved."])
    async with a_team(tmp_path, model) as team:
        for name in ("bob", "ann"):
            await team.spawn(name, "Wait.")
        await team.tasks.add("Do it", metadata={"for": ["ann"]})
        [task] = await finished(team, 1)
        assert task.review == "member" and task.review_note is not None and task.review_note.by == "bob"


async def test_a_reviewer_that_ends_without_an_answer_is_replaced(tmp_path):
    approve = [update("1", review="approve"), "Approved."]
    model = waiting_crew(ann=[complete("1"), "Done."], bob=approve, cid=approve)
    async with a_team(tmp_path, model) as team:
        for name in ("bob", "ann"):
            await team.spawn(name, "Wait.")
        await until(team, team.session.team.is_quiet)
        model.held.add("bob")
        await team.tasks.add("Do it", metadata={"for": ["ann"]}, review="member")
        async with asyncio.timeout(WAIT_S):
            await model.thinking.wait()
        await team.spawn("cid", "Wait.")
        await team.stop("bob")
        [task] = await finished(team, 1)
        assert task.review_note is not None
        assert (task.review_note.asked, task.review_note.by) == (("bob", "cid"), "cid")


@pytest.mark.finding("L7")
@pytest.mark.slow
async def test_overlapping_tasks_are_worked_on_at_once_in_worktrees_and_the_lists_say_so(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    shop = make_repository(tmp_path / "shop", {"src/a.txt": "one\n"})
    turns = {
        name: [write(f"src/{name}.txt", "new\n"), complete(number), "Done."]
        for name, number in (("ann", "1"), ("bob", "2"))
    }
    model = waiting_crew(**turns)
    async with a_team(shop, model) as team:
        for name in turns:
            await team.spawn(name, "Take a task.", isolation="worktree")
        await until(team, lambda: all(member.state == "idle" for member in team.members))
        model.held.update(turns)
        for name in turns:
            await team.tasks.add(f"Write {name}.txt", metadata={"for": [name]}, writes=["src/**"])
        while True:
            team.session.team.changed.clear()
            tasks = await team.tasks.all()
            if all(task.status == "in_progress" for task in tasks):
                break
            await until(team, team.session.team.changed.is_set)
        assert task_notes(tasks[1], tasks) == ("overlaps #1 (ann: src/**)",)
        assert "overlaps #1 (ann: src/**)" in await program("tasks", "crew", cwd=shop)
        model.go.set()
        await finished(team, 2)
        assert [entry.state for entry in await team.integration.entries()] == ["merged", "merged"]
    assert git(shop, "show", "teamwright/crew/integration:src/bob.txt") == "new"


PROCESS_SCRIPT = """
[script]
name = "crew"

[[agent.ann.turn]]
when.task = "Write ann.txt"
[[agent.ann.turn.call]]
tool = "Write"
input = { file_path = "ann.txt", content = "from ann" }
[[agent.ann.turn.call]]
tool = "TaskUpdate"
input = { taskId = "1", status = "completed" }

[[agent.bob.turn]]
when.text = "from ann"
[[agent.bob.turn.call]]
tool = "TaskUpdate"
input = { taskId = "1", review = "approve" }

[[agent."*".otherwise]]
say = "Nothing."
"""


@pytest.mark.slow
async def test_members_in_processes_submit_and_review_work(tmp_path):
    (tmp_path / "script.toml").write_text(PROCESS_SCRIPT)
    (tmp_path / "work").mkdir()
    async with a_team(tmp_path / "work", f"scripted:{tmp_path / 'script.toml'}", backend="detached") as team:
        for name in ("bob", "ann"):
            await team.spawn(name, "Wait.")
        await team.tasks.add("Write ann.txt", metadata={"for": ["ann"]}, review="member")
        [task] = await finished(team, 1)
        assert task.review_note is not None and task.review_note.by == "bob"


@pytest.mark.slow
async def test_after_kills_each_reviewer_and_each_author_has_one_message(tmp_path):
    directory, home = tmp_path / "work", find_home()
    directory.mkdir()
    async with a_team(directory, waiting_crew(ann=[], bob=[])) as team:
        for name in ("bob", "ann"):
            await team.spawn(name, "Wait.")
    tasks = TaskList(FileTaskStore(home.tasks("crew"), home.guard))
    for subject in ("submitted", "returned"):
        task = await tasks.create(subject, "", by="user", metadata={"review": "member"})
        await tasks.update(task.id, by="ann", status="completed")
    await tasks.answer_review("2", ReviewAnswer(False, "Again."), by="user", lead=True)
    kill_at = 1
    while live(directory, kill_at, group=False) != 0:
        kill_at += 2
    assert kill_at > 10, "no life was killed within the reviews"
    inboxes = home.shared / "teams" / "crew" / "inboxes"
    reviews = {
        name: [entry.msg_id for entry in read_entries(inboxes / f"{name}.json") if "review:" in (entry.msg_id or "")]
        for name in ("bob", "ann", "team-lead")
    }
    assert reviews == {"bob": ["review:1:1:1"], "ann": ["review:2:1:returned"], "team-lead": ["review:1:1:2"]}
    [first, _] = await tasks.all()
    assert first.in_review and first.review_note is not None and first.review_note.asked == ("bob", "team-lead")


def complete_in_file(team: Team, id: str, owner: str, **metadata) -> None:
    """Complete a task as another program does: in its file. A metadata value None removes its key."""
    path = find_home().tasks(team.session.team.directory) / f"{id}.json"
    body = json.loads(path.read_text())
    kept = {key: value for key, value in {**body.get("metadata", {}), **metadata}.items() if value is not None}
    path.write_text(json.dumps({**body, "status": "completed", "owner": owner, "metadata": kept}))


@pytest.mark.parametrize("metadata", [{}, {"review": None, "reviewed": None}])
async def test_a_task_that_another_program_completes_in_its_file_is_reviewed_first(tmp_path, metadata):
    model = waiting_crew(bob=[update("1", review="approve"), "Approved."])
    async with a_team(tmp_path, model) as team:
        await team.spawn("bob", "Wait for a review.")
        await until(team, team.session.team.is_quiet)
        first = await team.tasks.add("Do it", metadata={"for": ["zoe"]}, review="member")
        await team.tasks.add("Then this", after=[first], metadata={"for": ["zoe"]})
        model.held.add("bob")
        complete_in_file(team, "1", "zoe", **metadata)
        async with asyncio.timeout(WAIT_S):
            await model.thinking.wait()
        task, _ = await team.session.team.tasks.get_with_blockers("1")
        assert task is not None and task.in_review and task.review_note.author == "zoe"
        assert (await team.session.team.tasks.get_with_blockers("2"))[1] == ["1"]
        model.go.set()
        [task] = [one for one in await finished(team, 1) if one.id == "1"]
        assert task.review_note is not None and (task.review_note.by, task.review) == ("bob", "member")
        assert (await team.session.team.tasks.get_with_blockers("2"))[1] == []


async def test_a_task_that_another_program_completed_while_nobody_ran_is_reviewed_after_a_resume(tmp_path):
    async with a_team(tmp_path, waiting_crew(), keep=True) as team:
        await team.tasks.add("Do it", metadata={"for": ["zoe"]}, review="human")
    complete_in_file_of("crew")
    asked: list[RequestOpened] = []

    async def answer(request: RequestOpened):
        asked.append(request)
        return await request.allow()

    options = {"cwd": tmp_path, "permission_mode": "bypassPermissions", "on_request": answer}
    async with Team.resume("crew", model=waiting_crew(), **options) as team:
        [task] = await finished(team, 1)
        assert task.review_note is not None and task.review_note.by == "user"
    assert [request.kind for request in asked] == ["review"]


def complete_in_file_of(directory: str) -> None:
    path = find_home().tasks(directory) / "1.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "status": "completed", "owner": "zoe"}))


async def test_a_silent_lead_is_reminded_once_and_then_a_person_is_asked(tmp_path):
    asked: list[RequestOpened] = []

    async def answer(request: RequestOpened):
        asked.append(request)
        return await request.allow()

    model = waiting_crew(ann=[complete("1"), "Done."])
    async with a_team(tmp_path, model, on_request=answer) as team:
        await team.spawn("ann", "Take a task.")
        await team.tasks.add("Do it", metadata={"for": ["ann"]}, review="lead")
        await team.run("Wait.")
        [task] = await finished(team, 1)
        assert task.review_note is not None and task.review_note.by == "user"
        assert task.review_note.reviewer == "user"
        heard = told(model, model.requests[0].agent_name if model.requests[0].agent_name != "ann" else "team-lead")
        assert heard.count("waits for your answer: approve or return it now") == 1
    assert [request.kind for request in asked] == ["review"]


@pytest.mark.slow
async def test_a_task_in_review_is_shown_and_a_person_answers_on_the_review_screen(tmp_path):
    asked = asyncio.Event()
    work = [write("a.txt", "one\n"), complete("1"), "Done."]
    model = waiting_crew(ann=[*work, complete("1"), "Done again."])
    async with a_team(tmp_path, model, on_request=lambda _request: asked.set()) as team:
        await team.spawn("ann", "Take a task.")
        await team.tasks.add("Write a.txt", metadata={"for": ["ann"]}, review="human")
        for number, answer in enumerate((("return", "--text", "Too short."), ("accept",)), 1):
            async with asyncio.timeout(WAIT_S):
                await asked.wait()
            asked.clear()
            [task] = json.loads(await program("status", "crew", "--json", cwd=tmp_path))["tasks"]
            assert {**task["review"], "since": 0} == {"author": "ann", "reviewer": "user", "round": number, "since": 0}
            assert task["review"]["since"] > 0
            shown = await program("status", "crew", cwd=tmp_path)
            assert f"review   #1 of ann reviewed by user, round {number}, asked " in shown
            screen = await program("review", "crew", cwd=tmp_path)
            assert f"#1 Write a.txt: in review, reviewed by user, round {number}: accept or return it" in screen
            [row, *_] = task_rows(team_board(team), 100, 5, lambda _style, text: text)
            assert row.rstrip().endswith("#1 Write a.txt  ann  in review by you")
            said = await program("review", "crew", "--member", "ann", "--do", *answer, cwd=tmp_path)
            assert "#1" in said
        [task] = await finished(team, 1)
        assert task.review_note is not None and (task.review_note.by, task.review_note.returns) == ("user", 1)
        assert told(model, "ann").count("Too short.") == 1
        assert json.loads(await program("requests", "--json", cwd=tmp_path)) == []


def team_board(team: Team) -> TaskBoard:
    """Return the tasks as the terminal knows them from events."""
    board = TaskBoard()
    for _, event in read_recent(team.session.log.path).events:
        board.add_event(event)
    return board
