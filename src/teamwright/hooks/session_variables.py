"""The variables that hooks set for the later commands of their session, in the file that `CLAUDE_ENV_FILE` names.

The file is read as a list of assignments and never run. Each process of a session reads it again when it has changed,
so that a variable reaches members in other processes, and a session that is resumed.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct, field

from teamwright.storage.files import read_plain, write_atomic
from teamwright.storage.paths import make_private

MAX_FILE = 64_000
"""The most bytes of the file."""

_IGNORED = re.compile(r"[\s;]+|#[^\n]*")
_KEYWORD = re.compile(r"(?:export|(?:declare|typeset)[ \t]+-x)[ \t]+")
_SINGLE, _DOUBLE, _BARE = r"'[^']*'", r'"(?:[^"\\$`]|\\.)*"', r"""[^\s'"\\$`;&|<>()*?\[\]{}~]"""
_PART = re.compile(rf"{_SINGLE}|{_DOUBLE}|\\.|{_BARE}", re.DOTALL)
_ASSIGNMENT = re.compile(rf"([A-Za-z_][A-Za-z0-9_]*)=((?:{_PART.pattern})*)", re.DOTALL)
_END = re.compile(r"[ \t\r]*(?:(?<=[ \t\r])#[^\n]*)?(?:[;\n]|\Z)")
_IN_QUOTES = re.compile(r'\\([$`"\\]|\n)')

EXPECTED = "only assignments of plain values are read, such as export NAME='value'"


class VariableLine(Struct, frozen=True):
    """A line of the file with the variable that it sets; without a name it sets none."""

    line: int
    name: str = ""
    value: str = ""


def read_assignments(text: str) -> Iterator[VariableLine]:
    """Yield the assignments of a text, as a shell would read them, and an empty one for each line that has others.

    A value has no substitution: `$`, a backquote or an unquoted sign of the shell makes the line unreadable.
    """
    at = 0
    line = 1
    while at < len(text):
        if ignored := _IGNORED.match(text, at):
            line += ignored[0].count("\n")
            at = ignored.end()
            continue
        start = at
        if keyword := _KEYWORD.match(text, at):
            at = keyword.end()
        found: list[VariableLine] = []
        while assigned := _ASSIGNMENT.match(text, at):
            found.append(VariableLine(line, assigned[1], "".join(map(_unquoted, _PART.findall(assigned[2])))))
            at = assigned.end()
            while at < len(text) and text[at] in " \t":
                at += 1
        # The blanks belong to the end of the statement: a sign directly after a value is none.
        end = _END.match(text, at - 1 if found and text[at - 1] in " \t" else at)
        if found and end is not None:
            yield from found
            at = end.end()
        else:
            yield VariableLine(line)
            at = text.find("\n", start) + 1 or len(text)
        line += text.count("\n", start, at)


def _unquoted(part: str) -> str:
    """Return the text of a part of a value; a backslash at the end of a line joins it to the next one."""
    if part[0] == "'":
        return part[1:-1]
    if part[0] == '"':
        return _IN_QUOTES.sub(lambda found: found[1].strip("\n"), part[1:-1])
    return part[1:].strip("\n") if part[0] == "\\" else part


class SessionVariables(Struct):
    """The variables of one session. `refusal_of` returns why one of that name and value is not used, or nothing."""

    path: Path
    refusal_of: Callable[[str, str], str] = lambda _name, _value: ""
    _seen: tuple[int, int, int] | None = None
    """The file that was read: its inode, time of change and size."""
    _values: dict[str, str] = field(default_factory=dict[str, str])
    _problems: list[str] = field(default_factory=list[str])

    def values(self) -> Mapping[str, str]:
        """Return the variables that are used."""
        self._read()
        return self._values

    def problems(self) -> list[str]:
        """Return a sentence for each line of the file that is not used."""
        self._read()
        return self._problems

    def prepare(self) -> Path:
        """Create the file, or leave the variables that are used in it, and return its path.

        It stays small that way, although each start of the session adds to it. Raises OSError, StorageError.
        """
        make_private(self.path.parent)
        if self.path.parent.is_symlink():
            raise OSError(f"{self.path.parent} is a link")
        kept = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in self.values().items()).encode()
        try:
            is_unchanged = not self.path.is_symlink() and read_plain(self.path, MAX_FILE) == kept
        except OSError:
            is_unchanged = False
        if not is_unchanged:
            write_atomic(self.path, kept)
        return self.path

    def _read(self) -> None:
        try:
            about = os.lstat(self.path)
        except OSError:
            self._seen, self._values, self._problems = None, {}, []
            return
        seen = (about.st_ino, about.st_mtime_ns, about.st_size)
        if seen == self._seen:
            return
        self._seen, self._values, self._problems = seen, {}, []
        try:
            if self.path.is_symlink() or self.path.parent.is_symlink():
                raise OSError("a link is not followed")
            content = read_plain(self.path, MAX_FILE)
            if b"\0" in content:
                raise OSError("it holds a NUL character")
        except OSError as problem:
            self._problems.append(f"{self.path} is not used: {problem.strerror or problem}")
            return
        for found in read_assignments(content.decode("utf-8", "surrogateescape")):
            where = f"{self.path}, line {found.line}"
            if not found.name:
                self._problems.append(f"{where} is not used: {EXPECTED}")
            elif why := self.refusal_of(found.name, found.value):
                self._problems.append(f"{where}: {found.name} is not set: {why}")
            else:
                self._values[found.name] = found.value
