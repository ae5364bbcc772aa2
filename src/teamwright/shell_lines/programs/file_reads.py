"""Files that a read-only program reads for known arguments.

Depends on the grammars of `options` and on the languages of sed, awk, jq and find. Directories, rules and the
shell's words are in `read_only_commands`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from msgspec import Struct

from teamwright.sandbox.guarded_files import MISE_FILES
from teamwright.shell_lines.command_words import word_set
from teamwright.shell_lines.programs.awk import only_computes
from teamwright.shell_lines.programs.find import parse_find
from teamwright.shell_lines.programs.options import (
    OptionGrammar,
    parse_arguments,
    parse_grammar,
    program_grammar,
)
from teamwright.shell_lines.programs.sed import only_prints


class FilesRead(Struct, frozen=True):
    """The paths that a program reads, as written; `is_deep`: with everything below them.

    `-` is among them: for some programs it is a file of this name, not standard input. `requires_plain_files`: valid
    only if no path is a directory, because the program would follow links in it. `chosen_by`: valid only if none of
    these files is in the directory or above it, because they select the program that runs. `follows_links_in`:
    directories of which each link is followed too.
    """

    paths: tuple[str, ...] = ()
    is_deep: bool = False
    requires_plain_files: bool = False
    chosen_by: tuple[str, ...] = ()
    follows_links_in: tuple[str, ...] = ()


NO_FILES = FilesRead()
MATCH_PLACEHOLDER = "\0"
"""A file name that the shell fills in: neither a program nor a script."""

ReadProof = Callable[[list[str]], FilesRead | None]

_HELP = (["--help"], ["--version"])
_LANGUAGES = word_set("sed awk gawk mawk nawk jq find")
_READABLE = word_set("HOME PWD OLDPWD USER LOGNAME SHELL HOSTNAME PATH LANG TERM TZ")
_VERSIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "python": (("--version", "-V"), ()),
    "python3": (("--version", "-V"), ()),
    "node": (("--version", "-v"), ()),
    "gcc": (("--version",), ()),
    "g++": (("--version",), ()),
    "clang": (("--version",), ()),
    "make": (("--version",), ()),
    "cmake": (("--version",), ()),
    "perl": (("--version", "-v"), ()),
    "ruby": (("--version", "-v"), ()),
    "java": (("--version", "-version"), ()),
    "curl": (("--version",), ()),
    "bash": (("--version",), ()),
}
"""Programs that only print their version, the arguments for it, and the files that select another program."""

_VERSIONS_WITH_STATE: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "npm": (("--version", "-v"), ()),
    **dict.fromkeys(("pnpm", "yarn"), (("--version", "-v"), ("package.json", ".yarnrc", ".yarnrc.yml"))),
    **dict.fromkeys(("cargo", "rustc"), (("--version", "-V"), ("rust-toolchain", "rust-toolchain.toml"))),
    **dict.fromkeys(("pip", "pip3"), (("--version", "-V"), ())),
    "go": (("version",), ("go.mod", "go.work")),
}
"""Programs that also write state in the home directory when they print their version: logs, settings, counters."""


def find_version_files(name: str, args: list[str]) -> FilesRead | None:
    """Return the conditions of a call that only reads where nothing can be written, and prints a program's version."""
    version_args, files = _VERSIONS_WITH_STATE.get(name, ((), ()))
    return FilesRead(chosen_by=(*files, *MISE_FILES)) if len(args) == 1 and args[0] in version_args else None


def find_files_read(name: str, args: list[str]) -> FilesRead | None:
    """Return the files that the program reads, or None when it may do more than read."""
    by = program_grammar(name)
    if args in _HELP and (by is not None or name in _LANGUAGES):
        return NO_FILES
    proof = _PROOFS.get(name)
    if proof is not None:
        return proof(args)
    if name in _VERSIONS:
        version_args, files = _VERSIONS[name]
        return FilesRead(chosen_by=(*files, *MISE_FILES)) if len(args) == 1 and args[0] in version_args else None
    return None if by is None else read_by_grammar(by, args)


