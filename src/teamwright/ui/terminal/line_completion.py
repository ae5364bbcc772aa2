"""Completions of the Tab key: commands at the start of a line, members and files after `@`.

Depends on the table of commands, and lists one directory. The caller reads the tracked files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from msgspec import Struct

from teamwright.protocol.ids import LEAD_ALIAS
from teamwright.session.change_model import model_names
from teamwright.session.modes import describe_modes
from teamwright.ui.display_text import clean
from teamwright.ui.terminal.file_search import best_matches
from teamwright.ui.terminal.line_parser import COMMANDS, FIXED_NAMES

MAX_CANDIDATES = 50
"""The maximum number of suggested files."""

_MAX_ENTRIES = 5_000
_MENTION = re.compile(r"(?:^|(?<=\s))@(\S*)$")
_NAMED_ARGUMENT = re.compile(r"/(?:stop|interrupt|hide|show|view)\s+(\S*)$")
_COMPACT_ARGUMENT = re.compile(r"/(?:compact|context)\s+(@\S*)$")
_MODEL_ARGUMENT = re.compile(r"/model\s+(?:\S+\s+)?(\S*)$")
_MODE_ARGUMENT = re.compile(r"/mode\s+(?:\S+\s+)?(\S*)$")


class Candidate(Struct, frozen=True):
    """A completion: `text` replaces the last `length` characters before the cursor."""

    text: str
    length: int
    about: str = ""


def candidates(
    text_before: str,
    members: Sequence[str],
    cwd: Path,
    custom_commands: Sequence[tuple[str, str]] = (),
    tracked_files: Iterable[str] = (),
) -> list[Candidate]:
    """Return the completions for the text before the cursor. `custom_commands` are names with their descriptions.

    After `@` come the entries of one directory, then the tracked files that match the word.
    """
    if text_before.startswith("/") and not text_before[1:].isspace() and " " not in text_before:
        custom = {name.lower(): (name, about) for name, about in custom_commands if name.lower() not in FIXED_NAMES}
        named = ((usage.split()[0], about) for usage, about in COMMANDS.items())
        known = [*(one for one in named if one[0] not in custom), *custom.values()]
        return [
            Candidate(name, len(text_before), clean(about))
            for name, about in known
            if _matches_command(name, text_before)
        ][:MAX_CANDIDATES]
    if found := _NAMED_ARGUMENT.fullmatch(text_before):
        return [Candidate(one, len(found[1]), "member") for one in _with_prefix(members, found[1])]
    if found := _COMPACT_ARGUMENT.fullmatch(text_before):
        return [Candidate(f"@{one} ", len(found[1]), "member") for one in _with_prefix(members, found[1][1:])]
    if found := _MODE_ARGUMENT.fullmatch(text_before):
        return _value_candidates(found[1], members, describe_modes())
    if found := _MODEL_ARGUMENT.fullmatch(text_before):
        return _value_candidates(found[1], members, [(name, "model") for name in model_names()])
    if found := _MENTION.search(text_before):
        word = found[1]
        # Only the first word of a line can be an address.
        named = _with_prefix([LEAD_ALIAS, *members], word) if found.start() == 0 else []
        people = [Candidate(f"@{one} ", len(word) + 1, "member") for one in named]
        here = _matching_paths(word, cwd)
        deeper = best_matches(tracked_files, word, MAX_CANDIDATES) if word else []
        paths = list(dict.fromkeys([*here, *deeper]))[:MAX_CANDIDATES]
        return people + [Candidate(_mention(path), len(word) + 1, "file") for path in paths]
    return []


def mentioned_path(text_before: str) -> str:
    """Return the beginning of a path after the last `@`; empty without one."""
    found = _MENTION.search(text_before)
    return found[1] if found else ""


def _mention(path: str) -> str:
    return f'@"{path}"' if " " in path else f"@{path}"


def _matches_command(name: str, word: str) -> bool:
    """Return True when the command starts with `word`, with or without its namespace."""
    prefix, plain = word.lower(), name.lower()
    return plain.startswith(prefix) or f"/{plain.rpartition(':')[2]}".startswith(prefix)


def _value_candidates(word: str, members: Sequence[str], values: Sequence[tuple[str, str]]) -> list[Candidate]:
    """Return values with their meanings, and after `@` the members they can be for."""
    if word.startswith("@"):
        return [Candidate(f"@{one}", len(word), "member") for one in _with_prefix([LEAD_ALIAS, *members], word[1:])]
    return [Candidate(name, len(word), about) for name, about in values if name.lower().startswith(word.lower())]


def _with_prefix(names: Sequence[str], word: str) -> list[str]:
    return [name for name in names if name.lower().startswith(word.lower())]


def _matching_paths(word: str, cwd: Path) -> list[str]:
    """Return the entries of the directory that the word names; hidden ones only after a dot."""
    head, _, start = word.rpartition("/")
    prefix = f"{head}/" if head or word.startswith("/") else ""
    directory = cwd / os.path.expanduser(prefix or ".")
    found = sorted(_matching_entries(directory, start))[:MAX_CANDIDATES]
    return [f"{prefix}{name}" for name in found]


def _matching_entries(directory: Path, start: str) -> Iterator[str]:
    for entry in _entries(directory):
        hidden = entry.name.startswith(".") and not start.startswith(".")
        if entry.name.startswith(start) and not hidden and clean(entry.name) == entry.name:
            yield entry.name + ("/" if entry.is_dir() else "")


def _entries(directory: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(islice(entries, _MAX_ENTRIES))
    except OSError:
        return []
