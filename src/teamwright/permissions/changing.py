"""Which files a command is about to change, as far as its words show it: more than the table of edits may allow.

Only ever used to forbid, so a program that is not in the tables here is simply not seen. Knows words; does not know
whose the files are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from teamwright.permissions.edits import changes
from teamwright.permissions.operands import Operand
from teamwright.permissions.programs.find_expression import MAY_DIFFER
from teamwright.permissions.readonly import written_out
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

_RECURSIVE = re.compile(r"-[A-Za-z]*R|--recursive")
_ALL_BELOW = {
    **dict.fromkeys(("rm", "mv"), re.compile("")),
    **dict.fromkeys(("chmod", "chown", "chgrp", "setfacl"), _RECURSIVE),
}
"""Programs that change everything below what they are given, once one of their words begins so."""

_INTO_LAST = table("cp mv rsync")
_CONTENTS = re.compile(r"(?:.*/)?\.{0,2}/?", re.DOTALL)
"""A path that some systems read as the contents of a directory."""

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
    **dict.fromkeys(("sort", "shuf", "pandoc", "diff"), ("-o", "--output")),
    **dict.fromkeys(("gcc", "g++", "cc", "c++", "clang", "clang++", "ld", "as", "rustc", "go", "tree"), ("-o",)),
    "openssl": ("-out",),
    "git": ("--output", "-o"),
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
    """Files that are about to be changed.

    `below`: directories among them of which everything is changed whose name matches the pattern that goes with them.
    `unknown` are names of which only the shell will know the rest; one that is `certain` is certainly changed.
    """

    paths: tuple[Path, ...] = ()
    below: tuple[tuple[Path, str], ...] = ()
    unknown: tuple[Operand, ...] = ()

    @property
    def hidden(self) -> bool:
        """Whether a file is changed whose name only the shell will know."""
        return any(operand.certain for operand in self.unknown)


_SED_WRITES = re.compile(
    r"(?:(?:^|[;{}\n]|^-[nErsuz]*e|^--expression=)\s*+(?:[\d$,~+]++|/[^/\n]*/)?+\s*+!?\s*+[wW]"
    r"|s([^\w\s])(?:(?!\1).)*\1(?:(?!\1).)*\1[gpiIeEmM\d]*+w)\s*+(?P<file>[^\s;}][^\n]*)"
)
_AWK_WRITES = re.compile(r'>\s*"(?P<file>[^"]+)"')
_WRITTEN_BY_SCRIPTS = {"sed": _SED_WRITES, **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _AWK_WRITES)}
"""Files that a script of these programs names to write to, where the script is written in the line."""


def changed_by(command: Command) -> Changed:
    """Return what the command is about to change, as far as its words and the names for its patterns show."""
    understood = changes(command) is not None
    written = _changed_as_written(command, understood)
    names = written_out(command) if command.globs else None
    if names is None:
        return written
    matched = _changed_as_written(replace(command, words=(command.words[0], *names), globs=frozenset()), understood)
    return replace(written, paths=(*written.paths, *matched.paths), below=(*written.below, *matched.below))


def _changed_as_written(command: Command, understood: bool) -> Changed:
    name = os.path.basename(command.words[0] or "") if command.words else ""
    paths: list[Path] = []
    below: list[tuple[Path, str]] = []
    unknown: list[Operand] = []
    for target in (*_targets(name, command, understood), *_options(name, command)):
        text = target.shape[0] if len(target.shape) == 1 else None
        if text is None:
            unknown.append(target)
            continue
        fixed = _WILD.split(text, maxsplit=1)
        path = os.path.expanduser(text if len(fixed) == 1 else os.path.dirname(fixed[0]))
        if None in command.places and not os.path.isabs(path):
            unknown.append(Operand((None, f"/{path}"), target.certain))
        found = [Path(os.path.join(place or os.sep, path)) for place in command.places]
        paths += found
        below += [(one, target.below) for one in found if target.below]
    return Changed(tuple(paths), tuple(below), tuple(unknown))


def _targets(name: str, command: Command, understood: bool) -> Iterator[Operand]:
    """Yield the words that name what the command changes. `understood`: `changes` already says it of this command."""
    given = [at for at, word in enumerate(command.words) if at and word != "" and not (word or "").startswith("-")]
    if name == "dd":
        for shape in map(command.shape, given):
            if shape[0] is None:
                yield Operand(shape, certain=True)
            elif shape[0].startswith("of="):
                yield Operand((shape[0].removeprefix("of="), *shape[1:]), certain=True)
        return
    if name in _WRITTEN_BY_SCRIPTS:
        texts = (command.shape(at)[0] or "" for at in range(1, len(command.words)))
        found = (match for text in texts for match in _WRITTEN_BY_SCRIPTS[name].finditer(text))
        yield from (Operand((match["file"],)) for match in found)
    if _changes_all(name, command):
        pass
    elif name in _INTO and not understood:
        given = given if name == "mv" else given[-1:]
    elif name == "find" and "-delete" in command.words:
        starts = [at for at in given if at < _first_test(command)]
        shapes = [command.shape(at) for at in starts] or [(".",)]
        yield from (Operand(shape, certain=True, below=_deleted_names(command)) for shape in shapes)
        return
    else:
        yield from _by_git(command) if name == "git" else ()
        return
    begins = _ALL_BELOW.get(name)
    deep = begins is not None and any(map(begins.match, map(str, command.words)))
    for at in given:
        into = name in _INTO_LAST and at == given[-1] and not any(str(word).startswith("-t") for word in command.words)
        below = _merges(command.words[1:at]) if into else deep
        yield Operand(command.shape(at), certain=True, below="*" if below else "")


def _merges(words: Sequence[str | None]) -> bool:
    """Return whether the contents of a directory are put among those of the target, or the others are removed there."""
    return any(word and (_CONTENTS.fullmatch(word) or word.startswith("--del")) for word in words)


def _first_test(command: Command) -> int:
    """Return where the starts of a find end."""
    tests = (
        at for at, word in enumerate(command.words) if at and word and re.match(r"-(?![PHLEXdsxDO]+$)|[()!,]", word)
    )
    return next(tests, len(command.words))


def _deleted_names(command: Command) -> str:
    """Return the pattern that every name has which `find -delete` deletes."""
    words = command.words
    names = [words[at + 1] for at, word in enumerate(words[:-1]) if word == "-name"]
    plain = "-delete" in words[-1:] and not MAY_DIFFER & set(map(str, words))
    return next((name for name in names if name and plain), "*")


def _changes_all(name: str, command: Command) -> bool:
    """Return whether it changes every file that it is given."""
    begins = _IN_PLACE.get(name)
    return name in _CHANGERS or (begins is not None and any(word and begins.match(word) for word in command.words[1:]))


def _by_git(command: Command) -> Iterator[Operand]:
    words = command.words
    place, at = "", 1
    while at < len(words) and (words[at] or "").startswith("-"):
        if words[at] == "-C":
            place = os.path.join(place, *(word or "" for word in words[at + 1 : at + 2]))
        at += 2 if words[at] in _GIT_VALUED else 1
    if words[at : at + 1] and words[at] in _GIT:
        for after in range(at + 1, len(words)):
            word = words[after]
            if word is None:
                yield Operand(command.shape(after), below="*")
            elif word and not word.startswith("-"):
                yield Operand((os.path.join(place, word),), below="*")


def _options(name: str, command: Command) -> Iterator[Operand]:
    """Yield what options name that say where to write: in the next word, joined, or behind `=`."""
    for option in _OUT.get(name, ()):
        for at, word in enumerate(command.words):
            begin = command.shape(at)[0] or ""
            if word == option:
                yield Operand(command.shape(at + 1) if at + 1 < len(command.words) else (".",), certain=True)
            elif begin.startswith(f"{option}=") and option.startswith("--"):
                yield Operand((begin.partition("=")[2], *command.shape(at)[1:]), certain=True)
            elif begin.startswith(option) and len(option) == 2:
                yield Operand((begin[2:], *command.shape(at)[1:]), certain=True)
