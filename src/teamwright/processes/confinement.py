"""The port for confinement: the start of a process that the kernel restricts.

`process_group` starts a confined command through it. Implementations are in `sandbox`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct


class Child(Protocol):
    """A started child process of this process, as `subprocess.Popen` is one."""

    pid: int
    returncode: int | None
    """The exit code, negative for a signal; None until `poll` or `wait` has seen its end."""

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        ...

    def wait(self) -> int:
        """Wait for its end and return the exit code."""
        ...


class ProcessStart(Struct, frozen=True):
    """The start of a process: arguments, directory, the whole environment, and its three standard descriptors."""

    argv: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    stdin: int
    stdout: int
    stderr: int


class Confinement(Protocol):
    """The restrictions of one command, enforced by the kernel."""

    def start(self, start: ProcessStart) -> Child:
        """Start the process in a new session and process group. Raises OSError when it cannot be started."""
        ...


def start_unconfined(start: ProcessStart) -> Child:
    """Start a process without restrictions, in a new session and process group. Raises OSError."""
    return subprocess.Popen(
        start.argv,
        cwd=start.cwd,
        env=start.env,
        stdin=start.stdin,
        stdout=start.stdout,
        stderr=start.stderr,
        start_new_session=True,
    )
