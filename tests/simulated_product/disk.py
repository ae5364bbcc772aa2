"""Files as the other product keeps them: writes that truncate, locks that hardly wait; and the log of a stand-in.

Two formats: 2.1.41 and 2.1.329. Knows folders and locks; refuses to know what stands in a file. Where nobody saw how
2.1.329 writes the roster and tasks, it truncates here too: the harder case for whoever reads.
"""

import json
import os
import re
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

OLDER, NEWER = "2.1.41", "2.1.329"
FORMATS = (OLDER, NEWER)

STALE_S = 10.0
"""A lock directory older than this counts as left behind."""

PATIENCE_S = 0.75
"""So long the newer format waits for a lock; the older one does not wait, and loses what it sends meanwhile."""

BOUND_S = 120.0
"""No gate and no wait of a script lasts longer: a test that forgot it ends."""


def root() -> Path:
    """The state root: `CLAUDE_CONFIG_DIR`, else `~/.claude`."""
    return Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path(os.environ["HOME"]) / ".claude")


def team_dir(name: str) -> str:
    """The directory of a team: all but letters and digits becomes `-`, then lower case."""
    return re.sub(r"[^a-zA-Z0-9]", "-", name).lower()


def inbox_stem(name: str) -> str:
    """The file of an inbox: all but letters, digits, `_` and `-` becomes `-`; case stays."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", name)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def stamp(ms: int) -> str:
    """Milliseconds since 1970 as the other product writes a time."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ms // 1000)) + f".{ms % 1000:03d}Z"


def as_file(value: object) -> str:
    """A whole file: two spaces, no newline at the end."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def compact(value: object) -> str:
    """A value inside a text."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def wait_for(path: str | Path) -> None:
    """Until somebody made that file. Raises TimeoutError after BOUND_S."""
    bound = time.monotonic() + BOUND_S
    while not os.path.exists(path):
        if time.monotonic() > bound:
            raise TimeoutError(f"{path} did not come")
        time.sleep(0.002)


class Log:
    """What a stand-in saw and did, one JSON object a line: in the file that `STRANGER_LOG` names; `-` is stdout."""

    def __init__(self, path: str | None) -> None:
        self._path = path

    def note(self, kind: str, **more: Any) -> None:
        if self._path:
            line = json.dumps({"kind": kind, **more}) + "\n"
            with open(1 if self._path == "-" else self._path, "a", closefd=self._path != "-") as file:
                file.write(line)


class Disk:
    """The state root, seen through the habits of one format.

    A gate stops the next write of a file: at `read` before it truncates what it has read, at `cut` when the file has
    0 bytes; until a file exists. So a test meets each habit when it likes.
    """

    def __init__(self, format_: str, log: Log, place: Path | None = None, patience_s: float | None = None) -> None:
        self.newer = format_ == NEWER
        self.patience_s = (PATIENCE_S if self.newer else 0.0) if patience_s is None else patience_s
        self.root = place or root()
        self.log = log
        self._gates: list[tuple[str, str, str]] = []

    def team(self, name: str) -> Path:
        return self.root / "teams" / team_dir(name)

    def config(self, team: str) -> Path:
        return self.team(team) / "config.json"

    def inbox(self, team: str, name: str) -> Path:
        return self.team(team) / "inboxes" / f"{inbox_stem(name)}.json"

    def tasks(self, team: str) -> Path:
        return self.root / "tasks" / team_dir(team)

    def read(self, path: Path) -> Any:
        """What stands in the file; None when it is missing, empty or cut."""
        try:
            return json.loads(path.read_bytes())
        except (OSError, ValueError):
            return None

    def write(self, path: Path, text: str) -> None:
        """Truncate, then write: whoever reads in between meets 0 bytes."""
        self._pause(path, "read")
        with open(path, "w", encoding="utf-8", errors="replace") as file:
            self._pause(path, "cut")
            file.write(text)

    def replace(self, path: Path, text: str) -> None:
        """Write beside, then rename."""
        self._pause(path, "read")
        draft = path.with_name(f"{path.name}.tmp.{uuid.uuid4().hex[:8]}")
        draft.write_text(text, encoding="utf-8", errors="replace")
        os.rename(draft, path)

    @contextmanager
    def lock(self, path: Path) -> Iterator[bool]:
        """The directory `<path>.lock`; False when somebody else has it: then it is left as it is."""
        place = f"{path}.lock"
        got = self._take(place)
        try:
            yield got
        finally:
            if got:
                os.rmdir(place)

    def _take(self, place: str) -> bool:
        bound = time.monotonic() + self.patience_s
        while True:
            try:
                os.mkdir(place)
                os.utime(place)
                return True
            except FileExistsError:
                if _left_behind(place):
                    continue
            if time.monotonic() >= bound:
                return False
            time.sleep(0.005)

    def gate(self, file: str, at: str, until: str) -> None:
        """Stop at the next write of a file of this name."""
        self._gates.append((file, at, until))

    def _pause(self, path: Path, at: str) -> None:
        for gate in self._gates:
            if gate[:2] == (path.name, at):
                self._gates.remove(gate)
                self.log.note("gate", file=path.name, at=at)
                wait_for(gate[2])
                return


def _left_behind(place: str) -> bool:
    """Whether the lock was stale, and is gone now."""
    try:
        if time.time() - os.stat(place).st_mtime <= STALE_S:
            return False
        os.rmdir(place)
    except FileNotFoundError:
        return True
    return True
