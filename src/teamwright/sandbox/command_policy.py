"""The policy of one command: the tables of paths applied to this system, this session and what the command names.

Reads which paths exist, where links lead, and the configuration of git; runs nothing, and changes nothing but missing
caches and the session's own `/tmp`.

The files of the running Teamwright are protected, because they run later without a sandbox. It may be installed in the
environment of a project, or run from a cache of uv (`uvx`). uv also installs packages as hard links to its cache, so a
change there changes the installed file. A source tree is not protected.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import translate
from functools import cache
from pathlib import Path

from msgspec import Struct

import teamwright
from teamwright.git.repository import discover
from teamwright.git.unsafe_config import SeenFiles, config_entries, plain_values
from teamwright.processes.program_environment import leads_through
from teamwright.sandbox.command_needs import NO_NEEDS, CommandNeeds
from teamwright.sandbox.guarded_files import PROTECTED_NAMES, PROTECTED_PATTERNS
from teamwright.sandbox.known_paths import (
    CACHE_VARIABLES,
    CACHED_STARTUP,
    CACHES,
    CREDENTIALS,
    GIT_FILES,
    LIBRARY_NAMES,
    PROGRAMS_IN_LOCAL,
    READABLE_AT_HOME,
    SECRET_VARIABLES,
    STARTUP_FILES,
    SYSTEM,
    SYSTEM_SECRETS,
    USER_DIRECTORIES,
    is_kept,
    start_files,
)
from teamwright.sandbox.mounts import is_same_file, other_names, read_mounts
from teamwright.sandbox.named_hosts import Destination
from teamwright.sandbox.network_proxy import AskHost
from teamwright.sandbox.policy import NetworkAccess, PolicyName, SandboxPolicy, is_inside
from teamwright.storage.paths import make_private

REPLACED = ("/tmp/", "/run/", "/var/run/", "/var/tmp/", "/dev/")
"""Directories that a command has for itself, or without other programs' files."""

_MAX_SOCKETS = 1_000
_SOCKET_FIELDS = 8
"""Fields of a row of /proc/net/unix that has a path (proc(5))."""

_HOOKS_KEY = "core.hookspath"

_ARCHIVES = "archive-v0"
"""The directory of uv's cache with unpacked packages."""

OTHER_UV_CACHE = "teamwright-uv"
"""The cache of uv for commands, where the person's contains Teamwright."""


class SandboxPaths(Struct, frozen=True):
    """The paths of a session. `private` is the state that no command sees, but for `visible`.

    `temporary` is the directory that commands have as `/tmp`. `env` is the environment of commands. `run_outside` are
    files and directories of the project that run outside of the sandbox, such as scripts of a person's hooks.
    """

    home: str
    private: tuple[str, ...]
    visible: tuple[str, ...]
    temporary: str
    env: Mapping[str, str]
    run_outside: tuple[str, ...] = ()


class ConfinementRequest(Struct, frozen=True):
    """A command to confine: its policy, the agent's directories, and what it names.

    `readable` and `writable` are further paths of the settings; `shown` and `opened` are the real paths that an allowed
    line names, to read and to change. `denied` are paths that no command may read.
    `own_files` are files of the runtime that it writes; `ask_host` allows hosts of the network. `hosts` are those that
    the command names.
    """

    policy: PolicyName
    directories: Sequence[Path]
    needs: CommandNeeds = NO_NEEDS
    readable: Sequence[str] = ()
    writable: Sequence[str] = ()
    shown: Sequence[str] = ()
    opened: Sequence[str] = ()
    denied: Sequence[str] = ()
    own_files: tuple[str, ...] = ()
    network: NetworkAccess = NetworkAccess.DENY
    ask_host: AskHost | None = None
    hosts: Sequence[Destination] = ()


