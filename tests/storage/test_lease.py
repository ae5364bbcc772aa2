"""The lease: one process drives a session, and a dead one does not."""

import fcntl
import json
import os
import threading
from pathlib import Path

import pytest

from teamwright.protocol.errors import CannotStart
from teamwright.storage.file_lease import Lease
from tests.support.waits import WAIT_S


@pytest.mark.promise("P1", "F05")
def test_a_second_life_does_not_start_and_says_who_holds_it(tmp_path, start):
    path = tmp_path / "session" / "lease"
    holder = start("hold_lease", path)
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(CannotStart) as told:
        Lease.take(path, "me")
    assert told.value.slug == "session-busy"
    assert str(holder.pid) in told.value.what
    assert "a test" in told.value.what


@pytest.mark.promise("F29")
def test_a_killed_holder_frees_it_at_once(tmp_path, start):
    path = tmp_path / "lease"
    holder = start("hold_lease", path)
    assert holder.stdout.readline() == "held\n"
    holder.kill()
    holder.wait(WAIT_S)
    Lease.take(path, "me").release()


def test_the_same_process_cannot_take_it_twice_but_again_after_release(tmp_path):
    first = Lease.take(tmp_path / "lease", "first")
    with pytest.raises(CannotStart, match=str(os.getpid())):
        Lease.take(tmp_path / "lease", "second")
    first.release()
    first.release()
    Lease.take(tmp_path / "lease", "third").release()
    assert (tmp_path / "lease").stat().st_mode & 0o777 == 0o600


def test_a_program_started_meanwhile_does_not_keep_it(tmp_path, start):
    parent = start("hold_lease_and_start_another", tmp_path / "lease")
    assert parent.stdout.readline() == "released\n"
    Lease.take(tmp_path / "lease", "me").release()


def test_a_lease_whose_file_was_replaced_is_the_new_files(tmp_path):
    path = tmp_path / "lease"
    old = Lease.take(path, "old")
    path.unlink()
    new = Lease.take(path, "new")
    with pytest.raises(CannotStart, match="new"):
        Lease.take(path, "third")
    old.release()
    new.release()


@pytest.mark.promise("P1", "F05")
@pytest.mark.parametrize("before", ["", "dead"])
def test_a_refused_process_names_a_holder_that_writes_its_note_after_the_refusal(tmp_path, start, before):
    path = tmp_path / "lease"
    if before:
        holder = start("hold_lease", path)
        assert holder.stdout.readline() == "held\n"
        holder.kill()
        holder.wait(WAIT_S)
    path.touch()
    refused = []
    has_read = threading.Event()

    class ReportingPath(type(Path())):
        def read_bytes(self):
            content = super().read_bytes()
            has_read.set()
            return content

    def take():
        with pytest.raises(CannotStart) as raised:
            Lease.take(ReportingPath(path), "me")
        refused.append(raised.value.what)

    with path.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        other = threading.Thread(target=take)
        other.start()
        assert has_read.wait(WAIT_S)
        file.truncate(0)
        os.pwrite(file.fileno(), json.dumps({"pid": os.getpid(), "who": "late"}).encode(), 0)
        other.join(WAIT_S)
    assert refused == [f"process {os.getpid()} drives this session already (late)"]
