"""Signs that a command waits for an input: a question at the end of its output, or a read from a terminal."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07]*(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f]")
"""Sequences that move the cursor and set colours. They are no part of a question."""

_QUESTION = re.compile(
    r"[\[(]\s*y(?:es)?\s*[/|]\s*no?\b[^\])]*[\])]"  # [y/N], (yes/no/[fingerprint])
    r"|\bpress\s+(?:any\s+key|enter|return)\b|\bhit\s+(?:enter|return)\b"
    r"|\b(?:password|passphrase|passcode|username|login|pin)\b.{0,80}:\s*$",
    re.IGNORECASE,
)
"""A question wherever the last line ends."""

_OPEN_QUESTION = re.compile(r"\?\s*$|^\?\s|\b(?:enter|type|choose|select)\b.*:\s*$", re.IGNORECASE)
"""A question only when the cursor is still behind it: a line that has ended may as well be a report."""

_READ_CALLS = frozenset({"0", "63"})
"""The number of the system call `read`, on x86-64 and on ARM."""

_TERMINALS = ("/dev/pts/", "/dev/tty", "/dev/console")


def find_question(end: str) -> str:
    """Return the last line of an output if it looks like a question to a person, else an empty text.

    `end` is the end of the output.
    """
    text = _CONTROL.sub("", end.replace("\r\n", "\n").rstrip("\r").rpartition("\r")[2])
    line = text.rstrip().rpartition("\n")[2].strip()
    is_open = not text.rstrip(" \t").endswith("\n")
    return line if _QUESTION.search(line) or (is_open and _OPEN_QUESTION.search(line)) else ""


def reads_terminal(pids: Iterable[int]) -> bool:
    """Return True when one of these processes is blocked in a read from a terminal. False where the system does not
    say: only Linux does.
    """
    return any(map(_is_reading_terminal, pids))


def _is_reading_terminal(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/syscall", encoding="ascii") as file:
            number, *arguments = file.read().split()
        if number not in _READ_CALLS:
            return False
        return os.readlink(f"/proc/{pid}/fd/{int(arguments[0], 16)}").startswith(_TERMINALS)
    except (OSError, ValueError, IndexError):  # it has ended, or belongs to another user
        return False