def make_policy(request: ConfinementRequest, place: SandboxPaths) -> SandboxPolicy:
    """Return the policy of a command. Unconfined commands have one without restrictions."""
    if request.policy is PolicyName.UNCONFINED:
        return SandboxPolicy(PolicyName.UNCONFINED, network=NetworkAccess.ALLOW)
    directories = follow_links(map(str, request.directories), (), are_changeable=True)
    extra = follow_links(map(os.path.expanduser, request.readable), directories)
    hidden = _hidden_paths(request, place)
    visible = _visible_paths(request.needs, place)
    if request.policy is PolicyName.READ:
        changeable = [*directories, *_caches(place, NO_NEEDS, directories)]
        own = follow_links([os.path.join(place.home, name) for name in READABLE_AT_HOME], changeable)
        programs = _program_directories(place, changeable)
        readable = [*directories, *extra, *git_directories(directories), *programs, *own]

        def is_extra(path: str) -> bool:
            """Return True for a path that the system's directories do not show, or only inside a hidden one."""
            return not _is_system(path) or any(is_inside(path, one) for one in hidden)

        return SandboxPolicy(
            PolicyName.READ,
            readable=_outermost((path for path in readable if os.path.exists(path) and is_extra(path)), hidden),
            hidden=hidden,
            visible=visible,
            temporary=_temporary(place),
            own_files=request.own_files,
        )
    caches = _caches(place, request.needs, directories)
    given = follow_links(map(os.path.expanduser, request.writable), [*directories, *caches], are_changeable=True)
    opened = open_paths(request.opened, hidden, place)
    shown = [path for path in open_paths(request.shown, hidden, place, to_read=True) if not _is_system(path)]
    places = [*directories, *opened]
    own = frozenset(directories) - {os.path.realpath(place.home)}
    protected = [*protected_paths(places, [*caches, *given], place, request.needs)]
    own_caches = own_uv_caches(caches)
    protected += [*_programs_in(caches, directories, place), *own_environment([*places, *given]), *own_caches]
    variables = [("UV_CACHE_DIR", _other_uv_cache(place))] if own_caches else []
    writable = [*given, *places, *git_directories(places), *caches]
    return SandboxPolicy(
        PolicyName.WORK,
        readable=_outermost(
            filter(os.path.exists, [place.home, *extra, *shown, *_program_directories(place, writable)]), hidden
        ),
        writable=_outermost(filter(os.path.exists, writable), hidden),
        protected=frozenset(path for path in protected if os.path.lexists(path)),
        guarded=frozenset(path for path in protected if not os.path.lexists(path) and not _needs_trust(path, own)),
        hidden=hidden,
        visible=visible,
        network=network_access(request),
        temporary=_temporary(place),
        own_files=request.own_files,
        names_sockets=_names_sockets(request.needs),
        variables=tuple(variables),
        git_configs=_git_configs(places, request.needs),
        git_keys=request.needs.git_keys,
    )


def _needs_trust(path: str, projects: Collection[str]) -> bool:
    """Return True for a file that a person's trust decides on, because it is at the top of a project.

    Anywhere else, as in the home directory, programs obey it at once.
    """
    return any(path.endswith(f"/{name}") and path[: -len(name) - 1] in projects for name in PROTECTED_NAMES)


def open_paths(paths: Iterable[str], hidden: Iterable[str], place: SandboxPaths, *, to_read: bool = False) -> list[str]:
    """Return the paths that are opened for a line that names them: not those that are hidden or protected anywhere.

    A path that is not real any more leads to another place than the one that was allowed.
    """
    starts = () if to_read else start_files(place.home)
    return [
        path
        for path in paths
        if path != os.sep
        and os.path.exists(path)
        and os.path.realpath(path) == path
        and not any(is_inside(path, one) for one in hidden)
        and (to_read or not is_kept(path, starts))
    ]


def _visible_paths(needs: CommandNeeds, place: SandboxPaths) -> frozenset[str]:
    """Return the existing paths that are shown inside of hidden directories."""
    shown = [*place.visible, *needs.sockets, *needs.keys, *_gpg_sockets(needs, place)]
    if needs.agent and _is_path(agent := place.env.get("SSH_AUTH_SOCK")):
        shown.append(str(agent))
    return frozenset(path for path in map(os.path.realpath, shown) if os.path.exists(path))


def _outermost(paths: Iterable[str], hidden: Iterable[str]) -> frozenset[str]:
    """Return the paths without those that another one contains.

    A mount of such an inner path would follow a link that another command puts there in the meantime. One below a
    hidden or replaced directory needs a mount for itself.
    """
    found = frozenset(paths)
    cuts = (*hidden, *(top.rstrip("/") for top in REPLACED))

    def is_shown(path: str, top: str) -> bool:
        inside = path != top and is_inside(path, top)
        return inside and not any(is_inside(path, cut) and is_inside(cut, top) for cut in cuts)

    return frozenset(path for path in found if not any(is_shown(path, top) for top in found))


def network_access(request: ConfinementRequest) -> NetworkAccess:
    """Return the network of a working command. Through the proxy, a command that names the network asks too."""
    if request.needs.whole_network or request.network is NetworkAccess.ALLOW:
        return NetworkAccess.ALLOW
    return NetworkAccess.ASK if request.needs.network else request.network


