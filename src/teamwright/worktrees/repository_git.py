"""Git calls on one repository that has worktrees, with clear errors and a retry when another git holds a lock.

Depends on the safe git runner. Leaves the meaning of the commands to the callers.
"""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from teamwright.git.git_calls import NO_ENTRIES, NOT_CALLED, GitCallOptions, GitResult, run_git
from teamwright.git.program_settings import TEXT_MERGE
from teamwright.git.repository import common_dir, discover
from teamwright.git.repository_risks import git_entries
from teamwright.git.unsafe_config import FILES_OF, GitEntry
from teamwright.protocol.errors import CannotStart, WorktreeRefused

TIMEOUT_S = 120.0
"""Seconds for one call of git: a checkout of a large tree on a slow disk."""

TRIES = 8
"""Attempts of a call that fails because another git holds a lock file."""

USAGE_ERROR = 129
"""The exit code of a git that does not know an option."""

_BUSY = re.compile(
    r"(Unable to create|could not lock|cannot lock ref)[^\n]*(\.lock|File exists|is at)"
    r"|(failed to (read|stat)|could not (open|stat)|unable to read|cannot read|invalid path)[^\n]*worktrees/",
    re.IGNORECASE,
)
"""Messages of a git that met another one in the middle of its work: of a lock file, or of a half-made worktree."""

_MISSING_PROGRAM = re.compile(r"not found|No such file|cannot run|Permission denied|not executable", re.IGNORECASE)
"""Words of the reason why a program that git starts did not run."""

_NO_SIGNING = (
    "-c",
    "commit.gpgsign=false",
    "-c",
    "gc.auto=0",
    "-c",
    "maintenance.auto=false",
    "-c",
    "rerere.enabled=false",
    "-c",
    "merge.verifySignatures=false",
    "-c",
    "merge.ff=true",
)
"""Settings of a person for own commits that would stop the runtime's."""

_IDENTITY = {
    "GIT_AUTHOR_NAME": "Teamwright",
    "GIT_AUTHOR_EMAIL": "teamwright@localhost",
    "GIT_COMMITTER_NAME": "Teamwright",
    "GIT_COMMITTER_EMAIL": "teamwright@localhost",
}
"""The identity of commits by the runtime for a person without a configured one."""


