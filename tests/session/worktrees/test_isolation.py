"""A member or sub-agent with `isolation: worktree` works in its own checkout, on real git."""

import json
import os
import shutil
from pathlib import Path

import pytest

from teamwright import CannotStart, Team, UsageError
from teamwright.storage.paths import find_home
from teamwright.testing import ScriptedModel
from teamwright.worktrees.worktree_record import list_records, record_file
from tests.support.repositories import commit, git, make_repository, write_files
from tests.teams.crew import a_team, told, until

COMMIT = 'pwd && echo x > made.txt && git add made.txt && git commit -q -m "ann: made" && git log --format=%s -1'


@pytest.fixture
def shop(tmp_path, monkeypatch) -> Path:
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "Ann")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "ann@example.org")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    place = make_repository(tmp_path / "shop")
    git(place, "config", "user.name", "Ann")
    git(place, "config", "user.email", "ann@example.org")
    return place


def model(*answers) -> ScriptedModel:
    return ScriptedModel({"lead": ["ok"] * 9, "ann": [*answers, *["Done."] * 5]})


def records():
    return list_records(find_home().worktrees)[0]


async def run_member(shop, scripted, *, keep=True, **options):
    """Run ann until she is idle; return her directory, the messages of her conversation, and her."""
    async with a_team(shop, scripted, keep=keep) as team:
        ann = await team.spawn("ann", "Make it.", **options)
        await until(team, lambda: ann.state == "idle" and team.session.team.is_quiet())
        teammate = team.session.team.members["ann"]
        items = b"\n".join(teammate.agent.conversation.items).decode()
        return teammate.agent.toolbox.workplace.cwd, items, team.session.team.members["ann"]


@pytest.mark.promise("P5")
@pytest.mark.slow
async def test_a_member_commits_in_its_worktree_and_the_checkout_is_unchanged(shop):
    before = (git(shop, "status", "--porcelain"), git(shop, "rev-parse", "HEAD"))
    cwd, items, _ = await run_member(shop, model(("Bash", {"command": COMMIT})), isolation="worktree")
    [record] = records()
    assert cwd == record.tree
    assert record.path in items
    assert git(shop, "log", "--format=%s", "-1", record.branch) == "ann: made"
    assert (git(shop, "status", "--porcelain"), git(shop, "rev-parse", "HEAD")) == before
    assert not (shop / "made.txt").exists()
    assert record.tree.is_dir(), "its commit is in no other branch, so it stays"


async def test_the_session_note_names_directory_branch_and_base_and_not_the_checkout(shop):
    scripted = model("Done.")
    await run_member(shop, scripted, isolation="worktree")
    text = scripted.requests[-1].items[0].decode()
    [record] = records()
    assert "teamwright/crew/ann" in text
    assert git(shop, "rev-parse", "HEAD")[:12] in text
    assert record.path in text
    assert f"Directory: {shop}" not in text


async def test_a_write_outside_the_worktree_is_refused_also_in_bypass(shop):
    calls = [
        ("Write", {"file_path": str(shop / "out.txt"), "content": "x"}),
        ("Bash", {"command": f"echo x > {shop}/out2.txt"}),
        ("Bash", {"command": f"git -C {shop} commit --allow-empty -m x"}),
        ("Write", {"file_path": "in.txt", "content": "x"}),
    ]
    cwd, items, _ = await run_member(shop, model(*calls), isolation="worktree")
    assert sorted(path.name for path in shop.iterdir()) == [".git", ".gitignore", "a.txt"]
    assert git(shop, "rev-list", "--count", "HEAD") == "1"
    assert (cwd / "in.txt").read_text().strip() == "x"
    assert items.count("outside your worktree") >= 3