def protected_paths(
    directories: Sequence[str], others: Iterable[str], place: SandboxPaths, needs: CommandNeeds
) -> list[str]:
    """Return the paths that a working command may not change, also those that do not exist.

    `others` are the writable paths besides the agent's directories: caches, and paths of the settings.
    """
    # Start files are often links into a project of settings.
    start_files = [os.path.join(place.home, name) for name in STARTUP_FILES]
    start_files += [path for top in others for path in _matching(top, CACHED_STARTUP)]
    found = _below(start_files, (*directories, *others))
    found += _below(place.run_outside, (*directories, *others))
    for directory in directories:
        found += [os.path.join(directory, name) for name in PROTECTED_NAMES]
        found += _matching(directory, PROTECTED_PATTERNS)
        pointer = os.path.join(directory, ".git")
        found += [pointer] if os.path.isfile(pointer) else []
        found += _below(configured_files(directory), directories)
    allowed = {"config"} if needs.git_config else set[str]()
    for git_dir in git_directories(directories):
        found += [os.path.join(git_dir, name) for name in GIT_FILES if name not in allowed]
        found += [
            *files_of_each(git_dir, "modules", ("config", "hooks")),
            *files_of_each(git_dir, "worktrees", GIT_FILES[2:]),
        ]
    # A link is protected besides what it leads to: another directory could be put in its place.
    links = [_real_place(path) for path in found if os.path.islink(path)]
    return [*(os.path.realpath(path) for path in found), *links]


def _matching(directory: str, patterns: Sequence[str]) -> list[str]:
    """Return the entries of a directory whose names match one of the patterns."""
    try:
        names = os.listdir(directory)
    except OSError:
        return []
    matches = _name_expression(tuple(patterns)).fullmatch
    return [os.path.join(directory, name) for name in names if matches(name)]


@cache
def _name_expression(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, patterns)))


def _real_place(path: str) -> str:
    """Return the path with its directory resolved, but not its last part."""
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


def _below(paths: Iterable[str], directories: Iterable[str]) -> list[str]:
    """Return the paths that are, or lead to, something inside of one of the directories."""
    tops = tuple(f"{directory.rstrip('/')}/" for directory in directories)
    return [path for path in paths if path.startswith(tops) or os.path.realpath(path).startswith(tops)]


def _git_configs(directories: Iterable[str], needs: CommandNeeds) -> frozenset[str]:
    """Return the git configurations of these directories that a command may change."""
    places = git_directories(directories) if needs.git_config else []
    return frozenset(os.path.realpath(os.path.join(git_dir, "config")) for git_dir in places)


def _hidden_paths(request: ConfinementRequest, place: SandboxPaths) -> frozenset[str]:
    """Return the existing paths that the command cannot read, without those that it names."""
    needs = request.needs
    secrets = [os.path.join(place.home, name) for name in CREDENTIALS if name not in needs.credentials]
    named = [place.env.get(name, "") for name, usual in SECRET_VARIABLES.items() if usual not in needs.credentials]
    used = [place.home, *map(os.path.realpath, request.directories)]
    secrets += [path for paths in named for path in paths.split(os.pathsep) if _may_hold_secrets(path, used)]
    secrets += [*SYSTEM_SECRETS, *_host_keys(), *place.private, *request.denied]
    if place.home != "/root":
        secrets.append("/root")
    if request.policy is PolicyName.WORK:
        secrets += _sockets_of_others(request, place)
    shown = [os.path.realpath(path) for path in (*needs.sockets, *_gpg_sockets(request.needs, place))]
    mounts = read_mounts()
    real = {os.path.realpath(path) for path in secrets}
    real |= {name for path in real if os.path.exists(path) for name in other_names(path, mounts)}
    return frozenset(
        path for path in real if os.path.exists(path) and path != "/" and not any(is_inside(path, one) for one in shown)
    )


def _sockets_of_others(request: ConfinementRequest, place: SandboxPaths) -> list[str]:
    """Return the sockets on which programs listen (Linux), outside of the agent's directories."""
    try:
        with open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as file:
            rows = [line.rstrip("\n").split(None, _SOCKET_FIELDS - 1) for line in file]
    except OSError:
        return []
    paths = sorted({row[-1].rstrip() for row in rows if len(row) == _SOCKET_FIELDS and row[-1].startswith("/")})
    shown = [place.home, *map(os.path.realpath, request.writable)]
    own = [os.path.realpath(directory) for directory in request.directories]
    others = [
        path
        for path in paths
        if not any(is_inside(path, directory) for directory in own)
        and (not path.startswith(REPLACED) or any(is_inside(path, directory) for directory in shown))
    ]
    # Commands themselves can open any number of sockets, in caches: then their directories are hidden.
    return others if len(others) <= _MAX_SOCKETS else sorted({os.path.dirname(path) for path in others})


