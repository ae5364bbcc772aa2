"""Create, adopt and restore worktrees; run the command that sets one up; give each a range of ports.

The record is written before the worktree, so that one of a killed process is known. A failed creation undoes
everything. New worktrees get the ignored files that `.worktreeinclude` names in the patterns of `.gitignore`. The setup
command runs files that agents wrote, so it is confined like their commands.
"""

from __future__ import annotations

import os
import shlex
import shutil
import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from teamwright.git.repository import common_dir, current_branch, discover, head_commit
from teamwright.git.unsafe_config import shared_work_tree
from teamwright.processes.process_records import ProcessPurpose, ProcessRecords
from teamwright.protocol.errors import CannotStart, WorktreeRefused
from teamwright.protocol.ids import now_ms
from teamwright.sandbox.policy import UNBOUNDED, SandboxSettings
from teamwright.storage.files import write_new
from teamwright.storage.paths import make_private
from teamwright.worktrees.repository_git import USAGE_ERROR, RepositoryGit, git_error, split_paths
from teamwright.worktrees.worktree_identity import require_worktree, with_identity
from teamwright.worktrees.worktree_list import require_free
from teamwright.worktrees.worktree_record import (
    WorktreeRecord,
    committing_ref,
    finished_ref,
    list_records,
    member_branch,
    ref_part,
    repository_directory,
)
from teamwright.worktrees.worktree_state import LOCK_REASON, listed_changes, measure

if TYPE_CHECKING:
    from teamwright.sandbox.sandbox import CommandConfinement


MAX_NAMES = 1_000
"""The most worktrees and branches of one name."""


class NewWorktree(Struct, frozen=True):
    """A worktree that was just created, with sentences about files that it does not have."""

    record: WorktreeRecord
    notes: tuple[str, ...] = ()


class Owner(Struct, frozen=True):
    """The owner of a worktree: see WorktreeRecord."""

    team: str
    member: str
    session: str


def create_worktree(git: RepositoryGit, root: Path, owner: Owner) -> NewWorktree:
    """Create a worktree below `root` on a new branch of its owner, at HEAD of the person's checkout.

    Raises WorktreeRefused, CannotStart, StorageError; then neither a directory nor a branch remains.
    """
    commit = head_commit(git.tree) or git.commit_of("HEAD")
    if not commit:
        raise WorktreeRefused(
            "worktree-refused",
            f"a worktree begins at a commit, and HEAD of {git.tree} is none yet",
            do=["git commit the files first", "leave isolation out"],
            note="nothing was started",
        )
    if (config := shared_work_tree(git.common)) is not None:
        raise WorktreeRefused(
            "worktree-refused",
            f"git would take another directory for the top level of each new worktree: {config} has core.worktree, "
            "and extensions.worktreeConfig is on",
            do=[
                f"git -C {git.tree} config --worktree core.worktree {git.tree} && "
                f"git config --file {config} --unset core.worktree",
                "leave isolation out",
            ],
            note="nothing was started",
        )
    directory = repository_directory(root, git.common)
    make_private(directory)
    for number in range(1, MAX_NAMES):
        record = _named(git, directory, owner, commit, number)
        if record is None:
            continue
        try:
            record.save()
            record = replace(record, port=claim_ports(root, record.file), ports=PORTS)
            record.save()
            if not _add(git, record):
                _forget(root, record)
                continue
            record = with_identity(record)
            record.save()
            require_worktree(git, record)
            copied, notes = copy_included(git, record.tree)
            record = note_setup(git, record) if copied else record
        except BaseException:
            discard_worktree(git, root, record)
            raise
        if (record.tree / ".gitmodules").is_file():
            notes.append("its submodules are empty: git submodule update --init fetches them")
        return NewWorktree(record, tuple(notes))
    raise WorktreeRefused(
        "worktree-refused", f"there are {MAX_NAMES} worktrees of {owner.member}", do=["teamwright worktrees"]
    )


