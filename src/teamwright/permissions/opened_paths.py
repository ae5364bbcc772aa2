"""The paths that an allowed shell line names outside of the agent's directories, which the sandbox opens for the call.

A person who allowed the line has seen its words. So every word that may be a path counts, also in program text. Rules
that each allow a command have seen no other words: there a path counts if they cover a change of it. A command that is
proven to read only opens nothing to be changed. Depends on the parser and on the disk.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct, field

from teamwright.permissions.call_grant import NO_PATHS, NamedPaths
from teamwright.permissions.changed_files import find_changed_files, find_changes
from teamwright.permissions.line_sandbox_policy import HARMLESS_TARGETS
from teamwright.permissions.possible_file_names import (
    CODE_PROGRAMS,
    CODE_SIGNS,
    PRINTING_PROGRAMS,
    SCRIPT_PROGRAMS,
    file_candidates,
    may_be_file,
    text_words,
)
from teamwright.permissions.read_only_commands import prove_read_only
from teamwright.permissions.verdict import Access
from teamwright.sandbox.known_paths import SYSTEM, is_kept, start_files
from teamwright.sandbox.policy import is_inside
from teamwright.shell_lines.command_words import base_name, word_set
from teamwright.shell_lines.expansion import Shape
from teamwright.shell_lines.parse import parse_command
from teamwright.shell_lines.parsed_line import FileRedirect, ParsedLine, ShellCommand
from teamwright.shell_lines.step_limit import JUDGED_PATH, found_once, spend_steps
from teamwright.storage.real_paths import is_process_link, real_path

_KEEPS_FILE = word_set("> tee dd truncate touch cp chmod chown chgrp setfacl")
"""Programs, and redirections, that change an existing file in its place."""

_REMOVES = word_set("rm rmdir unlink mv rename git")
"""Programs that remove or replace a directory that they name, for which they change the directory above it."""

_MOVES_SHELL = word_set("cd pushd popd")
_SEARCH_PATHS = ("-I", "-L", "-isystem", "-iquote", "-idirafter")
"""Options whose value is a directory in which a compiler looks for files."""

_QUOTED = re.compile(r"'([^'\n]*)'|\"([^\"\n]*)\"|`([^`\n]*)`")
_ASSIGNED = re.compile(r"(?:^|[\s;&|(])[A-Za-z_]\w*=['\"]?((?:~|\.\.)?/[^\s'\";|&()<>$`*?]+|~)")
_WRITTEN = re.compile(r"(?<![\w.~/])((?:~|\.\.)?/[^\s'\"`;|&<>(){}$*?=,:]+)")
_NEVER = ("/dev", "/proc", "/sys", "/run", "/var/run")
"""Directories with devices, processes and sockets. No line opens anything in them."""

_MAX_PATHS = 200


CoversChange: TypeAlias = Callable[[ShellCommand, str], bool]
"""Return True when the rules that allow this command cover a change of this path."""


class _Line(Struct):
    """The paths of one line while they are collected. `denies` returns True for a path that rules or owners forbid.

    `covers` is None for a line of which all words were seen.
    """

    inside: Callable[[str], bool]
    denies: Callable[[str, str], bool]
    covers: CoversChange | None = None
    readable: dict[str, None] = field(default_factory=dict[str, None])
    writable: dict[str, None] = field(default_factory=dict[str, None])
    reads: dict[str, None] = field(default_factory=dict[str, None])
    changes: dict[str, None] = field(default_factory=dict[str, None])

    def read(self, path: str) -> None:
        """Add a file that the line reads."""
        spend_steps(JUDGED_PATH)
        real = real_path(path)
        self.reads[real] = None
        if not self._is_closed("Read", real) and os.path.exists(real):
            self.readable[real] = None

    def change(self, path: str, program: str, *, is_named: bool = True) -> None:
        """Add a file that the line certainly changes.

        `is_named`: a word names it. Else it is the directory in which a pattern begins: the line changes entries of it,
        and not the directory itself. A directory that holds more than one subject is not opened for a pattern.
        """
        spend_steps(JUDGED_PATH)
        real = real_path(path)
        if real in HARMLESS_TARGETS:
            return
        self.changes[real] = None
        if os.path.islink(path):  # the link itself may be replaced
            self._open_directory(os.path.dirname(path), path)
        if os.path.isdir(real):
            if is_named or not _is_wide(real):
                self._open(real)
            if is_named and program in _REMOVES:
                self._open_directory(real, os.path.dirname(real))
        elif os.path.exists(real) and program in _KEEPS_FILE:
            self._open(real)
        else:
            self._open_directory(real, os.path.dirname(real))

    def mention(self, path: str, command: ShellCommand | None = None, *, is_text: bool = False) -> None:
        """Add a path that a word of the command may mean. A program may read or change it, or make or replace it.

        `is_text`: it is a literal in the text of a program.
        """
        if command is not None and self.covers is not None and not self.covers(command, path):
            self.read(path)
            return
        spend_steps(JUDGED_PATH)
        real = real_path(path)
        above = os.path.dirname(real)
        if os.path.isdir(real):
            if not (is_text and _is_wide(real)):
                self._open(real)
        elif os.path.exists(real):
            self._open(real if _is_wide(above) or any(is_inside(above, top) for top in SYSTEM) else above)
        elif os.path.isdir(above) and not (is_text and _is_wide(above)):
            self._open_directory(real, above)

    def _open_directory(self, path: str, directory: str) -> None:
        """Open the nearest existing directory for a path in it."""
        place = real_path(directory)
        while not os.path.isdir(place) and place != os.sep:
            place = os.path.dirname(place)
        if not is_kept(path, found_once("start files", _start_files)) and not self._is_closed("Write", path):
            self._open(place)

    def _open(self, real: str) -> None:
        if not self._is_closed("Write", real):
            self.writable[real] = None

    def _is_closed(self, tool: str, real: str) -> bool:
        """Return True for a path that the line does not open: it is open already, or never is."""
        if real == os.sep or self.inside(real) or is_process_link(real) or any(is_inside(real, top) for top in _NEVER):
            return True
        return len(self.writable) + len(self.readable) > _MAX_PATHS or self.denies(tool, real)


def find_named_paths(
    access: Access,
    base: Path,
    inside: Callable[[str], bool],
    denies: Callable[[str, str], bool],
    covers: CoversChange | None = None,
) -> NamedPaths:
    """Return the paths that the line of this call names, in its written form and with aliases expanded.

    `base` is the directory of a line without one. `inside(path)` returns True for a real path that is open already;
    `denies(tool, path)` for one that rules, owners or a worktree forbid. `covers` tells what the rules for single
    commands cover; None: a person, or what allows every line, has seen the whole text.
    """
    if access.command is None:
        return NO_PATHS
    line = _Line(inside, denies, covers)
    place = access.cwd or base
    for text in filter(None, (access.command, access.expanded_command)):
        parsed = parse_command(text, place)
        _add_line(line, parsed, access.is_read_otherwise)
        if covers is not None:
            continue  # comments, assignments and documents belong to no command that a rule names
        if _is_hidden_in_part(parsed, text) or access.is_read_otherwise:
            for found in _WRITTEN.finditer(_without_documents(text, parsed)):
                line.mention(_absolute(found[1], str(place)), is_text=True)
        for found in _ASSIGNED.finditer(text):
            line.mention(_absolute(found[1], str(place)))
    return NamedPaths(tuple(line.readable), tuple(line.writable), tuple(line.reads), tuple(line.changes))


def _add_line(line: _Line, parsed: ParsedLine, is_read_otherwise: bool) -> None:
    programs = {command.words[0] for command in parsed.commands if command.words and command.role != "wrap"}
    for command in parsed.commands:
        _add_command(line, command, programs, is_proved=not is_read_otherwise and parsed.is_valid)
    for redirect in parsed.redirects:
        for path in _redirect_paths(redirect):
            if redirect.writes:
                line.change(path, ">")
            else:
                line.read(path)


def _add_command(line: _Line, command: ShellCommand, programs: set[str | None], *, is_proved: bool) -> None:
    words = command.words
    name = base_name(words[0]) or "" if words else ""
    script = _script_at(command) if name in SCRIPT_PROGRAMS else 0
    run = [words[at] for at in {0, script} if at < len(words)]
    moved = words[1:] if name in _MOVES_SHELL else ()
    for word in (*(word for word in run if word and "/" in word), *filter(None, moved)):
        for path in _absolute_paths(command, word):
            line.read(path)
    reads = prove_read_only(command) if is_proved else None
    if reads is not None:
        for path in reads.paths:
            line.read(str(path))
        return
    if (changes := find_changes(command)) is not None:
        for path in changes.reads:
            line.read(str(path))
        named = _named_by_words(command)
        for path in changes.writes:
            line.change(str(path), name, is_named=str(path) in named)
        return
    if paths := find_changed_files(command).paths:
        named = _named_by_words(command)
        for path in paths:
            line.change(str(path), name, is_named=str(path) in named)
    if name in PRINTING_PROGRAMS and name not in {"command", "exec"}:
        return
    for place in command.directories:
        if place is not None and name not in _MOVES_SHELL:
            line.mention(str(place), command)  # a program works in its directory
    for text, is_text in () if name in _MOVES_SHELL else _word_paths(command, name, programs, script):
        for path in _absolute_paths(command, text):
            if may_be_file(text, path):
                line.mention(path, command, is_text=is_text)


def _named_by_words(command: ShellCommand) -> frozenset[str]:
    """Return the paths that whole words of the command are, and not only begin with."""
    words = [part for word in command.words if word for part in (word, word.partition("=")[2]) if part]
    return frozenset(os.path.normpath(one) for word in words for one in _absolute_paths(command, word))


def _start_files() -> tuple[str, ...]:
    return start_files(os.path.expanduser("~"))


def _script_at(command: ShellCommand) -> int:
    """Return the index of the script that an interpreter reads: its first operand; 0 when an option has the code."""
    words = command.words
    first = next((at for at, word in enumerate(words) if at and not (word or "").startswith("-")), 0)
    return 0 if first in text_words(command) or "-c" in words[:first] else first


def _absolute_paths(command: ShellCommand, text: str) -> Iterator[str]:
    """Yield the paths that a text means in the directories of a command."""
    for place in command.directories:
        if place is not None or text.startswith(("/", "~")):
            yield _absolute(text, str(place or os.sep))


def _word_paths(command: ShellCommand, name: str, programs: set[str | None], script: int) -> Iterator[tuple[str, bool]]:
    """Yield the texts in the words of a program that may be paths, and whether they are part of a program's text.

    `programs` are those that the line runs; `script` is the index of the word with a script to read.
    """
    texts = text_words(command)
    before = ""
    for at, word in enumerate(command.words[1:], 1):
        spend_steps()
        option = before
        before = word or ""
        if at == script:
            continue
        if at in texts:
            if name in SCRIPT_PROGRAMS:
                yield from ((literal, True) for literal in _literals(word or "", name))
        elif word is None:
            if (found := _known_directory(command.shape(at))) is not None:
                yield found, False
        elif not (
            word.startswith(_SEARCH_PATHS) or option in _SEARCH_PATHS or (command.role == "wrap" and word in programs)
        ):
            yield from ((part, False) for part in file_candidates(word) if "/" in part or part in {"..", "~"})


def _literals(code: str, name: str) -> Iterator[str]:
    """Yield the paths in the text of a program: absolute ones, and those of the home directory or the one above."""
    parts = [*(part for found in _QUOTED.finditer(code) for part in found.groups() if part)]
    parts += file_candidates(code, CODE_SIGNS) if name in CODE_PROGRAMS else []
    yield from (part for part in dict.fromkeys(parts) if part.startswith(("/", "~/", "../")) and len(part) > 1)


def _known_directory(shape: Shape) -> str | None:
    """Return the directory in which a name begins whose end only the shell knows."""
    begin = shape[0] if shape else None
    if not begin or "/" not in begin:
        return None
    begin = begin[begin.find("=") + 1 :] if begin.startswith("-") or "=" in begin.partition("/")[0] else begin
    directory = begin.rpartition("/")[0]
    return directory if directory.startswith(("/", "~", "..")) and not _is_wide(os.path.expanduser(directory)) else None


def _redirect_paths(redirect: FileRedirect) -> Iterator[str]:
    text = redirect.target if redirect.target is not None else _known_directory(redirect.shape)
    if text is None or text in HARMLESS_TARGETS:
        return
    for place in redirect.directories:
        if place is not None or text.startswith(("/", "~")):
            yield _absolute(text, str(place or os.sep))


def _is_hidden_in_part(parsed: ParsedLine, text: str) -> bool:
    """Return True when words of the line that may be paths are not among its commands."""
    if not parsed.is_valid or parsed.doubt or any(one.target is None for one in parsed.redirects):
        return True
    return "<<" in text and _only_scripts(parsed)


def _only_scripts(parsed: ParsedLine) -> bool:
    run = [base_name((one.words or (None,))[0]) for one in parsed.commands if one.role in {"run", "unsure"}]
    return bool(run) and all(name in SCRIPT_PROGRAMS for name in run)


def _without_documents(text: str, parsed: ParsedLine) -> str:
    """Return the text without its here-documents, unless every program of the line reads scripts.

    Such a text belongs to the program that reads it: other programs of the line get nothing by it.
    """
    return text if "<<" not in text or _only_scripts(parsed) else text.partition("\n")[0]


def _absolute(text: str, place: str) -> str:
    return os.path.join(place, os.path.expanduser(text))


def _is_wide(directory: str) -> bool:
    """Return True for a directory that holds more than one subject: the system's, and the home directory."""
    real = directory.rstrip("/") or os.sep
    home = os.path.realpath(os.path.expanduser("~"))
    return real.count("/") <= 1 or is_inside(home, real)
