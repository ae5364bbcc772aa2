"""Other processes: one life of each is told apart, its end is an event, and what came out of it is found."""

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from teamwright.processes.commands import Process, ProcessCommand, ProcessOutput
from teamwright.processes.pid_watch import WatchedProcess, kill_all
from teamwright.processes.process_tree import MARK_VARIABLE, is_marked
from tests.support.waits import WAIT_S

SLEEP = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]


@pytest.fixture
def sleeper():
    process = subprocess.Popen(SLEEP, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "up\n"
    yield process
    process.kill()
    process.communicate()


async def test_the_end_of_a_process_is_noticed_though_nobody_reaps_it(sleeper):
    life = WatchedProcess.open(sleeper.pid)
    assert life.is_alive
    assert not await life.wait_for_end(0)
    os.kill(sleeper.pid, signal.SIGKILL)
    assert await life.wait_for_end(WAIT_S)
    assert not life.is_alive
    assert WatchedProcess.open(sleeper.pid) is None, "what only waits to be reaped is over"
    life.signal(signal.SIGTERM)
    life.close()
    life.close()


@pytest.mark.promise("P3")
async def test_a_later_process_of_the_same_number_is_not_meant(sleeper):
    other = WatchedProcess(sleeper.pid, "1", -1)
    assert not other.is_alive
    other.signal(signal.SIGKILL)
    assert await other.wait_for_end(1)
    assert sleeper.poll() is None
    assert other.descendants() == set()


@pytest.mark.parametrize("pid", [-1, 0, 1, 2**22 + 1])
def test_a_number_that_no_process_of_ours_can_have_is_nobody(pid):
    assert WatchedProcess.open(pid) is None


async def test_without_descriptors_of_processes_it_is_looked_at(sleeper, monkeypatch):
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    life = WatchedProcess.open(sleeper.pid)
    assert not await life.wait_for_end(0)
    life.signal(signal.SIGKILL)
    assert await life.wait_for_end(WAIT_S)
    assert not life.is_alive


async def test_only_who_has_the_file_open_has_it(tmp_path, sleeper):
    path = tmp_path / "lease"
    path.touch()
    theirs, ours = WatchedProcess.open(sleeper.pid), WatchedProcess.open(os.getpid())
    assert theirs.has_open(path) is False
    with path.open():
        assert ours.has_open(path) is True
    assert theirs.has_open(tmp_path / "none") is None


@pytest.mark.promise("F21")
async def test_what_came_out_of_a_process_is_found_and_ended_also_what_left_its_group_and_its_parents(tmp_path):
    pipe = tmp_path / "pids"
    os.mkfifo(pipe)
    leaving = f"(setsid sh -c 'echo $$ > {pipe}; exec sleep 60' &) ; echo $$ > {pipe}; exec sleep 60"
    life = WatchedProcess.open(os.getpid())
    process = Process.start(ProcessCommand(["sh", "-c", leaving], tmp_path, dict(os.environ)), ProcessOutput(1000))
    wanted = set[int]()
    async with asyncio.timeout(WAIT_S):
        while len(wanted) < 2:
            wanted |= {int(pid) for pid in (await asyncio.to_thread(pipe.read_text)).split()}
    found = {row for row in life.descendants() if row.pid in wanted}
    assert {row.pid for row in found} == wanted
    assert await kill_all(found, 5) == set()
    await process.terminate(0.1)
    process.close()


@pytest.mark.promise("F21")
@pytest.mark.skipif(sys.platform != "linux", reason="processes carry a mark on Linux only")
def test_a_process_that_replaces_its_program_is_marked_at_every_moment(tmp_path):
    script = tmp_path / "again"
    script.write_text(f'#!/bin/sh\nexec "{script}"\n')
    script.chmod(0o700)
    process = subprocess.Popen([str(script)], env={**os.environ, MARK_VARIABLE: "made.by.this.test"})
    try:
        assert all(is_marked(process.pid, "made.by.this") for _ in range(3_000))
    finally:
        process.kill()
        process.wait()
