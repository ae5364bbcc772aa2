"""Notes of the user in instruction files: the file of each scope, and one more line at its end.

Depends on the names of instruction files. Leaves to the caller which scope a note is for, and telling agents of it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from msgspec import Struct

from teamwright.agent.instructions import FILE_NAMES, LOCAL_FILE_NAME, MAX_CHARS
from teamwright.config.settings.files import exclude_from_git
from teamwright.protocol.errors import TeamRefused
from teamwright.storage.files import read_plain, storage_error, write_atomic
from teamwright.storage.paths import Home

NoteScope = Literal["user", "project", "local"]

_TEXT_SUFFIXES = frozenset({".md", ".txt", ".rst"})
_MAX_BYTES = 4 * MAX_CHARS


class NoteFile(Struct, frozen=True):
    """The instruction file in which notes of a scope are stored. `root` is the repository's directory."""

    scope: NoteScope
    path: Path
    root: Path


def note_files(home: Home, root: Path, *, compat: bool) -> tuple[NoteFile, ...]:
    """Return the file of each scope. Without `compat` the local file is not read, and so it is not offered."""
    names = FILE_NAMES if compat else FILE_NAMES[:1]
    project = next((root / name for name in names if os.path.lexists(root / name)), root / FILE_NAMES[0])
    files = (NoteFile("user", home.own / FILE_NAMES[0], root), NoteFile("project", project, root))
    return (*files, NoteFile("local", root / LOCAL_FILE_NAME, root)) if compat else files


def append_note(file: NoteFile, note: str) -> None:
    """Append the note as an item of a list; the file is created when it is missing. The local file is kept out of git.

    Raises TeamRefused when the file is no text or leads out of the repository, and StorageError; the file is unchanged
    then.
    """
    real = Path(os.path.realpath(file.path))
    if file.scope != "user" and not real.is_relative_to(os.path.realpath(file.root)):
        raise _refused(f"{file.path} leads out of the repository", real)
    if real.suffix.lower() not in _TEXT_SUFFIXES:
        raise _refused(f"{file.path} leads to a file that is no text", real)
    is_new = not os.path.lexists(real)
    try:
        before = b"" if is_new else read_plain(real, _MAX_BYTES)
        mode = 0o644 if is_new else real.stat().st_mode & 0o777
    except OSError as problem:
        raise storage_error(problem, file.path) from problem
    if b"\0" in before:
        raise _refused(f"{file.path} is no text", real)
    newline = b"\r\n" if b"\r\n" in before else b"\n"
    gap = b"" if not before or before.endswith(b"\n") else newline
    write_atomic(real, before + gap + b"- " + note.encode("utf-8", "replace") + newline)
    try:
        if file.scope != "user" or not is_new:
            os.chmod(real, mode)
    except OSError as problem:
        raise storage_error(problem, file.path) from problem
    if file.scope == "local":
        exclude_from_git(file.root, file.path)


def _refused(what: str, real: Path) -> TeamRefused:
    return TeamRefused("team-refused", what, looked_at=[("really", str(real))], note="nothing was stored")
