"""Directories that change between the policy of a command and its start, other names of hidden paths, and Teamwright's
own files.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from teamwright.processes.commands import ProcessStart
from teamwright.sandbox import bubblewrap, command_policy, landlock
from teamwright.sandbox.command_policy import ConfinementRequest
from teamwright.sandbox.mounts import MountPoint, escape, mount_of, other_names, read_mounts
from teamwright.sandbox.policy import NetworkAccess, PolicyName, SandboxSettings
from teamwright.sandbox.sandbox import Sandbox
from tests.support.programs import needs
from tests.support.waits import WAIT_S


def start_after(confined, change, denied=(), line="echo x > ~/.bashrc; cat ~/notes.txt", policy=PolicyName.WORK):
    """Run a line whose policy was made before a change of the directories; return its output."""
    sandbox = Sandbox(SandboxSettings(network=NetworkAccess.DENY), confined.place)
    confinement = sandbox.confine(ConfinementRequest(policy, (confined.work,), denied=denied))
    change()
    with open(confined.home.parent / "output", "wb") as output:
        start = ProcessStart(("bash", "-c", line), confined.work, confined.env, subprocess.DEVNULL, output, output)
        confinement.start(start).wait(WAIT_S)
    return (confined.home.parent / "output").read_text()


@pytest.mark.parametrize("place", [".pip-cache", "keys", ".git/modules/sub"])
def test_a_link_that_replaces_a_directory_after_the_policy_was_made_leads_nowhere_else(
    confined, each_implementation, place
):
    confined.env["PIP_CACHE_DIR"] = str(confined.work / ".pip-cache")
    for file in (".pip-cache/x", "keys/a.pem", ".git/modules/sub/config"):
        (confined.work / file).parent.mkdir(parents=True, exist_ok=True)
        (confined.work / file).write_text("")
        (confined.home / Path(file).name).write_text("")  # a mount of it would succeed

    def swap():
        (confined.work / place).rename(confined.work / "moved")
        (confined.work / place).symlink_to(os.path.relpath(confined.home, (confined.work / place).parent))

    start_after(confined, swap, denied=(str(confined.work / "keys/a.pem"),))
    assert not (confined.home / ".bashrc").exists()


def test_a_reading_command_does_not_follow_a_link_in_the_place_of_its_programs(confined, each_implementation):
    programs = confined.work / ".venv/bin"
    programs.mkdir(parents=True)
    confined.env["PATH"] = f"{programs}{os.pathsep}{confined.env['PATH']}"

    def swap():
        programs.rmdir()
        programs.symlink_to(confined.home)

    said = start_after(confined, swap, line="cat ~/notes.txt .venv/bin/notes.txt; cat a.txt", policy=PolicyName.READ)
    assert "NOTES" not in said and said.endswith("A\n")


@pytest.fixture
def poor_system(monkeypatch):
    """A container that forbids openat2, and has no `cat`."""
    monkeypatch.setattr(landlock, "_OPENAT2", 0xFFFF)  # no such system call
    paths = "/usr/bin:/bin:/run/current-system/sw/bin"
    assert paths in bubblewrap._SCRIPT
    monkeypatch.setattr(bubblewrap, "_SCRIPT", bubblewrap._SCRIPT.replace(paths, "/none"))


def test_on_a_poor_system_a_link_leads_nowhere_else_too(confined, each_implementation, poor_system):
    (confined.work / ".pip-cache").mkdir()
    confined.env["PIP_CACHE_DIR"] = str(confined.work / ".pip-cache")

    def swap():
        (confined.work / ".pip-cache").rmdir()
        (confined.work / ".pip-cache").symlink_to(confined.home)

    start_after(confined, swap)
    assert not (confined.home / ".bashrc").exists()
    assert start_after(confined, lambda: None, line="echo y > a.txt; cat a.txt").endswith("y\n")


@needs("bwrap")
def test_a_command_with_variables_of_the_loader_keeps_them_after_the_check_of_its_mounts(confined, bubblewrap):
    confined.env["LD_LIBRARY_PATH"] = "/a b:/c"
    assert confined.work_in("echo $LD_LIBRARY_PATH").stdout == "/a b:/c\n"


@needs("bwrap")
def test_a_project_with_blanks_and_other_signs_in_its_name_has_commands(confined, bubblewrap):
    confined.work = confined.work.rename(confined.work.with_name("a b\\c\t*é[x]"))
    assert confined.work_in("echo x > .git/config; echo y > b.txt; cat b.txt").stdout.endswith("y\n")
    assert (confined.work / ".git/config").read_text().startswith("[core]")


@needs("bwrap")
def test_a_session_in_the_home_directory_has_commands_and_no_credentials(confined, bubblewrap):
    (confined.home / ".docker").mkdir()
    (confined.home / ".docker/config.json").write_text("TOKEN")
    confined.work = confined.home
    done = confined.work_in("cat .docker/config.json .ssh/*; echo y > b.txt; cat b.txt", denied=("config.json",))
    assert "TOKEN" not in done.stdout and "PRIVATE" not in done.stdout and done.stdout.endswith("y\n")
    done = confined.work_in("echo y", denied=(str(confined.home / ".docker/config.json"),))
    assert done.stdout == "y\n"


def test_other_names_of_a_file_are_those_of_mounts_that_show_it(tmp_path):
    (tmp_path / "home/.ssh").mkdir(parents=True)
    (tmp_path / "persist").symlink_to(tmp_path / "home")  # as a mount would show it
    root, other = MountPoint("8:1", "/", "/"), MountPoint("8:1", str(tmp_path / "home"), str(tmp_path / "persist"))
    elsewhere = MountPoint("8:2", "/", str(tmp_path / "persist"))
    secret = str(tmp_path / "home/.ssh")
    assert other_names(secret, [root, other]) == [str(tmp_path / "persist/.ssh")]
    assert other_names(secret, [root, elsewhere]) == other_names(secret, []) == []
    assert other_names(str(tmp_path), [root, other]) == []
    assert escape("/a b\\c\n") == "/a\\040b\\134c\\012"
    mounts = read_mounts()
    if mounts:
        assert mount_of("/", mounts).path == "/"


SECRETS_OF_A_BOUND_HOME = """
import sys
from teamwright.sandbox.command_policy import ConfinementRequest, SandboxPaths, make_policy
from teamwright.sandbox.policy import PolicyName
place = SandboxPaths(sys.argv[1], (), (), "", {})
print(*make_policy(ConfinementRequest(PolicyName.WORK, ()), place).hidden, sep="\\n")
"""


@needs("unshare")
def test_a_credential_is_hidden_under_each_name_that_a_mount_gives_it(confined, tmp_path):
    (tmp_path / "data").mkdir()
    mount = f"mount --bind {confined.home} {tmp_path}/data"
    if subprocess.run(["unshare", "-rm", "sh", "-c", mount], capture_output=True).returncode:
        pytest.skip("no namespace can be made here")
    line = f'{mount} && exec "$@"'
    argv = ["unshare", "-rm", "sh", "-c", line, "sh", sys.executable, "-c", SECRETS_OF_A_BOUND_HOME, confined.home]
    hidden = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]).stdout
    assert {str(confined.home / ".ssh"), f"{tmp_path}/data/.ssh"} <= set(hidden.splitlines())


def test_the_environment_of_teamwright_in_a_project_cannot_be_changed(confined, each_implementation, monkeypatch):
    packages = confined.work / ".venv/lib/site-packages"
    packages.mkdir(parents=True)
    (packages / "x.pth").write_text("before")
    monkeypatch.setattr(sys, "prefix", str(confined.work / ".venv"))
    monkeypatch.setattr(command_policy, "_packages", lambda: str(packages))
    sandbox = Sandbox(SandboxSettings(network=NetworkAccess.DENY), confined.place)
    made = sandbox.policy(ConfinementRequest(PolicyName.WORK, (confined.work,)))
    assert str(confined.work / ".venv") in made.protected
    if each_implementation == "bubblewrap":
        confined.work_in("echo after > .venv/lib/site-packages/x.pth; echo y > b.txt")
        assert (packages / "x.pth").read_text() == "before" and (confined.work / "b.txt").exists()
    monkeypatch.setattr(command_policy, "_packages", lambda: str(confined.work / "src"))
    made = sandbox.policy(ConfinementRequest(PolicyName.WORK, (confined.work,)))
    assert str(confined.work / ".venv") not in made.protected  # a source tree


@needs("bwrap")
def test_a_cache_of_uv_to_which_teamwright_is_linked_is_not_changed_and_commands_have_another_one(
    confined, bubblewrap, monkeypatch
):
    archive = confined.home / ".cache/uv/archive-v0/a1/x-1.0.dist-info"
    archive.mkdir(parents=True)
    (archive / "METADATA").write_text("x")
    packages = confined.home / "tools/site-packages"
    shutil.copytree(archive.parent, packages, copy_function=os.link)
    monkeypatch.setattr(command_policy, "_packages", lambda: str(packages))
    done = confined.work_in("echo evil > ~/.cache/uv/archive-v0/a1/x-1.0.dist-info/METADATA; echo $UV_CACHE_DIR")
    assert (packages / "x-1.0.dist-info/METADATA").read_text() == "x"
    assert done.stdout.splitlines()[-1] == str(confined.home / ".cache/teamwright-uv")
    assert confined.work_in("mkdir -p $UV_CACHE_DIR/x && echo made").stdout == "made\n"


@needs("bwrap")
def test_hooks_and_configurations_that_the_configuration_of_git_names_cannot_be_changed(confined, bubblewrap):
    config = "[core]\n\thooksPath = tools/hooks\n[include]\n\tpath = ../tools/git\n"
    (confined.work / ".git/config").write_text(config)
    (confined.work / "tools/hooks").mkdir(parents=True)
    (confined.work / "tools/git").write_text("[core]\n")
    done = confined.work_in("echo x > tools/hooks/pre-commit; echo x >> tools/git; mv tools t; echo y > tools/other")
    assert list((confined.work / "tools/hooks").iterdir()) == []
    assert (confined.work / "tools/git").read_text() == "[core]\n" and (confined.work / "tools/other").exists()
    assert done.stdout.count("Read-only file system") == 2


def test_under_landlock_no_command_listens_for_other_machines(confined, landlock):
    line = "python3 -c 'import socket; s=socket.socket(); s.bind((\"127.0.0.1\",0)); s.listen(); print(1)'"
    assert "PermissionError" in confined.work_in(line).stdout
    assert confined.work_in(line, settings=SandboxSettings(network=NetworkAccess.ALLOW)).stdout == "1\n"
