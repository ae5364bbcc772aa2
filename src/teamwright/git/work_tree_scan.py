"""Scans of a git work tree for files that changed since the last scan, without a write into the repository.

A private git directory has a copy of the index, whose entries keep the state of each file, and an object directory for
contents that the repository does not have. Configuration, hooks and filters of the repository are not read, so git runs
no other program. Format of the output: git-status(1), porcelain 2. Depends on git.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from msgspec import Struct

from teamwright.git.git_calls import git_env, git_program
from teamwright.git.repository import GitRepository

_CONFIG = (
    "[core]\n\trepositoryformatversion = 0\n\tuntrackedCache = true\n\tfsmonitor = false\n\thooksPath = /dev/null\n"
)
_ATTRIBUTES = "* -text -filter -ident -working-tree-encoding -eol\n"
_IDENTITY = {f"GIT_{who}_{what}": "teamwright" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
_STATUS = (
    *("status", "--porcelain=v2", "-z", "--untracked-files=all"),
    *("--no-renames", "--ignore-submodules=all", "--no-ahead-behind"),
)
_FIRST_TIMEOUT_S = 10.0
_TIMEOUT_S = 2.0


class ChangedFile(Struct, frozen=True):
    """A file that differs from the last scan. `blob` names its content then, `mode` is its mode as git writes it
    (100644, 100755, 120000 for a link); both are empty when the file did not exist.
    """

    path: str
    blob: str = ""
    mode: str = ""


class WorktreeScan:
    """The scans of one work tree. All calls block, and only one process may scan at a time."""

    def __init__(self, repository: GitRepository, private: Path) -> None:
        """Create the scan. `private` is the directory of its files, which the first scan creates."""
        self.repository = repository
        self.private = private
        self._remembered = private / "remembered"
        """The paths whose content a scan has stored as it is, each ended by a NUL."""
        self._env = {
            **git_env(),
            **_IDENTITY,
            "GIT_DIR": str(private),
            "GIT_WORK_TREE": str(repository.tree),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_OPTIONAL_LOCKS": "1",  # the private index keeps what a scan has learned
            "GIT_LITERAL_PATHSPECS": "1",
        }

    @property
    def is_ready(self) -> bool:
        """True after `prepare`."""
        return (self.private / "HEAD").exists()

    def prepare(self) -> None:
        """Make the private git directory with the present state of the work tree. Raises OSError."""
        shutil.rmtree(self.private, ignore_errors=True)
        for name in ("refs", "objects/info", "info"):
            (self.private / name).mkdir(mode=0o700, parents=True)
        common = self.repository.common
        (self.private / "objects/info/alternates").write_text(f"{common / 'objects'}\n")
        (self.private / "info/attributes").write_text(_ATTRIBUTES)
        (self.private / "config").write_text(_CONFIG)
        if (common / "info/exclude").is_file():
            shutil.copyfile(common / "info/exclude", self.private / "info/exclude")
        if (self.repository.git_dir / "index").is_file():
            shutil.copyfile(self.repository.git_dir / "index", self.private / "index")
        self._remembered.touch()
        draft = self.private / "HEAD"
        draft.write_text("ref: refs/heads/none\n")
        try:
            tree = self._git("write-tree", timeout_s=_FIRST_TIMEOUT_S).decode().strip()
            draft.write_bytes(self._git("commit-tree", tree, "-m", "snapshot", timeout_s=_FIRST_TIMEOUT_S))
        except OSError:
            draft.unlink()
            raise

    def changed_files(self) -> list[ChangedFile]:
        """Return the files that changed since `remember` or `prepare`, ignored files excepted. Raises OSError."""
        found: list[ChangedFile] = []
        for row in self._git(*_STATUS).split(b"\0"):
            if row.startswith(b"? "):
                found.append(ChangedFile(os.fsdecode(row[2:])))
            elif row.startswith(b"1 ") and row[3:4] != b".":
                fields = row.split(b" ", 8)
                path = os.fsdecode(fields[8])
                is_new = fields[4] == b"000000"
                found.append(ChangedFile(path, *(() if is_new else (fields[7].decode(), fields[4].decode()))))
        return [file for file in found if not file.path.endswith("/")]

    def former_contents(self, files: Sequence[ChangedFile]) -> dict[str, bytes]:
        """Return the content of each file at the last scan. A file is left out when git stored it converted.

        Call it before `remember`. Raises OSError.
        """
        tracked = [file for file in files if file.blob]
        if not tracked:
            return {}
        remembered = {os.fsdecode(path) for path in self._remembered.read_bytes().split(b"\0")}
        sizes = self._sizes([file.path for file in tracked])
        blobs = "".join(f"{file.blob}\n" for file in tracked).encode()
        answer = self._git("cat-file", "--batch", stdin=blobs)
        contents: dict[str, bytes] = {}
        at = 0
        for file in tracked:
            end = answer.index(b"\n", at)
            head = answer[at:end].split(b" ")
            at = end + 1
            if len(head) != 3:  # the object is missing, as in a partial clone
                continue
            content = answer[at : at + int(head[2])]
            at += int(head[2]) + 1
            # git forgets the size of a file that changed in the moment of a scan, but no scan stores it converted
            if file.path in remembered or sizes.get(file.path) == len(content):
                contents[file.path] = content
        return contents

    def remember(self, files: Sequence[ChangedFile]) -> None:
        """Make the present state of these files the state of the last scan. Raises OSError."""
        if files:
            paths = b"".join(os.fsencode(file.path) + b"\0" for file in files)
            self._git("update-index", "--add", "--remove", "-z", "--stdin", stdin=paths, timeout_s=_FIRST_TIMEOUT_S)
            with open(self._remembered, "ab") as file:
                file.write(paths)

    def _sizes(self, paths: Sequence[str]) -> dict[str, int]:
        """Return the sizes that the files had in the work tree at the last scan."""
        sizes: dict[str, int] = {}
        rows = self._git("ls-files", "--debug", "-z", "--", *paths).split(b"\0")
        for row, after in pairwise(rows):
            name = row.rsplit(b"flags: ", 1)[-1].split(b"\n", 1)[-1] if b"flags: " in row else row
            found = after.partition(b"size: ")[2].split(b"\t")[0]
            if found.isdigit():
                sizes[os.fsdecode(name)] = int(found)
        return sizes

    def _git(self, *args: str, stdin: bytes = b"", timeout_s: float = _TIMEOUT_S) -> bytes:
        try:
            done = subprocess.run(
                [git_program(), "--no-pager", *args],
                cwd=self.repository.tree,
                env=self._env,
                input=stdin,
                capture_output=True,
                check=False,
                timeout=timeout_s,
            )
        except subprocess.TimeoutExpired as problem:
            raise TimeoutError(f"git {args[0]} did not end in {timeout_s:g} s") from problem
        if done.returncode:
            reason = " ".join(done.stderr.decode("utf-8", "replace").split())[:200]
            raise OSError(f"git {args[0]}: {reason}")
        return done.stdout