def adopt_worktree(git: RepositoryGit, root: Path, owner: Owner, place: str) -> WorktreeRecord:
    """Record a worktree of this repository that a hook made for the owner, with a link to it below `root`.

    Raises WorktreeRefused for a path that is no worktree of the repository on a branch, or that is used.
    """
    real = Path(os.path.realpath(place))
    problem = _adoption_problem(git, root, place, real)
    branch = "" if problem else git.call("branch", "--show-current", cwd=real).output.strip()
    if problem or not branch:
        what = f"the WorktreeCreate hook made {place[:200]!r}, which {problem or 'is on no branch'}"
        raise WorktreeRefused("worktree-refused", what, note="nothing was started")
    directory = repository_directory(root, git.common)
    base = git.commit_of("HEAD", real)
    make_private(directory)
    numbered = (_named(git, directory, owner, base, number) for number in range(1, MAX_NAMES))
    record = replace(next(one for one in numbered if one is not None), branch=branch, made_by_hook=True)
    try:
        record.save()
        record = replace(record, port=claim_ports(root, record.file), ports=PORTS)
        os.symlink(real, record.tree)
        record = with_identity(record)
        record.save()
        require_worktree(git, record)
        return note_setup(git, record)  # files that the hook brought are no work of an agent
    except BaseException:
        forget_adopted(root, record)
        raise


def restore_worktree(git: RepositoryGit, record: WorktreeRecord) -> WorktreeRecord:
    """Create a worktree again whose directory was deleted by hand, on its branch. Raises WorktreeRefused, CannotStart.

    A branch that is gone too begins at its commit before an interrupted one, else at that of the last completed task.
    Returns the record of the new directory.
    """
    require_free(git, record.branch, record.tree)
    _check_out(git, record, "--force", "--force", *_place_and_branch(git, record, record.path))
    record = replace(with_identity(record), lost_files=True)
    record.save()
    require_worktree(git, record)
    return record


def _place_and_branch(git: RepositoryGit, record: WorktreeRecord, place: str) -> tuple[str, ...]:
    """Return the arguments of `git worktree add` that make the worktree again at this place, on its branch."""
    if git.commit_of(f"refs/heads/{record.branch}"):
        return (place, record.branch)
    known = (f"{committing_ref(record.branch)}^1", finished_ref(record.branch))
    start = next((commit for ref in known if (commit := git.commit_of(ref))), record.base)
    return ("-b", record.branch, place, start)


def readopt_worktree(git: RepositoryGit, root: Path, record: WorktreeRecord, place: str) -> WorktreeRecord:
    """Return the record of a worktree that was gone, and that a hook made again here, on the same branch.

    Raises WorktreeRefused for a path that is no such worktree.
    """
    real = Path(os.path.realpath(place))
    problem = _adoption_problem(git, root, place, real, own=record.path)
    branch = "" if problem else git.call("branch", "--show-current", cwd=real).output.strip()
    if problem or branch != record.branch:
        problem = problem or f"is on the branch {branch or '(none)'}, not on {record.branch}"
        raise WorktreeRefused("worktree-refused", f"the WorktreeCreate hook made {place[:200]!r}, which {problem}")
    record.tree.unlink(missing_ok=True)
    os.symlink(real, record.tree)
    record = replace(with_identity(record), lost_files=True)
    record.save()
    require_worktree(git, record)
    return record


def hook_worktree_gone_error(git: RepositoryGit, record: WorktreeRecord, why: str) -> WorktreeRefused:
    """Return the error for a worktree that a hook made, that is gone, and that no hook makes again."""
    place = os.path.realpath(record.path)
    words = ("git", "-C", record.repository, "worktree", "add", "--force", *_place_and_branch(git, record, place))
    what = f"the worktree {place} is gone ({why}). To continue, make it again and resume: {shlex.join(words)}"
    return WorktreeRefused("worktree-refused", what)


def discard_worktree(git: RepositoryGit, root: Path, record: WorktreeRecord) -> None:
    """Remove what a failed start left. The worktree has only files that git, the creation and the setup wrote."""
    try:
        git.call("worktree", "remove", "--force", "--force", record.path)
        shutil.rmtree(record.tree, ignore_errors=True)
        if git.commit_of(f"refs/heads/{record.branch}") == record.base:
            git.call("update-ref", "-d", f"refs/heads/{record.branch}", record.base)
    except CannotStart:  # a repository that is not trusted: git made nothing there
        shutil.rmtree(record.tree, ignore_errors=True)
    finally:
        _forget(root, record)


