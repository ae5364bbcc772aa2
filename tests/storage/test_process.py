"""Commands end with all that came out of them, in time, and their output is bounded."""

import asyncio
import contextlib
import os
import signal
import stat
import sys
from pathlib import Path

import pytest

from teamwright.processes.commands import (
    Process,
    ProcessCommand,
    ProcessOutput,
    run_argv,
    run_command,
    wait_or_terminate,
)
from teamwright.processes.process_tree import ProcessTree, _list_from_ps, list_processes
from tests.support.programs import reason
from tests.support.waits import WAIT_S

ENV = {"PATH": os.environ["PATH"]}
ESCAPE = (
    "import os,sys,time\n"
    "if os.fork() == 0:\n"
    "    os.setsid()\n"
    "    open(sys.argv[1], 'w').write(str(os.getpid()))\n"
    "    time.sleep(600)\n"
    "time.sleep(float(sys.argv[2]))\n"
)


def shell(script: str, cwd: Path) -> ProcessCommand:
    return ProcessCommand(("/bin/sh", "-c", script), cwd, ENV)


def lives(pid: int) -> bool:
    return any(row.pid == pid for row in list_processes())


async def heard(fifo: Path) -> int:
    """The number that a process writes into this fifo, when it does."""
    async with asyncio.timeout(WAIT_S):
        return int(await asyncio.to_thread(fifo.read_text))


def children() -> set[int]:
    """Our living children. Fails if there is a dead one that nobody has reaped."""
    with contextlib.suppress(ChildProcessError):
        assert os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    return {row.pid for row in list_processes() if row.parent == os.getpid()}


async def test_output_exit_code_and_both_streams_come_back(tmp_path):
    outcome = await run_command(shell("echo out; echo err >&2; exit 3", tmp_path), ProcessOutput(1000), timeout_s=10)
    assert (outcome.exit_code, outcome.output, outcome.timed_out, outcome.left_running) == (
        3,
        "out\nerr\n",
        False,
        False,
    )
    apart = await run_argv(["/bin/sh", "-c", "echo out; echo err >&2"], tmp_path, ENV)
    assert (apart.output, apart.errors) == ("out\n", "err\n")


async def test_a_command_has_an_empty_stdin_its_own_session_and_only_the_environment_it_was_given(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("SECRET_OF_THE_PARENT", "hush")
    script = "import os,sys; print(repr(sys.stdin.read()), os.getsid(0) == os.getpid(), sorted(os.environ))"
    outcome = await run_argv([sys.executable, "-c", script], tmp_path, {"A": "1"})
    assert outcome.output.startswith("'' True") and "SECRET_OF_THE_PARENT" not in outcome.output


async def test_what_a_command_reads_is_given_whole_and_one_that_does_not_read_keeps_nobody_waiting(tmp_path):
    given = os.urandom(1_000_000)
    for script, told in (("wc -c", "1000000"), ("head -c 3 | wc -c", "3"), ("exec 0<&-; echo deaf", "deaf")):
        command = ProcessCommand(("/bin/sh", "-c", script), tmp_path, ENV, input=given)
        outcome = await run_command(command, ProcessOutput(1000), timeout_s=20)
        assert (outcome.output.strip(), outcome.timed_out) == (told, False)
    left = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    command = ProcessCommand(("/bin/sh", "-c", "sleep 600"), tmp_path, ENV, input=given)
    assert (await run_command(command, ProcessOutput(1000), timeout_s=0.2, grace_s=0.1)).timed_out
    assert not left or len(os.listdir("/proc/self/fd")) == left


async def test_a_program_that_is_not_there_is_an_os_error_and_leaves_no_descriptor_open(tmp_path):
    before = len(os.listdir("/dev/fd"))
    with pytest.raises(FileNotFoundError):
        await run_argv(["no-such-program-here"], tmp_path, ENV)
    assert len(os.listdir("/dev/fd")) == before


@pytest.mark.promise("P6", "H2")
async def test_output_over_the_cap_keeps_head_and_tail_and_the_whole_is_in_a_private_file(tmp_path):
    file = tmp_path / "whole.txt"
    outcome = await run_command(
        shell("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done", tmp_path),
        ProcessOutput(2000, file),
        timeout_s=60,
    )
    assert outcome.output.startswith("line 0\n") and outcome.output.endswith("line 19999\n")
    assert len(outcome.output) < 2300 and str(file) in outcome.output
    assert file.read_text() == "".join(f"line {n}\n" for n in range(20000))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_output_under_the_cap_makes_no_file(tmp_path):
    outcome = await run_command(
        shell("printf é%.0s 1 2 3", tmp_path), ProcessOutput(3, tmp_path / "whole.txt"), timeout_s=10
    )
    assert outcome.output == "ééé"


@pytest.mark.promise("P6")
def test_an_endless_output_stops_growing_on_disk_and_in_memory(tmp_path):
    sink = ProcessOutput(1000, tmp_path / "f", file_cap=50_000)
    for n in range(2000):
        sink.feed(b"%05d" % n * 20)
    sink.close()
    assert (tmp_path / "f").stat().st_size == 50_000
    assert sink.is_file_cut and sink.text().endswith("01999") and "first 50,000 bytes" in sink.text()
    assert len(sink._kept_bytes()) < 10_000


def test_output_that_is_no_utf_8_is_replaced_not_raised():
    sink = ProcessOutput(100)
    sink.feed(b"ok \xff\xfe end")
    assert sink.text() == "ok \ufffd\ufffd end"


def test_a_disk_that_refuses_the_file_costs_the_file_only(tmp_path):
    sink = ProcessOutput(10, tmp_path / "missing" / "f")
    sink.feed(b"x" * 100)
    assert sink.file is None and sink.file_failed and "100 bytes" in sink.text()


@pytest.mark.promise("F40", "P6")
async def test_a_timeout_ends_the_whole_group_and_keeps_what_was_written(tmp_path):
    pids = tmp_path / "pids"
    script = f"echo before; sleep 600 & echo $! > {pids}; trap '' TERM; sleep 600; sleep 600"
    outcome = await run_command(shell(script, tmp_path), ProcessOutput(1000), timeout_s=0.5, grace_s=0.3)
    assert outcome.timed_out and outcome.output == "before\n" and outcome.exit_code < 0
    assert not lives(int(pids.read_text()))


@pytest.mark.promise("F62")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="orphans are found by their mark on Linux only")
@pytest.mark.parametrize("parent_lives_s", ["600", "0"], ids=["child", "orphan"])
async def test_a_child_that_left_the_session_is_ended_with_the_rest(tmp_path, parent_lives_s):
    pid_file = tmp_path / "pid"
    os.mkfifo(pid_file)
    script = tmp_path / "escape.py"
    script.write_text(ESCAPE)
    command = shell(f"{sys.executable} {script} {pid_file} {parent_lives_s}; sleep 600", tmp_path)
    process = Process.start(command, ProcessOutput(100))
    escaped = await heard(pid_file)
    assert os.getsid(escaped) != process.pid
    await process.terminate(0.5)
    process.close()
    assert not lives(escaped)
    assert process.exit_code is not None


