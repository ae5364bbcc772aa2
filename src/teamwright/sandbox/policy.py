"""Sandbox policies as values: what a command may read, write and reach; and the settings of the sandbox.

`narrow` returns settings that are no wider than others. Paths of policies are real paths. Depends on nothing above
`protocol`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from teamwright.protocol.setting_types import Count, Setting, Switch, Texts


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


SESSION_VARIABLES = ("DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "DOCKER_HOST", "TMUX", "DISPLAY", "WAYLAND_DISPLAY")
"""Variables that name sockets of the person's session, which a confined command cannot reach."""

_SHARE_OF_MEMORY = 3 / 4
_MODE_ORDER = tuple(SandboxMode)
_POLICY_ORDER = tuple(PolicyName)
_NETWORK_ORDER = tuple(NetworkAccess)


class SandboxPolicy(Struct, frozen=True):
    """The restrictions of one command.

    `readable` is what a reading command may read besides the system; a working command reads all but `hidden`.
    `protected` cannot be changed even inside `writable`; `guarded` must not be created there. `visible` is readable
    although it is inside a hidden directory. `temporary` is the host's directory that the command has as `/tmp`; empty:
    an empty one in memory. `own_files` are single files of the runtime that the command writes. `names_sockets`: the
    command names sockets of other programs, or a program that talks to them.
    `git_configs` are git configurations that a line of git commands changes, `git_keys` the settings that it names.
    `memory_mb` is the limit of each process in MiB, `processes` that of all processes together; 0: the usual one.
    `variables` are added to the environment.
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
    names_sockets: bool = False
    memory_mb: int = 0
    processes: int = 0
    variables: tuple[tuple[str, str], ...] = ()
    git_configs: frozenset[str] = frozenset()
    git_keys: frozenset[str] = frozenset()

    def may_change(self, path: str) -> bool:
        """Return True when a command can change a file of this real path, or make it."""
        if _longest(self.writable, path) <= _longest(self.hidden, path):
            return False
        return not any(is_inside(path, one) for one in self.protected | self.guarded) or path in self.git_configs

    def may_read(self, path: str) -> bool:
        """Return True when a working command can read a file of this real path."""
        return not self.hides(path)

    def hides(self, path: str) -> bool:
        """Return True when a hidden path contains this real path, and what is shown inside of that does not.

        The agent's own directories may be inside a hidden one: a worktree is in Teamwright's state.
        """
        hidden = _longest(self.hidden, path)
        return hidden > 0 and _longest((*self.visible, *self.writable, *self.readable), path) <= hidden

    def environment(self, inherited: Mapping[str, str], temporary: str) -> dict[str, str]:
        """Return the environment of the command, without the names of sockets that it cannot reach.

        `temporary` is the directory for its temporary files; empty: the inherited one.
        """
        env = {name: value for name, value in inherited.items() if name not in SESSION_VARIABLES}
        env |= dict(self.variables)
        return {**env, "TMPDIR": temporary} if temporary else env

    def with_own_files(self, *files: str) -> SandboxPolicy:
        """Return the policy of a command that also writes these files of the runtime."""
        return replace(self, own_files=(*self.own_files, *files))


def narrower_policy(one: PolicyName, other: PolicyName) -> PolicyName:
    """Return the narrower of two policies."""
    return min(one, other, key=_POLICY_ORDER.index)


def is_inside(path: str, directory: str) -> bool:
    """Return True when the path is the directory or is in it. Both are real paths."""
    return path == directory or path.startswith(f"{directory.rstrip('/')}/")


def _longest(tops: Iterable[str], path: str) -> int:
    """Return the length of the longest of these paths that contains the path; 0 when none does."""
    return max((len(top) for top in tops if is_inside(path, top)), default=0)


def parents_below(path: str, writable: Iterable[str]) -> list[str]:
    """Return the directories above the path that are inside a writable one."""
    found: list[str] = []
    parent = os.path.dirname(path)
    while parent != "/" and any(parent.startswith(f"{one.rstrip('/')}/") for one in writable):
        found.append(parent)
        parent = os.path.dirname(parent)
    return found


class SandboxSettings(Struct, frozen=True):
    """The settings. In `read` and `write`, `~` is the home directory.

    `answers`: the sandbox answers questions about commands with unknown effects. A bound that confines the commands of
    a person who has the sandbox off only restricts them, so it answers none. `opens`: of what an allowed line names
    it opens only what is inside of these paths. Bounds that name `write` keep it to that.
    """

    mode: Annotated[
        SandboxMode,
        Setting(
            "sandbox.mode",
            "Whether commands run in a sandbox: off; auto, if one works on this system; required, or nothing starts.",
            user_only=True,
        ),
    ] = SandboxMode.AUTO
    network: Annotated[
        NetworkAccess,
        Setting(
            "sandbox.network",
            "The network of commands in the sandbox that do not name it: deny, allow, or ask about each host.",
            user_only=True,
        ),
    ] = NetworkAccess.ASK
    read: Annotated[
        tuple[str, ...],
        Setting("sandbox.read", "More paths that commands in the sandbox may read.", value_type=Texts, user_only=True),
    ] = ()
    write: Annotated[
        tuple[str, ...],
        Setting(
            "sandbox.write", "More paths that commands in the sandbox may change.", value_type=Texts, user_only=True
        ),
    ] = ()
    auto_allow: Annotated[
        Switch,
        Setting(
            "sandbox.auto_allow",
            "Whether a command that needs nothing beyond the policy work runs without a question, where bubblewrap "
            "works.",
            user_only=True,
        ),
    ] = False
    memory_mb: Annotated[
        Count,
        Setting(
            "sandbox.memory_mb",
            "The memory of each process of a command in MiB; 0: three quarters of the machine's memory.",
            user_only=True,
        ),
    ] = 0
    processes: Annotated[
        Count,
        Setting(
            "sandbox.processes",
            "The number of processes and threads of a command, under bubblewrap; 0: no limit.",
            user_only=True,
        ),
    ] = 4_096
    answers: bool = True
    opens: tuple[str, ...] = ("/",)


AUTO_ALLOW = "sandbox.auto_allow"
"""The setting that is offered at a terminal, once a person has allowed a command that the sandbox holds."""

UNBOUNDED = SandboxSettings(SandboxMode.OFF, NetworkAccess.ALLOW, ("/",), ("/",), auto_allow=True, processes=0)
"""Bounds that narrow nothing: the values of an agent type or a team file that names none."""


_OF_RUNTIME = frozenset({"answers", "opens"})
"""Fields that only the runtime decides."""

_BOUND_KEYS = tuple(name for name in SandboxSettings.__struct_fields__ if name not in _OF_RUNTIME)
"""The keys of bounds."""

BOUNDS_TEXT = f"an object with some of {', '.join(_BOUND_KEYS)}"
"""The expected form of bounds, for errors."""


def parse_bounds(value: object) -> SandboxSettings:
    """Return the bounds of an agent type, a role or a team. Raises ValueError, with the expected form."""
    if isinstance(value, dict) and _OF_RUNTIME & set(cast("dict[Any, Any]", value)):
        raise ValueError(BOUNDS_TEXT)
    return restore_bounds(cast("object", value))


def restore_bounds(value: object) -> SandboxSettings:
    """Return the bounds in a file that the runtime wrote. Raises ValueError."""
    if not isinstance(value, dict) or not set(cast("dict[Any, Any]", value)) <= set(SandboxSettings.__struct_fields__):
        raise ValueError(BOUNDS_TEXT)
    said = cast("dict[str, Any]", value)
    try:
        given = msgspec.convert(said, SandboxSettings)
    except msgspec.ValidationError as problem:
        raise ValueError(f"{BOUNDS_TEXT}: {problem}") from None
    if not all(path.startswith(("/", "~")) for path in (*given.read, *given.write)):
        raise ValueError(f"{BOUNDS_TEXT}: paths begin with / or ~")
    if min(given.memory_mb, given.processes) < 0:
        raise ValueError(f"{BOUNDS_TEXT}: a limit is 0 or more")
    bounds = replace(UNBOUNDED, **{name: getattr(given, name) for name in said})
    return replace(bounds, opens=given.write) if "write" in said and "opens" not in said else bounds


def narrow(settings: SandboxSettings, bounds: SandboxSettings) -> SandboxSettings:
    """Return the settings, restricted to what the bounds allow too: those of an agent type, or of the agent above."""
    if bounds == UNBOUNDED:
        return settings
    memory_mb = settings.memory_mb or (usual_memory_mb() if bounds.memory_mb else 0)
    off = SandboxMode.OFF
    return SandboxSettings(
        mode=max(settings.mode, bounds.mode, key=_MODE_ORDER.index),
        network=min(settings.network, bounds.network, key=_NETWORK_ORDER.index),
        read=_common(settings.read, bounds.read),
        write=_common(settings.write, bounds.write),
        auto_allow=settings.auto_allow and bounds.auto_allow,
        memory_mb=min(memory_mb, bounds.memory_mb or memory_mb),
        processes=min(settings.processes or bounds.processes, bounds.processes or settings.processes),
        answers=settings.answers and bounds.answers and (settings.mode is not off or bounds.mode is off),
        opens=_common(settings.opens, bounds.opens),
    )


def _common(mine: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    """Return the real paths that are inside a path of each."""
    one, other = (tuple(os.path.realpath(os.path.expanduser(path)) for path in paths) for paths in (mine, others))
    found = [path for path in one if any(is_inside(path, top) for top in other)]
    found += [path for path in other if any(is_inside(path, top) for top in one)]
    return tuple(dict.fromkeys(found))


@cache
def usual_memory_mb() -> int:
    """Return the limit without a setting, in MiB: three quarters of the machine's memory."""
    return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * _SHARE_OF_MEMORY) >> 20


