"""Links that a line itself makes or moves: its other commands are also listed with the files to which these lead.

Depends on the words that `shell_lines` found. The additional commands are guesses, which can only forbid.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from teamwright.permissions.git_policy import split_git_command
from teamwright.permissions.read_only_commands import expand_arguments
from teamwright.permissions.verdict import Access
from teamwright.shell_lines.command_words import base_name, word_set
from teamwright.shell_lines.parse import parse_command
from teamwright.shell_lines.parsed_line import ParsedLine, ShellCommand
from teamwright.shell_lines.step_limit import spend_steps

_COPIES_LINKS = re.compile(r"-[A-Za-z]*[ls]|--(link|sym)")
_SYMBOLIC = re.compile(r"-[A-Za-z]*s|--sym")
_RELATIVE = re.compile(r"-[A-Za-z]*r|--rel")
_TARGET = re.compile(r"--t[a-z-]*(?:=(?P<attached>.+))?|-[A-Za-su-z]*t(?P<joined>.*)")
_REPEATS = re.compile(r"\b(?:for|while|until|select|function|eval|trap|xargs|find|parallel|watch)\b|\(\s*\)")
_MAKERS = word_set("ln link cp mv rsync")
"""Programs that make links, or put a link or a directory with links into another place."""

_MAX_FOLLOWED = 20
"""The most files to which one word is followed. Beyond it the word may lead to any file."""

_MAX_MADE = 500
"""The most links and the most guesses of a line. Beyond it the line counts as unreadable."""

_MAX_ENTRIES = 20_000
"""The most entries of moved directories that are searched for links. Beyond it a path in them may lead to any file."""

_MAX_BELOW = 100
"""The most links of a moved directory that are followed one by one. Beyond it a path in it may lead to any file."""

_MAX_STEPS = 50_000
"""The most comparisons of moved paths with links. Beyond it the line counts as unreadable."""

_MAX_PASSES = 3
"""The number of times that a line is read for links: in a loop a later command may move what an earlier one made."""

Links = dict[str, set[str | None]]
"""The absolute paths of links, each with the targets as the link contains them; None among them is any file."""


class _TooManyLinks(Exception):
    """The line makes more links than are followed."""


def parse_access(access: Access, base: Path) -> ParsedLine:
    """Return the parsed command of the access, with the links that it makes. `base` is the directory if it names none.

    A line that the user's shell may read in another way is not valid: what it runs is not known.
    """
    line = access.command or ""
    parsed = _with_made_links(parse_command(line, access.cwd or base), line)
    if not access.is_read_otherwise or not parsed.is_valid:
        return parsed
    return replace(parsed, is_valid=False, doubt="your shell may read it in another way than bash")


def _with_made_links(parsed: ParsedLine, line: str) -> ParsedLine:
    """Return the parsed line with a guess for each command and redirection that may go through a link made by it."""
    makers = [command for command in parsed.commands if _link_maker_name(command)]
    if not makers or len(parsed.commands) + len(parsed.redirects) < 2:
        return parsed
    try:
        links = _LineLinks(makers, repeats=_REPEATS.search(line) is not None)
        commands = list(itertools.islice(_follow_commands(parsed.commands, links), _MAX_MADE + 1))
        redirects = [
            replace(one, target=followed)
            for one in parsed.redirects
            for place in one.directories
            for followed in _follow_word(one.target, place, links.targets)
        ]
        if len(commands) > _MAX_MADE:
            raise _TooManyLinks
    except _TooManyLinks:
        return replace(parsed, is_valid=False, doubt=parsed.doubt or "it makes too many links")
    return replace(parsed, commands=[*commands, *parsed.commands], redirects=[*redirects, *parsed.redirects])


def _link_maker_name(command: ShellCommand) -> str:
    """Return the name of a program that makes, moves or copies links, or an empty text; `git mv` is `mv`."""
    git = split_git_command(command.words)
    name = base_name(command.words[0]) if command.words else None
    name = "mv" if git is not None and git[1:2] == ("mv",) else name
    return name if name in _MAKERS else ""


def _merge(links: Links, more: Links) -> None:
    for link, targets in more.items():
        links.setdefault(link, set()).update(targets)


class _LineLinks:
    """The links that the commands of a line make."""

    def __init__(self, commands: Sequence[ShellCommand], *, repeats: bool) -> None:
        self.targets: Links = {}
        self._by_command: dict[int, Links] = {}
        self._repeats = repeats
        self._entries = _MAX_ENTRIES
        self._steps = _MAX_STEPS
        self._below: dict[str, Links] = {}
        for _ in range(_MAX_PASSES):
            before = sum(map(len, self.targets.values()))
            for command in commands:
                self._add(command)
            if sum(map(len, self.targets.values())) == before:
                return

    def before(self, command: ShellCommand) -> Links:
        """Return the links that may exist when this command runs: those of others, and its own if it is repeated."""
        if self._repeats or id(command) not in self._by_command:
            return self.targets
        found: Links = {}
        spend_steps(2 * (len(self._by_command) + sum(map(len, self._by_command.values()))))
        for key, links in self._by_command.items():
            _merge(found, links if key != id(command) else {})
        return found

    def _add(self, command: ShellCommand) -> None:
        args = expand_arguments(command) if command.globs else None
        words = [*command.words[1:]] if args is None else args
        git = base_name(command.words[0]) == "git"
        operands = _LinkOperands(
            [None if word is None else os.path.expanduser(word) for word in words], _link_maker_name(command), git
        )
        places = list(map(str, command.directories)) if None not in command.directories else []
        for place, source in itertools.product(places, operands.sources):
            for destination in operands.destinations(place, source):
                spend_steps(20)
                found = self._made_at(place, source, destination, operands)
                _merge(self._by_command.setdefault(id(command), {}), found)
                _merge(self.targets, found)
            if len(self.targets) > _MAX_MADE:
                raise _TooManyLinks

    def _made_at(self, place: str, source: str, destination: str, operands: _LinkOperands) -> Links:
        """Return the links that appear at a destination and below it."""
        found: Links = {}
        if operands.makes:
            found[destination] = {source if operands.from_link else os.path.join(place, source)}
        if operands.moves:
            top = _absolute(place, source)
            self._steps -= len(self.targets) + 1
            if self._steps < 0:
                raise _TooManyLinks
            earlier = {link: set(to) for link, to in self.targets.items() if f"{link}/".startswith(f"{top}/")}
            if top not in self._below:
                self._below[top] = self._search(top)
            _merge(earlier, self._below[top])
            _merge(found, {destination + link[len(top) :]: targets for link, targets in earlier.items()})
        return found

    def _search(self, top: str) -> Links:
        found: Links = {}
        for directory, names, files in [(top, [], [""])] if os.path.islink(top) else os.walk(top):
            self._entries -= len(names) + len(files)
            spend_steps(3 * (1 + len(names) + len(files)))
            for path in (os.path.join(directory, name).rstrip("/") for name in (*names, *files)):
                if os.path.islink(path):
                    found[path] = {_target(path)}
            if self._entries < 0 or len(found) > _MAX_BELOW:
                return {top: {None}}
        return found


def _target(link: str) -> str | None:
    """Return the target of a link, or None for one that cannot be read, as in `/proc`."""
    try:
        return os.readlink(link)
    except OSError:
        return None


class _LinkOperands:
    """The operands of a command that makes links: its sources, and the paths that they get."""

    def __init__(self, words: Sequence[str | None], name: str, by_git: bool) -> None:
        options = [word for word in words if word and word.startswith("-")]
        operands = [word for word in words if word and not word.startswith("-")]
        operands = operands[operands.index("mv") + 1 :] if by_git and "mv" in operands else operands
        directory = None if by_git else next(_target_directories(words), None)
        rest = [word for word in operands if word != directory] if directory is not None else operands[:-1]
        self.sources = rest or operands
        self._last = directory if directory is not None else operands[-1] if len(operands) > 1 else None
        self.makes = name in {"ln", "link"} or (name == "cp" and any(map(_COPIES_LINKS.match, options)))
        self.moves = name != "link"
        relative = name == "ln" and any(map(_RELATIVE.match, options))
        self.from_link = any(map(_SYMBOLIC.match, options)) and not relative

    def destinations(self, place: str, source: str) -> list[str]:
        """Return the paths that a source may get: that of the last word, or its own name in that directory."""
        base = os.path.basename(source.rstrip("/"))
        own = [] if base in {"", ".", ".."} else [base]
        names = own if self._last is None else [self._last, *(os.path.join(self._last, name) for name in own)]
        paths = (_absolute(place, name) for name in names)
        return [path for path in paths if not f"{place}/".startswith(f"{path.rstrip('/')}/")]


def _target_directories(words: Sequence[str | None]) -> Iterator[str]:
    """Yield the directory that `-t DIR`, `-tDIR` or `--target-directory=DIR` names."""
    for word, after in itertools.pairwise((*words, None)):
        found = _TARGET.fullmatch(word or "")
        if found is not None:
            value = found["attached"] or found["joined"] or after
            yield from [value] if value is not None else []


def _followed_paths(path: str, links: Links) -> list[str | None]:
    """Return the paths to which a path may lead through these links; None for any path."""
    found: list[str | None] = [path]
    for one in found:
        spend_steps(10)
        for link in _with_parents(one) if one is not None else ():
            for target in links.get(link, ()):
                followed = None if target is None or len(found) > _MAX_FOLLOWED else _through(one or "", link, target)
                found += [followed] if followed not in found else []
    return found[1:]


def _through(path: str, link: str, target: str) -> str:
    return _absolute(os.path.dirname(link), target + path[len(link) :])


def _absolute(place: str, path: str) -> str:
    """Return the absolute path without dots. Two slashes at its beginning count as one."""
    whole = os.path.normpath(os.path.join(place, path))
    return whole[1:] if whole.startswith("//") else whole


def _with_parents(path: str) -> Iterator[str]:
    while path not in {"/", ""}:
        yield path
        path = os.path.dirname(path)


def _follow_word(word: str | None, place: Path | None, links: Links) -> list[str | None]:
    if not word or word.startswith("-") or (place is None and not word.startswith("/")):
        return []
    return _followed_paths(_absolute(str(place or "/"), os.path.expanduser(word)), links)


def _follow_commands(commands: Sequence[ShellCommand], links: _LineLinks) -> Iterator[ShellCommand]:
    """Yield the commands with each word that leads through a link, which is replaced by the file there."""
    for command in commands:
        before = links.before(command)
        for place, (at, word) in itertools.product(command.directories, enumerate(command.words[1:], 1)):
            for followed in _follow_word(word, place, before):
                yield replace(command, words=(*command.words[:at], followed, *command.words[at + 1 :]), role="guess")