def forget_adopted(root: Path, record: WorktreeRecord) -> None:
    """Forget a worktree that a hook made: its directory is gone, or is left to the person."""
    record.tree.unlink(missing_ok=True)
    _forget(root, record)


def note_setup(git: RepositoryGit, record: WorktreeRecord) -> WorktreeRecord:
    """Record the untracked and ignored files that are there now as made by setup. Raises StorageError."""
    setup_files = {
        path: measure(record.tree / path) for kind, path in listed_changes(git, record.tree) if kind in {"??", "!!"}
    }
    record = replace(record, setup=setup_files)
    record.save()
    return record


def uncommitted_files(git: RepositoryGit) -> list[str]:
    """Return the files of the person's checkout that differ from its commit: a new worktree does not have them."""
    output = git.read("status", "--porcelain=v1", "-z", "--untracked-files=normal")
    return [part[3:] for part in output.split("\0") if len(part) > 3]


def _add(git: RepositoryGit, record: WorktreeRecord) -> bool:
    """Create the branch, then the worktree. Returns False when another process used the name at the same moment."""
    if not git.call("update-ref", f"refs/heads/{record.branch}", record.base, "0" * len(record.base)).ok:
        if git.commit_of(f"refs/heads/{record.branch}"):
            return False
        raise _name_taken(git, record)
    for ref in (finished_ref(record.branch), committing_ref(record.branch)):
        git.call("update-ref", "-d", ref)  # of an earlier member of the name
    _check_out(git, record, record.path, record.branch)
    return True


def _check_out(git: RepositoryGit, record: WorktreeRecord, *args: str) -> None:
    """Run `git worktree add ARGS`, and lock the worktree. Raises WorktreeRefused, CannotStart."""
    reason = ("--reason", f"{LOCK_REASON}: {record.team}/{record.member}")
    whole = ("worktree", "add", "--quiet", "--lock", *reason, *args)
    done = git.call(*whole, filters_off=True)
    if done.exit_code == USAGE_ERROR:  # a git before 2.33 locks in a second step
        whole = ("worktree", "add", "--quiet", *args)
        done = git.call(*whole, filters_off=True)
        if done.ok:
            git.read("worktree", "lock", *reason, record.path)
    if not done.ok:
        raise git_error(whole, done, git.tree)
    git.filter_files(record.tree)


def _named(git: RepositoryGit, directory: Path, owner: Owner, base: str, number: int) -> WorktreeRecord | None:
    """Return the record of the worktree with this number of the owner; None when the name is used."""
    end = "" if number == 1 else f"-{number}"
    tree = directory / f"{ref_part(owner.team)}-{ref_part(owner.member)}{end}"
    branch = f"{member_branch(owner.team, owner.member)}{end}"
    checked_out = current_branch(git.tree) or ""
    record = WorktreeRecord(
        str(tree),
        str(git.main_tree),
        branch,
        base,
        owner.team,
        owner.member,
        owner.session,
        now_ms(),
        "" if checked_out.startswith("(") else checked_out,
    )
    return None if os.path.lexists(tree) or record.file.exists() else record


def _name_taken(git: RepositoryGit, record: WorktreeRecord) -> WorktreeRefused:
    """Return the error for a branch whose name is a directory of another one, or below another one."""
    parts = record.branch.split("/")
    above = ["/".join(parts[:count]) for count in range(1, len(parts))]
    other_branch = next((name for name in above if git.commit_of(f"refs/heads/{name}")), "")
    below = git.call("for-each-ref", "--format=%(refname:short)", f"refs/heads/{record.branch}/").output.split("\n")
    other_branch = other_branch or below[0]
    what = (
        f"the branch {record.branch} cannot be created beside the branch {other_branch}"
        if other_branch
        else "git made no branch"
    )
    return WorktreeRefused(
        "worktree-refused",
        what,
        do=[f"git branch -m {other_branch} NAME"] if other_branch else [f"git branch {record.branch}"],
        note="nothing was started",
    )


