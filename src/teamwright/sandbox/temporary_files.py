"""The temporary files of a session: commands in bubblewrap, and file tools, have one directory of it as `/tmp`.

Under Landlock nothing replaces `/tmp`, and the directory has the name that `TMPDIR` contains. Depends on the sandbox,
which is made for the first path below `/tmp`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

from teamwright.sandbox.policy import is_inside

if TYPE_CHECKING:
    from teamwright.sandbox.sandbox import Sandbox

_TOP = "/tmp"


class TemporaryFiles(Struct, frozen=True):
    """The session's directory for temporary files by real path, and a function that makes the session's sandbox.

    `checkout`: the person's checkout by real path, for an agent in a worktree. Its paths are the person's files also
    below `/tmp`, so that a change to them is refused and not made elsewhere.
    """

    directory: str
    sandbox: Callable[[], Sandbox]
    checkout: str = ""

    def seen_by_command(self, path: str, roots: Iterable[str]) -> str:
        """Return the file that a confined command means by an absolute path. `roots` are the agent's directories."""
        if not is_inside(path, _TOP) or not self.sandbox().replaces_tmp or self._is_shown(path, roots):
            return path
        return self.directory + path.removeprefix(_TOP)

    def seen_by_tool(self, path: str, roots: Iterable[str]) -> str:
        """Return the file that a file tool uses: that of commands, or one that only the system's `/tmp` has."""
        ours = self.seen_by_command(path, roots)
        return path if ours != path and not os.path.lexists(ours) and os.path.lexists(path) else ours

    def contains(self, real: str) -> bool:
        """Return True when a real path is one of the session's temporary files."""
        return is_inside(real, self.directory)

    def name(self, path: str) -> str:
        """Return the name in `/tmp` of a temporary file, for rules; any other path as it is."""
        inside = self.contains(path) and self.sandbox().replaces_tmp
        return _TOP + path.removeprefix(self.directory) if inside else path

    def _is_shown(self, path: str, roots: Iterable[str]) -> bool:
        """Return True for a path of the agent's checkout, or one that commands see below the system's `/tmp`."""
        own = (self.checkout,) if self.checkout else ()
        shown = [os.path.realpath(top) for top in (*roots, *own, *self.sandbox().shown_paths())]
        real = os.path.realpath(path)
        return any(top != "/" and (is_inside(path, top) or is_inside(real, top)) for top in shown)