class RepositoryGit(Struct, frozen=True):
    """Git in one repository. `tree` is the work tree of the person's checkout, `common` its shared git directory.

    `trusted` are entries of the repository's configuration that a person trusted.
    """

    tree: Path
    common: Path
    trusted: frozenset[GitEntry] = NO_ENTRIES

    @classmethod
    def open(cls, start: Path, trusted: frozenset[GitEntry] = NO_ENTRIES) -> RepositoryGit:
        """Return the repository of this directory. Raises CannotStart (`no-git`) outside a repository."""
        found = discover(start).repository
        if found is None:
            raise CannotStart(
                "no-git",
                f"a worktree needs a git repository, and {start} is in none",
                do=["git init && git add . && git commit", "leave isolation out"],
                note="nothing was started",
            )
        return cls(found.tree, common_dir(found.git_dir), trusted)

    @property
    def main_tree(self) -> Path:
        """The checkout that has the git directory, also when `tree` is a worktree."""
        return self.common.parent if self.common.name == ".git" else self.tree

    @property
    def project_filters(self) -> tuple[str, ...]:
        """The trusted filters, such as `filter.y`. They may run files of the work tree: another commit has others.

        A filter whose script did not exist when it was trusted counts too.
        """
        names = {entry.name.removeprefix(FILES_OF).rpartition(".")[0] for entry in self.trusted}
        return tuple(sorted(name for name in names if name.lower().startswith("filter.")))

    @property
    def _project_drivers(self) -> tuple[str, ...]:
        """The trusted merge drivers that run files of the work tree, such as `merge.y.driver`."""
        names = {entry.name.removeprefix(FILES_OF) for entry in self.trusted if entry.name.startswith(FILES_OF)}
        return tuple(sorted(name for name in names if name.lower().startswith("merge.")))

    def call(
        self,
        *args: str,
        cwd: Path | None = None,
        text: str = "",
        identity: bool = False,
        filters_off: bool = False,
        programs_off: bool = False,
    ) -> GitResult:
        """Run `git ARGS`, with an exact output, and return its result. A held lock of git is waited for.

        `filters_off`: no file that the command writes passes a filter. `programs_off`: files are not filtered when git
        reads them either, and are merged as text; for commands that go through several commits. `identity`: the
        command makes a commit; a person without a configured name gets Teamwright's. Raises CannotStart when git cannot
        be run at all.
        """
        where = self.tree if cwd is None else cwd
        variables: Mapping[str, str] = self.identity_variables(where) if identity else {}
        changed: dict[str, str] = {}
        for name in self.project_filters if filters_off or programs_off else ():
            changed |= {f"{name}.smudge": "", f"{name}.required": "false"}
            # An empty `process` would disable `clean` too: then git takes files that it has to compare for changed.
            if programs_off or any(entry.name.lower() == f"{name}.process".lower() for entry in self.trusted):
                changed |= {f"{name}.process": ""}
            if programs_off:
                changed |= {f"{name}.clean": ""}
        if programs_off:
            changed |= dict.fromkeys(self._project_drivers, TEXT_MERGE)
        off = tuple(part for name, value in changed.items() for part in ("-c", f"{name}={value}"))
        terms = GitCallOptions(self.trusted, (*_NO_SIGNING, *off), variables, text, exact=True)
        done = GitResult(128, "", "")
        for number in range(TRIES):
            done = run_git(where, *args, timeout_s=TIMEOUT_S, terms=terms)
            if done.ok or not _BUSY.search(done.errors):
                break
            time.sleep(0.02 * 2**number * (0.5 + random.random()))
        if done.exit_code in {124, 127} or done.errors.startswith(NOT_CALLED):
            raise git_error(args, done, where)
        return done

    def read(self, *args: str, cwd: Path | None = None, text: str = "", identity: bool = False) -> str:
        """Run `git ARGS` and return its output without the last newline. Raises WorktreeRefused when git fails."""
        done = self.call(*args, cwd=cwd, text=text, identity=identity)
        if not done.ok:
            raise git_error(args, done, self.tree if cwd is None else cwd)
        return done.output.rstrip("\n")

    def change_files(self, *args: str, cwd: Path | None = None, identity: bool = False) -> GitResult:
        """Run a command that moves a work tree without changes to other commits, and return its result.

        Filters run after it, so that those whose scripts it changed do not run. Such a change is undone. Raises
        CannotStart (`untrusted`) for it.
        """
        if not self.project_filters:
            return self.call(*args, cwd=cwd, identity=identity)
        tree = self.tree if cwd is None else cwd
        before = self.commit_of("HEAD", tree)
        self.read("reset", "--quiet", "--mixed", cwd=tree)  # compares files while the filters are on
        done = self.call(*args, cwd=tree, identity=identity, filters_off=True)
        scripts = [entry for entry in git_entries(tree) if entry.name.startswith(FILES_OF)]
        new = [entry for entry in scripts if entry not in self.trusted]
        unfiltered = replace(self, trusted=self.trusted | frozenset(new))  # its calls run none of them
        # Files with conflict markers stay as they are, unless the command is undone.
        names = (
            "diff-index",
            "--cached",
            "--name-only",
            "--no-renames",
            f"--diff-filter={'' if new else 'u'}",
            "-z",
            before,
        )
        changed = frozenset(split_paths(unfiltered.call(*names, cwd=tree, programs_off=True).output))
        if new:
            undo = unfiltered.call("reset", "--merge", "--quiet", before, cwd=tree, filters_off=True)
            if not undo.ok:
                raise git_error(("reset",), undo, tree)
        self.filter_files(tree, changed)
        if new:
            name = new[0].name.removeprefix(FILES_OF)
            file = new[0].file
            raise CannotStart(
                "untrusted",
                f"git {args[0]} would change what a program of git runs: the files of {name} ({file})",
                do=["look at the new files, run git merge yourself, then teamwright trust"],
                note="nothing was changed",
            )
        return done

    def filter_files(self, tree: Path, changed: frozenset[str] | None = None) -> None:
        """Run the filters that were off for a checkout, on these files or all files that have them.

        Its scripts are there now, so the calls compare them with what was trusted. Raises CannotStart (`untrusted`),
        and WorktreeRefused for a filter that fails. Then, as after a kill, the files are there without the filter: a
        missing one would be committed as deleted.
        """
        for name in self.project_filters:
            pattern = f":(attr:filter={name[len('filter.') :]})"
            listed = split_paths(self.read("ls-files", "-z", pattern, cwd=tree))
            found = [path for path in listed if (changed is None or path in changed) and (tree / path).is_file()]
            if not found:
                continue
            for path in found:  # git writes no file again that it takes for unchanged
                os.utime(tree / path, ns=(0, 0), follow_symlinks=False)
            args = ("checkout-index", "--force", "-u", "-z", "--stdin")
            names = "\0".join(found) + "\0"
            done = self.call(*args, cwd=tree, text=names)
            if not done.ok:
                self.call(*args, cwd=tree, text=names, filters_off=True)
                raise git_error(args, done, tree)

    def commit_of(self, name: str, cwd: Path | None = None) -> str:
        """Return the commit id of a name; empty when it names no commit."""
        done = self.call("rev-parse", "--verify", "-q", f"{name}^{{commit}}", cwd=cwd)
        return done.output.strip() if done.ok else ""

    def contains(self, ancestor: str, descendant: str) -> bool:
        """Return True when the second commit contains the first one."""
        return self.call("merge-base", "--is-ancestor", ancestor, descendant).exit_code == 0

    def delete_branch(self, branch: str, tip: str) -> None:
        """Delete a branch that is still at this commit. Raises WorktreeRefused when it moved."""
        self.read("update-ref", "-d", f"refs/heads/{branch}", tip)

    def forget_worktree(self, tree: Path) -> None:
        """Remove git's own files of a worktree whose directory is gone; harmless without one.

        `git worktree prune` would also forget worktrees of the person on a disk that is not mounted.
        """
        self.call("worktree", "remove", "--force", "--force", str(tree))

    def identity_variables(self, cwd: Path) -> Mapping[str, str]:
        """Return the variables with Teamwright's identity for a person without a configured one; else none."""
        terms = GitCallOptions(self.trusted, ("-c", "user.useConfigOnly=true"))
        done = run_git(cwd, "var", "GIT_COMMITTER_IDENT", terms=terms)
        return {} if done.ok else _IDENTITY


