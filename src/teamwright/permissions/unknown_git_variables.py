"""Variables of a line whose names only the shell will know: they may lead git to another repository.

Depends on the contents of the line, and reads the files that it sources.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from teamwright.permissions.possible_file_names import HARMLESS_FILES
from teamwright.permissions.read_only_commands import prove_read_only
from teamwright.shell_lines.command_words import base_name, word_set
from teamwright.shell_lines.parsed_line import ParsedLine, ShellCommand
from teamwright.storage.files import read_plain

_DECLARES = word_set("export declare typeset local readonly")
_SETS = _DECLARES | word_set("read mapfile readarray getopts printf")
_SOURCES = frozenset({"source", "."})
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_NAME_REFERENCE = re.compile(r"-[a-zA-Z]*n")
_MAX_SOURCED = 1_000_000
_SETS_MORE = re.compile(
    rb"GIT_|\beval\b|(^|[;&|({\s])("
    rb"(source|\.)\s|(declare|typeset|local)\s+-[a-zA-Z]*n"
    rb"|(export|declare|typeset|readonly|local|read|printf\s+-v)\s+([^\n]*\s)?[^\s=]*[$`])",
    re.MULTILINE,
)
"""Text of a sourced file that names a variable of git, or sets one whose name only the shell will know."""


def hides_variables(parsed: ParsedLine) -> bool:
    """Return True when a command of the line may pass a variable that git obeys to later ones."""
    writes = any(one.writes and one.target not in HARMLESS_FILES for one in parsed.redirects)
    for command in parsed.commands:
        if _hides(command) or (writes and _is_source(command)):
            return True
        # What an earlier command writes may be what a later one sources.
        writes = writes or (command.role in {"run", "unsure"} and prove_read_only(command) is None)
    return False


def _is_source(command: ShellCommand) -> bool:
    return bool(command.words) and command.words[0] in _SOURCES


def _hides(command: ShellCommand) -> bool:
    name = base_name(command.words[0]) if command.words else None
    if name is None:
        return command.role == "run" and len(command.words) == 1  # `eval "$X"`
    if _is_source(command):
        return _sources_more(command)
    if name in _SETS and any(word is not None and "GIT_" in word for word in command.words[1:]):
        return True
    if name not in _DECLARES and name != "env":
        return False
    if name in _DECLARES and None in command.words and any(map(_NAME_REFERENCE.match, filter(None, command.words))):
        return True
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
        except (OSError, ValueError):  # a missing file may be made by an earlier command
            return True
        if _SETS_MORE.search(content):
            return True
    return False
