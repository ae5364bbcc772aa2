"""Plans of undos: the newest prompt whose edits are still in effect, and the content to restore in each file.

Changes nothing. A file is refused, with its name and the reason, when the undo would lose other changes than the edits
to be undone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from pathlib import Path

from msgspec import Struct

from teamwright.edit_history.edit_journal_reader import (
    ChangeEntry,
    EditJournal,
    PromptEntry,
    Scope,
    UndoEntry,
    count_by_member,
    display_name,
)
from teamwright.edit_history.session_diff import CurrentContent, current_content
from teamwright.tools.files.edit_journal_writer import file_mode, load_content

WITHOUT_CONTENT = "what it had before is missing or damaged in the session's history"


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


def plan_undo(edits: EditJournal, history: Path, by: Sequence[str] = (), left: Collection[str] = ()) -> UndoPlan | None:
    """Return the plan for these members' edits (empty: all agents'), without the files to leave.

    An undo that a kill interrupted is completed first. Returns None when there is nothing to undo.
    """
    if (cut_off := edits.cut_off) is not None:
        number, by, selected = cut_off.prompt, cut_off.by, set(cut_off.paths)
        left = {*cut_off.left, *left}
    else:
        number, selected = _newest(edits, by), set[str]()
        if number is None:
            return None
    paths = [path for path in edits.changes if not selected or path in selected or path in left]
    steps, refused, stay = _steps(edits, history, paths, range(number, number + 1), by, left)
    return UndoPlan(edits.prompts[number], steps, refused, stay, tuple(by), cut_off, number)


def plan_rewind(edits: EditJournal, history: Path, number: int, scope: Scope) -> UndoPlan:
    """Return the plan of a rewind to the time before the prompt with this number. Files that must not be touched are
    left, with the reason in `refused`. A rewind that a kill interrupted is completed instead.
    """
    last, undo, paths = edits.prompts[-1].number, edits.cut_off, list(edits.changes)
    if undo is not None and undo.scope:
        number, last, scope, paths = undo.prompt, undo.last, undo.scope, [*undo.paths, *undo.left]
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
    first, last = own[0], own[-1]
    members = tuple(map(display_name, count_by_member(own)))
    if now.why:
        return RefusedFile(path, now.why)
    mode = _former_mode(own) if first.before is not None else ""
    by_shell = any(change.by_shell for change in own)
    if now.digest == first.before and mode in {"", file_mode(path)}:
        return UndoStep(path, now.digest, first.before, members, already=True, by_shell=by_shell)
    if now.digest != last.after:
        return RefusedFile(path, "it was deleted since" if now.digest is None else "it changed since")
    if first.before is not None and load_content(history, first.before) is None:
        return RefusedFile(path, WITHOUT_CONTENT)
    return UndoStep(path, now.digest, first.before, members, first.made, mode=mode, by_shell=by_shell)


def _former_mode(own: Sequence[ChangeEntry]) -> str:
    """Return the mode before the first of these changes; empty when none of them had or left an unusual one."""
    for change in own:
        if any(change.modes):
            return change.modes[0] or "100644"
    return ""
