"""The integration queue of a running team: finished work of members in worktrees, on real git."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from teamwright import Team
from teamwright.protocol.errors import TaskRefused
from teamwright.protocol.events import IntegrationChanged, Notice, TaskChanged, TeamEvent
from teamwright.sandbox.sandbox import find_implementation
from teamwright.session.wiring import worktree_use
from teamwright.session.wiring.worktree_use import TeamWorktrees
from teamwright.storage.file_lease import Lease
from teamwright.storage.paths import find_home
from teamwright.tasks import draft_tasks
from teamwright.teams import integration_worker
from teamwright.teams.shutdown import delete_team
from teamwright.teams.team_creation import create_team
from teamwright.views.status import status_views
from teamwright.worktrees.worktree_record import list_records
from tests.support.outside import writable_outside
from tests.support.repositories import git, make_repository, write_files
from tests.support.waiting_crew import bash, complete, finished, waiting_crew, write
from tests.support.waits import WAIT_S
from tests.teams.crew import a_team, told, until

ROOT = Path(__file__).parents[3]
BRANCH = "teamwright/crew/integration"


@pytest.fixture
def shop(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    return make_repository(tmp_path / "shop", {"a.txt": "one\n", "b.txt": "one\n"})


def edit(path: str, content: str):
    """Change a file that is there: it is read first."""
    return [("Read", {"file_path": path}), write(path, content)]


def collect(team) -> list[IntegrationChanged]:
    """Collect the states of entries. Each wakes `until`."""
    found: list[IntegrationChanged] = []

    def note(_number: int, event: TeamEvent) -> None:
        if isinstance(event, IntegrationChanged):
            found.append(event)
            team.session.team.changed.set()

    team.session.log.subscribe(note, live=False)
    return found


def settings(shop: Path, **values: object) -> Path:
    """Write a settings file beside the checkout."""
    path = shop.with_name("settings.json")
    path.write_text(json.dumps(values))
    return path


async def claim(team, name: str) -> None:
    """Add a task for a member, and wait until it was claimed."""
    claimed: list[str] = []

    def note(_number: int, event: TeamEvent) -> None:
        if isinstance(event, TaskChanged) and event.change == "claimed" and event.member == name:
            claimed.append(event.task.id)
            team.session.team.changed.set()

    unsubscribe = team.session.log.subscribe(note, live=False)
    await team.tasks.add(f"Change a.txt as {name}", metadata={"for": [name]})
    await until(team, lambda: claimed)
    unsubscribe()


async def test_the_command_for_finished_work_names_the_home_that_the_program_named(shop, tmp_path):
    home = tmp_path / "own"
    model = waiting_crew(ann=[write("ann.txt", "x\n"), complete("1"), "Done."])
    async with a_team(shop, model, home=home) as team:
        await team.tasks.add("Write ann.txt", metadata={"for": ["ann"]})
        await team.spawn("ann", "Take a task.", isolation="worktree")
        await finished(team, 1)
        await team.integration.wait()
    notices = [event.text for _, event in Team.read_events("crew", home) if isinstance(event, Notice)]
    assert f"finished work is on the branch {BRANCH}: teamwright --home {home} integrate crew --into main" in notices


@pytest.mark.finding("I4")
async def test_finished_work_is_integrated_and_a_dependent_begins_with_the_commits_of_its_blocker(shop):
    git(shop, "branch", "release")
    before = git(shop, "status", "--porcelain"), git(shop, "rev-parse", "HEAD")
    model = waiting_crew(
        ann=[write("ann.txt", "x\n"), complete("1"), "Done."],
        bob=[bash("git log --format=%s"), complete("2"), "Done."],
    )
    async with a_team(shop, model) as team:
        events = collect(team)
        first = await team.tasks.add("Write ann.txt", metadata={"for": ["ann"]})
        await team.tasks.add("Read the log", after=first, metadata={"for": ["bob"]})
        await team.spawn("bob", "Wait for a task.", isolation="worktree")
        await team.spawn("ann", "Take a task.", isolation="worktree")
        await finished(team, 2)
        assert "#1 Write ann.txt (ann)" in told(model, "bob")
        assert [(entry.task, entry.state) for entry in await team.integration.wait()] == [("1", "merged")]
        assert team.integration.branch == BRANCH
        await team.integration.fast_forward("release")
        [view] = [one for one in status_views(find_home(), shop) if one.name == "crew"]
        assert view.commits == {"merged": 1}
        await team.run("Summarize.")
        assert "Integrated into teamwright/crew/integration: #1 (ann)." in told(model, model.requests[-1].agent_name)
    assert (shop / "ann.txt").exists() is False
    assert git(shop, "show", "release:ann.txt") == "x"
    assert [(event.task, str(event.state)) for event in events] == [
        ("1", "queued"),
        ("1", "checking"),
        ("1", "merged"),
    ]
    assert git(shop, "show", f"{BRANCH}:ann.txt") == "x"
    assert git(shop, "log", "--format=%s", "--topo-order", BRANCH).splitlines() == [
        "Merge task 1 of ann",
        "#1 Write ann.txt (ann)",
        "first",
    ]
    after = git(shop, "status", "--porcelain"), git(shop, "rev-parse", "HEAD")
    assert after == before


@pytest.mark.slow
async def test_a_conflict_returns_to_its_member_which_resolves_it(shop):
    model = waiting_crew(
        ann=[*edit("a.txt", "ann\n"), complete("2"), "Done."],
        bob=[
            *edit("a.txt", "bob\n"),
            complete("1"),
            "Done.",
            complete("1"),
            *edit("a.txt", "ann and bob\n"),
            complete("1"),
            "Resolved.",
        ],
    )
    async with a_team(shop, model) as team:
        events = collect(team)
        for name in ("ann", "bob"):
            await team.spawn(name, "Take a task.", isolation="worktree")
        await until(team, team.session.team.is_quiet)
        model.held.add("bob")
        await claim(team, "bob")
        await claim(team, "ann")
        await until(team, lambda: [event.state for event in events][-1:] == ["merged"])
        model.go.set()
        await finished(team, 2)
        text = told(model, "bob")
    assert "conflicts in a.txt" in text
    assert "#2 Change a.txt as ann (ann)" in text, "the message names the commits of the other side"
    assert "conflict markers: a.txt" in text
    assert git(shop, "show", f"{BRANCH}:a.txt") == "ann and bob"
    states = [str(event.state) for event in events if event.member == "bob"]
    assert states.count("conflict") == 1
    assert states[-1] == "merged"
    assert git(shop, "fsck", "--no-progress", "--no-dangling") == ""


@pytest.mark.parametrize("source", ["settings", "team file"])
@pytest.mark.slow_after(1)
async def test_a_failing_check_returns_the_commit_with_the_output_and_the_fix_is_merged(shop, source):
    check = "if grep -q bad a.txt; then echo $((40+2)) faults; exit 3; fi"
    options: dict[str, object] = {"settings_file": settings(shop, **{"checks.integration": check})}
    if source == "team file":
        write_files(shop, {".teamwright/team.toml": f"[checks]\nintegration = '{check}'\n"})
        options = {"trust": True}
    model = waiting_crew(
        ann=[*edit("a.txt", "bad\n"), complete("1"), "Done.", *edit("a.txt", "good\n"), complete("1"), "Fixed."]
    )
    async with a_team(shop, model, **options) as team:
        await team.spawn("ann", "Take a task.", isolation="worktree")
        await until(team, team.session.team.is_quiet)
        await team.tasks.add("Change a.txt", metadata={"for": ["ann"]})
        await finished(team, 1)
        assert "42 faults" in told(model, "ann")
    assert git(shop, "show", f"{BRANCH}:a.txt") == "good"
    assert ".integration" not in git(shop, "worktree", "list")


@pytest.mark.slow
async def test_setup_check_and_commit_hooks_are_confined_and_use_the_git_directory(shop):
    if find_implementation().name == "none":
        pytest.skip("no sandbox works here")
    outside = writable_outside()

    def escape(what: str) -> str:
        return f"echo x > {outside}-{what} || true"

    hook = shop / ".git/hooks/pre-commit"
    hook.write_text(f"#!/bin/sh\n{escape('hook')}\necho ran > hook.txt\ngit add hook.txt\n")
    hook.chmod(0o755)
    for key, value in (("user.name", "Ann"), ("user.email", "ann@example.org")):
        git(shop, "config", key, value)
    values = {
        "worktrees.setup": f"{escape('setup')}; echo ran > .git-setup",
        "checks.integration": f"{escape('check')}; test -e .git-setup && test -e hook.txt",
        "worktrees.commit_hooks": True,
    }
    model = waiting_crew(ann=[write("ann.txt", "x\n"), complete("1"), "Done."])
    try:
        async with a_team(shop, model, settings_file=settings(shop, **values), sandbox="auto") as team:
            await team.spawn("ann", "Take a task.", isolation="worktree")
            await until(team, team.session.team.is_quiet)
            await team.tasks.add("Write ann.txt", metadata={"for": ["ann"]})
            await finished(team, 1)
            assert [entry.state for entry in await team.integration.wait()] == ["merged"]
        assert git(shop, "show", f"{BRANCH}:hook.txt") == "ran"
        assert [path.name for path in outside.parent.glob(f"{outside.name}-*")] == []
    finally:
        for path in outside.parent.glob(f"{outside.name}-*"):
            path.unlink()


@pytest.mark.slow
async def test_a_fault_outside_the_commits_is_reported_once_and_the_queue_is_worked_again(shop, monkeypatch):
    monkeypatch.setattr(integration_worker, "RETRY_PAUSE_S", 0.01)
    git(shop, "branch", f"{BRANCH}/taken")  # git cannot create the integration branch beside it
    warnings: list[str] = []
    model = waiting_crew(ann=[write("ann.txt", "x\n"), complete("1"), "Done."])
    async with a_team(shop, model) as team:
        events = collect(team)
        team.session.log.subscribe(
            lambda _number, event: warnings.append(event.text) if isinstance(event, Notice) else None, live=False
        )
        await team.spawn("ann", "Take a task.", isolation="worktree")
        await team.tasks.add("Write ann.txt", metadata={"for": ["ann"]})
        await until(team, lambda: [event.state for event in events].count("queued") >= 4)
        git(shop, "branch", "-D", f"{BRANCH}/taken")
        await finished(team, 1)
    assert git(shop, "show", f"{BRANCH}:ann.txt") == "x"
    assert len([text for text in warnings if "finished work waits" in text]) == 1


@pytest.mark.slow
async def test_the_work_of_a_second_team_of_a_session_is_integrated_on_its_own_branch(shop):
    model = waiting_crew(
        ann=[write("ann.txt", "x\n"), complete("1"), "Done."], bob=[write("bob.txt", "x\n"), complete("1"), "Done."]
    )
    async with a_team(shop, model) as team:
        for name in ("ann", "bob"):
            member = await team.spawn(name, "Take a task.", isolation="worktree")
            await team.tasks.add(f"Write {name}.txt", metadata={"for": [name]})
            await finished(team, 1)
            if name == "ann":
                await member.stop()
                await delete_team(team.session.team)
                await create_team(team.session.team, "second", None, None)
    assert "bob.txt" not in git(shop, "ls-tree", "--name-only", BRANCH)
    assert git(shop, "show", "teamwright/second/integration:bob.txt") == "x"


@pytest.mark.slow
async def test_a_team_with_the_name_of_an_ended_team_has_a_queue_and_a_branch_for_itself(shop):
    for name in ("ann", "bob"):
        model = waiting_crew(**{name: [write(f"{name}.txt", "x\n"), complete("1"), "Done."]})
        async with a_team(shop, model, replace=True) as team:
            member = await team.spawn(name, "Take a task.", isolation="worktree")
            await team.tasks.add(f"Write {name}.txt", metadata={"for": [name]})
            await finished(team, 1)
            assert [(entry.member, entry.state) for entry in await team.integration.wait()] == [(name, "merged")]
            await member.stop()
    assert git(shop, "show", f"{BRANCH}-2:ann.txt") == "x"
    assert git(shop, "ls-tree", "--name-only", BRANCH).split() == ["a.txt", "b.txt", "bob.txt"]
    assert len(list(find_home().archive.glob("crew-*/integration/*.json"))) == 1


@pytest.mark.slow
async def test_a_resume_moves_the_worktree_of_a_task_that_was_claimed_before_a_kill(shop, monkeypatch):
    model = waiting_crew(ann=[write("ann.txt", "x\n"), complete("1"), "Done."], bob=["I begin."])
    async with a_team(shop, model) as team:
        for name in ("ann", "bob"):
            await team.spawn(name, "Take a task.", isolation="worktree")
        await team.tasks.add("Write ann.txt", metadata={"for": ["ann"]})
        await finished(team, 1)
        with monkeypatch.context() as patch:
            patch.setattr(TeamWorktrees, "move", do_not_move)  # as if the kill came after the claim
            await claim(team, "bob")
            await until(team, team.session.team.is_quiet)
        await team.session.stop_members("as a kill would", keep=True)
    assert git(shop, "rev-parse", "teamwright/crew/bob") == git(shop, "rev-parse", "main")
    async with Team.resume("crew", model=waiting_crew(ann=[], bob=[]), cwd=shop, permission_mode="bypassPermissions"):
        assert git(shop, "rev-parse", "teamwright/crew/bob") == git(shop, "rev-parse", BRANCH)


async def do_not_move(*_args) -> None:
    pass


async def test_two_completions_at_once_by_one_member_are_both_accepted(shop):
    async with a_team(shop, waiting_crew(ann=[])) as team:
        ann = await team.spawn("ann", "Wait.", isolation="worktree")
        await until(team, team.session.team.is_quiet)
        tasks = team.session.team.tasks
        for name in ("parse", "print"):
            await tasks.create(name, "", by="team-lead", draft=True)
        record = team.session.agent_factory.inheritances[ann.name].place.record
        (record.tree / "ann.txt").write_text("x\n")
        done = await asyncio.gather(*(tasks.update(id, by="ann", owner="ann", status="completed") for id in "12"))
        assert [one.task.status for one in done] == ["completed", "completed"]
    assert git(shop, "show", "teamwright/crew/ann:ann.txt") == "x"


@pytest.mark.slow
async def test_a_completion_waits_a_bounded_time_for_another_call_in_the_worktree_and_loses_nothing(shop, monkeypatch):
    monkeypatch.setattr(worktree_use, "LEASE_WAIT_S", 0.0)
    quick = settings(shop, **{"checks.integration_timeout_s": 0.2})
    async with a_team(shop, waiting_crew(ann=[]), settings_file=quick) as team:
        ann = await team.spawn("ann", "Wait.", isolation="worktree")
        await until(team, team.session.team.is_quiet)
        tasks = team.session.team.tasks
        await tasks.create("parse", "", by="team-lead", draft=True)
        record = team.session.agent_factory.inheritances[ann.name].place.record
        (record.tree / "ann.txt").write_text("x\n")
        held = Lease.take(record.work_lease, "another call")
        async with asyncio.timeout(WAIT_S):
            with pytest.raises(TaskRefused, match="another call has used the worktree of ann"):
                await tasks.update("1", by="ann", owner="ann", status="completed")
        held.release()
        done = await tasks.update("1", by="ann", owner="ann", status="completed")
        assert done.task.status == "completed"
    assert git(shop, "show", "teamwright/crew/ann:ann.txt") == "x"


async def test_a_member_is_not_told_of_the_failed_check_of_a_deleted_task(shop, tmp_path):
    go = tmp_path / "go"
    os.mkfifo(go)
    model = waiting_crew(ann=[write("ann.txt", "x\n"), complete("1"), "Done."])
    file = settings(
        shop, **{"checks.integration": f"test -e ann.txt || exit 0; cat {go}; exit 3", "sandbox.read": [str(go)]}
    )
    async with a_team(shop, model, settings_file=file) as team:
        events = collect(team)
        await team.spawn("ann", "Take a task.", isolation="worktree")
        await team.tasks.add("Write ann.txt", metadata={"for": ["ann"]})
        await until(team, lambda: [event.state for event in events][-1:] == ["checking"])
        await team.session.team.tasks.update("1", by="team-lead", lead=True, status="deleted")
        await asyncio.wait_for(asyncio.to_thread(go.write_text, ""), WAIT_S)
        await until(team, lambda: [event.state for event in events][-1:] == ["failed"])
        await until(team, lambda: team.session.team.is_quiet() and not team.session.integration.is_working)
        assert "does not pass" not in told(model, "ann")


@pytest.mark.slow
def test_the_demo_of_the_integration_ends_well():
    command = [sys.executable, "-m", "tests.session.worktrees.demo"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-3_000:]
    assert "3 of 3 worktrees are removed" in done.stdout


PROCESS_SCRIPT = """
[script]
name = "crew"

