"""Mount points of this process, and the other names that they give to a file (Linux: /proc/self/mountinfo)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from teamwright.sandbox.policy import is_inside

_ESCAPED = re.compile(r"\\([0-7]{3})")


class MountPoint(Struct, frozen=True):
    """A mount: the device of its file system, the directory of that which it shows, and the path where it is."""

    device: str
    root: str
    path: str

    def inner(self, path: str) -> str:
        """Return the place in the file system of a path that this mount shows."""
        return os.path.normpath(os.path.join(self.root, os.path.relpath(path, self.path)))


def read_mounts() -> list[MountPoint]:
    """Return the mounts of this process, in their order: a later one at the same path covers an earlier one."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            rows = [line.split(" ") for line in file]
    except OSError:
        return []
    return [MountPoint(row[2], unescape(row[3]), unescape(row[4])) for row in rows]


def mount_of(path: str, mounts: Iterable[MountPoint]) -> MountPoint | None:
    """Return the mount that shows a real path."""
    found: MountPoint | None = None
    for mount in mounts:
        if is_inside(path, mount.path) and (found is None or len(mount.path) >= len(found.path)):
            found = mount
    return found


def other_names(path: str, mounts: Sequence[MountPoint]) -> list[str]:
    """Return the existing paths at which other mounts show the same file or directory."""
    mount = mount_of(path, mounts)
    if mount is None:
        return []
    inner = mount.inner(path)
    found = list[str]()
    for other in mounts:
        if other.device == mount.device and other is not mount and is_inside(inner, other.root):
            name = os.path.normpath(os.path.join(other.path, os.path.relpath(inner, other.root)))
            if name != path and is_same_file(name, path):
                found.append(name)
    return found


def escape(path: str) -> str:
    """Return a path as the kernel writes it in the table of mounts."""
    return "".join(f"\\{ord(one):03o}" if one in " \t\n\\" else one for one in path)


def unescape(text: str) -> str:
    """Return a path from the table of mounts as it is."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), text)


def is_same_file(one: str, other: str) -> bool:
    """Return True when both paths lead to one file; False when one of them does not exist."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False
