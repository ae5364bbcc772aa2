"""Read-only commands: the files that each of them reads, as absolute paths.

Depends on `programs`, and on the disk for patterns of file names. Rules, modes and directories are in
`shell_verdict`, which judges the paths.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec import Struct

from teamwright.permissions.variable_assignments import COUNTS
from teamwright.shell_lines.command_words import word_set
from teamwright.shell_lines.matching_names import matching_names
from teamwright.shell_lines.parsed_line import ShellCommand
from teamwright.shell_lines.programs.file_reads import (
    MATCH_PLACEHOLDER,
    FilesRead,
    find_files_read,
    find_version_files,
)
from teamwright.shell_lines.programs.git import find_git_reads
from teamwright.shell_lines.step_limit import found_once, spend_steps
from teamwright.storage.files import read_plain
from teamwright.storage.real_paths import real_path

MAX_MATCHES = 1_000
"""The most file names of a pattern that is expanded."""

MAX_ENTRIES = 5_000
MAX_GIT_ENTRIES = 50_000
"""The most entries below a directory that is searched for links."""

MAX_LINKS = 100
"""The most links that are judged one by one."""


class CommandReads(Struct, frozen=True):
    """The reads of a command: absolute `paths` as named, `is_deep` with all files below them.

    `by_git`: git reads the repository's configuration.
    """

    paths: tuple[Path, ...]
    is_deep: bool = False
    by_git: bool = False


def prove_read_only(command: ShellCommand) -> CommandReads | None:
    """Return the reads of the command, or None when it may do more than read."""
    name = command.name
    if name is None or 0 in command.globs:
        return None
    name = os.path.basename(name) if os.path.dirname(name) in {"/bin", "/usr/bin"} else name
    if name in _WITH_ANY_WORDS:
        return _WITH_ANY_WORDS[name](command)
    words = _expand_each(command)
    if words is None:
        return None
    args = [text for texts, _ in words for text in texts]
    matches = tuple(text for texts, matched in words if matched for text in texts)
    empty = absolute_paths(
        command, tuple(_before_pattern(words[at - 1][0][0]) for at in command.globs if not words[at - 1][1])
    )
    if empty is None or any(match.startswith("-") for match in matches):
        return None
    if name == "git":
        return _read_by_git(command, args, (*matches, *map(str, empty)))
    found = find_files_read(name, args)
    if (
        matches
        and find_files_read(name, [text for texts, hit in words for text in ((MATCH_PLACEHOLDER,) if hit else texts)])
        is None
    ):
        return None  # the shell decides which of the names comes first
    paths = None if found is None else absolute_paths(command, (*found.paths, *matches))
    if found is None or paths is None or not _meets_conditions(command, found, paths):
        return None
    links = links_below(absolute_paths(command, found.follows_links_in) or ())
    return None if links is None else CommandReads((*paths, *links, *empty), found.is_deep)


def prints_version_only(command: ShellCommand) -> bool:
    """Return True for a call that only prints the version of a program where the program can write nothing."""
    words = [word for word in command.words if word is not None]
    found = find_version_files(words[0], words[1:]) if len(words) == len(command.words) > 0 else None
    return found is not None and not command.globs and _meets_conditions(command, found, ())


def _read_by_git(command: ShellCommand, args: list[str], matches: tuple[str, ...]) -> CommandReads | None:
    """Return the reads of git.

    A word that is a file here counts too, because git may compare files outside repositories. Each name that the shell
    finds for a pattern (`matches`) counts too, because git prints names that it does not know.
    """
    found = find_git_reads(args)
    here = None if found is None else absolute_paths(command, (found.directory,))
    listed = absolute_paths(command, matches)
    if found is None or here is None or listed is None:
        return None
    links = links_below(here, MAX_GIT_ENTRIES) if found.follows_links else []
    if links is None:
        return None
    named = [place / os.path.expanduser(word) for place in here for word in found.files]
    return CommandReads(
        (*here, *listed, *filter(os.path.isdir, links), *filter(os.path.lexists, named)), found.is_deep, by_git=True
    )


def _meets_conditions(command: ShellCommand, found: FilesRead, paths: tuple[Path, ...]) -> bool:
    """Return True when the conditions hold under which the program's reads are known."""
    if found.requires_plain_files and any(path.is_dir() for path in paths):
        return False
    if not found.chosen_by:
        return True
    return all(
        place is not None and not _is_above(place, found.chosen_by) and not _chooses_program(place)
        for place in command.directories
    )


