"""Links that a line itself makes or moves: its other commands are also listed with the files to which these lead.

Depends on the words that `shell` found. The additional commands are guesses, which can only forbid.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from teamwright.permissions.command_words import Words, base_name, word_set
from teamwright.permissions.git_policy import split_git_command
from teamwright.permissions.read_only_commands import expand_arguments
from teamwright.permissions.shell.parsed_line import FileRedirect, ParsedLine, ShellCommand

_COPIES_LINKS = re.compile(r"-[A-Za-z]*[ls]|--(link|sym)")
_SYMBOLIC = re.compile(r"-[A-Za-z]*s|--sym")
_RELATIVE = re.compile(r"-[A-Za-z]*r|--rel")
_MOVERS = word_set("mv cp ln rsync")
"""Programs that may put a link, or a directory with links, into another place."""

_MAX_LED = 20
"""The most files to which one word is followed. Beyond it the word may lead to any file."""

_MAX_GUESSES = 500
"""The most guesses for a line. Beyond it the line counts as unreadable."""

_MAX_ENTRIES = 20_000
"""The most entries of a moved directory that are searched for links. Beyond it a path in it may lead to any file."""

_MAX_PASSES = 3
"""How often a line is read for links: in a loop a later command may move what an earlier one made."""

Links = dict[str, set[str | None]]
"""The absolute paths of links, each with the targets as the link contains them; None among them is any file."""


def with_made_links(parsed: ParsedLine) -> ParsedLine:
    """Return the line with a guess for each command and redirection that may go through a link made by the line."""
    if len(parsed.commands) + len(parsed.redirects) < 2:
        return parsed
    every: Links = {}
    for _ in range(_MAX_PASSES):
        before = sum(map(len, every.values()))
        for command in parsed.commands:
            _merge(every, _made_links(command, every))
        if sum(map(len, every.values())) == before:
            break
    if not every:
        return parsed
    guesses = list(itertools.islice((g for one in parsed.commands for g in _led_command(one, every)), _MAX_GUESSES))
    if len(guesses) == _MAX_GUESSES:
        return replace(parsed, is_valid=False, doubt=parsed.doubt or "it makes too many links")
    redirects = [led for one in parsed.redirects for led in _led_redirect(one, every)]
    return replace(parsed, commands=[*guesses, *parsed.commands], redirects=[*redirects, *parsed.redirects])


def _merge(links: Links, more: Links) -> None:
    for link, targets in more.items():
        links.setdefault(link, set()).update(targets)


def _made_links(command: ShellCommand, earlier: Links) -> Links:
    """Return the links that a command makes, moves or copies. `earlier`: those that the line makes elsewhere."""
    words = _plain_words(command)
    name = base_name(words[0]) if words else None
    makes, moves = name in {"ln", "link", "cp"}, name in _MOVERS
    found: Links = {}
    if not (makes or moves):
        return found
    options = [word for word in words[1:] if word and word.startswith("-")]
    given = [word for word in words[1:] if word and not word.startswith("-")]
    makes = makes and (name != "cp" or any(map(_COPIES_LINKS.match, options)))
    relative = name == "ln" and any(map(_RELATIVE.match, options))
    from_link = any(map(_SYMBOLIC.match, options)) and not relative
    named = any(word.startswith(("-t", "--t")) for word in options)
    sources = given if named else given[:-1] or given
    for place, source in itertools.product(command.directories, sources if None not in command.directories else ()):
        for goal in _goals(str(place), [word for word in (given if named else given[-1:]) if word != source], source):
            if makes:
                found.setdefault(goal, set()).add(source if from_link else os.path.join(str(place), source))
            if moves:
                _merge(found, _moved(os.path.normpath(os.path.join(str(place), source)), goal, earlier))
    return found


def _plain_words(command: ShellCommand) -> Words:
    """Return the words with patterns filled in, and `git mv` as `mv`."""
    args = expand_arguments(command) if command.globs else None
    words = command.words if args is None else (command.words[0], *args)
    git = split_git_command(words)
    words = words if git is None or git[1:2] != ("mv",) else git[1:]
    return tuple(None if word is None else os.path.expanduser(word) for word in words)


def _goals(place: str, later: list[str], source: str) -> list[str]:
    """Return the paths that a word may get in a new place: that of another word, or its own name in that directory."""
    base = os.path.basename(source.rstrip("/"))
    own = [] if base in {"", ".", ".."} else [base]
    names = [*later, *(os.path.join(word, name) for word in later for name in own)] or own
    paths = (os.path.normpath(os.path.join(place, name)) for name in names)
    return [path for path in paths if not f"{place}/".startswith(f"{path.rstrip('/')}/")]


def _moved(source: str, goal: str, earlier: Links) -> Links:
    """Return the relative links at and below a path, at their new places. Absolute ones lead where they led before."""
    found: Links = {}
    for link, targets in earlier.items():
        if link == source or link.startswith(f"{source}/"):
            found[goal + link[len(source) :]] = set(targets)
    left = _MAX_ENTRIES
    for directory, names, files in [(source, [], [""])] if os.path.islink(source) else os.walk(source):
        left -= len(names) + len(files)
        if left < 0:
            return {goal: {None}}
        for path in (os.path.join(directory, name).rstrip("/") for name in (*names, *files)):
            if os.path.islink(path) and not (target := os.readlink(path)).startswith("/"):
                found.setdefault(goal + path[len(source) :], set()).add(target)
    return found


def _led(path: str, links: Links) -> list[str | None]:
    """Return the paths to which a path may lead through these links; None for any path."""
    found: list[str | None] = [path]
    for one in found:
        for link in _with_parents(one) if one is not None else ():
            for target in links.get(link, ()):
                led = None if target is None or len(found) > _MAX_LED else _through(one or "", link, target)
                found += [led] if led not in found else []
    return found[1:]


def _through(path: str, link: str, target: str) -> str:
    return os.path.normpath(os.path.join(os.path.dirname(link), target) + path[len(link) :])


def _with_parents(path: str) -> Iterator[str]:
    while path not in {"/", ""}:
        yield path
        path = os.path.dirname(path)


def _led_word(word: str | None, place: Path | None, links: Links) -> list[str | None]:
    if not word or word.startswith("-") or (place is None and not word.startswith("/")):
        return []
    return _led(os.path.normpath(os.path.join(place or "/", os.path.expanduser(word))), links)


def _led_command(command: ShellCommand, links: Links) -> Iterator[ShellCommand]:
    """Yield the command with each word that leads through a link, which is replaced by the file there."""
    own = _made_links(command, {})
    others = {link: targets - own.get(link, set()) for link, targets in links.items()} if own else links
    for place, (at, word) in itertools.product(command.directories, enumerate(command.words[1:], 1)):
        for led in _led_word(word, place, others):
            yield replace(command, words=(*command.words[:at], led, *command.words[at + 1 :]), role="guess")


def _led_redirect(redirect: FileRedirect, links: Links) -> Iterator[FileRedirect]:
    for place in redirect.directories:
        yield from (replace(redirect, target=led) for led in _led_word(redirect.target, place, links))
