"""A team over several machines in a small size; `make scale MACHINES=8` runs the large one."""

import re
import subprocess
import sys

import pytest

from tests.scale.crew import ROOT
from tests.support.postgres import server_program
from tests.support.programs import reason
from tests.support.waits import WAIT_S

MEMBERS, TASKS, MESSAGES = 6, 24, 4

CONNECTIONS = 5
"""Connections of a process: one for its lease, and those of its pool."""


@pytest.mark.slow
@pytest.mark.promise("J6")
def test_members_on_three_machines_complete_each_task_once_and_record_each_message_once():
    if server_program("postgres") is None:
        pytest.skip(reason("postgres"))
    size = ["--workers", "3", "--members", str(MEMBERS), "--tasks", str(TASKS), "--messages", str(MESSAGES)]
    command = [sys.executable, "-m", "tests.scale.machines", *size]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=WAIT_S * 8)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "every task was completed once, every message was recorded once" in done.stdout
    found = re.search(r"(\d+) tasks, (\d+) messages recorded", done.stdout)
    assert found is not None and int(found[1]) == TASKS and int(found[2]) >= TASKS * MESSAGES, done.stdout
    found = re.search(r"([\d.]+) connections a process", done.stdout)
    assert found is not None and float(found[1]) <= CONNECTIONS, done.stdout
