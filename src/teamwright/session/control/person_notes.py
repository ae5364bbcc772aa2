"""Notes of the person in the instruction files of a session: `#` at a terminal.

The note is stored for later sessions, and the lead reads it with its next prompt. Depends on sessions and `config`.
"""

from __future__ import annotations

from teamwright.config.instruction_notes import NoteFile, append_note, note_files
from teamwright.session.session import Session


def note_choices(session: Session) -> tuple[NoteFile, ...]:
    """Return the instruction files that can store a note, one for each scope."""
    context = session.reloading.context
    return note_files(context.home, context.trust.root, compat=context.settings.compat)


def store_note(session: Session, file: NoteFile, note: str) -> None:
    """Store the note in the file, and give it to the lead with its next prompt. Raises TeamRefused, StorageError."""
    append_note(file, note)
    session.lead.add_note(f"The user added a note to {file.path}, which each session reads: {note}")
