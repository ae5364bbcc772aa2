"""The grant of an allowed call: the one value that the verdict, or a person's answer, gives the sandbox of the command.

`Policy.grant_for` makes it. Nothing else decides what the sandbox opens for an agent's command.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from teamwright.sandbox.policy import PolicyName


class NamedPaths(Struct, frozen=True):
    """The files that an allowed line names, by real path.

    `readable` and `writable` are outside of the agent's directories, and opened for this call only: a file, or the
    directory in which the line makes or replaces one. `reads` and `changes` are all files that its words certainly
    read and change, for the question.
    """

    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()


NO_PATHS = NamedPaths()


class CallGrant(Struct, frozen=True):
    """The grant of a call: the degree of confinement, the directories of the agent, and the paths that the line names.

    `directories` are those that the agent's policy has at this moment, by real path.
    """

    policy: PolicyName = PolicyName.WORK
    directories: tuple[Path, ...] = ()
    named: NamedPaths = NO_PATHS
