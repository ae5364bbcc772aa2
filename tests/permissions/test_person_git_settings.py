"""A person's own git settings that name programs of the project: a fresh clone runs nothing by them before trust."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from teamwright.config.trust import trust_state
from teamwright.git.git_calls import CloneFailed, clone_repository, run_git
from teamwright.permissions.decision_context import PermissionScope
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.verdict import Access, Mode, Verdict
from teamwright.worktrees.integration import Integration
from teamwright.worktrees.integration_store import FileIntegrationStore
from teamwright.worktrees.repository_git import RepositoryGit
from teamwright.worktrees.worktree_creation import Owner, SetupCommand, create_worktree
from tests.support.repositories import ENV, commit, git, make_repository
from tests.support.waits import WAIT_S

SETTINGS = {
    "hooks": "[core]\n\thooksPath = .githooks\n",
    "fsmonitor": "[core]\n\tfsmonitor = scripts/x.sh\n",
    "clean": '[filter "y"]\n\tclean = ./x.sh\n',
    "a script of a shell": '[filter "y"]\n\tclean = sh x.sh\n\trequired = true\n',
    "a quoted script": '[filter "y"]\n\tclean = "sh -c \\"./x.sh; cat\\""\n',
    "a process": '[filter "y"]\n\tprocess = scripts/x.sh\n',
    "a module": '[filter "y"]\n\tclean = python3 -m hook\n',
    "textconv": '[diff "y"]\n\ttextconv = ./x.sh\n',
    "a diff driver": '[diff "y"]\n\tcommand = ./x.sh\n',
    "an external diff": "[diff]\n\texternal = ./x.sh\n",
    "a setting of an included file": "[include]\n\tpath = more.gitconfig\n",
    "a condition": '[includeIf "gitdir:**"]\n\tpath = more.gitconfig\n',
    "a variable": '[filter "y"]\n\tclean = "$(git rev-parse --show-toplevel)/x.sh"\n',
    "an alias": '[alias]\n\tz = !./x.sh\n[filter "y"]\n\tclean = git z\n',
    "another program before": '[filter "y"]\n\tclean = "env A=1 nice ./x.sh"\n',
}
"""Settings of a person, each of which would run a program of the clone."""

LINES = ("git status", "git diff", "git log -p", "git show HEAD", "git blame a.txt", "git stash list")


class Person:
    """A person's home, and a fresh clone whose programs leave a mark."""

    def __init__(self, root: Path) -> None:
        self.home, self.mark = root / "person", root / "ran"
        self.home.mkdir()
        (self.home / "more.gitconfig").write_text('[filter "y"]\n\tclean = ./x.sh\n')
        script = f"#!/bin/sh\necho ran >> {self.mark}\ncat\n"
        names = (
            "x.sh",
            "scripts/x.sh",
            ".githooks/post-index-change",
            ".githooks/pre-commit",
            ".githooks/post-checkout",
        )
        files = dict.fromkeys(names, script) | {
            ".gitattributes": "*.txt filter=y diff=y merge=y\n",
            "a.txt": "one\n",
            "hook.py": f"open({str(self.mark)!r}, 'a').write('ran')\n",
        }
        self.clone = make_repository(root / "clone", files)
        for name in names:
            (self.clone / name).chmod(0o755)
        commit(self.clone, "programs")
        (self.clone / "a.txt").write_text("two\n")

    def configure(self, text: str) -> None:
        (self.home / ".gitconfig").write_text("[user]\n\tname = Ann\n\temail = ann@example.org\n" + text)

    def policy(self, **scope) -> Policy:
        return Policy(Mode.DEFAULT, (), PermissionScope((self.clone,), base=self.clone, **scope))

    def verdict(self, line: str, policy: Policy | None = None) -> Verdict:
        return (policy or self.policy()).decide("Bash", Access(command=line, cwd=self.clone)).verdict

    def run(self, line: str) -> bool:
        """Run the line as a shell does; return whether a program of the clone ran."""
        os.utime(self.clone / "a.txt", (0, 1))
        env = {"PATH": os.environ["PATH"], "HOME": str(self.home), "GIT_PAGER": "cat"}
        subprocess.run(["sh", "-c", line], cwd=self.clone, env=env, capture_output=True, timeout=WAIT_S, check=False)
        ran = self.mark.exists()
        self.mark.unlink(missing_ok=True)
        return ran


