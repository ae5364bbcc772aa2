"""Limits of memory and processes: a command that exceeds them ends, and nothing else does."""

import threading
from pathlib import Path

import pytest

from teamwright.sandbox import sandbox as sandbox_module
from teamwright.sandbox.landlock import probe_landlock
from teamwright.sandbox.limits import OOM_SCORE, with_limits
from teamwright.sandbox.policy import PolicyName, SandboxPolicy, SandboxSettings, usual_memory_mb
from teamwright.sandbox.sandbox import Implementation
from tests.support.programs import needs

ALLOCATES = "python3 -c 'bytearray(400 << 20)' && echo allocated; cat /proc/self/oom_score_adj"


@needs("bwrap")
@pytest.mark.parametrize("policy", [PolicyName.READ, PolicyName.WORK])
def test_an_allocation_above_the_limit_fails_in_the_command(confined, policy):
    limited = confined.run(policy, ALLOCATES, settings=SandboxSettings(memory_mb=200)).stdout
    assert "MemoryError" in limited and "allocated" not in limited and str(OOM_SCORE) in limited
    assert "allocated" in confined.run(policy, ALLOCATES).stdout


def test_landlock_limits_memory_too(confined, monkeypatch):
    version = probe_landlock()
    if not version:
        pytest.skip("no Landlock here")
    monkeypatch.setattr(sandbox_module, "find_implementation", lambda: Implementation("landlock", landlock=version))
    limited = confined.work_in(ALLOCATES, settings=SandboxSettings(memory_mb=200)).stdout
    assert "MemoryError" in limited and str(OOM_SCORE) in limited


@needs("bwrap")
def test_a_command_has_a_limit_of_processes(confined):
    assert confined.work_in("ulimit -Hu", settings=SandboxSettings(processes=300)).stdout == "300\n"


@pytest.mark.usefixtures("landlock")
def test_where_all_processes_of_the_user_count_the_limit_is_above_those_of_the_machine(confined):
    threads = int(Path("/proc/loadavg").read_text().split()[3].split("/")[1])
    limit = int(confined.work_in("ulimit -Hu", settings=SandboxSettings(processes=300)).stdout)
    assert 300 < limit < 300 + threads * 10


def test_the_usual_limit_of_memory_is_below_that_of_the_machine():
    line = with_limits(("bash", "-c", "true"), SandboxPolicy(PolicyName.WORK), has_own_users=True)[2]
    assert f"ulimit -d {usual_memory_mb() * 1024} " in line and line.endswith("; true")
    assert with_limits(("true",), SandboxPolicy(PolicyName.WORK), has_own_users=True)[-2:] == ["sh", "true"]


@pytest.mark.usefixtures("landlock")
def test_a_start_without_room_for_a_thread_is_an_error_with_a_sentence(confined):
    before = threading.stack_size(2**47 - 4096)  # more than a process can map
    try:
        with pytest.raises(OSError, match="no room for another thread or process"):
            confined.work_in("true")
    finally:
        threading.stack_size(before)
    assert confined.work_in("echo done").stdout == "done\n"
