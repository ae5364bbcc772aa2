"""The remains of worktrees that were removed, for the notes of diff, undo and rewind about the files in them.

A worktree is removed when nothing in it could be lost: its commits are merged, or its files are in the archive. Depends
on the integration queues, also those of archived teams, and on git.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from teamwright.edit_history.session_diff import DELETED_SINCE, FileChange
from teamwright.edit_history.undo import WAS_DELETED, RefusedFile, UndoPlan
from teamwright.git.git_calls import run_git
from teamwright.protocol.errors import StorageError
from teamwright.protocol.task import IntegrationState
from teamwright.storage.paths import Home
from teamwright.worktrees.integration_store import IntegrationEntry, read_entries
from teamwright.worktrees.worktree_record import tree_name

_NAMED = 3
"""Maximum number of merges that a note names, the newest first."""


class RemovedWorktrees:
    """The removed worktrees of a state root. `cwd` is a directory of the repository: the session's."""

    def __init__(self, home: Home | None, cwd: str) -> None:
        self._home = home
        self._cwd = Path(cwd)
        self._root = os.path.realpath(home.worktrees) if home is not None else ""
        self._notes: dict[str, str] = {}

    def explain_changes(self, files: Iterator[FileChange]) -> Iterator[FileChange]:
        """Yield the changes; a deleted file of a removed worktree says what became of the worktree."""
        for file in files:
            note = self._note(file.file) if file.since == DELETED_SINCE else ""
            yield replace(file, since=note) if note else file

    def explain_plan(self, plan: UndoPlan) -> UndoPlan:
        """Return the plan with the files of removed worktrees refused; the reason says what became of the worktree.

        A file that an edit created is gone with its worktree, but what was merged has it: nothing was taken back.
        """
        gone = {step.path: note for step in plan.steps if step.already and (note := self._note(step.path))}
        known = {one.path: note for one in plan.refused if one.why == WAS_DELETED and (note := self._note(one.path))}
        return replace(
            plan,
            steps=tuple(step for step in plan.steps if step.path not in gone),
            refused=(
                *(RefusedFile(path, note) for path, note in gone.items()),
                *(replace(one, why=known.get(one.path, one.why)) for one in plan.refused),
            ),
            left=(*plan.left, *gone),
        )

    def _note(self, path: str) -> str:
        """Return what became of the removed worktree that had this file; empty for any other file."""
        if self._home is None or not path.startswith(self._root + os.sep):
            return ""
        parts = os.path.relpath(path, self._root).split(os.sep)
        tree = os.path.join(self._root, *parts[:2])
        if len(parts) < 3 or os.path.lexists(tree):
            return ""
        if tree not in self._notes:
            self._notes[tree] = self._describe(self._home, parts[1])
        return self._notes[tree]

    def _describe(self, home: Home, name: str) -> str:
        commands = [command for entry in _merged_entries(home, name) if (command := self._revert_command(entry))]
        if commands:
            more = f" (and {len(commands) - _NAMED} older ones)" if len(commands) > _NAMED else ""
            return (
                f"its work was merged and its worktree removed; to take that back: {'; '.join(commands[:_NAMED])}{more}"
            )
        copies = sorted(home.archive.glob(f"worktree-{name}-*/files"))
        if copies:
            return f"its worktree was removed; a copy of its files without a commit is in {copies[-1]}"
        return "its worktree was removed; its commits, if it made any, are in the repository: git log --all"

    def _revert_command(self, entry: IntegrationEntry) -> str:
        """Return the command that takes back a merged entry; empty when this repository does not have the commit."""
        found = run_git(self._cwd, "rev-list", "--parents", "-n", "1", entry.commit)
        if not found.ok:
            return ""
        if len(found.output.split()) > 2:
            return f"git revert -m 1 {entry.commit[:12]}"
        message = run_git(self._cwd, "log", "-1", "--format=%B", entry.commit).output
        count = run_git(self._cwd, "rev-list", "--count", f"{entry.base}..{entry.tip}").output.strip()
        if f"Teamwright-Entry: {entry.id}" in message or count in {"", "1"}:
            return f"git revert {entry.commit[:12]}"
        return f"git revert {entry.commit[:12]}~{count}..{entry.commit[:12]}"


def _merged_entries(home: Home, name: str) -> list[IntegrationEntry]:
    """Return the merged entries of the worktree of this name, the newest first, also those of archived teams."""
    queues = [*home.integration("*").parent.glob("*/"), *home.archive.glob("*/integration/")]
    found: list[IntegrationEntry] = []
    for queue in sorted(queues, reverse=True):
        try:
            entries = read_entries(queue)
        except StorageError:
            continue
        found += [one for one in entries if one.state is IntegrationState.MERGED and tree_name(one.branch) == name]
    return sorted(found, key=lambda entry: entry.order, reverse=True)
