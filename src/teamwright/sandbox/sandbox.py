"""The sandbox of a session: its settings, the implementation that works here, and the confinement of each command.

The implementation is probed once, before the first command, by running one. Depends on the other modules here.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from teamwright.processes.commands import Confinement
from teamwright.protocol.errors import CannotStart
from teamwright.sandbox.bubblewrap import Bubblewrap, BubblewrapAbilities, find_system_program, probe_bubblewrap
from teamwright.sandbox.command_policy import (
    ConfinementRequest,
    SandboxPaths,
    make_policy,
    network_access,
    shown_paths,
)
from teamwright.sandbox.landlock import NETWORK_SINCE, Landlock, is_filter_known, probe_landlock
from teamwright.sandbox.limits import (
    CommandLimits,
    ControlGroups,
    describe_limits,
    find_control_groups,
    remove_ended_groups,
)
from teamwright.sandbox.network_namespace import open_namespace
from teamwright.sandbox.network_proxy import PROXY_VARIABLES, NetworkProxy, NetworkRoute
from teamwright.sandbox.policy import (
    SUBJECTS,
    NetworkAccess,
    PolicyName,
    SandboxMode,
    SandboxPolicy,
    SandboxReport,
    SandboxSettings,
    is_inside,
    narrow,
)
from teamwright.sandbox.probe_run import NoRoomError
from teamwright.sandbox.protected_file_check import ProtectedFiles
from teamwright.sandbox.seatbelt import Seatbelt, probe_seatbelt


class Guarantee(Struct, frozen=True):
    """One cell of the table. `limit` says what is not enforced; empty: all of it is."""

    holds: bool
    limit: str = ""


_NOTHING = Guarantee(holds=False, limit="not enforced")

GUARANTEES: Mapping[str, Mapping[str, Guarantee]] = {
    "bubblewrap": {
        "reads": Guarantee(holds=True),
        "writes": Guarantee(holds=True),
        "network": Guarantee(holds=True),
        "sockets": Guarantee(
            holds=True, limit="a command that gets the whole network also reaches abstract sockets of this machine"
        ),
        "processes": Guarantee(holds=True),
    },
    "landlock": {
        "reads": Guarantee(holds=True, limit="names in unreadable directories can be listed by working commands"),
        "writes": Guarantee(
            holds=False,
            limit="protected paths inside a writable directory are compared after a command, and changes are undone; "
            "not for background commands",
        ),
        "network": Guarantee(
            holds=True, limit="no connection to localhost; the proxy's port can be reached on every host"
        ),
        "sockets": Guarantee(holds=True, limit="a command that names the network may use all sockets"),
        "processes": Guarantee(holds=True, limit="the list of processes can be read; before Linux 6.12 signals work"),
    },
    "seatbelt": {
        "reads": Guarantee(holds=False, limit="untried; names and sizes of files can be read"),
        "writes": Guarantee(holds=False, limit="untried"),
        "network": Guarantee(holds=False, limit="untried; no connection to localhost"),
        "sockets": Guarantee(holds=False, limit="untried; a command that names the network may use all sockets"),
        "processes": Guarantee(holds=False, limit="untried"),
    },
    "none": dict.fromkeys(SUBJECTS, _NOTHING),
}
"""The guarantees by implementation and subject."""


ImplementationName: TypeAlias = Literal["bubblewrap", "landlock", "seatbelt", "none"]


class CommandConfinement(Confinement, Protocol):
    """The confinement of a command, with its policy."""

    @property
    def policy(self) -> SandboxPolicy:
        """The restrictions."""
        ...

    @property
    def route(self) -> NetworkRoute | None:
        """The way into the network through the proxy, with the hosts that were refused."""
        ...

    @property
    def limits(self) -> CommandLimits | None:
        """The limits beside rlimits, with the one that the command has exceeded."""
        ...

    @property
    def replaces_tmp(self) -> bool:
        """True when the command has a private `/tmp`, and paths that cannot be changed are on read-only mounts."""
        ...

    def guard(self) -> ProtectedFiles:
        """Return the state of the protected paths that only a comparison after the command protects."""
        ...


class Implementation(Struct, frozen=True):
    """The implementation that confines commands here. `landlock` is the version of the kernel's interface.

    `reason` says why it is not a better one. `groups` is where commands get control groups, or why they get none.
    """

    name: ImplementationName
    bubblewrap: BubblewrapAbilities | None = None
    landlock: int = 0
    reason: str = ""
    groups: ControlGroups | str = ""
    is_transient: bool = False
    """The probe failed for lack of processes, memory or descriptors, so that the next one may find another one."""

    @property
    def command_groups(self) -> ControlGroups | None:
        """The place of control groups for commands; None where there is none."""
        return self.groups if isinstance(self.groups, ControlGroups) else None


def report_sandbox(settings: SandboxSettings) -> SandboxReport:
    """Return what confines commands under these settings. The first call in a process runs a command to find out."""
    is_off = settings.mode is SandboxMode.OFF
    found = Implementation("none", reason="sandbox.mode is off") if is_off else find_implementation()
    row = GUARANTEES[found.name]
    missing = tuple(subject for subject in SUBJECTS if not row[subject].holds)
    limits = tuple(f"{subject}: {row[subject].limit}" for subject in SUBJECTS if row[subject].limit)
    limits = () if found.name == "none" else (*limits, describe_limits(found.groups, counts=found.name == "bubblewrap"))
    return SandboxReport(found.name, missing, limits, found.reason)


class SandboxNetwork:
    """The proxy of a process, which the commands of all its agents share."""

    def __init__(self) -> None:
        self._proxy: NetworkProxy | None = None
        self._opening: asyncio.Task[None] | None = None

    async def open(self, found: Implementation) -> None:
        """Start the proxy, if it works with this implementation. Never raises."""
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._start(found))
        await asyncio.shield(self._opening)

    async def _start(self, found: Implementation) -> None:
        with contextlib.suppress(OSError):
            proxy: NetworkProxy | None = None
            if found.bubblewrap is not None and found.bubblewrap.user_namespace and found.bubblewrap.nsenter:
                listener, *namespaces = await asyncio.to_thread(open_namespace)
                proxy = NetworkProxy(listener, tuple(namespaces))
            elif found.landlock >= NETWORK_SINCE or found.name == "seatbelt":
                proxy = NetworkProxy(socket.create_server(("127.0.0.1", 0)))
            if proxy is not None:
                await proxy.start()
                self._proxy = proxy

    def route(self, request: ConfinementRequest) -> NetworkRoute | None:
        """Return the way of a command through the proxy; None without one, and when nothing answers about hosts."""
        if self._proxy is None or request.ask_host is None:
            return None
        return self._proxy.route(request.ask_host, request.hosts)

    async def close(self) -> None:
        """End the proxy and its connections."""
        if self._proxy is not None:
            await self._proxy.close()
            self._proxy = None


class Sandbox:
    """The sandbox of a session, or of an agent with narrower settings, which shares its network.

    `warn` is called once with each sentence about what is not enforced: at the start of a session, or before a command.
    """

    def __init__(
        self,
        settings: SandboxSettings,
        place: SandboxPaths,
        warn: Callable[[str], None] = lambda _text: None,
        network: SandboxNetwork | None = None,
    ) -> None:
        self.settings = settings
        self.place = place
        self.warn = _once(warn)
        self._network = network or SandboxNetwork()

    def narrowed(self, bounds: SandboxSettings) -> Sandbox:
        """Return the sandbox of an agent with these bounds."""
        settings = narrow(self.settings, bounds)
        return self if settings == self.settings else Sandbox(settings, self.place, self.warn, self._network)

    @property
    def is_off(self) -> bool:
        """True when the settings switch it off."""
        return self.settings.mode is SandboxMode.OFF

    def implementation(self) -> Implementation:
        """Return what confines commands here. The first call in a process runs a command to find out."""
        return Implementation("none", reason="sandbox.mode is off") if self.is_off else find_implementation()

    async def report(self) -> SandboxReport:
        """Return what confines commands here, and warn of what is not enforced, unless the settings switch it off."""
        report = await asyncio.to_thread(report_sandbox, self.settings)
        if not self.is_off:
            self._warn_of(report)
        return report

    def _warn_of(self, report: SandboxReport) -> None:
        """Warn of what is not enforced."""
        if text := report.warning():
            self.warn(text)

    @property
    def replaces_tmp(self) -> bool:
        """True when commands have the session's directory as `/tmp`. The first call in a process runs a command."""
        return self.implementation().bubblewrap is not None

    def shown_paths(self) -> list[str]:
        """Return the paths besides an agent's directories that commands see below a replaced `/tmp`."""
        given = (*self.settings.read, *self.settings.write)
        return [*shown_paths(self.place), *map(os.path.expanduser, given)]

    def answers(self) -> frozenset[PolicyName]:
        """Return the policies that are enforced here and answer a question about unknown effects of a command."""
        if not self.settings.answers or not GUARANTEES[self.implementation().name]["reads"].holds:
            return frozenset()
        works = self.settings.auto_allow and self.holds_all
        return frozenset({PolicyName.READ, PolicyName.WORK} if works else {PolicyName.READ})

    @property
    def holds_all(self) -> bool:
        """True when the implementation enforces all subjects, so that a command may run without a question."""
        row = GUARANTEES[self.implementation().name]
        return all(guarantee.holds for guarantee in row.values()) and is_filter_known()

    def turn_on_auto_allow(self) -> None:
        """Set `sandbox.auto_allow` for later commands of this process, as the person chose."""
        self.settings = replace(self.settings, auto_allow=True)

    def require(self) -> None:
        """Raise CannotStart (`no-sandbox`) when the settings require a sandbox and there is none."""
        if self.settings.mode is not SandboxMode.REQUIRED:
            return
        found = self.implementation()
        if found.name == "none":
            raise CannotStart(
                "no-sandbox",
                f"sandbox.mode is required, and no sandbox works here: {found.reason}",
                do=[
                    "install bubblewrap (apt install bubblewrap, dnf install bubblewrap)",
                    "or set sandbox.mode to auto",
                ],
                note="nothing was started",
            )

    async def open_network(self, request: ConfinementRequest) -> None:
        """Start the proxy, if this command reaches hosts through it and it works here. Never raises.

        A process without such a command listens on no port.
        """
        if self.is_off or request.policy is not PolicyName.WORK:
            return
        found = self.implementation()
        # Without bubblewrap, a command that names the network gets all of it.
        serves = found.bubblewrap is not None or not request.needs.network
        if serves and network_access(replace(request, network=self.settings.network)) is NetworkAccess.ASK:
            await self._network.open(found)

    async def close(self) -> None:
        """End the proxy and its connections, and remove the control groups of commands that have ended."""
        await self._network.close()
        remove_ended_groups()

    def confine(self, request: ConfinementRequest) -> CommandConfinement | None:
        """Return the confinement of a command; None for one that runs without.

        Raises CannotStart (`no-sandbox`) when an agent requires a sandbox and none works here, and OSError when the
        system has no room to find out.
        """
        if self.is_off or request.policy is PolicyName.UNCONFINED:
            return None
        found = self.implementation()
        if found.is_transient:
            raise OSError(errno.EAGAIN, f"no sandbox: {found.reason}")
        policy = self._working_policy(request)
        is_asked = policy.name is PolicyName.WORK and policy.network is NetworkAccess.ASK
        route = self._network.route(request) if is_asked else None
        limits = CommandLimits(policy, found.command_groups)
        if found.bubblewrap is not None:
            return Bubblewrap(found.bubblewrap, policy, route, limits)
        if found.landlock:
            return Landlock(found.landlock, policy, route, limits)
        if found.name == "seatbelt":
            return Seatbelt(policy, route)
        self.require()
        self._warn_of(report_sandbox(self.settings))
        return None

    def asks_about_hosts(self, request: ConfinementRequest) -> bool:
        """Return True when the hosts of a command that names the network are asked about."""
        return not self.is_off and self._working_policy(request).network is NetworkAccess.ASK

    def _working_policy(self, request: ConfinementRequest) -> SandboxPolicy:
        """Return the policy. A command that names the network has all of it where the proxy cannot serve it."""
        policy = self.policy(request)
        abilities = self.implementation().bubblewrap
        serves = abilities is not None and Bubblewrap(abilities, policy).can_join_network
        serves = serves and not any(self.place.env.get(name) for name in PROXY_VARIABLES)  # the person's own
        if policy.network is not NetworkAccess.ASK or not request.needs.network or serves:
            return policy
        return replace(policy, network=NetworkAccess.ALLOW)

    def policy(self, request: ConfinementRequest) -> SandboxPolicy:
        """Return the policy of a command, with the paths of the settings."""
        made = make_policy(
            replace(
                request,
                readable=(*request.readable, *self.settings.read),
                writable=(*request.writable, *self.settings.write),
                opened=self._opened(request),
                network=self.settings.network,
            ),
            self.place,
        )
        return replace(made, memory_mb=self.settings.memory_mb, processes=self.settings.processes)

    def _opened(self, request: ConfinementRequest) -> list[str]:
        """Return the paths that an allowed line opens here, as far as the bounds of the agent let it."""
        tops = [os.path.realpath(os.path.expanduser(path)) for path in self.settings.opens]
        return [path for path in request.opened if any(is_inside(path, top) for top in tops)]


