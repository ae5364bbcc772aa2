"""A program is killed: what it had started is found by its records, proved, and ended; nothing else is touched."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from teamwright.processes import process_tree
from teamwright.processes.commands import Process, ProcessCommand, ProcessOutput, run_command, wait_or_terminate
from teamwright.processes.process_records import (
    RECORDS_DIRECTORY,
    ProcessPurpose,
    ProcessRecords,
    end_orphans,
    find_orphans,
)
from teamwright.processes.process_tree import boot_id, list_processes, new_mark, process_start, program_mark
from tests.support.programs import reason
from tests.support.waits import WAIT_S

LINUX = sys.platform.startswith("linux")
GONE = 2**22 + 1
"""A number that no process has: above the highest of Linux."""

PROGRAM = """
import asyncio, os, signal, sys
from pathlib import Path
from teamwright.processes.commands import ProcessOutput
from teamwright.processes.commands import Process, ProcessCommand
from teamwright.processes.process_records import ProcessPurpose, ProcessRecord, ProcessRecords

if sys.argv[3] == "between":
    ProcessRecord.set_pid = lambda self, pid: os.kill(os.getpid(), signal.SIGKILL)

async def main():
    records = ProcessRecords(Path(sys.argv[1]))
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    purpose = ProcessPurpose("ada", "c7", "b000001", "/some/output")
    command = ProcessCommand(("/bin/sh", "-c", sys.argv[2]), Path.cwd(), env, records, purpose)
    process = Process.start(command, ProcessOutput(1000))
    if sys.argv[3] == "finished":
        await process.exited.wait()
        await process.wait_until_silent()
        process.close()
    print("noted", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""
ESCAPE = f"""{sys.executable} -c '
import os, time
if os.fork() == 0:
    os.setsid()
    open("up", "w").write(str(os.getpid()))
    time.sleep(600)
'"""
SCENES = {
    "foreground": "sleep 600 & echo $! > up; wait",
    "stubborn": "trap '' TERM; sleep 600 & echo $! > up; while :; do wait; done",
    "leader gone": "sleep 600 & echo $! > up",
    "left the session": f"{ESCAPE}; sleep 600",
    "left, and the leader gone": ESCAPE,
}
needs_marks = pytest.mark.skipif(not LINUX, reason="orphans are found by their mark on Linux only")


def lives(pid: int) -> bool:
    return any(row.pid == pid for row in list_processes())


@pytest.fixture
def up(tmp_path):
    """Reads the number that a command writes into the pipe `up`."""
    os.mkfifo(tmp_path / "up")
    fd = os.open(tmp_path / "up", os.O_RDWR | os.O_NONBLOCK)

    def read() -> int:
        assert select.select([fd], [], [], WAIT_S)[0], "the command never came up"
        return int(os.read(fd, 100))

    yield read
    os.close(fd)


@pytest.fixture
def program(tmp_path):
    """Starts a program that starts a command and waits; what is left of it is ended after the test."""
    started = []

    def start(script: str, kind: str = "") -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-c", PROGRAM, str(tmp_path / "session"), script, kind]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        started.append(subprocess.Popen(argv, cwd=tmp_path, env=env, stdout=subprocess.PIPE))
        if kind != "between":
            assert started[-1].stdout.readline() == b"noted\n"
        return started[-1]

    yield start
    for one in started:
        one.kill()
        one.communicate()
    end_orphans(tmp_path / "session", 0)


def kill(program: subprocess.Popen[bytes]) -> None:
    program.kill()
    program.wait()


def records(session: Path) -> list[Path]:
    return sorted((session / RECORDS_DIRECTORY).iterdir()) if (session / RECORDS_DIRECTORY).is_dir() else []


def write_record(session: Path, pid: int, start: str, **other) -> Path:
    """A record as an earlier life of the session may have left it."""
    mark = program_mark(GONE, "1") + "0123456789abcdef"
    facts = {"v": 1, "mark": mark, "boot": boot_id(), "by": {"pid": GONE, "start": "1"}, "at": 1, "member": "ada"}
    path = session / RECORDS_DIRECTORY / "0123456789abcdef.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({**facts, "pid": pid, "start": start, **other}))
    return path


@pytest.fixture
def stranger():
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    yield child
    child.kill()
    child.wait()


@needs_marks
@pytest.mark.finding("T14")
@pytest.mark.promise("F21", "F62")
def test_a_child_that_left_the_session_and_the_output_of_a_finished_command_is_found_after_a_kill(
    tmp_path, program, up
):
    first = program(f"({ESCAPE}) >/dev/null 2>&1", "finished")
    child = up()
    kill(first)
    [left] = find_orphans(tmp_path / "session")
    assert left.is_alive and lives(child)
    assert [one.is_alive for one in end_orphans(tmp_path / "session", 0.2)] == [False]
    assert not lives(child) and records(tmp_path / "session") == []


@pytest.mark.promise("P3", "F21", "F62", "D8")
@pytest.mark.parametrize("scene", SCENES, ids=str)
@pytest.mark.slow_after(1)
def test_what_a_killed_program_left_running_is_found_and_ended_with_all_that_came_out_of_it(
    tmp_path, program, up, scene
):
    if not LINUX and "gone" in scene:
        pytest.skip("without its leader a group is proved by its mark, on Linux only")
    first = program(SCENES[scene])
    child = up()
    kill(first)
    assert lives(child), "nobody is left to end it"
    session = tmp_path / "session"
    [left] = find_orphans(session)
    assert left.is_alive and left.purpose == ProcessPurpose("ada", "c7", "b000001", "/some/output") and left.pid > 1
    assert records(session) == [left.file], "looking changes nothing"
    ended = end_orphans(session, 0.2)
    assert [(one.pid, one.is_alive) for one in ended] == [(left.pid, False)]
    assert not [
        row for row in list_processes() if child in {row.pid, row.group} or left.pid in {row.group, row.session}
    ]
    assert records(session) == [] and end_orphans(session) == []


@needs_marks
@pytest.mark.promise("F62")
def test_what_was_started_in_the_instant_of_the_kill_is_found_by_its_mark(tmp_path, program, up):
    first = program("echo $$ > up; exec sleep 600", "between")
    first.wait()
    child = up()
    [left] = find_orphans(tmp_path / "session")
    assert (left.pid, left.is_alive) == (0, True)
    assert [one.is_alive for one in end_orphans(tmp_path / "session")] == [False]
    assert not lives(child) and records(tmp_path / "session") == []


@pytest.mark.promise("F62")
def test_what_a_living_program_runs_is_none_of_ours(tmp_path, program, up):
    program("echo $$ > up; exec sleep 600")
    child = up()
    assert find_orphans(tmp_path / "session") == [] and end_orphans(tmp_path / "session", 0) == []
    assert lives(child) and len(records(tmp_path / "session")) == 1


@needs_marks
def test_whoever_runs_below_a_leftover_does_not_saw_at_its_own_branch(tmp_path, program, up):
    ask = (
        "import sys; from pathlib import Path; from teamwright.processes.process_records import end_orphans\n"
        "open('go').read()\n"
        "found = end_orphans(Path('session'), 0)\n"
        "held = [one.contains_this_process and one.is_alive for one in found]\n"
        "open('up', 'w').write('1' if held == [True] else '0')\n"
    )
    (tmp_path / "ask.py").write_text(ask)
    os.mkfifo(tmp_path / "go")
    first = program(f"echo $$ > up; {sys.executable} ask.py; sleep 600")
    child = up()
    kill(first)
    (tmp_path / "go").write_text("on")
    assert up() == 1
    assert lives(child) and len(records(tmp_path / "session")) == 1


@pytest.mark.promise("F62")
@pytest.mark.parametrize("other", [{}, {"boot": "another boot"}], ids=["other start", "other boot"])
def test_a_number_that_somebody_else_has_now_is_never_touched(tmp_path, stranger, other):
    start = process_start(stranger.pid) if other else "1"
    path = write_record(tmp_path, stranger.pid, start, **other)
    [left] = find_orphans(tmp_path)
    assert (left.pid, left.is_alive) == (stranger.pid, False)
    assert end_orphans(tmp_path, 0) == []
    assert stranger.poll() is None and not path.exists()


def test_the_same_record_with_the_right_start_proves_the_process(tmp_path, stranger):
    write_record(tmp_path, stranger.pid, process_start(stranger.pid))
    assert [one.is_alive for one in find_orphans(tmp_path)] == [True]
    assert [one.is_alive for one in end_orphans(tmp_path)] == [False]
    assert stranger.wait(WAIT_S) == -signal.SIGTERM


@pytest.mark.skipif(not os.access("/bin/ps", os.X_OK), reason=reason("ps"))
def test_without_a_process_file_system_the_start_that_ps_tells_is_the_proof(tmp_path, stranger, monkeypatch):
    boot_id.cache_clear()
    monkeypatch.setattr(process_tree, "_LINUX", False)
    try:
        path = write_record(tmp_path, stranger.pid, str(int(time.time()) - 3600))
        assert end_orphans(tmp_path) == [] and stranger.poll() is None and not path.exists()
        path.parent.rmdir()
        write_record(tmp_path, stranger.pid, process_start(stranger.pid, just_started=True))
        assert [one.is_alive for one in end_orphans(tmp_path)] == [False]
    finally:
        boot_id.cache_clear()
    assert stranger.wait(WAIT_S) == -signal.SIGTERM


DAMAGED = {
    "empty": b"",
    "torn": b'{"v":1,"mark":"1.2.01234567',
    "no object": b"[1]",
    "deep": b"[" * 50_000,
    "binary": bytes(range(256)),
    "huge": b" " * 100_000,
    "no mark": b'{"v":1,"boot":"","by":{"pid":1,"start":"1"},"at":1,"pid":PID,"start":"START"}',
    "mark of all": b'{"v":1,"mark":"","boot":"BOOT","by":{"pid":4194305,"start":"1"},"at":1,"pid":PID,"start":"START"}',
    "init": b'{"v":1,"mark":"4194305.1.x","boot":"BOOT","by":{"pid":4194305,"start":"1"},"at":1,"pid":1,"start":"1"}',
    "all": b'{"v":1,"mark":"4194305.1.x","boot":"BOOT","by":{"pid":4194305,"start":"1"},"at":1,"pid":-1,"start":"1"}',
    "by nobody": b'{"v":1,"mark":"4194305.1.x","boot":"BOOT","by":7,"at":1,"pid":PID,"start":"START"}',
}


@pytest.mark.promise("P5", "F62")
@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_record_ends_nothing_and_goes_when_it_is_old(tmp_path, stranger, content):
    path = tmp_path / RECORDS_DIRECTORY / "x.json"
    path.parent.mkdir()
    start = process_start(stranger.pid)
    for name, value in {b"PID": str(stranger.pid), b"START": start, b"BOOT": boot_id()}.items():
        content = content.replace(name, value.encode())
    path.write_bytes(content)
    (path.parent / "dir.json").mkdir()
    (path.parent / "note.txt").write_text("not ours")
    assert find_orphans(tmp_path) == [] and end_orphans(tmp_path, 0) == []
    assert path.exists(), "it may be one that is being written"
    os.utime(path, (1, 1))
    assert end_orphans(tmp_path, 0) == []
    assert not path.exists() and (path.parent / "note.txt").exists() and stranger.poll() is None


def test_no_directory_no_leftovers(tmp_path):
    assert find_orphans(tmp_path / "nothing") == end_orphans(tmp_path / "nothing") == []


# ── records ──────────────────────────────────────────────────────────────────────────────────────────────────────


def command(script: str, cwd: Path, kept: ProcessRecords) -> ProcessCommand:
    return ProcessCommand(
        ("/bin/sh", "-c", script), cwd, {"PATH": os.environ["PATH"]}, kept, ProcessPurpose("ada", "c1")
    )


@pytest.mark.promise("F62")
@pytest.mark.slow
async def test_two_hundred_commands_leave_no_record(tmp_path):
    kept = ProcessRecords(tmp_path)
    for n in range(190):
        await run_command(command("true" if n % 2 else "exit 1", tmp_path, kept), ProcessOutput(100), timeout_s=10)
    for _ in range(10):
        await run_command(
            command("sleep 600 & sleep 600", tmp_path, kept), ProcessOutput(100), timeout_s=0.01, grace_s=0.01
        )
    with contextlib.suppress(FileNotFoundError):
        await run_command(ProcessCommand(("no-such-program",), tmp_path, {}, kept), ProcessOutput(100), timeout_s=10)
    assert records(tmp_path) == [] and (tmp_path / RECORDS_DIRECTORY).is_dir() and not kept.failed


@pytest.mark.promise("F62", "F66")
async def test_a_record_is_there_as_long_as_the_group_lives_private_and_without_the_command(tmp_path):
    kept = ProcessRecords(tmp_path)
    process = Process.start(command("sleep 600 & : hush-1234", tmp_path, kept), ProcessOutput(100))
    assert await wait_or_terminate(process, timeout_s=30)
    [path] = records(tmp_path)
    facts = json.loads(path.read_text())
    assert (facts["member"], facts["call"], facts["pid"]) == ("ada", "c1", process.pid)
    assert facts["by"] == {"pid": os.getpid(), "start": process_start(os.getpid())}
    assert path.stat().st_mode & 0o777 == 0o600 and b"hush" not in path.read_bytes()
    process.close()
    assert process.has_left_running() and records(tmp_path) == [path]
    await process.terminate(0.5)
    assert records(tmp_path) == []


async def test_what_cannot_be_noted_runs_all_the_same(tmp_path):
    (tmp_path / RECORDS_DIRECTORY).write_text("a file is in the place of the directory")
    kept = ProcessRecords(tmp_path)
    outcome = await run_command(command("echo out", tmp_path, kept), ProcessOutput(100), timeout_s=10)
    assert (outcome.exit_code, outcome.output) == (0, "out\n") and kept.failed
    assert find_orphans(tmp_path) == end_orphans(tmp_path) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody who may not write")
def test_a_directory_that_cannot_be_written_costs_the_record_and_nothing_else(tmp_path, stranger):
    write_record(tmp_path, stranger.pid, "1")
    script = (
        "import asyncio, os, sys; from pathlib import Path\n"
        "from teamwright.processes.commands import ProcessOutput\n"
        "from teamwright.processes.commands import ProcessCommand, run_command\n"
        "from teamwright.processes.process_records import ProcessRecords\n"
        "from teamwright.processes.process_records import end_orphans, find_orphans\n"
        "session = os.open(sys.argv[1], os.O_RDONLY)\n"
        "os.fchdir(session); os.setuid(65534)\n"
        "kept = ProcessRecords(Path('.'))\n"
        "command = ProcessCommand(('/bin/echo', 'out'), Path('/'), {}, kept)\n"
        "done = asyncio.run(run_command(command, ProcessOutput(100), timeout_s=10))\n"
        "print(done.output.strip(), bool(kept.failed), [one.is_alive for one in find_orphans(Path('.'))])\n"
        "print(end_orphans(Path('.'), 0))\n"
    )
    for path in [tmp_path, tmp_path / RECORDS_DIRECTORY, *records(tmp_path)]:
        path.chmod(path.stat().st_mode & ~0o022 | 0o555)  # the umask may let the group write
    argv = [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(
        argv, env={"PYTHONPATH": os.pathsep.join(sys.path)}, capture_output=True, text=True, timeout=WAIT_S
    )
    assert done.stdout.splitlines() == ["out True [False]", "[]"], done.stderr
    assert len(records(tmp_path)) == 1


def test_marks_name_the_life_that_made_them_and_never_repeat():
    marks = {new_mark() for _ in range(100)}
    assert len(marks) == 100 and all(
        one.startswith(program_mark(os.getpid(), process_start(os.getpid()))) for one in marks
    )