@pytest.mark.slow
async def test_no_tool_background_job_or_sub_agent_of_a_member_changes_the_checkout(shop):
    write_files(shop, {"n.ipynb": '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'})
    commit(shop, "a notebook")
    before = git(shop, "status", "--porcelain"), git(shop, "for-each-ref"), (shop / ".git/config").read_text()
    notebook = {"notebook_path": str(shop / "n.ipynb"), "new_source": "x", "cell_type": "code", "edit_mode": "insert"}
    job = {"command": f"touch {shop}/job.txt", "run_in_background": True}
    outside = [
        ("Edit", {"file_path": str(shop / "a.txt"), "old_string": "one", "new_string": "two"}),
        ("NotebookEdit", notebook),
        ("Bash", job),
        ("Bash", {"command": "git branch -f main HEAD~1 && git config core.hooksPath x"}),
        ("Bash", {"command": f"git worktree add {shop}/other -b other"}),
        ("Bash", {"command": f"ln {shop}/a.txt hard && echo x > hard"}),
    ]
    agent = ("Agent", {"description": "write", "prompt": "Write.", "subagent_type": "general-purpose"})
    answers = {"lead": ["ok"] * 9, "ann": [*outside, agent, *["Done."] * 5], "*": [*outside, "Tried."]}
    given: dict[str, int] = {}

    def answer(request):
        script = answers.get("lead" if request.agent_name == "team-lead" else request.agent_name, answers["*"])
        at = given[request.agent_name] = given.get(request.agent_name, 0) + 1
        return script[min(at, len(script)) - 1]

    _, items, _ = await run_member(shop, ScriptedModel(answer), isolation="worktree")
    assert (git(shop, "status", "--porcelain"), git(shop, "for-each-ref", "refs/heads/main")) == (
        before[0],
        next(line for line in before[1].splitlines() if line.endswith("refs/heads/main")),
    )
    assert (shop / ".git/config").read_text() == before[2]
    assert not (shop / "job.txt").exists()
    assert not (shop / "other").exists()
    assert len(given.keys() - {"team-lead"}) == 2, "the member and its sub-agent"
    assert items.count("not allowed") >= len(outside)


@pytest.mark.slow
async def test_a_session_in_a_worktree_of_the_person_keeps_that_checkout_unchanged(shop):
    feature = shop.with_name("feature")
    git(shop, "worktree", "add", "-q", "-b", "feature", str(feature))
    calls = [
        ("Write", {"file_path": str(feature / "out.txt"), "content": "x"}),
        ("Bash", {"command": f"echo x > {feature}/a.txt"}),
        ("Write", {"file_path": "in.txt", "content": "x"}),
    ]
    cwd, items, _ = await run_member(feature, model(*calls), isolation="worktree")
    assert git(feature, "status", "--porcelain") == ""
    assert (cwd / "in.txt").exists()
    assert f"out.txt is outside your worktree; your copy of it is {cwd}/out.txt" in items


@pytest.mark.slow
async def test_a_worktree_without_work_is_gone_at_the_end_with_its_branch(shop):
    await run_member(shop, model("Nothing to do."), isolation="worktree", keep=False)
    assert records() == []
    assert git(shop, "branch", "--format=%(refname:short)") == "main"


@pytest.mark.slow
async def test_the_person_is_notified_once_of_uncommitted_files(shop):
    write_files(shop, {"a.txt": "changed\n"})
    async with a_team(shop, ScriptedModel({"lead": ["ok"] * 5, "ann": ["a"] * 5, "bob": ["b"] * 5})) as team:
        for name in ("ann", "bob"):
            await team.spawn(name, "Do it.", isolation="worktree")
        log = team.session.log.path.read_text()
    assert log.count("uncommitted files are not in the worktrees") == 1


async def test_isolation_outside_a_repository_starts_nothing(tmp_path):
    (tmp_path / "plain").mkdir()
    async with a_team(tmp_path / "plain", model()) as team:
        with pytest.raises(CannotStart, match="needs a git repository"):
            await team.spawn("ann", "Do it.", isolation="worktree")
        assert team.members == []
        with pytest.raises(UsageError):
            await team.spawn("ann", "Do it.", isolation="container")


@pytest.mark.slow
async def test_a_sub_agent_with_isolation_reports_its_branch_and_one_without_work_leaves_nothing(shop):
    start = {"description": "make it", "prompt": "Make it.", "subagent_type": "general-purpose"}
    made, looked = ({**start, "prompt": prompt, "isolation": "worktree"} for prompt in ("Make it.", "Look."))
    script = [("Agent", made), ("Bash", {"command": COMMIT}), "Made.", ("Agent", looked), "Looked.", "done"]
    async with a_team(shop, ScriptedModel(script)) as team:
        await team.run("Go.")
        items = b"\n".join(team.session.lead.agent.conversation.items).decode()
    assert "Its work is in the worktree" in items
    [record] = records()
    assert git(shop, "log", "--format=%s", "-1", record.branch) == "ann: made"