def read_by_grammar(by: OptionGrammar, args: list[str]) -> FilesRead | None:
    """Return the files that a program reads whose operands are explained by its grammar alone."""
    found = parse_arguments(args, by)
    if found is None:
        return None
    if by.operands in {"TEXTS", "NONE"}:
        return FilesRead(found.files) if by.operands == "TEXTS" or not found.operands else None
    paths = found.operands
    if by.operands == "DIRS":
        paths = paths or (".",)
    return FilesRead((*paths, *found.files))


def _parsed_by(text: str) -> ReadProof:
    """Return the proof of a program from a grammar in this module."""
    by: list[OptionGrammar] = []

    def proof(args: list[str]) -> FilesRead | None:
        by.append(parse_grammar(text)) if not by else None
        return read_by_grammar(by[0], args)

    return proof


def _grep(name: str, args: list[str]) -> FilesRead | None:
    by = program_grammar(name)
    found = parse_arguments(args, by) if by is not None else None
    if found is None:
        return None
    are_operands_paths = found.has("-e", "--regexp", "--files", "--type-list")
    named = found.operands if are_operands_paths else found.operands[1:]
    if name == "rg":
        return FilesRead((*(named or (".",)), *found.files), is_deep=True)
    actions = found.values("-d", "--directories")
    deep = found.has("-r", "--recursive") or "recurse" in actions
    if set(actions) - {"read", "skip", "recurse"}:
        return None
    return FilesRead((*(named or ((".",) if deep else ())), *found.files), deep)


def _diff(args: list[str]) -> FilesRead | None:
    by = program_grammar("diff")
    found = read_by_grammar(by, args) if by is not None else None
    return None if found is None else FilesRead(found.paths, requires_plain_files=True)


_SED = (
    "FILES -n -E -r -s -u -z -e= --quiet --silent --regexp-extended --separate --null-data --unbuffered --expression="
)


def _sed(args: list[str]) -> FilesRead | None:
    found = parse_arguments(args, parse_grammar(_SED))
    if found is None:
        return None
    scripts = found.values("-e", "--expression")
    if scripts and found.is_mixed:
        return None  # on other systems the first operand is a script too
    files = found.operands if scripts else found.operands[1:]
    scripts = scripts or list(found.operands[:1])
    fine = bool(scripts) and only_prints("\n".join(scripts)) and all(map(only_prints, scripts))
    return FilesRead((*files, *found.files)) if fine else None


_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_AWK_NAME = re.compile(r"[a-z]\w*|FS|OFS|RS|ORS|NR|SUBSEP|OFMT|CONVFMT|IGNORECASE|[A-Z]")


def _awk(args: list[str]) -> FilesRead | None:
    """Prove `awk [-F fs] [-v name=value] program file…`; an operand with `=` would be an assignment."""
    at = 0
    while at < len(args) and args[at].startswith("-") and args[at] != "--":
        option, value = args[at][:2], args[at][2:]
        if option not in {"-F", "-v"}:
            return None
        if not value:
            at += 1
            value = args[at] if at < len(args) else ""
        name, separator, _ = value.partition("=")
        if option == "-v" and not (separator and _AWK_NAME.fullmatch(name)):
            return None
        at += 1
    at += args[at : at + 1] == ["--"]
    program, *files = args[at:] or [""]
    if any(_ASSIGNMENT.fullmatch(file) or (file.startswith("-") and file != "-") for file in files):
        return None
    return FilesRead(tuple(files)) if program and only_computes(program) else None


_JQ = (
    "FILES -a -c -C -e -j -M -n -r -R -s -S --arg=2 --argjson=2 --ascii-output --color-output --compact-output"
    " --exit-status --indent= --join-output --monochrome-output --null-input --raw-input --raw-output --raw-output0"
    " --seq --slurp --sort-keys --stream --tab --unbuffered"
)
_JQ_NEVER = re.compile(r"\b(env|import|include|modulemeta|get_search_list)\b|\$__prog", re.IGNORECASE)


