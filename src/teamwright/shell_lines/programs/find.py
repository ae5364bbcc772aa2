"""The expressions of find that only test, print and run listed commands.

Anything else is refused. The commands of `-exec` are judged in `file_reads`.
"""

from __future__ import annotations

import itertools
import re

from msgspec import Struct

from teamwright.shell_lines.command_words import word_set

_FIND_OPTIONS = re.compile(r"-[PHE]|-O[0-3]")


_FIND_ALONE = word_set(
    "-print -print0 -ls -prune -quit -true -false -empty -nouser -nogroup -depth -mount -xdev -daystart -noleaf"
    " -readable -writable -executable -ignore_readdir_race -noignore_readdir_race -warn -nowarn"
    " -a -and -o -or -not ! ( ) ,"
)


_FIND_WITH_TEXT = word_set(
    "-name -iname -path -ipath -wholename -iwholename -regex -iregex -type -xtype -size -mtime -mmin -atime -amin"
    " -ctime -cmin -maxdepth -mindepth -perm -user -group -uid -gid -links -inum -regextype"
    " -fstype -lname -ilname -used -printf"
)


_FIND_WITH_FILE = word_set("-newer -anewer -cnewer -mnewer -samefile")


_FIND_FOLLOWING = word_set("-xtype -readable -writable -executable")


_FIND_NEWER = re.compile(r"-newer[aBcm]([aBcmt])")


_FIND_ARGUMENT = re.compile(r"(?!-[A-Za-z]).*|-[ugoa]*[-+=][rwxXst]*", re.DOTALL)
"""Arguments that no find takes for a predicate; `-perm -u+w` is one."""


MAY_DIFFER = word_set("-o -or ! -not ( ) ,")
"""Signs with which a test of the expression may not apply to all results."""


class FindExpression(Struct, frozen=True):
    """The starting points of find, the `files` with which it compares, and the commands that it `runs`.

    In a command `{}` is a name; two of them are many. `is_plain`: only regular files are found, so that a command which
    gets them follows no link. `follows_links`: a test examines the target of a link.
    """

    starts: tuple[str, ...]
    files: tuple[str, ...] = ()
    runs: tuple[tuple[str, ...], ...] = ()
    is_plain: bool = False
    follows_links: bool = False


def parse_find(args: list[str]) -> FindExpression | None:
    """Parse the arguments of find, or return None for one that does more than test, print and run."""
    options = list(itertools.takewhile(_FIND_OPTIONS.fullmatch, args))
    rest = args[len(options) :]
    starts = list(itertools.takewhile(lambda arg: not arg.startswith(("-", "(", ")", "!", ",")), rest))
    predicates = rest[len(starts) :]
    files: list[str] = []
    runs: list[tuple[str, ...]] = []
    at = 0
    while at < len(predicates):
        predicate = predicates[at]
        if predicate == "-exec":
            end = _exec_end(predicates, at + 1)
            if end is None:
                return None
            runs.append((*predicates[at + 1 : end], *(("{}",) if predicates[end] == "+" else ())))
            at = end + 1
            continue
        argument = predicates[at + 1] if at + 1 < len(predicates) else None
        takes = _argument_kind(predicate, argument)
        if takes is None:
            return None
        if takes == "file" and argument is not None:
            files.append(argument)
        at += 2 if takes else 1
    before = predicates[: predicates.index("-exec")] if runs else []
    plain = ("-type", "f") in itertools.pairwise(before) and not MAY_DIFFER & set(predicates)
    follows = any(
        word in _FIND_FOLLOWING or (word == "-printf" and "Y" in after)
        for word, after in itertools.pairwise((*predicates, ""))
    )
    return FindExpression(tuple(starts) or (".",), tuple(files), tuple(runs), plain, follows)


def _argument_kind(predicate: str, argument: str | None) -> str | None:
    """Return the kind of a predicate's argument: `file`, `text`, none (an empty text); None when it is not accepted."""
    if predicate in _FIND_ALONE:
        return ""
    newer = _FIND_NEWER.fullmatch(predicate)
    known = predicate in _FIND_WITH_TEXT or predicate in _FIND_WITH_FILE or newer is not None
    if not known or argument is None or not _FIND_ARGUMENT.fullmatch(argument):
        return None
    return "file" if predicate in _FIND_WITH_FILE or (newer is not None and newer[1] != "t") else "text"


def _exec_end(words: list[str], start: int) -> int | None:
    """Return the end of the `-exec` command that begins here; a name may only be a whole word."""
    for at in range(start, len(words)):
        if words[at] == ";" or (words[at] == "+" and words[at - 1] == "{}"):
            return at if at > start else None
        if "{}" in words[at] and words[at] != "{}":
            return None
    return None