@pytest.mark.slow
async def test_a_member_commits_without_a_question_in_a_mode_that_asks_for_git(shop):
    calls = [
        ("Write", {"file_path": "made.txt", "content": "x\n"}),
        ("Bash", {"command": 'git add made.txt && git commit -q -m "ann: made"'}),
    ]
    async with a_team(shop, model(*calls), permission_mode="acceptEdits") as team:
        ann = await team.spawn("ann", "Make it.", isolation="worktree")
        await until(team, lambda: ann.state == "idle" and team.session.team.is_quiet())
        assert team.session.agent_factory.denials == []
    [record] = records()
    assert git(shop, "log", "--format=%s", "-1", record.branch) == "ann: made"


@pytest.mark.finding("T14")
@pytest.mark.slow
async def test_a_resumed_member_works_in_no_directory_that_only_the_roster_names(shop, tmp_path):
    """Another program may write the roster, and put a record beside a directory that it chose."""
    async with a_team(shop, ScriptedModel("ok")) as team:
        await team.spawn("ada", "Wait.", isolation="worktree")
        await until(team, team.session.team.is_quiet)
        await team.session.stop_members("as a kill would", keep=True)
    chosen = tmp_path / "chosen"
    chosen.mkdir()
    config = find_home().config("crew")
    body = json.loads(config.read_bytes())
    [entry] = [one for one in body["members"] if one["name"] == "ada"]
    record = json.loads(record_file(Path(entry["worktreePath"])).read_bytes())
    record_file(chosen).write_text(json.dumps(record | {"path": str(chosen)}))
    entry["worktreePath"] = entry["cwd"] = str(chosen)
    config.write_text(json.dumps(body))
    async with Team.resume("crew", model=ScriptedModel("ok"), cwd=shop) as team:
        assert team.session.team.find("ada") is None
        [said] = team.session.warnings
    assert "worktree that was not made for ada" in said


@pytest.mark.finding("3W12")
async def test_a_worktree_that_is_gone_at_a_resume_is_made_again_and_member_and_lead_are_told(shop):
    async with a_team(shop, ScriptedModel("ok")) as team:
        await team.spawn("ada", "Wait.", isolation="worktree")
        await until(team, team.session.team.is_quiet)
        await team.session.stop_members("as a kill would", keep=True)
    [record] = records()
    shutil.rmtree(record.tree)
    scripted = ScriptedModel({"lead": ["ok"] * 9, "ada": ["Looked."] * 9})
    async with Team.resume("crew", model=scripted, cwd=shop) as team:
        await until(team, team.session.team.is_quiet)
        await team.run("Go on.")
        assert "was gone and was made again from its branch" in told(scripted, "ada")
        lead = scripted.requests[-1].agent_name
        assert "Files of ada that were not committed are lost" in told(scripted, lead)
    assert record.tree.is_dir() or not records()


@pytest.mark.slow_after(1)
@pytest.mark.finding("3W12")
async def test_a_member_is_told_once_that_its_work_is_lost_before_a_task_counts_as_completed(shop):
    async with a_team(shop, ScriptedModel("ok")) as team:
        await team.spawn("ada", "Wait.", isolation="worktree")
        await until(team, team.session.team.is_quiet)
        await team.session.stop_members("as a kill would", keep=True)
    [record] = records()
    shutil.rmtree(record.tree)
    complete = ("TaskUpdate", {"taskId": "1", "status": "completed"})
    scripted = ScriptedModel({"lead": ["ok"] * 9, "ada": ["Looked.", complete, complete, "Done.", *["ok"] * 9]})
    async with Team.resume("crew", model=scripted, cwd=shop) as team:
        await until(team, team.session.team.is_quiet)
        await team.session.team.tasks.create("ours", "", by="team-lead", owner="ada", draft=True)
        await team.send("ada", "Complete it.")
        await until(team, team.session.team.is_quiet)
        assert told(scripted, "ada").count("what you had not committed is lost") == 1
        task = await team.tasks.get("1")
        assert task is not None and task.status == "completed"
