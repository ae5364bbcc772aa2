"""The lines of a session's transcripts for a client that keeps sessions in a store, and the way back.

The client of `--session-mirror` gets each new line as an entry. For a resume it writes the entries into a state root of
the other product, which `CLAUDE_CONFIG_DIR` names, and starts the program with it. The file that it wrote may have keys
in another order and other escapes: here it becomes a transcript again. Format: docs/reference/clients.md.
"""

from __future__ import annotations

import json
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
from teamwright.storage.file_lease import lease_held, lease_path
from teamwright.storage.files import keep_damaged_copy, write_atomic, write_new
from teamwright.storage.json_lines import read_backward, read_lines
from teamwright.storage.paths import Home, client_root, make_private
from teamwright.subagents.journal import READERS_DIRECTORY, readers_metadata, readers_transcript

PREFIX_ENTRY = "prefix_text"
"""The type of an entry with the text of a prefix, which a resume on another machine needs. It is no transcript line."""

_PREFIXES = "prefixes"


class TranscriptMirror(Struct):
    """The new lines of a session's transcripts, sent to the client by `write`: the lead's, and those of sub-agents."""

    write: Callable[[dict[str, Any]], object]
    transcript: Path
    is_new: bool
    """False for a resumed session: the client has the lines so far."""
    _sent: dict[Path, int] = field(default_factory=dict[Path, int])
    _prefixes: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        self._sent[self.transcript] = 0 if self.is_new else self._size(self.transcript)
        if not self.is_new:
            self._sent |= {path: self._size(path) for path in (self._session / READERS_DIRECTORY).glob("*.jsonl")}

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
            known = client_root() / "projects" / path.relative_to(self.transcript.parent.parent)
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
        lines = _parse(written)
        if lease_held(lease_path(transcript.with_suffix(""))) or _contains(transcript, lines):
            continue
        make_private(transcript.with_suffix("") / _PREFIXES)
        for entry in lines:
            name = str(entry.get("name"))
            if entry["type"] == PREFIX_ENTRY and name.isalnum():
                write_new(transcript.with_suffix("") / _PREFIXES / f"{name}.json", encode(entry["text"]))
        if transcript.exists():
            keep_damaged_copy(transcript)
        content = [_encode(entry) for entry in lines if entry["type"] != PREFIX_ENTRY]
        write_atomic(transcript, b"".join(line + b"\n" for line in content))


def _parse(written: Path) -> list[dict[str, Any]]:
    try:
        lines = [cast("dict[str, Any]", json.loads(line)) for line in read_lines(written)]
        begins = [entry["type"] for entry in lines if entry["type"] != PREFIX_ENTRY][:1] == ["header"]
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise CannotStart("damaged-file", f"the session in {written} cannot be read: {problem}") from problem
    if not begins:
        raise CannotStart("damaged-file", f"the session in {written} is none of Teamwright's")
    return lines


def _contains(transcript: Path, lines: list[dict[str, Any]]) -> bool:
    """Return True when the transcript has the newest message of these lines."""
    newest = next((entry["uuid"] for entry in reversed(lines) if "uuid" in entry), None)
    found = newest is not None and any(line_uuid(line) == newest for line in read_backward(transcript))
    return found or (newest is None and next(read_lines(transcript), None) is not None)


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