def _jq(args: list[str]) -> FilesRead | None:
    found = parse_arguments(args, parse_grammar(_JQ)) if "--" not in args else None
    program = found.operands[0] if found is not None and found.operands else MATCH_PLACEHOLDER
    if found is None or MATCH_PLACEHOLDER in program or _JQ_NEVER.search(program):
        return None
    return FilesRead((*found.operands[1:], *found.files))


def names_time_zone(text: str) -> bool:
    """Return True for a date with `TZ="…"`, which names a file of a time zone, perhaps by its path."""
    return "TZ=" in text


_DATE = "TEXTS -u -R -I[=] -d= -r=FILE --utc --universal --date= --reference=FILE --rfc-email --iso-8601[=] --rfc-3339="


def _date(args: list[str]) -> FilesRead | None:
    """Prove a call that prints a date; an operand without a plus sign would set the clock."""
    found = parse_arguments(args, parse_grammar(_DATE))
    if found is None or len(found.operands) > 1 or any(not word.startswith("+") for word in found.operands):
        return None
    if any(map(names_time_zone, found.values("-d", "--date"))):
        return None
    return FilesRead(found.files)


_FOUND = f"./{MATCH_PLACEHOLDER}"
"""A file that find names."""

_PLAIN_START = re.compile(r"[\w./][\w./ -]*")
"""A start with which no found name looks like an option, an assignment or an address."""


def _find(args: list[str]) -> FilesRead | None:
    found = parse_find(args) if not any(map(names_time_zone, args)) else None
    if found is None or (found.runs and not all(map(_PLAIN_START.fullmatch, found.starts))):
        return None
    paths = [*found.starts, *found.files]
    for name, *words in found.runs:
        inner = read_by_names(name, [_FOUND if word == "{}" else word for word in words])
        if inner is None:
            return None
        paths += inner
    follows = found.follows_links or (bool(found.runs) and not found.is_plain)
    return FilesRead(tuple(paths), is_deep=bool(found.runs), follows_links_in=found.starts if follows else ())


def read_by_names(name: str, args: list[str]) -> list[str] | None:
    """Return the files that a program reads besides those named later, which placeholders in `args` represent."""
    if name == "echo":
        return []
    found = find_files_read(name, args) if program_grammar(name) is not None or name in _LANGUAGES - {"find"} else None
    if found is None or found.is_deep or found.requires_plain_files or found.chosen_by or found.follows_links_in:
        return None
    return [path for path in found.paths if path != _FOUND]


def _strings(args: list[str]) -> FilesRead | None:
    """Return the files that `strings` reads. GNU's replaces a word with an at sign by the words of a file."""
    by = program_grammar("strings")
    return read_by_grammar(by, args) if by is not None and not any(arg.startswith("@") for arg in args) else None


_UNCOLOURED = frozenset({"auto", "never", "no", "none", "tty", "if-tty"})


def _ls(args: list[str]) -> FilesRead | None:
    """Return the directories that `ls` lists. A colour may tell whether the target of a link exists."""
    by = program_grammar("ls")
    found = parse_arguments(args, by) if by is not None else None
    if found is None:
        return None
    paths = (*(found.operands or (".",)), *found.files)
    coloured = not set(found.values("--color")) <= _UNCOLOURED
    return FilesRead(paths, follows_links_in=paths if coloured else ())


_TREE_ATTACHED = re.compile(r"-[A-Za-z]*(?:[IP].+|L(?!\d*$).+)", re.DOTALL)


def _tree(args: list[str]) -> FilesRead | None:
    """Return the directories that `tree` lists.

    A letter takes the next word as its value; attached text is more letters.
    """
    by = program_grammar("tree")
    return read_by_grammar(by, args) if by is not None and not any(map(_TREE_ATTACHED.fullmatch, args)) else None


