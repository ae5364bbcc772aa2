"""Commits that travel between machines as git bundles: from the lead's repository to a member's, and back.

Depends on git. Uncommitted files of the lead do not travel; those of a member come back as one commit, at the latest
when it ends.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from teamwright.git.git_calls import GitCallOptions, GitResult, run_git
from teamwright.protocol.errors import CannotStart, WorktreeRefused
from teamwright.storage.directory_identity import DirectoryIdentity, directory_identity
from teamwright.worktrees.commit_limits import CommitLimits, read_uncommitted, require_limits
from teamwright.worktrees.repository_git import RepositoryGit
from teamwright.worktrees.worktree_identity import require_worktree
from teamwright.worktrees.worktree_record import WorktreeRecord

MOST_BYTES = 45_000_000
"""The largest bundle that travels, in bytes: as a text it fits into one line between two processes."""

BEGIN = "refs/teamwright/begin"
"""The ref of the commit with which a member's repository began: the lead's repository has it."""

_GIT_S = 120.0
_CARRIER = "refs/teamwright/carried"
_FROM_FILE = GitCallOptions(switches=("-c", "protocol.file.allow=always"))
_FROM_REMOTE = GitCallOptions(
    switches=tuple(word for name in ("file", "https", "ssh") for word in ("-c", f"protocol.{name}.allow=always"))
)
"""A worker fetches only from the remotes of clones that a person named at its start."""

_IDENTITY = ("-c", "user.name=Teamwright", "-c", "user.email=teamwright@localhost")


def result_ref(team: str, member: str) -> str:
    """Return the ref of a member's commits in the lead's repository."""
    return f"refs/teamwright/{team}/{member}"


def remote_url(cwd: Path) -> str:
    """Return the address of the remote `origin`; empty without one."""
    done = run_git(cwd, "config", "--get", "remote.origin.url")
    return done.output.strip() if done.ok else ""


def make_bundle(cwd: Path, begin: str, has_remote: bool) -> tuple[str, bytes | None]:
    """Return the commit with which a member begins, and a bundle of the commits that its machine lacks.

    `begin` is a ref to begin with where it exists, as after the loss of a machine; else it is HEAD.
    `has_remote`: the machine has the commits of `origin`.

    Without a repository the commit is empty. Raises CannotStart for a bundle that is too large.
    """
    commit = ""
    for name in (begin, "HEAD") if begin else ("HEAD",):
        done = run_git(cwd, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
        if done.ok:
            commit = done.output.strip()
            break
    if not commit:
        return "", None
    _require(run_git(cwd, "update-ref", _CARRIER, commit), "the commits of the lead cannot be named")
    without = ("--not", "--remotes=origin") if has_remote else ()
    with tempfile.TemporaryDirectory(prefix="teamwright-") as directory:
        path = Path(directory) / "commits"
        done = run_git(cwd, "bundle", "create", str(path), _CARRIER, *without, timeout_s=_GIT_S)
        if not done.ok and has_remote and "empty bundle" in done.errors:
            return commit, None
        _require(done, "the commits of the lead cannot be bundled")
        return commit, _read_small(path)


def check_out(directory: Path, source: Path | None, commit: str, bundle: bytes | None, branch: str) -> None:
    """Make a repository with this commit on a branch; a directory that has one stays as it is.

    `source` is a local clone with the commits of the remote. Raises CannotStart.
    """
    if (directory / ".git").exists() or not commit:
        directory.mkdir(parents=True, exist_ok=True)
        return
    partial = directory.with_name(f".{directory.name}.new")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    if source is None:
        _require(run_git(partial, "init", "-q"), "the repository cannot be made")
    else:
        run_git(source, "fetch", "-q", "origin", timeout_s=_GIT_S, terms=_FROM_REMOTE)
        _require(
            run_git(
                partial.parent,
                *("clone", "-q", "--no-checkout", str(source), str(partial)),
                timeout_s=_GIT_S,
                terms=_FROM_FILE,
            ),
            "the repository cannot be cloned",
        )
    if bundle is not None:
        path = partial / ".git" / "carried.bundle"
        path.write_bytes(bundle)
        done = run_git(partial, "fetch", "-q", str(path), _CARRIER, timeout_s=_GIT_S, terms=_FROM_FILE)
        _require(done, "the commits cannot be read")
        path.unlink()
    _require(run_git(partial, "checkout", "-q", "-B", branch, commit, timeout_s=_GIT_S), "the commit is missing")
    _require(run_git(partial, "update-ref", BEGIN, commit), "the commit cannot be named")
    os.rename(partial, directory)


def bundle_result(
    directory: Path, made: DirectoryIdentity | None, team: str, member: str, base: str
) -> tuple[bytes | None, str]:
    """Return a bundle of the member's commits since `base`, its uncommitted files in a last one; None without any.

    `made` is the directory in which the member began: nothing is read from another one. A text says why uncommitted
    files stay here. Raises CannotStart for a bundle that is too large.
    """
    if not base or made is None:
        return None, ""
    if directory_identity(directory) != made or not (directory / ".git").exists():
        return None, f"the directory {directory} is not the one in which {member} began, so nothing is sent from it"
    why = ""
    try:
        git = RepositoryGit.open(directory)
        record = WorktreeRecord(
            str(directory), str(directory), "", base, team, member, "", 0, device=made[0], inode=made[1]
        )
        require_worktree(git, record)
        require_limits(git, directory, read_uncommitted(git, directory), CommitLimits())
        tip = _with_uncommitted(directory, member)
    except WorktreeRefused as problem:
        if problem.slug == "worktree-changed":
            return None, problem.what
        why = f"uncommitted files of {member} stay in {directory}: {problem.what}"
        tip = run_git(directory, "rev-parse", "HEAD").output.strip()
    if tip in {"", base}:
        return None, why
    ref = result_ref(team, member)
    _require(run_git(directory, "update-ref", ref, tip), "the result cannot be named")
    return bundle_ref(directory, ref, base), why


def bundle_ref(cwd: Path, ref: str, base: str) -> bytes | None:
    """Return a bundle of the commits of a ref that `base` does not contain; None without any.

    Raises CannotStart for a bundle that is too large.
    """
    with tempfile.TemporaryDirectory(prefix="teamwright-") as directory:
        path = Path(directory) / "commits"
        done = run_git(cwd, "bundle", "create", str(path), ref, f"^{base}", timeout_s=_GIT_S)
        if "empty bundle" in done.errors:
            return None
        _require(done, f"the commits of {ref} cannot be bundled")
        return _read_small(path)


def fetch_result(cwd: Path, team: str, member: str, bundle: bytes) -> None:
    """Fetch the commits of a member that has ended. Raises CannotStart."""
    fetch_bundle(cwd, bundle, result_ref(team, member))


def fetch_bundle(cwd: Path, bundle: bytes, ref: str) -> None:
    """Fetch this ref of a bundle, and no other: another machine made it. Raises CannotStart."""
    with tempfile.TemporaryDirectory(prefix="teamwright-") as directory:
        path = Path(directory) / "commits"
        path.write_bytes(bundle)
        done = run_git(cwd, "fetch", "-q", str(path), f"+{ref}:{ref}", timeout_s=_GIT_S, terms=_FROM_FILE)
        _require(done, "the commits cannot be read")


def _with_uncommitted(directory: Path, member: str) -> str:
    """Return the checked-out commit, or one on top of it with all files that are not committed."""
    head = run_git(directory, "rev-parse", "HEAD").output.strip()
    index = directory / ".git" / "result.index"
    with_index = GitCallOptions(variables={"GIT_INDEX_FILE": str(index)})
    try:
        if not run_git(directory, "read-tree", head, terms=with_index).ok:
            return head
        run_git(directory, "add", "-A", terms=with_index, timeout_s=_GIT_S)
        tree = run_git(directory, "write-tree", terms=with_index).output.strip()
    finally:
        index.unlink(missing_ok=True)
    if not tree or tree == run_git(directory, "rev-parse", f"{head}^{{tree}}").output.strip():
        return head
    message = f"uncommitted files of {member}"
    named = GitCallOptions(switches=_IDENTITY)
    done = run_git(directory, "commit-tree", tree, "-p", head, "-m", message, terms=named)
    return done.output.strip() if done.ok else head


def _read_small(path: Path) -> bytes:
    if path.stat().st_size > MOST_BYTES:
        raise CannotStart(
            "backend",
            f"the commits are {path.stat().st_size // 1_000_000} MB, and {MOST_BYTES // 1_000_000} MB may travel",
            do=["push the commits, and start the workers with --repo URL=PATH"],
            note="nothing was sent",
        )
    return path.read_bytes()


def _require(done: GitResult, what: str) -> None:
    if not done.ok:
        raise CannotStart("backend", f"{what}: {done.errors.strip()[-300:]}", note="nothing was started")
