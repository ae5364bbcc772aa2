"""The record of one worktree: a file beside it, with its owner, branch, base and the files that setup made.

Format: docs/reference/formats/worktrees.md. Depends on storage.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, convert, field, to_builtins

from teamwright.protocol.errors import StorageError, UsageError
from teamwright.storage.files import read_plain, write_atomic


def record_file(tree: Path) -> Path:
    """Return the file of the record of a worktree."""
    return tree.parent / f"{tree.name}.json"


def has_record(tree: Path) -> bool:
    """Return True when the worktree is known, also if its directory is gone."""
    return record_file(tree).exists()


VERSION = 2

BRANCHES = "teamwright"
"""The first part of the name of every branch of a worktree."""

INTEGRATION = "integration"
"""The last part of the name of the branch into which members' work is merged."""


class WorktreeRecord(Struct, frozen=True):
    """One worktree."""

    path: str
    """The worktree."""
    repository: str
    """The person's checkout."""
    branch: str
    """`teamwright/<team>/<member>`, or with `-2` and so on."""
    base: str
    """The commit at which the branch began."""
    team: str
    """The team, or the session's short id."""
    member: str
    """A teammate, or the id of a sub-agent that works alone."""
    session: str
    """The session that made it."""
    created_at: int
    """Milliseconds since 1970."""
    base_name: str = ""
    """The branch of the checkout at that time; empty for none."""
    setup: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """Untracked and ignored paths that setup made, each with its number of files and newest time of change in ns."""
    port: int = 0
    """The first port of its range."""
    ports: int = 0
    """The number of ports."""
    made_by_hook: bool = False
    """True when a hook made the worktree; `path` is then a link to it, and `branch` the branch of the hook."""
    device: int = 0
    """The device of the directory that was made; 0 in records of version 1."""
    inode: int = 0
    """The inode of that directory; 0 in records of version 1."""
    git_file: int = 0
    """The time of change of its `.git` file in ns: a new directory may get the inode of a deleted one. 0: not known."""
    lost_files: bool = False
    """True after the worktree was made again, until its agent completes a task: what was not committed is lost."""
    version: int = VERSION
    """2"""

    @property
    def tree(self) -> Path:
        """The directory of the worktree."""
        return Path(self.path)

    @property
    def file(self) -> Path:
        """The file of the record, beside the worktree."""
        return record_file(self.tree)

    @property
    def lease(self) -> Path:
        """The lease of the process whose agent works in it."""
        return self.tree.parent / f"{self.tree.name}.lease"

    @property
    def work_lease(self) -> Path:
        """The lease of the call that commits the member's work, or moves its branch, in any process of the team."""
        return self.tree.parent / f"{self.tree.name}.work-lease"

    @property
    def integration_branch(self) -> str:
        """The branch into which this member's work is merged."""
        return integration_branch(self.team)

    def save(self) -> None:
        """Write the record. Raises StorageError."""
        write_atomic(self.file, (json.dumps(to_builtins(self), indent=2) + "\n").encode("utf-8", "surrogateescape"))


def integration_branch(team: str) -> str:
    """Return the integration branch of a team."""
    return f"{BRANCHES}/{ref_part(team)}/{INTEGRATION}"


def integrated_ref(branch: str) -> str:
    """Return the ref of the newest commit of a member's branch that was integrated, or of the integration branch.

    It stays when another program deletes the branch.
    """
    return f"refs/teamwright/integrated/{branch}"


def finished_ref(branch: str) -> str:
    """Return the ref of the newest commit of a member's completed tasks: it stays when the branch is deleted."""
    return f"refs/teamwright/finished/{branch}"


def committing_ref(branch: str) -> str:
    """Return the ref of the staged work of a commit with hooks, as long as that commit runs: a kill leaves it."""
    return f"refs/teamwright/committing/{branch}"


def member_branch(team: str, member: str) -> str:
    """Return the branch of a member; a member of the name `integration` gets another one."""
    part = ref_part(member)
    return f"{BRANCHES}/{ref_part(team)}/{'member-' if part == INTEGRATION else ''}{part}"


def tree_name(branch: str) -> str:
    """Return the name of the directory of the worktree with this branch of a member; empty for another branch."""
    parts = branch.split("/")
    return f"{parts[1]}-{parts[2]}" if len(parts) == 3 and parts[0] == BRANCHES else ""


def ref_part(name: str) -> str:
    """Return a name as one part of a branch's name: git allows neither spaces nor some signs."""
    part = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")
    return part or "team"


def repository_directory(root: Path, common: Path) -> Path:
    """Return the directory of all worktrees of a repository: its name, and a hash of the path of its git directory."""
    name = common.parent.name if common.name == ".git" else common.name
    return root / f"{ref_part(name)}-{hashlib.sha256(str(common).encode()).hexdigest()[:8]}"


def read_record(file: Path) -> WorktreeRecord:
    """Read one record. Raises StorageError (`damaged-file`, `newer-version`)."""
    try:
        data = cast("dict[str, Any]", json.loads(read_plain(file).decode("utf-8", "surrogateescape")))
        version = int(data.get("version", 1))
        if version <= VERSION:
            return convert({**data, "version": VERSION}, WorktreeRecord)
    except (OSError, ValueError, TypeError, AttributeError) as problem:
        raise StorageError("damaged-file", f"{file} is not a record of a worktree: {problem}") from None
    raise StorageError("newer-version", f"{file} has version {version}", do=["use the newer Teamwright that wrote it"])


def list_records(root: Path) -> tuple[list[WorktreeRecord], list[StorageError]]:
    """Return the records of all worktrees below this directory, in order of creation, and the unreadable ones."""
    found: list[WorktreeRecord] = []
    damaged: list[StorageError] = []
    for file in sorted(root.glob("*/*.json")):
        try:
            found.append(read_record(file))
        except StorageError as problem:
            damaged.append(problem)
    return sorted(found, key=lambda record: (record.created_at, record.path)), damaged


def find_member_record(root: Path, tree: Path, teams: Container[str], member: str) -> WorktreeRecord | None:
    """Return the record of the worktree that a roster names for a member; None without one of that member.

    Other programs may write a roster: a record that is not below `root`, or is of another member, counts for nothing.
    `teams` are the names of the team. Raises StorageError for a damaged record.
    """
    file = record_file(tree)
    if file not in root.glob("*/*.json"):
        return None
    record = read_record(file)
    is_own = record.tree == tree and record.team in teams and record.member.lower() == member.lower()
    return record if is_own else None


def find_record(records: list[WorktreeRecord], name: str) -> WorktreeRecord:
    """Return the one worktree that a name means: a path, a branch, a member or the directory's name.

    Raises UsageError for none or several.
    """
    for names in (_exact_names, _member_names):
        matching = [record for record in records if name.lower() in names(record)]
        if len(matching) == 1:
            return matching[0]
        if matching:
            ways = [f"teamwright worktrees show {record.tree.name}" for record in matching[:5]]
            raise UsageError("usage", f"{len(matching)} worktrees have the name {name[:80]!r}", do=ways)
    raise UsageError("usage", f"there is no worktree {name[:80]!r}", do=["teamwright worktrees"])


def _exact_names(record: WorktreeRecord) -> set[str]:
    return {record.path.lower(), record.branch.lower(), record.tree.name.lower()}


def _member_names(record: WorktreeRecord) -> set[str]:
    return {record.member.lower(), f"{record.team}/{record.member}".lower()}
