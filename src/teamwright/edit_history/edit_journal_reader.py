"""The journal of a session's edits: prompts, changes of files and undos.

Depends on the format (docs/reference/formats/edit-history.md), and decides which changes are still in effect. Reads
only the journal.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast, get_args

from msgspec import Struct, field

from teamwright.protocol.ids import iso_time
from teamwright.storage.files import storage_error
from teamwright.storage.json_lines import read_lines
from teamwright.tools.files.edit_journal_writer import JOURNAL, append_entry

USER = "user"
"""The author of a file change that an undo makes."""


Scope: TypeAlias = Literal["", "all", "files", "conversation"]
"""The scope of a rewind; empty for an undo, which takes back files."""

SCOPES: frozenset[str] = frozenset(get_args(Scope))


class PromptEntry(Struct, frozen=True):
    """A prompt of a person to the lead. `number` counts from 1; 0 is the time before the first recorded prompt.
    `text` is the beginning of the prompt.
    """

    number: int = 0
    id: str = ""
    at: str = ""
    text: str = ""


class ChangeEntry(Struct, frozen=True):
    """A change of one file. `before` and `after` are hashes of contents; None: the file did not exist.

    `made` is the topmost directory that was created for a new file. `undo` is the id of the undo that made the change.
    `modes` are the modes before and after, as git writes them; empty when both are those of a plain file. `by_shell`: a
    shell command made it.
    """

    at: str
    member: str
    path: str
    before: str | None
    after: str | None
    call: str
    prompt: int
    made: str = ""
    undo: str = ""
    modes: tuple[str, str] = ("", "")
    by_shell: bool = False

    def is_by(self, members: Sequence[str]) -> bool:
        """Return True when one of these agents made the change; without names always."""
        return not members or self.member in members


class UndoEntry(Struct):
    """An undo: of whose edits (`by`; empty: all agents') of which prompt; `ended` says that it was completed.

    `paths` are the files to restore, `left` the files that stay as they are. A rewind undoes the edits of all prompts
    from `prompt` to `last`. Its `scope` says what it takes back; an undo has none.
    """

    id: str
    at: str
    prompt: int
    by: tuple[str, ...]
    paths: tuple[str, ...]
    left: tuple[str, ...]
    last: int = 0
    scope: Scope = ""
    ended: bool = False


class EditJournal(Struct):
    """All entries of a journal, in their order. `damaged` counts lines that cannot be read."""

    prompts: list[PromptEntry] = field(default_factory=lambda: [PromptEntry()])
    changes: dict[str, list[ChangeEntry]] = field(default_factory=dict[str, "list[ChangeEntry]"])
    undos: dict[str, UndoEntry] = field(default_factory=dict[str, UndoEntry])
    cut_off: UndoEntry | None = None
    """The undo that a kill interrupted, as long as no prompt came after it."""
    damaged: int = 0
    accepted: dict[str, str] = field(default_factory=dict[str, str])
    """The time at which the user accepted the work of a member, by its name."""

    @property
    def members(self) -> list[str]:
        """The agents that changed files, in the order of their first change; undos are not counted."""
        found = sorted((c for group in self.changes.values() for c in group if not c.undo), key=lambda c: c.at)
        return list(dict.fromkeys(change.member for change in found))

    @property
    def current_prompts(self) -> list[PromptEntry]:
        """The prompts that no rewind took out of the conversation, oldest first."""
        rewinds = [undo for undo in self.undos.values() if undo.scope in {"all", "conversation"}]
        return [
            prompt
            for prompt in self.prompts[1:]
            if not any(undo.prompt <= prompt.number <= undo.last for undo in rewinds)
        ]

    def in_effect(self, path: str, now: Callable[[], str | None]) -> list[ChangeEntry]:
        """Return the edits of a file that were neither undone nor prevented, oldest first.

        A line had no effect when the next line begins with the same content. `now` returns the file's content hash, and
        is only called after an undo that was interrupted.
        """
        stack: list[ChangeEntry] = []
        lines = self.changes.get(path, [])
        for place, change in enumerate(lines):
            undo = self.undos.get(change.undo)
            if place + 1 < len(lines):
                follows = lines[place + 1].before
            else:
                follows = now() if undo is not None and not undo.ended else change.after
            if follows == change.before != change.after:
                continue
            if undo is None:
                stack.append(change)
            else:
                stack = [one for one in stack if not _of(one, undo)]
        return stack

    def left_out(self, change: ChangeEntry) -> bool:
        """Return True when an undo of the change's prompt was asked to leave this file."""
        return any(_of(change, undo) and change.path in undo.left for undo in self.undos.values())


def _of(change: ChangeEntry, undo: UndoEntry) -> bool:
    return undo.prompt <= change.prompt <= max(undo.prompt, undo.last) and change.is_by(undo.by)


def read_journal(history: Path) -> EditJournal:
    """Return the current journal, empty without a file. Raises StorageError when the disk refuses."""
    journal = EditJournal()
    try:
        for line in read_lines(history / JOURNAL):
            _take(journal, line)
    except OSError as problem:
        raise storage_error(problem, history / JOURNAL) from problem
    return journal


def _take(edits: EditJournal, line: bytes) -> None:
    try:
        fields = cast("dict[str, Any]", json.loads(line.decode("utf-8", "surrogateescape")))
        if "path" in fields:
            _changed(edits, fields)
        elif "undo" in fields:
            _undo_begun(edits, fields)
        elif "undone" in fields:
            edits.undos[str(fields["undone"])].ended = True
            edits.cut_off = None
        elif "accepted" in fields:
            edits.accepted[str(fields["accepted"])] = str(fields["at"])
        elif "prompt" in fields and edits.prompts[-1].id != fields["prompt"]:
            words = str(fields["at"]), str(fields.get("text", ""))
            edits.prompts.append(PromptEntry(len(edits.prompts), str(fields["prompt"]), *words))
            edits.cut_off = None
    except (ValueError, KeyError, TypeError, AttributeError):
        edits.damaged += 1


def _changed(edits: EditJournal, fields: Mapping[str, Any]) -> None:
    before = fields["before"]
    after = fields["after"]
    change = ChangeEntry(
        str(fields["at"]),
        str(fields["member"]),
        str(fields["path"]),
        None if before is None else str(before),
        None if after is None else str(after),
        str(fields.get("call", "")),
        edits.prompts[-1].number,
        str(fields.get("made", "")),
        str(fields.get("undo", "")),
        (str(fields["modes"][0]), str(fields["modes"][1])) if "modes" in fields else ("", ""),
        fields.get("shell") is True,
    )
    edits.changes.setdefault(change.path, []).append(change)


def _undo_begun(edits: EditJournal, fields: Mapping[str, Any]) -> None:
    number = next((prompt.number for prompt in edits.prompts if prompt.id == fields["of"]), 0)
    by, paths, left = (tuple(str(one) for one in fields[key]) for key in ("by", "paths", "left"))
    word = str(fields.get("rewind", ""))
    scope = cast("Scope", word if word in SCOPES else "")
    last = edits.prompts[-1].number if scope else number
    entry = UndoEntry(str(fields["undo"]), str(fields["at"]), number, by, paths, left, last, scope)
    edits.undos[entry.id] = edits.cut_off = entry


# ── additions ────────────────────────────────────────────────────────────────────────────────────────────


def record_undo(history: Path, undo: UndoEntry, of: str) -> None:
    """Record the beginning of an undo; `of` is the id of the prompt. Raises StorageError."""
    line = {"at": undo.at, "undo": undo.id, "of": of, "by": undo.by, "paths": undo.paths, "left": undo.left}
    append_entry(history, line | ({"rewind": undo.scope} if undo.scope else {}))


def record_undone_file(history: Path, undo: str, path: str, before: str | None, after: str | None) -> None:
    """Record that this file is about to be restored to `after`. Raises StorageError."""
    line = {"at": iso_time(), "member": USER, "path": path, "before": before, "after": after, "call": "", "undo": undo}
    append_entry(history, line)


def record_undo_done(history: Path, undo: str) -> None:
    """Record that an undo was completed. Raises StorageError."""
    append_entry(history, {"at": iso_time(), "undone": undo})


def record_accepted(history: Path, member: str) -> None:
    """Record that the user accepts the work of this member. Raises StorageError."""
    append_entry(history, {"at": iso_time(), "accepted": member})


def count_by_member(changes: Sequence[ChangeEntry]) -> dict[str, int]:
    """Return the number of these changes by member, in the order of first changes."""
    counts: dict[str, int] = {}
    for change in changes:
        counts[change.member] = counts.get(change.member, 0) + 1
    return counts
