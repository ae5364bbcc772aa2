"""The worktrees of one process of a session: created, opened with a lease, set up, and removed when nothing is lost.

Git runs in threads, so that no agent waits for it. Depends on the creation and removal of worktrees and on processes.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import shlex
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.git.git_calls import NO_ENTRIES
from teamwright.git.repository import discover
from teamwright.git.unsafe_config import GitEntry
from teamwright.protocol.errors import CannotStart, StorageError, WorktreeRefused
from teamwright.protocol.events import Emit, Notice
from teamwright.protocol.ids import LEAD, LEAD_ALIAS
from teamwright.sandbox.policy import UNBOUNDED, SandboxSettings
from teamwright.storage.file_lease import Lease
from teamwright.worktrees.commit_limits import CommitLimits, short_list
from teamwright.worktrees.hooked_commit import undo_interrupted_commit
from teamwright.worktrees.repository_git import RepositoryGit
from teamwright.worktrees.worktree_creation import (
    NewWorktree,
    Owner,
    SetupCommand,
    adopt_worktree,
    create_worktree,
    discard_worktree,
    forget_adopted,
    hook_worktree_gone_error,
    note_setup,
    readopt_worktree,
    restore_worktree,
    uncommitted_files,
)
from teamwright.worktrees.worktree_identity import confirm_worktree, require_worktree
from teamwright.worktrees.worktree_record import (
    WorktreeRecord,
    integrated_ref,
    integration_branch,
    list_records,
    read_record,
    record_file,
    ref_part,
)
from teamwright.worktrees.worktree_removal import remove_unneeded, remove_worktree
from teamwright.worktrees.worktree_state import read_state, teams_with_work

FIRST_PORT_VARIABLE = "TEAMWRIGHT_PORT"
"""The variable with the first port of a worktree's range; TEAMWRIGHT_PORT_COUNT has their number."""


class WorktreeHooks(Protocol):
    """Hooks that make and remove worktrees in place of git."""

    async def create_worktree(self, name: str) -> str:
        """Return the directory that a hook made; empty without a hook. Raises WorktreeRefused."""
        ...

    async def remove_worktree(self, path: Path) -> str:
        """Let hooks remove a directory that a hook made; return why they did not, or an empty text."""
        ...


