"""Whether git, called by a command that only reads, could run a program that the repository names.

Depends on `storage.repository.entries` for what a repository contains. Which of it a person trusts is in the scope.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from teamwright.permissions.manners import git_words
from teamwright.permissions.shell.parsed import Command
from teamwright.storage.repository.directory import Discovery, discover
from teamwright.storage.repository.entries import GitEntry, GitSurvey, survey_git

_MOST_SURVEYS = 64

_surveys: dict[Discovery, GitSurvey] = {}
"""What was found in repositories, for as long as their files are as they were."""


def git_doubt(command: Command, paths: Iterable[Path], trusted: frozenset[GitEntry]) -> str:
    """Why a git command that only reads must be asked about when it runs in these directories; empty if it need not."""
    for path in paths:
        found = discover(path)
        if found.repository is None and "diff" in (git_words(command.words) or ())[1:2]:
            return f"Outside a repository git diff compares any two files, and {path} is in none."
        doubt = next((entry for entry in _survey(found).entries if entry not in trusted), None)
        if doubt is not None:
            return f"git could run a program, or read elsewhere: {doubt.name} ({doubt.file}), which is not trusted."
    return ""


def _survey(found: Discovery) -> GitSurvey:
    known = _surveys.get(found)
    if known is not None and known.files.unchanged:
        return known
    while len(_surveys) >= _MOST_SURVEYS:
        _surveys.pop(next(iter(_surveys)))
    made = _surveys[found] = survey_git(found)
    return made
