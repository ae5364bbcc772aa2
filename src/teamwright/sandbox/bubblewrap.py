"""Confinement by bubblewrap: namespaces for files, processes and the network, and a filter of system calls.

Each command gets a view of the file system that is made from its policy. bubblewrap follows links: another command of
the session may put a link in the place of a directory after the policy was made, and the mount would make what it leads
to writable. So before the command starts, a shell compares the table of mounts with what is expected.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from teamwright.processes.commands import Child, ProcessStart
from teamwright.processes.process_tree import MARK_VARIABLE
from teamwright.processes.program_environment import SYSTEM_PATH
from teamwright.sandbox.command_policy import REPLACED
from teamwright.sandbox.known_paths import SYSTEM
from teamwright.sandbox.landlock import FilterChoice, filter_program, is_filter_known
from teamwright.sandbox.limits import CommandLimits, with_limits
from teamwright.sandbox.mounts import escape, mount_of, read_mounts
from teamwright.sandbox.network_proxy import NetworkRoute
from teamwright.sandbox.owner_capabilities import kept_capabilities
from teamwright.sandbox.policy import NetworkAccess, PolicyName, SandboxPolicy, is_inside, parents_below
from teamwright.sandbox.probe_run import runs_under
from teamwright.sandbox.protected_file_check import ChangeableGitConfigs, ProtectedFiles
from teamwright.sandbox.ssh_tunnel import ssh_configuration

_DEVICES = ("/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/dri", "/dev/kfd", "/dev/fuse")
"""Devices for computation that a working command may use."""

_RUN_PATHS = ("/run/current-system", "/run/wrappers", "/run/opengl-driver", "/run/host")
"""Programs and libraries that some systems keep in /run."""

_KERNEL_FILES = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/acpi", "/proc/scsi", "/proc/fs")
"""Files of /proc by which a superuser changes the kernel, for all processes."""

_CONFIGURATIONS = frozenset({"config", "config.worktree"})
"""Names of protected files by which git runs programs."""


class BubblewrapAbilities(Struct, frozen=True):
    """The program, and what it can do here. `user_namespace`: a new user namespace can be made.

    `nsenter` is the program of util-linux that starts another one in given namespaces; None: it is not installed.
    """

    program: str
    nsenter: str | None = None
    user_namespace: bool = True
    can_disable_user_namespaces: bool = True


class Bubblewrap(Struct, frozen=True):
    """The confinement of one command by bubblewrap."""

    abilities: BubblewrapAbilities
    policy: SandboxPolicy
    route: NetworkRoute | None = None
    """The way into the network through the proxy; None: there is none, or the policy allows the network."""
    limits: CommandLimits | None = None

    @property
    def replaces_tmp(self) -> bool:
        """True; see `CommandConfinement.replaces_tmp`."""
        return True

    def start(self, start: ProcessStart) -> Child:
        views = self.options(start)
        argv = with_limits(start.argv, self.policy, has_own_users=self._has_own_users)
        argv, env = with_mount_check(argv, views, sorted(self.policy.writable), self.environment(start))
        options = [*_set_variables(env), *views]
        if any("\0" in option for option in options):
            raise ValueError("embedded null byte")  # as Popen does: it would separate further options
        limits = self.limits or CommandLimits(self.policy)
        with limits.prepared(has_namespace=True) as descriptors:
            if self._joinable_route is not None and (configuration := ssh_configuration()) is not None:
                descriptors.append(_memory_file(configuration[1].encode("utf-8", "surrogateescape")))
                options += ["--ro-bind-data", str(descriptors[-1]), configuration[0]]
            descriptors.append(_memory_file("\0".join([*options, ""]).encode("utf-8", "surrogateescape")))
            given = [*limits.options, "--args", str(descriptors[-1])]
            if is_filter_known():
                descriptors.append(_memory_file(filter_program(self.filter_choice())))
                given += ["--seccomp", str(descriptors[-1])]
            child = subprocess.Popen(
                [*limits.prefix, *self._joined_network(), self.abilities.program, *given, "--", *argv],
                cwd=start.cwd,
                # The command's variables, such as LD_PRELOAD, would act before the confinement.
                env={name: start.env[name] for name in (MARK_VARIABLE,) if name in start.env},
                stdin=start.stdin,
                stdout=start.stdout,
                stderr=start.stderr,
                start_new_session=True,
                pass_fds=descriptors,
            )
        limits.watch(child)
        return child

    def guard(self) -> ProtectedFiles:
        """Return the protected paths that do not exist, and links: mounts protect the others.

        A mount on a file ends when another program replaces it, as git does with its configuration.
        """
        policy = self.policy
        mounted = frozenset(path for path in policy.protected if os.path.basename(path) in _CONFIGURATIONS)
        configs = ChangeableGitConfigs(policy.git_configs, policy.git_keys, mounted)
        return ProtectedFiles.take(policy.guarded, filter(os.path.islink, policy.protected), configs, policy.writable)

    def filter_choice(self) -> FilterChoice:
        """Return the filter of this policy. Commands that only read talk to no other program."""
        reads = self.policy.name is PolicyName.READ
        return FilterChoice(unix_sockets=not reads, only_reads=reads)

    def environment(self, start: ProcessStart) -> dict[str, str]:
        """Return the environment of the command, with the variables of the proxy."""
        # A command that only reads cannot change /tmp, but its shell may need a file for itself.
        env = self.policy.environment(start.env, "/dev/shm" if self.policy.name is PolicyName.READ else "/tmp")
        route = self._joinable_route
        return {**env, **route.variables()} if route is not None else env

    def _joined_network(self) -> list[str]:
        """Return the program that enters the network with the proxy, before bubblewrap."""
        route = self._joinable_route
        if route is None:
            return []
        # By the descriptors of this process: inherited ones would reach the command.
        users, network = (f"/proc/{os.getpid()}/fd/{descriptor}" for descriptor in route.namespaces)
        spaces = [f"--user={users}", f"--net={network}"]
        assert self.abilities.nsenter is not None
        return [self.abilities.nsenter, "--preserve-credentials", *spaces, "--"]

    @property
    def can_join_network(self) -> bool:
        """True when the command can have the network of the proxy. Without a user namespace it cannot join it."""
        return self._has_own_users and self.abilities.nsenter is not None

    @property
    def _joinable_route(self) -> NetworkRoute | None:
        return self.route if self.can_join_network else None

    def options(self, start: ProcessStart) -> list[str]:
        """Return the options before the command."""
        policy = self.policy
        options = ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--cap-drop", "ALL"]
        options += self._user_options()
        if policy.network is not NetworkAccess.ALLOW and self._joinable_route is None:
            options.append("--unshare-net")
        options += _reading_view(policy) if policy.name is PolicyName.READ else _working_view(policy)
        options += _restrictions(policy)
        return [*options, "--chdir", str(start.cwd)]

    @property
    def _has_own_users(self) -> bool:
        """True when the command has a user namespace, in which the kernel counts its processes alone."""
        return "--unshare-user" in self._user_options()

    def _user_options(self) -> list[str]:
        if kept := kept_capabilities(self.policy):
            return [part for name in kept for part in ("--cap-add", name)]
        if not self.abilities.user_namespace:
            return []
        options = ["--unshare-user"]
        return [*options, "--disable-userns"] if self.abilities.can_disable_user_namespaces else options


def probe_bubblewrap(program: str) -> BubblewrapAbilities | None:
    """Return what bubblewrap can do here, by running a command; None: it confines nothing. Raises NoRoomError."""
    if not sys.platform.startswith("linux"):
        return None
    nsenter = find_system_program("nsenter")
    choices = (
        BubblewrapAbilities(program, nsenter),
        BubblewrapAbilities(program, nsenter, can_disable_user_namespaces=False),
        BubblewrapAbilities(program, nsenter, user_namespace=False, can_disable_user_namespaces=False),
    )
    return next((abilities for abilities in choices if _runs_here(abilities)), None)


def _runs_here(abilities: BubblewrapAbilities) -> bool:
    """Return True when a command runs in the policies *read* and *work*."""
    policy = SandboxPolicy(PolicyName.WORK, hidden=frozenset({"/var"}) if os.path.isdir("/var") else frozenset())
    return runs_under(Bubblewrap(abilities, policy))


def find_system_program(name: str) -> str | None:
    """Return the path of an installed program of the system, which no command and no variable replaces; or None."""
    return shutil.which(name, path=SYSTEM_PATH)


def _set_variables(env: Mapping[str, str]) -> list[str]:
    """Return the options that give the command its environment. Raises ValueError, as Popen does."""
    if any("=" in name for name in env):
        raise ValueError("illegal environment variable name")
    return [part for name, value in env.items() if name for part in ("--setenv", name, value)]


def _memory_file(content: bytes) -> int:
    """Return a descriptor of a file in memory from which a child reads this content."""
    descriptor = os.memfd_create("teamwright", os.MFD_CLOEXEC)
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _reading_view(policy: SandboxPolicy) -> list[str]:
    """Return a file system with the system's directories, the session's /tmp and what the policy lets be read."""
    if "/" in policy.readable:  # a session in the root directory
        options = ["--ro-bind", "/", "/", "--dev", "/dev", *_processes(), *_temporary(policy), "--tmpfs", "/run"]
        return [*options, *_run_directory(), *_binds("--ro-bind", sorted(_in_replaced_directories(policy.readable)))]
    options = list[str]()
    for path in SYSTEM:
        if os.path.islink(path):
            options += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            options += ["--ro-bind", path, path]
    options += ["--dev", "/dev", *_processes(), *_temporary(policy), "--dir", "/run", "--dir", "/var/tmp"]
    options += _run_directory()
    options += _binds("--ro-bind", sorted(policy.readable, key=len))
    return options


def _working_view(policy: SandboxPolicy) -> list[str]:
    """Return the whole file system, read-only but for what the policy lets be changed."""
    base = "--bind" if "/" in policy.writable else "--ro-bind"
    options = [base, "/", "/", "--dev", "/dev", *_processes()]
    options += _binds("--dev-bind", [path for path in _DEVICES if os.path.exists(path)])
    options += ["--tmpfs", "/run", *_run_directory()]
    options += _temporary(policy)
    for path in ("/var/tmp", "/var/run"):
        options += ["--tmpfs", path] if os.path.isdir(path) and not os.path.islink(path) else []
    # A readable directory below /tmp or /run is visible again.
    options += _binds("--ro-bind", sorted(_in_replaced_directories(policy.readable), key=len))
    options += _binds("--bind", sorted(policy.writable - {"/"}, key=len))
    # Each directory above a protected or hidden path is a mount, so that it cannot be renamed: another one would be put
    # in its place, or the path would have another name for the next command.
    above = {parent for path in policy.protected | policy.hidden for parent in parents_below(path, policy.writable)}
    options += _binds("--bind", sorted(above, key=len))
    protected = [path for path in policy.protected if not os.path.islink(path)]
    options += _binds("--ro-bind", sorted(protected, key=len))
    return options


def _temporary(policy: SandboxPolicy) -> list[str]:
    """Return options for the session's `/tmp`. Directories for the mounts in it are made, then it becomes read-only."""
    if not policy.temporary:
        return ["--tmpfs", "/tmp"]
    return ["--bind", policy.temporary, "/tmp"]