class SessionWorktrees(Struct):
    """The worktrees of a session's agents. `root` is their directory, `cwd` the session's working directory.

    `trusted` are trusted entries of the repository's git configuration. `setup` prepares each new worktree. `hooks`
    make worktrees in place of git, where a person has such hooks. `name_home` adds a state root that was named to a
    command.
    """

    root: Path
    cwd: Path
    session: str
    emit: Emit
    trusted: Callable[[], frozenset[GitEntry]] = lambda: NO_ENTRIES
    setup: SetupCommand = field(default_factory=SetupCommand)
    hooks: WorktreeHooks | None = None
    name_home: Callable[[str], str] = str
    leases: dict[str, Lease] = field(default_factory=dict[str, Lease])
    reported_uncommitted: bool = False
    restored: set[str] = field(default_factory=set[str])
    """The worktrees that were gone, and that this process made again."""
    start: Path | None = None
    """The worktree of the whole session, at whose commit others begin; None: they begin at that of `cwd`."""

    async def enter(self, name: str, start: Path | None = None) -> tuple[WorktreeRecord, bool]:
        """Return the worktree of this name or of this session, in which the whole session works from now on.

        Its lease is taken. Without one it is created, at the commit of the checkout that contains `start`; then True is
        returned too. Raises TeamwrightError while another process works in it.
        """
        main = str(RepositoryGit.open(self.cwd, self.trusted()).main_tree)
        records = [one for one in list_records(self.root)[0] if (one.member, one.repository) == (LEAD_ALIAS, main)]
        known = [one for one in records if one.session == self.session] or [one for one in records if one.team == name]
        record = known[-1] if known else await self.create(name, LEAD_ALIAS, start)
        record = replace(await self.open(record.tree), session=self.session)
        record.save()
        return record, not known

    def begin_at(self, tree: Path) -> None:
        """Let new worktrees begin at the commit of this one, in which the whole session works."""
        self.start = tree

    async def create(
        self, team: str, member: str, start: Path | None = None, bounds: SandboxSettings = UNBOUNDED
    ) -> WorktreeRecord:
        """Create a worktree for an agent, at the commit of the checkout that contains `start`, and set it up.

        `bounds` are those of the agent's commands in the sandbox, and of the setup.
        Raises TeamwrightError; then nothing remains.
        """
        where = start or self.start or self.cwd
        owner = Owner(team, member, self.session)
        git = RepositoryGit.open(where, self.trusted())
        place = await self.hooks.create_worktree(_hook_name(owner)) if self.hooks is not None else ""
        if place:
            worktree = NewWorktree(await asyncio.to_thread(adopt_worktree, git, self.root, owner, place))
        else:
            worktree = await asyncio.to_thread(create_worktree, git, self.root, owner)
        record = worktree.record
        try:
            if await self.setup.run(record.tree, self.variables(record), bounds):
                await asyncio.to_thread(require_worktree, git, record)
                record = await asyncio.to_thread(note_setup, git, record)
            for note in worktree.notes:
                self.emit(Notice(member=member, text=f"the worktree of {member}: {note}", level="warning"))
            if not self.reported_uncommitted:
                self.reported_uncommitted = True
                whose = "the worktree of this session" if member == LEAD_ALIAS else "the worktrees of members"
                await self._report_uncommitted(git, whose)
        except BaseException:
            await self.discard(record)
            raise
        return record

    async def _report_uncommitted(self, git: RepositoryGit, whose: str) -> None:
        """Notify the person, once a session, of files that worktrees do not have."""
        files = await asyncio.to_thread(uncommitted_files, git)
        if files:
            text = f"uncommitted files are not in {whose}: {short_list(files)}"
            self.emit(Notice(member=LEAD, text=text, level="warning"))

    async def set_aside_integration(self, team: str) -> None:
        """Rename the integration branch of an earlier team of this name, and notify the person.

        Raises WorktreeRefused, CannotStart.
        """
        branch = integration_branch(team)
        git = RepositoryGit.open(self.cwd, self.trusted())
        renamed = await asyncio.to_thread(rename_branch, git, branch)
        await asyncio.to_thread(git.call, "update-ref", "-d", integrated_ref(branch))
        if renamed:
            text = f"{branch} of an earlier team of this name is {renamed} now"
            self.emit(Notice(member=LEAD, text=text, level="warning"))

    async def open(self, path: Path) -> WorktreeRecord:
        """Return the record of a worktree in which an agent of this process works, and take its lease.

        A deleted worktree is created again on its branch. Raises TeamwrightError while another process works in it.
        """
        record = read_record(record_file(path))
        if str(path) not in self.leases:
            self.leases[str(path)] = Lease.take(record.lease, f"agent {record.member} of session {self.session[:8]}")
        try:
            git = self.git_of(record)
            if path.is_dir():
                record, is_other = await asyncio.to_thread(confirm_worktree, git, record)
                if is_other:
                    self._note_loss(record, "is another directory than before: look at its files first")
            else:
                if record.made_by_hook:
                    record = await self._make_again_by_hook(git, record)
                else:
                    record = await asyncio.to_thread(restore_worktree, git, record)
                self.restored.add(record.path)
                self._note_loss(record, "was gone. It was made again: files that were not committed are lost")
            with suppress(WorktreeRefused):  # the next completion refuses for the same reason
                await asyncio.to_thread(undo_interrupted_commit, git, record, CommitLimits())
        except BaseException:
            self.release(path)
            raise
        return record

    async def _make_again_by_hook(self, git: RepositoryGit, record: WorktreeRecord) -> WorktreeRecord:
        """Let the hook make a worktree again that is gone. Raises WorktreeRefused with the command that does it."""
        why = "a hook made it, and there is no WorktreeCreate hook now"
        try:
            place = await self.hooks.create_worktree(_hook_name(record)) if self.hooks is not None else ""
            if place:
                return await asyncio.to_thread(readopt_worktree, git, self.root, record, place)
        except WorktreeRefused as problem:
            why = problem.what
        raise await asyncio.to_thread(hook_worktree_gone_error, git, record, why)

    def _note_loss(self, record: WorktreeRecord, what: str) -> None:
        self.emit(Notice(member=record.member, text=f"the worktree {record.path} {what}", level="warning"))

    def release(self, path: Path) -> None:
        """Release the lease of a worktree whose agent has ended; harmless without one."""
        if (lease := self.leases.pop(str(path), None)) is not None:
            lease.release()

    async def discard(self, record: WorktreeRecord) -> None:
        """Remove the worktree of an agent that could not be started."""
        self.release(record.tree)
        if record.made_by_hook:
            await self._end_made_by_hook(record)
            forget_adopted(self.root, record)
            return
        await asyncio.to_thread(discard_worktree, self.git_of(record), self.root, record)

    async def _end_made_by_hook(self, record: WorktreeRecord) -> str:
        """Let hooks remove a worktree that a hook made, if nothing in it could be lost; return why it stays."""
        state = await asyncio.to_thread(read_state, self.git_of(record), record)
        if state.keeps:
            return ", ".join(state.keeps)
        real = Path(os.path.realpath(record.path))
        why = "a hook made it" if self.hooks is None else await self.hooks.remove_worktree(real)
        if real.is_dir():
            return why or "its WorktreeRemove hook left it"
        forget_adopted(self.root, record)
        return ""

    async def end(self, path: Path) -> str:
        """Remove the worktree of an agent that has ended, if nothing in it could be lost.

        Returns a sentence for the agent's caller: its path and branch when it stays, else an empty text.
        """
        self.release(path)
        try:
            record = read_record(record_file(path))
        except StorageError:
            return ""
        try:
            if record.made_by_hook:
                why = await self._end_made_by_hook(record)
                real = os.path.realpath(record.path)
                return f"Its work is in the worktree {real} on the branch {record.branch}: {why}." if why else ""
            await asyncio.to_thread(remove_worktree, self.git_of(record), self.root, record)
        except (WorktreeRefused, StorageError, CannotStart) as problem:
            why = problem.what.partition(" stays: ")[2] or problem.what
            return f"Its work is in the worktree {record.path} on the branch {record.branch}: {why}."
        return ""

    async def end_session(self, keep: frozenset[str] = frozenset()) -> list[str]:
        """Remove each worktree of this session in which nothing could be lost, except those of these paths.

        The person is notified of every other one with its path, and of the branch with the integrated work. These
        sentences are returned. All leases are released.
        """
        records = list_records(self.root)[0]
        for record in records:
            self.release(record.tree)
        ended = [one for one in records if one.session == self.session and one.path not in keep]
        found = await asyncio.gather(*map(self._end_unneeded, ended))
        texts = [
            f"the worktree of {record.member} stays: {why}. It is {record.path} on the branch {record.branch}"
            for record, why in zip(ended, found, strict=True)
            if why
        ]
        for text in texts:
            self.emit(Notice(member=LEAD, text=text, level="warning"))
        teams = {one.team for one in records if one.session == self.session}
        if teams and (text := await asyncio.to_thread(self._describe_finished_work, teams)):
            self.emit(Notice(member=LEAD, text=text))
            texts.append(text)
        return texts

    def _describe_finished_work(self, teams: Collection[str]) -> str:
        """Return where the work is that these teams integrated and the checkout does not contain; empty without any."""
        try:
            git = RepositoryGit.open(self.cwd, self.trusted())
        except CannotStart:
            return ""
        branch = git.call("branch", "--show-current").output.strip() or "BRANCH"
        found = frozenset(teams_with_work(git))
        return "; ".join(
            f"finished work is on the branch {integration_branch(team)}: "
            + self.name_home(f"teamwright integrate {shlex.quote(team)} --into {shlex.quote(branch)}")
            for team in sorted(teams)
            if ref_part(team) in found
        )

    async def _end_unneeded(self, record: WorktreeRecord) -> str:
        """Remove a worktree if nothing in it could be lost. Returns why it stays, else an empty text."""
        if record.made_by_hook:
            return await self._end_made_by_hook(record)
        try:
            git = self.git_of(record)
        except CannotStart as problem:  # its repository is gone
            return problem.what
        done = await asyncio.to_thread(remove_unneeded, git, self.root, [record])
        return "; ".join(why for _, why in done.remaining)

    def git_of(self, record: WorktreeRecord) -> RepositoryGit:
        """Return git in the repository of a worktree. Raises CannotStart when the repository is gone."""
        return open_recorded(record, self.trusted())

    def checkout_of(self, record: WorktreeRecord) -> Path:
        """Return the real path of the checkout in which the session works, of which the worktree is a copy.

        It may be a worktree of the person, besides the one that has the git directory. Raises CannotStart.
        """
        found = discover(self.cwd).repository
        git = self.git_of(record)
        return found.tree if found is not None and found.common == git.common else Path(os.path.realpath(git.tree))

    def variables(self, record: WorktreeRecord) -> Mapping[str, str]:
        """Return the variables of commands in a worktree."""
        variables = {"TEAMWRIGHT_WORKTREE": record.path, "TEAMWRIGHT_BRANCH": record.branch}
        if record.port:
            variables |= {FIRST_PORT_VARIABLE: str(record.port), f"{FIRST_PORT_VARIABLE}_COUNT": str(record.ports)}
        return variables