def _adoption_problem(git: RepositoryGit, root: Path, place: str, real: Path, *, own: str = "") -> str:
    """Return why a path that a hook returned cannot be a worktree; empty when it can.

    `own` is the path of the record that the worktree had before, when it is made again.
    """
    if not os.path.isabs(place) or os.path.normpath(place) != place.rstrip("/") or not real.is_dir():
        return "is not the absolute path of a directory"
    checkout = Path(os.path.realpath(git.tree))
    if Path(place).is_relative_to(git.tree) and real != checkout / Path(place).relative_to(git.tree):
        return "leads through a link in the repository"
    found = discover(real).repository
    if found is None or found.tree != real or common_dir(found.git_dir) != git.common or real == checkout:
        return f"is no worktree of the repository {checkout}"
    others = [record.path for record in list_records(root)[0] if record.path != own]
    if any(os.path.realpath(path) == str(real) for path in others):
        return "another agent has"
    return ""


def _forget(root: Path, record: WorktreeRecord) -> None:
    release_ports(root, record.port)
    for file in (record.file, record.lease, record.work_lease):
        file.unlink(missing_ok=True)


INCLUDE_FILE = ".worktreeinclude"

MAX_FILES = 20_000
"""The most files that are copied; a longer list is an error of the patterns."""


def copy_included(git: RepositoryGit, target: Path) -> tuple[list[str], list[str]]:
    """Copy the ignored files that `.worktreeinclude` of the person's checkout names.

    Returns the copied paths, and sentences about what was left out. Links are copied as links, and only when they lead
    to a place inside the checkout.
    """
    if not (git.tree / INCLUDE_FILE).is_file():
        return [], []
    named = split_paths(git.call("ls-files", "-z", "--others", "--ignored", f"--exclude-from={INCLUDE_FILE}").output)
    if not named:
        return [], []
    ignored = split_paths(git.call("check-ignore", "-z", "--stdin", text="\0".join(named) + "\0").output)
    notes: list[str] = []
    if len(ignored) > MAX_FILES:
        notes.append(f"{INCLUDE_FILE} names {len(ignored)} files; the first {MAX_FILES} were copied")
    copied = [path for path in ignored[:MAX_FILES] if _copy(git.tree, target, path, notes)]
    return copied, notes


def _copy(source: Path, target: Path, path: str, notes: list[str]) -> bool:
    there = source / path
    here = target / path
    if here.exists() or here.is_symlink():
        return False
    if there.is_symlink() and not Path(os.path.realpath(there)).is_relative_to(source):
        notes.append(f"{path} is a link that leads out of the repository, and was not copied")
        return False
    try:
        here.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(there, here, follow_symlinks=False)
    except OSError as problem:
        notes.append(f"{path} was not copied: {problem.strerror or problem}")
        return False
    return True


OUTPUT_CHARS = 2_000
"""Characters of the end of a failed setup's output in its error."""


def _no_variables() -> Mapping[str, str]:
    return {}


ConfineCommand: TypeAlias = "Callable[[str, Path, SandboxSettings], Awaitable[CommandConfinement | None]]"
"""Returns the confinement of a command in a worktree, within bounds; None without a sandbox."""


async def _unconfined(_command: str, _tree: Path, _bounds: SandboxSettings) -> None:
    return None


_OUTPUT = "its output"


def failure_text(problem: WorktreeRefused) -> str:
    """Return why a command failed, with the end of its output on the next lines."""
    return "\n".join([problem.what, *(text for key, text in problem.looked_at if key == _OUTPUT)])


def _refusals(confinement: CommandConfinement, output: str, tree: Path) -> str:
    """Return a line about what the sandbox refused, as far as the output shows it."""
    from teamwright.sandbox.violations import find_refusal

    hosts = confinement.route.refused if confinement.route is not None else ()
    found = find_refusal(confinement.policy, output, str(tree), hosts, replaces_tmp=confinement.replaces_tmp)
    return f"\n{found.note()}" if found is not None else ""