@pytest.fixture
def person(tmp_path, monkeypatch):
    made = Person(Path(os.path.realpath(tmp_path)))
    monkeypatch.setenv("HOME", str(made.home))
    for name in ("XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"):
        monkeypatch.delenv(name, raising=False)
    return made


@pytest.mark.finding("3P3")
@pytest.mark.parametrize("name", SETTINGS)
def test_a_line_asks_where_a_setting_of_the_person_names_a_program_of_the_clone(person, name):
    assert {line: person.verdict(line) for line in LINES} == dict.fromkeys(LINES, Verdict.ALLOW)
    person.configure(SETTINGS[name])
    assert any(person.run(line) for line in LINES), "the setting runs nothing at all"
    assert {line: person.verdict(line) for line in LINES} == dict.fromkeys(LINES, Verdict.ASK)


@pytest.mark.finding("3P3")
@pytest.mark.parametrize(
    "text",
    [
        "[core]\n\thooksPath = ~/hooks\n\tpager = less -FRX\n\teditor = vim\n\tfsmonitor = true\n",
        '[filter "lfs"]\n\tclean = git-lfs clean -- %f\n\tprocess = git-lfs filter-process\n',
        "[filter \"secret\"]\n\tclean = \"sed -e 's/key=.*/key=/' -e 's|a/b|c|'\"\n\tsmudge = cat\n",
        '[alias]\n\tup = "!./x.sh"\n',
        '[filter "own"]\n\tclean = /opt/own/clean %f\n[credential]\n\thelper = !/usr/bin/gh auth git-credential\n',
    ],
)
def test_settings_that_name_programs_elsewhere_need_no_answer(person, text):
    person.configure(text)
    assert {line: person.verdict(line) for line in LINES} == dict.fromkeys(LINES, Verdict.ALLOW)


@pytest.mark.finding("3P3")
@pytest.mark.parametrize("place", ["XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_COUNT"])
def test_settings_count_wherever_the_person_has_them(person, monkeypatch, place):
    (person.home / "git").mkdir()
    (person.home / "git" / "config").write_text(SETTINGS["clean"])
    values = {
        "XDG_CONFIG_HOME": {"XDG_CONFIG_HOME": str(person.home)},
        "GIT_CONFIG_GLOBAL": {"GIT_CONFIG_GLOBAL": str(person.home / "git" / "config")},
        "GIT_CONFIG_COUNT": {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "filter.y.clean",
            "GIT_CONFIG_VALUE_0": "./x.sh",
        },
    }
    assert person.verdict("git status") is Verdict.ALLOW
    for name, value in values[place].items():
        monkeypatch.setenv(name, value)
    assert person.verdict("git status") is Verdict.ASK


@pytest.mark.finding("3P3")
@pytest.mark.parametrize("name", ["clean", "hooks"])
def test_trust_covers_the_program_and_ends_with_its_change(person, name):
    person.configure(SETTINGS[name])
    state = trust_state(person.clone, None)
    assert [entry.kind for entry in state.needs_asking] == ["git"]
    trusted = trust_state(person.clone, {entry.key: entry.digest for entry in state.entries})
    policy = person.policy(trusted_git=trusted.trusted_git)
    assert person.verdict("git status", policy) is Verdict.ALLOW
    (person.clone / ("x.sh" if name == "clean" else ".githooks/pre-commit")).write_text("#!/bin/sh\ncurl evil\n")
    assert person.verdict("git status", policy) is Verdict.ASK
    assert len(trust_state(person.clone, {entry.key: entry.digest for entry in state.entries}).needs_asking) == 1


@pytest.mark.finding("3P5")
def test_trust_in_a_filter_of_the_repository_ends_with_a_change_of_its_script(person):
    git(person.clone, "config", "filter.y.clean", "./scripts/x.sh")
    state = trust_state(person.clone, None)
    stored = {entry.key: entry.digest for entry in state.entries}
    trusted = trust_state(person.clone, stored)
    assert trusted.pending == ()
    assert run_git(person.clone, "status", "--porcelain").exit_code == 128
    (person.clone / "scripts" / "x.sh").write_text("#!/bin/sh\ncat\n")
    assert [entry.name for entry in trust_state(person.clone, stored).pending] == ["files of filter.y.clean"]
    assert person.verdict("git status", person.policy(trusted_git=trusted.trusted_git)) is Verdict.ASK