[[agent.ann.turn]]
when.task = "Write ann.txt"
[[agent.ann.turn.call]]
tool = "Write"
input = { file_path = "ann.txt", content = "x" }
[[agent.ann.turn.call]]
tool = "TaskUpdate"
input = { taskId = "1", status = "completed" }

[[agent.bob.turn]]
when.task = "Read ann.txt"
[[agent.bob.turn.call]]
tool = "Read"
input = { file_path = "ann.txt" }
[[agent.bob.turn.call]]
tool = "TaskUpdate"
input = { taskId = "2", status = "completed" }

[[agent."*".otherwise]]
say = "Nothing."
"""


@pytest.mark.slow
async def test_the_work_of_members_in_processes_is_integrated_and_a_dependent_begins_with_it(shop, tmp_path):
    (tmp_path / "script.toml").write_text(PROCESS_SCRIPT)
    async with a_team(shop, f"scripted:{tmp_path / 'script.toml'}", backend="detached") as team:
        first = await team.tasks.add("Write ann.txt", metadata={"for": ["ann"]})
        await team.tasks.add("Read ann.txt", after=first, metadata={"for": ["bob"]})
        for name in ("bob", "ann"):
            await team.spawn(name, "Wait for a task.", isolation="worktree")
        await finished(team, 2)
    assert git(shop, "rev-parse", "teamwright/crew/bob") == git(shop, "rev-parse", BRANCH)
    assert git(shop, "show", "teamwright/crew/bob:ann.txt") == "x"


@pytest.mark.slow
async def test_the_lead_starts_and_completes_a_task_of_a_member_process_in_its_worktree(shop, tmp_path):
    (tmp_path / "script.toml").write_text(PROCESS_SCRIPT)
    model = f"scripted:{tmp_path / 'script.toml'}"
    async with a_team(shop, model, backend="detached") as team:
        tasks = team.session.team.tasks
        await team.spawn("ann", "Wait for a task.", isolation="worktree")
        bob = await team.spawn("bob", "Wait for a task.", isolation="worktree")
        await team.tasks.add("Write ann.txt", metadata={"for": ["ann"]})
        await finished(team, 1)
        await tasks.create("Change b.txt", "", by="team-lead", draft=True)
        await tasks.update("2", by="team-lead", lead=True, owner=bob.name, status="in_progress")
        assert git(shop, "rev-parse", "teamwright/crew/bob") == git(shop, "rev-parse", BRANCH)
        [record] = [one for one in list_records(find_home().worktrees)[0] if one.member == "bob"]
        (record.tree / "b.txt").write_text("bob\n")
        await tasks.update("2", by="team-lead", lead=True, status="completed")
        assert [entry.state for entry in await team.integration.wait()] == ["merged", "merged"]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(TeamWorktrees, "move", do_not_move)  # as if a kill came after the change of the task
            git(shop, "update-ref", "refs/heads/teamwright/crew/bob", record.base)
            git(record.tree, "reset", "--hard", "-q", record.base)
            await tasks.create("Change b.txt again", "", by="team-lead", draft=True)
            await tasks.update("3", by="team-lead", lead=True, owner=bob.name, status="in_progress")
        await team.session.stop_members("as a kill would", keep=True)
    assert git(shop, "rev-parse", "teamwright/crew/bob") == record.base
    async with Team.resume("crew", model=model, cwd=shop, permission_mode="bypassPermissions"):
        assert git(shop, "show", "teamwright/crew/bob:b.txt") == "bob"


async def test_a_roster_gives_no_worktree_that_is_not_of_that_member_in_this_state(shop, tmp_path):
    async with a_team(shop, waiting_crew(ann=[])) as team:
        await team.spawn("ann", "Wait.", isolation="worktree")
        [record] = list_records(find_home().worktrees)[0]
        other = make_repository(tmp_path / "other", {"a.txt": "one\n"})
        git(other, "switch", "--quiet", "--create", record.branch)
        moved = replace(
            record, path=str(other), repository=str(other), member="eve", base=git(other, "rev-parse", "HEAD")
        )
        moved.save()
        tasks, roster = team.session.team.tasks, team.session.team.roster
        [ann] = [one for one in (await roster.read()).teammates if one.name == "ann"]
        for id, name, tree in (("1", "eve", other), ("2", "fay", record.tree)):
            (tree / "a.txt").write_text("changed\n")
            await roster.add(replace(ann, name=name, agent_id=f"{name}@crew", worktree_path=str(tree)))
            await tasks.create("Change a.txt", "", by="team-lead", draft=True)
            await tasks.update(id, by="team-lead", lead=True, owner=name, status="completed")
            await roster.remove(name)
            assert git(tree, "status", "--porcelain") == " M a.txt", "nothing was committed there"


async def test_a_team_rests_as_soon_as_its_last_draft_is_completed(shop, monkeypatch):
    monkeypatch.setattr(draft_tasks, "DRAFT_MS", 3_600_000)
    async with a_team(shop, waiting_crew(ann=[])) as team:
        await team.spawn("ann", "Wait.")
        tasks = team.session.team.tasks
        for id in "12":
            await tasks.create("Parse", "", by="team-lead", draft=True)
            await tasks.update(id, by="ann", owner="ann", status="completed")
        await tasks.create("Print", "", by="team-lead", draft=True)
        await until(team, lambda: not team.session.team.is_quiet())  # the member waits for the draft
        await tasks.update("3", by="ann", owner="ann", status="completed")
        await asyncio.wait_for(team.wait_idle(), WAIT_S)


@pytest.mark.finding("3W1")
async def test_a_lost_worktree_leaves_the_task_open_and_member_lead_and_person_are_told(shop):
    def lose() -> None:
        [record] = list_records(find_home().worktrees)[0]
        shutil.rmtree(record.tree)

    model = waiting_crew(ann=[write("ann.txt", "x\n"), complete("1"), "Done."])
    before = git(shop, "for-each-ref"), git(shop, "status", "--porcelain")
    async with a_team(shop, model) as team:
        notices: list[Notice] = []

        def note(_number: int, event: TeamEvent) -> None:
            if isinstance(event, Notice):
                notices.append(event)
            if isinstance(event, TaskChanged) and event.change == "claimed":
                lose()

        team.session.log.subscribe(note, live=False)
        await team.spawn("ann", "Take a task.", isolation="worktree")
        await until(team, team.session.team.is_quiet)
        before = git(shop, "for-each-ref"), git(shop, "status", "--porcelain")
        await team.tasks.add("Write ann.txt", metadata={"for": ["ann"]})
        await until(team, lambda: any("is not the one that was made" in one.text for one in notices))
        await until(team, team.session.team.is_quiet)
        [task] = await team.tasks.all()
        assert task.status == "in_progress"
        assert "is not the one that was made: " in told(model, "ann")
        await team.run("Go on.")
        assert "is not the one that was made: " in told(model, model.requests[-1].agent_name)
        assert (git(shop, "for-each-ref"), git(shop, "status", "--porcelain")) == before


@pytest.mark.finding("3W6")
async def test_finished_work_waits_while_a_person_has_the_integration_branch_and_goes_on_when_it_is_free(shop):
    model = waiting_crew(ann=[write("ann.txt", "x\n"), complete("1"), "Done."])
    async with a_team(shop, model) as team:
        warnings: list[str] = []

        def note(_number: int, event: TeamEvent) -> None:
            if isinstance(event, Notice):
                warnings.append(event.text)
                team.session.team.changed.set()

        team.session.log.subscribe(note, live=False)
        await team.spawn("ann", "Take a task.", isolation="worktree")
        await until(team, team.session.team.is_quiet)
        git(shop, "switch", "-q", "-c", BRANCH)
        await team.tasks.add("Write ann.txt", metadata={"for": ["ann"]})
        await until(team, lambda: any("is checked out in" in text for text in warnings))
        assert git(shop, "status", "--porcelain") == ""
        assert git(shop, "log", "--format=%s") == "first"
        git(shop, "switch", "-q", "main")
        await finished(team, 1)
    assert git(shop, "show", f"{BRANCH}:ann.txt") == "x"
    assert sum("is checked out in" in text for text in warnings) == 1
