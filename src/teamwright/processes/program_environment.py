"""The PATH and the variables with which programs start, so that no command decides what they run.

Three kinds of starts use it:

- Our own programs (`find_program`, `own_variables`): git, ripgrep, a shell, tmux. They run outside of the sandbox, so
  they are found where no command can put a file.
- Lines that run only because they are proven to read (`proven_variables`). The proof is about the programs of these
  names, and says nothing about the helpers that they start by the PATH.
- Programs of the person's own settings, such as hooks and MCP servers (`own_variables`).

A command that a person or a rule allowed keeps the person's environment. Everything that is started for agents loses
the variables that move git to another repository (`without_git_variables`).

A *changeable* directory is one in which agents and their commands may create files: the directories of sessions, their
worktrees, caches, and directories that a person added. A process collects them (`add_changeable`). The list only grows,
so that a program which is found once more is never one that a command made in between.

Depends on the environment and on links of the file system only.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

SYSTEM_PATH = "/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/bin:/run/wrappers/bin:/run/current-system/sw/bin"
"""The system's directories of programs. They count even if a session works in a directory above them."""

_SYSTEM_DIRECTORIES = frozenset(SYSTEM_PATH.split(os.pathsep))
_MAX_STEPS = 1_000
"""Names in a path and in the links that it contains."""

_MAX_ENTRIES = 50_000
"""Entries of changeable directories that are searched for another name of a program."""

_changeable: dict[str, None] = {}
"""The changeable directories of this process, by real path."""


def add_changeable(directories: Iterable[str | Path]) -> None:
    """Add directories in which agents and their commands may create files, from the next start of a program on."""
    for directory in directories:
        real = os.path.realpath(directory)
        if not _is_inside(real, tuple(_changeable)):
            _changeable[real] = None


def changeable_directories() -> tuple[str, ...]:
    """Return the changeable directories of this process.

    The working directory and the work tree around it are always among them: a command without a session, such as
    `teamwright doctor`, starts programs too.
    """
    here = _directories_around(_working_directory())
    return (*_changeable, *(one for one in here if one not in _changeable))


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return os.sep


@lru_cache(maxsize=8)
def _directories_around(directory: str) -> tuple[str, ...]:
    """Return the directory, or the work tree that contains it. The root directory and the home contain no project."""
    if directory == os.sep:
        return ()
    place = directory
    while place != os.path.dirname(place):
        if os.path.lexists(os.path.join(place, ".git")):
            return (place,)
        place = os.path.dirname(place)
    return (directory,)


def is_changeable(path: str, directories: tuple[str, ...]) -> bool:
    """Return True when a command can decide what is at this path, or what program code the path names.

    `directories` are real paths. A path that is not absolute depends on the directory of the program, and the path may
    lead through a link that a command can change.
    """
    if not os.path.isabs(path):
        return True
    named = os.path.normpath(path)
    return _is_inside(named, directories) or leads_through(path, directories)


def _is_inside(path: str, directories: tuple[str, ...]) -> bool:
    return f"{path}/".startswith(tuple(f"{one.rstrip('/')}/" for one in directories))


def leads_through(path: str, directories: tuple[str, ...]) -> bool:
    """Return True when the target of the path, or a link on the way to it, is in one of these directories."""
    return any(place is None or _is_inside(place, directories) for place in places_on_the_way(path))


def places_on_the_way(path: str) -> Iterator[str | None]:
    """Yield each link through which a path leads, then the place at its end; None at last if the links do not end."""
    place = os.sep
    left = list(reversed(Path(os.path.abspath(path)).parts[1:]))
    for _ in range(_MAX_STEPS):
        if not left:
            yield place
            return
        place = os.path.normpath(os.path.join(place, left.pop()))  # nothing before it is a link, so `..` is its parent
        try:
            target = os.readlink(place)
        except OSError:
            continue
        yield place
        left += reversed(Path(target).parts)
        place = os.path.dirname(place)
    yield None


def absolute_entries(path: str) -> str:
    """Return the PATH of agents' commands: relative and empty entries would depend on a command's directory."""
    return os.pathsep.join(dict.fromkeys(entry for entry in path.split(os.pathsep) if os.path.isabs(entry)))


