"""Views of sessions on disk, found by directory or by the beginning of the id, without locks.

Depends on the places and first lines of transcripts.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from pathlib import Path

from msgspec import Struct

from teamwright.agent.transcript import line_blocks, parse_header
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.messages import message_text
from teamwright.protocol.runtime_tags import MESSAGE, NOTIFICATION, PEER_NOTE, REMINDER
from teamwright.storage.event_log import log_path
from teamwright.storage.file_lease import lease_holder, lease_path
from teamwright.storage.files import write_atomic
from teamwright.storage.json_lines import read_lines
from teamwright.storage.paths import Home

_FIRST_LINES = 12

TITLE_FILE = "title"
"""The file in a session's directory with the title that a person gave it."""

_NOT_SAID = (f"<{REMINDER}", f"<{MESSAGE}", PEER_NOTE, f"<{NOTIFICATION}")
"""The beginnings of texts that no user typed."""


class SessionView(Struct, frozen=True):
    """One session. `prompt` is its first prompt; `changed_at` in seconds since 1970; `pid` runs it now, 0: no
    process.
    """

    id: str
    path: Path
    cwd: str = ""
    started: str = ""
    changed_at: float = 0.0
    model: str = ""
    prompt: str = ""
    size: int = 0
    pid: int = 0
    damaged: str = ""
    title: str = ""

    @property
    def label(self) -> str:
        """The title and the first prompt, as lists show them; empty without both."""
        return ": ".join(text for text in (self.title, self.prompt) if text)

    @property
    def directory(self) -> Path:
        """The directory of the session's log, members' transcripts and outputs."""
        return self.path.with_suffix("")

    @property
    def log(self) -> Path:
        """The session's event log."""
        return log_path(self.directory)


def session_views(home: Home, cwd: Path | None = None) -> list[SessionView]:
    """Return the sessions of a directory (None: of all), newest first.

    Those of a directory that was moved here count too, when a link is at its former place.
    """
    places = _entries(home.own / "projects") if cwd is None else _places_of(home, cwd)
    views = [_view(path) for place in places for path in _transcripts(place)]
    if cwd is not None:  # several directories may have the same encoded name
        views = [view for view in views if not view.cwd or is_same_directory(view.cwd, cwd) or view.damaged]
    return sorted(views, key=lambda view: -view.changed_at)


def _places_of(home: Home, cwd: Path) -> list[Path]:
    """Return the places of a directory's sessions: its own, and those of links that lead to it."""
    own = home.project(cwd)
    others = (place for place in _entries(home.own / "projects") if place != own)
    return [own, *(place for place in others if is_same_directory(_cwd_of(place), cwd))]


def _cwd_of(place: Path) -> str:
    """Return the directory of the sessions in this place, from the first one that can be read; empty without one."""
    for path in _transcripts(place):
        with suppress(OSError, TeamwrightError):
            return str(parse_header(next(read_lines(path), b""), path).get("cwd", ""))
    return ""


def is_same_directory(path: str, cwd: Path) -> bool:
    """Return True for a path of this directory, also by links."""
    return bool(path) and (path == str(cwd) or os.path.realpath(path) == os.path.realpath(cwd))


def _transcripts(place: Path) -> list[Path]:
    return [path for path in _entries(place) if path.suffix == ".jsonl"]


def latest_session(home: Home, cwd: Path) -> SessionView:
    """Return the newest complete session of a directory. Raises TeamwrightError (`unknown-session`) without one."""
    whole = (view for view in session_views(home, cwd) if not view.damaged)
    found = next(whole, None)
    if found is None:
        raise TeamwrightError(
            "unknown-session",
            f"there is no session of {cwd}",
            looked_at=[("looked in", str(home.project(cwd)))],
            do=["teamwright sessions --all"],
        )
    return found


def find_session(home: Home, cwd: Path, beginning: str) -> SessionView:
    """Return the one session whose id begins so, or that has this title: of this directory first, else of any.

    Raises TeamwrightError (`unknown-session`) when none or several match.
    """
    lower_beginning = beginning.strip().lower()
    for views in (session_views(home, cwd), session_views(home)):
        found = [view for view in views if lower_beginning and view.id.lower().startswith(lower_beginning)]
        found = found or [view for view in views if lower_beginning and view.title.lower() == lower_beginning]
        if len(found) == 1:
            return found[0]
        if found:
            verb = "begin with" if found[0].id.lower().startswith(lower_beginning) else "have the title"
            raise TeamwrightError(
                "unknown-session",
                f"{len(found)} sessions {verb} {beginning[:80]}",
                looked_at=[("one of", ", ".join(view.id for view in found[:4]))],
                do=["give more of the id"],
            )
    raise TeamwrightError(
        "unknown-session",
        f"no session begins with {beginning[:80]!r}",
        looked_at=[("looked in", str(home.own / "projects"))],
        do=["teamwright sessions --all"],
    )


def first_prompt(lines: Iterable[bytes]) -> str:
    """Return the text of the first user line among the first few, without the runtime's reminders."""
    for line in islice(lines, _FIRST_LINES):
        if not line.startswith(b'{"type":"user"'):
            continue
        try:
            texts = [message_text([block]).strip() for block in line_blocks(line)]
        except (ValueError, KeyError, TypeError):
            continue
        for text in texts:
            if text and not text.startswith(_NOT_SAID):
                return text
    return ""


def _view(path: Path) -> SessionView:
    try:
        stat = path.stat()
        lines = read_lines(path)
        header = parse_header(next(lines, b""), path)
        prompt = first_prompt(lines)
    except (OSError, TeamwrightError) as problem:
        reason = problem.what if isinstance(problem, TeamwrightError) else problem.strerror or str(problem)
        return SessionView(path.stem, path, damaged=reason, changed_at=_changed(path))
    return SessionView(
        id=path.stem,
        path=path,
        cwd=str(header.get("cwd", "")),
        started=str(header.get("at", "")),
        changed_at=stat.st_mtime,
        model=str(header.get("model", "")),
        prompt=prompt,
        title=read_title(path.with_suffix("")),
        size=stat.st_size,
        pid=lease_holder(lease_path(path.with_suffix(""))),
    )


def read_title(directory: Path) -> str:
    """Return the title of the session in this directory; empty without one."""
    try:
        return " ".join((directory / TITLE_FILE).read_text(encoding="utf-8", errors="replace").split())
    except OSError:
        return ""


def save_title(directory: Path, title: str) -> None:
    """Store the title of the session in this directory. Raises StorageError."""
    write_atomic(directory / TITLE_FILE, f"{title}\n".encode())


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _entries(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []
