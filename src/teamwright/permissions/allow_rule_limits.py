"""Limits of allow rules that leave words open: options and files that may go beyond the rule.

Depends on the table of `programs.side_effects`, on words that may be files, and on verdicts on paths.
`shell_verdict` chooses the rules and the questions.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from teamwright.permissions.changed_files import find_changed_files, find_changes
from teamwright.permissions.decision_context import DecisionContext
from teamwright.permissions.path_verdicts import GUARDED, REPLACES_NAMES, has_other_names, judge_path
from teamwright.permissions.possible_file_names import (
    HARMLESS_FILES,
    PRINTING_PROGRAMS,
    base_directories,
    file_candidates,
    glob_matches,
    has_address_pattern,
    may_be_file,
    text_words,
)
from teamwright.permissions.read_only_commands import absolute_paths, expand_arguments, links_below, prove_read_only
from teamwright.permissions.rules import Rule
from teamwright.permissions.verdict import Verdict
from teamwright.sandbox.policy import is_inside
from teamwright.shell_lines.command_words import Words, base_name, word_set
from teamwright.shell_lines.evaluated_text import SHELLS
from teamwright.shell_lines.parsed_line import ShellCommand
from teamwright.shell_lines.programs.options import parse_arguments, parse_grammar
from teamwright.shell_lines.programs.sed import only_prints
from teamwright.shell_lines.programs.side_effects import find_side_effect
from teamwright.shell_lines.wrappers import unwrap
from teamwright.storage.real_paths import real_path

INTERPRETERS = SHELLS | word_set(
    "python python2 python3 pypy pypy3 ipython node nodejs deno bun ruby irb perl php lua luajit Rscript R julia java"
    " jshell groovy scala kotlin ghci runghc elixir iex erl escript ocaml swift tclsh wish expect osascript pwsh"
    " powershell tsx ts-node"
)
"""Programs that run their operands: a rule for every call of one allows everything."""

_RUNS_ELSEWHERE = word_set(
    "docker:exec docker-compose:exec podman:exec kubectl:exec ssh gh:api adb:shell heroku:run fly:ssh redis-cli"
)
"""Programs, some with a subcommand, whose words are names on another machine."""

_SED = parse_grammar(
    "FILES -n -E -r -s -u -z -e= -i[=] -I[=] --quiet --silent --regexp-extended --separate --null-data --expression="
    " --in-place[=]"
)

_RECURSIVE = re.compile(r"-[A-Za-z0-9]*[rR]|--rec")
_STORES_LINKS = re.compile(r"(?=-[a-z]*y)-[DRjqry0-9]+|--symlinks")
_PLAIN_FLAGS = re.compile(r"-[DRjqry0-9]+|--[a-z-]+")
HIDDEN_WORD = "a word that only the shell will know"
_SECRET = "a variable of the environment"


def uncovered_word(context: DecisionContext, rule: Rule, command: ShellCommand, *, reads_secret: bool = False) -> str:
    """Return the word of the command that the rule matches but does not cover, or an empty text.

    A rule for every call, or with all words, covers all that it matches. Any other covers no option that writes or runs
    something, no file outside the directories, and no word that only the shell knows, unless the rule names it.
    `reads_secret`: the line reads a variable of the environment, which such a command may print.
    """
    named = rule.written_words
    if rule.is_exact or (len(named) == 1 and named[0] in INTERPRETERS):
        return ""
    if reads_secret and (None in command.words or prove_read_only(command) is not None):
        return _SECRET
    words = _expanded_words(command)
    return (
        _option_by_pattern(command, words)
        or find_side_effect(words, named)
        or _script(command, words)
        or _run_by_find(context, command, words, named)
        or _changed_file(context, command, named)
        or _uncovered_file(context, command, named)
        or _followed_link(context, command, words, named)
    )


def _option_by_pattern(command: ShellCommand, words: Words) -> str:
    """Return an option that the command gets only as a file name that a pattern matches."""
    found = (word for word in words if word and word.startswith("-") and word not in command.words)
    return next(found, "")


def covers_change(context: DecisionContext, rules: Iterable[Rule], command: ShellCommand, path: str) -> bool:
    """Return True when the permissions that allow this command without a question also cover a change of this file.

    The mode or a rule for every command covers any file; else a rule for the path does, or a rule for the command that
    has this word. A rule that lets the file be read does not.
    """
    rules = [*rules]
    if context.bypasses or any(rule.is_whole_tool for rule in rules):
        return True
    if judge_path(context, "Write", Path(path), writes=True).verdict is Verdict.ALLOW:
        return True
    matching = (rule for rule in rules if any(map(rule.matches_words, (command.words, *command.wrappers))))
    return any(rule.is_exact or _is_named(command, path, rule.written_words) for rule in matching)


def _changed_file(context: DecisionContext, command: ShellCommand, named: Sequence[str]) -> str:
    """Return a file that the command changes, unless the rule names it: a guarded one, one with another name, or one
    outside the directories, which may be readable there.
    """
    understood = find_changes(command)
    program = base_name(command.words[0]) or ""
    texts = {path for at in text_words(command) for path in _joined(command, command.words[at] or "")}
    for path in (*find_changed_files(command).paths, *(understood.writes if understood is not None else ())):
        ends_alike = any(f"{os.path.normpath(path)}/".endswith(f"/{os.path.normpath(word)}/") for word in named[1:])
        if not ends_alike and _is_beyond(context, path, program):
            return str(path)
        if str(path) in HARMLESS_FILES or str(path) in texts:
            continue
        real = real_path(context.locate(path)[1])
        inside = f"{real}/".startswith(context.directories) or context.is_temporary(real)
        if not (
            inside
            or judge_path(context, "Write", path, writes=True).verdict is Verdict.ALLOW
            or _is_named(command, str(path), named)
        ):
            return str(path)
    return ""


def _is_beyond(context: DecisionContext, path: Path, program: str) -> bool:
    decision = judge_path(context, "Write", path, writes=True)
    if decision.rule == GUARDED:
        return True
    by_rule = decision.verdict is Verdict.ALLOW and not decision.rule.startswith("mode ")
    return not by_rule and program not in REPLACES_NAMES and has_other_names(context, path)


def _is_named(command: ShellCommand, path: str, named: Sequence[str]) -> bool:
    """Return True when words of a rule name the path, or a directory above it."""
    parts = (part for word in named[1:] for part in file_candidates(word.rstrip("*")) if "/" in part)
    return any(is_inside(real_path(path), real_path(top)) for part in parts for top in _joined(command, part))


def _joined(command: ShellCommand, text: str) -> list[str]:
    """Return the paths that a text means in the directories of the command."""
    return [os.path.join(place or os.sep, os.path.expanduser(text)) for place in command.directories]


def _run_by_find(context: DecisionContext, command: ShellCommand, words: Words, named: Sequence[str]) -> str:
    """Return `-exec` when the command that find runs has no verdict and may read a file outside."""
    wrapped = unwrap(words) if "-exec" in words and "-exec" not in named else None
    if wrapped is None or not wrapped.forbids:
        return ""
    reads = prove_read_only(command)
    known = reads is not None and not any(_is_outside(context, str(path), named) for path in reads.paths)
    return "" if known else "-exec"


def _expanded_words(command: ShellCommand) -> Words:
    """Return the words, with a pattern replaced by the names that it matches."""
    if not command.globs:
        return command.words
    args = expand_arguments(command)
    return command.words if args is None else (command.words[0], *args)


def _script(command: ShellCommand, words: Words) -> str:
    """Return the name of the script language whose program may write or run something, or an empty text."""
    name = base_name(words[0]) or ""
    if name not in {"awk", "gawk", "mawk", "nawk", "sed"} or prove_read_only(command) is not None:
        return ""
    args = [word for word in words[1:] if word is not None]
    fine = name == "sed" and len(args) == len(words) - 1 and _changes_its_files_only(args)
    return "" if fine else f"a program of {name}"


def _changes_its_files_only(args: list[str]) -> bool:
    """Return True when `sed ARGS` writes only its operands."""
    found = parse_arguments(args, _SED)
    if found is None or found.is_mixed:
        return False
    scripts = found.values("-e", "--expression")
    if not scripts:
        # Some systems take an empty word after `-i` for its value.
        scripts = list(found.operands[: 1 if "".join(found.operands[:1]) else 2])
    return bool(scripts) and all(map(only_prints, scripts))


def _uncovered_file(context: DecisionContext, command: ShellCommand, named: Sequence[str]) -> str:
    """Return a word that is hidden, or may be a file outside the directories, or an empty text."""
    name = base_name(command.words[0]) or ""
    second = next((word for word in command.words[1:2] if word), "")
    if name in PRINTING_PROGRAMS or {name, f"{name}:{second}"} & _RUNS_ELSEWHERE:
        return ""
    texts = text_words(command)
    directories = [directory for directory in base_directories(command) if directory is not None]
    for directory in directories:
        if _is_outside(context, directory, named):
            return directory
    for at, word in enumerate(command.words[1:], 1):
        if at in texts or (word is not None and word in named):
            continue
        for part in _texts(command, at):
            if part is None:
                return HIDDEN_WORD
            if any(_is_outside(context, path, named) for path in _paths(part, directories)):
                return part
    return ""


def _followed_link(context: DecisionContext, command: ShellCommand, words: Words, named: Sequence[str]) -> str:
    """Return a link below an operand that leads outside and that the command follows, or an empty text."""
    name = base_name(words[0]) or ""
    words = words[1:]
    if name not in {"scp", "zip"} or not any(word and _RECURSIVE.match(word) for word in words):
        return ""
    flags = list(itertools.takewhile(lambda word: word is not None and _PLAIN_FLAGS.fullmatch(word), words))
    if name == "zip" and any(word and _STORES_LINKS.fullmatch(word) for word in flags):
        return ""
    operands = (word for word in words if word and not word.startswith("-"))
    waiting = absolute_paths(command, (".", *operands) if "-R" in words else tuple(operands)) or ()
    followed: set[str] = set()
    while waiting:
        links = links_below(waiting)
        if links is None:
            return "a directory with many files"
        outside = next((link for link in links if _is_outside(context, str(link), named)), None)
        if outside is not None:
            return str(outside)
        waiting = tuple(link for link in links if real_path(link) not in followed)
        followed.update(map(real_path, waiting))
    return ""


def _paths(written: str, directories: Sequence[str]) -> Iterator[str]:
    """Yield the paths that a word may mean."""
    path = os.path.expanduser(written)
    for directory in directories if not path.startswith("/") else ["/"]:
        whole = os.path.join(directory, path)
        if may_be_file(path, whole):
            yield whole


def _texts(command: ShellCommand, at: int) -> Sequence[str | None]:
    word = command.words[at]
    if word is None or has_address_pattern(command, at):
        return [None]
    if at not in command.globs:
        return file_candidates(word)
    names = glob_matches(command, at) or [None]
    return file_candidates(word) if names == [word] else names


def _is_outside(context: DecisionContext, path: str, named: Sequence[str]) -> bool:
    """Return True when the path may not be read unasked and is in no directory of the rule (`Bash(cat /tmp/*)`)."""
    if judge_path(context, "Read", Path(path), writes=False).verdict is Verdict.ALLOW:
        return False
    begins = (os.path.expanduser(word.partition("*")[0]) for word in named if "*" in word)
    inside = tuple(f"{real_path(begin).rstrip('/')}/" for begin in begins if begin[:1] == "/" == begin[-1:])
    return not f"{real_path(path)}/".startswith(inside)
