"""Real paths that are the same in every process.

Links of `/proc` such as `/proc/self/cwd` lead to another file in each process. They are not followed.
"""

from __future__ import annotations

import os

_MAX_LINKS = 40
_OF_PROCESS = frozenset({"self", "thread-self"})
_LINKS = frozenset({"cwd", "root", "task", "map_files", ".."})
"""Entries of a process through which a path continues to files outside `/proc`."""


def real_path(path: str | os.PathLike[str]) -> str:
    """Return the real path, as `os.path.realpath` does, but keep what comes after a process of `/proc` as written."""
    text = os.fspath(path)
    waiting = (text if text.startswith("/") else os.path.join(os.getcwd(), text)).split("/")[::-1]
    found = ""
    links = 0
    while waiting:
        name = waiting.pop()
        if name in {"", "."}:
            continue
        if name == "..":
            found = found.rpartition("/")[0]
            continue
        if found == "/proc" and (name in _OF_PROCESS or name.isdecimal()):
            return "/".join((found, name, *waiting[::-1]))
        target = _target(f"{found}/{name}")
        links += target is not None
        if target is None or links > _MAX_LINKS:
            found = f"{found}/{name}"
            continue
        found = "" if target.startswith("/") else found
        waiting += target.split("/")[::-1]
    return found or "/"


def _target(path: str) -> str | None:
    """Return the target of a link; None for every other file."""
    try:
        return os.readlink(path)
    except OSError:
        return None


def is_process_link(real: str) -> bool:
    """Return True for a real path that is, or goes through, a file of a process that only that process knows."""
    if not real.startswith("/proc/"):
        return False
    entry, *below = real.split("/")[3:] or [""]
    return entry in _LINKS or ".." in below or (entry == "fd" and len(below) > 1)