def _processes() -> list[str]:
    """Return options for /proc of the command's own processes, in which a superuser cannot change the kernel."""
    kept = [path for path in _KERNEL_FILES if os.path.exists(path)]
    return ["--proc", "/proc", *_binds("--ro-bind", kept)]


def _in_replaced_directories(paths: Iterable[str]) -> list[str]:
    return [path for path in paths if path.startswith(REPLACED)]


def _run_directory() -> list[str]:
    """Return what stays visible in /run: programs of some systems, and the names of the resolvers."""
    resolver = os.path.realpath("/etc/resolv.conf")
    kept = [path for path in (*_RUN_PATHS, resolver) if path.startswith("/run/") and os.path.exists(path)]
    return _binds("--ro-bind", kept)


def _restrictions(policy: SandboxPolicy) -> list[str]:
    """Return the options that hide paths, and show the runtime's own files inside of them."""
    directories = [path for path in sorted(policy.hidden, key=len) if os.path.isdir(path)]
    steps = [(path, ["--tmpfs", path]) for path in directories]
    steps += [(path, ["--ro-bind", "/dev/null", path]) for path in policy.hidden - set(directories)]
    # The agent's own directories may be inside a hidden one: a worktree is in Teamwright's state.
    given = policy.readable | policy.writable
    for path in (one for one in given if any(one != top and is_inside(one, top) for top in directories)):
        kind = "--bind" if path in policy.writable else "--ro-bind"
        steps.append((path, [kind, path, path]))
        kept = [one for one in policy.protected if is_inside(one, path) and not os.path.islink(one)]
        above = {parent for one in kept for parent in parents_below(one, [path])}
        steps += [(one, ["--bind", one, one]) for one in above]
        steps += [(one, ["--ro-bind", one, one]) for one in kept]
    options = [part for _, step in sorted(steps, key=lambda step: len(step[0])) for part in step]
    options += _binds("--ro-bind", sorted(policy.visible, key=len))
    own = [policy.temporary] if policy.temporary else []
    options += _binds("--ro-bind" if policy.name is PolicyName.READ else "--bind", own)
    fixed = [*reversed(directories), *(["/tmp"] if own and policy.name is PolicyName.READ else [])]
    options += [part for path in fixed for part in ("--remount-ro", path)]
    return [*options, *_binds("--bind", policy.own_files)]