def safe_path(path: str, directories: tuple[str, ...] | None = None) -> str:
    """Return the PATH without the entries that a command can change; the system's PATH when none is left.

    `directories` are the changeable ones; None: those of this process.
    """
    return _safe_path(path, changeable_directories() if directories is None else directories)


def _safe_path(path: str, directories: tuple[str, ...]) -> str:
    return os.pathsep.join(safe_entries(path, directories)) or SYSTEM_PATH


def safe_entries(path: str, directories: tuple[str, ...]) -> tuple[str, ...]:
    """Return the entries of the PATH that no command can change; `directories` are the changeable ones."""
    entries = tuple(path.split(os.pathsep))
    return _known_safe(entries, directories, tuple(map(_changed_at, entries)))


@lru_cache(maxsize=64)
def _known_safe(entries: tuple[str, ...], directories: tuple[str, ...], _changed: tuple[int, ...]) -> tuple[str, ...]:
    """Return the safe entries. `_changed` are the times at which they changed, so that a new link is seen."""
    return tuple(entry for entry in entries if entry in _SYSTEM_DIRECTORIES or _is_safe(entry, directories))


def _changed_at(directory: str) -> int:
    try:
        return 0 if directory in _SYSTEM_DIRECTORIES else os.stat(directory).st_mtime_ns
    except OSError:
        return 0


def _is_safe(entry: str, directories: tuple[str, ...]) -> bool:
    """Return True for a directory of programs that a command cannot change, and none of whose links leads to a file
    that it can change, such as `~/.local/bin/tool` to a build of the project. A program with another name there, by a
    hard link, counts as such a link.
    """
    if is_changeable(entry, directories):
        return False
    try:
        with os.scandir(entry) as listed:
            found = list(listed)
        links = [one.path for one in found if one.is_symlink()]
        states = [one.stat(follow_symlinks=False) for one in found if one.is_file(follow_symlinks=False)]
    except OSError:
        return True
    return not any(leads_through(link, directories) for link in links) and not _has_name_in(states, directories)


def _has_name_in(states: Iterable[os.stat_result], directories: tuple[str, ...]) -> bool:
    """Return True when one of these files of a directory may have another name, by a hard link, in the others.

    Most installed programs have one name, or several in their directory. Only for others the directories are searched;
    True where that would take too long.
    """
    names: dict[tuple[int, int], int] = {}
    links: dict[tuple[int, int], int] = {}
    for state in states:
        key = state.st_dev, state.st_ino
        names[key], links[key] = names.get(key, 0) + 1, state.st_nlink
    wanted = {key for key, count in names.items() if links[key] > count}
    return bool(wanted) and _contains_file(frozenset(wanted), directories)


def _contains_file(wanted: frozenset[tuple[int, int]], directories: tuple[str, ...]) -> bool:
    numbers = {number for _, number in wanted}
    left = _MAX_ENTRIES
    waiting = list(directories)
    while waiting:
        try:
            with os.scandir(waiting.pop()) as listed:
                for entry in listed:
                    left -= 1
                    if left < 0:
                        return True
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    elif entry.inode() in numbers:
                        state = entry.stat(follow_symlinks=False)
                        if (state.st_dev, state.st_ino) in wanted:
                            return True
        except OSError:
            continue
    return False


def _is_own_file(path: str, directories: tuple[str, ...]) -> bool:
    """Return True for a program that no command can change by this or another name."""
    if is_changeable(path, directories):
        return False
    try:
        return not _has_name_in([os.stat(path)], directories)
    except OSError:
        return True


def find_program(name: str, path: str | None = None, directories: tuple[str, ...] | None = None) -> str:
    """Return the absolute path of a program of ours, such as `git`; empty when there is none that a command cannot
    change.

    `path` is the PATH to search; None: that of this process. `directories` are the changeable ones; None: those of this
    process.
    """
    searched = os.environ.get("PATH", os.defpath) if path is None else path
    return _find_program(name, searched, changeable_directories() if directories is None else directories)


