"""Journals: a line is there or it is not, after any kill and on a full disk."""

import json
import subprocess
import sys
import tracemalloc
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teamwright.storage.json_lines import Journal, read_backward, read_lines
from tests.support.examples import examples
from tests.support.waits import WAIT_S


def test_lines_come_back_in_order_and_from_the_end(tmp_path):
    path = tmp_path / "sub" / "journal"
    journal = Journal.open(path)
    journal.append(b"one")
    journal.append(b"two", b"three\n")
    assert journal.size == path.stat().st_size
    journal.close()
    journal.close()
    assert list(read_lines(path)) == [b"one", b"two", b"three"]
    assert list(read_backward(path)) == [b"three", b"two", b"one"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_missing_file_has_no_lines(tmp_path):
    assert list(read_lines(tmp_path / "none")) == []
    assert list(read_backward(tmp_path / "none")) == []


@pytest.mark.promise("P1")
@pytest.mark.parametrize("tail", [b"to", b"x" * 200_000])
def test_a_torn_last_line_is_cut_before_an_append(tmp_path, tail):
    path = tmp_path / "journal"
    path.write_bytes(b"one\n" + tail)
    assert list(read_lines(path)) == [b"one"]
    assert list(read_backward(path)) == [b"one"]
    journal = Journal.open(path)
    journal.append(b"two")
    journal.close()
    assert path.read_bytes() == b"one\ntwo\n"


def test_of_a_torn_batch_only_the_tail_is_cut(tmp_path):
    path = tmp_path / "journal"
    path.write_bytes(b"one\ntwo\nthr")
    Journal.open(path).close()
    assert path.read_bytes() == b"one\ntwo\n"


def test_a_file_that_is_one_torn_line_becomes_empty(tmp_path):
    path = tmp_path / "journal"
    path.write_bytes(b"torn")
    Journal.open(path).close()
    assert path.read_bytes() == b""


def test_a_line_with_a_newline_inside_is_refused_and_nothing_is_written(tmp_path):
    journal = Journal.open(tmp_path / "journal")
    with pytest.raises(ValueError, match="newline"):
        journal.append(b"fine", b"not\nfine")
    journal.close()
    assert (tmp_path / "journal").read_bytes() == b""


@settings(max_examples=examples(60), deadline=None)
@given(content=st.lists(st.binary(max_size=300), max_size=40).map(b"\n".join), times=st.sampled_from([1, 700]))
def test_backward_is_forward_reversed(tmp_path_factory, content, times):
    path = tmp_path_factory.mktemp("j") / "journal"
    path.write_bytes(content * times)
    assert list(read_backward(path)) == list(read_lines(path))[::-1]


def test_the_last_lines_of_a_large_file_cost_little_memory(tmp_path):
    path = tmp_path / "journal"
    path.write_bytes((b"x" * 999 + b"\n") * 20_000)
    tracemalloc.start()
    try:
        assert len(list(islice(read_backward(path), 20))) == 20
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.promise("P5")
def test_a_writer_killed_at_any_moment_leaves_whole_lines_without_a_gap(tmp_path, start):
    path = tmp_path / "journal"
    for stop_after in (1, 7, 40):
        path.unlink(missing_ok=True)
        writer = start("append_for_ever", path)
        said = 0
        for _ in range(stop_after):
            said = int(writer.stdout.readline())
        writer.kill()
        writer.wait(WAIT_S)
        Journal.open(path).close()
        numbers = [json.loads(line)["n"] for line in read_lines(path)]
        assert numbers == list(range(len(numbers)))
        assert len(numbers) >= said


def test_a_full_disk_is_told_and_leaves_nothing_half_written(tmp_path, start):
    said, _ = start("fill_the_disk", tmp_path, 8192).communicate(timeout=WAIT_S)
    assert said.split() == ["disk-full", "disk-full", "disk-full"]
    *lines, last = (tmp_path / "journal").read_bytes().split(b"\n")[:-1]
    assert {len(line) for line in lines} == {100}
    assert len(lines) % 2 == 0
    assert last == b"short"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["journal"]


MANY = """
import resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
from teamwright.storage.json_lines import Journal
journals = [Journal.open(Path(sys.argv[1]) / f"{number}.jsonl") for number in range(200)]
for turn in range(2):
    for number, journal in enumerate(journals):
        journal.append(b'{"turn":%d,"number":%d}' % (turn, number))
if sys.argv[2:]:
    journals[0].path.unlink()
    journals[0].append(b"{}")
for journal in journals:
    journal.close()
"""


def many_journals(tmp_path, *more):
    command = [sys.executable, "-c", MANY, str(tmp_path), *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S)


@pytest.mark.promise("P6")
def test_there_may_be_more_journals_than_a_process_may_open_files_and_no_line_is_lost(tmp_path):
    assert many_journals(tmp_path).returncode == 0
    for number in range(200):
        expected = [b'{"turn":%d,"number":%d}' % (turn, number) for turn in range(2)]
        assert list(read_lines(tmp_path / f"{number}.jsonl")) == expected


def test_a_journal_whose_resting_file_is_gone_makes_no_new_one(tmp_path):
    done = many_journals(tmp_path, "remove")
    assert "StorageError" in done.stderr
    assert not (tmp_path / "0.jsonl").exists()


def test_a_closed_journal_takes_no_line(tmp_path):
    journal = Journal.open(tmp_path / "journal")
    journal.close()
    with pytest.raises(ValueError, match="closed"):
        journal.append(b"{}")