@pytest.mark.promise("F62")
async def test_cancelling_the_waiter_ends_the_group_and_leaves_no_zombie(tmp_path):
    others = children()
    pid_file = tmp_path / "pid"
    os.mkfifo(pid_file)
    waiting = asyncio.create_task(
        run_command(shell(f"sleep 600 & echo $! > {pid_file}; wait", tmp_path), ProcessOutput(100), timeout_s=60)
    )
    child = await heard(pid_file)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not lives(child)
    assert children() == others


async def test_a_grandchild_that_keeps_the_pipe_open_does_not_hold_the_call(tmp_path):
    process = Process.start(shell("sleep 600 & echo started", tmp_path), output := ProcessOutput(100))
    assert await wait_or_terminate(process, timeout_s=30)
    assert output.text() == "started\n" and process.has_left_running()
    await process.terminate(0.5)
    process.close()
    assert not process.has_left_running()


async def test_a_process_that_left_nothing_says_so(tmp_path):
    process = Process.start(shell("true", tmp_path), ProcessOutput(100))
    assert await wait_or_terminate(process, timeout_s=30)
    assert not process.has_left_running()
    process.close()


async def test_a_stopped_process_is_ended_too(tmp_path):
    process = Process.start(shell("kill -STOP $$; sleep 600", tmp_path), ProcessOutput(100))
    await process.terminate(2)
    process.close()
    assert process.exit_code in {-signal.SIGTERM, -signal.SIGKILL}


async def test_a_number_that_was_taken_by_somebody_else_is_not_touched(tmp_path):
    process = Process.start(shell("sleep 600", tmp_path), ProcessOutput(100))
    stranger = ProcessTree(process.pid)
    stranger._seen.add((process.pid, "another life"))
    stranger._released = True
    assert await stranger.terminate(0.1) == [] and process.exit_code is None
    await process.terminate(0.5)
    process.close()


@pytest.mark.promise("F62")
async def test_a_hundred_commands_leave_no_process_and_no_descriptor(tmp_path):
    others = children()
    before = len(os.listdir("/dev/fd"))
    for _ in range(80):
        await run_command(shell("true", tmp_path), ProcessOutput(100), timeout_s=10)
    await asyncio.gather(
        *(run_command(shell("sleep 0.01", tmp_path), ProcessOutput(100), timeout_s=10) for _ in range(20))
    )
    assert len(os.listdir("/dev/fd")) == before
    assert children() == others


async def test_without_process_descriptors_the_end_is_noticed_too(tmp_path, monkeypatch):
    def refused(pid: int) -> int:
        raise OSError("not in this sandbox")

    monkeypatch.setattr(os, "pidfd_open", refused, raising=False)
    outcome = await run_command(shell("echo out; exit 4", tmp_path), ProcessOutput(100), timeout_s=10)
    assert (outcome.exit_code, outcome.output) == (4, "out\n")
    late = await run_command(shell("sleep 600", tmp_path), ProcessOutput(100), timeout_s=0.2, grace_s=0.5)
    assert late.timed_out and late.exit_code < 0


@pytest.mark.skipif(not os.access("/bin/ps", os.X_OK), reason=reason("ps"))
async def test_ps_tells_what_the_process_file_system_tells(tmp_path, monkeypatch):
    monkeypatch.setattr("teamwright.processes.process_tree.list_processes", _list_from_ps)
    process = Process.start(shell("trap '' TERM; sleep 600 & sleep 600; sleep 600", tmp_path), ProcessOutput(100))
    mine = next(row for row in _list_from_ps() if row.pid == process.pid)
    assert (mine.parent, mine.group) == (os.getpid(), process.pid)
    await process.terminate(0.2)
    process.close()
    assert not [row for row in _list_from_ps() if row.group == process.pid] and process.exit_code is not None
