"""Undo: all files of a prompt or none, each changed under the lock of edits and recorded before and after.

A kill leaves each file old or new, and the undo can be completed. Depends on the journal and files.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from shlex import quote
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from teamwright.edit_history.edit_journal_reader import (
    EditJournal,
    Scope,
    UndoEntry,
    record_undo,
    record_undo_done,
    record_undone_file,
)
from teamwright.edit_history.session_diff import current_content, display_path
from teamwright.edit_history.undo_plan import RefusedFile, UndoPlan, UndoStep, plan_undo
from teamwright.git.git_calls import GitCallOptions, run_git
from teamwright.git.repository import discover
from teamwright.protocol.errors import TeamwrightError, UsageError
from teamwright.protocol.ids import message_id
from teamwright.protocol.runtime_tags import escape_tags
from teamwright.protocol.timestamps import iso_time
from teamwright.protocol.unknown_names import did_you_mean
from teamwright.tools.files.edit_journal_writer import LINK_MODE, digest, link_target, load_content
from teamwright.tools.files.replace_file import lock_file, read_all, write_file

COMMANDS_STAY = "shell commands are covered in a git repository only, without ignored files"
"""The limit of an undo, in the same words in all user interfaces."""

Did: TypeAlias = Literal["restored", "removed", "already", "kept"]
"""The result of an undo for a file: its former content, removed, had it already, left as it is."""

CHANGED: frozenset[Did] = frozenset({"restored", "removed"})
"""Results that mean a changed file."""

_NAMED = 7
"""Maximum number of files that an error names; the rest is counted."""


class UndoneFile(Struct, frozen=True):
    """One file of an undo: its path as shown to people, the result, and whose edits were undone.

    `why` is the reason when the file was left although the user did not ask for it.
    """

    path: str
    did: Did
    members: tuple[str, ...] = ()
    why: str = ""


class UndoResult(Struct, frozen=True):
    """The result of an undo. `prompt` is the beginning of the prompt whose edits it undid, `at` the time of the prompt.

    `completed`: the undo completed one that a kill had interrupted. `id` is its id in the journal, `scope` what a
    rewind takes back.
    """

    id: str
    prompt: str
    at: str
    files: tuple[UndoneFile, ...]
    completed: bool = False
    scope: Scope = ""
    staged: tuple[str, ...] = ()
    """The files whose change a shell command made and that git's index still has: an undo leaves the index."""

    @property
    def changed(self) -> tuple[UndoneFile, ...]:
        """The files that the undo changed."""
        return tuple(file for file in self.files if file.did in CHANGED)


class UndoRequest(Struct, frozen=True):
    """The request for an undo: of which agents (empty: all), and which files to leave, by absolute path.

    `who` names the agents for people; empty: all.
    """

    by: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    who: str = ""


def require_plan(edits: EditJournal, history: Path, cwd: str, wish: UndoRequest) -> UndoPlan:
    """Return the plan; files that must not be touched are left, with the reason in `refused`.

    Raises TeamwrightError (`undo-refused`) when no file is left to undo, UsageError for a file to leave that the plan
    does not contain, StorageError.
    """
    plan = plan_undo(edits, history, wish.by, wish.left)
    if plan is None:
        raise _nothing(edits, wish.who)
    _require_known(plan, wish.left, cwd)
    if plan.refused:
        if not plan.steps:
            raise _refusal(plan, cwd)
        rest = plan_undo(edits, history, wish.by, {*wish.left, *(one.path for one in plan.refused)})
        plan = plan if rest is None else replace(rest, refused=plan.refused)
    if not plan.steps and plan.undo is None:
        raise TeamwrightError("undo-refused", "every file is to be left as it is", note="nothing was changed")
    return plan


