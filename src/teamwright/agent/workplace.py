"""Where an agent works: its directory, the directories it may use, what it has read, what it may keep.

A value handed to tools; one for each agent. Knows the file system only through hashes of what was read.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import field
from pathlib import Path

from teamwright.protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class Reading:
    """A file as this agent last saw it: the SHA-256 of its bytes, its mtime and size then, who changed it last."""

    digest: str
    mtime_ns: int
    size: int


@dataclass(slots=True)
class Edits:
    """The last writer of each file in this process, shared by all agents of a run: real path → (member, digest)."""

    by: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])


@dataclass(slots=True)
class Workplace:
    """One agent's place. `cwd` moves with `cd` in the shell; `roots` are the allowed directories by real path.

    `scratch` is a directory of the session for long outputs; `history` keeps former contents of edited files by
    hash; `env` is added to the environment of commands.
    """

    cwd: Path
    roots: tuple[Path, ...]
    scratch: Path
    history: Path
    readings: dict[str, Reading] = field(default_factory=dict[str, Reading])
    edits: Edits = field(default_factory=Edits)
    env: dict[str, str] = field(default_factory=dict[str, str])
    images: bool = True
    nested: Callable[[Path], str] | None = None
    """What the instructions of a directory say to an agent that touches a path in it for the first time."""

    def resolve(self, path: str) -> Path:
        """The path as given by a model, made absolute against `cwd`; `~` is expanded; links are kept."""
        return Path(os.path.normpath(os.path.join(self.cwd, os.path.expanduser(path))))

    def inside(self, path: Path) -> bool:
        """Whether the real path lies in an allowed directory."""
        real = Path(os.path.realpath(path))
        return any(real.is_relative_to(root) for root in self.roots)

    def noted(self, path: Path, content: bytes) -> Reading:
        """Remember that this agent has seen these bytes of the file."""
        stat = os.stat(path)
        reading = Reading(hashlib.sha256(content).hexdigest(), stat.st_mtime_ns, stat.st_size)
        self.readings[os.path.realpath(path)] = reading
        return reading

    def last_seen(self, path: Path) -> Reading | None:
        """How this agent last saw the file, or None."""
        return self.readings.get(os.path.realpath(path))
