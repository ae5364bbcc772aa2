"""File changes of a session: a unified diff and the authors of each file, for all agents, one member or one edit.

Compares only saved contents, from the first known one to the last; a difference to the file's current content is noted
separately. Large contents are counted, not compared. Depends on the journal.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from teamwright.edit_history.edit_journal_reader import ChangeEntry, EditJournal, count_by_member
from teamwright.protocol.ids import display_name
from teamwright.tools.files.edit_journal_writer import digest, link_content, load_content
from teamwright.tools.files.file_change import (
    MAX_BYTES,
    count_changes,
    decode,
    is_binary,
    open_regular,
    read_all,
    replace_surrogates,
    unified_diff,
)


class CurrentContent(Struct, frozen=True):
    """The hash of a file's content in `digest` (None: the file does not exist), or in `why` the reason it is
    unknown.
    """

    digest: str | None = None
    why: str = ""


def current_content(path: str) -> CurrentContent:
    """Return the current content of the file. Raises nothing; a file of more than 64 MB is not read."""
    above = os.path.dirname(path)
    if os.path.islink(path) and os.path.realpath(above) == above:
        return CurrentContent(digest(link_content(os.readlink(os.fsencode(path)))))
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


DELETED_SINCE = "deleted since"
"""The note about a file that is gone."""

COMPARED_MOST = 4 * 1024 * 1024
"""Maximum bytes of a content that is compared line by line."""

_REPLACED = re.compile(r"^@@ (\d+) lines replaced by (\d+) from", re.MULTILINE)


class EditShare(Struct, frozen=True):
    """The number of an agent's edits of a file, or of all files. `of` is the member that a sub-agent works for."""

    name: str
    edits: int
    of: str = ""


class FileChange(Struct, frozen=True):
    """The changes of one file. `state` is created, changed or removed; `path` is for people, `file` is absolute.

    `diff` is empty when it cannot be shown, and `note` has the reason. `added` and `removed` count lines, None:
    unknown. `since` describes the difference between the last known edit and the file's current content; `between` says
    that something else changed the file between two edits.
    """

    path: str
    file: str
    state: str
    members: tuple[EditShare, ...]
    edits: int
    added: int | None
    removed: int | None
    diff: str
    note: str = ""
    since: str = ""
    between: bool = False


class _ContentChange(Struct, frozen=True):
    """A change from one content to another, over one or more edits."""

    before: str | None
    after: str | None


def file_changes(
    edits: EditJournal, history: Path, cwd: str, by: Sequence[str] = (), owners: dict[str, str] | None = None
) -> Iterator[FileChange]:
    """Yield the files that differ from their first content, in the order of first changes: of all agents, or of these.

    `owners` maps a sub-agent to the member that it works for. Contents are read file by file.
    """
    for path, lines in edits.changes.items():
        now = current_content(path)
        own = [change for change in edits.in_effect(path, lambda now=now: now.digest) if not by or change.member in by]
        if not own:
            continue
        spans = _runs(edits, path, own) if by else [_ContentChange(lines[0].before, lines[-1].after)]
        spans = [span for span in spans if span.before != span.after]
        if spans:
            whose = owners or {}
            shares = tuple(
                EditShare(display_name(name), n, display_name(whose.get(name, "")))
                for name, n in count_by_member(own).items()
            )
            file_change = _file(path, cwd, history, spans, shares)
            yield replace(file_change, since=_since(lines, now.digest, now.why), between=_between(lines))


def newest_edit_of_call(edits: EditJournal, history: Path, cwd: str, call: str) -> FileChange | None:
    """Return the newest edit that this tool call (`c7`) made; None without one."""
    found = [change for lines in edits.changes.values() for change in lines if change.call == call]
    if not found:
        return None
    last = max(found, key=lambda change: change.at)
    return _file(
        last.path, cwd, history, [_ContentChange(last.before, last.after)], (EditShare(display_name(last.member), 1),)
    )


