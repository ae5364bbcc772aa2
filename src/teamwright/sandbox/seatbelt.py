"""Confinement by Seatbelt of macOS: a profile for `sandbox-exec`, generated from the policy of each command.

The profile is tested as text only, so nothing counts as enforced. Depends on the port in `processes`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from teamwright.processes.commands import Child, ProcessStart
from teamwright.sandbox.known_paths import SYSTEM
from teamwright.sandbox.limits import CommandLimits, with_limits
from teamwright.sandbox.network_proxy import NetworkRoute
from teamwright.sandbox.policy import NetworkAccess, PolicyName, SandboxPolicy, is_inside, parents_below
from teamwright.sandbox.protected_file_check import ChangeableGitConfigs, ProtectedFiles

PROGRAM = "/usr/bin/sandbox-exec"

_SYSTEM = (
    *("/System", "/Library", "/Applications/Xcode.app", "/private/var/select", "/private/var/db/dyld"),
    *("/private/var/db/timezone", "/private/var/db/xcode_select_link", "/dev/fd"),
)
"""Directories of macOS that reading commands may read, besides those of all systems."""

_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/dtracehelper", "/dev/stdout", "/dev/stderr")

_BASE = """(version 1)
(deny default)
(allow process-exec process-fork file-map-executable file-read-metadata)
(allow signal (target same-sandbox))
(allow process-info* (target same-sandbox))
(allow sysctl-read (sysctl-name-prefix "hw.") (sysctl-name-prefix "machdep.cpu.") (sysctl-name-prefix "kern.os")
  (sysctl-name "kern.argmax") (sysctl-name "kern.hostname") (sysctl-name "kern.maxfilesperproc")
  (sysctl-name "kern.ngroups") (sysctl-name "kern.version") (sysctl-name "vm.loadavg"))
(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.system.opendirectoryd.membership") (global-name "com.apple.system.notification_center")
  (global-name "com.apple.bsd.dirhelper"))
(allow file-read* (literal "/"))"""
"""Rules of all commands. The last rule that matches an act decides.

