"""Git calls of Teamwright itself: they run no program that an untrusted repository names.

A repository that could make git run a program (`git_entries`) is not read at all, unless a person trusted these
entries. In every other one the switches below, and those of `program_settings`, disable what a person's own
configuration makes git run. A clone of a repository that a person named uses the person's configuration, and runs no
hook, no filter and no submodule.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from teamwright.git.program_settings import UnclearSettings, person_switches
from teamwright.git.repository_risks import GitEntry, git_entries
from teamwright.processes.program_environment import find_program, own_variables

_SAFE_SETTINGS = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.pager": "cat",
    "core.editor": "false",
    "core.sshCommand": "false",
    "core.askPass": "",
    "core.alternateRefsCommand": "false",
    "credential.helper": "",
    "diff.external": "",
    "diff.submodule": "short",
    "gpg.program": "false",
    "gpg.openpgp.program": "false",
    "gpg.ssh.defaultKeyCommand": "",
    "gpg.ssh.program": "false",
    "gpg.x509.program": "false",
    "init.templateDir": "",
    "log.showSignature": "false",
    "protocol.allow": "never",
    "protocol.ext.allow": "never",
    "sequence.editor": "false",
    "status.submoduleSummary": "false",
    "submodule.recurse": "false",
}
_SAFE_SWITCHES = tuple(part for name, value in _SAFE_SETTINGS.items() for part in ("-c", f"{name}={value}"))

GIT_SAFE_ARGS = ("--no-pager", "--no-optional-locks", *_SAFE_SWITCHES)
"""Arguments between `git` and its command."""

_SAFE_DIFF = ("--no-ext-diff", "--no-textconv", "--ignore-submodules=all")
_WITH_DIFF = frozenset({"diff", "log", "show", "whatchanged", "diff-tree", "diff-index", "diff-files"})
_OPTIONS = {
    **dict.fromkeys(_WITH_DIFF, _SAFE_DIFF),
    **dict.fromkeys(("blame", "annotate", "grep"), ("--no-textconv",)),
    "status": ("--ignore-submodules=all",),
}
_KEPT_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "XDG_CONFIG_HOME")


class GitResult(Struct, frozen=True):
    """The outcome of a call of git. `ok` is exit code 0."""

    exit_code: int
    output: str
    errors: str

    @property
    def ok(self) -> bool:
        """True when git succeeded."""
        return self.exit_code == 0


def git_env(env: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of such a call: a few plain variables, none that configures git, and the safe PATH."""
    source = os.environ if env is None else env
    return {
        **own_variables({name: source[name] for name in _KEPT_VARIABLES if name in source}),
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_PAGER": "cat",
        "LC_ALL": "C.UTF-8",
    }


def git_program() -> str:
    """Return the path of git, found where no command can put a program; one that does not exist when there is none."""
    return find_program("git") or "/nonexistent/git"


def git_argv(*args: str) -> list[str]:
    """Return git, the safe options, and the command; commands that compare files get options that disable external
    programs."""
    command = args[0]
    rest = args[1:]
    return [git_program(), *GIT_SAFE_ARGS, command, *_OPTIONS.get(command, ()), *rest]


class GitState(Struct, frozen=True):
    """The commit that is checked out, and whether tracked files differ from it."""

    head: str
    dirty: bool


STATE_TIMEOUT_S = 0.15
"""Seconds after which the state of a large repository is left out."""


def read_state(cwd: Path) -> GitState | None:
    """Return the state of the repository; None before its first commit, and where git is missing or slow."""
    done = run_git(cwd, "status", "--porcelain=v2", "--branch", "-uno", timeout_s=STATE_TIMEOUT_S)
    first, *others = done.output.splitlines() or [""]
    head = first.removeprefix("# branch.oid ")
    if not done.ok or head in {first, "(initial)"}:
        return None
    return GitState(head, any(not line.startswith("#") for line in others))


NOT_CALLED = "git was not called"
"""The beginning of the error for a repository that could make git run a program."""

NO_ENTRIES: frozenset[GitEntry] = frozenset()
"""No trusted entries of a repository."""