def count_reverted(edits: EditJournal) -> int:
    """Return how many of the changed files have their first content again, as far as is known."""
    return sum(lines[0].before == lines[-1].after for lines in edits.changes.values())


def _runs(edits: EditJournal, path: str, own: Sequence[ChangeEntry]) -> list[_ContentChange]:
    """Return consecutive edits, without changes of others between them, as one content change each."""
    spans: list[_ContentChange] = []
    for change in own:
        if spans and spans[-1].after == change.before:
            spans[-1] = _ContentChange(spans[-1].before, change.after)
        else:
            spans.append(_ContentChange(change.before, change.after))
    return spans


def _between(lines: Sequence[ChangeEntry]) -> bool:
    """Return True when a change begins with a content that no earlier line left, so something else changed the file."""
    known = {lines[0].before, lines[0].after}
    for change in lines[1:]:
        if change.before not in known:
            return True
        known.add(change.after)
    return False


def _since(lines: Sequence[ChangeEntry], now: str | None, why: str) -> str:
    last = lines[-1].after
    if why:
        return f"cannot be compared: {why}"
    if now == last:
        return ""
    if now is None:
        return DELETED_SINCE
    if now == lines[-1].before:
        return "again what it was before the last edit"
    return "changed since by something else"


def _file(
    path: str, cwd: str, history: Path, spans: Sequence[_ContentChange], shares: tuple[EditShare, ...]
) -> FileChange:
    name = display_path(path, cwd)
    first = spans[0].before
    last = spans[-1].after
    state = "created" if first is None else "removed" if last is None else "changed"
    comparisons = [_compared(name, history, span) for span in spans]
    relative = name.lstrip("/")  # a file in a worktree has its whole path, as in `git diff --no-index`
    heads = [
        f"--- {'/dev/null' if first is None else f'a/{relative}'}",
        f"+++ {'/dev/null' if last is None else f'b/{relative}'}",
    ]
    bodies = "".join(one.body for one in comparisons)
    known = all(one.added is not None for one in comparisons)
    return FileChange(
        name,
        path,
        state,
        shares,
        sum(share.edits for share in shares),
        sum(one.added or 0 for one in comparisons) if known else None,
        sum(one.removed or 0 for one in comparisons) if known else None,
        "\n".join([*heads, bodies]) if bodies else "",
        "; ".join(dict.fromkeys(one.note for one in comparisons if one.note)),
    )


class _Diff(Struct, frozen=True):
    body: str = ""
    added: int | None = None
    removed: int | None = None
    note: str = ""


def _compared(name: str, history: Path, span: _ContentChange) -> _Diff:
    sizes = [_size(history, content) for content in (span.before, span.after)]
    if max(sizes) > COMPARED_MOST:
        return _Diff(note=f"too large to compare: {sizes[0]:,} bytes, then {sizes[1]:,}")
    old, new = (b"" if content is None else load_content(history, content) for content in (span.before, span.after))
    if old is None or new is None:
        which = "and".join(w for w, c in (("the former content ", old), (" the new content ", new)) if c is None)
        return _Diff(note=f"{which.strip()} is missing or damaged in the session's history")
    if is_binary(old) or is_binary(new):
        return _Diff(note=f"binary: {len(old):,} bytes, then {len(new):,}")
    diff = replace_surrogates(unified_diff(name, decode(old).text, decode(new).text))
    if not diff:
        empty = not old and not new
        return _Diff(added=0, removed=0, note="empty" if empty else "only line ends or encoding differ")
    body = diff.split("\n", 2)[2]
    replaced = _REPLACED.match(body)
    added, removed = (int(replaced[2]), int(replaced[1])) if replaced else count_changes(diff)
    return _Diff(body, added, removed)


def _size(history: Path, content: str | None) -> int:
    try:
        return 0 if content is None else os.stat(history / content).st_size
    except OSError:
        return 0
