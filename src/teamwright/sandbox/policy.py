"""Sandbox policies as values: what a command may read, write and reach; and the settings of the sandbox.

`narrow` returns a policy that is no wider than another one. Paths are real paths. Depends on nothing above `protocol`.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace


class SandboxMode(StrEnum):
    """The modes of the sandbox, the strictest last."""

    OFF = "off"
    """No command is confined."""

    AUTO = "auto"
    """Commands are confined by the best implementation that this system has."""

    REQUIRED = "required"
    """A session does not start without an implementation."""


class PolicyName(StrEnum):
    """The degrees of confinement, the widest last."""

    READ = "read"
    """Nothing can be changed, no network; only the session's directories and the system can be read."""

    WORK = "work"
    """The session's directories and caches can be changed; credentials cannot be read."""

    UNCONFINED = "unconfined"
    """A person allowed the command outside the sandbox."""


class NetworkAccess(StrEnum):
    """The network of a command, the widest last."""

    DENY = "deny"
    ASK = "ask"
    """Through a proxy that asks for each host."""

    ALLOW = "allow"


_POLICY_ORDER = tuple(PolicyName)
_NETWORK_ORDER = tuple(NetworkAccess)


class SandboxPolicy(Struct, frozen=True):
    """The restrictions of one command.

    `readable` is what a reading command may read besides the system; a working command reads all but `hidden`.
    `protected` cannot be changed even inside `writable`; `guarded` must not be created there. `visible` is readable
    although it is inside a hidden directory. `temporary` is the host's directory that the command has as `/tmp`; empty:
    an empty one in memory. `own_files` are single files of the runtime that the command writes.
    `memory_mb` is the limit of each process in MiB, `processes` that of all processes together; 0: the usual one.
    """

    name: PolicyName
    readable: frozenset[str] = frozenset()
    writable: frozenset[str] = frozenset()
    protected: frozenset[str] = frozenset()
    guarded: frozenset[str] = frozenset()
    hidden: frozenset[str] = frozenset()
    visible: frozenset[str] = frozenset()
    network: NetworkAccess = NetworkAccess.DENY
    temporary: str = ""
    own_files: tuple[str, ...] = ()
    memory_mb: int = 0
    processes: int = 0

    def with_own_files(self, *files: str) -> SandboxPolicy:
        """Return the policy of a command that also writes these files of the runtime."""
        return replace(self, own_files=(*self.own_files, *files))


def narrow(policy: SandboxPolicy, parent: SandboxPolicy) -> SandboxPolicy:
    """Return the policy, restricted to what the parent allows too."""
    if parent.name is PolicyName.UNCONFINED:
        return policy
    if policy.name is PolicyName.UNCONFINED:
        return parent
    name = min(policy.name, parent.name, key=_POLICY_ORDER.index)
    return SandboxPolicy(
        name,
        readable=_readable(policy, parent),
        writable=_common(policy.writable, parent.writable) if name is PolicyName.WORK else frozenset(),
        protected=policy.protected | parent.protected,
        guarded=policy.guarded | parent.guarded,
        hidden=policy.hidden | parent.hidden,
        visible=_common(policy.visible, parent.visible),
        network=min(policy.network, parent.network, key=_NETWORK_ORDER.index),
        temporary=policy.temporary if policy.temporary == parent.temporary else "",
        own_files=policy.own_files,
        memory_mb=_lower(policy.memory_mb, parent.memory_mb),
        processes=_lower(policy.processes, parent.processes),
    )


def narrower_policy(one: PolicyName, other: PolicyName) -> PolicyName:
    """Return the narrower of two policies."""
    return min(one, other, key=_POLICY_ORDER.index)


def _lower(one: int, other: int) -> int:
    """Return the lower of two limits; 0 is none."""
    return min(filter(None, (one, other)), default=0)


def is_inside(path: str, directory: str) -> bool:
    """Return True when the path is the directory or is in it. Both are real paths."""
    return path == directory or path.startswith(f"{directory.rstrip('/')}/")


def _readable(policy: SandboxPolicy, parent: SandboxPolicy) -> frozenset[str]:
    """Return what both may read. A working command may read everything that is not hidden."""
    if parent.name is PolicyName.WORK:
        return policy.readable
    if policy.name is PolicyName.WORK:
        return parent.readable
    return _common(policy.readable, parent.readable)


def _common(mine: frozenset[str], others: frozenset[str]) -> frozenset[str]:
    """Return the paths that are inside a path of each set."""
    inner = {path for path in mine if any(is_inside(path, other) for other in others)}
    return frozenset(inner | {path for path in others if any(is_inside(path, other) for other in mine)})


class SandboxSettings(Struct, frozen=True):
    """The settings. `read` and `write` are further paths; `~` is the home directory.

    `auto_allow`: a command that needs nothing beyond the policy *work* runs without a question. `memory_mb` limits each
    process, in MiB; 0: three quarters of the machine's memory. `processes` limits a command's processes; 0: no limit.
    """

    mode: SandboxMode = SandboxMode.AUTO
    network: NetworkAccess = NetworkAccess.ASK
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    auto_allow: bool = False
    memory_mb: int = 0
    processes: int = 4_096