_TAR_LIST = re.compile(r"-?t?v?[zjJ]?t?v?f")


def _tar(args: list[str]) -> FilesRead | None:
    """Prove `tar tf FILE` only; a name with a colon would be another machine's."""
    if len(args) != 2 or not _TAR_LIST.fullmatch(args[0]) or args[0].count("t") != 1:
        return None
    return FilesRead((args[1],)) if ":" not in args[1] and not args[1].startswith("-") else None


def _unzip(args: list[str]) -> FilesRead | None:
    """Prove `unzip -l FILE` only; unzip has its own patterns, and tries other endings."""
    if len(args) != 2 or args[0] not in {"-l", "-v"} or set(args[1]) & set("*?[\\") or args[1].startswith("-"):
        return None
    return FilesRead((args[1], f"{args[1]}.zip", f"{args[1]}.ZIP"))


def _zcat(args: list[str]) -> FilesRead | None:
    """Prove `zcat FILE.gz…` only; some systems add their own ending."""
    if not args or any(arg.startswith("-") or not arg.endswith((".gz", ".tgz", ".Z")) for arg in args):
        return None
    return FilesRead((*args, *(f"{arg}.Z" for arg in args)))


def _only_words(*allowed: str) -> ReadProof:
    return lambda args: NO_FILES if not args or (len(args) == 1 and args[0] in allowed) else None


def _set(args: list[str]) -> FilesRead | None:
    """Prove options of the shell's `set`; without one it prints every variable, secrets too."""
    known = word_set("-e -u -x -o pipefail -eu -ex -eux -euo -euxo +e +x +u")
    return NO_FILES if args and all(arg in known for arg in args) else None


def _cd(args: list[str]) -> FilesRead | None:
    targets = args[1:] if args[:1] == ["--"] else args
    if len(targets) > 1 or any(target.startswith("-") for target in targets):
        return None
    return FilesRead((targets[0] if targets else "~",))


def _look_up(args: list[str]) -> FilesRead | None:
    """Prove `command -v NAME`, which prints the path of a program."""
    if args[:1] not in (["-v"], ["-V"]) or any(arg.startswith("-") for arg in args[1:]):
        return None
    return _paths_among(args[1:])


def _paths_among(names: Iterable[str]) -> FilesRead:
    """Return the paths among names of programs. For one with a slash, its existence is shown."""
    return FilesRead(tuple(name for name in names if "/" in name))


_TYPE = "TEXTS -a -f -p -P -t"


def _type(args: list[str]) -> FilesRead | None:
    return None if parse_arguments(args, parse_grammar(_TYPE)) is None else _paths_among(args)


def _which(args: list[str]) -> FilesRead | None:
    by = program_grammar("which")
    return None if by is None or parse_arguments(args, by) is None else _paths_among(args)


def _printenv(args: list[str]) -> FilesRead | None:
    return NO_FILES if args and all(arg in _READABLE for arg in args) else None


_PROOFS: dict[str, ReadProof] = {
    "grep": lambda args: _grep("grep", args),
    "egrep": lambda args: _grep("grep", args),
    "fgrep": lambda args: _grep("grep", args),
    "rg": lambda args: _grep("rg", args),
    "diff": _diff,
    "sed": _sed,
    "awk": _awk,
    "gawk": _awk,
    "mawk": _awk,
    "nawk": _awk,
    "jq": _jq,
    "date": _date,
    "find": _find,
    "strings": _strings,
    "tar": _tar,
    "ls": _ls,
    "tree": _tree,
    "unzip": _unzip,
    "zcat": _zcat,
    "hostname": _only_words("-s", "-I"),
    "false": lambda _: NO_FILES,
    "type": _type,
    "which": _which,
    "command": _look_up,
    "set": _set,
    "exit": _parsed_by("TEXTS<1"),
    "break": _parsed_by("TEXTS<1"),
    "continue": _parsed_by("TEXTS<1"),
    "cd": _cd,
    "printenv": _printenv,
}
