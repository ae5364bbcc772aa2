"""Commands proven to change nothing: which program, with which arguments, reads which paths.

A table, not a guess: a program or an option that is not in it is not proven. Knows words and the file names that
a star stands for now. Does not know rules, modes or directories: whoever asks checks the paths.
"""

from __future__ import annotations

import glob
import itertools
import os
import re
from collections.abc import Callable
from pathlib import Path

from teamwright.permissions.readonly_git import git_reads
from teamwright.permissions.shell.options import Row, read_line
from teamwright.permissions.shell.parsed import Command
from teamwright.protocol.values import dataclass

MAX_MATCHES = 1_000
"""More file names than this behind one star are not looked at."""


@dataclass(frozen=True, slots=True)
class Reads:
    """What a proven command reads: `paths` absolute as named; `deep` when it reads all files below them.

    `git` when it lets git read the repository's configuration.
    """

    paths: tuple[Path, ...]
    deep: bool = False
    git: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """What a program's own proof says: arguments that are paths, and whether all below them is read.

    `flat`: holds only where no path is a directory, because links in it would be followed.
    """

    paths: tuple[str, ...] = ()
    deep: bool = False
    flat: bool = False


Proof = Callable[[list[str]], Found | None]
_PLAIN = Row()


def proven(command: Command) -> Reads | None:
    """What the command reads, or None when it is not proven to do nothing else."""
    name = command.name
    if name is None or 0 in command.globs:
        return None
    name = name.rsplit("/", 1)[-1] if name.startswith(("/bin/", "/usr/bin/")) else name
    if name in _SAY_ANYTHING:
        return _SAY_ANYTHING[name](command)
    args = written_out(command)
    if args is None:
        return None
    if name == "git":
        by_git = git_reads(args)
        here = None if by_git is None else absolute(command, by_git.paths or (".",))
        return None if by_git is None or here is None else Reads(here, by_git.deep, git=True)
    proof = _PROOFS.get(name)
    found = proof(args) if proof is not None else None
    paths = None if found is None else absolute(command, found.paths)
    if found is None or paths is None or (found.flat and any(path.is_dir() for path in paths)):
        return None
    return Reads(paths, found.deep)


def written_out(command: Command) -> list[str] | None:
    """The arguments as the program gets them: stars replaced by the names they stand for. None if not known."""
    args: list[str] = []
    for at, word in enumerate(command.words[1:], 1):
        if word is None:
            return None
        if at not in command.globs:
            args.append(word)
            continue
        names = _names(word, command)
        if names is None:
            return None
        args += names or [word]
    return args


def _names(pattern: str, command: Command) -> list[str] | None:
    if len(command.places) != 1 or None in command.places or "**" in pattern:
        return None
    place = str(next(iter(command.places)))
    found = list(itertools.islice(glob.iglob(os.path.expanduser(pattern), root_dir=place), MAX_MATCHES + 1))
    return sorted(found) if len(found) <= MAX_MATCHES else None


def absolute(command: Command, paths: tuple[str, ...]) -> tuple[Path, ...] | None:
    """The paths wherever the command may run; links and `..` are left for the file system to follow."""
    made: list[Path] = []
    for path in paths:
        path = os.path.expanduser(path)
        for place in command.places:
            if place is None and not path.startswith("/"):
                return None
            made.append(Path(os.path.join(place or "/", path)))
    return tuple(dict.fromkeys(made))


def _files(row: Row = _PLAIN, *, most: int = 999, default: str = "", flat: bool = False) -> Proof:
    """A program whose positional words are files that it reads, without one the `default`."""

    def proof(args: list[str]) -> Found | None:
        line = read_line(args, row)
        if line is None or len(line.positional) > most:
            return None
        paths = tuple(path for path in line.positional if path != "-")
        return Found(paths or ((default,) if default else ()), flat=flat)

    return proof


def _texts(row: Row = _PLAIN, most: int = 999) -> Proof:
    """A program whose positional words are only text."""

    def proof(args: list[str]) -> Found | None:
        line = read_line(args, row)
        return None if line is None or len(line.positional) > most else Found()

    return proof


def _pattern_then_files(row: Row, given: str, given_long: tuple[str, ...], deep: str | None) -> Proof:
    """grep and its kin: the first positional word is a pattern, unless one was given by an option."""

    def proof(args: list[str]) -> Found | None:
        line = read_line(args, row)
        if line is None:
            return None
        rest = line.positional if line.has(given, *given_long) else line.positional[1:]
        if deep is None:  # rg: always all below
            return Found(tuple(rest) or (".",), deep=True)
        below = line.has(deep, "--recursive")
        return Found(tuple(rest) or ((".",) if below else ()), below)

    return proof