def _binds(kind: str, paths: Sequence[str]) -> list[str]:
    return [part for path in paths for part in (kind, path, path)]


_BIND_OPTIONS = frozenset({"--bind", "--ro-bind"})
_LOADER_PREFIX = "LD_"
"""Variables of the program loader begin so: libraries of a project must not be loaded before the check."""

_SCRIPT = r"""
count=$1 expected=$2 seen='
'
shift 2
table=$(PATH=/usr/bin:/bin:/run/current-system/sw/bin cat /proc/self/mountinfo 2>/dev/null) ||
  table=$(while read -r line; do printf '%s\n' "$line"; done </proc/self/mountinfo)
set -f
IFS='
'
for line in $table; do
  line=${line#* * * }
  root=${line%% *}
  point=${line#* }
  point=${point%% *}
  case $expected in
    *"
$root $point
"*) case $seen in *"
$point
"*) ;; *) seen="$seen$point
" count=$((count - 1)) ;; esac ;;
    *" $point
"*) count=-1; break ;;
  esac
done
set +f
[ "$count" = 0 ] && exec "$@"
echo 'the sandbox did not start: another command replaced a directory in that time; run it again' >&2
exit 126
"""
"""`cat` reads the table, because the shell would read it byte by byte. Where `cat` is in none of its usual directories,
the shell does."""


