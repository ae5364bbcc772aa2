"""`teamwright permissions check`: verdict, what said so, its parts and its chain, without a model and a session."""

import asyncio
import json
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from teamwright.protocol.members import RosterMember
from teamwright.protocol.task import Task, TaskStatus
from teamwright.team_records.file_stores import FileStores
from teamwright.team_records.roster import Roster, RosterFile
from teamwright.team_records.snapshots import resolve_home
from teamwright.team_records.team_catalogue import NewTeam, Teams
from teamwright.team_records.team_state import LeadLease
from teamwright.ui.cli.main import main
from teamwright.worktrees.repository_git import RepositoryGit
from teamwright.worktrees.worktree_creation import Owner, create_worktree
from tests.support.repositories import make_repository

SESSION = "7f3a0000-0000-4000-8000-000000000002"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (project / "src" / "x.py").write_text("x\n")
    monkeypatch.chdir(project)
    return project


def settings(**permissions) -> Path:
    home = resolve_home(None)
    home.prepare()
    home.settings.write_text(json.dumps({"permissions": permissions}))
    return home.settings


def check(capsys: pytest.CaptureFixture[str], *args: str) -> dict:
    assert main(["permissions", "check", *args, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def team(project: Path, **modes: str) -> None:
    """A team on disk with members in these modes; an empty one has none of its own."""

    async def make() -> None:
        home = resolve_home(None)
        home.prepare()
        new = NewTeam("leak hunt", LeadLease(SESSION, 1, "/nowhere/lease"), str(project), "m", 1)
        roster = Roster(RosterFile(home, (await Teams(home).create(new)).directory))
        for name, mode in modes.items():
            member = RosterMember(
                f"{name}@leak hunt", name, cwd=str(project), backend_type="in-process", mode=mode or None
            )
            await roster.join(member)

    asyncio.run(make())


@pytest.mark.promise("G1", "G2")
def test_the_verdict_comes_with_the_rule_and_its_file_and_what_always_would_keep(project, capsys):
    where = settings(allow=["Bash(npm test:*)"], deny=["Bash(git push:*)"])
    found = check(capsys, "Bash(npm test)")
    assert (found["verdict"], found["rule"]) == ("allow", f"Bash(npm test:*) [{where}]")
    found = check(capsys, "Bash(cd src && git push origin main)")
    assert (found["verdict"], found["rule"]) == ("deny", f"Bash(git push:*) [{where}]")
    assert [(part["what"], part["verdict"]) for part in found["parts"]] == [
        ("cd src", "allow"),
        ("git push origin main", "deny"),
    ]
    found = check(capsys, "Edit(src/x.py)")
    assert (found["verdict"], found["always"], found["mode"]) == ("ask", "Edit(src/**)", "default")
    assert found["suggestions"] == [{"type": "setMode", "mode": "acceptEdits", "destination": "session"}]
    assert check(capsys, "Edit(src/x.py)", "--mode", "acceptEdits")["verdict"] == "allow"


@pytest.mark.promise("G2")
@pytest.mark.parametrize(
    ("call", "verdict"),
    [
        ("Read(//etc/passwd)", "ask"),
        ("Read(/etc/passwd)", "ask"),
        ("Read(src/x.py)", "allow"),
        ("Grep", "allow"),
        ("WebFetch(https://example.org/x)", "ask"),
        ("mcp__x__y", "ask"),
        ("python__count", "ask"),
        ("Agent(Explore)", "allow"),
        ("Task", "allow"),
        ("SendMessage", "allow"),
        ("Bash(cat <<EOF\n`ls`\nEOF)", "ask"),
    ],
)
def test_every_kind_of_call_has_a_verdict(project, capsys, call, verdict):
    assert check(capsys, call)["verdict"] == verdict


BAD = [
    *("", " ", "Bash", "Bash()", "Bash( )", "Read", "Reed(x)", "(x)", "Bash(ls"),
    *("WebFetch(example.org)", "Foo(bar)", "Bash(a\0b)"),
]


@pytest.mark.promise("G2", "P7")
@pytest.mark.parametrize("call", BAD)
def test_what_is_no_call_is_refused_with_an_example(project, capsys, call):
    assert main(["permissions", "check", call]) == 2
    said = capsys.readouterr().err
    assert "is not a call" in said
    assert "[usage]  nothing was run" in said


@pytest.mark.promise("G1", "P7")
def test_unknown_modes_members_and_teams_are_refused(project, capsys):
    team(project, tess="")
    for args in (
        ("--mode", "planning"),
        ("--mode", "bubble"),
        ("--member", "nobody"),
        ("--member", "tess@other"),
        ("--member", "../x"),
        ("--member", "tess", "--mode", "plan"),
    ):
        assert main(["permissions", "check", "TaskList", *args]) == 2, args
        capsys.readouterr()
    assert main(["permissions", "checks"]) == 2


@pytest.mark.promise("G3", "F45", "F46")
def test_a_member_is_judged_with_everybody_above_it(project, capsys):
    settings(defaultMode="acceptEdits", deny=["WebFetch"])
    team(project, tess="", theo="bypassPermissions", plan="plan")
    edit, push = "Edit(src/x.py)", "Bash(git push)"
    assert check(capsys, edit, "--member", "tess")["verdict"] == "allow"
    found = check(capsys, push, "--member", "theo@leak hunt")
    assert (found["verdict"], found["mode"], found["who"]) == ("ask", "bypassPermissions", "theo")
    assert [(link["what"], link["mode"], link["verdict"]) for link in found["chain"]] == [
        ("theo", "bypassPermissions", "ask"),
        ("lead", "acceptEdits", "ask"),
    ]
    assert check(capsys, edit, "--member", "plan")["rule"] == "mode plan"
    assert check(capsys, "WebFetch(https://example.org)", "--member", "theo")["verdict"] == "deny"
    assert check(capsys, edit, "--member", "lead@leak hunt")["who"] == "lead"


@pytest.mark.finding("L7")
def test_a_member_is_judged_by_the_paths_of_its_tasks_in_progress_and_in_its_worktree(tmp_path, monkeypatch, capsys):
    shop = make_repository(tmp_path / "shop", {"src/x.py": "x\n", "docs/a.md": "a\n"})
    monkeypatch.chdir(shop)
    settings(defaultMode="bypassPermissions")
    team(shop, tess="", theo="")
    home = resolve_home(None)
    tasks = FileStores(home).tasks("leak-hunt")

    def make_task(about: dict, id: str) -> Task:
        return Task(id, "Write", "", **about)

    async def make_tasks() -> None:
        for status, paths in (("in_progress", ["src/**"]), ("pending", ["docs/**"])):
            about = {"status": TaskStatus(status), "owner": "tess", "metadata": {"writes": paths}}
            await tasks.create(partial(make_task, about))

    asyncio.run(make_tasks())
    assert check(capsys, "Edit(src/x.py)", "--member", "@tess")["verdict"] == "allow"
    found = check(capsys, "Edit(docs/a.md)", "--member", "tess")
    assert (found["verdict"], found["rule"]) == ("ask", "writes of task #1 [the task list]")
    assert check(capsys, "Edit(docs/a.md)", "--member", "theo")["verdict"] == "allow"
    record = create_worktree(RepositoryGit.open(shop), home.worktrees, Owner("leak hunt", "tess", SESSION)).record

    async def enter() -> None:
        roster = Roster(RosterFile(home, "leak-hunt"))
        tess = await roster.find("tess")
        await roster.remove("tess")
        await roster.join(replace(tess, worktree_path=record.path, cwd=record.path))

    asyncio.run(enter())
    found = check(capsys, "Edit(src/x.py)", "--member", "tess")
    assert (found["verdict"], found["cwd"]) == ("allow", record.path)
    assert check(capsys, "Edit(docs/a.md)", "--member", "tess")["rule"] == "writes of task #1 [the task list]"
    assert check(capsys, f"Edit({shop}/src/x.py)", "--member", "tess")["rule"] == "worktree"


@pytest.mark.promise("F45", "G6")
def test_a_lead_that_only_coordinates_holds_nobody_up(project, capsys):
    settings(defaultMode="delegate")
    team(project, tess="")
    assert check(capsys, "Read(src/x.py)")["rule"] == "mode delegate"
    assert check(capsys, "Read(src/x.py)", "--mode", "delegate")["verdict"] == "deny"
    assert check(capsys, "TaskCreate")["verdict"] == "allow"
    found = check(capsys, "Read(src/x.py)", "--member", "tess")
    assert [link["verdict"] for link in found["chain"]] == ["allow", "allow"]


@pytest.mark.promise("G2")
def test_people_read_the_same_in_lines_that_no_call_can_bend(project, capsys):
    assert main(["permissions", "check", "Bash(echo \x1b[2J; git push)"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("ASK  Bash(echo ")
    assert "\x1b" not in said
    assert "git push" in said
    assert "decided by" in said


@pytest.mark.promise("G2")
def test_looking_makes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    home = tmp_path / "nowhere"
    assert main(["--home", str(home), "permissions", "check", "Bash(ls)"]) == 0
    capsys.readouterr()
    assert not home.exists()
    (tmp_path / "other").mkdir()
    assert check(capsys, "-C", "other", "Read(../x)")["verdict"] == "ask"


@pytest.mark.promise("G2")
def test_a_skill_is_a_call_like_others(project, capsys):
    settings(deny=["Skill(deploy-*)"], ask=["Skill(notes)"])
    assert [check(capsys, f"Skill({name})")["verdict"] for name in ("deploy-all", "notes", "pdf")] == [
        "deny",
        "ask",
        "allow",
    ]
    assert main(["permissions", "check", "Skill"]) == 2
    assert "Skill(release-notes)" in capsys.readouterr().err


@pytest.mark.finding("U10")
def test_the_bare_command_shows_mode_and_rules_with_their_files_and_how_to_change_them(project, capsys):
    where = settings(allow=["Bash(npm test:*)"], deny=["Bash(git push:*)"], defaultMode="acceptEdits")
    theirs = project / ".claude" / "settings.json"
    theirs.parent.mkdir()
    theirs.write_text(json.dumps({"permissions": {"allow": ["WebFetch"], "ask": ["Read(secret)"]}}))
    assert main(["permissions", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["mode"], found["mode_from"], found["directories"]) == ("acceptEdits", str(where), [str(project)])
    rules = [(rule["verdict"], rule["rule"], rule["source"]) for rule in found["rules"]]
    assert rules == [
        ("deny", "Bash(git push:*)", str(where)),
        ("ask", "Read(secret)", str(theirs)),
        ("allow", "Bash(npm test:*)", str(where)),
    ]
    assert [rule["rule"] for rule in found["untrusted"]] == ["WebFetch"]
    assert main(["permissions"]) == 0
    page = capsys.readouterr().out
    for text in (
        "acceptEdits",
        f"Bash(npm test:*)  {where}",
        "without effect",
        "WebFetch",
        "teamwright trust",
        "/mode",
    ):
        assert text in page
