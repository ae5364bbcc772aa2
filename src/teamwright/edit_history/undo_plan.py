"""What an undo would do: the newest prompt whose edits are still there, and for each of its files what is to come back.

Decides and changes nothing. A file is refused, by name and with the reason, where anything but the edits that are to
be taken back would be lost.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from pathlib import Path

from teamwright.edit_history.current_content import CurrentContent, current_content
from teamwright.edit_history.edit_journal import (
    ChangeEntry,
    EditJournal,
    PromptEntry,
    UndoEntry,
    count_by_member,
    display_name,
)
from teamwright.protocol.values import dataclass
from teamwright.tools.files.edit_journal import load_content

WITHOUT_CONTENT = "what it had before is missing or damaged in the session's history"


@dataclass(frozen=True, slots=True)
class UndoStep:
    """One file: it has `before` now and is to have `after` (None: it is removed, it was made by an edit).

    `made` is the topmost directory that came with it. `already`: nothing is to be done.
    """

    path: str
    before: str | None
    after: str | None
    members: tuple[str, ...]
    made: str = ""
    already: bool = False


@dataclass(frozen=True, slots=True)
class RefusedFile:
    """A file that an undo must not touch, and why."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class UndoPlan:
    """An undo of a prompt's edits. `undo` is the one that a kill ended and that this completes.

    `left` are files that stay unchanged; `refused` has the reason for each that no one asked to leave.
    """

    prompt: PromptEntry
    steps: tuple[UndoStep, ...]
    refused: tuple[RefusedFile, ...]
    left: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    undo: UndoEntry | None = None


def plan_undo(edits: EditJournal, history: Path, by: Sequence[str] = (), left: Collection[str] = ()) -> UndoPlan | None:
    """What to take back of these members' edits (none named: of everybody's), without the files to leave.

    An undo that a kill ended is completed first. None: there is nothing to take back.
    """
    if (cut_off := edits.cut_off) is not None:
        number, by, wanted = cut_off.prompt, cut_off.by, set(cut_off.paths)
        left = {*cut_off.left, *left}
    else:
        number, wanted = _newest(edits, by), set[str]()
        if number is None:
            return None
    steps: list[UndoStep] = []
    refused: list[RefusedFile] = []
    stay: list[str] = []
    for path in edits.changes:
        if wanted and path not in wanted and path not in left:
            continue
        found = _file(edits, history, path, number, by)
        if found is not None and path in left:
            stay.append(path)
        elif isinstance(found, UndoStep):
            steps.append(found)
        elif found is not None:
            refused.append(found)
    return UndoPlan(edits.prompts[number], tuple(steps), tuple(refused), tuple(stay), tuple(by), cut_off)


def _newest(edits: EditJournal, by: Sequence[str]) -> int | None:
    """The number of the newest prompt of which something can be taken back."""
    found = [
        change.prompt
        for path in edits.changes
        for change in edits.in_effect(path, lambda path=path: current_content(path).digest)
        if change.is_by(by) and not edits.left_out(change)
    ]
    return max(found, default=None)


def _file(
    edits: EditJournal, history: Path, path: str, number: int, by: Sequence[str]
) -> UndoStep | RefusedFile | None:
    """What becomes of one file; None when nothing of that prompt is in it."""
    stack = edits.in_effect(path, lambda: current_content(path).digest)
    mine = [place for place, change in enumerate(stack) if change.prompt == number and change.is_by(by)]
    if not mine:
        return None
    if others := count_by_member(
        [change for change in stack[mine[0] :] if change.prompt != number or not change.is_by(by)]
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
    if now.digest == first.before:
        return UndoStep(path, now.digest, first.before, members, already=True)
    if now.digest != last.after:
        return RefusedFile(path, "it was deleted since" if now.digest is None else "it changed since")
    if first.before is not None and load_content(history, first.before) is None:
        return RefusedFile(path, WITHOUT_CONTENT)
    return UndoStep(path, now.digest, first.before, members, made=first.made)