_VERSION_FILES = word_set(
    ".python-version .ruby-version .node-version .java-version .go-version .perl-version .php-version .lua-version"
    " .terraform-version .rbenv-version .nodenv-version .jenv-version .pyenv-version"
)
"""Files by which the shims of pyenv, rbenv, nodenv, jenv, goenv and their relatives choose the program of a name."""

_VERSION = re.compile(rb"#?(?:[A-Za-z0-9+_-]+(?:\.[A-Za-z0-9+_-]+)*)?")
_MAX_VERSION_BYTES = 4_096


def _chooses_program(place: Path) -> bool:
    """Return True when a version file here or above says more than plain versions: a path there may be any program."""
    real = Path(real_path(place))
    files = (directory / name for directory in (real, *real.parents) for name in _VERSION_FILES)
    return any(os.path.lexists(file) and not _has_plain_versions(file) for file in files)


def _has_plain_versions(file: Path) -> bool:
    try:
        content = read_plain(file, _MAX_VERSION_BYTES)
    except OSError:
        return False
    return all(_VERSION.fullmatch(word) for word in content.split())


def links_below(directories: tuple[Path, ...], most: int = MAX_ENTRIES) -> list[Path] | None:
    """Return the links below these directories, which a command may follow; None when there are too many entries."""
    return found_once((links_below, directories, most), lambda: _search_links(directories, most))


def _search_links(directories: tuple[Path, ...], most: int) -> list[Path] | None:
    links: list[Path] = []
    left = most
    waiting = list(map(str, directories))
    while waiting and left > 0 and len(links) <= MAX_LINKS:
        entries = _entries(waiting.pop(), left)
        left -= len(entries)
        spend_steps(1 + len(entries))
        links += [Path(entry.path) for entry in entries if entry.is_symlink()]
        waiting += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    return links if left > 0 and len(links) <= MAX_LINKS else None


def _entries(directory: str, most: int) -> list[os.DirEntry[str]]:
    """Return at most `most` entries of a directory; none for a file or an unreadable directory."""
    try:
        with os.scandir(directory) as entries:
            return list(itertools.islice(entries, most))
    except OSError:
        return []


def _is_above(place: Path, names: tuple[str, ...]) -> bool:
    """Return True when one of these files or patterns is here or above. The person's own `~/.config` does not count."""
    real, home = Path(real_path(place)), Path(real_path(os.path.expanduser("~")))
    return any(
        any(directory.glob(name)) if "*" in name else os.path.lexists(directory / name)
        for directory in (real, *real.parents)
        for name in names
        if directory != home or not name.startswith(".config/")
    )


def expand_arguments(command: ShellCommand) -> list[str] | None:
    """Return the arguments of the program, with patterns replaced by matching names; None when they are not known."""
    words = _expand_each(command)
    return None if words is None else [text for texts, _ in words for text in texts]


def _expand_each(command: ShellCommand) -> list[tuple[list[str], bool]] | None:
    """Return for each argument its words, and if a pattern matched them; None when they are not known."""
    words: list[tuple[list[str], bool]] = []
    for at, word in enumerate(command.words[1:], 1):
        if word is None:
            return None
        names = _names(word, command) if at in command.globs else []
        if names is None:
            return None
        spend_steps(1 + len(names))
        words.append((names or [word], bool(names)))
    return words


def _names(pattern: str, command: ShellCommand) -> list[str] | None:
    """Return the file names that a pattern matches now; None when they cannot be known.

    A `?` is a character or a byte, depending on the shell's locale: both must match the same names.
    """
    if (
        len(command.directories) != 1
        or None in command.directories
        or "**" in pattern
        or any(part[:1] == "." and set(part) & set("*?") and fnmatchcase("..", part) for part in pattern.split("/"))
    ):
        return None
    place = str(next(iter(command.directories)))
    pattern = os.path.expanduser(pattern)
    found = matching_names(pattern, place, MAX_MATCHES)
    if found is None:
        return None
    if set(pattern) & set("?["):
        matched = matching_names(pattern, place, MAX_MATCHES, by_bytes=True)
        if matched is None or sorted(matched) != sorted(found):
            return None
    return sorted(found)