@lru_cache(maxsize=256)
def _find_program(name: str, path: str, directories: tuple[str, ...]) -> str:
    for entry in path.split(os.pathsep):
        if entry not in _SYSTEM_DIRECTORIES and is_changeable(entry, directories):
            continue
        found = shutil.which(name, path=entry)
        # A link from the person's own directory may lead to a file of the project.
        if found is not None and (entry in _SYSTEM_DIRECTORIES or _is_own_file(found, directories)):
            return found
    return ""


def find_project_program(words: Iterable[str], path: str) -> str:
    """Return the first of these words that names a program which only a changeable directory of the PATH has; empty
    for none.
    """
    safe = _safe_path(path, changeable_directories())
    if safe == path:
        return ""
    names = dict.fromkeys(name for name in words if name and "/" not in name)
    return next((one for one in names if shutil.which(one, path=path) and not shutil.which(one, path=safe)), "")


def outside_first(path: str) -> str:
    """Return the PATH with the entries that a command can change at its end, for programs that need those and are not
    confined."""
    safe = _safe_path(path, changeable_directories())
    kept = set(safe.split(os.pathsep))
    return os.pathsep.join([safe, *(entry for entry in path.split(os.pathsep) if entry not in kept and entry)])


class ProgramStart(Struct, frozen=True):
    """The start of a program that settings name, such as a hook.

    `wants_sandbox`: it runs in the sandbox where one works. `fixed` are variables that the settings set: they stay.
    """

    env: Mapping[str, str]
    fixed: Mapping[str, str]
    wants_sandbox: bool

    def environment(self, *, is_confined: bool) -> dict[str, str]:
        """Return the environment of the program, in a sandbox or without one.

        In a sandbox it gets the whole PATH. Without the one that it wants, the directories of the project come last, so
        that they decide nothing that the system has. Any other program starts without them. No program outside the
        sandbox gets variables that name code there.
        """
        if is_confined:
            return {**self.env, **self.fixed}
        if not self.wants_sandbox:
            return {**own_variables(self.env), **self.fixed}
        path = outside_first(self.env.get("PATH", os.defpath))
        return {**own_variables(self.env), "PATH": path, **self.fixed}


def own_program_start(
    words: Iterable[str], env: Mapping[str, str], fixed: Mapping[str, str], *, wants_sandbox: bool
) -> ProgramStart:
    """Return the start of a program that settings name. `words` are those of its line.

    It runs in the sandbox if it should (`wants_sandbox`), or if only a changeable directory has its program.
    """
    return ProgramStart(env, fixed, wants_sandbox or bool(find_project_program(words, env.get("PATH", os.defpath))))


class VariableForm(StrEnum):
    """The form of the value of a variable that decides which code a program runs."""

    PATHS = "paths"
    """Directories or files, separated by `:`. An empty one is the working directory for most programs."""

    PATH = "path"
    """One file or directory."""

    OPTIONS = "options"
    """Options of a program, some of which name code."""

    COMMAND = "command"
    """A command line that the program starts."""


_P = VariableForm.PATHS
_F = VariableForm.PATH
_O = VariableForm.OPTIONS
_C = VariableForm.COMMAND

