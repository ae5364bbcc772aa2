"""A command with too many processes, or with too much memory, is ended as a whole, and nothing else is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from teamwright.agent.background_jobs import BackgroundJobs
from teamwright.agent.tool import ToolContext, Workplace
from teamwright.permissions.call_grant import CallGrant
from teamwright.processes.commands import ProcessStart
from teamwright.sandbox import limits
from teamwright.sandbox import sandbox as sandbox_module
from teamwright.sandbox.command_policy import ConfinementRequest
from teamwright.sandbox.limits import (
    SESSION_GROUP,
    ControlGroups,
    describe_limits,
    find_control_groups,
    own_directory,
    prepare_directory,
    remove_ended_groups,
)
from teamwright.sandbox.policy import PolicyName, SandboxSettings
from teamwright.sandbox.sandbox import CommandConfinement, Sandbox
from teamwright.tools.shell.bash import Bash, BashInput
from tests.sandbox.conftest import found
from tests.support.waits import WAIT_S, wait_until

BOMB = f"bomb() {{ bomb | bomb & }}; bomb; sleep {WAIT_S}"
UNIFIED = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
HYBRID = """\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""


@pytest.mark.parametrize(
    ("own", "mounts", "directory"),
    [
        ("0::/user.slice/a.scope\n", UNIFIED, "/sys/fs/cgroup/user.slice/a.scope"),
        ("8:pids:/b\n4:memory:/c\n0::/\n", HYBRID, "/sys/fs/cgroup/unified"),
        ("0::/docker/a/b\n", UNIFIED.replace(" / ", " /docker/a "), "/sys/fs/cgroup/b"),
        ("0::/docker/ab\n", UNIFIED.replace(" / ", " /docker/a "), None),
        ("0::/a\n", UNIFIED.replace("/sys/fs/cgroup", r"/sys/a\040b"), "/sys/a b/a"),
        ("0::/../other\n", UNIFIED, None),
        ("0::/a (deleted)\n", UNIFIED, None),
        ("4:memory:/c\n", UNIFIED, None),
        ("0::/\n", "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n", None),
        ("", "", None),
    ],
)
def test_the_directory_of_a_process_is_found_from_its_group_and_the_mounts(own, mounts, directory):
    assert own_directory(own, mounts) == (directory and Path(directory))


def group(directory: Path, **files: str) -> Path:
    """Create the files of a group that the kernel would have."""
    directory.mkdir(parents=True, exist_ok=True)
    usual = {"controllers": "cpu memory pids\n", "subtree_control": "cpu\n", "procs": "7\n", "events": "populated 1\n"}
    for name, text in (usual | files).items():
        (directory / f"cgroup.{name}").write_text(text)
    return directory


def test_a_process_that_is_alone_in_its_group_moves_into_one_inside_it(tmp_path):
    own = group(tmp_path / "own")
    group(own / SESSION_GROUP, procs="")
    assert prepare_directory(own, 7, "bash") == ControlGroups(own, "bash", frozenset({"memory", "pids"}))
    assert (own / SESSION_GROUP / "cgroup.procs").read_text() == "7"
    assert (own / "cgroup.subtree_control").read_text() == "+memory +pids"
    # A process that it starts is in the inner group.
    (own / "cgroup.subtree_control").write_text("memory pids\n")
    assert prepare_directory(own / SESSION_GROUP, 8, "bash") == ControlGroups(own, "bash")


def test_only_the_controllers_that_are_there_limit_commands(tmp_path):
    own = group(tmp_path / "own", controllers="cpu pids\n", subtree_control="pids\n")
    assert prepare_directory(own, 7, "bash") == ControlGroups(own, "bash", frozenset({"pids"}))


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"controllers": "cpu hugetlb\n"}, "neither the controller memory nor pids"),
        ({"procs": "7\n9\n"}, "other processes are in the control group"),
        ({"procs": ""}, "other processes are in the control group"),
    ],
)
def test_a_group_that_is_not_for_this_process_alone_is_left_as_it_is(tmp_path, files, reason):
    own = group(tmp_path / "own", **files)
    assert reason in str(prepare_directory(own, 7, "bash"))
    assert not (own / SESSION_GROUP).exists() and (own / "cgroup.subtree_control").read_text() == "cpu\n"


