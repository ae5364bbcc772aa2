"""The commands of a line that a mode may allow without a rule, and how surely another shell than bash reads the line.

A verdict rests on what bash does with the line. Another shell differs in more than its syntax: zsh evaluates arithmetic
in `printf %d PATH=0`, and options of the user (`dotglob`) change which files a pattern names.
"""

from __future__ import annotations

import re
from pathlib import Path

from msgspec import Struct

from teamwright.permissions.file_changing_commands import find_changes
from teamwright.permissions.line_sandbox_policy import HARMLESS_TARGETS
from teamwright.permissions.read_only_commands import prove_read_only
from teamwright.shell_lines.ambiguity import is_read_alike
from teamwright.shell_lines.command_words import word_set
from teamwright.shell_lines.parse import parse_command
from teamwright.shell_lines.parsed_line import ShellCommand
from teamwright.shell_lines.work_bound import find_bounded

_READ_TWICE = word_set(
    "printf test [ [[ exit return break continue shift let export typeset declare local readonly unset read getopts"
    " eval . source trap exec set wait kill ulimit umask fg bg pushd popd dirs hash alias builtin"
)
"""Builtins that evaluate a word as arithmetic, as a subscript or as code, in some shells."""

_MOVES_IN_PIPELINE = re.compile(r"(?<!\|)\|(?!\|).*\bcd\b", re.DOTALL)
"""In zsh the last part of a pipeline changes the directory of the line."""


class LinePrograms(Struct, frozen=True):
    """The commands of a line by their proof.

    `proven` are the names of commands that only read, or change files as modes accept it. `others` are the names of the
    other commands; None: one that only the shell knows. `is_plain`: the line has nothing but proven commands, and
    writes no file by a redirection. `is_alike`: bash, zsh and sh certainly read the line alike.
    """

    proven: frozenset[str]
    others: frozenset[str | None]
    is_plain: bool
    is_alike: bool


_UNKNOWN = LinePrograms(frozenset(), frozenset({None}), is_plain=False, is_alike=False)


def find_programs(command: str, cwd: Path) -> LinePrograms:
    """Return the programs of the line. A line that cannot be read, or is too large, has a program that only the shell
    knows.
    """
    return find_bounded(lambda: _find_programs(command, cwd), otherwise=_UNKNOWN)


def _find_programs(command: str, cwd: Path) -> LinePrograms:
    parsed = parse_command(command, cwd)
    run = [one for one in parsed.commands if one.role in {"run", "unsure"}]
    proven = [one for one in run if prove_read_only(one) is not None or find_changes(one) is not None]
    others = frozenset(one.name for one in run if one not in proven)
    is_read = parsed.is_valid and not parsed.doubt
    written = any(one.writes and one.target not in HARMLESS_TARGETS for one in parsed.redirects)
    return LinePrograms(
        frozenset(one.name for one in proven if one.name) if is_read else frozenset(),
        others if is_read else others | {None},
        is_plain=is_read and not written and not others,
        is_alike=is_read
        and is_read_alike(command)
        and not _MOVES_IN_PIPELINE.search(command)
        and not any(map(_is_read_twice, parsed.commands)),
    )


def _is_read_twice(command: ShellCommand) -> bool:
    return command.name in _READ_TWICE and not all(word is not None and word.isdecimal() for word in command.words[1:])
