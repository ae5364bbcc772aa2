"""Files that a git command shows: those that it names, and those that it may show without naming them.

A word may be a path, a commit's path (`HEAD:a.py`), a pathspec with signs (`:(top)a.py`) or a commit; a possible path
counts as one. Depends on git's syntax and on where a work tree begins.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from teamwright.git.program_settings import person_entries, person_environment
from teamwright.git.repository import Discovery, discover, possible_trees
from teamwright.git.repository_risks import GitEntry, GitSurvey, survey_git
from teamwright.permissions.decision_context import PermissionScope
from teamwright.permissions.git_policy import split_git_command
from teamwright.permissions.possible_file_names import Operand
from teamwright.permissions.read_only_commands import expand_arguments
from teamwright.shell_lines.parsed_line import ShellCommand
from teamwright.shell_lines.programs.git import shows_contents
from teamwright.shell_lines.step_limit import spend_steps
from teamwright.storage.real_paths import real_path

_MAX_SURVEYS = 64

_surveys: dict[Discovery, GitSurvey] = {}
"""Surveys of repositories, valid while their files do not change."""


def explain_git_doubt(command: ShellCommand, paths: Iterable[Path], trusted: frozenset[GitEntry]) -> str:
    """Return the reason to ask about a read-only git command in these directories; empty when there is none."""
    for path in paths:
        found = discover(path)
        if own := explain_own_settings(path, trusted):
            return own
        if found.repository is None and "diff" in (split_git_command(command.words) or ())[1:2]:
            return f"Outside a repository git diff compares any two files, and {path} is in none."
        doubt = next((entry for entry in _survey(found).entries if entry not in trusted), None)
        if doubt is not None:
            return f"git could run a program, or read other files: {doubt.name} ({doubt.file}), which is not trusted."
    return ""


def explain_own_settings(path: Path, trusted: frozenset[GitEntry]) -> str:
    """Return the reason to ask about a git command in this directory: a setting of the person by which git runs code of
    the project. Empty when there is none.
    """
    if not os.path.isdir(path):
        return ""
    entries = person_entries(path, person_environment(os.environ))
    doubt = next((entry for entry in entries if entry not in trusted), None)
    if doubt is None:
        return ""
    return f"Your git setting {doubt.name} ({doubt.file}) runs a program of this project, which is not trusted."


def explain_other_repository(command: ShellCommand, scope: PermissionScope) -> str:
    """Return the reason to ask about a git command that a rule allows, outside the repository of the scope.

    A rule for a command trusts the repository in which a person works. Another repository below it can come with
    anything, and its configuration can name a program. Empty when there is no such reason.
    """
    if split_git_command(command.words) is None:
        return ""
    own = discover(scope.base).repository
    for place in _bases(command):
        if place is None:
            return "git could run in another repository, because the directory is not known."
        found = discover(Path(place)).repository
        is_other = found is not None and (own is None or found.common != own.common)
        if is_other and (doubt := explain_git_doubt(command, [Path(place)], scope.trusted_git)):
            return doubt
    return ""


def _bases(command: ShellCommand) -> list[str | None]:
    """Return the directories in which git runs, with its options `-C`; None for one that is not known."""
    git = split_git_command(command.words) or ()
    before = command.words[1 : len(command.words) - len(git[1:])]
    directory: str | None = ""
    for option, value in itertools.pairwise(before):
        if option == "-C":
            directory = None if value is None or directory is None else os.path.join(directory, value)
    return [
        None if place is None or directory is None else os.path.join(place, directory) for place in command.directories
    ]


def _survey(found: Discovery) -> GitSurvey:
    known = _surveys.get(found)
    if known is not None and known.files.are_unchanged:
        return known
    while len(_surveys) >= _MAX_SURVEYS:
        _surveys.pop(next(iter(_surveys)))
    survey = _surveys[found] = survey_git(found)
    return survey


_EXCLUDES = re.compile(r":[!^]|:\([^)]*exclude[^)]*\)")
_MATCHES_MANY = re.compile(r":(?![!^]|\([^)]*exclude[^)]*\))|[^:]*[*?\[]")
_CHANGES = frozenset({"diff", "show", "log", "whatchanged"})
_COMMITS_FIRST = _CHANGES | {"reflog", "stash", "status"}
_MAX_PARTS = 8


def named_files(command: ShellCommand) -> Iterator[Path]:
    """Yield the files that it may show because its words name them; none for a command that shows no contents."""
    found = _subcommand(command)
    if found is None:
        return
    name, rest, bases = found
    until = rest.index("--") if "--" in rest else len(rest)
    for at, word in enumerate(rest):
        # These take a word before `--` for a file only if it exists.
        there = at < until and name in _COMMITS_FIRST
        for text, base in itertools.product(_texts(word), bases):
            spend_steps(5)
            path = os.path.join(base, text)
            if text is not word or not there or os.path.lexists(path):
                yield Path(path)


def unknown_operands(command: ShellCommand) -> Iterator[Operand]:
    """Yield its unknown words if it shows contents of files.

    After `--`, after a colon and for `blame` such a word is certainly a path; otherwise it may be a commit.
    """
    git = split_git_command(command.words)
    if git is None or len(git) < 2 or git[1] is None:
        return
    if not shows_contents(git[1], [word for word in git[2:] if word is not None]):
        return
    certain = git[1] in {"blame", "annotate"}
    for at in range(len(command.words) - len(git) + 2, len(command.words)):
        certain = certain or command.words[at] == "--"
        if command.words[at] is None:
            first, *rest = command.shape(at)
            _, colon, path = (first or "").rpartition(":")
            yield Operand((path or None, *rest) if colon else (first, *rest), certain or bool(colon))


def shows_changes_plainly(command: ShellCommand) -> bool:
    """Return True when it shows changes and its paths are literal: no pattern, and no sign except for exclusion."""
    found = _subcommand(command)
    if found is None or found[0] not in _CHANGES:
        return False
    return not any(word[:1] != "-" and _MATCHES_MANY.match(word) for word in found[1])


def shown_work_trees(paths: tuple[Path, ...]) -> set[str]:
    """Return the real paths of the work trees that git shows in these directories, always whole work trees."""
    return {str(tree) for path in paths for tree in possible_trees(path) or [Path(real_path(path))]}


def _subcommand(command: ShellCommand) -> tuple[str, list[str], list[str]] | None:
    """Return the subcommand, its known words, and the directories in which they may be paths."""
    if split_git_command(command.words) is None:
        return None
    args = expand_arguments(command)
    words = command.words if args is None else (command.words[0], *args)
    git = split_git_command(words)
    name = git[1] if git is not None and len(git) > 1 else None
    if git is None or name is None:
        return None
    rest = [word for word in git[2:] if word is not None]
    if not shows_contents(name, rest):
        return None
    directory = ""
    before = words[1 : len(words) - len(git[2:])]
    for option, value in itertools.pairwise(before):
        if option == "-C":
            directory = os.path.join(directory, value or "")
    bases = [os.path.join(place, directory) for place in command.directories if place is not None]
    return name, rest, [*bases, *(str(top) for base in bases for top in possible_trees(Path(base)))]


def _texts(word: str) -> Iterator[str]:
    """Yield the parts of a word that may be a path: all of it, an option's value, the part after a commit or a sign."""
    if _EXCLUDES.match(word):
        return
    yield word
    ends = [found.end() for found in re.finditer(r"[:)=]", word)][:_MAX_PARTS]
    for part in (word[end:] for end in ends):
        yield from (text for text in (part, part.lstrip("/")) if text)
