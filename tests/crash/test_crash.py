"""The short form of the crash suite: one job that is killed again and again; `make crash` plays hundreds."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.mutants import noticed
from tests.support.postgres import server_program
from tests.support.programs import reason

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.mark.promise("P1", "P2", "P3", "P5", "F02", "F03", "F05", "F13", "F14", "F16", "F17", "F21", "F25", "F29")
@pytest.mark.promise("F55", "F57", "C7a", "D8")
def test_a_team_that_is_killed_at_random_loses_nothing_and_doubles_nothing(tmp_path):
    command = [sys.executable, "-m", "tests.crash.run", "--kills", "16", "--most", "16", "--seconds", "20"]
    ended = subprocess.run([*command, "--place", str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert ended.returncode == 0, ended.stdout


@pytest.mark.promise("P1", "P2", "P5", "F21", "F27", "C7a", "D8", "E6")
def test_lead_and_members_in_processes_of_their_own_are_killed_and_nothing_is_lost_doubled_or_left(tmp_path):
    command = [sys.executable, "-m", "tests.crash.processes", "--kills", "5", "--most", "5", "--backends", "detached"]
    ended = subprocess.run([*command, "--place", str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert ended.returncode == 0, ended.stdout


@pytest.mark.promise("P1", "P2", "P5", "J6")
def test_a_team_in_a_database_that_is_killed_and_moved_between_machines_loses_nothing_and_doubles_nothing(tmp_path):
    if server_program("postgres") is None:
        pytest.skip(reason("postgres"))
    command = [sys.executable, "-m", "tests.crash.database", "--kills", "8", "--most", "8", "--seconds", "20"]
    ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert ended.returncode == 0, ended.stdout


@pytest.mark.promise("P1", "P2", "P5", "J6")
def test_leads_workers_machines_and_members_are_killed_or_cut_off_and_nothing_is_lost_or_doubled(tmp_path):
    if server_program("postgres") is None:
        pytest.skip(reason("postgres"))
    command = [sys.executable, "-m", "tests.crash.workers", "--kills", "3", "--most", "3"]
    ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert ended.returncode == 0, ended.stdout


@pytest.mark.promise("P1", "F29")
@pytest.mark.parametrize("name", ["guard", "ledger"])
def test_the_suite_notices_that_a_safety_is_missing(tmp_path, monkeypatch, name):
    """`make crash-mutations` tries them all."""
    monkeypatch.chdir(ROOT)
    assert noticed(name, "--place", str(tmp_path)) is not None