async def apply_undo(history: Path, cwd: str, plan: UndoPlan, tell: Callable[[str, str], None]) -> UndoResult:
    """Carry out the plan. `tell` receives the id and the notice for the lead, before the undo is recorded as completed.

    Raises StorageError, and TeamwrightError (`undo-refused`) when a file could not be changed: earlier changes then
    remain, and the same undo completes the rest.
    """
    undo = plan.undo
    if undo is None:
        paths = tuple(step.path for step in plan.steps)
        numbers = plan.prompt.number, plan.by, paths, plan.left, plan.last, plan.scope
        undo = UndoEntry(message_id(), iso_time(), *numbers)
        record_undo(history, undo, plan.prompt.id)
    elif set(plan.left) - set(undo.left):
        record_undo(history, replace(undo, left=plan.left), plan.prompt.id)
    failed: list[RefusedFile] = []
    files: list[UndoneFile] = []
    for step in plan.steps:
        if problem := await _take_back(history, undo.id, step):
            failed.append(RefusedFile(step.path, problem))
            continue
        did: Did = "already" if step.already else "removed" if step.after is None else "restored"
        files.append(UndoneFile(display_path(step.path, cwd), did, step.members))
    if failed and not plan.scope:
        raise _stopped(failed, len(files), cwd)
    files += [UndoneFile(display_path(one.path, cwd), "kept", why=one.why) for one in failed]
    files += _earlier(plan, undo, cwd)
    why = {one.path: one.why for one in plan.refused}
    files += [UndoneFile(display_path(path, cwd), "kept", why=why.get(path, "")) for path in plan.left]
    result = UndoResult(undo.id, plan.prompt.text, plan.prompt.at, tuple(files), plan.undo is not None, plan.scope)
    staged = await asyncio.to_thread(_find_staged, plan.steps)
    result = replace(result, staged=tuple(display_path(path, cwd) for path in staged))
    tell(undo.id, notice_text(result))
    record_undo_done(history, undo.id)
    return result


def notice_text(undone: UndoResult) -> str:
    """Return the notice of an undo to the lead, on one line."""
    names = [file.path for file in undone.changed]
    name_list = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    prompt = f' of the prompt "{undone.prompt}"' if undone.prompt else ""
    if undone.scope in {"all", "conversation"}:
        before = f'the prompt "{undone.prompt}"' if undone.prompt else "a later prompt"
        return escape_tags(
            f"The user took this conversation back to the time before {before}. Files that have their earlier content"
            f" again: {name_list or 'none'}. Read a file again before you change it. What tasks and teammates"
            " did since then was not taken back, nor were changes to files that git ignores."
        )
    return escape_tags(
        f"The user took back the edits{prompt}: {name_list or 'no file'}. Read a file again before you change it."
    )


async def _take_back(history: Path, undo: str, step: UndoStep) -> str:
    """Restore one file under its lock. Return the reason of a failure, or an empty text."""
    path = Path(step.path)
    content = None if step.after is None else load_content(history, step.after)
    if content is None and step.after is not None:
        return "its former content is gone from the history"
    try:
        if step.mode == LINK_MODE or path.is_symlink():
            return _replace_link(history, undo, step, content)
        async with lock_file(path) as fd:
            return _replace(history, undo, step, content, fd)
    except FileExistsError:
        return "it was created since"
    except OSError as problem:
        return problem.strerror or str(problem)


def _replace(history: Path, undo: str, step: UndoStep, content: bytes | None, fd: int | None) -> str:
    if (None if fd is None else digest(read_all(fd))) != step.before:
        return "it changed at this moment"
    record_undone_file(history, undo, step.path, step.before, step.after)
    path = Path(step.path)
    if content is not None:
        if step.before != step.after:
            write_file(path, content, fd)
        _set_mode(path, step.mode)
        return ""
    path.unlink(missing_ok=True)
    if step.made:
        _remove_empty(path.parent, Path(step.made))
    return ""


def _replace_link(history: Path, undo: str, step: UndoStep, content: bytes | None) -> str:
    """Restore a link, or what a link has replaced."""
    path = Path(step.path)
    if current_content(step.path).digest != step.before:
        return "it changed at this moment"
    record_undone_file(history, undo, step.path, step.before, step.after)
    if step.mode == LINK_MODE and content is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name[:100]}.{message_id()}.tmp")
        os.symlink(os.fsdecode(link_target(content)), draft)
        os.replace(draft, path)
        return ""
    path.unlink(missing_ok=True)
    if content is not None:
        write_file(path, content, None)
        _set_mode(path, step.mode)
    return ""


