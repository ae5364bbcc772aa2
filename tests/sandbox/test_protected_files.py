"""Protected files are restored where they were, and nothing else is moved."""

import os
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from teamwright.sandbox import protected_file_check as protected_files
from teamwright.sandbox.bubblewrap import Bubblewrap, BubblewrapAbilities
from teamwright.sandbox.command_needs import NO_NEEDS, command_needs
from teamwright.sandbox.command_policy import ConfinementRequest, SandboxPaths, make_policy, protected_paths
from teamwright.sandbox.guarded_files import PROTECTED_NAMES
from teamwright.sandbox.landlock import Landlock
from teamwright.sandbox.policy import PolicyName, is_inside
from teamwright.sandbox.protected_file_check import ProtectedFiles


def test_a_link_above_a_protected_path_leads_the_restoring_nowhere_else(tmp_path):
    config, target = tmp_path / "work/.git/config", tmp_path / "elsewhere"
    config.parent.mkdir(parents=True)
    target.mkdir()
    config.write_text("[core]\n")
    (target / "config").write_text("KEPT")
    (target / "commondir").write_text("KEPT")
    before = ProtectedFiles.take([str(config.with_name("commondir"))], [str(config)])
    config.parent.rename(tmp_path / "work/.moved")
    (tmp_path / "work/.git").symlink_to(target)
    changed = before.restore(tmp_path / "quarantine")
    assert str(config.parent) in changed
    assert (target / "config").read_text() == (target / "commondir").read_text() == "KEPT"
    assert config.read_text() == "[core]\n" and not config.parent.is_symlink()


def test_a_file_above_a_protected_path_is_moved_away(tmp_path):
    """A file `.git` names another git directory, whose configuration runs programs."""
    config = tmp_path / "work/.git/config"
    config.parent.mkdir(parents=True)
    config.write_text("[core]\n")
    before = ProtectedFiles.take([str(config.with_name("commondir"))], [str(config)])
    config.parent.rename(tmp_path / "work/.moved")
    (tmp_path / "work/.git").write_text("gitdir: .evil\n")
    assert str(config.parent) in before.restore(tmp_path / "quarantine")
    assert config.read_text() == "[core]\n"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems do not tell the path of an open file")
def test_a_link_that_appears_above_a_protected_path_during_the_comparison_leads_nowhere_else(tmp_path, monkeypatch):
    """A background command changes a directory and a link again and again, until it wins the race."""
    config, target = tmp_path / "work/.git/config", tmp_path / "home"
    config.parent.mkdir(parents=True)
    target.mkdir()
    config.write_text("[core]\n")
    created = str(config.with_name("commondir"))
    before = ProtectedFiles.take([created], [str(config)])
    config.parent.rename(tmp_path / "work/.moved")
    for name in ("config", "commondir"):
        (target / name).write_text("KEPT")
    config.parent.symlink_to(target)
    monkeypatch.setattr(protected_files, "_replaced_above", lambda path: "")
    before.restore(tmp_path / "quarantine")
    assert {path.name: path.read_text() for path in target.iterdir()} == {"config": "KEPT", "commondir": "KEPT"}
    seen = ProtectedFiles.take([], [str(config)])
    assert seen.saved == {}, "a file behind the link is not read: it would be written back into the project"


def test_what_is_left_in_the_background_is_undone_only_as_far_as_it_was_created(tmp_path):
    created, kept = tmp_path / "commondir", tmp_path / "config"
    kept.write_text("[core]\n")
    before = ProtectedFiles.take([str(created)], [str(kept)]).created_only()
    kept.write_text("[core]\n[remote]\n")
    created.write_text("../evil\n")
    assert before.restore(tmp_path / "quarantine") == [str(created)]
    assert kept.read_text() == "[core]\n[remote]\n" and not created.exists()


