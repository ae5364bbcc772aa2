"""Paths through a process of `/proc`, which lead to another file in each process."""

import os
import sys

import pytest

from teamwright.permissions.decision_context import OwnedPaths, PathOwnership
from teamwright.permissions.verdict import Mode, Verdict
from teamwright.storage.real_paths import real_path

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is a file system of Linux")

READS = """
cd sub; cat /proc/self/cwd/a.py
cd sub && head /proc/thread-self/cwd/a.py
cd sub; (cat /proc/self/cwd/a.py)
cd sub; cat < /proc/self/cwd/a.py
cd sub; cat /dev/fd/../cwd/a.py
cd sub; cat /proc/self/../thread-self/cwd/a.py
cd sub; cat /proc/self/task/../cwd/a.py
cd sub; cat ../by_link/a.py
cd /proc/self/cwd && cat a.py
cat /proc/1/cwd/a.py
cd sub && git -C /proc/self/cwd status
""".strip().splitlines()
WRITES = """
cd src && touch /proc/self/cwd/new
cd src && cp ../a.py /proc/self/cwd/main.py
cd src && rm /proc/self/cwd/main.py
cd src && echo x > /proc/self/cwd/main.py
sh -c "cd src; touch /proc/self/cwd/x"
env -C src touch /proc/self/cwd/x
git -C src log --output=/proc/self/cwd/x
rm -rf by_link/src
rm -rf /proc/self/cwd/
""".strip().splitlines()


@pytest.fixture
def project(own_scratch, monkeypatch):
    """A process whose directory has the files that the shell, in another directory, does not have."""
    own_scratch.project.joinpath("by_link").symlink_to("/proc/self/cwd")
    own_scratch.project.joinpath("sub", "a.py").symlink_to(own_scratch.outside / "secret")
    monkeypatch.chdir(own_scratch.project)
    return own_scratch


@pytest.mark.finding("P3")
@pytest.mark.parametrize("mode", [Mode.DEFAULT, Mode.PLAN, Mode.ACCEPT_EDITS])
@pytest.mark.parametrize("line", READS)
def test_a_path_through_a_process_asks(project, line, mode):
    assert project.run(line, mode).verdict is Verdict.ASK


@pytest.mark.finding("P12")
@pytest.mark.parametrize("line", READS)
def test_where_a_file_is_denied_no_path_through_a_process_is_read(project, line):
    assert project.run(line, Mode.BYPASS, deny=["Read(secret)"]).verdict is Verdict.DENY


@pytest.mark.finding("P12")
@pytest.mark.parametrize("line", WRITES)
def test_no_path_through_a_process_is_changed(project, line):
    assert project.run(line, Mode.ACCEPT_EDITS, allow=["Bash(env:*)"]).verdict is Verdict.ASK
    assert project.run(line, Mode.BYPASS, deny=["Edit(src/**)"]).verdict is Verdict.DENY


def test_a_file_tool_follows_no_link_of_a_process(project):
    assert project.read("/proc/self/cwd/a.py").verdict is Verdict.ASK
    assert project.write("by_link/a.py", mode=Mode.ACCEPT_EDITS).verdict is Verdict.ASK


def test_an_owner_of_paths_is_asked_about_a_path_through_a_process(project):
    fence = PathOwnership((OwnedPaths.parse("writer", "src/**", "team.toml:1", project.project),))
    assert fence.refusal(project.project / "by_link" / "src" / "main.py") is not None
    assert fence.refusal(project.project / "a.py") is None


@pytest.mark.parametrize("line", ["cat /proc/self/status", "cat /proc/1/maps", "cat /proc/cpuinfo", "cat /dev/stdin"])
def test_other_files_of_processes_are_files_outside(project, line):
    assert project.run(line).verdict is Verdict.ASK
    assert project.run(line, Mode.BYPASS, deny=["Read(secret)"]).verdict is Verdict.ALLOW


def test_every_other_path_has_the_real_path_of_the_system(project):
    loop = project.project / "loop"
    loop.symlink_to("loop")
    names = ["a.py", "link/secret", "link/../a.py", "sub/../../x", "missing/../a.py", "//etc/hosts", ".", "/", "loop/x"]
    for name in names:
        assert real_path(project.project / name) == os.path.realpath(project.project / name)