_GREP = Row(
    valued="emABCdD",
    bad="Rf",
    bad_long=("--dereference-recursive", "--file"),
    text_long=("--include", "--exclude", "--exclude-dir", "--regexp", "--color", "--context"),
)
_RG = Row(
    valued="eABCmMgtTjdEr",
    bad="zLf",
    bad_long=("--pre", "--hostname-bin", "--search-zip", "--follow", "--file", "--ignore-file"),
    text_long=("--glob", "--iglob", "--type", "--regexp", "--replace", "--sort", "--max-depth", "--color", "--context"),
)


_FIND_BAD = re.compile(r"-(exec|execdir|ok|okdir|delete|fprint|fprintf|fprint0|fls|files0-from|follow|L)")


def _find(args: list[str]) -> Found | None:
    if any(_FIND_BAD.fullmatch(arg) for arg in args):
        return None
    starts = list(itertools.takewhile(lambda arg: not arg.startswith(("-", "(", "!")), args))
    if not starts and args and args[0] in {"-H", "-P", "-D", "--"}:
        return None
    return Found(tuple(starts) or (".",))


_SED_PART = re.compile(
    r"\s*(?:(?:\d+|\$|/(?:[^/\\\n]|\\.)*/)(?:,[+~]?(?:\d+|\$|/(?:[^/\\\n]|\\.)*/))?)?\s*!?"
    r"(?:[pdq=]|s(?P<d>[/|#,])(?:(?!(?P=d))[^\\\n]|\\.)*(?P=d)(?:(?!(?P=d))[^\\\n]|\\.)*(?P=d)[gpI0-9]*)?\s*"
)


def _sed(args: list[str]) -> Found | None:
    line = read_line(
        args, Row(valued="e", only="nErsuz", bad_long=("--in-place", "--file"), text_long=("--expression",))
    )
    if line is None or any(option.startswith("--") for option in line.options):
        return None
    if any("e" in option and option != "-e" for option in line.options):
        return None
    scripts = [args[at + 1] for at, arg in enumerate(args[:-1]) if arg == "-e"]
    rest = line.positional if scripts else line.positional[1:]
    scripts = scripts or line.positional[:1]
    if not scripts:
        return None
    return Found(tuple(rest)) if all(_sed_only_prints(script) for script in scripts) else None


def _sed_only_prints(script: str) -> bool:
    at = 0
    while True:
        part = _SED_PART.match(script, at)
        if part is None:
            return False
        at = part.end()
        if at >= len(script):
            return True
        if script[at] not in ";\n":
            return False
        at += 1


_AWK_BAD = re.compile(r"system|getline|[|>@]|close|fflush|ENVIRON|ARGV|ARGC|PROCINFO|printf?\s*\(.*>", re.IGNORECASE)


def _awk(args: list[str]) -> Found | None:
    line = read_line(args, Row(valued="Fv", only=""))
    if line is None or not line.positional or any(option.startswith("--") for option in line.options):
        return None
    program, *files = line.positional
    return None if _AWK_BAD.search(program) else Found(tuple(files))


_JQ_BAD = re.compile(r"\b(env|import|include|modulemeta)\b|\$ENV", re.IGNORECASE)


def _jq(args: list[str]) -> Found | None:
    line = read_line(args, Row(only="rcnsSeMCaj"))
    fine = {"--raw-output", "--compact-output", "--null-input", "--slurp", "--sort-keys", "--exit-status", "--tab"}
    if line is None or not line.positional or any(o.startswith("--") and o not in fine for o in line.options):
        return None
    program, *files = line.positional
    return None if _JQ_BAD.search(program) else Found(tuple(files))


def _date(args: list[str]) -> Found | None:
    line = read_line(args, Row(valued="d", only="uRI", text_long=("--date",)))
    if line is None or any(not word.startswith("+") for word in line.positional):
        return None
    plain = {"--utc", "--date", "--universal", "--rfc-email", "--iso-8601"}
    return Found() if all(not o.startswith("--") or o.split("=")[0] in plain for o in line.options) else None


def _test(args: list[str]) -> Found | None:
    known = {"-f", "-d", "-e", "-s", "-r", "-w", "-x", "-L", "-h", "-z", "-n", "=", "==", "!=", "!", "-a", "-o"}
    numbers = {"-eq", "-ne", "-lt", "-le", "-gt", "-ge"}
    return Found() if all(a in known | numbers or not a.startswith("-") for a in args) else None


def _exactly(*allowed: str) -> Proof:
    return lambda args: Found() if all(arg in allowed for arg in args) else None


def _set_options(*allowed: str) -> Proof:
    """Without options `set` prints every variable, secrets too."""
    return lambda args: Found() if args and all(arg in allowed for arg in args) else None


