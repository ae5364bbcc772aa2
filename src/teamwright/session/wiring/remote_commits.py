"""The commits of a member on another machine than its lead: both ends of their way into the integration queue.

Depends on git bundles and on the connection between member and lead. A session without such members does not load it.
"""

from __future__ import annotations

import asyncio
import re
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec import Struct

from teamwright.processes.ipc import IpcBody
from teamwright.protocol.errors import WorktreeRefused
from teamwright.teams.team import SessionTeam
from teamwright.worktrees.commit_bundle import BEGIN, bundle_ref, fetch_bundle
from teamwright.worktrees.repository_git import RepositoryGit
from teamwright.worktrees.worktree_check import with_identity
from teamwright.worktrees.worktree_record import WorktreeRecord, integrated_ref, integration_branch, member_branch

CallLead = Callable[..., Awaitable[IpcBody]]
"""Calls the lead's process. Raises the lead's errors, ConnectionError when the lead is gone for good."""


class RemoteCommits(Struct, frozen=True):
    """The commits of a member on another machine: they go to the lead's repository, and the team's come here.

    `record` describes the member's repository as if it were a worktree.
    """

    record: WorktreeRecord
    call_lead: CallLead

    async def receive(self) -> None:
        """Fetch the integrated work of the team. Raises WorktreeRefused, CannotStart."""
        git, ref = RepositoryGit.open(self.record.tree), f"refs/heads/{self.record.integration_branch}"
        known = await asyncio.to_thread(git.commit_of, ref)
        answer = await self._call(has=known or self.record.base)
        if answer["bundle"]:
            await asyncio.to_thread(fetch_bundle, self.record.tree, b64decode(answer["bundle"]), ref)
        own = str(answer["integrated"])
        if own and await asyncio.to_thread(git.commit_of, own):
            await asyncio.to_thread(git.read, "update-ref", integrated_ref(self.record.branch), own)

    async def send(self, tip: str) -> None:
        """Send the member's commits, before its task is completed. Raises WorktreeRefused, CannotStart."""
        tree, ref = self.record.tree, f"refs/{self.record.branch}"
        await asyncio.to_thread(RepositoryGit.open(tree).read, "update-ref", ref, tip)
        if bundle := await asyncio.to_thread(bundle_ref, tree, ref, self.record.base):
            await self._call(bundle=b64encode(bundle).decode())

    async def _call(self, has: str = "", bundle: str = "") -> IpcBody:
        try:
            return await self.call_lead("commits", has=has, bundle=bundle)
        except ConnectionError:
            raise WorktreeRefused("worktree-refused", "the lead, whose repository gets the commits, is gone") from None


def exchange_commits(cwd: Path, team: SessionTeam, member: str, has: str, bundle: str) -> IpcBody:
    """Answer a call of RemoteCommits in the lead's process: store the member's commits, and return the team's.

    Raises CannotStart, WorktreeRefused.
    """
    branch = member_branch(team.directory, member)
    if bundle:
        fetch_bundle(cwd, b64decode(bundle), f"refs/{branch}")
    git, ref = RepositoryGit.open(cwd), f"refs/heads/{integration_branch(team.name or team.session_list_name)}"
    team_bundle = None
    if re.fullmatch(r"[0-9a-f]{40,64}", has) and git.commit_of(ref):
        team_bundle = bundle_ref(cwd, ref, has)
    return {"bundle": b64encode(team_bundle or b"").decode(), "integrated": git.commit_of(integrated_ref(branch))}


def remote_record(cwd: Path, team: str, directory: str, member: str, session: str) -> WorktreeRecord | None:
    """Return the record of the repository in which a member on another machine works; None without a repository."""
    if not (cwd / ".git").exists():
        return None
    base = RepositoryGit.open(cwd).commit_of(BEGIN)
    branch = member_branch(directory, member)
    return with_identity(WorktreeRecord(str(cwd), str(cwd), branch, base, team, member, session, 0)) if base else None
