"""Commands that only change files (mkdir, touch, cp, mv), with every path that they would read and write.

Modes that accept edits judge these paths like those of the edit tools. Depends on words and on the disk's present
state.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from teamwright.permissions.possible_file_names import Operand, glob_matches, option_values
from teamwright.permissions.read_only_commands import absolute_paths, expand_arguments
from teamwright.shell_lines.command_words import word_set
from teamwright.shell_lines.parsed_line import ShellCommand
from teamwright.shell_lines.programs.file_reads import names_time_zone
from teamwright.shell_lines.programs.options import parse_arguments, parse_grammar
from teamwright.shell_lines.work_bound import found_once, spend_steps
from teamwright.storage.real_paths import real_path

MAX_FILES = 500
"""The most files in a copy or move that is examined."""


class FileChanges(Struct, frozen=True):
    """The absolute paths that a command reads and writes.

    `sources` are those that it copies or moves with everything below them. `must_be_last`: nothing may run after it or
    beside it in its line. Moved or copied files may include links, so that paths judged before mean something else
    after it. A file with an odd name would be an option where a pattern of the line matches it.
    """

    reads: tuple[Path, ...]
    writes: tuple[Path, ...]
    must_be_last: bool = False
    sources: tuple[Path, ...] = ()

    def may_copy(self, changed: Iterable[Path]) -> bool:
        """Return True when one of these changed paths is below a source, whose files are then not known."""
        tops = tuple(f"{real_path(source).rstrip('/')}/" for source in self.sources)
        return any(real_path(path).startswith(tops) for path in changed)


_GRAMMARS = {
    "mkdir": "FILES -p -v -m= --parents --verbose --mode=",
    "touch": "FILES -a -c -m -d= -t= -r=FILE --no-create --date= --reference=FILE",
    "cp": "FILES -r -R -a -p -v -n -f -i -u -d -P -T",
    "mv": "FILES -v -n -f -i -u -T",
}


_ODD_NAME = re.compile(r"(^|/)[^\w./~]")
_CONTENTS = re.compile(r"/\.?$")
_JOINED = re.compile(r"&&|\|\||\d?[<>]&\d?-?|&>>?")
_CONCURRENT = re.compile(r"[&|()`]|\{\s|\b(?:for|while|until|select|case|coproc|function|eval|trap)\b")


def runs_in_order(line: str) -> bool:
    """Return True when each command of the line ends before the next one starts, and none runs twice.

    Only lines without any sign of a loop, a pipe, a subshell or a background job qualify, quoted signs included.
    """
    return _CONCURRENT.search(_JOINED.sub(" ", line)) is None


def find_changes(command: ShellCommand) -> FileChanges | None:
    """Return the changes by the command, or None for another or an uncertain command."""
    name = command.name or ""
    args = expand_arguments(command) if name in _GRAMMARS else None
    found = parse_arguments(args, parse_grammar(_GRAMMARS[name])) if args is not None else None
    if found is None or found.is_mixed or len(command.directories) != 1:
        return None
    if name == "touch" and any(map(names_time_zone, found.values("-d", "--date"))):
        return None
    if command.globs and (
        len(command.words) - 1 in command.globs or any(arg.startswith("-") for arg in found.operands)
    ):
        return None  # the shell decides which of the names is the last
    paths = absolute_paths(command, found.operands)
    reads = absolute_paths(command, found.files)
    if not paths or reads is None or len(paths) != len(found.operands):
        return None
    if name in {"mkdir", "touch"}:
        return FileChanges(reads, paths, must_be_last=any(map(_ODD_NAME.search, found.operands)))
    if any(map(_CONTENTS.search, found.operands[:-1])):
        return None  # some systems copy its contents instead of it
    try:
        return _transfer(paths[:-1], paths[-1], moves=name == "mv", exact=found.has("-T"))
    except OSError:
        return None  # a link that cannot be read, as in /proc


def _transfer(sources: tuple[Path, ...], target: Path, *, moves: bool, exact: bool) -> FileChanges | None:
    into = not exact and (len(sources) > 1 or os.path.isdir(target))
    reads: list[Path] = []
    writes: list[Path] = [target]
    for source in sources:
        if source.name in {"", ".", ".."} and into:
            return None
        files = files_below(source)
        if files is None:
            return None
        reads += files
        goals = [target / source.name] if into else [target]
        if not into and not exact and not os.path.lexists(target):
            goals.append(target / source.name)  # an earlier command of the line may make this directory
        writes += [goal / file.relative_to(source) for goal in goals for file in files]
        reads += [found for goal in goals for file in files if (found := _moved_target(file, goal, source)) is not None]
        writes += files if moves else []
    return FileChanges(tuple(reads), tuple(writes), must_be_last=True, sources=sources) if sources else None


def _moved_target(file: Path, goal: Path, source: Path) -> Path | None:
    """Return what a relative link leads to at its new place; None for every other file."""
    target = os.readlink(file) if file.is_symlink() else "/"
    return None if target.startswith("/") else (goal / file.relative_to(source)).parent / target


def files_below(source: Path) -> list[Path] | None:
    """Return the path, and everything below it if it is a directory; None when there are too many files."""
    return found_once((files_below, source), lambda: _search(source))


def _search(source: Path) -> list[Path] | None:
    found = [source]
    spend_steps(5)
    if source.is_symlink() or not source.is_dir():
        return found
    for directory, names, files in os.walk(source):
        spend_steps(5 * (1 + len(names) + len(files)))
        found += [Path(directory, name) for name in (*names, *files)]
        if len(found) > MAX_FILES:
            return None
    return found


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
    operands = [at for at in range(1, len(command.words)) if not (command.words[at] or "").startswith("-")]
    if name not in _COPIERS or not operands:
        return [], ""
    named = [one.shape[0] for one in option_values("--target-directory", command)]
    named += [one.shape[0] for one in option_values("-t", command)] if name != "rsync" else []
    target = next((text for text in named if text), None)
    if target is None and len(operands) > 1:
        target, operands = command.shape(operands[-1])[0], operands[:-1]
    return (operands, target) if target is not None else ([], "")


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