def test_a_large_file_in_a_protected_directory_stays(tmp_path):
    directory = tmp_path / ".claude"
    directory.mkdir()
    (directory / "large.json").write_bytes(bytes(300_000))
    os.mkfifo(directory / "pipe")
    before = ProtectedFiles.take([], [str(directory)])
    assert before.restore(tmp_path / "quarantine") == []
    assert sorted(os.listdir(directory)) == ["large.json", "pipe"]


def test_a_start_file_that_is_a_link_into_a_project_is_protected(tmp_path):
    home, project = tmp_path / "home", tmp_path / "home/dotfiles"
    project.mkdir(parents=True)
    (project / "bashrc").write_text("")
    (home / ".bashrc").symlink_to(project / "bashrc")
    place = SandboxPaths(str(home), (), (), "", {})
    paths = protected_paths([str(project)], (), place, NO_NEEDS)
    assert str(project / "bashrc") in paths and str(home / ".profile") not in paths


def test_hooks_that_are_a_link_cannot_be_replaced_by_a_directory(confined):
    hooks = confined.work / ".git/hooks"
    hooks.rmdir()
    (confined.work / "shared-hooks").mkdir()
    hooks.symlink_to("../shared-hooks")
    place = confined.place
    made = make_policy(ConfinementRequest(PolicyName.WORK, (confined.work,)), place)
    for confinement in (Bubblewrap(BubblewrapAbilities("bwrap"), made), Landlock(3, made)):
        before = confinement.guard()
        hooks.unlink()
        hooks.mkdir()
        (hooks / "pre-commit").write_text("evil")
        assert str(hooks) in before.restore(confined.state / "quarantine")
        assert hooks.is_symlink() and not list(hooks.iterdir())


def test_the_git_files_of_other_worktrees_are_protected(confined, each_implementation):
    """A changed `commondir` gives git in that worktree a configuration that runs programs."""
    pointer = confined.work / ".git/worktrees/bob/commondir"
    pointer.parent.mkdir(parents=True)
    pointer.write_text("../..\n")
    paths = protected_paths([str(confined.work)], (), confined.place, NO_NEEDS)
    assert {str(pointer), str(pointer.with_name("config.worktree"))} <= set(paths)
    if each_implementation == "bubblewrap":
        confined.work_in(f"echo {confined.work}/evil > {pointer}")
        assert pointer.read_text() == "../..\n"


def test_a_variable_with_a_file_of_credentials_opens_it_only_to_a_command_that_names_them(confined):
    files = {name: confined.home / name for name in ("kube", "agent")}
    for file in files.values():
        file.write_text("")
    place = replace(confined.place, env={"KUBECONFIG": str(files["kube"]), "SSH_AUTH_SOCK": str(files["agent"])})

    def hidden(*words: str) -> set[str]:
        request = ConfinementRequest(PolicyName.WORK, (confined.work,), command_needs([words]))
        return {name for name, file in files.items() if str(file) in make_policy(request, place).hidden}

    assert hidden("make") == {"kube", "agent"} and hidden("git", "push") == {"kube"}
    assert hidden("kubectl", "get") == {"agent"}


@pytest.mark.finding("3W1")
@pytest.mark.parametrize("successor", ["nothing", "another directory"])
def test_nothing_is_restored_into_a_directory_that_is_not_the_one_that_was_there(tmp_path, successor):
    tree = tmp_path / "tree"
    (tree / ".git").mkdir(parents=True)
    for name in ("config", "hooks"):
        (tree / ".git" / name).write_text("[core]\n")
    protected = [str(tree / ".git" / "config"), str(tree / ".git" / "hooks")]
    before = ProtectedFiles.take([str(tree / ".envrc")], protected, writable=[str(tree), str(tree / ".git")])
    tree.rename(tmp_path / "moved")
    if successor == "another directory":
        tree.mkdir()
        (tree / ".envrc").write_text("its owner's\n")
    assert before.restore(tmp_path / "quarantine") == []
    there = sorted(path.name for path in tree.iterdir()) if tree.exists() else None
    assert there == (None if successor == "nothing" else [".envrc"])


