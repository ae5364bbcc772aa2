"""Whole files: the old or the new, private, and nothing left beside them."""

import errno
import os
import threading
import time

import pytest

from teamwright.protocol.errors import StorageError
from teamwright.storage.files import (
    PENDING_MAX_AGE_S,
    PendingFile,
    remove_old_pending_files,
    storage_error,
    write_atomic,
    write_new,
)
from tests.support.waits import WAIT_S


@pytest.mark.promise("F66")
def test_files_are_0600_and_their_directories_0700_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        write_atomic(tmp_path / "a" / "b" / "file", b"x")
        write_new(tmp_path / "a" / "new", b"x")
    finally:
        os.umask(before)
    assert (tmp_path / "a" / "b" / "file").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "a" / "new").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("fsync", [False, True])
def test_a_file_is_replaced_whole_and_nothing_stays_beside_it(tmp_path, fsync):
    path = tmp_path / "file"
    write_atomic(path, b"old", fsync=fsync)
    write_atomic(path, b"new" * 100_000, fsync=fsync)
    assert path.read_bytes() == b"new" * 100_000
    assert os.listdir(tmp_path) == ["file"]


def test_a_reader_that_has_the_old_file_open_keeps_it(tmp_path):
    path = tmp_path / "file"
    write_atomic(path, b"old")
    with path.open("rb") as reader:
        write_atomic(path, b"new")
        assert reader.read() == b"old"


@pytest.mark.promise("P4")
def test_of_many_writers_of_a_new_file_exactly_one_is_first(tmp_path):
    path = tmp_path / "answer"
    won = []
    writers = [
        threading.Thread(target=lambda n=n: won.append(n) if write_new(path, b"%d" % n) else None) for n in range(16)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(WAIT_S)
    assert len(won) == 1
    assert path.read_bytes() == b"%d" % won[0]
    assert os.listdir(tmp_path) == ["answer"]


def test_a_draft_that_is_given_up_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "file"
    write_atomic(path, b"old")
    draft = PendingFile(path, b"new")
    draft.discard()
    draft.close()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_name_that_is_a_directory_is_refused_and_nothing_stays_beside_it(tmp_path):
    (tmp_path / "file").mkdir()
    with pytest.raises(StorageError):
        write_atomic(tmp_path / "file", b"x")
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_no_space_no_quota_and_no_size_are_all_a_full_disk(number):
    assert storage_error(OSError(number, "full"), "/file").slug == "disk-full"


def test_an_error_of_ours_is_not_wrapped_again():
    ours = StorageError("lock-lost", "gone")
    assert storage_error(ours, "/file") is ours
    assert storage_error(PermissionError(errno.EACCES, "no"), "/file").slug == "io-failed"


def test_drafts_of_killed_writers_are_swept_and_nothing_else_is(tmp_path):
    names = ["config.json.tmp.0a1b2c3d", "config.json.tmp.later", "4.json", "young.json.tmp.00000000"]
    for name in names:
        (tmp_path / name).write_text("x")
    old = time.time() - PENDING_MAX_AGE_S - 5
    for name in names[:3]:
        os.utime(tmp_path / name, (old, old))
    remove_old_pending_files(tmp_path, tmp_path / "none")
    assert sorted(os.listdir(tmp_path)) == sorted(names[1:])
