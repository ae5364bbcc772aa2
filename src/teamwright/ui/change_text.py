"""Lines that show changed files, undo results and the review of a team's work, each as a style and a text.

The texts are not cleaned; the caller makes them safe for a terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from shlex import quote

from msgspec import Struct, field

from teamwright.edit_history.edit_journal_reader import Scope
from teamwright.edit_history.session_diff import EditShare, FileChange, display_path
from teamwright.edit_history.undo import Did, UndoneFile, UndoPlan, UndoResult, limit_of_undo
from teamwright.ui.terminal.styles import StyledLine, styled_diff

_UNDO_WORDS: Mapping[Did, str] = {"restored": "restored", "removed": "removed", "already": "as it was", "kept": "left"}


class ChangeTotals(Struct):
    """Sums over the files that were counted."""

    files: int = 0
    added: int = 0
    removed: int = 0
    edits: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, change: FileChange) -> FileChange:
        """Add a file to the sums and return it."""
        self.files += 1
        self.added += change.added or 0
        self.removed += change.removed or 0
        for share in change.members:
            self.edits[_editor_name(share)] = self.edits.get(_editor_name(share), 0) + share.edits
        return change

    def __str__(self) -> str:
        who = ", ".join(f"{name} {_edits(count)}" for name, count in self.edits.items())
        return f"{_files(self.files)}, +{self.added} -{self.removed}; {who}"


def change_lines(change: FileChange) -> Iterator[StyledLine]:
    """Yield the lines of a changed file: its editors, line counts, notes and diff."""
    state = "" if change.state == "changed" else f" ({change.state})"
    yield "bold", f"{change.path}{state}  {line_counts(change)}  {editor_names(change.members)}"
    yield from (("yellow", f"  {note}") for note in change_notes(change))
    yield from styled_diff(change.diff.removesuffix("\n").split("\n") if change.diff else [])


def change_notes(change: FileChange) -> list[str]:
    """Return the notes on a file, which are shown in addition to its diff."""
    between = "something else changed it between two of the edits" if change.between else ""
    return [note for note in (change.note, between, change.since) if note]


def line_counts(change: FileChange) -> str:
    """Return the numbers of added and removed lines as a text."""
    return "+? -?" if change.added is None else f"+{change.added} -{change.removed}"


def editor_names(shares: Sequence[EditShare]) -> str:
    """Return the names of the editors of a file, with the number of edits of each."""
    return ", ".join(f"{_editor_name(share)} {_edits(share.edits)}" for share in shares)


def _editor_name(share: EditShare) -> str:
    return f"{share.name} (of {share.of})" if share.of else share.name


def comparison_line(member: str, against: str) -> str:
    """Return the line above the changes in a member's worktree."""
    return f"The worktree of {member} compared with {against}, with files that are in no commit:"


def summary_notes(cwd: str, unchanged: int, cut_off: str, damaged: int) -> list[str]:
    """Return the notes on the list of files of a session in `cwd`."""
    lines = [f"{_files(unchanged)} edited and as before again"] if unchanged else []
    lines += [f"an undo that began at {cut_off} was cut off: undo again to complete it"] if cut_off else []
    lines += [f"{damaged} line{'' if damaged == 1 else 's'} of the journal cannot be read"] if damaged else []
    return [*lines, limit_of_undo(cwd)]


# ── undo ─────────────────────────────────────────────────────────────────────────────────────────────────────


_STAGED_SHOWN = 10
"""The most files that the command names."""

TAKEN_BACK: dict[Scope, str] = {
    "all": "conversation and files",
    "files": "only files; the conversation stays",
    "conversation": "only the conversation; files stay",
}
"""The parts that a rewind of each scope takes back."""


def plan_rows(plan: UndoPlan, cwd: str) -> list[tuple[str, str, str]]:
    """Return one row for each file of an undo plan: the action, the path, the editors."""
    rows = [(_planned_act(step.after, already=step.already), step.path, step.members) for step in plan.steps]
    why = {one.path: one.why for one in plan.refused}
    rows += [("leave", path, (why[path],) if path in why else ()) for path in plan.left]
    return [(act, display_path(path, cwd), ", ".join(words)) for act, path, words in rows]


def _planned_act(after: str | None, *, already: bool) -> str:
    return "as it is" if already else "remove" if after is None else "restore"


def undone_lines(undone: UndoResult, cwd: str) -> list[str]:
    """Return the lines that report an undo in a session of this directory."""
    prompt = f' of "{undone.prompt}"' if undone.prompt else ""
    head = "completed an undo that was cut off; its edits were those" if undone.completed else "took back the edits"
    files = list(map(_undone_line, undone.files)) or ["no file was left to take back"]
    return [f"{head}{prompt}", *(f"  {line}" for line in files), *_staged_lines(undone), limit_of_undo(cwd)]


def rewound_lines(undone: UndoResult, cwd: str) -> list[str]:
    """Return the lines that report a rewind in a session of this directory."""
    what = "the files are" if undone.scope == "files" else "the conversation is"
    what = "conversation and files are" if undone.scope == "all" else what
    head = f'{what} back to the time before "{undone.prompt}"' if undone.prompt else f"{what} back"
    done = "completed a rewind that was interrupted: " if undone.completed else ""
    rest = [] if undone.scope == "conversation" else [limit_of_undo(cwd)]
    return [f"{done}{head}", *(f"  {_undone_line(file)}" for file in undone.files), *_staged_lines(undone), *rest]


def _staged_lines(undone: UndoResult) -> list[str]:
    """Return the line about changes that git's index still has."""
    if not undone.staged:
        return []
    shown = " ".join(map(quote, undone.staged[:_STAGED_SHOWN])) + (" …" if len(undone.staged) > _STAGED_SHOWN else "")
    return [f"git's index still has the changes of {len(undone.staged)} of them: git restore --staged -- {shown}"]


def _undone_line(file: UndoneFile) -> str:
    beside = ", ".join(file.members) or file.why
    return f"{_UNDO_WORDS[file.did]:<9}  {file.path}" + (f"  ({beside})" if beside else "")


def stat_rows(changes: Iterable[FileChange]) -> Iterator[tuple[str, str, str, str]]:
    """Yield one row for each file: path, line counts, editors, notes."""
    for change in changes:
        state = () if change.state == "changed" else (change.state,)
        yield change.path, line_counts(change), editor_names(change.members), "; ".join((*state, *change_notes(change)))


def _files(count: int) -> str:
    return f"{count} file{'' if count == 1 else 's'}"


def _edits(count: int) -> str:
    return f"{count} edit{'' if count == 1 else 's'}"