CODE_VARIABLES: Mapping[str, VariableForm] = {
    # The loader and the C library: ld.so(8), dyld(1), iconv(1), locale(7), catopen(3), terminfo(5).
    **dict.fromkeys(("LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT", "LD_ORIGIN_PATH"), _P),
    **dict.fromkeys(("DYLD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "DYLD_FRAMEWORK_PATH"), _P),
    **dict.fromkeys(("DYLD_FALLBACK_LIBRARY_PATH", "DYLD_FALLBACK_FRAMEWORK_PATH", "DYLD_VERSIONED_LIBRARY_PATH"), _P),
    **dict.fromkeys(("GCONV_PATH", "LOCPATH", "NLSPATH", "TERMINFO_DIRS", "HOSTALIASES", "MAGIC", "MANPATH"), _P),
    **dict.fromkeys(("TERMINFO", "TERMCAP", "OPENSSL_CONF", "OPENSSL_MODULES", "OPENSSL_ENGINES"), _F),
    # Shells: bash(1), zsh(1). `cd` searches CDPATH.
    **dict.fromkeys(("BASH_ENV", "ENV", "ZDOTDIR", "INPUTRC", "SHELL", "XDG_CONFIG_HOME"), _F),
    **dict.fromkeys(("CDPATH", "FPATH", "BASH_LOADABLES_PATH", "MODULE_PATH"), _P),
    **dict.fromkeys(("PROMPT_COMMAND", "PS0", "PS4"), _C),
    # Pagers, editors and what they start: less(1), man(1), git(1), visudo(8).
    **dict.fromkeys(
        ("PAGER", "MANPAGER", "GIT_PAGER", "LESSOPEN", "LESSCLOSE", "LESSEDIT", "BAT_PAGER", "DELTA_PAGER"), _C
    ),
    **dict.fromkeys(("EDITOR", "VISUAL", "FCEDIT", "SUDO_EDITOR", "BROWSER", "MANROFFOPT", "MANLESS"), _C),
    **dict.fromkeys(("LESSKEY", "LESSKEYIN", "LESSKEY_SYSTEM", "LESSKEYIN_SYSTEM"), _F),
    **dict.fromkeys(("LESS", "MORE", "MANOPT"), _O),
    # git(1), git-config(1).
    **dict.fromkeys(("GIT_EXTERNAL_DIFF", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_ASKPASS", "SSH_ASKPASS"), _C),
    **dict.fromkeys(("GIT_SSH", "GIT_SSH_COMMAND", "GIT_PROXY_COMMAND"), _C),
    **dict.fromkeys(
        ("GIT_EXEC_PATH", "GIT_TEMPLATE_DIR", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_ATTR_SOURCE"), _F
    ),
    # Programs that read files or text: grep(1), tar(1), gzip(1), xz(1), zip(1), rg(1), gawk(1), ls(1), zstd(1).
    **dict.fromkeys(("GREP_OPTIONS", "TAR_OPTIONS", "GZIP", "BZIP2", "BZIP", "XZ_OPT", "XZ_DEFAULTS", "ZIPOPT"), _O),
    **dict.fromkeys(("UNZIP", "UNZIPOPT", "ZIPINFO", "ZIPINFOOPT", "POSIXLY_CORRECT", "RSYNC_OPTIONS"), _O),
    **dict.fromkeys(("TAPE", "RSH", "RSYNC_RSH", "RSYNC_CONNECT_PROG"), _C),
    **dict.fromkeys(("RIPGREP_CONFIG_PATH", "ACK_PAGER", "BAT_CONFIG_PATH", "BAT_CONFIG_DIR", "FD_CONFIG_PATH"), _F),
    **dict.fromkeys(("AWKPATH", "AWKLIBPATH", "JQ_LIBRARY_PATH"), _P),
    # Settings by which these programs write files or start others: curl(1), wget(1), gh help environment.
    **dict.fromkeys(("CURL_HOME", "WGETRC", "SYSTEM_WGETRC", "GH_CONFIG_DIR"), _F),
    # Python: python(1), "Environment variables".
    **dict.fromkeys(("PYTHONPATH", "PYTHONPLATLIBDIR"), _P),
    **dict.fromkeys(("PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE", "PYTHONPYCACHEPREFIX", "PYTHONEXECUTABLE"), _F),
    **dict.fromkeys(("PYTHONINSPECT", "PYTHONWARNINGS", "PYTHONBREAKPOINT", "PYTEST_ADDOPTS", "PYTEST_PLUGINS"), _O),
    # Perl, Ruby, Lua, Tcl, R, PHP: perlrun(1), ruby(1), gem(1), lua(1), tclsh(1), Startup(R), php(1).
    **dict.fromkeys(
        ("PERL5LIB", "PERLLIB", "PERL5DB_PATH", "RUBYLIB", "GEM_PATH", "TCLLIBPATH", "PHP_INI_SCAN_DIR"), _P
    ),
    **dict.fromkeys(("PERL5OPT", "RUBYOPT", "BUNDLE_PATH", "BUNDLER_SETUP", "PERL_MB_OPT", "PERL_MM_OPT"), _O),
    **dict.fromkeys(
        ("PERL5DB", "LUA_INIT", "LUA_INIT_5_2", "LUA_INIT_5_3", "LUA_INIT_5_4", "RUBYSHELL", "PERL5SHELL"), _C
    ),
    **dict.fromkeys(("LUA_PATH", "LUA_CPATH"), _O),
    **dict.fromkeys(("GEM_HOME", "BUNDLE_GEMFILE", "BUNDLE_BIN_PATH", "RUBYGEMS_GEMDEPS", "PHPRC"), _F),
    **dict.fromkeys(("R_PROFILE", "R_PROFILE_USER", "R_ENVIRON", "R_ENVIRON_USER", "R_HOME"), _F),
    **dict.fromkeys(("R_LIBS", "R_LIBS_USER", "R_LIBS_SITE"), _P),
    # Node and its package managers: node(1), npm config.
    **dict.fromkeys(("NODE_OPTIONS", "NODE_REPL_EXTERNAL_MODULE", "DENO_FLAGS", "BUN_OPTIONS"), _O),
    "NODE_PATH": _P,
    # The JVM and .NET: java(1), "Host startup hook" of .NET.
    **dict.fromkeys(("JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "MAVEN_OPTS", "GRADLE_OPTS"), _O),
    **dict.fromkeys(("JAVA_OPTS", "SBT_OPTS", "MAVEN_ARGS"), _O),
    **dict.fromkeys(("CLASSPATH", "DOTNET_STARTUP_HOOKS", "DOTNET_ADDITIONAL_DEPS", "DOTNET_SHARED_STORE"), _P),
    **dict.fromkeys(("JAVA_HOME", "JRE_HOME", "DOTNET_ROOT", "CORECLR_PROFILER_PATH", "COR_PROFILER_PATH"), _F),
    # Compilers and builders: go help environment, the Cargo book, make(1), cc(1), cmake-env-variables(7).
    **dict.fromkeys(("GOFLAGS", "MAKEFLAGS", "MFLAGS", "GNUMAKEFLAGS", "RUSTFLAGS", "RUSTDOCFLAGS"), _O),
    **dict.fromkeys(("CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_RUSTFLAGS", "CFLAGS", "CXXFLAGS", "LDFLAGS"), _O),
    **dict.fromkeys(("RUSTC", "RUSTDOC", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "CARGO", "RUSTFMT"), _C),
    **dict.fromkeys(("CARGO_BUILD_RUSTC", "CARGO_BUILD_RUSTC_WRAPPER", "CARGO_BUILD_RUSTC_WORKSPACE_WRAPPER"), _C),
    **dict.fromkeys(("MAKESHELL", "CC", "CXX", "LD", "AR", "AS", "CPP"), _C),
    **dict.fromkeys(("GOROOT", "GOTOOLDIR", "GOENV", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN"), _F),
    **dict.fromkeys(("MAKEFILES", "COMPILER_PATH", "GCC_EXEC_PREFIX", "LIBRARY_PATH", "CMAKE_MODULE_PATH"), _P),
    # Version managers: their shims choose the program by these.
    **dict.fromkeys(
        ("PYENV_ROOT", "RBENV_ROOT", "NODENV_ROOT", "JENV_ROOT", "GOENV_ROOT", "NVM_DIR", "ASDF_DATA_DIR"), _F
    ),
    **dict.fromkeys(("ASDF_DIR", "MISE_DATA_DIR", "MISE_CONFIG_DIR", "VOLTA_HOME", "SDKMAN_DIR"), _F),
    **dict.fromkeys(("PYENV_HOOK_PATH", "RBENV_HOOK_PATH", "NODENV_HOOK_PATH"), _P),
    **dict.fromkeys(("PYENV_VERSION", "RBENV_VERSION", "NODENV_VERSION", "JENV_VERSION", "GOENV_VERSION"), _O),
}
"""Variables by which a program finds or starts code, with the form of their values and the page that describes them."""

_PREFIXES: Mapping[str, VariableForm] = {
    "npm_config_": _O,  # npm config: `npm_config_script_shell`, `npm_config_node_options`
    "NPM_CONFIG_": _O,
    "GIT_TRACE": _O,  # git(1): a file that git writes
    "CARGO_TARGET_": _O,  # the Cargo book: linkers and runners of targets
}

_SHELL_STARTUP = re.compile(r"BASH_ENV|ENV|SHELLOPTS|BASHOPTS|GLOBIGNORE|BASH_FUNC_.*", re.DOTALL)
"""Variables by which a shell starts with other commands or reads its line in another way (bash(1)). They are the
person's own words, so only a proven line starts without them."""

_HARMLESS_COMMANDS = frozenset({"cat", "true", "false", ":", ""})
"""Commands in variables that start nothing else."""

_MODULE_OPTIONS = frozenset({"PERL5OPT", "RUBYOPT", "PERL5DB"})
"""Options of which most load a module; the letter and its name are one word."""

_PLAIN_OPTION = re.compile(r"-{1,2}[A-Za-z][\w.-]*(?:[=:]?\d+[kKmMgG%]?)?")
_PLAIN_WORD = re.compile(r"[A-Za-z_][\w+-]*|\d*|[+*%-]?")
"""An option without a value, and a value that is no file name with a dot or a slash."""

_LOADING_OPTION = re.compile(
    r"-{1,2}(?:r|I|M|e|f|F|P|require|import|loader|experimental-loader|eval|print|env-file\S*|rcfile|include|file"
    r"|javaagent|agentpath|cp|classpath|module-path|patch-module|toolexec|exec|overlay|modfile)(?:[=:](.*))?"
)
"""An option whose value is code, after a sign or as the next word."""

_GIT_PLACES = frozenset(
    (
        *("GIT_DIR", "GIT_WORK_TREE", "GIT_IMPLICIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_INDEX_VERSION"),
        *("GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_CONFIG"),
        *("GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT", "GIT_GRAFT_FILE", "GIT_NAMESPACE", "GIT_NO_REPLACE_OBJECTS"),
        *("GIT_REPLACE_REF_BASE", "GIT_PREFIX", "GIT_SHALLOW_FILE", "GIT_INTERNAL_SUPER_PREFIX"),
        *("GIT_REFERENCE_BACKEND", "GIT_QUARANTINE_PATH", "GIT_REFLOG_ACTION", "GIT_ATTR_SOURCE"),
        *("GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS", "GIT_ICASE_PATHSPECS"),
        *("GIT_PUSH_OPTION_COUNT", "GIT_PUSH_CERT", "GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE", "GIT_CHERRY_PICK_HELP"),
        *("GIT_INTERNAL_TOPLEVEL", "GIT_REF_PARANOIA"),
    )
)
"""Variables that move git to another repository, index or object directory, or that git sets for its own children
(`git rev-parse --local-env-vars`, git(1), githooks(5)). A fixed date would be that of all commits of agents."""

_GIT_NUMBERED = re.compile(r"GIT_CONFIG_(?:KEY|VALUE)_\d+|GIT_PUSH_OPTION_\d+|GIT_PUSH_CERT_.*")
_GIT_PERSONS = re.compile(r"GIT_(?:AUTHOR|COMMITTER)_.*|GIT_EXEC_PATH")
_SET_BY_GIT = frozenset({"GIT_DIR", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_REFLOG_ACTION", "GIT_QUARANTINE_PATH"})
"""Variables of a program that git started, such as a hook."""


def without_git_variables(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without the variables that move git.

    A program that git started also has the author of that commit in its environment: it is not the author of what
    agents commit. A person who names the author by variables keeps them.
    """
    by_git = any(name in env for name in _SET_BY_GIT)
    return {
        name: value
        for name, value in env.items()
        if not (moves_git(name) or (by_git and name.startswith("GIT_") and _GIT_PERSONS.fullmatch(name)))
    }


def moves_git(name: str) -> bool:
    """Return True for a variable that leads git to another repository, or gives it a configuration."""
    return name in _GIT_PLACES or (name.startswith("GIT_") and _GIT_NUMBERED.fullmatch(name) is not None)


def form_of(name: str) -> VariableForm | None:
    """Return the form of a variable that decides which code programs run; None for any other variable."""
    known = CODE_VARIABLES.get(name)
    if known is not None:
        return known
    return next((form for prefix, form in _PREFIXES.items() if name.startswith(prefix)), None)


def proven_variables(env: Mapping[str, str], directories: tuple[str, ...] | None = None) -> dict[str, str]:
    """Return the environment of a line that runs only because it is proven: the safe PATH, and no variable by which its
    programs start or load anything else.

    `directories` are the changeable ones; None: those of this process.
    """
    return _cleaned(env, changeable_directories() if directories is None else directories, keeps_plain=False)


def own_variables(env: Mapping[str, str], directories: tuple[str, ...] | None = None) -> dict[str, str]:
    """Return the environment of a program that starts outside of the sandbox: the safe PATH, and no variable that names
    code which a command can change.

    `directories` are the changeable ones; None: those of this process.
    """
    return _cleaned(env, changeable_directories() if directories is None else directories, keeps_plain=True)


def _cleaned(env: Mapping[str, str], directories: tuple[str, ...], *, keeps_plain: bool) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in env.items():
        if name == "PATH":
            found[name] = _safe_path(value, directories)
            continue
        if not keeps_plain and _SHELL_STARTUP.fullmatch(name):
            continue
        form = form_of(name)
        kept = value if form is None else _without_code(name, value, form, directories, keeps_plain=keeps_plain)
        if kept is not None:
            found[name] = kept
    return found


def _without_code(
    name: str, value: str, form: VariableForm, directories: tuple[str, ...], *, keeps_plain: bool
) -> str | None:
    """Return the value without what a command can change; None when nothing of it may stay."""
    if form is VariableForm.PATHS:
        sign = " " if name == "LD_PRELOAD" else os.pathsep
        parts = re.split(r"[:\s]", value) if name == "LD_PRELOAD" else value.split(sign)
        kept = [part for part in parts if part and not _is_code(part, directories)]
        return (value if kept == parts else sign.join(kept)) or None
    if form is VariableForm.PATH:
        return None if _is_code(value, directories) else value
    if form is VariableForm.COMMAND and value in _HARMLESS_COMMANDS:
        return value
    if not keeps_plain or name in _MODULE_OPTIONS:
        return None
    is_plain = _is_plain_command if form is VariableForm.COMMAND else _are_plain_options
    return value if is_plain(value, directories) else None


def _is_code(word: str, directories: tuple[str, ...]) -> bool:
    """Return True when a command can change what this path names. A program expands `~` itself."""
    return is_changeable(os.path.expanduser(word), directories)


def _is_plain_command(value: str, directories: tuple[str, ...]) -> bool:
    """Return True when a command certainly names nothing that a command can change. Names are found on the PATH."""
    value = value.replace("$HOME/", "~/")
    if set(value) & set("`$;&|()<>\n") or re.search(r"-F\s*(?![~/\s])", value):
        return False
    return not any("/" in word and _is_code(word, directories) for word in re.split(r"[\s=\"']+", value))


def _are_plain_options(value: str, directories: tuple[str, ...]) -> bool:
    """Return True when options certainly load nothing that a command can change."""
    names_code = False
    for word in value.split():
        loads = _LOADING_OPTION.fullmatch(word)
        if names_code and _is_code(word, directories):
            return False
        if loads is not None and loads[1] is not None and _is_code(loads[1], directories):
            return False
        if loads is None and not names_code and not _is_plain_option(word, directories):
            return False
        names_code = loads is not None and loads[1] is None
    return not names_code


def _is_plain_option(word: str, directories: tuple[str, ...]) -> bool:
    parts = re.split(r"[=:,;]", word)
    return all(
        _PLAIN_OPTION.fullmatch(part) or _PLAIN_WORD.fullmatch(part) or not _is_code(part, directories)
        for part in parts
    )
