"""An index that names files outside the working tree: git shows them, so each command of git that only reads asks."""

import hashlib
import os
import struct
import subprocess

import pytest

from teamwright.git.repository_risks import read_index
from teamwright.permissions.verdict import Verdict
from tests.support.waits import WAIT_S

READING = ("git status", "git diff", "git diff HEAD", "git ls-files -m", "git grep -n secret", "git stash list")
HONEST = ("--index-version=2", "--index-version=4", "--split-index", "--add --cacheinfo 100755,HASH,x..y/.gitignore")


@pytest.fixture
def repository(own_scratch):
    git(own_scratch, "add", "a.py", "b.py", "src")
    git(own_scratch, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first")
    return own_scratch


def git(scratch, *args: str, check: bool = True) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": str(scratch.home)}
    argv = ["git", "-C", str(scratch.project), *args]
    return subprocess.run(argv, env=env, capture_output=True, text=True, check=check, timeout=WAIT_S).stdout


def entry(path: bytes, oid: bytes, version: int, mode: int = 0o100644) -> bytes:
    head = struct.pack(">10I", 1, 0, 1, 0, 0, 0, mode, 0, 0, 3) + oid + struct.pack(">H", len(path))
    if version == 4:
        return head + b"\0" + path + b"\0"
    return head + path + b"\0" * (8 - (len(head) + len(path)) % 8)


def write_index(scratch, *paths: str, version: int = 2, extensions: bytes = b"", mode: int = 0o100644) -> None:
    oid = bytes.fromhex(git(scratch, "rev-parse", "HEAD:a.py").strip())
    content = b"DIRC" + struct.pack(">II", version, len(paths))
    content += b"".join(entry(path.encode(), oid, version, mode) for path in sorted(paths)) + extensions
    (scratch.project / ".git" / "index").write_bytes(content + hashlib.sha1(content).digest())


@pytest.mark.finding("P5")
@pytest.mark.promise("G1")
@pytest.mark.parametrize("version", [2, 4])
@pytest.mark.parametrize("path", ["../outside/secret", "src/../../outside/secret", "ABSOLUTE", ".git/config"])
def test_git_asks_where_its_index_names_a_file_outside_the_working_tree(repository, path, version):
    (repository.project / "link").unlink()
    assert all(repository.run(line).verdict is Verdict.ALLOW for line in READING)
    path = path.replace("ABSOLUTE", str(repository.outside / "secret"))
    write_index(repository, path, version=version)
    assert f"+{'[core]' if 'config' in path else 'secret'}" in git(repository, "diff")  # git shows it
    for line in READING:
        assert repository.run(line).verdict is Verdict.ASK, line


@pytest.mark.finding("P5")
@pytest.mark.promise("G1")
def test_a_link_in_the_way_of_an_entry_shows_nothing_but_to_git_grep(repository):
    write_index(repository, "link/secret", "link")
    shown = [git(repository, *line.split()[1:], check=False) for line in READING]
    assert [line for line, text in zip(READING, shown, strict=True) if "\n+secret" in text or ":secret" in text] == [
        "git grep -n secret"
    ]
    assert repository.run("git diff").verdict is Verdict.ALLOW
    assert repository.run("git grep -n secret").verdict is Verdict.ASK


@pytest.mark.finding("P5")
def test_git_asks_where_its_index_cannot_be_read_as_git_reads_it(repository):
    index = repository.project / ".git" / "index"
    table = b"IEOT" + struct.pack(">IIII", 12, 1, 20, 1)
    for extensions in (b"EOIE" + struct.pack(">II", 4, 20), table, b"TREE" + struct.pack(">I", 99)):
        write_index(repository, "a.py", extensions=extensions)
        assert repository.run("git status").verdict is Verdict.ASK, extensions
    write_index(repository, "a.py")
    assert repository.run("git status").verdict is Verdict.ALLOW
    for content in (b"", b"DIRC", index.read_bytes()[:60], index.read_bytes() + b"x"):
        index.write_bytes(content)
        assert repository.run("git status").verdict is Verdict.ASK, content
    with index.open("wb") as file:
        file.truncate(3 << 30)
    assert repository.run("git status").verdict is Verdict.ASK


@pytest.mark.finding("P5")
@pytest.mark.parametrize("form", HONEST)
def test_git_reads_unasked_whatever_form_it_gave_its_index(repository, form):
    form = form.replace("HASH", git(repository, "rev-parse", "HEAD:a.py").strip())
    git(repository, "update-index", *form.split())
    assert repository.run("git status").verdict is Verdict.ALLOW


@pytest.mark.finding("P5")
def test_an_index_of_a_repository_with_long_hashes_and_blocks_of_entries_is_read(tmp_path):
    options = ("threads=3", "recordOffsetTable=true", "recordEndOfIndexEntries=true", "version=4")
    given = [word for option in options for word in ("-c", f"index.{option}")]
    subprocess.run(["git", "init", "-q", "--object-format=sha256", str(tmp_path)], check=True)
    for number in range(30):
        (tmp_path / f"file{number}").write_text("x")
    subprocess.run(["git", "-C", str(tmp_path), *given, "add", "-A"], check=True)
    index = tmp_path / ".git" / "index"
    assert b"IEOT" in index.read_bytes()
    assert read_index(index, 32).is_readable
    assert not read_index(index, 20).is_readable