def _hook_name(owner: Owner | WorktreeRecord) -> str:
    """Return the name under which a hook makes the worktree of this owner."""
    return ref_part(owner.team if owner.member == LEAD_ALIAS else owner.member)


def open_recorded(record: WorktreeRecord, trusted: frozenset[GitEntry]) -> RepositoryGit:
    """Return git in the repository of a worktree. Raises CannotStart when the repository is gone or was moved."""
    if not Path(record.repository).is_dir():
        raise CannotStart(
            "no-git",
            f"the repository of the worktree of {record.member} is gone",
            looked_at=[("repository", record.repository), ("worktree", record.path)],
            do=["teamwright worktrees repair, in the new place of the repository"],
            note="nothing was changed",
        )
    return RepositoryGit.open(Path(record.repository), trusted)


def rename_branch(git: RepositoryGit, branch: str) -> str:
    """Give a branch the first free name `<branch>-N`, and return it; empty without such a branch.

    Raises WorktreeRefused.
    """
    if not git.commit_of(f"refs/heads/{branch}"):
        return ""
    names = (f"{branch}-{number}" for number in itertools.count(2))
    free = next(name for name in names if not git.commit_of(f"refs/heads/{name}"))
    git.read("branch", "-m", branch, free)
    return free


def describe_base(record: WorktreeRecord) -> str:
    """Return the base of a worktree in words."""
    name = f" ({record.base_name})" if record.base_name else ""
    return f"{record.base[:12]}{name}"
