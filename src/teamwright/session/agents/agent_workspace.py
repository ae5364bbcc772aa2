"""The place of an agent that works in a worktree: its directory, permissions, instructions and environment.

Depends on the session's worktrees and on instructions. An agent without a worktree has no such place.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from teamwright.agent.instructions import SessionInstructions
from teamwright.agent.prompt import PromptEnvironment
from teamwright.permissions.worktree_bounds import WorktreeBounds
from teamwright.protocol.errors import UsageError
from teamwright.worktrees.session_worktrees import SessionWorktrees, describe_base
from teamwright.worktrees.worktree_record import WorktreeRecord, read_record, record_file

_NOTICE = (
    "You work in a git worktree of your own, on the branch {branch}, which began at commit {base}. Files that were not "
    "committed then are not in it. Change files only below {tree}; commands that change something outside are refused. "
    "Commit your finished work on this branch with git add and git commit. The runtime merges it; never merge or push."
)

_SESSION_NOTICE = (
    "This session works in a git worktree, on the branch {branch}, which began at commit {base}. Files that were not "
    "committed then are not in it. Change files only below {tree}; commands that change something outside are refused. "
    "Commit finished work on this branch with git add and git commit: teammates with a worktree begin at its newest "
    "commit, and the runtime commits only their work. Never push."
)

_FORK_NOTICE = (
    "Paths in the conversation above are those of your caller: below {checkout}. Your own copy of each file is below "
    "{tree}, at commit {base}. Read a file again there before you change it."
)


class AgentWorkspace(Struct, frozen=True, eq=False):
    """The workspace of one agent in a worktree, or of the whole session.

    `cwd` corresponds to the session's working directory.
    """

    record: WorktreeRecord
    scope: WorktreeBounds
    cwd: Path
    instructions: SessionInstructions
    variables: Mapping[str, str]
    is_session: bool = False

    def environment(self, session: PromptEnvironment) -> PromptEnvironment:
        """Return the environment part of the agent's prompt."""
        roots = (self.cwd, *(root for root in session.roots if not root.is_relative_to(self.scope.checkout)))
        notice = _SESSION_NOTICE if self.is_session else _NOTICE
        notice_text = notice.format(branch=self.record.branch, base=describe_base(self.record), tree=self.record.path)
        return replace(session, cwd=self.cwd, roots=roots, branch=self.record.branch, notice=notice_text)

    @property
    def fork_notice(self) -> str:
        """The note to a fork, whose conversation names paths of its caller."""
        tree = self.record.path
        base = describe_base(self.record)
        return _FORK_NOTICE.format(checkout=self.scope.checkout, tree=tree, base=base)


def find_in_worktree(cwd: Path, tree: Path, copied: Sequence[Path]) -> Path:
    """Return the directory in the worktree `tree` that corresponds to `cwd`, which is in one of its originals.

    Raises UsageError where there is none.
    """
    real = Path(os.path.realpath(cwd))
    original = next((one for one in copied if real.is_relative_to(os.path.realpath(one))), None)
    if original is None:
        what = f"cwd {str(cwd)[:200]!r} is not in the repository of the worktree"
    elif (found := tree / real.relative_to(os.path.realpath(original))).is_dir():
        return found
    else:
        what = f"cwd {str(cwd)[:200]!r} has no committed file, so it is not in the worktree"
    do = ["Leave cwd out, or leave isolation out: it then works in cwd itself."]
    raise UsageError("usage", what, do=do, note="nothing was started")


async def open_workspace(
    worktrees: SessionWorktrees,
    path: Path,
    session: SessionInstructions,
    home: Path,
    *,
    is_session: bool = False,
    shares: bool = False,
    wanted: Path | None = None,
) -> AgentWorkspace:
    """Open the workspace of an agent, or of the whole session, whose worktree is `path`.

    `home` has the user's instructions. `shares`: another process has the worktree's lease. `wanted` is the directory
    in the worktree where it works, if one was named. Raises TeamwrightError.
    """
    record = read_record(record_file(path)) if shares else await worktrees.open(path)
    tree = Path(os.path.realpath(path))
    checkout = worktrees.checkout_of(record)
    inside = os.path.relpath(os.path.realpath(worktrees.cwd), checkout)
    if wanted is not None and wanted.is_dir() and Path(os.path.realpath(wanted)).is_relative_to(tree):
        cwd = wanted
    else:
        cwd = tree / inside if not inside.startswith("..") and (tree / inside).is_dir() else tree
    scope = WorktreeBounds(tree, checkout, record.branch)
    return AgentWorkspace(
        record,
        scope,
        cwd,
        SessionInstructions.load(cwd, tree, home, session.compat, session.outside),
        worktrees.variables(record),
        is_session,
    )
