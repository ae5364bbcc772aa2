"""Our own reading of git runs nothing that a repository configures."""

import os
import subprocess

import pytest

from teamwright.git.git_calls import git_argv, git_env, run_git
from teamwright.git.repository_risks import git_entries


def names_in(root) -> set[str]:
    return {entry.name for entry in git_entries(root)}


@pytest.fixture
def hostile(tmp_path):
    """A repository in which everything that can name a program names one that leaves a mark."""
    root = tmp_path / "repository"
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    git_here = ["git", "-C", str(root), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    (root / "a.txt").write_text("one\n")
    subprocess.run([*git_here, "add", "a.txt"], check=True)
    subprocess.run([*git_here, "commit", "-q", "-m", "first"], check=True)
    program = tmp_path / "evil.sh"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\ncat\n")
    program.chmod(0o755)
    names = ("core.fsmonitor", "diff.external", "core.pager", "diff.x.textconv", "diff.x.command", "filter.x.clean")
    for name in (*names, "gpg.program", "core.sshCommand", "core.editor"):
        subprocess.run([*git_here, "config", name, str(program)], check=True)
    subprocess.run([*git_here, "config", "log.showSignature", "true"], check=True)
    (root / ".gitattributes").write_text("* diff=x filter=x\n")
    (root / "a.txt").write_text("two\n")
    hook = root / ".git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(program.read_text())
    hook.chmod(0o755)
    return root


READING = [
    ("status", "--porcelain"),
    ("diff",),
    ("log", "-p"),
    ("show", "HEAD"),
    ("blame", "a.txt"),
    ("grep", "one"),
    ("ls-files", "-m"),
    ("rev-parse", "--show-toplevel"),
]


@pytest.mark.promise("K1", "P7")
@pytest.mark.finding("P5")
@pytest.mark.parametrize("args", READING, ids=" ".join)
def test_our_own_reading_runs_nothing_of_the_repository(hostile, args):
    result = run_git(hostile, *args)
    assert result.exit_code == 128
    assert "git was not called" in result.errors
    assert not (hostile.parent / "ran").exists()


@pytest.mark.promise("P7")
@pytest.mark.parametrize("args", READING, ids=" ".join)
def test_our_switches_turn_off_all_but_a_filter_where_the_repository_is_read_all_the_same(hostile, args):
    (hostile / ".gitattributes").write_text("* diff=x\n")
    done = subprocess.run(git_argv(*args), cwd=hostile, env=git_env(), capture_output=True, check=False)
    assert done.returncode == 0 or args[0] == "grep", done.stderr
    assert not (hostile.parent / "ran").exists()


def test_the_same_reading_without_our_arguments_would_run_it(hostile):
    subprocess.run(["git", "-C", str(hostile), "status"], capture_output=True, check=False)
    assert (hostile.parent / "ran").exists()


def test_a_plain_repository_is_read(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    assert run_git(tmp_path, "rev-parse", "--show-toplevel").output.strip() == os.path.realpath(tmp_path)


def test_a_directory_outside_git_or_a_missing_git_is_a_result(tmp_path, monkeypatch):
    assert not run_git(tmp_path, "rev-parse").ok
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run_git(tmp_path, "status").exit_code == 127


def test_no_variable_of_the_caller_steers_our_git():
    env = git_env({"PATH": "/bin", "GIT_DIR": "/evil", "GIT_SSH_COMMAND": "x", "GIT_CONFIG_COUNT": "1"})
    assert {name for name in env if name.startswith("GIT_")} == {
        "GIT_NO_LAZY_FETCH",
        "GIT_OPTIONAL_LOCKS",
        "GIT_TERMINAL_PROMPT",
        "GIT_PAGER",
    }
    assert env["GIT_OPTIONAL_LOCKS"] == "0"


def test_a_plain_repository_names_nothing_that_runs(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    subprocess.run(["git", "-C", str(tmp_path), "remote", "add", "origin", "https://example.org/x"], check=True)
    assert git_entries(tmp_path) == ()


@pytest.mark.promise("P7")
def test_what_could_run_is_named(hostile):
    named = {"core.fsmonitor", "diff.external", "diff.x.textconv", "filter.x.clean", "hook post-index-change"}
    assert named <= names_in(hostile)


@pytest.mark.promise("P7")
@pytest.mark.finding("P5")
@pytest.mark.parametrize(
    "config",
    [
        '[includeIf "gitdir:/"]\n\tpath = ~other/evil',
        "[core] fsmonitor = ./evil",
        "[CORE]\n\tFSMONITOR=./evil",
        "[core]\n\tfsmonitor",
        '[core]\n\tfsmonitor = "off#;./evil"',
        "[core]\n\tfsmonitor = off\x0b;./evil",
        "[core]\n\tfilemode = true \\\n[x]\\\n\n\tfsmonitor = ./evil",
        '[user]\n\tname = "x\\\n"\n\tfsmonitor = ./evil',
        "[user]\n\tname = x\u2028[core]\u2028fsmonitor = ./evil\n[core]\n\tfsmonitor = ./evil",
        "[core]\n\tfsmonitor = off\r\n",
        '[core "x"]\n\tautocrlf = true',
        "[core.x]\n\tautocrlf = true",
        "[core]\n\tworktree = /",
        "[alias]\n\twhatchanged = !./evil",
        '[remote "x"]\n\tpromisor = true',
        '[merge "x"]\n\tdriver = ./evil',
        '[lfs "extension.x"]\n\tclean = ./evil',
        "[log]\n\tdiffMerges = remerge",
        "[diff]\n\tsubmodule = diff",
        "[extensions]\n\tpartialClone = origin",
        "[core]\n\tfsmonitor = \\\n\t./evil",
        "\ufeff[core]\n\tfsmonitor = ./evil",
        "[unheard-of]\n\tkey = value",
        "garbage",
        "[core",
    ],
)
@pytest.mark.slow_after(12)
def test_a_configuration_that_may_run_something_is_seen_however_it_is_written(tmp_path, config):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    with open(tmp_path / ".git" / "config", "a", newline="") as file:
        file.write(config + "\n")
    assert git_entries(tmp_path)
    os.unlink(tmp_path / ".git" / "config")
    assert git_entries(tmp_path) == ()


def test_what_git_and_common_programs_write_into_a_configuration_is_harmless(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    with open(tmp_path / ".git" / "config", "a") as file:
        file.write(
            "# a comment with a \\ in it\n; another\n\n"
            '[remote "origin"]\n\turl = "https://example.org/x"\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n'
            '\tgh-resolved = base\n[branch "feature/ü"]\n\tremote = origin\n\tmerge = refs/heads/x\n'
            "\tvscode-merge-base = origin/main\n[user]\n\tname = Zoë # me\n\temail = z@example.org\n"
            "[pull]\n\trebase\n[core]\n\tfsmonitor = false\n\tsshCommand = ssh -i ~/.ssh/work\n"
            '[lfs "https://example.org/x.git/info/lfs"]\n\tlocksverify = true\n[submodule "a"]\n\tactive = true\n'
            '[http "https://example.org/"]\n\textraheader = AUTHORIZATION: basic x\n[pager]\n\tbranch = false\n'
        )
    assert git_entries(tmp_path) == ()


@pytest.mark.finding("P5")
def test_an_included_file_is_judged_like_the_configuration_itself(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    subprocess.run(["git", "-C", str(tmp_path), "config", "include.path", "../shared.ini"], check=True)
    assert git_entries(tmp_path) == ()
    shared = tmp_path / "shared.ini"
    shared.write_text("[pull]\n\trebase = true\n")
    assert git_entries(tmp_path) == ()
    shared.write_text("[core]\n\tfsmonitor = ./evil\n")
    assert names_in(tmp_path) == {"core.fsmonitor"}
    shared.write_text("[include]\n\tpath = shared.ini\n")
    assert names_in(tmp_path) == {"include.path", "files of include.path"}


@pytest.mark.finding("P5")
@pytest.mark.parametrize("how", ["an index", "a shared index"])
def test_submodules_are_seen_in_every_form_of_index(tmp_path, how):
    run = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for place in (tmp_path, tmp_path / "sub"):
        subprocess.run(["git", "init", "-q", str(place)], check=True)
        subprocess.run([*run, "-C", str(place), "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    assert git_entries(tmp_path) == ()
    subprocess.run([*run, "add", "sub"], check=True, capture_output=True)
    if how == "a shared index":
        subprocess.run([*run, "update-index", "--split-index"], check=True)
        assert b"\x00\x00\xe0\x00" not in (tmp_path / ".git" / "index").read_bytes()
    assert names_in(tmp_path) == {"submodules"}


@pytest.mark.finding("P17")
def test_an_index_that_is_too_long_is_not_searched(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    with open(tmp_path / ".git" / "index", "wb") as file:
        file.truncate(3 << 30)
    assert names_in(tmp_path) == {"an index that cannot be read"}


def test_objects_of_another_repository_are_seen(tmp_path):
    for name in ("one", "other"):
        subprocess.run(["git", "init", "-q", str(tmp_path / name)], check=True)
    objects = tmp_path / "one" / ".git" / "objects"
    (objects / "info").mkdir(exist_ok=True)
    (objects / "info" / "alternates").write_text(f"{tmp_path}/other/.git/objects\n")
    assert names_in(tmp_path / "one") == {"another repository's objects"}
    (objects / "info" / "alternates").unlink()
    (objects / "ab").symlink_to(tmp_path / "other" / ".git" / "objects" / "ab")
    assert names_in(tmp_path / "one") == {"another repository's objects"}