def absolute_paths(command: ShellCommand, paths: tuple[str, ...]) -> tuple[Path, ...] | None:
    """Return the paths for all possible working directories. Links and `..` are resolved by the file system."""
    found: list[Path] = []
    spend_steps(3 * len(paths) * len(command.directories))
    for path in paths:
        path = os.path.expanduser(path)
        for place in command.directories:
            if place is None and not path.startswith("/"):
                return None
            found.append(Path(os.path.join(place or "/", path)))
    return tuple(dict.fromkeys(found))


def _prove_echo(command: ShellCommand) -> CommandReads | None:
    """Prove a command that only prints its words. It reads the directories whose names a pattern prints.

    An unknown word without quotes may become a pattern, and print names of any directory.
    """
    anywhere = ["/" for at, word in enumerate(command.words) if word is None and not command.is_one_word(at)]
    listed = _listed_directories(command)
    found = None if listed is None else absolute_paths(command, tuple(dict.fromkeys((*anywhere, *listed))))
    return None if found is None else CommandReads(found)


def _listed_directories(command: ShellCommand) -> list[str] | None:
    """Return the directories whose names the command's patterns print; None when they cannot be known."""
    listed: list[str] = []
    for at in command.globs:
        word = command.words[at] or ""
        names = _names(word, command)
        if names is None:
            return None
        listed += [_before_pattern(word), *(os.path.dirname(name) or "." for name in names)]
    return listed


def _before_pattern(word: str) -> str:
    """Return the fixed directory of a pattern. The command also shows if it is empty."""
    fixed = re.split(r"[*?\[]", word, maxsplit=1)[0].rpartition("/")
    return fixed[0] + fixed[1] or "."


def _prove_printf(command: ShellCommand) -> CommandReads | None:
    ended = command.words[1:2] == ("--",)
    at = 2 if ended else 1
    text = command.words[at] if at < len(command.words) else ""
    if text is None or at in command.globs or (text.startswith("-") and not ended) or COUNTS.search(text):
        return None
    return _prove_echo(command)


_FILE_TESTS = word_set("-a -b -c -d -e -f -g -h -k -p -r -s -u -w -x -G -L -N -O -S")
_PAIR_TESTS = word_set("-nt -ot -ef")
_SIGNS = _FILE_TESTS | _PAIR_TESTS | word_set("-z -n -t -o = == != ! ( ) -eq -ne -lt -le -gt -ge < > =~ && ||")
_BEGIN_OPERAND = word_set("! ( -a -o && ||")


def _prove_test(command: ShellCommand) -> CommandReads | None:
    """Prove a test. It reads each word after a file operator; errors show names that are no operands."""
    words = list(command.words[1:])
    files = _listed_directories(command)
    if files is None:
        return None
    for at, word in enumerate(words):
        if word in {"]", "]]"} and at == len(words) - 1:
            break
        if word is not None and re.match(r"-[A-Za-z]", word) and word not in _SIGNS:
            return None
        pairs = words[at + 1 : at + 2] and words[at + 1] in _PAIR_TESTS
        hidden = at > 0 and words[at - 1] is None and word not in _SIGNS  # the word before may be a file operator
        if pairs or hidden or _is_file_test(words[:at]):
            if word is None or at + 1 in command.globs:
                return None
            files.append(word)
    found = absolute_paths(command, tuple(files))
    return None if found is None else CommandReads(found)


def _is_file_test(before: list[str | None]) -> bool:
    """Return True when the last of these words is a file operator; after an operand `-a` means "and"."""
    if not before or before[-1] != "-a":
        return bool(before) and (before[-1] in _FILE_TESTS or before[-1] in _PAIR_TESTS)
    return len(before) == 1 or before[-2] in _BEGIN_OPERAND


_WITH_ANY_WORDS: dict[str, Callable[[ShellCommand], CommandReads | None]] = {
    "echo": _prove_echo,
    ":": _prove_echo,
    "true": _prove_echo,
    "printf": _prove_printf,
    "test": _prove_test,
    "[": _prove_test,
    "[[": _prove_test,
}
"""Commands of which some words may be unknown."""
