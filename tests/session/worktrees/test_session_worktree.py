"""A whole session works in a worktree: `--worktree`, and `Team(worktree=True)`, on real git."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from teamwright import CannotStart, Team, UsageError
from teamwright.storage.file_lease import Lease
from teamwright.storage.paths import find_home
from teamwright.testing import ScriptedModel
from teamwright.worktrees.worktree_record import list_records
from tests.session.hook_log import HookLog
from tests.session.worktrees.test_isolation import shop  # noqa: F401  # pytest finds the fixture
from tests.session.worktrees.test_worktree_hooks import hooks  # noqa: F401  # pytest finds the fixture
from tests.support.repositories import commit, git, write_files
from tests.support.waits import WAIT_S
from tests.teams.crew import a_team, told, until

pytestmark = pytest.mark.finding("U10")

COMMIT = ("Bash", {"command": 'pwd && git add -A && git commit -q -m "lead: made" && git log --format=%s -1'})


def write(path, content: str = "x\n"):
    return ("Write", {"file_path": str(path), "content": content})


def records():
    return list_records(find_home().worktrees)[0]


def script(*lead, **members) -> ScriptedModel:
    others = {name: [*turns, *["Done."] * 9] for name, turns in members.items()}
    return ScriptedModel({"lead": [*lead, *["ok"] * 20], **others})


async def run_program(*words: str, cwd: Path, code: int = 0) -> tuple[str, str]:
    """Run the program in another process, and return what it printed."""
    argv = (sys.executable, "-m", "teamwright", *words)
    child = await asyncio.create_subprocess_exec(*argv, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    async with asyncio.timeout(WAIT_S):
        out, err = await child.communicate()
    assert child.returncode == code, err.decode()
    return out.decode(), err.decode()


def turns(tmp_path, *commands: str) -> tuple[str, ...]:
    """Return the flags of runs whose lead calls one of these shell commands for each prompt, in this order."""
    lines = ["[script]", 'name = "lead"']
    for command in commands:
        lines += ["[[agent.lead.turn]]", "[[agent.lead.turn.call]]", 'tool = "Bash"']
        lines += [f"input = {{ command = {json.dumps(command)} }}", "[[agent.lead.turn]]", 'say = "Done."']
    lines += ['[[agent."*".otherwise]]', 'say = "Nothing to do."']
    (tmp_path / "lead.toml").write_text("\n".join(lines) + "\n")
    return ("-p", "--model", f"scripted:{tmp_path / 'lead.toml'}", "--permission-mode", "bypassPermissions")


@pytest.mark.promise("P5")
@pytest.mark.slow
async def test_the_lead_commits_in_a_worktree_and_the_checkout_is_unchanged(shop):  # noqa: F811
    write_files(shop, {"a.txt": "changed\n"})
    before = (git(shop, "status", "--porcelain"), git(shop, "rev-parse", "HEAD"), git(shop, "branch", "--show-current"))
    model = script([write("made.txt"), COMMIT])
    async with a_team(shop, model, worktree=True, permission_mode="acceptEdits") as team:
        factory = team.session.agent_factory
        await team.run("Make it.")
        assert team.session.agent_factory.denials == []
        [record] = records()
        assert record.path in told(model, "team-lead") and (record.member, record.team) == ("lead", "crew")
        prompt = model.requests[0].items[0].decode()
        assert record.branch in prompt and f"Directory: {record.path}" in prompt and f"Directory: {shop}" not in prompt
        assert "uncommitted files are not in the worktree of this session: a.txt" in team.session.warnings
    assert git(shop, "log", "--format=%s", "-1", record.branch) == "lead: made"
    assert record.tree.is_dir(), "its commit is in no other branch, so it stays"
    assert any("1 commit not merged" in line for line in factory.kept_worktrees)
    after = (git(shop, "status", "--porcelain"), git(shop, "rev-parse", "HEAD"), git(shop, "branch", "--show-current"))
    assert after == before and not (shop / "made.txt").exists()


async def test_changes_outside_are_refused_in_every_mode_and_in_added_directories_allowed(shop, tmp_path):  # noqa: F811
    extra = tmp_path / "extra"
    extra.mkdir()
    calls = [write(shop / "out.txt"), ("Bash", {"command": f"echo x > {shop}/out.txt; git -C {shop} commit -am x"})]
    model = script([*calls, write(extra / "in.txt"), write("in.txt")])
    async with a_team(shop, model, worktree=True, add_dirs=[extra]) as team:
        await team.run("Go.")
        assert told(model, "team-lead").count("out.txt is outside your worktree; your copy of it is") == 2
        [record] = records()
    assert (record.tree / "in.txt").exists() and (extra / "in.txt").exists()
    assert not (shop / "out.txt").exists() and git(shop, "rev-list", "--count", "HEAD") == "1"


@pytest.mark.slow
async def test_teammates_share_the_worktree_or_begin_at_its_newest_commit(shop):  # noqa: F811
    model = script(
        [write("made.txt"), COMMIT],
        ann=[[("Read", {"file_path": "made.txt"}), write("ann.txt"), write(shop / "no.txt")]],
        bob=[[("Bash", {"command": "cat made.txt; git log --format=%s -1"}), write(shop / "no.txt")]],
    )
    async with a_team(shop, model, worktree=True) as team:
        await team.run("Make it.")
        ann = await team.spawn("ann", "Look.")
        bob = await team.spawn("bob", "Look.", isolation="worktree")
        await until(team, lambda: (ann.state, bob.state) == ("idle", "idle") and team.session.team.is_quiet())
        lead, own = records()
        assert (lead.tree / "ann.txt").exists() and not (shop / "no.txt").exists()
        assert own.member == "bob" and own.base == git(lead.tree, "rev-parse", "HEAD")
        assert "lead: made" in told(model, "bob")
        await write_in_lead_tree(team, lead.tree / "no.txt")
        assert not (lead.tree / "no.txt").exists(), "the member writes only in its own worktree"


async def write_in_lead_tree(team: Team, path: Path) -> None:
    """Let the policy of the member with a worktree judge a write in the lead's one."""
    from teamwright.permissions.verdict import Access, Verdict

    teammate = team.session.team.members["bob"]
    policy = team.session.agent_factory.inheritances["bob"].current_policy()
    assert teammate.agent.toolbox.workplace.cwd != path.parent
    assert policy.decide("Write", Access(writes=(path,))).verdict is Verdict.DENY


