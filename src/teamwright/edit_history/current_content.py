"""What a file has now, as far as it must be known: the name of its content, or why nobody can say.

Knows the file system; knows no journal.
"""

from __future__ import annotations

import os
from pathlib import Path

from teamwright.protocol.values import dataclass
from teamwright.tools.files.edit_journal import digest
from teamwright.tools.files.replace_file import MAX_BYTES, open_regular, read_all


@dataclass(frozen=True, slots=True)
class CurrentContent:
    """`digest` names the content, None: there is no such file. With `why` the content is not known, and that is why."""

    digest: str | None = None
    why: str = ""


def current_content(path: str) -> CurrentContent:
    """What the file has now. Nothing is raised; a file of more than 64 MB is not read."""
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
    """The path as people read it: from the session's directory where it lies in there."""
    inside = bool(cwd) and Path(path).is_relative_to(cwd)
    return os.path.relpath(path, cwd) if inside else path