def _names_sockets(needs: CommandNeeds) -> bool:
    return bool(needs.sockets) or needs.agent or needs.gpg_agent or needs.whole_network


def _gpg_sockets(needs: CommandNeeds, place: SandboxPaths) -> list[str]:
    """Return the sockets of gpg's agent, or their directory, for a command that needs it."""
    if not needs.gpg_agent:
        return []
    own = place.env.get("GNUPGHOME") or os.path.join(place.home, ".gnupg")
    return [os.path.join(own, "S.gpg-agent"), f"/run/user/{os.getuid()}/gnupg"]


def _host_keys() -> list[str]:
    try:
        return [entry.path for entry in os.scandir("/etc/ssh") if entry.name.endswith("_key")]
    except OSError:
        return []


def _may_hold_secrets(value: str, used: Iterable[str]) -> bool:
    """Return True for the path of a credential in a variable: no device, as in `KUBECONFIG=/dev/null`, and no directory
    that holds one which commands use.
    """
    real = os.path.realpath(value)
    return _is_path(value) and not is_inside(real, "/dev") and not any(is_inside(one, real) for one in used)


def _is_path(value: str | None) -> bool:
    return value is not None and value.startswith("/")


def _is_system(path: str) -> bool:
    return any(is_inside(path, top) for top in SYSTEM if os.path.isdir(top) and not os.path.islink(top))


def _program_directories(place: SandboxPaths, changeable: Sequence[str]) -> list[str]:
    """Return the directories of the programs on the PATH that are outside the system's, with their libraries."""
    found: dict[str, None] = {}
    entries = place.env.get("PATH", os.defpath).split(os.pathsep)
    for real in follow_links(filter(os.path.isabs, entries), changeable):
        if not _is_system(real) and os.path.isdir(real):
            found |= dict.fromkeys(_with_libraries(real, place))
    return list(found)


def _with_libraries(directory: str, place: SandboxPaths) -> list[str]:
    """Return a directory of programs, with what belongs to them beside it.

    The directory above may hold the user's own files too: `~/.local/share`, the documents beside `~/Documents/bin`.
    """
    top = os.path.dirname(directory)
    if os.path.basename(directory) not in {"bin", "shims", "sbin"} or top in {"/", place.home, "/root", "/home"}:
        return [directory]
    if is_inside(place.home, top):
        return [directory]
    if top == os.path.join(place.home, ".local"):
        linked = (os.path.realpath(os.path.join(directory, name)) for name in _entries_of(directory))
        single = [path for path in linked if is_inside(path, top) and os.path.isfile(path)]
        return [directory, *filter(os.path.isdir, (os.path.join(top, name) for name in PROGRAMS_IN_LOCAL)), *single]
    above = top[len(place.home) :] if is_inside(top, place.home) else top
    names = _entries_of(top)
    is_installed = "/." in above or (names & LIBRARY_NAMES and ".git" not in names)
    return [top] if is_installed and os.path.basename(top) not in USER_DIRECTORIES else [directory]


def _entries_of(directory: str) -> set[str]:
    try:
        return set(os.listdir(directory))
    except OSError:
        return set()


def shown_paths(place: SandboxPaths) -> list[str]:
    """Return the paths of a session besides its directories that commands see below a replaced `/tmp`."""
    named = [place.env.get(variable, "") for variable in CACHE_VARIABLES]
    return [place.home, *place.private, *_program_directories(place, ()), *filter(os.path.isabs, named)]


def _caches(place: SandboxPaths, needs: CommandNeeds, changeable: Sequence[str]) -> list[str]:
    """Return the caches. A missing one is created for a command that names its program."""
    found: list[str] = []
    for name, program in CACHES.items():
        path = os.path.join(place.home, name)
        if program in needs.programs and not os.path.isdir(path) and _has_program(program):
            os.makedirs(path, mode=0o755, exist_ok=True)
        found.append(path)
    named = (place.env.get(variable) for variable in CACHE_VARIABLES)
    found += [path for path in named if path is not None and os.path.isabs(path)]
    return follow_links(found, changeable, are_changeable=True)


def _other_uv_cache(place: SandboxPaths) -> str:
    """Return the cache of uv for commands, created if it is missing. It is inside of a writable one."""
    path = os.path.join(place.home, ".cache", OTHER_UV_CACHE)
    with contextlib.suppress(OSError):
        os.makedirs(path, mode=0o755, exist_ok=True)
    return path