def test_a_group_of_another_user_is_not_delegated(tmp_path):
    own = group(tmp_path / "own")
    (own / "cgroup.subtree_control").unlink()
    assert "is not delegated to this user" in str(prepare_directory(own, 7, "bash"))


def test_a_process_that_could_not_move_is_told_why_there_are_no_limits(tmp_path):
    own = group(tmp_path / "own")
    said = prepare_directory(own, 7, "bash")  # the inner group has no file to write to
    assert "no limits in the control group" in str(said) and not (own / SESSION_GROUP).exists()


def test_groups_of_ended_processes_are_removed_and_others_stay(tmp_path):
    ended = subprocess.Popen(["true"])
    ended.wait()
    left, own = (tmp_path / f"teamwright-command-{pid}-1" for pid in (ended.pid, os.getpid()))
    for path in (left, own):
        path.mkdir()
    ControlGroups(tmp_path, "bash").remove_abandoned()
    assert own.exists() and not left.exists()


def test_the_enforcement_of_limits_is_named(tmp_path, monkeypatch):
    groups = ControlGroups(tmp_path, "bash")
    assert describe_limits(groups, counts=True) == "limits: memory by a control group, processes by a control group"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    text = "limits: memory by an rlimit of each process, processes by an rlimit (no group)"
    assert describe_limits("no group", counts=True) == text
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert "processes by a count" in describe_limits("", counts=True)
    assert "processes by nothing, because rlimits do not hold for root" in describe_limits("", counts=False)


class Started:
    """A confined shell line with its output."""

    def __init__(self, confined, line: str, settings: SandboxSettings) -> None:
        confinement = Sandbox(settings, confined.place).confine(ConfinementRequest(PolicyName.WORK, (confined.work,)))
        assert confinement is not None
        self.confinement: CommandConfinement = confinement
        reading, writing = os.pipe()
        argv = ("bash", "-c", line)
        self.child = confinement.start(ProcessStart(argv, confined.work, confined.env, 0, writing, writing))
        os.close(writing)
        self.output = os.fdopen(reading, encoding="utf-8", errors="replace")

    def wait(self) -> str:
        """Return the output after its last process has ended."""
        text = self.output.read()
        self.output.close()
        self.child.wait()
        return text

    @property
    def exceeded(self) -> str:
        assert self.confinement.limits is not None
        return self.confinement.limits.exceeded


@pytest.fixture(params=["bubblewrap", "landlock"])
def groups(monkeypatch, request) -> ControlGroups:
    """The place of real control groups, used by each implementation."""
    made = find_control_groups("/bin/bash")
    if isinstance(made, str):
        pytest.skip(f"no control group can be had here: {made}")
    implementation = replace(found(request.param), groups=made)
    monkeypatch.setattr(sandbox_module, "find_implementation", lambda: implementation)
    return made


def command_groups(groups: ControlGroups) -> list[Path]:
    return list(groups.directory.glob(f"teamwright-command-{os.getpid()}-*"))


def test_a_fork_bomb_ends_with_its_command_and_leaves_no_group(confined, groups):
    if "pids" not in groups.controllers:
        pytest.skip("no control group with the controller pids can be had here")
    beside = Started(confined, "until test -e go; do sleep 0.05; done; echo lives", SandboxSettings())
    bomb = Started(confined, BOMB, SandboxSettings(processes=60))
    bomb.wait()
    assert bomb.child.returncode and "more than 60 processes" in bomb.exceeded
    assert not beside.exceeded
    (confined.work / "go").touch()
    assert "lives" in beside.wait()
    wait_until(lambda: not command_groups(groups), "the groups are removed")


