"""The lines of a session's transcripts for a client that keeps sessions in a store, and the way back.

The client of `--session-mirror` gets each new line as an entry. For a resume it writes the entries into a state root of
the other product, which `CLAUDE_CONFIG_DIR` names, and starts the program with it. The file that it wrote may have keys
in another order and other escapes: here it becomes a transcript again. Format: docs/reference/clients.md.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, field

from teamwright.agent.transcript import compact_line, line_uuid
from teamwright.protocol.errors import CannotStart
from teamwright.protocol.events import AssistantText
from teamwright.protocol.ids import LEAD, is_uuid
from teamwright.protocol.messages import encode
from teamwright.session.options import Options
from teamwright.storage.file_lease import lease_held, lease_path
from teamwright.storage.files import keep_damaged_copy, storage_error, write_atomic, write_new
from teamwright.storage.json_lines import read_backward, read_backward_with_offsets, read_lines
from teamwright.storage.paths import Home, client_root, find_home, make_private
from teamwright.subagents.journal import READERS_DIRECTORY, readers_metadata, readers_transcript

PREFIX_ENTRY = "prefix_text"
"""The type of an entry with the text of a prefix, which a resume on another machine needs. It is no transcript line."""

_NO_LINES = {PREFIX_ENTRY, "agent_metadata"}
"""The types of entries that are no lines of a transcript."""

_PREFIXES = "prefixes"
_DIGEST = re.compile(r"[0-9a-f]{8,64}")


class KnownLines(Struct, frozen=True):
    """The part of a transcript that a client has: all up to the message of this uuid, and so many lines after it."""

    uuid: str
    after: int

    @classmethod
    def read(cls, file: Path) -> KnownLines:
        """Return what a client has that wrote this file, or that was sent all of it."""
        after = 0
        for line in read_backward(file):
            with suppress(ValueError, RecursionError):  # the end of a line that a kill cut off
                entry = json.loads(line)
                if entry.get("uuid"):
                    return cls(str(entry["uuid"]), after)
                after += entry["type"] not in _NO_LINES
        return cls("", after)

    def end_in(self, transcript: Path) -> int:
        """Return the offset in a transcript after these lines; after all of them for another conversation."""
        ends: list[int] = []
        for end, line in read_backward_with_offsets(transcript):
            ends.append(end)
            if self.uuid and line_uuid(line) == self.uuid:
                break
        else:
            if self.uuid:
                return ends[0] if ends else 0
            ends.append(0)
        return ends[max(0, len(ends) - 1 - self.after)]


def known_lines(options: Options) -> dict[Path, KnownLines]:
    """Return what the client has of the session that these options resume, before the session is opened.

    A client that wrote the session has what it wrote: a kill may have kept the last lines from it. Any other client
    has all. Raises CannotStart, UsageError for an unknown session.
    """
    from teamwright.edit_history.history_location import find_history
    from teamwright.saved.sessions import find_session, latest_session

    if options.resume is None or options.fork:
        return {}
    home = find_home(options.home)
    cwd = Path(os.path.realpath(options.cwd))
    view = latest_session(home, cwd) if options.resume == "latest" else find_session(home, cwd, options.resume)
    transcript = find_history(home, cwd, view.id).transcript
    known: dict[Path, KnownLines] = {}
    for path in (transcript, *(transcript.with_suffix("") / READERS_DIRECTORY).glob("*.jsonl")):
        written = clients_path(path, transcript)
        known[path] = KnownLines.read(written if written.exists() else path)
    return known


def clients_path(path: Path, transcript: Path) -> Path:
    """Return where a client has a file of the session with this transcript."""
    return client_root() / "projects" / path.relative_to(transcript.parent.parent)


class TranscriptMirror(Struct):
    """The new lines of a session's transcripts, sent to the client by `write`: the lead's, and those of sub-agents."""

    write: Callable[[dict[str, Any]], object]
    transcript: Path = Path()
    _sent: dict[Path, int] = field(default_factory=dict[Path, int])
    _prefixes: set[str] = field(default_factory=set[str])

    def follow(self, transcript: Path, known: Mapping[Path, KnownLines]) -> None:
        """Send the lines of this session from now on, after those that the client has."""
        self.transcript = transcript
        self._sent = {transcript: 0} | {path: lines.end_in(path) for path, lines in known.items()}
        self._prefixes = set()

    def note_event(self, event: object) -> None:
        """Send what a stored message added to its agent's transcript."""
        if isinstance(event, AssistantText):
            own = event.member == LEAD and not event.parent_call
            self._send(self.transcript if own else readers_transcript(self._session, event.agent_id))

    def send_rest(self) -> None:
        """Send the lines that no message announced, such as a compaction."""
        for path in list(self._sent):
            self._send(path)

    @property
    def _session(self) -> Path:
        return self.transcript.with_suffix("")

    @staticmethod
    def _size(path: Path) -> int:
        try:
            return path.stat().st_size
        except OSError:
            return 0

    def _send(self, path: Path) -> None:
        before = self._sent.get(path, 0)
        if (size := self._size(path)) <= before:
            return
        with open(path, "rb") as file:
            file.seek(before)
            read = file.read(size - before)
        whole = read[: read.rfind(b"\n") + 1]
        entries: list[Any] = [] if path in self._sent else list(self._metadata(path))
        self._sent[path] = before + len(whole)
        for line in whole.splitlines():
            entry = json.loads(line)
            entries += [*self._prefix(entry), entry]
        if entries:
            known = clients_path(path, self.transcript)
            self.write({"type": "transcript_mirror", "filePath": str(known), "entries": entries})

    @staticmethod
    def _metadata(path: Path) -> Iterator[dict[str, Any]]:
        with suppress(OSError, ValueError):
            yield {"type": "agent_metadata", **json.loads(readers_metadata(path).read_bytes())}

    def _prefix(self, entry: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the text of the prefix that a line names first."""
        name = entry.get("prefix")
        if isinstance(name, str) and name not in self._prefixes:
            self._prefixes.add(name)
            with suppress(OSError, ValueError):
                text = json.loads((self._session / _PREFIXES / f"{name}.json").read_bytes())
                yield {"type": PREFIX_ENTRY, "name": name, "text": text}


def take_over(home: Home, id: str) -> None:
    """Make the session that the client has written for a resume one of this home, unless it has all of it already.

    An older or different transcript of that session stays beside it. Nothing is done for an unknown session, and for
    one that is running. Raises CannotStart (`damaged-file`), StorageError.
    """
    if not is_uuid(id) or client_root() == home.own:
        return
    for written in (client_root() / "projects").glob(f"*/{id}.jsonl"):
        transcript = home.own / "projects" / written.parent.name / written.name
        clients = _parse(written)
        if lease_held(lease_path(transcript.with_suffix(""))) or _contains(transcript, clients.newest):
            continue
        make_private(transcript.with_suffix("") / _PREFIXES)
        for name, text in clients.prefixes.items():
            write_new(transcript.with_suffix("") / _PREFIXES / f"{name}.json", text)
        if transcript.exists():
            keep_damaged_copy(transcript)
        write_atomic(transcript, b"".join(line + b"\n" for line in clients.lines))


class _ClientsSession(Struct, frozen=True):
    """A session as a client wrote it: the lines of its transcript, the uuid of the newest message, and prefixes."""

    lines: list[bytes]
    newest: str
    prefixes: dict[str, bytes]


def _parse(written: Path) -> _ClientsSession:
    """Read all of it before anything is written. Raises CannotStart (`damaged-file`)."""
    lines: list[bytes] = []
    newest = ""
    prefixes: dict[str, bytes] = {}
    number = 0
    try:
        for line in read_lines(written):
            number += 1
            entry = cast("dict[str, Any]", json.loads(line))
            if entry["type"] == PREFIX_ENTRY:
                if _DIGEST.fullmatch(name := entry["name"]):
                    prefixes[name] = encode(entry["text"])
                continue
            if not lines and entry["type"] != "header":
                raise CannotStart("damaged-file", f"the session in {written} is none of Teamwright's")
            newest = str(entry.get("uuid") or newest)
            lines.append(_encode(entry))
    except OSError as problem:
        raise storage_error(problem, written) from problem
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        what = f"the session in {written} cannot be read: line {number} is damaged"
        raise CannotStart("damaged-file", what, note="nothing was changed") from problem
    if not lines:
        raise CannotStart("damaged-file", f"the session in {written} is empty")
    return _ClientsSession(lines, newest, prefixes)


def _contains(transcript: Path, newest: str) -> bool:
    """Return True when the transcript has the newest message of a client's session."""
    if not newest:
        return next(read_lines(transcript), None) is not None
    return any(line_uuid(line) == newest for line in read_backward(transcript))


def _encode(entry: dict[str, Any]) -> bytes:
    """Return the entry as a line of a transcript, with the keys at the beginning and at the end that readers expect."""
    if entry["type"] == "compact":
        return compact_line(entry)
    if "message" not in entry:
        return encode({"type": entry.pop("type"), **entry})
    first = {name: entry.pop(name) for name in ("type", "uuid") if name in entry}
    message = entry.pop("message")
    notes = {"notes": entry.pop("notes")} if "notes" in entry else {}
    return encode({**first, **entry, **notes, "message": {"role": message.pop("role"), **message}})
