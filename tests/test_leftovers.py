"""A process that a test leaves in its directory is found at the end of the run, named and ended."""

import os
import subprocess

import pytest

from tests.support import leftovers
from tests.support.waits import WAIT_S


@pytest.mark.skipif(not os.path.exists("/proc/self/cwd"), reason="the system does not tell where a process runs")
def test_a_process_that_waits_in_the_directory_is_found_and_one_whose_pipe_is_released_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(leftovers, "WAIT_S", 0.0)
    os.mkfifo(tmp_path / "gate")
    with subprocess.Popen(["cat", "gate"], cwd=tmp_path) as held:
        assert leftovers.end_left_in(tmp_path) == {held.pid: "cat gate "}
    with subprocess.Popen(["cat", tmp_path / "gate"], cwd=tmp_path.parent) as elsewhere:
        assert not leftovers.running_in(tmp_path)
        leftovers.release(tmp_path / "gate")
        elsewhere.wait(WAIT_S)
    leftovers.release(tmp_path / "gate")