def test_a_command_enters_its_group_before_it_runs_and_keeps_it_for_background_processes(confined, groups):
    if "pids" not in groups.controllers:
        pytest.skip("no control group with the controller pids can be had here")
    line = "ls -l /proc/self/fd; cat /proc/self/cgroup; (until test -e go; do sleep 0.05; done; echo ended) &"
    started = Started(confined, line, SandboxSettings())
    started.child.wait()
    [directory] = command_groups(groups)
    remove_ended_groups()
    assert directory.exists() and (directory / "cgroup.procs").read_text()
    (confined.work / "go").touch()
    text = started.wait()
    assert "ended" in text and "cgroup.procs" not in text and not started.exceeded
    wait_until(lambda: not directory.exists(), "the group is removed")


def test_a_process_alone_in_a_real_group_creates_groups_beside_the_one_into_which_it_moves(groups):
    own = groups.directory / f"teamwright-test-{os.getpid()}"
    own.mkdir()
    asks = [
        "import subprocess, sys",
        "sys.path[:0] = sys.argv[1:]",
        "from teamwright.sandbox.limits import find_control_groups",
        "child = subprocess.Popen(['sleep', '600'])",
        "print(find_control_groups('bash'), open('/proc/self/cgroup').read())",
        "child.kill()",
        "child.wait()",
    ]
    enter = f'echo 0 >"{own}/cgroup.procs"; exec "$@"'
    try:
        ran = subprocess.run(
            ["bash", "-c", enter, "bash", sys.executable, "-c", "\n".join(asks), *sys.path],
            capture_output=True,
            text=True,
            check=True,
            timeout=WAIT_S,
        )
        assert f"ControlGroups(directory=PosixPath('{own}')" in ran.stdout
        assert f"{own.name}/{SESSION_GROUP}" in ran.stdout
    finally:
        for path in (own / SESSION_GROUP, own):
            wait_until(lambda path=path: not (path / "cgroup.procs").read_text(), "its processes have ended")
            path.rmdir()


def test_an_allocation_above_the_limit_of_a_group_ends_the_command(confined, groups):
    if "memory" not in groups.controllers:
        pytest.skip("no control group with the controller memory can be had here")
    many = "for n in 1 2 3; do python3 -c 'bytearray(60 << 20); input()' & done; wait; echo done"
    started = Started(confined, f"sleep {WAIT_S} | ({many})", SandboxSettings(memory_mb=120))
    assert "done" not in started.wait() and "more than 120 MiB" in started.exceeded


def test_the_processes_of_a_superuser_are_counted_where_no_group_limits_them(confined, bubblewrap):
    if os.geteuid() != 0:
        pytest.skip("this test needs the superuser, for whom no rlimit holds")
    flood = f"for n in $(seq 300); do sleep {WAIT_S} & done; wait"
    started = Started(confined, flood, SandboxSettings(processes=60))
    started.wait()
    assert started.child.returncode and started.exceeded.startswith("it had more than 60 processes")
    below = Started(confined, "for n in $(seq 20); do sleep 0.01 & done; wait; echo done", SandboxSettings())
    assert "done" in below.wait() and not below.exceeded


async def test_the_result_of_a_command_with_too_many_processes_names_the_limit(confined, bubblewrap):
    if os.geteuid() != 0:
        pytest.skip("this test needs the superuser, for whom no rlimit holds")
    jobs = BackgroundJobs(grace_s=0.5)
    tool = Bash(jobs, sandbox=Sandbox(SandboxSettings(processes=60), confined.place))
    place = Workplace(confined.work, lambda: (confined.work,), confined.state / "output", confined.state / "history")
    flood = BashInput(command=f"for n in $(seq 300); do sleep {WAIT_S} & done; wait")
    result = await tool.run(flood, ToolContext("ada", place, "c1", grant=CallGrant(directories=(confined.work,))))
    assert result.is_error and "[The sandbox ended the command: it had more than 60 processes" in result.content
    await jobs.close()


@pytest.mark.slow
def test_commands_whose_processes_are_counted_start_however_early_they_are_checked(confined, bubblewrap, monkeypatch):
    if os.geteuid() != 0:
        pytest.skip("this test needs the superuser, for whom no rlimit holds")
    monkeypatch.setattr(limits, "_CHECK_S", 0.0005)
    for _ in range(20):
        assert Started(confined, "echo began", SandboxSettings()).wait() == "began\n"
