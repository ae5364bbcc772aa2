"""The current content of a file: its hash, or the reason why the content is unknown.

Depends on the file system.
"""

from __future__ import annotations

import os
from pathlib import Path

from teamwright.protocol.values import dataclass
from teamwright.tools.files.edit_journal import digest
from teamwright.tools.files.replace_file import MAX_BYTES, open_regular, read_all


@dataclass(frozen=True, slots=True)
class CurrentContent:
    """The hash of a file's content in `digest` (None: the file does not exist), or in `why` the reason it is
    unknown.
    """

    digest: str | None = None
    why: str = ""


def current_content(path: str) -> CurrentContent:
    """Return the current content of the file. Raises nothing; a file of more than 64 MB is not read."""
    if os.path.realpath(path) != path:
        return CurrentContent(why="the way to it is a link now")
    try:
        fd = open_regular(Path(path))
    except FileNotFoundError:
        return CurrentContent()
    except OSError as problem:
        return CurrentContent(why=problem.strerror or str(problem))
    try:
        if os.fstat(fd).st_size > MAX_BYTES:
            return CurrentContent(why="it is larger than 64 MB now")
        return CurrentContent(digest(read_all(fd)))
    except OSError as problem:
        return CurrentContent(why=problem.strerror or str(problem))
    finally:
        os.close(fd)


def display_path(path: str, cwd: str) -> str:
    """Return the path as shown to people: relative to the session's directory where the file is inside it."""
    inside = bool(cwd) and Path(path).is_relative_to(cwd)
    return os.path.relpath(path, cwd) if inside else path