def _once(warn: Callable[[str], None]) -> Callable[[str], None]:
    """Return a function that calls `warn` with each text for the first time only."""
    warned = set[str]()

    def warn_once(text: str) -> None:
        if text not in warned:
            warned.add(text)
            warn(text)

    return warn_once


def find_implementation() -> Implementation:
    """Return the best implementation that works here. A probe is kept, unless the system had no room for it."""
    try:
        return _probe_once()
    except NoRoomError as problem:  # an error is not cached
        return Implementation("none", reason=f"it could not be tried: {problem}", is_transient=True)


@cache
def _probe_once() -> Implementation:
    return probe_implementation()


def probe_implementation() -> Implementation:
    """Return the best implementation that runs a command here. Raises NoRoomError."""
    if sys.platform == "darwin":
        if probe_seatbelt():
            return Implementation("seatbelt", reason="its profile was never tried on a Mac")
        return Implementation("none", reason="sandbox-exec does not confine a command here")
    program = find_system_program("bwrap")
    abilities = probe_bubblewrap(program) if program is not None else None
    version = probe_landlock() if abilities is None else 0
    why = "bubblewrap is not installed" if program is None else f"{program} cannot make namespaces here"
    if abilities is None and not version:
        return Implementation("none", reason=f"{why}, and the kernel has no Landlock")
    groups = find_control_groups(find_system_program("bash"))
    if abilities is not None:
        return Implementation("bubblewrap", abilities, groups=groups)
    return Implementation("landlock", landlock=version, reason=why, groups=groups)
