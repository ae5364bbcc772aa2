"""Variables of a line whose names only the shell will know: they may lead git to another repository.

Depends on the contents of the line, and reads the files that it sources.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from teamwright.permissions.command_words import base_name, word_set
from teamwright.permissions.shell.parsed_line import ShellCommand
from teamwright.storage.read_bounded import read_plain

_DECLARES = word_set("export declare typeset local readonly")
_SETS = _DECLARES | word_set("read mapfile readarray getopts printf")
_SOURCES = frozenset({"source", "."})
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_MAX_SOURCED = 1_000_000
_SETS_MORE = re.compile(rb"GIT_|\beval\b|(^|[;&|\s])(source|\.)\s", re.MULTILINE)


def hides_variables(commands: Sequence[ShellCommand]) -> bool:
    """Return True when one of these commands may pass a variable that git obeys to later ones."""
    return any(_hides(command) for command in commands)


def _hides(command: ShellCommand) -> bool:
    name = base_name(command.words[0]) if command.words else None
    if name is None:
        return command.role == "run" and len(command.words) == 1  # `eval "$X"`
    if name in _SOURCES:
        return _sources_more(command)
    if name in _SETS and any(word is not None and "GIT_" in word for word in command.words[1:]):
        return True
    if name not in _DECLARES and name != "env":
        return False
    return any(word is None and not _is_plain(command, at) for at, word in enumerate(command.words))


def _is_plain(command: ShellCommand, at: int) -> bool:
    """Return True for an assignment of which only the value is unknown, to a variable that git does not obey."""
    if command.words[0] not in _DECLARES and not command.is_one_word(at):
        return False  # its value may become further assignments
    first = command.shape(at)[0]
    found = _PLAIN_NAME.match(first) if first is not None else None
    return found is not None and not found[0].startswith("GIT_")


def _sources_more(command: ShellCommand) -> bool:
    """Return True when a sourced file may set a variable of git, or cannot be read."""
    path = command.words[1] if len(command.words) > 1 else None
    if path is None or not command.directories:
        return True
    for place in command.directories:
        if place is None and not os.path.isabs(path):
            return True
        try:
            content = read_plain(Path(place or "/", os.path.expanduser(path)), _MAX_SOURCED)
        except FileNotFoundError:
            continue
        except (OSError, ValueError):
            return True
        if _SETS_MORE.search(content):
            return True
    return False