def with_mount_check(
    argv: Sequence[str], options: Sequence[str], changeable: Sequence[str], env: dict[str, str]
) -> tuple[list[str], dict[str, str]]:
    """Return the arguments that check the mounts and start the same program, and their environment.

    `options` are those of bubblewrap; `changeable` are directories in which commands can replace others.
    """
    expected = _expected_mounts(options, changeable)
    if not expected:
        return list(argv), env
    loading = [f"{name}={value}" for name, value in env.items() if name.startswith(_LOADER_PREFIX)]
    given = ["/usr/bin/env", *loading, *argv] if loading else argv
    table = "".join(f"{escape(root)} {escape(path)}\n" for path, root in expected.items())
    kept = {name: value for name, value in env.items() if not name.startswith(_LOADER_PREFIX)}
    return ["/bin/sh", "-c", _SCRIPT, "sh", str(len(expected)), f"\n{table}", *given], kept


def _expected_mounts(options: Sequence[str], changeable: Sequence[str]) -> Mapping[str, str]:
    """Return what each mount inside of a changeable directory must show, by its path."""
    tops = tuple(f"{top.rstrip('/')}/" for top in changeable)
    steps = list(zip(options, options[1:], options[2:], strict=False))
    covered = {target for kind, path, target in steps if kind in _BIND_OPTIONS and path != target}
    covered |= {path for kind, path, _ in steps if kind == "--tmpfs"}
    paths = {path for kind, path, target in steps if kind in _BIND_OPTIONS and path == target and path.startswith(tops)}
    paths = {path for path in paths - covered if not path.startswith("/proc/")}  # that of the command is another one
    mounts = read_mounts() if paths else []
    return {path: mount.inner(path) for path in paths if (mount := mount_of(path, mounts)) is not None}
