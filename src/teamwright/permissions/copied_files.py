"""What `cp`, `mv` and similar programs write: names in a directory, and whole directories. Reads words and the disk."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

from teamwright.permissions.command_words import word_set
from teamwright.permissions.possible_files import Operand, glob_matches, option_values
from teamwright.permissions.shell.parsed_line import ShellCommand

_COPIERS = word_set("cp mv install ln rsync")
"""Programs that write their sources under the same names into a directory."""

_TREE_COPIERS = word_set("cp mv rsync")
"""Programs that copy a directory with everything below it."""


def copied_names(name: str, command: ShellCommand) -> Iterator[Operand]:
    """Yield the files that a copy makes in its target, if that is a directory when the command runs."""
    sources, target = _sources_and_target(name, command)
    exact = any(word and (word == "-T" or word.startswith("--no-t")) for word in command.words)
    for at in sources:
        yield from _copied(command, at, target, exact)


def copied_directories(name: str, command: ShellCommand) -> Iterator[tuple[Path, Path]]:
    """Yield the directories that are copied with everything below them, and each directory that may be their copy."""
    sources, target = _sources_and_target(name, command) if name in _TREE_COPIERS else ((), "")
    for at, place in itertools.product(sources, command.directories):
        word = os.path.expanduser(command.words[at] or "")
        if word and at not in command.globs and (place is not None or os.path.isabs(word)):
            source, goal = Path(place or "/", word), Path(place or "/", os.path.expanduser(target))
            yield from ((source, to) for to in (goal, goal / source.name) if source.is_dir())


def _sources_and_target(name: str, command: ShellCommand) -> tuple[list[int], str]:
    """Return the indexes of the words that a copy reads, and the word that it writes; none when it is not known."""
    given = [at for at in range(1, len(command.words)) if not (command.words[at] or "").startswith("-")]
    if name not in _COPIERS or not given:
        return [], ""
    named = [one.shape[0] for one in option_values("--target-directory", command)]
    named += [one.shape[0] for one in option_values("-t", command)] if name != "rsync" else []
    target = next((text for text in named if text), None)
    if target is None and len(given) > 1:
        target, given = command.shape(given[-1])[0], given[:-1]
    return (given, target) if target is not None else ([], "")


def _copied(command: ShellCommand, at: int, target: str, exact: bool) -> Iterator[Operand]:
    word = command.words[at]
    if word is None:
        return
    if at in command.globs:
        if glob_matches(command, at) in ([], [word]):  # an earlier command may make names that match
            yield Operand((target,), is_certain=True, new=os.path.basename(word))
        return
    if not exact:
        yield Operand((os.path.join(target, os.path.basename(word.rstrip("/"))),), is_certain=True)
    if any(word and word.startswith("--par") for word in command.words):
        yield Operand((os.path.join(target, word.lstrip("/")),), is_certain=True)