def split_paths(output: str) -> list[str]:
    """Return the paths of an output that git ends with NUL characters (`-z`)."""
    return [part for part in output.split("\0") if part]


def git_error(args: tuple[str, ...], done: GitResult, cwd: Path) -> WorktreeRefused | CannotStart:
    """Return the error for a failed git call, with git's own words."""
    output = done.errors.strip() or done.output.strip()
    if output.startswith(NOT_CALLED):
        return CannotStart(
            "untrusted",
            f"the repository could make git run a program, and is not trusted: {output.partition(': ')[2]}",
            do=["teamwright trust"],
            note="nothing was changed",
        )
    if done.exit_code == 127:
        return CannotStart("no-git", f"git could not be run: {output}", note="nothing was changed")
    command = next(arg for arg in args if not arg.startswith("-"))
    lines = [line for line in output.splitlines() if not line.startswith("hint:")] or [f"exit code {done.exit_code}"]
    begins = (line for begin in ("fatal:", "error:") for line in lines if line.startswith(begin))
    line = next(begins, lines[-1])
    # A program that git starts, such as git-lfs, says first why it cannot run; git's own line only says that it ended.
    cause = next((one for one in lines if one != line and _MISSING_PROGRAM.search(one)), "")
    return WorktreeRefused(
        "worktree-refused",
        f"git {command} failed: {f'{cause[:200]}; ' * bool(cause)}{line[:300]}",
        looked_at=[("directory", str(cwd)), ("command", f"git {' '.join(args)[:200]}")],
    )
