"""Files that a command changes, according to its words: what deny rules look at, and what modes accept.

For deny rules on any program: every file that the command would change (`find_changed_files`). For modes that accept
edits: the commands that only change files (mkdir, touch, cp, mv), with every path that they would read and write
(`find_changes`). Depends on words, and on the disk's present state. Verdicts are in `command_facts`.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from teamwright.git.repository import possible_trees
from teamwright.permissions.possible_file_names import Operand, glob_matches, option_values
from teamwright.permissions.read_only_commands import absolute_paths, expand_arguments
from teamwright.shell_lines.command_words import Words, word_set
from teamwright.shell_lines.expansion import Shape
from teamwright.shell_lines.parsed_line import ShellCommand
from teamwright.shell_lines.programs.file_reads import names_time_zone
from teamwright.shell_lines.programs.find import MAY_DIFFER
from teamwright.shell_lines.programs.options import parse_arguments, parse_grammar
from teamwright.shell_lines.step_limit import found_once, spend_steps
from teamwright.storage.real_paths import real_path

_CHANGERS = word_set(
    "rm rmdir unlink shred truncate tee ln link install rsync dd chmod chown chgrp setfacl patch mktemp split unzip"
    " touch mkdir mkfifo mknod fallocate script gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd rename sponge"
    " ed ex vi vim nvim nano emacs"
)
"""Programs that change their operands with any options."""

_MOVERS = word_set("cp mv")
"""Programs that change their last operand, in forms that `find_changes` does not cover."""

_RECURSIVE = re.compile(r"-[A-Za-z]*R|--rec")  # long options may be abbreviated
_ALL_BELOW = {
    **dict.fromkeys(("rm", "mv"), re.compile("")),
    "cp": re.compile(r"-[A-Za-z]*[rRa]|--(rec|a)"),
    **dict.fromkeys(("chmod", "chown", "chgrp", "setfacl"), _RECURSIVE),
    **dict.fromkeys(("gzip", "gunzip", "zstd", "unzstd"), re.compile(r"-[A-Za-z0-9]*r|--rec")),
}
"""Programs that change everything below their operands when one of their words begins with this text."""

_INTO_LAST = word_set("cp mv rsync")
_CONTENTS = re.compile(r"(?:.*/)?\.{0,2}/?", re.DOTALL)
"""A path that some systems read as the contents of a directory."""

_IN_PLACE = {
    "sed": re.compile(r"-[nErsuz]*i|--i"),
    "perl": re.compile(r"-[pnlawsW0-9]*i"),
    "ruby": re.compile(r"-[pnlaws0-9]*i"),
    "yq": re.compile(r"-[PrejnCM]*i|--inplace"),
    "awk": re.compile(r"(-i|--include=)?inplace$"),
    "cp": re.compile(r"-[A-Za-z]*l|--l"),  # a hard link: what is written to the copy is written to the file
    "gawk": re.compile(r"(-i|--include=)?inplace$"),
}
"""Programs that change their operands when one of their words begins with this text."""

_TARGET_OPTIONS = {
    "cp": ("-t", "--target-directory"),
    "mv": ("-t", "--target-directory"),
    "ln": ("-t", "--target-directory"),
    "install": ("-t", "--target-directory"),
    **dict.fromkeys(("sort", "shuf", "pandoc", "diff", "time", "strace", "ltrace", "dot"), ("-o", "--output")),
    **dict.fromkeys(("awk", "gawk"), ("-o", "-p", "-d", "--pretty-print", "--profile", "--dump-variables")),
    **dict.fromkeys(("gcc", "g++", "cc", "c++", "clang", "clang++", "ld", "as", "rustc", "go", "tree"), ("-o",)),
    "openssl": ("-out",),
    "git": ("--output", "-o"),
    "curl": (
        *("-o", "-D", "-c", "--output", "--output-dir", "--dump-header", "--cookie-jar", "--trace", "--trace-ascii"),
        *("--stderr", "--libcurl", "--etag-save", "--hsts", "--alt-svc"),
    ),
    "wget": ("-O", "-P", "-o", "-a", "--output-document", "--directory-prefix", "--output-file", "--append-output"),
    "tar": ("-C", "--directory", "--index-file"),
    "csplit": ("-f", "--prefix"),
    "history": ("-w", "-a"),
    "unzip": ("-d",),
    "find": ("-fprint", "-fprint0", "-fprintf", "-fls"),
}
"""Options whose value is where a program writes."""

_GIT_WRITES = {
    "config": ("-f", "--file"),
    "checkout-index": ("--prefix",),
    "init": ("--separate-git-dir",),
    "clone": ("--separate-git-dir",),
    "fast-export": ("--export-marks",),
    "fast-import": ("--export-marks", "--export-pack-edges"),
    "read-tree": ("--index-output",),
    "format-patch": ("-o", "--output-directory"),
    "bugreport": ("-o", "--output-directory"),
}
"""Options of single git commands whose value is where they write."""

_GIT_TARGETS = {
    **{"clone": 1, "init": 0, "bundle create": 1, "submodule add": 1, "pack-objects": 0, "interpret-trailers": 0},
    **{"worktree add": 1, "worktree move": 1, "worktree remove": 1},
}
"""Commands of git that write their operands, and how many words come before these."""

_GIT_WRITES_HERE = {"init": ".git", "format-patch": "0001-.patch"}
"""Commands of git that write into the working directory when nothing else is named, and the name of a file there."""

_ONE_OPERAND = {"zip": 0, "uniq": 1, "xxd": 1}
"""Programs that write one operand, and how many come before it."""

_TAR_WRITES = re.compile(r"-?[A-Za-z]*[cruA]|--(cr|ap|up|conc|cat|del)")
_SUFFIX = re.compile(r"(?:-[nErsuz]*i|--i[a-z-]*=)(?P<suffix>[^/]*/.*)", re.DOTALL)
"""A suffix of sed that names a backup in another directory."""

_GIT_CHANGERS = word_set("checkout restore rm mv clean")
"""Subcommands of git that change the files they name."""

_GIT_KEEPS_LINKS = word_set("checkout restore clean")
"""Those of them that never follow a link in the work tree. `git rm` and `git mv` do, when a link replaces a directory.
"""

MAX_DIRECTORIES = 5_000
"""The most directories below a path of `git rm` that are searched for links."""

_PATHSPEC = re.compile(r":(?:\([^)]*\)|/)")
_DRY_RUN = re.compile(r"-[A-Za-z]*n|--dry-run")
_GIT_VALUED = word_set("-C -c --git-dir --work-tree --namespace")
_WILD = re.compile(r"[*?\[{]")

_SED_WRITES = re.compile(
    r"(?:(?:^|[;{}\n]|^-[nErsuz]*e|^--expression=)\s*+(?:[\d$,~+]++|/[^/\n]*/)?+\s*+!?\s*+[wW]"
    r"|s([^\w\s])(?:(?!\1).)*\1(?:(?!\1).)*\1[gpiIeEmM\d]*+w)\s*+(?P<file>[^\s;}][^\n]*)"
)
_AWK_WRITES = re.compile(r'>\s*"(?P<file>[^"]+)"')
_WRITTEN_BY_SCRIPTS = {"sed": _SED_WRITES, **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _AWK_WRITES)}
"""Files that a script of these programs writes, when the script is in the line."""


class ChangedFiles(Struct, frozen=True):
    """Files that a command would change.

    `below`: directories with a pattern; everything in them whose name matches it is changed. `unknown` are names of
    which only the shell knows a part; one that is `certain` is certainly changed. `new`: directories with a pattern of
    names that may be made in them. `copies`: directories, and where a copy of everything below them is made.
    `pathspecs`: those of the paths that git gets only to find files of its work tree. It changes what is in the top
    directory of that, but neither the directory itself nor its `.git`, and it follows no link.
    """

    paths: tuple[Path, ...] = ()
    below: tuple[tuple[Path, str], ...] = ()
    unknown: tuple[Operand, ...] = ()
    new: tuple[tuple[Path, str], ...] = ()
    copies: tuple[tuple[Path, Path], ...] = ()
    pathspecs: frozenset[Path] = frozenset()

    @property
    def has_unknown(self) -> bool:
        """True when a file is changed whose name only the shell knows."""
        return any(operand.is_certain for operand in self.unknown)


def find_changed_files(command: ShellCommand) -> ChangedFiles:
    """Return the files that the command would change, according to its words and the file names for its patterns."""
    command = _where_git_works(command)
    understood = find_changes(command) is not None
    written = _changed_as_written(command, understood)
    names = expand_arguments(command) if command.globs else None
    if names is None:
        return written
    matched = _changed_as_written(replace(command, words=(command.words[0], *names), globs=frozenset()), understood)
    others = (frozenset(written.paths) - written.pathspecs) | (frozenset(matched.paths) - matched.pathspecs)
    return replace(
        written,
        paths=(*written.paths, *matched.paths),
        below=(*written.below, *matched.below),
        copies=(*written.copies, *matched.copies),
        pathspecs=(written.pathspecs | matched.pathspecs) - others,
    )


def _where_git_works(command: ShellCommand) -> ShellCommand:
    """Return a git command with the directories of its options `-C` as its working directories."""
    words = command.words
    if not words or os.path.basename(words[0] or "") != "git":
        return command
    for at in range(1, min(_git_subcommand(words), len(words))):
        if words[at - 1] == "-C":
            named = words[at]
            path = None if named is None else os.path.expanduser(named)
            moved = {
                None if path is None or (place is None and not path.startswith("/")) else Path(place or "/", path)
                for place in command.directories
            }
            spend_steps(sum(len(str(place)) for place in moved))
            command = replace(command, directories=frozenset(moved))
    return command


def _git_subcommand(words: Words) -> int:
    """Return the index of the first word after the options of git itself."""
    at = 1
    while at < len(words) and (words[at] or "").startswith("-"):
        at += 2 if words[at] in _GIT_VALUED else 1
    return at


def _changed_as_written(command: ShellCommand, understood: bool) -> ChangedFiles:
    name = os.path.basename(command.words[0] or "") if command.words else ""
    paths: list[Path] = []
    below: list[tuple[Path, str]] = []
    unknown: list[Operand] = []
    new: list[tuple[Path, str]] = []
    pathspecs = set[Path]()
    others = set[Path]()
    targets = (
        *_named_targets(name, command, understood),
        *(target for option in _TARGET_OPTIONS.get(name, ()) for target in option_values(option, command)),
        *copied_names(name, command),
        *_targets_by_order(name, command),
    )
    for target in targets:
        text = target.shape[0] if len(target.shape) == 1 else None
        if text is None:
            unknown.append(target)
            continue
        spend_steps(10 * len(command.directories))
        fixed = _WILD.split(text, maxsplit=1)
        path = os.path.expanduser(text if len(fixed) == 1 else os.path.dirname(fixed[0]))
        if None in command.directories and not os.path.isabs(path):
            unknown.append(Operand((None, f"/{path}"), target.is_certain))
        found = [Path(os.path.join(place or os.sep, path)) for place in command.directories]
        paths += found
        (pathspecs if target.is_pathspec else others).update(found)
        below += [(one, target.below) for one in found if target.below]
        new += [(one, target.new) for one in found if target.new]
    copies = tuple(copied_directories(name, command))
    return ChangedFiles(
        tuple(paths), tuple(below), tuple(unknown), tuple(new), copies, pathspecs=frozenset(pathspecs - others)
    )


def _named_targets(name: str, command: ShellCommand, understood: bool) -> Iterator[Operand]:
    """Yield the words that name changed files. `understood`: `find_changes` already covers this command."""
    operands = [at for at, word in enumerate(command.words) if at and word != "" and not (word or "").startswith("-")]
    if name == "dd":
        for shape in map(command.shape, operands):
            if shape[0] is None or shape[0].startswith("of="):
                yield Operand((shape[0] and shape[0].removeprefix("of="), *shape[1:]), is_certain=True)
        return
    if name in _WRITTEN_BY_SCRIPTS:
        texts = (command.shape(at)[0] or "" for at in range(1, len(command.words)))
        found = (match for text in texts for match in _WRITTEN_BY_SCRIPTS[name].finditer(text))
        yield from (Operand((match["file"],)) for match in found)
    if _changes_all(name, command):
        pass
    elif name in _MOVERS and not understood:
        operands = operands if name == "mv" else operands[-1:]
    elif name == "find" and "-delete" in command.words:
        starts = [at for at in operands if at < _first_test(command)]
        shapes = [command.shape(at) for at in starts] or [(".",)]
        yield from (Operand(shape, is_certain=True, below=_deleted_names(command)) for shape in shapes)
        return
    else:
        yield from _git_targets(command) if name == "git" else ()
        return
    begins = _ALL_BELOW.get(name)
    deep = begins is not None and any(map(begins.match, map(str, command.words)))
    for at in operands:
        into = (
            name in _INTO_LAST and at == operands[-1] and not any(str(word).startswith("-t") for word in command.words)
        )
        below = _merges(command.words[1:at]) if into else deep
        yield Operand(command.shape(at), is_certain=True, below="*" if below else "")
        yield from _linked_below(command, at) if name == "cp" and deep else ()


def _linked_below(command: ShellCommand, at: int) -> Iterator[Operand]:
    """Yield what links below a directory lead to: `cp -rl` follows them (coreutils, cp.c: only `-r` alone does not)."""
    tops = (Path(place or "/", os.path.expanduser(command.words[at] or "")) for place in command.directories)
    for link in (file for top in tops for file in files_below(top) or () if file.is_symlink()):
        yield Operand((str(link),), is_certain=True, below="*")


def _merges(words: Sequence[str | None]) -> bool:
    """Return True when the contents of a directory are merged into the target, or other files there are removed."""
    return any(word and (_CONTENTS.fullmatch(word) or word.startswith("--del")) for word in words)


def _first_test(command: ShellCommand) -> int:
    """Return the end of the starting points of a find."""
    tests = (
        at for at, word in enumerate(command.words) if at and word and re.match(r"-(?![PHLEXdsxDO]+$)|[()!,]", word)
    )
    return next(tests, len(command.words))


def _deleted_names(command: ShellCommand) -> str:
    """Return the pattern that all names have which `find -delete` deletes."""
    words = command.words
    names = [words[at + 1] for at, word in enumerate(words[:-1]) if word == "-name"]
    plain = "-delete" in words[-1:] and not MAY_DIFFER & set(map(str, words))
    return next((name for name in names if name and plain), "*")


def _changes_all(name: str, command: ShellCommand) -> bool:
    """Return True when it changes every file among its operands."""
    begins = _IN_PLACE.get(name)
    return name in _CHANGERS or (begins is not None and any(word and begins.match(word) for word in command.words[1:]))


def _git_targets(command: ShellCommand) -> Iterator[Operand]:
    words = command.words
    at = _git_subcommand(words)
    if words[at : at + 1] and words[at] in _GIT_CHANGERS:
        after = range(at + 1, len(words))
        operands = [later for later in after if words[later] != "" and not (words[later] or "").startswith("-")]
        stays_inside = words[at] in _GIT_KEEPS_LINKS
        shapes = (shape for later in operands for shape in _git_paths(command, later))
        yield from (Operand(shape, below="*", is_pathspec=stays_inside) for shape in shapes)
        if words[at] == "rm":
            yield from (target for later in operands for target in _linked_directories(command, later))
        tries = any(word and _DRY_RUN.match(word) for word in words[at:])
        if words[at] == "clean" and not tries and all(re.fullmatch(r"-\w*e", words[it - 1] or "") for it in operands):
            yield Operand((".",), below="*", is_pathspec=True)


def _linked_directories(command: ShellCommand, at: int) -> Iterator[Operand]:
    """Yield what links to directories below a path lead to: `git rm` deletes files there that it had before the link.

    Without a certain answer any file may be changed.
    """
    word = command.words[at] or ""
    fixed = _WILD.split(word, maxsplit=1)
    path = os.path.expanduser(word if len(fixed) == 1 else os.path.dirname(fixed[0]))
    for place in command.directories:
        # The other signs of a pathspec, such as `:!src`, may mean every file.
        tops = possible_trees(place) if word.startswith(":") and place is not None else ()
        links = [_find_linked_directories(top) for top in tops or (Path(place or "/", path),)]
        if None in links:
            yield Operand((None,), is_certain=True)
        yield from (Operand((link,), is_certain=True, below="*") for some in links for link in some or ())


def _find_linked_directories(top: Path) -> list[str] | None:
    """Return the links to directories below a path; None when there are too many directories."""
    return found_once((_find_linked_directories, top), lambda: _search_linked_directories(top))


def _search_linked_directories(top: Path) -> list[str] | None:
    found = list[str]()
    left = MAX_DIRECTORIES
    for directory, names, files in os.walk(top):
        spend_steps(5 * (1 + len(names) + len(files)))
        left -= 1 + len(names)
        if left < 0:
            return None
        paths = (os.path.join(directory, name) for name in names)
        found += [path for path in paths if os.path.islink(path)]
    return found


def _git_paths(command: ShellCommand, at: int) -> Iterator[Shape]:
    """Yield the word at this index as paths: `:/src` and `:(top)src` begin where the work tree does."""
    yield command.shape(at)
    signs = _PATHSPEC.match(command.words[at] or "")
    if signs is not None:
        for place in command.directories:
            tops = possible_trees(place) if place is not None else ()
            yield from ((os.path.join(top, (command.words[at] or "")[signs.end() :]),) for top in ("", *tops))


def _targets_by_order(name: str, command: ShellCommand) -> Iterator[Operand]:
    """Yield the files that a program writes by its own order of words."""
    words = command.words
    operands = [at for at in range(1, len(words)) if not (words[at] or "").startswith("-")]
    if name in _ONE_OPERAND:
        first = _ONE_OPERAND[name]
        yield from (Operand(command.shape(at), is_certain=True) for at in operands[first : first + 1])
    elif name == "tar" and _makes_archive(words):
        cluster = f"-{(words[1] or '').removeprefix('-')}"
        yield from option_values("-f", replace(command, words=(words[0], cluster, *words[2:])))
        yield from option_values("--file", command)
        removes = any(word and word.startswith("--rem") for word in words)
        yield from (Operand(command.shape(at), is_certain=True, below="*") for at in operands if removes)
    elif name == "sed":
        found = (_SUFFIX.match(command.shape(at)[0] or "") for at in range(1, len(words)))
        yield from (Operand((match["suffix"].replace("*", "0"),), is_certain=True) for match in found if match)
    elif name == "git":
        yield from _written_by_git(command)


def _makes_archive(words: Words) -> bool:
    """Return True when tar writes its archive: by its first word, or by an option."""
    return any(word and (at == 1 or word[0] == "-") and _TAR_WRITES.match(word) for at, word in enumerate(words[:4]))


def _written_by_git(command: ShellCommand) -> Iterator[Operand]:
    words = command.words
    at = _git_subcommand(words)
    name = words[at] or "" if at < len(words) else ""
    operands = [later for later in range(at + 1, len(words)) if not (words[later] or "").startswith("-")]
    both = f"{name} {words[operands[0]]}" if operands else name
    first = _GIT_TARGETS.get(name, _GIT_TARGETS.get(both, len(words)))
    named = [Operand(command.shape(later), is_certain=True) for later in operands[first:]]
    for option in _GIT_WRITES.get(name, ()):
        named += option_values(option, command, at + 1)
    yield from named
    if not named and name in _GIT_WRITES_HERE:
        yield Operand((_GIT_WRITES_HERE[name],), is_certain=True)
    elif not named and name == "clone" and operands and (url := words[operands[0]]):
        yield Operand((os.path.basename(url.rstrip("/")).removesuffix(".git"),), is_certain=True)
    for option in ("--work-tree", *(("--git-dir",) if name == "init" else ())):
        yield from option_values(option, command)


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
_ENDS_IN_CONTENTS = re.compile(r"/\.?$")
_JOINING_SIGNS = re.compile(r"&&|\|\||\d?[<>]&\d?-?|&>>?")
_CONCURRENT = re.compile(r"[&|()`]|\{\s|\b(?:for|while|until|select|case|coproc|function|eval|trap)\b")


def runs_in_order(line: str) -> bool:
    """Return True when each command of the line ends before the next one starts, and none runs twice.

    Only lines without any sign of a loop, a pipe, a subshell or a background job qualify, quoted signs included.
    """
    return _CONCURRENT.search(_JOINING_SIGNS.sub(" ", line)) is None


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
    if any(map(_ENDS_IN_CONTENTS.search, found.operands[:-1])):
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
    return found_once((files_below, source), lambda: _list_files(source))


def _list_files(source: Path) -> list[Path] | None:
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
        yield from _copies_of_word(command, at, target, exact)


_KEEPS_BACKUPS = re.compile(r"-[A-Za-z]*[bS]|--b|--su")


def backed_up_names(command: ShellCommand) -> Iterator[Operand]:
    """Yield the files whose contents a copy keeps under another name before it replaces them (`ln -b`, `cp -S~`)."""
    name = os.path.basename(command.words[0] or "") if command.words else ""
    if name in _COPIERS and any(word and _KEEPS_BACKUPS.match(word) for word in command.words[1:]):
        yield from copied_names(name, command)


def copied_directories(name: str, command: ShellCommand) -> Iterator[tuple[Path, Path]]:
    """Yield the directories that are copied with everything below them, and each directory that may be their copy."""
    sources, target = _sources_and_target(name, command) if name in _TREE_COPIERS else ((), "")
    for at, place in itertools.product(sources, command.directories):
        word = os.path.expanduser(command.words[at] or "")
        if word and at not in command.globs and (place is not None or os.path.isabs(word)):
            source = Path(place or "/", word)
            goal = Path(place or "/", os.path.expanduser(target))
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
        *operands, last = operands
        target = command.shape(last)[0]
    elif target is None and name == "ln":
        target = "."  # `ln FILE` makes a link of that name here
    return (operands, target) if target is not None else ([], "")


def _copies_of_word(command: ShellCommand, at: int, target: str, exact: bool) -> Iterator[Operand]:
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
