"""The working directory after `cd`, and the names that a pattern matches there. Read-only."""

from __future__ import annotations

import glob
import itertools
import os
from collections.abc import Iterable
from pathlib import Path

from teamwright.permissions.command_words import Words, word_set
from teamwright.permissions.real_paths import real_path
from teamwright.permissions.shell.parsed_line import ShellCommand
from teamwright.permissions.shell.shell_variables import ShellVariables

DIRECTORY_COMMANDS = word_set("cd pushd popd")
"""Builtins that change the directory."""

_PREFIXES = word_set("command builtin noglob nocorrect time -")
"""Words before a builtin that run it in the same shell."""

MAX_NAMES = 200
"""The most file names of one pattern that are followed one by one."""

MAX_WILD_PARTS = 3
"""The most directories of a path that may be patterns; more would take long to search."""


def without_prefixes(words: Words) -> Words:
    """Return the words of a command without `command`, `builtin` and the like, and their options, before it."""
    while words and words[0] in _PREFIXES:
        words = words[1:]
        while words and words[0] is not None and words[0].startswith("-"):
            words = words[1:]
    return words


def has_directory_command(commands: Iterable[ShellCommand]) -> bool:
    """Return True when one of these commands may change the directory."""
    return any(command.name in DIRECTORY_COMMANDS for command in commands)


def directory_after(place: Path | None, words: Words, values: ShellVariables) -> Path | None:
    """Return the directory after `cd`, by name as in the shell, not by real path. None when it is not certain."""
    targets = [word for word in words[1:] if word != "--"]
    if words[0] != "cd" or len(targets) > 1 or not values.home:
        return None
    target = targets[0] if targets else "~"
    if target is None or target.startswith(("-", "+")) or not target:
        return None
    if target.startswith("~"):
        target = values.home + target[1:]
    if not target.startswith("/") and (place is None or _is_uncertain(target, values)):
        return None
    whole = os.path.join(place or "/", target)
    found = os.path.normpath(whole)
    if ".." in target.split("/") and real_path(found) != real_path(whole):
        return None  # shells that follow links first reach another directory
    return Path(found)


def _is_uncertain(target: str, values: ShellVariables) -> bool:
    """Return True when a relative directory may be found in other directories, or be the name of a variable."""
    if target.split("/")[0] in {".", ".."}:
        return False
    searches = "CDPATH" in os.environ or values.is_set("CDPATH") or values.is_set("cdpath")
    return searches or values.is_set(target)


def glob_names(pattern: str, place: Path | None) -> list[str] | None:
    """Return the words that bash makes of a pattern in this directory; None when they are too many or not certain."""
    if (place is None and not pattern.startswith(("/", "~"))) or "**" in pattern:
        return None
    if sum(glob.has_magic(part) for part in pattern.split("/")) > MAX_WILD_PARTS:
        return None
    whole = os.path.expanduser(pattern)
    found = list(itertools.islice(glob.iglob(whole, root_dir=place), MAX_NAMES + 1))
    return (sorted(found) or [whole]) if len(found) <= MAX_NAMES else None
