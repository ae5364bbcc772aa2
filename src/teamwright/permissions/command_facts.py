"""Facts about one command of a line: what it reads and changes, and the verdicts on all files that it names.

Depends on the tables of programs, on `operands` and on `files`. Leaves rules about commands to `commands`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from pathlib import Path

from teamwright.permissions.file_changes import FileChanges, find_changes
from teamwright.permissions.git_access import named_files, shown_work_trees, unknown_operands
from teamwright.permissions.operands import Operand, base_directories, find_operands, may_be_file
from teamwright.permissions.paths import GUARDED, judge_all_below, judge_path, judge_unknown_path, question_below
from teamwright.permissions.programs.find_expression import MAY_DIFFER
from teamwright.permissions.read_only_commands import CommandReads, expand_arguments, prove_read_only
from teamwright.permissions.rule_index import DecisionContext
from teamwright.permissions.shell.parsed_line import ShellCommand
from teamwright.permissions.shell.word_expansion import Shape
from teamwright.permissions.verdict import Decision, Verdict
from teamwright.permissions.word_lists import word_set
from teamwright.protocol.values import dataclass

_CHANGERS = word_set(
    "rm rmdir unlink shred truncate tee ln link install rsync dd chmod chown chgrp setfacl patch ed ex mktemp split"
    " csplit unzip touch mkdir mkfifo mknod gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd rename sponge vi vim nvim"
    " nano emacs"
)
"""Programs that change their operands, whatever their options."""

_MOVERS = word_set("cp mv")
"""Programs that change their last operand, in forms that the table of edits does not cover."""

_RECURSIVE = re.compile(r"-[A-Za-z]*R|--recursive")
_ALL_BELOW = {
    **dict.fromkeys(("rm", "mv"), re.compile("")),
    **dict.fromkeys(("chmod", "chown", "chgrp", "setfacl"), _RECURSIVE),
}
"""Programs that change everything below their operands when one of their words begins with this text."""

_INTO_LAST = word_set("cp mv rsync")
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
"""Programs that change their operands when one of their words begins with this text."""

_TARGET_OPTIONS = {
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

_GIT_CHANGERS = word_set("checkout restore rm mv clean")
"""Subcommands of git that change the files they name."""

_GIT_VALUED = word_set("-C -c --git-dir --work-tree --namespace")
_WILD = re.compile(r"[*?\[{]")


@dataclass(frozen=True, slots=True)
class ChangedFiles:
    """Files that a command would change.

    `below`: directories with a pattern; everything in them whose name matches it is changed. `unknown` are names of
    which only the shell knows a part; one that is `certain` is certainly changed.
    """

    paths: tuple[Path, ...] = ()
    below: tuple[tuple[Path, str], ...] = ()
    unknown: tuple[Operand, ...] = ()

    @property
    def has_unknown(self) -> bool:
        """True when a file is changed whose name only the shell knows."""
        return any(operand.is_certain for operand in self.unknown)


_SED_WRITES = re.compile(
    r"(?:(?:^|[;{}\n]|^-[nErsuz]*e|^--expression=)\s*+(?:[\d$,~+]++|/[^/\n]*/)?+\s*+!?\s*+[wW]"
    r"|s([^\w\s])(?:(?!\1).)*\1(?:(?!\1).)*\1[gpiIeEmM\d]*+w)\s*+(?P<file>[^\s;}][^\n]*)"
)
_AWK_WRITES = re.compile(r'>\s*"(?P<file>[^"]+)"')
_WRITTEN_BY_SCRIPTS = {"sed": _SED_WRITES, **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _AWK_WRITES)}
"""Files that a script of these programs writes, when the script is in the line."""


def find_changed_files(command: ShellCommand) -> ChangedFiles:
    """Return the files that the command would change, according to its words and the file names for its patterns."""
    understood = find_changes(command) is not None
    written = _changed_as_written(command, understood)
    names = expand_arguments(command) if command.globs else None
    if names is None:
        return written
    matched = _changed_as_written(replace(command, words=(command.words[0], *names), globs=frozenset()), understood)
    return replace(written, paths=(*written.paths, *matched.paths), below=(*written.below, *matched.below))


def _changed_as_written(command: ShellCommand, understood: bool) -> ChangedFiles:
    name = os.path.basename(command.words[0] or "") if command.words else ""
    paths: list[Path] = []
    below: list[tuple[Path, str]] = []
    unknown: list[Operand] = []
    for target in (*_targets(name, command, understood), *_option_targets(name, command)):
        text = target.shape[0] if len(target.shape) == 1 else None
        if text is None:
            unknown.append(target)
            continue
        fixed = _WILD.split(text, maxsplit=1)
        path = os.path.expanduser(text if len(fixed) == 1 else os.path.dirname(fixed[0]))
        if None in command.directories and not os.path.isabs(path):
            unknown.append(Operand((None, f"/{path}"), target.is_certain))
        found = [Path(os.path.join(place or os.sep, path)) for place in command.directories]
        paths += found
        below += [(one, target.below) for one in found if target.below]
    return ChangedFiles(tuple(paths), tuple(below), tuple(unknown))


def _targets(name: str, command: ShellCommand, understood: bool) -> Iterator[Operand]:
    """Yield the words that name changed files. `understood`: `file_changes` already covers this command."""
    given = [at for at, word in enumerate(command.words) if at and word != "" and not (word or "").startswith("-")]
    if name == "dd":
        for shape in map(command.shape, given):
            if shape[0] is None:
                yield Operand(shape, is_certain=True)
            elif shape[0].startswith("of="):
                yield Operand((shape[0].removeprefix("of="), *shape[1:]), is_certain=True)
        return
    if name in _WRITTEN_BY_SCRIPTS:
        texts = (command.shape(at)[0] or "" for at in range(1, len(command.words)))
        found = (match for text in texts for match in _WRITTEN_BY_SCRIPTS[name].finditer(text))
        yield from (Operand((match["file"],)) for match in found)
    if _changes_all(name, command):
        pass
    elif name in _MOVERS and not understood:
        given = given if name == "mv" else given[-1:]
    elif name == "find" and "-delete" in command.words:
        starts = [at for at in given if at < _first_test(command)]
        shapes = [command.shape(at) for at in starts] or [(".",)]
        yield from (Operand(shape, is_certain=True, below=_deleted_names(command)) for shape in shapes)
        return
    else:
        yield from _git_targets(command) if name == "git" else ()
        return
    begins = _ALL_BELOW.get(name)
    deep = begins is not None and any(map(begins.match, map(str, command.words)))
    for at in given:
        into = name in _INTO_LAST and at == given[-1] and not any(str(word).startswith("-t") for word in command.words)
        below = _merges(command.words[1:at]) if into else deep
        yield Operand(command.shape(at), is_certain=True, below="*" if below else "")


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
    place, at = "", 1
    while at < len(words) and (words[at] or "").startswith("-"):
        if words[at] == "-C":
            place = os.path.join(place, *(word or "" for word in words[at + 1 : at + 2]))
        at += 2 if words[at] in _GIT_VALUED else 1
    if words[at : at + 1] and words[at] in _GIT_CHANGERS:
        for after in range(at + 1, len(words)):
            word = words[after]
            if word is None:
                yield Operand(command.shape(after), below="*")
            elif word and not word.startswith("-"):
                yield Operand((os.path.join(place, word),), below="*")


def _option_targets(name: str, command: ShellCommand) -> Iterator[Operand]:
    """Yield the output files that options name: in the next word, joined, or after `=`."""
    for option in _TARGET_OPTIONS.get(name, ()):
        for at, word in enumerate(command.words):
            begin = command.shape(at)[0] or ""
            if word == option:
                yield Operand(command.shape(at + 1) if at + 1 < len(command.words) else (".",), is_certain=True)
            elif begin.startswith(f"{option}=") and option.startswith("--"):
                yield Operand((begin.partition("=")[2], *command.shape(at)[1:]), is_certain=True)
            elif begin.startswith(option) and len(option) == 2:
                yield Operand((begin[2:], *command.shape(at)[1:]), is_certain=True)


@dataclass(slots=True)
class CommandFacts:
    """One command of the line, with the verdicts on the files that it touches.

    `touched` are the verdicts on files that a program of the tables reads or changes, `named` those on words of other
    programs that may be files. `below` asks because git shows a whole work tree and rules forbid files in it; the
    user's rule for the command answers that question.
    """

    command: ShellCommand
    reads: CommandReads | None = None
    changes: FileChanges | None = None
    changed: ChangedFiles = field(default_factory=ChangedFiles)
    touched: tuple[Decision, ...] = ()
    named: tuple[Decision, ...] = ()
    below: tuple[Decision, ...] = ()


def collect_facts(ground: DecisionContext, command: ShellCommand) -> CommandFacts:
    """Return the facts about the command."""
    facts = CommandFacts(command)
    if command.role == "wrap":
        return facts
    facts.changed = find_changed_files(command)
    named = [judge_path(ground, "Read", path, writes=False) for path in named_files(command)]
    facts.touched = tuple(decision for decision in named if decision.verdict is Verdict.DENY)
    reads = prove_read_only(command)
    found = find_changes(command) if reads is None else None
    if command.role != "run" or (reads is None and found is None):
        facts.named = (
            *_judge_operands(ground, command),
            *_judge_unknown(ground, "Read", unknown_operands(command)),
            *_judge_changed(ground, facts.changed),
        )
    elif reads is not None:
        facts.reads = reads
        judged = (
            judge_path(ground, "Read", path, writes=False, deep=reads.is_deep, except_denied=reads.by_git)
            for path in reads.paths
        )
        facts.touched = (*facts.touched, *judged)
        shown = sorted(shown_work_trees(reads.paths)) if reads.by_git and reads.is_deep else ()
        facts.below = tuple(filter(None, (question_below(ground, "Read", top) for top in shown)))
    elif found is not None:
        facts.changes = found
        sources = (judge_path(ground, "Read", path, writes=False) for path in found.reads)
        targets = (judge_path(ground, "Write", path, writes=True) for path in found.writes)
        facts.touched = (*facts.touched, *sources, *targets)
    return facts


def find_denials(facts: CommandFacts) -> Iterator[Decision]:
    """Yield the denials of the command because of files that it names."""
    yield from (decision for decision in (*facts.touched, *facts.named) if decision.verdict is Verdict.DENY)


def find_questions(facts: CommandFacts) -> Iterator[Decision]:
    """Yield the questions of rules about files that the command names.

    They hold even if another rule allows the command.
    """
    yield from (decision for decision in (*facts.touched, *facts.named) if _is_by_rule(decision))


def _is_by_rule(decision: Decision) -> bool:
    mere = decision.rule.startswith("mode ") or decision.rule == GUARDED
    return decision.verdict is Verdict.ASK and not mere


def _judge_operands(ground: DecisionContext, command: ShellCommand) -> Iterator[Decision]:
    """Yield the verdicts on all words that may be files that the program reads."""
    directories = list(base_directories(command))
    forbids_all = any(rule.is_whole_tool for rule in ground.rules.rules_for("Read").deny)
    for operand in find_operands(command):
        text = operand.shape[0] if len(operand.shape) == 1 else None
        path = os.path.expanduser(text or "")
        for directory in directories if text is None or not path.startswith("/") else ["/"]:
            if text is None or directory is None:
                shape = operand.shape if text is None else (None, f"/{path}")
                yield from judge_unknown_path(ground, "Read", _join_directory(directory, shape), operand.is_certain)
                continue
            whole = os.path.join(directory, path)
            if operand.is_certain or (not forbids_all and may_be_file(path, whole)):
                yield judge_path(ground, "Read", Path(whole), writes=False)


def _join_directory(directory: str | None, shape: Shape) -> Shape:
    begin = shape[0] if shape else None
    return shape if begin is None or directory is None else (os.path.join(directory, begin), *shape[1:])


def _judge_changed(ground: DecisionContext, changed: ChangedFiles) -> Iterator[Decision]:
    """Yield the verdicts on changed files. They forbid and never allow."""
    for path in changed.paths:
        yield judge_path(ground, "Write", path, writes=True)
    for path, name in changed.below:
        yield from judge_all_below(ground, "Write", path, name)
    yield from _judge_unknown(ground, "Write", changed.unknown)


def _judge_unknown(ground: DecisionContext, tool: str, unknown: Iterable[Operand]) -> Iterator[Decision]:
    for operand in unknown:
        yield from judge_unknown_path(ground, tool, operand.shape, operand.is_certain)