async def test_paths_of_roles_and_rules_of_the_checkout_hold_in_the_worktree(shop):  # noqa: F811
    toml = "[team]\nstrict = true\n[roles.docs]\nwrites = ['docs/**']\n[paths]\n"
    write_files(shop, {".teamwright/team.toml": toml.replace("[paths]\n", ""), "docs/a.md": "a\n", "key.txt": "k\n"})
    commit(shop, "team file")
    rules = [f"Edit(/{shop}/key.txt)"]
    role = [[write("docs/b.md"), write("src.txt")]]
    model = script([write("key.txt", "stolen\n")], ann=role, bob=role)
    async with a_team(shop, model, worktree=True, trust=True, disallowed_tools=rules) as team:
        await team.run("Go.")
        ann = await team.spawn("ann", "Write.", agent_type="docs")
        bob = await team.spawn("bob", "Write.", agent_type="docs", isolation="worktree")
        await until(team, lambda: (ann.state, bob.state) == ("idle", "idle") and team.session.team.is_quiet())
        for record in records():
            assert not (record.tree / "src.txt").exists() and (record.tree / "docs/b.md").exists()
            assert (record.tree / "key.txt").read_text() == "k\n"


@pytest.mark.slow
async def test_a_worktree_without_work_is_removed_and_made_again_for_a_resume(shop):  # noqa: F811
    async with a_team(shop, script("Nothing."), worktree=True, keep=True) as team:
        await team.run("Look.")
        [first] = records()
    assert records() == [] and git(shop, "branch", "--format=%(refname:short)") == "main"
    commit(shop, "second", {"b.txt": "b\n"})
    model = script(("Bash", {"command": "pwd; ls"}))
    async with Team.resume("crew", model=model, cwd=shop, permission_mode="bypassPermissions") as team:
        await team.run("Look again.")
        [again] = records()
        assert again.path == first.path and again.base != first.base
        assert "Your worktree was made again" in told(model, "team-lead") and "b.txt" in told(model, "team-lead")


@pytest.mark.slow
async def test_a_resume_continues_in_the_worktree_with_its_work(shop):  # noqa: F811
    async with a_team(shop, script(write("made.txt")), worktree=True, keep=True) as team:
        await team.run("Make it.")
    [record] = records()
    model = script(("Bash", {"command": "pwd; cat made.txt"}))
    async with Team.resume("crew", model=model, cwd=shop, permission_mode="bypassPermissions") as team:
        await team.run("Look.")
        assert f"{record.path}\\nx" in told(model, "team-lead") and "made again" not in told(model, "team-lead")
    with pytest.raises(UsageError, match="a worktree is for a new session"):
        async with Team.resume("crew", model=model, cwd=shop, worktree=True):
            pass


@pytest.mark.slow
async def test_a_member_process_without_isolation_works_in_the_worktree_of_the_session(shop, tmp_path):  # noqa: F811
    script_file = tmp_path / "members.toml"
    script_file.write_text(
        '[script]\nname = "m"\n[[agent.ann.turn]]\n[[agent.ann.turn.call]]\ntool = "Write"\n'
        'input = { file_path = "ann.txt", content = "x" }\n[[agent.ann.turn.call]]\ntool = "Write"\n'
        f'input = {{ file_path = "{shop}/no.txt", content = "x" }}\n[[agent."*".otherwise]]\nsay = "Nothing."\n'
    )
    model, options = f"scripted:{script_file}", {"backend": "detached", "permission_mode": "bypassPermissions"}
    async with Team("crew", model=model, cwd=shop, worktree=True, **options) as team:
        ann = await team.spawn("ann", "Write.")
        [record] = records()
        await until(team, lambda: (record.tree / "ann.txt").exists() and ann.state == "idle")
        assert not (shop / "no.txt").exists()


