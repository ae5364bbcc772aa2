"""The worktree in which an agent works: writes outside it are refused, and commits on its own branch need no question.

It applies in every mode, and no rule lifts it. Depends on git's syntax and on real paths; `worktree_context` moves an
agent's rules to its worktree.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from teamwright.git.repository import GitRepository, current_branch, discover
from teamwright.git.repository_refs import FileRefs
from teamwright.permissions.git_policy import is_known_subcommand, split_git_command
from teamwright.permissions.possible_file_names import base_directories, find_operands
from teamwright.permissions.shared_git_state import changes_shared_state
from teamwright.permissions.unknown_git_variables import hides_variables
from teamwright.permissions.verdict import Decision, Verdict
from teamwright.shell_lines.command_words import Words
from teamwright.shell_lines.parsed_line import ParsedLine, ShellCommand
from teamwright.storage.real_paths import is_process_link, real_path

_RULE = "worktree"
_HARMLESS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"})
_READS_FILES = frozenset({"source", "."})
"""Commands that read their operands, such as the environment of the checkout's Python."""

_GIT_VARIABLES = "GIT_"
_HARMLESS_GIT_VARIABLES = frozenset({"GIT_OPTIONAL_LOCKS", "GIT_TERMINAL_PROMPT", "GIT_PAGER", "GIT_EDITOR"})
_LOCATORS = ("--git-dir", "--work-tree", "--exec-path", "--namespace", "--bare")
_COMMIT_FLAGS = frozenset({"-a", "--all", "-q", "--quiet", "--amend", "--no-edit", "--allow-empty", "-v", "--verbose"})
_COMMIT_TEXTS = frozenset({"-m", "--message", "-am", "-qm", "-aqm", "-qam"})
_ADD_FLAGS = frozenset({"-A", "--all", "-u", "--update", "-v", "--verbose", "-n", "--dry-run", "--", "-N"})