SUBJECTS = ("reads", "writes", "network", "sockets", "processes")
"""The acts that a sandbox can forbid: reads outside paths, writes, connections, sockets, other processes."""


class SandboxReport(Struct, frozen=True):
    """The confinement of a session's commands, for people. `missing` are the subjects that are not enforced.

    `limits` are their limits and those of the others; `reason` says why the implementation is not a better one.
    """

    implementation: str
    missing: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    reason: str = ""

    def __str__(self) -> str:
        """Return all in one line."""
        return "; ".join((self.summary, *self.limits))

    @property
    def summary(self) -> str:
        """The implementation, and the subjects that it enforces and that it does not."""
        held = [subject for subject in SUBJECTS if subject not in self.missing]
        if not held:
            enforced = "is enforced" if self.implementation == "none" else "counts as enforced"
            return f"{self.implementation}: nothing {enforced}: {self.reason}"
        missing = f"; not {', '.join(self.missing)}" if self.missing else ""
        return f"{self.implementation}: enforces {', '.join(held)}{missing}"

    def warning(self) -> str:
        """Return the line for a person when something is not enforced; empty when all is."""
        if self.implementation == "none":
            return f"commands run without a sandbox: {self.reason}"
        named = [limit for limit in self.limits if limit.partition(":")[0] in self.missing]
        return f"the sandbox ({self.implementation}) does not enforce all: {'; '.join(named)}" if named else ""
