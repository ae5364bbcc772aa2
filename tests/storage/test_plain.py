"""Files that somebody else put there: read when they are plain and short enough, and never waited for."""

import os
import re
import subprocess
from pathlib import Path

import pytest

import teamwright
from teamwright.git.repository import current_branch
from teamwright.storage.files import read_beginning, read_plain

GIT = ["git", "-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]


def test_a_plain_file_is_read_whole_through_links(tmp_path):
    (tmp_path / "file").write_bytes(b"x" * 1_000_000)
    (tmp_path / "link").symlink_to("file")
    assert read_plain(tmp_path / "link") == b"x" * 1_000_000
    assert read_plain(tmp_path / "file", most=1_000_000) == b"x" * 1_000_000
    (tmp_path / "empty").touch()
    assert read_plain(tmp_path / "empty") == b""


def test_a_longer_file_is_refused_not_cut(tmp_path):
    (tmp_path / "file").write_bytes(b"x" * 11)
    with pytest.raises(OSError, match="longer than 10 bytes"):
        read_plain(tmp_path / "file", most=10)


def test_what_is_no_plain_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "endless").symlink_to("/dev/zero")
    for name in ("pipe", "endless", "."):
        with pytest.raises(OSError, match="no plain file"):
            read_plain(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        read_plain(tmp_path / "nothing")


def test_the_branch_is_what_git_says_without_running_it(tmp_path):
    def git(*args: str) -> None:
        subprocess.run([*GIT, *args], cwd=tmp_path, check=True)

    git("init", "-q", "-b", "main")
    assert current_branch(tmp_path) == "main"
    git("commit", "-q", "--allow-empty", "-m", "x")
    git("checkout", "-q", "-b", "feature/deep")
    assert current_branch(tmp_path) == "feature/deep"
    git("worktree", "add", "-q", "-b", "beside", str(tmp_path / "tree"))
    assert current_branch(tmp_path / "tree") == "beside"
    git("checkout", "-q", "--detach")
    assert current_branch(tmp_path) == "(detached)"


def test_outside_git_there_is_no_branch_and_a_strange_head_is_unknown(tmp_path):
    assert current_branch(tmp_path) is None
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    for content in (
        b"\xff\xfe",
        b"ref: refs/heads/.invalid\n",
        b"ref: refs/heads/a\x1b[2Jb\n",
        b"ref: elsewhere\n",
        b"",
    ):
        (tmp_path / ".git" / "HEAD").write_bytes(content)
        assert current_branch(tmp_path) == "(unknown)", content


@pytest.mark.finding("P17")
def test_no_path_is_resolved_in_a_way_that_fails_for_a_link_to_itself_or_an_unknown_user():
    sources = sorted(Path(teamwright.__file__).parent.rglob("*.py"))
    assert sources
    for path in sources:
        assert not re.search(r"\.(resolve|expanduser)\(\)", path.read_text()), f"{path}: os.path does the same"


@pytest.mark.finding("P17")
def test_the_beginning_of_a_plain_file_is_read_whatever_its_length(tmp_path):
    with open(tmp_path / "file", "wb") as file:
        file.write(b"ref: refs/heads/main\n")
        file.truncate(3 << 30)
    assert read_beginning(tmp_path / "file", 20) == b"ref: refs/heads/main"
    with pytest.raises(OSError, match="longer than"):
        read_plain(tmp_path / "file")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="no plain file"):
        read_beginning(tmp_path / "pipe", 20)