class GitCallOptions(Struct, frozen=True):
    """The options of a call of git. `trusted` are entries of the repository that a person trusted.

    `switches` come after the safe ones and have precedence over them; `variables` are added to the environment.
    `text` is git's standard input. `exact`: bytes that are not UTF-8 stay as surrogates, for file names.
    """

    trusted: frozenset[GitEntry] = NO_ENTRIES
    switches: tuple[str, ...] = ()
    variables: Mapping[str, str] = {}
    text: str = ""
    exact: bool = False


def run_git(cwd: Path, *args: str, timeout_s: float = 10.0, terms: GitCallOptions | None = None) -> GitResult:
    """Run `git ARGS` in this directory. Exit code 128: the repository could make git run a program.

    Exit code 127: git is missing; 124: timeout after `timeout_s` seconds. Raises nothing.
    """
    terms = terms or GitCallOptions()
    entries = [entry for entry in git_entries(cwd) if entry not in terms.trusted]
    if entries:
        return GitResult(128, "", f"{NOT_CALLED}: {entries[0].name} ({entries[0].file})")
    safe = 1 + len(GIT_SAFE_ARGS)
    command = git_argv(*args)
    env = git_env()
    try:
        off = person_switches(cwd, env, timeout_s)
    except UnclearSettings as problem:
        return GitResult(problem.exit_code, "", str(problem))
    argv = [*command[:safe], *off, *terms.switches, *command[safe:]]
    env = {**env, **terms.variables}
    return _run(argv, cwd, env, timeout_s, terms.text, "surrogateescape" if terms.exact else "replace")


def _run(
    argv: list[str], cwd: Path, env: Mapping[str, str], timeout_s: float, text: str = "", errors: str = "replace"
) -> GitResult:
    try:
        # Bytes, because text has its line ends replaced: the name of a file may contain any of them.
        content = text.encode("utf-8", "surrogateescape")
        done = subprocess.run(
            argv, cwd=cwd, env=env, input=content, capture_output=True, check=False, timeout=timeout_s
        )
    except subprocess.TimeoutExpired:
        return GitResult(124, "", f"git did not end in {timeout_s:g} s")
    except OSError as problem:
        return GitResult(127, "", problem.strerror or str(problem))
    return GitResult(done.returncode, done.stdout.decode("utf-8", errors), done.stderr.decode("utf-8", errors))


TIMEOUT_S = 600.0
"""Seconds that a clone may take."""

_PROTOCOLS = "https:http:ssh:git:file"
_SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.symlinks": "true",
    "init.templateDir": "",
    "filter.lfs.smudge": "",
    "filter.lfs.process": "",
    "filter.lfs.required": "false",
    "submodule.recurse": "false",
}


class CloneFailed(Exception):
    """git did not deliver the repository or the commit. The text is git's own, in one line."""


class ClonedRepository(Struct, frozen=True):
    """A clone: its directory and the commit that is checked out."""

    path: Path
    commit: str


def clone_repository(address: str, ref: str, into: Path) -> ClonedRepository:
    """Clone a repository and check out a branch, tag or commit, its default branch without `ref`.

    Raises CloneFailed.
    """
    _git(into.parent, "clone", "--quiet", "--no-checkout", "--no-recurse-submodules", "--", address, str(into))
    commit = ""
    for name in (f"refs/remotes/origin/{ref}", f"refs/tags/{ref}", ref) if ref else ("HEAD",):
        try:
            commit = _git(into, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
            break
        except CloneFailed:
            continue
    if not commit:
        raise CloneFailed(f"there is no branch, tag or commit {ref[:80]!r}" if ref else "it has no commit")
    _git(into, "checkout", "--quiet", "--detach", commit)
    return ClonedRepository(into, commit)


def _git(cwd: Path, *args: str) -> str:
    switches = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
    env = own_variables({name: value for name, value in os.environ.items() if not name.startswith("GIT_")})
    env |= {"GIT_ALLOW_PROTOCOL": _PROTOCOLS, "LC_ALL": "C.UTF-8"}
    try:
        switches += person_switches(cwd, env, TIMEOUT_S)
    except UnclearSettings as problem:
        raise CloneFailed(str(problem)) from None
    done = _run([git_program(), *switches, *args], cwd, env, TIMEOUT_S)
    if not done.ok:
        raise CloneFailed(" ".join(done.errors.split())[-300:] or f"git {args[0]} failed")
    return done.output.strip()
