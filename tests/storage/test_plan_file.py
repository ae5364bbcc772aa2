"""Names and files of plans: three words, one file a plan, readable by its owner alone."""

import os
import re
import stat

import pytest

from teamwright.protocol.errors import StorageError
from teamwright.storage import plan_file
from teamwright.storage.plan_file import (
    MAX_BYTES,
    create_plan_file,
    plan_name,
    read_plan,
    remove_if_empty,
    reserve_plan,
    write_plan,
)


@pytest.mark.promise("G5")
def test_there_are_many_names_and_each_is_three_plain_words():
    names = {plan_name() for _ in range(1_000)}
    assert len(names) > 900  # of fewer than 4,000 names more than 100 would be repeated
    assert all(re.fullmatch(r"[a-z]+-[a-z]+-[a-z]+", name) for name in names)


def test_no_word_stands_twice_in_a_list():
    for words in (plan_file._QUALITIES, plan_file._KINDS, plan_file._BEINGS):
        assert len(set(words)) == len(words)


@pytest.mark.promise("G5", "F66")
def test_a_plan_file_is_private_before_and_after_it_is_written(tmp_path):
    os.umask(0o022)
    path = reserve_plan(tmp_path / "plans")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert read_plan(path) == ""
    write_plan(path, "# Plan\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and read_plan(path) == "# Plan\n"


@pytest.mark.promise("G5")
def test_plans_whose_names_meet_get_files_of_their_own(tmp_path, monkeypatch):
    names = iter(["brave-oak-otter", "brave-oak-otter", "brave-oak-otter", "calm-oak-otter"])
    monkeypatch.setattr(plan_file, "plan_name", lambda: next(names))
    made = [reserve_plan(tmp_path).name, reserve_plan(tmp_path).name]
    assert made == ["brave-oak-otter.md", "calm-oak-otter.md"]


@pytest.mark.promise("G5")
def test_when_every_name_is_taken_there_is_still_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr(plan_file, "plan_name", lambda: "brave-oak-otter")
    made = {reserve_plan(tmp_path) for _ in range(5)}
    assert len(made) == 5 and all(path.read_bytes() == b"" for path in made)


@pytest.mark.slow
def test_thousands_of_plans_all_have_files_of_their_own(tmp_path):
    assert len({reserve_plan(tmp_path) for _ in range(3_000)}) == 3_000


def test_a_link_in_the_place_of_a_plan_is_not_followed(tmp_path):
    (tmp_path / "brave-oak-otter.md").symlink_to(tmp_path / "elsewhere")
    assert not create_plan_file(tmp_path / "brave-oak-otter.md")
    assert not (tmp_path / "elsewhere").exists()


def test_only_an_unused_name_is_given_back(tmp_path):
    used, unused = reserve_plan(tmp_path), reserve_plan(tmp_path)
    write_plan(used, "x")
    for path in (used, unused, tmp_path / "missing.md"):
        remove_if_empty(path)
    assert used.exists() and not unused.exists() and read_plan(unused) is None


def test_a_plan_that_nobody_could_read_through_is_an_error_not_a_cut_plan(tmp_path):
    path = tmp_path / "long.md"
    path.write_bytes(b"x" * (MAX_BYTES + 1))
    with pytest.raises(StorageError):
        read_plan(path)
