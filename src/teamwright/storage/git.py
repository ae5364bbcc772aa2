"""Our own calls of git: only reading, and never running what a repository tells git to run.

No fsmonitor, no hooks, no textconv, no external diff, no signature program, no optional locks, no prompt. Knows no
trust: with these arguments it does not matter who made the repository.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from teamwright.protocol.values import dataclass
from teamwright.storage.gitdir import running_entries
from teamwright.storage.processes.process import run_argv

GIT_SAFE_ARGS = (
    "--no-pager",
    "--no-optional-locks",
    "-c",
    "core.fsmonitor=false",
    "-c",
    f"core.hooksPath={os.devnull}",
    "-c",
    "diff.external=",
    "-c",
    "log.showSignature=false",
    "-c",
    "gpg.program=false",
    "-c",
    "submodule.recurse=false",
    "-c",
    "protocol.allow=never",
    "-c",
    "credential.helper=",
)
"""Put between `git` and its command, before anything else."""

_SAFE_DIFF = ("--no-ext-diff", "--no-textconv")
_WITH_DIFF = frozenset({"diff", "log", "show", "whatchanged", "diff-tree", "diff-index", "diff-files"})
_TEXTCONV_ONLY = frozenset({"blame", "annotate", "grep"})
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "XDG_CONFIG_HOME")


@dataclass(frozen=True, slots=True)
class GitResult:
    """How a call of git went. `ok` is exit code 0 in time."""

    exit_code: int
    output: str
    errors: str
    timed_out: bool = False

    @property
    def ok(self) -> bool:
        """Whether git said yes."""
        return self.exit_code == 0 and not self.timed_out


def git_env(env: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of such a call: a few plain variables of ours, and nothing that steers git."""
    given = os.environ if env is None else env
    return {
        **{name: given[name] for name in _KEPT if name in given},
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_PAGER": "cat",
        "GIT_CONFIG_NOSYSTEM": "1",
        "LC_ALL": "C.UTF-8",
    }


def git_argv(*args: str) -> list[str]:
    """`git`, the safe options, the command; commands that show differences get what keeps programs out of them."""
    command, rest = args[0], args[1:]
    safe: tuple[str, ...] = ()
    if command in _WITH_DIFF:
        safe = _SAFE_DIFF
    elif command in _TEXTCONV_ONLY:
        safe = ("--no-textconv",)
    return ["git", *GIT_SAFE_ARGS, command, *safe, *rest]


async def git(cwd: Path, *args: str, timeout_s: float = 10.0) -> GitResult:
    """Run `git ARGS` in this directory. A missing git is exit code 127, never an exception."""
    argv = git_argv(*args)
    # a repository's clean filter would run when its files are compared: an empty one is none
    filters = [name for _, name in running_entries(cwd) if name.startswith("filter.")]
    argv[1:1] = [part for name in filters for part in ("-c", f"{name}=")]
    try:
        outcome = await run_argv(argv, cwd, git_env(), timeout_s=timeout_s)
    except OSError as problem:
        return GitResult(127, "", problem.strerror or str(problem))
    return GitResult(outcome.exit_code, outcome.output, outcome.errors, outcome.timed_out)