Without other services of launchd a command opens no application, reads no keychain and starts nothing outside. The rest
of sysctl shows arguments and environments of other processes. Hard links are denied, because a path decides."""

_WHOLE_NETWORK = """(allow network* system-socket)
(allow mach-lookup (global-name "com.apple.SystemConfiguration.configd") (global-name "com.apple.trustd.agent"))"""


class Seatbelt(Struct, frozen=True):
    """The confinement of one command by a profile."""

    policy: SandboxPolicy
    route: NetworkRoute | None = None
    """The way into the network through the proxy; None: there is none, or the policy allows the network."""
    limits: CommandLimits | None = None

    @property
    def replaces_tmp(self) -> bool:
        """False; see `CommandConfinement.replaces_tmp`."""
        return False

    def start(self, start: ProcessStart) -> Child:
        argv = with_limits(start.argv, self.policy, has_own_users=False)
        return subprocess.Popen(
            [PROGRAM, "-p", self.profile(), *argv],
            cwd=start.cwd,
            env=self.environment(start),
            stdin=start.stdin,
            stdout=start.stdout,
            stderr=start.stderr,
            start_new_session=True,
        )

    def environment(self, start: ProcessStart) -> dict[str, str]:
        """Return the environment of the command, with the variables of the proxy."""
        env = self.policy.environment(start.env, self.policy.temporary)
        return {**env, **self.route.variables()} if self.route is not None else env

    def guard(self) -> ProtectedFiles:
        """Return the protected paths that do not exist, which may be created in other letters; and links."""
        policy = self.policy
        configs = ChangeableGitConfigs(policy.git_configs, policy.git_keys)
        return ProtectedFiles.take(policy.guarded, filter(os.path.islink, policy.protected), configs, policy.writable)

    def profile(self) -> str:
        """Return the profile: rules of all commands, of files, and of the network. Raises ValueError for a NUL."""
        return "\n".join([_BASE, *self._file_rules(), *self._network_rules(), ""])

    def _file_rules(self) -> list[str]:
        """Return the rules for files. Of two paths the inner one decides, so its rule comes later."""
        policy = self.policy
        works = policy.name is PolicyName.WORK
        tops = ["/"] if works else [os.path.realpath(path) for path in (*SYSTEM, *_SYSTEM)]
        writable = policy.writable if works else frozenset[str]()
        rules = [(path, _rule("allow file-read*", path)) for path in {*tops, *policy.readable, *writable}]
        rules += [(path, _rule("allow file-write*", path)) for path in writable]
        rules += [(path, _rule("deny file-write*", path)) for path in {*policy.protected, *policy.guarded}]
        for path in {*policy.protected, *policy.guarded, *policy.hidden}:
            # Else the directory above could be moved, and read or changed under another name.
            fixed = parents_below(path, writable)
            rules += [(above, _rule("deny file-write-unlink", above, "literal")) for above in fixed]
        rules += [(path, _rule("deny file-read* file-write*", path)) for path in policy.hidden]
        lines = [line for _, line in sorted(rules, key=lambda rule: len(rule[0].rstrip("/")))]
        shown = [*policy.visible, *policy.own_files, *([policy.temporary] if policy.temporary else [])]
        lines += [_rule("allow file-read*", path) for path in sorted(shown, key=len)]
        lines += [_rule("allow file-read-metadata", path, "literal") for path in self._above_shown(shown)]
        own = [policy.temporary] if policy.temporary and works else []
        lines += [_rule("allow file-write*", path) for path in (*own, *policy.own_files)]
        lines += [_rule("allow file-read* file-write-data", path, "literal") for path in _DEVICES]
        return [*lines, "(allow ipc-posix-sem ipc-posix-shm*)"] if works else lines

    def _above_shown(self, shown: Iterable[str]) -> list[str]:
        """Return the hidden directories above paths that are shown: programs look at each when they resolve a path."""
        given = (*shown, *self.policy.readable, *self.policy.writable)
        hidden = self.policy.hidden
        inner = {above for path in given for above in parents_below(path, hidden)}
        return sorted(inner | {top for top in hidden if any(path != top and is_inside(path, top) for path in given)})

    def _network_rules(self) -> list[str]:
        """Return the rules for the network: all of it, or the proxy and the sockets that the command names."""
        if self.policy.network is NetworkAccess.ALLOW:
            return [_WHOLE_NETWORK]
        lines = [_rule("allow network-outbound", path, "literal") for path in sorted(self.policy.visible)]
        if self.route is not None:
            lines.append(f'(allow network-outbound (remote ip "localhost:{self.route.port}"))')
        return [*lines, "(allow system-socket)"] if lines else []


def _rule(acts: str, path: str, filter: str = "subpath") -> str:
    return f"({acts} ({filter} {quote(path)}))"


def quote(path: str) -> str:
    """Return a string of the profile's language with this path. Raises ValueError for a NUL."""
    if "\0" in path:
        raise ValueError("embedded null byte")
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") + '"'


def probe_seatbelt() -> bool:
    """Return True when a command runs in both policies here, and is refused a hidden file and a write outside."""
    if sys.platform != "darwin" or not os.access(PROGRAM, os.X_OK):
        return False
    with tempfile.TemporaryDirectory() as made:
        place = os.path.realpath(made)
        hidden = os.path.join(place, "hidden")
        outside = os.path.join(place, "outside")
        Path(hidden).write_text("hidden", encoding="ascii")
        tries = '! /bin/cat "$1" && ! /usr/bin/touch "$2"'
        argv = ("/bin/sh", "-c", tries, "sh", hidden, outside)
        start = ProcessStart(argv, Path("/"), dict(os.environ), *(subprocess.DEVNULL,) * 3)
        policies = [SandboxPolicy(name, hidden=frozenset({hidden})) for name in (PolicyName.READ, PolicyName.WORK)]
        try:
            return all(Seatbelt(policy).start(start).wait() == 0 for policy in policies)
        except OSError:
            return False