class WorktreeBounds(Struct, frozen=True):
    """One worktree by real path, the checkout in which the session was started, and the worktree's own branch."""

    tree: Path
    checkout: Path
    branch: str

    def refusal(self, path: Path, also: Iterable[Path] = (), *, is_pathspec: bool = False) -> Decision | None:
        """Return the denial of a change to this path, by its real path; None when it is inside the worktree.

        `also` are directories outside that a person gave to all agents. `is_pathspec`: git changes files of its work
        tree that it finds by this path. So it keeps the worktree itself and its `.git`.
        """
        named = os.path.normpath(path)
        real = real_path(path)
        if real in _HARMLESS:
            return None
        if is_process_link(real):
            return self.refuse_unknown()
        inside = real.removeprefix(f"{self.tree}/").lower().split("/") if real.startswith(f"{self.tree}/") else []
        if real == str(self.tree):
            return None if is_pathspec else _deny(f"{named} is your worktree itself; name the files in it.")
        # A line that makes a `.git` could lead its own git commands to the person's repository.
        if ".git" in inside or inside[-1:] == ["commondir"]:
            return _deny(f"{named} belongs to git: change it with git's commands.")
        if any(real.startswith(f"{place}/") for place in (self.tree, *also)):
            return None
        if real.startswith(f"{self.checkout}/"):
            copy = self.tree / os.path.relpath(real, self.checkout)
            return _deny(f"{os.path.basename(named)} is outside your worktree; your copy of it is {copy}.")
        return _deny(f"{named} is outside your worktree {self.tree}, and you change files only inside it.")

    def original(self, path: Path) -> Path:
        """Return the path of the same file in the person's checkout, to which the paths of roles refer."""
        real = real_path(path)
        return self.checkout / os.path.relpath(real, self.tree) if f"{real}/".startswith(f"{self.tree}/") else path

    def refuse_unknown(self) -> Decision:
        """Return the question about a change to a file whose name only the shell knows."""
        return _ask("It changes a file that only the shell will know; write the name out.")

    def refuse_git(self, command: ShellCommand, variables: Iterable[str]) -> Decision | None:
        """Return the denial of a git command that works on another repository or work tree.

        `variables` are the names of variables that the line passes to programs.
        """
        git = split_git_command(command.words)
        if git is None:
            return None
        for name in (*command.variables, *variables):
            if name.startswith(_GIT_VARIABLES) and name not in _HARMLESS_GIT_VARIABLES:
                return _deny(f"{name} may make git change another repository; leave it out.")
        for word in _global_options(command.words, git):
            if word is not None and word.startswith(_LOCATORS):
                return _deny(f"{word.partition('=')[0]} may make git change another repository; leave it out.")
        for place in _directories(command):
            if place is None:
                return _ask("git works in a directory that only the shell will know.")
            found = discover(place).repository
            if found is None or not found.tree.is_relative_to(self.tree) or not self._is_git_dir(found):
                return _deny(f"git would work in {place}, which is outside your worktree {self.tree}.")
            if changes_shared_state(command.words, self.branch, FileRefs(found)):
                return _ask("It may change branches, tags or settings that you share with the person's checkout.")
        return None

    def _is_git_dir(self, found: GitRepository) -> bool:
        """Return True when the git directory is that of the worktree, or of a repository or submodule inside it."""
        if found.tree == self.tree:
            return found.belongs_to_tree
        own = discover(self.tree).repository
        modules = () if own is None else (own.git_dir / "modules",)
        return any(found.common.is_relative_to(one) for one in (self.tree, *modules))

    def ask_about_variables(self, parsed: ParsedLine, commands: Iterable[ShellCommand]) -> Decision | None:
        """Return the question about git commands in a line that sets variables which only the shell will know.

        `commands` are those that change something.
        """
        if not any(split_git_command(command.words) for command in commands):
            return None
        if any(
            name.startswith(_GIT_VARIABLES) and name not in _HARMLESS_GIT_VARIABLES
            for command in parsed.commands
            for name in command.variables
        ):
            return _ask("A variable may make git change another repository.")
        if hides_variables(parsed):
            return _ask("It may set a variable that leads git to another repository; write the commands out.")
        return None

    def ask_about_hidden_git(self, command: ShellCommand) -> Decision | None:
        """Return the question about a program that only the shell will know and that may be git."""
        if command.role not in {"run", "unsure"} or command.words[:1] != (None,):
            return None
        name = command.shape(0)[-1]
        if name is not None and "/" in name and not name.endswith("/git"):
            return None
        may_be_git = len(command.words) == 1 or any(
            word is None or is_known_subcommand(word) for word in command.words[1:]
        )
        return _ask("It runs a program that only the shell will know, and it may be git.") if may_be_git else None

    def ask_about_program(self, command: ShellCommand) -> Decision | None:
        """Return the question about a program without a proof that names a file of the person's checkout."""
        if command.words and command.words[0] in _READS_FILES:
            return None
        for place, operand in itertools.product(base_directories(command), find_operands(command)):
            text = operand.shape[0] if len(operand.shape) == 1 else None
            if text is None:
                continue
            path = os.path.join(place or "/", os.path.expanduser(text))
            real = real_path(path)
            if f"{real}/".startswith(f"{self.checkout}/") and not f"{real}/".startswith(f"{self.tree}/"):
                copy = self.tree / os.path.relpath(real, self.checkout)
                name = os.path.basename(command.words[0] or "it")
                return _ask(
                    f"{name} may change {os.path.normpath(path)} of the person's checkout; your copy is {copy}."
                )
        return None

    def allows_git(self, command: ShellCommand) -> bool:
        """Return True for a plain `git add` or `git commit` in this worktree on its own branch."""
        words = command.words
        if words[:1] != ("git",) or None in words or len(words) < 2 or command.variables:
            return False
        at = _subcommand(command)
        if any(word != "-C" for word in words[1:at:2]):
            return False
        places = _directories(command)
        if not places or any(place is None or not self._is_own(place) for place in places):
            return False
        rest = [str(word) for word in words[at + 1 :]]
        if words[at] == "add":
            return all(not word.startswith("-") or word in _ADD_FLAGS for word in rest)
        return words[at : at + 1] == ("commit",) and _is_plain_commit(rest)

    def _is_own(self, place: Path) -> bool:
        found = discover(place).repository
        return found is not None and found.tree == self.tree and current_branch(place) == self.branch


def _is_plain_commit(rest: list[str]) -> bool:
    """Return True when a commit reads no file, runs no editor and skips no hook."""
    has_text = False
    words = iter(rest)
    for word in words:
        if word in _COMMIT_TEXTS:
            has_text = next(words, None) is not None
        elif word.startswith("--message=") or word == "--no-edit":
            has_text = True
        elif word.startswith("-") and word not in _COMMIT_FLAGS:
            return False
    return has_text


def _global_options(words: Words, git: Words) -> Words:
    """Return the words between `git` and its subcommand; all words where that is hidden."""
    return words[1:] if git[1:2] == (None,) else words[1 : len(words) - len(git) + 1]


def _subcommand(command: ShellCommand) -> int:
    """Return the index of git's subcommand."""
    words = command.words
    at = 1
    while at < len(words) and (words[at] or "").startswith("-"):
        at += 2 if words[at] in {"-C", "-c", "--git-dir", "--work-tree", "--namespace"} else 1
    return at


def _directories(command: ShellCommand) -> list[Path | None]:
    """Return the directories in which git may work, by its options `-C`; None where only the shell knows one."""
    places = list(command.directories)
    words = command.words
    for at in range(1, min(_subcommand(command), len(words))):
        if words[at] == "-C":
            named = words[at + 1] if at + 1 < len(words) else None
            path = None if named is None else os.path.expanduser(named)
            places = [
                None if path is None or (place is None and not path.startswith("/")) else Path(place or "/", path)
                for place in places
            ]
    return places


def _ask(reason: str) -> Decision:
    return Decision(Verdict.ASK, _RULE, reason, needs_person=True)


def _deny(reason: str) -> Decision:
    return Decision(Verdict.DENY, _RULE, reason)
