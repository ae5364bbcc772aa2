"""Which files a command is about to change, as far as its words show it: more than the table of edits may allow.

Only ever used to forbid, so a program that is not in the tables here is simply not seen. Knows words; does not know
whose the files are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from teamwright.permissions.edits import changes
from teamwright.permissions.shell.parsed import Command
from teamwright.permissions.table import table
from teamwright.protocol.values import dataclass

_CHANGERS = table(
    "rm rmdir unlink shred truncate tee ln link install rsync dd chmod chown chgrp setfacl patch ed ex mktemp split"
    " csplit unzip touch mkdir mkfifo mknod gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd rename sponge vi vim nvim"
    " nano emacs"
)
"""Programs that change what they are given, whatever their options."""

_INTO = table("cp mv")
"""Programs that change the last thing they are given, where they do more than the table of edits explains."""

_IN_PLACE = {
    "sed": re.compile(r"-[nErsuz]*i|--in-place"),
    "perl": re.compile(r"-[pnlawsW0-9]*i"),
    "ruby": re.compile(r"-[pnlaws0-9]*i"),
    "yq": re.compile(r"-[PrejnCM]*i|--inplace"),
    "awk": re.compile(r"(-i|--include=)?inplace$"),
    "gawk": re.compile(r"(-i|--include=)?inplace$"),
}
"""Programs that change what they are given, once one of their words begins so."""

_OUT = {
    "cp": ("-t", "--target-directory"),
    "mv": ("-t", "--target-directory"),
    "ln": ("-t", "--target-directory"),
    "install": ("-t", "--target-directory"),
    "sort": ("-o", "--output"),
    "curl": ("-o", "--output", "--output-dir"),
    "wget": ("-O", "-P", "--output-document", "--directory-prefix"),
    "tar": ("-C", "--directory"),
    "unzip": ("-d",),
    "find": ("-fprint", "-fprint0", "-fprintf", "-fls"),
}
"""Options whose value is where a program writes."""

_GIT = table("checkout restore rm mv clean")
"""What git does to the files that stand behind it."""

_GIT_VALUED = table("-C -c --git-dir --work-tree --namespace")
_WILD = re.compile(r"[*?\[{]")


@dataclass(frozen=True, slots=True)
class Changed:
    """`paths` are about to be changed, with all below them; `hidden`: others too, which only the shell will know."""

    paths: tuple[Path, ...] = ()
    hidden: bool = False


def changed_by(command: Command) -> Changed:
    """What the command is about to change, as far as its words show."""
    name = os.path.basename(command.words[0] or "") if command.words else ""
    arguments = command.words[1:]
    written = [word for word in arguments if word is not None]
    unknown = len(written) < len(arguments)
    targets = [*_targets(name, command, written), *_options(name, written)]
    hidden = unknown and (_changes_all(name, written) or (name in _INTO and arguments[-1] is None))
    paths: list[Path] = []
    for target in targets:
        fixed = _WILD.split(target, maxsplit=1)
        path = os.path.expanduser(target if len(fixed) == 1 else os.path.dirname(fixed[0]))
        hidden = hidden or (None in command.places and not os.path.isabs(path))
        paths += [Path(os.path.join(place or os.sep, path)) for place in command.places]
    return Changed(tuple(paths), hidden)


def _changes_all(name: str, written: Sequence[str]) -> bool:
    """Whether it changes every file that it is given."""
    begins = _IN_PLACE.get(name)
    return name in _CHANGERS or (begins is not None and any(begins.match(word) for word in written))


def _targets(name: str, command: Command, written: list[str]) -> Iterator[str]:
    given = [word for word in written if word and not word.startswith("-")]
    if name == "dd":
        yield from (word.removeprefix("of=") for word in written if word.startswith("of="))
    elif _changes_all(name, written):
        yield from given
    elif name in _INTO and changes(command) is None:
        yield from given if name == "mv" else given[-1:]
    elif name == "find" and "-delete" in written:
        yield from given[:1] or ["."]
    elif name == "git":
        yield from _by_git(written)


def _by_git(written: list[str]) -> Iterator[str]:
    place, at = "", 0
    while at < len(written) and written[at].startswith("-"):
        if written[at] == "-C":
            place = os.path.join(place, *written[at + 1 : at + 2])
        at += 2 if written[at] in _GIT_VALUED else 1
    if written[at : at + 1] and written[at] in _GIT:
        yield from (os.path.join(place, word) for word in written[at + 1 :] if word and not word.startswith("-"))


def _options(name: str, written: list[str]) -> Iterator[str]:
    """What stands in options that say where to write: as the next word, joined, or behind `=`."""
    for option in _OUT.get(name, ()):
        for at, word in enumerate(written):
            if word == option:
                yield from (value for value in written[at + 1 : at + 2] if value)
            elif word.startswith(f"{option}=") and option.startswith("--"):
                yield word.partition("=")[2]
            elif word.startswith(option) and len(option) == 2:
                yield word[2:]