@pytest.mark.finding("3W1")
def test_a_git_directory_that_a_command_moved_is_restored_in_the_same_directory(tmp_path):
    tree = tmp_path / "tree"
    (tree / ".git").mkdir(parents=True)
    (tree / ".git" / "config").write_text("[core]\n")
    before = ProtectedFiles.take([], [str(tree / ".git" / "config")], writable=[str(tree), str(tree / ".git")])
    (tree / ".git").rename(tree / "other")
    before.restore(tmp_path / "quarantine")
    assert (tree / ".git" / "config").read_text() == "[core]\n"


@pytest.mark.finding("3P10")
def test_the_runtimes_own_files_in_a_protected_directory_are_no_changes_of_the_command(tmp_path):
    """A session in the home directory has its state in the protected `.teamwright` of that directory."""
    output, settings = tmp_path / ".teamwright/s/output", tmp_path / ".claude/settings.json"
    for place in (output, settings.parent / "teams"):
        place.mkdir(parents=True)
    settings.write_text("{}")
    (output.parent / "events.jsonl").write_text("1\n")
    ended_in, inbox = output / "c1.cwd", settings.parent / "teams/inbox.json"
    place = SandboxPaths(str(tmp_path), (str(tmp_path / ".teamwright"), str(inbox.parent)), (str(output),), "", {})
    made = make_policy(ConfinementRequest(PolicyName.WORK, (tmp_path,), own_files=(str(ended_in),)), place)
    before = Landlock(3, made).guard()
    ended_in.write_text("/")
    inbox.write_text("[]")
    (output.parent / "events.jsonl").write_text("1\n2\n")
    settings.write_text("evil")
    assert before.restore(tmp_path / "quarantine") == [str(settings)]
    assert (settings.read_text(), ended_in.read_text(), inbox.read_text()) == ("{}", "/", "[]")
    assert (output.parent / "events.jsonl").read_text() == "1\n2\n"


@pytest.mark.finding("3P10")
def test_a_missing_file_at_the_top_of_a_project_may_be_made_and_the_same_file_anywhere_else_may_not(tmp_path):
    """A person's trust decides on the first; programs obey the others at once."""
    top = Path(os.path.realpath(tmp_path))
    project, home, granted = (top / name for name in ("project", "home", "granted"))
    for directory in (project, home, granted):
        directory.mkdir()
    place = SandboxPaths(str(home), (), (), "", {})
    request = ConfinementRequest(PolicyName.WORK, (project, home), opened=[str(granted)])
    policy = make_policy(request, place)
    names = (".mcp.json", ".github/hooks", ".claude")
    assert set(names) <= set(PROTECTED_NAMES)
    assert not policy.guarded & {str(project / name) for name in names}
    assert policy.guarded >= {str(directory / name) for directory in (home, granted) for name in names}
    assert not policy.may_change(str(granted / ".github/hooks/x.json"))


@pytest.mark.finding("3S1", "3P10")
def test_a_granted_path_that_is_a_missing_file_opens_nothing_and_is_no_project(tmp_path):
    top = Path(os.path.realpath(tmp_path))
    project, out = top / "project", top / "out"
    for directory in (project, out):
        directory.mkdir()
    place = SandboxPaths(str(top / "home"), (), (), "", {})
    missing = [str(out / name) for name in ("new.txt", ".mcp.json", ".github/hooks")]
    request = ConfinementRequest(PolicyName.WORK, (project,), opened=missing, writable=missing)
    policy = make_policy(request, place)
    assert policy.writable & {str(out), *missing} == frozenset()
    assert not [path for path in missing if policy.may_change(path)]
    assert not [path for path in policy.guarded if is_inside(path, str(out))], "a file has no guarded files below it"