class SetupCommand(Struct, frozen=True):
    """A command for each new worktree; empty: none. It may take `timeout_s` seconds.

    `environment` returns the environment of agents' commands; `records` has the processes of the session. `quarantine`
    is the directory for files that a confined command created at protected paths.
    """

    command: str = ""
    timeout_s: float = 600.0
    shell: str = "/bin/sh"
    environment: Callable[[], Mapping[str, str]] = _no_variables
    records: ProcessRecords | None = None
    purpose: str = "setup"
    """`setup`, or `check` for the check of a merge."""
    confine: ConfineCommand = _unconfined
    quarantine: Path = Path(os.devnull)

    async def run(self, tree: Path, variables: Mapping[str, str], bounds: SandboxSettings = UNBOUNDED) -> bool:
        """Run the command in the worktree. Returns True when there is one.

        `bounds` are those of the commands of the agent that works there.
        Raises WorktreeRefused with the end of its output when it fails.
        """
        if not self.command:
            return False
        from teamwright.processes.commands import ProcessCommand, ProcessOutput, run_command

        environment = {**self.environment(), **variables, "PWD": str(tree)}
        purpose = ProcessPurpose(member=tree.name, call=self.purpose)
        confinement = await self.confine(self.command, tree, bounds)
        guard = None if confinement is None else confinement.guard()
        command = ProcessCommand(
            (self.shell, "-c", self.command), tree, environment, self.records, purpose, confinement=confinement
        )
        try:
            done = await run_command(command, ProcessOutput(OUTPUT_CHARS * 2), timeout_s=self.timeout_s)
        except OSError as problem:
            raise self._failed(f"could not be started ({problem.strerror})", "") from None
        finally:
            if guard is not None:
                guard.restore(self.quarantine)
        if done.timed_out or done.exit_code:
            how = f"took longer than {self.timeout_s:g} s" if done.timed_out else f"failed (exit code {done.exit_code})"
            refused = "" if confinement is None else _refusals(confinement, done.output, tree)
            raise self._failed(how, f"{done.output.strip()[-OUTPUT_CHARS:]}{refused}")
        return True

    def _failed(self, how: str, output: str) -> WorktreeRefused:
        return WorktreeRefused(
            "worktree-refused",
            f"the {self.purpose} of the worktree {how}: {self.command[:120]}",
            looked_at=[(_OUTPUT, output)] if output else [],
            do=["fix the command: worktrees.setup in the settings, or setup in team.toml"] * (self.purpose == "setup"),
            note="nothing was started" if self.purpose == "setup" else "",
        )


PORTS = 10
"""Ports of one worktree."""

_FIRST, _LAST = 20_000, 32_000
"""The range below the ports that Linux and macOS give to outgoing connections."""


def claim_ports(root: Path, record: Path) -> int:
    """Claim a range for the worktree of this record, and return its first port; 0 when none is free.

    Raises StorageError.
    """
    claimed = _claimed(root)
    # Unclaimed ranges come first: the cost does not grow with the number of worktrees.
    for first in sorted(range(_FIRST, _LAST, PORTS), key=lambda first: str(first) in claimed):
        file = root / "ports" / str(first)
        if not write_new(file, str(record).encode("utf-8", "surrogateescape")):
            if _is_used(file):
                continue
            file.unlink(missing_ok=True)
            if not write_new(file, str(record).encode("utf-8", "surrogateescape")):
                continue
        if all(_is_free(port) for port in range(first, first + PORTS)):
            return first
        file.unlink(missing_ok=True)
    return 0


def release_ports(root: Path, first: int) -> None:
    """Release a range."""
    if first:
        (root / "ports" / str(first)).unlink(missing_ok=True)


def _claimed(root: Path) -> frozenset[str]:
    try:
        return frozenset(os.listdir(root / "ports"))
    except FileNotFoundError:
        return frozenset()


def _is_used(file: Path) -> bool:
    try:
        return Path(file.read_bytes().decode("utf-8", "surrogateescape")).exists()
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        return True


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
