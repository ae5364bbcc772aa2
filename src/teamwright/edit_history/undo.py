"""Undo: the plan of what an undo or a rewind restores, and its execution, all files of a prompt or none.

A file is refused, with its name and the reason, when the undo would lose other changes than the edits to be undone.
Each file is changed under the lock of edits and recorded before and after. A kill leaves each file old or new, and the
undo can be completed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from pathlib import Path
from shlex import quote
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from teamwright.edit_history.edit_journal_reader import (
    ChangeEntry,
    EditJournal,
    PromptEntry,
    Scope,
    UndoEntry,
    count_by_member,
    record_undo,
    record_undo_done,
    record_undone_file,
)
from teamwright.edit_history.session_diff import CurrentContent, current_content, display_path
from teamwright.git.git_calls import GitCallOptions, run_git
from teamwright.git.repository import discover, work_tree
from teamwright.protocol.errors import TeamwrightError, UsageError
from teamwright.protocol.ids import did_you_mean, display_name, iso_time, message_id
from teamwright.protocol.runtime_tags import escape_tags
from teamwright.tools.files.edit_journal_writer import LINK_MODE, digest, file_mode, link_target, load_content
from teamwright.tools.files.file_change import lock_file, read_all, write_file

WITHOUT_CONTENT = "what it had before is missing or damaged in the session's history"


WAS_DELETED = "it was deleted since"
"""The reason for a file that is gone."""


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


class UndoStep(Struct, frozen=True):
    """One file: it has `before` now and gets `after` (None: an edit created the file, and it is removed).

    `made` is the topmost directory created with it. `already`: the file needs no change. `mode` is the mode that it
    gets, as git writes it; empty: the mode stays. `by_shell`: a shell command changed it.
    """

    path: str
    before: str | None
    after: str | None
    members: tuple[str, ...]
    made: str = ""
    already: bool = False
    mode: str = ""
    by_shell: bool = False


class RefusedFile(Struct, frozen=True):
    """A file that an undo must not touch, and why."""

    path: str
    why: str


class UndoPlan(Struct, frozen=True):
    """An undo of a prompt's edits. `undo` is the one that a kill ended and that this completes.

    `left` are files that stay unchanged; `refused` has the reason for each that no one asked to leave. A rewind has a
    `scope`, and takes back the edits of all prompts up to the number `last`.
    """

    prompt: PromptEntry
    steps: tuple[UndoStep, ...]
    refused: tuple[RefusedFile, ...]
    left: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    undo: UndoEntry | None = None
    last: int = 0
    scope: Scope = ""


def limit_of_undo(cwd: str) -> str:
    """Return what an undo in this directory does not cover, in the same words in all user interfaces."""
    if work_tree(Path(cwd)) is None:
        return "changes by shell commands are not covered outside a git repository"
    return "changes by shell commands are covered, but not to files that git ignores"


def require_plan(
    edits: EditJournal,
    history: Path,
    cwd: str,
    wish: UndoRequest,
    explain: Callable[[UndoPlan], UndoPlan] = lambda plan: plan,
) -> UndoPlan:
    """Return the plan; files that must not be touched are left, with the reason in `refused`, as `explain` words it.

    Raises TeamwrightError (`undo-refused`) when no file is left to undo, UsageError for a file to leave that the plan
    does not contain, StorageError.
    """
    plan = plan_undo(edits, history, wish.by, wish.left)
    if plan is None:
        raise _nothing(edits, wish.who, cwd)
    _require_known(plan, wish.left, cwd)
    plan = explain(plan)
    if plan.refused:
        if not plan.steps:
            raise _refusal(plan, cwd)
        rest = plan_undo(edits, history, wish.by, {*wish.left, *(one.path for one in plan.refused)})
        plan = plan if rest is None else replace(rest, refused=plan.refused)
    if not plan.steps and plan.undo is None:
        raise TeamwrightError("undo-refused", "every file is to be left as it is", note="nothing was changed")
    return plan


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


async def apply_undo(history: Path, cwd: str, plan: UndoPlan, tell: Callable[[str, str], None]) -> UndoResult:
    """Carry out the plan. `tell` receives the id and the notice for the lead, before the undo is recorded as completed.

    Raises StorageError, and TeamwrightError (`undo-refused`) when a file could not be changed: earlier changes then
    remain, and the same undo completes the rest.
    """
    undo = plan.undo
    if undo is None:
        paths = tuple(step.path for step in plan.steps)
        undo = UndoEntry(message_id(), iso_time(), plan.prompt.number, plan.by, paths, plan.left, plan.last, plan.scope)
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


def plan_undo(edits: EditJournal, history: Path, by: Sequence[str] = (), left: Collection[str] = ()) -> UndoPlan | None:
    """Return the plan for these members' edits (empty: all agents'), without the files to leave.

    An undo that a kill interrupted is completed first. Returns None when there is nothing to undo.
    """
    if (cut_off := edits.cut_off) is not None:
        number = cut_off.prompt
        by = cut_off.by
        selected = set(cut_off.paths)
        left = {*cut_off.left, *left}
    else:
        number = _newest(edits, by)
        selected = set[str]()
        if number is None:
            return None
    paths = [path for path in edits.changes if not selected or path in selected or path in left]
    steps, refused, stay = _steps(edits, history, paths, range(number, number + 1), by, left)
    return UndoPlan(edits.prompts[number], steps, refused, stay, tuple(by), cut_off, number)


def plan_rewind(edits: EditJournal, history: Path, number: int, scope: Scope) -> UndoPlan:
    """Return the plan of a rewind to the time before the prompt with this number. Files that must not be touched are
    left, with the reason in `refused`. A rewind that a kill interrupted is completed instead.
    """
    last = edits.prompts[-1].number
    undo = edits.cut_off
    paths = list(edits.changes)
    if undo is not None and undo.scope:
        number = undo.prompt
        last = undo.last
        scope = undo.scope
        paths = [*undo.paths, *undo.left]
    else:
        undo = None
    if scope == "conversation":
        return UndoPlan(edits.prompts[number], (), (), (), (), undo, last, scope)
    steps, refused, _ = _steps(edits, history, paths, range(number, last + 1), (), ())
    stay = tuple(one.path for one in refused)
    return UndoPlan(edits.prompts[number], steps, refused, stay, (), undo, last, scope)


def _steps(
    edits: EditJournal,
    history: Path,
    paths: Sequence[str],
    numbers: range,
    by: Sequence[str],
    left: Collection[str],
) -> tuple[tuple[UndoStep, ...], tuple[RefusedFile, ...], tuple[str, ...]]:
    """Return the files to restore, the files that must not be touched, and those of `left` that have such edits."""
    steps: list[UndoStep] = []
    refused: list[RefusedFile] = []
    stay: list[str] = []
    for path in paths:
        found = _file(edits, history, path, numbers, by)
        if found is not None and path in left:
            stay.append(path)
        elif isinstance(found, UndoStep):
            steps.append(found)
        elif found is not None:
            refused.append(found)
    return tuple(steps), tuple(refused), tuple(stay)


def _newest(edits: EditJournal, by: Sequence[str]) -> int | None:
    """Return the number of the newest prompt with edits that can be undone."""
    found = [
        change.prompt
        for path in edits.changes
        for change in edits.in_effect(path, lambda path=path: current_content(path).digest)
        if change.is_by(by) and not edits.left_out(change)
    ]
    return max(found, default=None)


def _file(
    edits: EditJournal, history: Path, path: str, numbers: range, by: Sequence[str]
) -> UndoStep | RefusedFile | None:
    """Return the step for one file; None when the file has no edit of these prompts."""
    stack = edits.in_effect(path, lambda: current_content(path).digest)
    mine = [place for place, change in enumerate(stack) if change.prompt in numbers and change.is_by(by)]
    if not mine:
        return None
    if others := count_by_member(
        [change for change in stack[mine[0] :] if change.prompt not in numbers or not change.is_by(by)]
    ):
        return RefusedFile(path, f"{' and '.join(map(display_name, others))} changed it too, after that")
    own = [stack[place] for place in mine]
    if any(one.after != next_one.before for one, next_one in pairwise(own)):
        return RefusedFile(path, "something else changed it between two of the edits")
    return _step(history, path, own, current_content(path))


def _step(history: Path, path: str, own: Sequence[ChangeEntry], now: CurrentContent) -> UndoStep | RefusedFile:
    first = own[0]
    last = own[-1]
    members = tuple(map(display_name, count_by_member(own)))
    if now.why:
        return RefusedFile(path, now.why)
    mode = _former_mode(own) if first.before is not None else ""
    by_shell = any(change.by_shell for change in own)
    if now.digest == first.before and mode in {"", file_mode(path)}:
        return UndoStep(path, now.digest, first.before, members, already=True, by_shell=by_shell)
    if now.digest != last.after:
        return RefusedFile(path, WAS_DELETED if now.digest is None else "it changed since")
    if first.before is not None and load_content(history, first.before) is None:
        return RefusedFile(path, WITHOUT_CONTENT)
    return UndoStep(path, now.digest, first.before, members, first.made, mode=mode, by_shell=by_shell)


def _former_mode(own: Sequence[ChangeEntry]) -> str:
    """Return the mode before the first of these changes; empty when none of them had or left an unusual one."""
    for change in own:
        if any(change.modes):
            return change.modes[0] or "100644"
    return ""


# ── refusals ─────────────────────────────────────────────────────────────────────────────────────────────────


def _nothing(edits: EditJournal, who: str, cwd: str) -> TeamwrightError:
    whose = f"of {who} " if who else ""
    if not edits.changes:
        what = "no file was changed in this session"
    else:
        what = f"no edit {whose}is left that could be taken back"
    return TeamwrightError("undo-refused", what, do=["teamwright diff"], note=limit_of_undo(cwd))


def _refusal(plan: UndoPlan, cwd: str) -> TeamwrightError:
    count = len(plan.refused)
    return TeamwrightError(
        "undo-refused",
        f"{_file_count(count)} cannot be taken back",
        looked_at=_named(plan.refused, cwd),
        do=["look at it: teamwright diff"],
        note=f"nothing was changed; {limit_of_undo(cwd)}",
    )


def _stopped(failed: Sequence[RefusedFile], done: int, cwd: str) -> TeamwrightError:
    return TeamwrightError(
        "undo-refused",
        f"{_file_count(len(failed))} could not be taken back; {done} {'was' if done == 1 else 'were'}",
        looked_at=_named(failed, cwd),
        do=["make that possible and undo again: it continues with the rest", f"or leave it: {_except(failed, cwd)}"],
    )


def _file_count(count: int) -> str:
    return f"{count} file{'' if count == 1 else 's'}"


def _named(refused: Sequence[RefusedFile], cwd: str) -> list[tuple[str, str]]:
    rows = [("file", f"{display_path(one.path, cwd)}: {one.why}") for one in refused[:_NAMED]]
    return [*rows, *([("", f"and {len(refused) - _NAMED} more")] if len(refused) > _NAMED else [])]


def _except(refused: Sequence[RefusedFile], cwd: str) -> str:
    words = [f"--except {quote(display_path(one.path, cwd))}" for one in refused[:_NAMED]]
    return " ".join(words) + (" …" if len(refused) > _NAMED else "")