def follow_links(paths: Iterable[str], changeable: Iterable[str], *, are_changeable: bool = False) -> list[str]:
    """Return the real paths, without those that a command could have led elsewhere.

    A link inside of a directory that commands can change (`changeable`, and with `are_changeable` the paths returned
    here) may lead only to such a directory. A cache or a program's directory is often inside of another one.
    """
    tops = list(changeable)
    found = list[str]()
    for path in sorted(paths, key=len):
        real = os.path.realpath(path)
        if any(is_inside(real, top) for top in tops) or not leads_through(path, tuple(tops)):
            found.append(real)
            tops += [real] if are_changeable else []
    return found


def _programs_in(caches: Iterable[str], directories: Iterable[str], place: SandboxPaths) -> list[str]:
    """Return the directories of the PATH inside caches: their programs run later, outside of the sandbox."""
    found = {os.path.realpath(entry) for entry in place.env.get("PATH", "").split(os.pathsep) if os.path.isabs(entry)}
    own = list(directories)
    inner = [path for path in found if any(path != cache and is_inside(path, cache) for cache in caches)]
    return [path for path in inner if os.path.isdir(path) and not any(is_inside(path, top) for top in own)]


@cache
def _has_program(program: str) -> bool:
    return shutil.which(program) is not None


def _temporary(place: SandboxPaths) -> str:
    """Return the session's `/tmp`, created if it is missing; empty without a place for it."""
    if not place.temporary:
        return ""
    try:
        make_private(Path(place.temporary))
    except OSError:
        return ""
    return os.path.realpath(place.temporary)


def git_directories(directories: Iterable[str]) -> list[str]:
    """Return the git directories of these directories, with those that linked worktrees share."""
    found: dict[str, None] = {}
    for directory in directories:
        repository = discover(Path(directory)).repository
        if repository is not None and repository.belongs_to_tree:
            found |= {str(repository.git_dir): None, str(repository.common): None}
    return list(found)


def files_of_each(git_dir: str, kind: str, files: Iterable[str]) -> list[str]:
    """Return these files of the submodules or the worktrees of a git directory, one level deep."""
    try:
        names = [entry.path for entry in os.scandir(os.path.join(git_dir, kind)) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return [os.path.join(path, name) for path in names for name in files]


_MAX_REPOSITORIES = 64
_configured_files: dict[str, tuple[list[str], SeenFiles]] = {}
"""The files of each repository, valid while nothing that they were read from changes: each command asks for them."""


def configured_files(directory: str) -> list[str]:
    """Return the files that the configuration of a repository includes, and the directory of hooks that it names."""
    known = _configured_files.get(directory)
    if known is not None and known[1].are_unchanged:
        return known[0]
    repository = discover(Path(directory)).repository
    if repository is None or not repository.belongs_to_tree:
        return []
    seen = SeenFiles()
    for file in (repository.common / "config", repository.git_dir / "config.worktree"):
        list(config_entries(file, repository.common, repository.tree, seen))
    hooks = [plain_values(file, [_HOOKS_KEY]).get(_HOOKS_KEY) for file in seen.paths]
    named = [os.path.join(repository.tree, os.path.expanduser(path)) for path in hooks if path]
    found = [os.path.normpath(path) for path in (*map(str, seen.paths[1:]), *named)]
    if len(_configured_files) >= _MAX_REPOSITORIES:
        _configured_files.clear()
    _configured_files[directory] = found, seen
    return found


def own_environment(changeable: Iterable[str]) -> list[str]:
    """Return the virtual environment of Teamwright if it is inside of a directory that commands can change."""
    prefix = os.path.realpath(sys.prefix)
    is_installed = sys.prefix != sys.base_prefix and is_inside(_packages(), prefix)
    return [prefix] if is_installed and any(prefix != top and is_inside(prefix, top) for top in changeable) else []


def own_uv_caches(caches: Iterable[str]) -> list[str]:
    """Return the caches of uv that contain files of Teamwright's environment."""
    places = [path for top in caches for path in (top, f"{top}/uv") if os.path.isdir(f"{path}/{_ARCHIVES}")]
    return [path for path in places if is_inside(_packages(), path) or contains_links(path, _packages())]


@cache
def contains_links(uv_cache: str, packages: str) -> bool:
    """Return True when installed packages are hard links to this cache of uv. It is searched once."""
    try:
        installed = {name for name in os.listdir(packages) if name.endswith(".dist-info")}
        archives = [entry.path for entry in os.scandir(f"{uv_cache}/{_ARCHIVES}")]
    except OSError:
        return False
    return any(
        is_same_file(f"{one}/{name}/METADATA", f"{packages}/{name}/METADATA")
        for one in archives
        for name in installed & _entries_of(one)
    )


def _packages() -> str:
    return os.path.dirname(os.path.dirname(os.path.realpath(teamwright.__file__)))