@pytest.mark.slow
async def test_the_command_line_names_the_worktree_at_start_and_end_and_continues_in_it(shop, tmp_path):  # noqa: F811
    flags = turns(tmp_path, "echo x > made.txt", "cat made.txt > copy.txt")
    _, errors = await run_program(*flags, "-w", "--", "Make it.", cwd=shop)
    [record] = records()
    assert f"the session works in the worktree {record.path} on {record.branch}" in errors
    assert f"the worktree of lead stays: 1 untracked file (made.txt). It is {record.path}" in errors
    listed, _ = await run_program("sessions", "--json", cwd=shop)
    assert [one["id"] for one in json.loads(listed)] == [record.session]
    await run_program(*flags, "-c", "Go on.", cwd=shop)
    assert (record.tree / "copy.txt").exists() and git(shop, "status", "--porcelain") == ""


@pytest.mark.slow
async def test_a_named_worktree_is_used_again_by_one_session_at_a_time(shop, tmp_path):  # noqa: F811
    flags = turns(tmp_path, "echo x >> made.txt")
    for _ in range(2):
        await run_program(*flags, "--worktree", "feature", "Go.", cwd=shop)
    [record] = records()
    assert (record.tree / "made.txt").read_text() == "x\nx\n" and record.branch == "teamwright/feature/lead"
    lease = Lease.take(record.lease, "another session")
    _, errors = await run_program(*flags, "-w", "feature", "Go.", cwd=shop, code=3)
    lease.release()
    assert str(os.getpid()) in errors and records() == [record]


@pytest.mark.slow
async def test_wrong_uses_of_the_flag_start_nothing(shop, tmp_path):  # noqa: F811
    flags = turns(tmp_path, "true")
    await run_program(*flags, "Go.", cwd=shop)
    for words in (("-w", "two words", "Go."), ("-c", "-w", "--", "Go."), ("-w", "a/b", "Go.")):
        _, errors = await run_program(*flags, *words, cwd=shop, code=2)
        assert "worktree" in errors
    plain = tmp_path / "plain"
    plain.mkdir()
    _, errors = await run_program(*flags, "-w", "--", "Go.", cwd=plain, code=3)
    assert "needs a git repository" in errors
    assert records() == [] and len(list((find_home().own / "projects").glob("*/*.jsonl"))) == 1
    with pytest.raises(CannotStart, match="needs a git repository"):
        async with Team("crew", model=script(), cwd=plain, worktree=True):
            pass


@pytest.mark.slow
async def test_a_fork_of_the_session_gets_another_worktree_at_the_same_commit(shop, tmp_path):  # noqa: F811
    flags = turns(tmp_path, "echo x > made.txt; git add made.txt; git commit -qm made", "cat made.txt > copy.txt")
    await run_program(*flags, "-w", "--", "Make it.", cwd=shop)
    [first] = records()
    await run_program(*flags, "-c", "--fork-session", "Go on.", cwd=shop)
    [second] = [one for one in records() if one != first]
    assert (second.tree / "copy.txt").exists() and not (first.tree / "copy.txt").exists()
    assert second.base == git(first.tree, "rev-parse", "HEAD")


@pytest.mark.slow
async def test_the_work_of_the_lead_is_integrated_with_that_of_its_members(shop, tmp_path):  # noqa: F811
    done = ("TaskUpdate", {"taskId": "1", "status": "completed"})
    model = script([write("made.txt"), COMMIT], ann=[write("ann.txt"), done])
    async with a_team(shop, model, worktree=True, keep=True) as team:
        await team.run("Make it.")
        await team.spawn("ann", "Take a task.", isolation="worktree")
        await team.tasks.add("Write ann.txt", metadata={"for": ["ann"]})

        async def merged() -> bool:
            return [entry.state for entry in await team.integration.entries()] == ["merged"]

        while not await merged():
            team.session.team.changed.clear()
            await until(team, team.session.team.changed.is_set)
    await run_program("integrate", "crew", "--into", "main", cwd=shop)
    assert (shop / "made.txt").exists() and (shop / "ann.txt").exists()


@pytest.mark.promise("G7")
async def test_a_hook_makes_the_worktree_of_a_named_session(shop, hooks: HookLog, tmp_path):  # noqa: F811
    model = script(("Bash", {"command": "pwd; git branch --show-current"}))
    async with a_team(shop, model, worktree="feature", settings_file=hooks.settings) as team:
        await team.run("Look.")
        assert f"{tmp_path}/trees/feature\\nmine-feature" in told(model, "team-lead")
    assert hooks.of("WorktreeRemove") and not (tmp_path / "trees" / "feature").exists()
