"""Completions of the Tab key: commands at the start of a line, members and tracked files after `@`.

Depends on the table of commands, on sessions, and on git: a repository that git may not read, and a directory outside
git, have no tracked files here.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from msgspec import Struct

from teamwright.agent.plan_mode import describe_modes
from teamwright.git.git_calls import run_git
from teamwright.protocol.ids import LEAD, LEAD_ALIAS
from teamwright.session.agents.model_change import model_names
from teamwright.session.control.person_actions import member_names
from teamwright.session.options import missing_mentions
from teamwright.session.server_prompts import complete_argument
from teamwright.session.server_resources import complete_resource, find_mentions, resource_servers
from teamwright.session.session import Session
from teamwright.session.slash_command_call import list_commands
from teamwright.ui.display_text import clean
from teamwright.ui.terminal.line_parser import COMMANDS, FIXED_NAMES

MAX_FILES = 200_000
"""The most files that are searched."""

FRESH_S = 5.0
"""Seconds after which the list of files is read again."""

LIST_TIMEOUT_S = 3.0
"""The most seconds that git may take; a slower repository has no search."""

_NO_MATCH = 9


class TrackedFiles(Struct):
    """The tracked files below a directory, read when they are needed."""

    cwd: Path
    _paths: Sequence[str] = ()
    _read_at: float = float("-inf")

    async def paths(self) -> Sequence[str]:
        """Return the paths of the files, relative to the directory. Raises nothing."""
        if time.monotonic() - self._read_at > FRESH_S:
            self._paths = await asyncio.to_thread(_tracked_paths, self.cwd)
            self._read_at = time.monotonic()
        return self._paths


def _tracked_paths(cwd: Path) -> list[str]:
    done = run_git(cwd, "ls-files", "-z", timeout_s=LIST_TIMEOUT_S)
    return [path for path in done.output.split("\0")[:MAX_FILES] if path] if done.ok else []


def best_matches(paths: Iterable[str], word: str, most: int) -> list[str]:
    """Return the paths that contain the characters of the word in this order, the best first.

    A file name that begins with the word is better than one that contains it, and that is better than a path.
    """
    pattern = word.lower()
    found = [(rank, len(path), path) for path in paths if (rank := _rank(path.lower(), pattern)) < _NO_MATCH]
    return [path for _, _, path in sorted(found) if clean(path) == path][:most]


def _rank(path: str, word: str) -> int:
    name = path.rpartition("/")[2]
    if name.startswith(word):
        return 0
    if word in name:
        return 1
    if word in path:
        return 2
    if _is_subsequence(word, name):
        return 3
    return 4 if _is_subsequence(word, path) else _NO_MATCH


def _is_subsequence(word: str, text: str) -> bool:
    rest = iter(text)
    return all(char in rest for char in word)


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


MAX_MISSING = 3
"""The most missing files that are named."""


class SessionCompletion(Struct):
    """The completions of one session."""

    session: Session
    files: TrackedFiles

    async def complete(self, text_before: str) -> list[Candidate]:
        """Return the completions for the text before the cursor. Files are listed in a thread."""
        is_command = text_before.startswith("/")
        custom = [(one.name, one.about) for one in list_commands(self.session)] if is_command else []
        tracked = await self.files.paths() if mentioned_path(text_before) else ()
        members = member_names(self.session)
        cwd = self.session.agent_factory.work_directory
        found = await asyncio.to_thread(candidates, text_before, members, cwd, custom, tracked)
        return [*await self._of_servers(text_before), *found]

    async def _of_servers(self, text_before: str) -> list[Candidate]:
        """Return resources of MCP servers after `@`, and values for the argument of a server's prompt."""
        if word := mentioned_path(text_before):
            names = [f"{name}:" for name in resource_servers(self.session) if name.startswith(word)]
            uris = await complete_resource(self.session, word)
            return [Candidate(f"@{clean(one)}", len(word) + 1, "resource") for one in [*names, *uris][:MAX_CANDIDATES]]
        name, *words = text_before.split(" ")
        if not words or not name.startswith("/"):
            return []
        values = await complete_argument(self.session, name, words)
        return [Candidate(clean(one), len(words[-1]), "value") for one in values[:MAX_CANDIDATES]]

    async def missing_file_lines(self, prompt: str) -> list[str]:
        """Return a line for each file that the prompt mentions and that does not exist."""
        names = {LEAD, LEAD_ALIAS, *(name.lower() for name in member_names(self.session))}
        cwd = self.session.agent_factory.work_directory
        names |= {f"{server}:{uri}".lower() for server, uri in find_mentions(self.session, prompt)}
        missing = [name for name in missing_mentions(prompt, cwd) if name.lower() not in names][:MAX_MISSING]
        tracked = await self.files.paths() if missing else ()
        return [self._missing_line(name, tracked) for name in missing]

    def _missing_line(self, name: str, tracked: Sequence[str]) -> str:
        base = name.rstrip("/").rpartition("/")[2].lower()
        same = [path for path in tracked if path.lower().rpartition("/")[2] == base]
        close = f"; did you mean @{same[0]}?" if len(same) == 1 and clean(same[0]) == same[0] else ""
        return f"  there is no file {clean(name)}: the prompt was sent without it{close}"