def _version(args: list[str]) -> Found | None:
    return Found() if args in (["--version"], ["-V"]) else None


def _cd(args: list[str]) -> Found | None:
    targets = [arg for arg in args if arg != "--"]
    if len(targets) > 1 or any(target.startswith("-") for target in targets):
        return None
    return Found((targets[0] if targets else "~",))


def _look_up(args: list[str]) -> Found | None:
    """`command -v NAME`: where a program is."""
    return Found() if args[:1] in (["-v"], ["-V"]) else None


def _say(command: Command) -> Reads | None:
    return Reads(())


def _print(command: Command) -> Reads | None:
    first = command.words[1] if len(command.words) > 1 else ""
    return None if first is None or first.startswith("-") or 1 in command.globs else Reads(())


_SAY_ANYTHING: dict[str, Callable[[Command], Reads | None]] = {"echo": _say, ":": _say, "true": _say, "printf": _print}
"""Programs that only print their arguments, whatever these turn out to be."""

_SUMS = _files(Row(bad="c", bad_long=("--check",)))
_PROOFS: dict[str, Proof] = {
    "cat": _files(),
    "tac": _files(Row(valued="s")),
    "rev": _files(),
    "head": _files(Row(valued="nc")),
    "tail": _files(Row(valued="ncs", bad="fF", bad_long=("--follow", "--retry"))),
    "wc": _files(Row(bad_long=("--files0-from",))),
    "nl": _files(Row(valued="bdfhilnsvw")),
    "ls": _files(Row(valued="IwT"), default="."),
    "stat": _files(Row(valued="c")),
    "file": _files(Row(only="bhiLkNnpr", bad_long=("--magic-file", "--files-from", "--compile", "--uncompress"))),
    "du": _files(Row(valued="dBt", bad_long=("--files0-from", "--exclude-from"), bad="X"), default="."),
    "df": _texts(),
    "tree": _files(Row(valued="LPI", bad="oRl", bad_long=("--fromfile", "--output", "--info")), default="."),
    "cut": _files(Row(valued="bcdf")),
    "paste": _files(Row(valued="d")),
    "comm": _files(),
    "cmp": _files(Row(valued="in")),
    "diff": _files(
        Row(valued="UCWIF", bad="lXr", bad_long=("--from-file", "--to-file", "--recursive", "--paginate")), flat=True
    ),
    "sort": _files(
        Row(
            valued="ktS",
            bad="oT",
            bad_long=("--output", "--temporary-directory", "--compress-program", "--files0-from", "--random-source"),
        )
    ),
    "uniq": _files(Row(valued="fsw"), most=1),
    "fold": _files(Row(valued="w")),
    "expand": _files(Row(valued="t")),
    "column": _files(Row(valued="tsco")),
    "od": _files(Row(valued="AjNtwS")),
    "md5sum": _SUMS,
    "sha1sum": _SUMS,
    "sha256sum": _SUMS,
    "sha512sum": _SUMS,
    "realpath": _files(Row(only="emqszLP")),
    "readlink": _files(Row(only="femnqsvz")),
    "tr": _texts(),
    "basename": _texts(Row(valued="s")),
    "dirname": _texts(),
    "seq": _texts(Row(valued="fs")),
    "sleep": _texts(),
    "false": _texts(),
    "pwd": _exactly("-L", "-P"),
    "whoami": _exactly(),
    "nproc": _exactly("--all"),
    "id": _texts(Row(only="ugGnr")),
    "uname": _exactly("-a", "-s", "-r", "-m", "-n", "-v", "-o", "-p"),
    "which": _texts(Row(only="a")),
    "type": _texts(Row(only="aptPf")),
    "command": _look_up,
    "set": _set_options("-e", "-u", "-x", "-o", "pipefail", "-eu", "-ex", "-eux", "-euo", "-euxo", "+e", "+x", "+u"),
    "exit": _texts(most=1),
    "break": _texts(most=1),
    "continue": _texts(most=1),
    "cd": _cd,
    "test": _test,
    "date": _date,
    "find": _find,
    "sed": _sed,
    "awk": _awk,
    "jq": _jq,
    "grep": _pattern_then_files(_GREP, "e", ("--regexp",), "r"),
    "egrep": _pattern_then_files(_GREP, "e", ("--regexp",), "r"),
    "fgrep": _pattern_then_files(_GREP, "e", ("--regexp",), "r"),
    "rg": _pattern_then_files(_RG, "e", ("--regexp", "--files", "--type-list"), None),
    "python": _version,
    "python3": _version,
    "node": _version,
    "gcc": _version,
    "bash": _version,
}
