"""Socket files of our own tmux servers: tmux leaves them in its directory when a server ends.

Depends on no other module. Leaves to `tmux` when a server has no pane any more.
"""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

OWN_SOCKET = "teamwright-"
"""How the socket names of our own servers begin."""


def is_own_socket(path: str) -> bool:
    """Return whether this is the socket of a server that we start outside of the user's tmux."""
    return Path(path).name.startswith(OWN_SOCKET)


def remove_socket(path: str) -> None:
    """Remove the file of a server that has ended. Does nothing when it cannot be removed."""
    with contextlib.suppress(OSError):
        Path(path).unlink()


def remove_dead_sockets(beside: str) -> None:
    """Remove the socket files of our own servers in the directory of this one that no server answers."""
    with contextlib.suppress(OSError):
        for path in Path(beside).parent.iterdir():
            if is_own_socket(str(path)) and str(path) != beside and _is_dead(path):
                remove_socket(str(path))


def _is_dead(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False
