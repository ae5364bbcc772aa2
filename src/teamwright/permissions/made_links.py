"""Links that a line itself makes: its other commands are also listed with the files to which these links lead.

Depends on the words that `shell` found. The additional commands are guesses, which can only forbid.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from teamwright.permissions.command_words import base_name
from teamwright.permissions.shell.parsed_line import FileRedirect, ParsedLine, ShellCommand

_COPIES_LINKS = re.compile(r"-[A-Za-z]*[ls]|--(link|sym)")
_SYMBOLIC = re.compile(r"-[A-Za-z]*s|--sym")
_RELATIVE = re.compile(r"-[A-Za-z]*r|--rel")
_MAX_LINKS = 16
"""The most links of a line that are followed."""

Link = tuple[str, str]
"""The absolute path of a link, and that of the file to which it leads."""


def with_made_links(parsed: ParsedLine) -> ParsedLine:
    """Return the line with a guess for each command and redirection that may go through a link made by the line."""
    links = [link for command in parsed.commands for link in _made_links(command)][:_MAX_LINKS]
    if not links:
        return parsed
    guesses = [found for command in parsed.commands for found in _led_command(command, links)]
    redirects = [found for one in parsed.redirects for found in _led_redirect(one, links)]
    return replace(parsed, commands=[*guesses, *parsed.commands], redirects=[*redirects, *parsed.redirects])


def _made_links(command: ShellCommand) -> Iterator[Link]:
    """Yield the links that `ln` or `cp -l` may make; which word is the link is not certain."""
    name = base_name(command.name)
    options = [word for word in command.words[1:] if word and word.startswith("-")]
    if name not in {"ln", "link"} and not (name == "cp" and any(map(_COPIES_LINKS.match, options))):
        return
    given = [word for word in command.words[1:] if word and not word.startswith("-")]
    from_link = any(map(_SYMBOLIC.match, options)) and not (name == "ln" and any(map(_RELATIVE.match, options)))
    for place, target in itertools.product(command.directories, given):
        for goal in _goals(given, target) if place is not None else ():
            link = os.path.normpath(os.path.join(str(place), goal))
            led = os.path.normpath(os.path.join(os.path.dirname(link) if from_link else str(place), target))
            if led != link:
                yield link, led


def _goals(given: list[str], target: str) -> list[str]:
    """Return the names that a link to this target may get: another operand, or a name in that directory."""
    base = os.path.basename(target.rstrip("/"))
    later = [word for word in given if word != target]
    return [*([] if later else [base]), *later, *(os.path.join(word, base) for word in later if base)]


def _led(path: str, links: list[Link]) -> list[str]:
    """Return the paths to which a path may lead through these links."""
    found = [path]
    for one in found:
        for link, target in links:
            if one == link or one.startswith(f"{link}/"):
                led = os.path.normpath(target + one[len(link) :])
                found += [led] if led not in found and len(found) < _MAX_LINKS else []
    return found[1:]


def _led_word(word: str | None, place: Path | None, links: list[Link]) -> list[str]:
    if not word or word.startswith("-") or (place is None and not word.startswith("/")):
        return []
    return _led(os.path.normpath(os.path.join(place or "/", os.path.expanduser(word))), links)


def _led_command(command: ShellCommand, links: list[Link]) -> Iterator[ShellCommand]:
    """Yield the command with each word that leads through a link, which is replaced by the file there."""
    own = {link for link, _ in _made_links(command)}
    for place, (at, word) in itertools.product(command.directories, enumerate(command.words[1:], 1)):
        before = [link for link in links if link[0] not in own]
        for led in _led_word(word, place, before):
            yield replace(command, words=(*command.words[:at], led, *command.words[at + 1 :]), role="guess")


def _led_redirect(redirect: FileRedirect, links: list[Link]) -> Iterator[FileRedirect]:
    for place in redirect.directories:
        yield from (replace(redirect, target=led) for led in _led_word(redirect.target, place, links))