@pytest.mark.finding("3P3")
@pytest.mark.parametrize("name", SETTINGS)
def test_our_own_calls_of_git_run_no_program_of_a_fresh_clone(person, name, tmp_path):
    person.configure(SETTINGS[name])
    for args in (
        ("status", "--porcelain"),
        ("diff", "HEAD"),
        ("log", "-p"),
        ("blame", "a.txt"),
        ("add", "-A"),
        ("commit", "-q", "-m", "x"),
        ("worktree", "add", "-q", str(tmp_path / "tree"), "HEAD~1"),
        ("checkout", "-q", "-b", "other"),
        ("hash-object", "a.txt"),
    ):
        os.utime(person.clone / "a.txt", (0, 1))
        done = run_git(person.clone, *args)
        assert (args, done.ok, done.errors, person.mark.exists()) == (args, True, "", False)


@pytest.mark.finding("3P3")
async def test_a_members_work_is_integrated_without_a_program_of_the_clone(person, tmp_path):
    person.configure('[merge "y"]\n\tdriver = ./x.sh %A\n' + "".join(SETTINGS.values()))
    repository = RepositoryGit.open(person.clone)
    git(person.clone, "checkout", "-q", "--", "a.txt")
    entries = []
    queue = Integration(
        repository, tmp_path / "trees", "demo", FileIntegrationStore(tmp_path / "queue"), SetupCommand()
    )
    records = [
        create_worktree(repository, tmp_path / "trees", Owner("demo", name, "s")).record for name in ("ann", "bob")
    ]
    for name, record in zip(("ann", "bob"), records, strict=True):
        (record.tree / "a.txt").write_text(f"{name}\n")
        run_git(record.tree, "commit", "-q", "-a", "-m", name)
        await queue.add(record, run_git(record.tree, "rev-parse", "HEAD").output.strip())
        entries += await queue.run()
    assert [entry.state for entry in entries] == ["merged", "conflict"]
    assert not person.mark.exists()


@pytest.mark.finding("3P3")
def test_a_clone_of_another_repository_runs_none_of_its_programs(person, tmp_path, monkeypatch):
    git(person.clone, "checkout", "-q", "--", "a.txt")
    person.configure("".join(SETTINGS.values()))
    clone_repository(str(person.clone), "", tmp_path / "new")
    assert (tmp_path / "new" / "a.txt").exists()
    assert not person.mark.exists()
    (person.home / ".gitconfig").write_text("[filter\n")
    with pytest.raises(CloneFailed):
        clone_repository(str(person.clone), "", tmp_path / "other")


@pytest.mark.finding("3P3")
def test_a_session_reads_a_fresh_clone_without_its_filters(person):
    """The start of a headless run, `diff`, `undo` and `status` of the command line."""
    person.configure(SETTINGS["clean"] + SETTINGS["hooks"])
    script = person.home / "script.toml"
    script.write_text(
        '[[agent.lead.turn]]\n[[agent.lead.turn.call]]\nname = "w"\ntool = "Write"\n'
        'input = { file_path = "new.txt", content = "x" }\n[[agent.lead.turn]]\nsay = "done"\n'
    )
    first = ["-p", "hello", "--model", f"scripted:{script}", "--permission-mode", "acceptEdits"]
    env = {**ENV, "HOME": str(person.home), "TEAMWRIGHT_HOME": str(person.home / "state")}
    del env["GIT_CONFIG_GLOBAL"]
    for args in (first, ["diff"], ["undo", "--yes"], ["status"]):
        os.utime(person.clone / "a.txt", (0, 1))
        done = subprocess.run(
            [sys.executable, "-m", "teamwright", *args],
            cwd=person.clone,
            env=env,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
        assert (args[0], done.returncode in {0, 1}, person.mark.exists()) == (args[0], True, False), done.stderr


@pytest.mark.finding("3P3")
def test_a_git_of_the_project_on_the_path_is_not_asked_for_settings(person, monkeypatch):
    (person.clone / "bin").mkdir()
    fake = person.clone / "bin" / "git"
    fake.write_text(f"#!/bin/sh\necho ran >> {person.mark}\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{person.clone / 'bin'}:{os.environ['PATH']}")
    person.verdict("git status")
    trust_state(person.clone, None)
    assert not person.mark.exists()