def _set_mode(path: Path, mode: str) -> None:
    """Give the file the rights to execute that this mode of git means; empty: they stay."""
    if not mode:
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        now = stat.S_IMODE(os.fstat(descriptor).st_mode)
        os.fchmod(descriptor, now | (now & 0o444) >> 2 if mode == "100755" else now & ~0o111)
    finally:
        os.close(descriptor)


def _find_staged(steps: Sequence[UndoStep]) -> tuple[str, ...]:
    """Return the files of these steps that differ in git's index from the last commit: a commit would take that.

    Blocks; raises nothing.
    """
    by_tree: dict[Path, list[str]] = {}
    for step in steps:
        if step.by_shell and (found := discover(Path(step.path).parent).repository) is not None:
            by_tree.setdefault(found.tree, []).append(step.path)
    staged: list[str] = []
    for tree, paths in by_tree.items():
        names = [os.path.relpath(path, tree) for path in paths]
        args = ("diff", "--cached", "--name-only", "-z", "--", *names)
        done = run_git(tree, *args, terms=GitCallOptions(variables={"GIT_LITERAL_PATHSPECS": "1"}, exact=True))
        staged += [str(tree / name) for name in done.output.split("\0") if done.ok and name]
    return tuple(staged)


def _remove_empty(directory: Path, top: Path) -> None:
    """Remove the directories that an edit created, where they are empty."""
    with contextlib.suppress(OSError):
        while directory.is_relative_to(top):
            os.rmdir(directory)
            directory = directory.parent


def _earlier(plan: UndoPlan, undo: UndoEntry, cwd: str) -> list[UndoneFile]:
    """Return the files that this undo had restored before it was interrupted."""
    if plan.undo is None:
        return []
    now = {step.path for step in plan.steps} | set(plan.left)
    done = [path for path in undo.paths if path not in now]
    return [UndoneFile(display_path(path, cwd), "restored" if os.path.exists(path) else "removed") for path in done]


# ── refusals ─────────────────────────────────────────────────────────────────────────────────────────────────


def _nothing(edits: EditJournal, who: str) -> TeamwrightError:
    whose = f"of {who} " if who else ""
    if not edits.changes:
        what = "no file was changed in this session"
    else:
        what = f"no edit {whose}is left that could be taken back"
    return TeamwrightError("undo-refused", what, do=["teamwright diff"], note=COMMANDS_STAY)


def _refusal(plan: UndoPlan, cwd: str) -> TeamwrightError:
    count = len(plan.refused)
    return TeamwrightError(
        "undo-refused",
        f"{_files(count)} cannot be taken back",
        looked_at=_named(plan.refused, cwd),
        do=["look at it: teamwright diff"],
        note=f"nothing was changed; {COMMANDS_STAY}",
    )


def _stopped(failed: Sequence[RefusedFile], done: int, cwd: str) -> TeamwrightError:
    return TeamwrightError(
        "undo-refused",
        f"{_files(len(failed))} could not be taken back; {done} {'was' if done == 1 else 'were'}",
        looked_at=_named(failed, cwd),
        do=["make that possible and undo again: it continues with the rest", f"or leave it: {_except(failed, cwd)}"],
    )


def _files(count: int) -> str:
    return f"{count} file{'' if count == 1 else 's'}"


def _named(refused: Sequence[RefusedFile], cwd: str) -> list[tuple[str, str]]:
    rows = [("file", f"{display_path(one.path, cwd)}: {one.why}") for one in refused[:_NAMED]]
    return [*rows, *([("", f"and {len(refused) - _NAMED} more")] if len(refused) > _NAMED else [])]


def _except(refused: Sequence[RefusedFile], cwd: str) -> str:
    words = [f"--except {quote(display_path(one.path, cwd))}" for one in refused[:_NAMED]]
    return " ".join(words) + (" …" if len(refused) > _NAMED else "")


def _require_known(plan: UndoPlan, left: Collection[str], cwd: str) -> None:
    known = [step.path for step in plan.steps] + [one.path for one in plan.refused] + list(plan.left)
    for path in left:
        if path in plan.left:
            continue
        raise UsageError(
            "usage",
            f"{display_path(path, cwd)} is no file that would be taken back",
            do=did_you_mean(display_path(path, cwd), [display_path(one, cwd) for one in known], ["leave --except out"]),
            note="nothing was changed",
        )
