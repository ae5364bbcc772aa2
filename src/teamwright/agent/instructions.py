"""Instructions of the user and the project: AGENTS.md and CLAUDE.md, their imports, and those of deeper directories.

The user's come first, then root to leaf, local files last; a text that is reached twice is given once. Links and
imports of a repository may lead outside it only to the texts that a person trusted (`outside_texts`). Reads files; runs
no program.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct, field

from teamwright.skills.rule_files import FOLDER, ScopedRule, rule_files, scope_of

MAX_CHARS = 40_000
"""The most characters of one file. The rest is cut, and the text says so."""

MAX_TOTAL = 160_000
"""The most characters of all files together. Later files are left out."""

MAX_DEPTH = 5
"""The deepest nesting of imports."""

FILE_NAMES = ("AGENTS.md", "CLAUDE.md")
LOCAL_FILE_NAME = "CLAUDE.local.md"

_TEXT_SUFFIXES = frozenset({".md", ".mdc", ".txt", ".rst"})
"""File types that a repository may import from outside it, when that is trusted: texts, never keys or settings."""

NO_TEXTS = frozenset[str]()

_TRAILING_MARKS = ".,;:!?)"
"""Characters that may follow an import and are not part of it."""

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_INLINE_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
_IMPORT = re.compile(r"(?<!\S)@((?:~/|/|\.{0,2}/)?[^\s@`]+)")


class Instruction(Struct, frozen=True):
    """One text with the file that it came from. `warning` says in one line what was cut or left out.

    `about`: the files to which it applies, when these are not all files of its directory.
    """

    path: Path
    text: str
    warning: str = ""
    about: str = ""


class SkippedInstruction(Struct, frozen=True):
    """A skipped file, or a skipped import with its line, and the reason."""

    path: Path
    reason: str
    verdict: Literal["ignored", "needs trust", "broken"] = "ignored"
    line: int = 0


class Instructions(Struct, frozen=True):
    """Instructions in order, files that only import others (`import_only`), and skipped files.

    `scoped` are rules that are delivered when an agent touches a file to which they apply.
    """

    found: list[Instruction]
    import_only: list[Path]
    skipped: list[SkippedInstruction]
    scoped: list[ScopedRule]


def load_instructions(
    cwd: Path, repo_root: Path, home: Path, compat: bool, outside: frozenset[str] = NO_TEXTS
) -> list[Instruction]:
    """Load all instructions for an agent that works in `cwd`, in reading order.

    `home` is the user's state root. With `compat` the files of the other product are read as well. `outside` are the
    texts outside of the repository, by real path, that it may import.
    """
    return read_instructions(cwd, repo_root, home, compat, outside).found


def outside_texts(repo_root: Path, compat: bool) -> list[tuple[Path, Path]]:
    """Return the texts outside of the repository that the instructions in its top directory import or are links to.

    Each is a pair of the file that names it and its real path.
    """
    reader = _Reader(Path(os.path.realpath(repo_root)), compat, None)
    reader.read_directory(reader.root)
    if compat:
        reader.read(reader.root / LOCAL_FILE_NAME)
        for one in reader.scoped:
            reader.read(one.path, rule=True)
    return reader.led_outside


def read_instructions(
    cwd: Path, repo_root: Path, home: Path, compat: bool, outside: frozenset[str] = NO_TEXTS
) -> Instructions:
    """Read the instructions for an agent that works in `cwd`, skipped files included."""
    reader = _Reader(Path(os.path.realpath(repo_root)), compat, outside)
    reader.read(home / "AGENTS.md", own=True)
    if compat:
        reader.read(Path(os.path.expanduser("~/.claude/CLAUDE.md")), own=True)
        reader.read_own_rules()
    places = list(_directories_between(reader.root, Path(os.path.realpath(cwd))))
    for place in places:
        reader.read_directory(place)
    for place in places if compat else ():
        reader.read(place / LOCAL_FILE_NAME)
    return reader.result


class SessionInstructions(Struct, frozen=True):
    """The instructions of a session: those of each new agent, and the source of those of deeper directories."""

    cwd: Path
    repo_root: Path
    initial: Sequence[Instruction]
    compat: bool
    outside: frozenset[str] = NO_TEXTS

    @classmethod
    def load(
        cls, cwd: Path, repo_root: Path, user_dir: Path, compat: bool, outside: frozenset[str]
    ) -> SessionInstructions:
        """Load the initial instructions; see `load_instructions`."""
        return cls(cwd, repo_root, load_instructions(cwd, repo_root, user_dir, compat, outside), compat, outside)

    def at(self, cwd: Path, user_dir: Path) -> SessionInstructions:
        """Return the instructions for an agent in this directory: unchanged outside the repository, which alone is
        trusted.
        """
        if cwd == self.cwd or not Path(os.path.realpath(cwd)).is_relative_to(os.path.realpath(self.repo_root)):
            return self
        return self.load(cwd, self.repo_root, user_dir, self.compat, self.outside)

    def initial_for(self, withholds: Callable[[Path], bool]) -> list[Instruction]:
        """Return the initial instructions without the files that an agent must not read."""
        return [one for one in self.initial if not withholds(one.path)]

    def nested(self) -> NestedInstructions:
        """Return the instructions of deeper directories for an agent that has received none of them."""
        return NestedInstructions(self.cwd, self.repo_root, self.initial, self.compat, self.outside)


class NestedInstructions:
    """The instructions of deeper directories, each delivered once to an agent when it first touches a file there."""

    def __init__(
        self,
        cwd: Path,
        repo_root: Path,
        known: Sequence[Instruction],
        compat: bool,
        outside: frozenset[str] = NO_TEXTS,
    ) -> None:
        self._cwd = cwd
        self._known = known
        self._reader = _Reader(repo_root, compat, outside)
        self._visited = set[Path]()

    def text_for(self, path: Path, withholds: Callable[[Path], bool] = lambda _: False) -> str:
        """Return the instructions for an agent that touches this path; empty when it has received them, or without any.

        Files that the agent must not read (`withholds`) are left out.
        """
        if not self._visited:
            self._begin()  # most agents touch no file there, so creating one must cost nothing
        before = len(self._reader.found)
        place = path.parent
        if place not in self._visited:
            self._visited.add(place)
            self._read_way_to(Path(os.path.realpath(place)))
        self._reader.read_scoped(Path(os.path.realpath(path)))
        new = [one for one in self._reader.found[before:] if not withholds(one.path)]
        return "\n\n".join(f"{one.path} is about {one.about or 'its directory'}:\n{one.text.strip()}" for one in new)

    def _read_way_to(self, place: Path) -> None:
        """Read the instructions of the new directories on the way to this one, given by its real path."""
        if not place.is_relative_to(self._reader.root):
            return
        for directory in _directories_between(self._reader.root, place):
            if directory == place or directory not in self._visited:
                self._visited.add(directory)
                self._reader.read_directory(directory)

    @property
    def result(self) -> Instructions:
        """The instructions of deeper directories that were read so far, and the skipped files."""
        return self._reader.result

    def _begin(self) -> None:
        self._reader.root = Path(os.path.realpath(self._reader.root))
        for instruction in self._known:
            self._reader.remember(instruction)
        places = list(_directories_between(self._reader.root, Path(os.path.realpath(self._cwd))))
        self._visited |= set(places)
        if self._reader.compat:
            self._reader.read_own_rules()
            for place in places:
                self._reader.read_rules(place)


class _Reader(Struct):
    """A reader that reads each file once, in order, with its imports directly after it.

    `outside` are the texts outside of the root that it may read, by real path; None: all, which `led_outside` lists.
    """

    root: Path
    compat: bool
    outside: frozenset[str] | None
    found: list[Instruction] = field(default_factory=list[Instruction])
    import_only: list[Path] = field(default_factory=list[Path])
    skipped: list[SkippedInstruction] = field(default_factory=list[SkippedInstruction])
    scoped: list[ScopedRule] = field(default_factory=list[ScopedRule])
    led_outside: list[tuple[Path, Path]] = field(default_factory=list[tuple[Path, Path]])
    _paths: dict[str, Path] = field(default_factory=dict[str, Path])
    _digests: dict[bytes, Path] = field(default_factory=dict[bytes, Path])
    _total: int = 0

    @property
    def result(self) -> Instructions:
        return Instructions(self.found, self.import_only, self.skipped, self.scoped)

    def read_directory(self, directory: Path) -> None:
        for name in FILE_NAMES if self.compat else FILE_NAMES[:1]:
            self.read(directory / name)
        if self.compat:
            self.read(directory / FOLDER / "CLAUDE.md", about=f"{directory} and below")
            self.read_rules(directory)

    def read_own_rules(self) -> None:
        """Read the user's rules. Their patterns are relative to the root of the repository."""
        self._read_rules(Path(os.path.expanduser("~")), self.root, own=True)

    def read_rules(self, directory: Path) -> None:
        """Read the rules of a directory. Rules about certain files are kept for `read_scoped`."""
        self._read_rules(directory, directory, own=False)

    def _read_rules(self, place: Path, base: Path, *, own: bool) -> None:
        known = {one.path for one in self.scoped}
        for path in rule_files(place):
            if path in known or os.path.realpath(path) in self._paths:
                continue
            text = (
                _read_text(path) if own or self._refusal_reason(Path(os.path.realpath(path)), own, 1) is None else None
            )
            patterns, _ = scope_of(text or "")
            if patterns:
                self.scoped.append(ScopedRule(path, Path(os.path.realpath(base)), patterns, own))
            else:
                self.read(path, own=own, rule=True, about=f"{base} and below")

    def read_scoped(self, real: Path) -> None:
        """Read the rules about this file that were not read yet."""
        for one in self.scoped:
            if os.path.realpath(one.path) not in self._paths and self._is_about(one, real):
                self.read(one.path, own=one.own, rule=True, about=one.about)

    def _is_about(self, one: ScopedRule, real: Path) -> bool:
        try:
            return one.matches(real)
        except re.error as problem:
            self._paths[os.path.realpath(one.path)] = one.path
            self.skipped.append(SkippedInstruction(one.path, f"a pattern of paths cannot be read: {problem}", "broken"))
            return False

    def remember(self, instruction: Instruction) -> None:
        """Note that this instruction was delivered already."""
        self._paths[os.path.realpath(instruction.path)] = instruction.path
        self._digests[_digest(instruction.text)] = instruction.path

    def read(
        self,
        path: Path,
        *,
        own: bool = False,
        depth: int = 0,
        rule: bool = False,
        about: str = "",
        named_by: Path | None = None,
    ) -> None:
        """Read one file and its imports. `own`: the user's file, which may import any path.

        `rule`: it may have a front matter. `named_by` is the file that imports it.
        """
        real = os.path.realpath(path)
        if (other := self._paths.get(real)) is not None:
            if other != path and depth == 0:
                self.skipped.append(SkippedInstruction(path, f"it is {other}, which is read already"))
            return
        if why := self._refusal_reason(Path(real), own, depth + rule):
            if os.path.lexists(path):
                self.skipped.append(SkippedInstruction(path, *why))
            return
        text = _read_text(Path(real))
        text = scope_of(text)[1] if rule and text is not None else text
        if text is None:
            if os.path.lexists(path):
                self.skipped.append(_explain_no_text(path))
            return
        self._paths[real] = path
        if not own and not Path(real).is_relative_to(self.root):
            self.led_outside.append((named_by or path, Path(real)))
        targets = self._targets(path, text, Path(real).parent, depth)
        digest = _digest(text)
        if digest in self._digests:
            self.skipped.append(
                SkippedInstruction(path, f"it says what {self._digests[digest]} says, which is read already")
            )
        elif targets and not _IMPORT.sub("", text).strip():
            self.import_only.append(path)
        else:
            self._digests[digest] = path
            self._add(path, text, about)
        for target in targets:
            self.read(target, own=own, depth=depth + 1, named_by=path)

    def _targets(self, path: Path, text: str, base: Path, depth: int) -> list[Path]:
        """Return the files that a text imports. Missing files and imports that are too deep are noted as skipped."""
        found: list[Path] = []
        for name, line in _imports(text):
            target = _target(name, base)
            if target is None:
                if Path(name.rstrip(_TRAILING_MARKS)).suffix.lower() in _TEXT_SUFFIXES and "://" not in name:
                    self.skipped.append(SkippedInstruction(path, f"@{name}: there is no such file", "broken", line))
            elif depth >= MAX_DEPTH:
                self.skipped.append(
                    SkippedInstruction(path, f"@{name}: imports are followed {MAX_DEPTH} deep", line=line)
                )
            else:
                found.append(target)
        return found

    def _refusal_reason(
        self, real: Path, own: bool, depth: int
    ) -> tuple[str, Literal["ignored", "needs trust"]] | None:
        if own or real.is_relative_to(self.root):
            return None
        if real.suffix.lower() not in _TEXT_SUFFIXES or not (depth > 0 or real.name in {*FILE_NAMES, LOCAL_FILE_NAME}):
            return "it leads out of the repository, and not to a text", "ignored"
        known = self.outside is None or str(real) in self.outside
        return None if known else ("it leads out of the repository", "needs trust")

    def _add(self, path: Path, text: str, about: str) -> None:
        warning = ""
        if self._total >= MAX_TOTAL:
            warning = f"{path} was left out: the instructions before it are {self._total:,} characters long"
            text = f"[{warning}]"
        elif len(text) > MAX_CHARS:
            warning = f"{path} was cut at {MAX_CHARS:,} of {len(text):,} characters"
            text = f"{text[:MAX_CHARS]}\n[{warning}]"
        self._total += len(text)
        self.found.append(Instruction(path, text, warning, about))


def _directories_between(root: Path, leaf: Path) -> Iterator[Path]:
    """Return the directories from the root to the leaf, both included; only the leaf when it is not below the root."""
    if not leaf.is_relative_to(root):
        yield leaf
        return
    yield root
    place = root
    for part in leaf.relative_to(root).parts:
        place = place / part
        yield place


def _explain_no_text(path: Path) -> SkippedInstruction:
    """Return the reason why an existing file has no text. Only an empty file is no fault."""
    try:
        if not os.path.exists(path):
            return SkippedInstruction(path, "it is a link that leads nowhere", "broken")
        if not path.is_file():
            return SkippedInstruction(path, "it is a directory" if path.is_dir() else "it is no plain file", "broken")
        with open(path, "rb") as file:
            binary = b"\0" in file.read(4 * MAX_TOTAL)
        return (
            SkippedInstruction(path, "it is no text", "broken") if binary else SkippedInstruction(path, "it is empty")
        )
    except OSError as problem:
        return SkippedInstruction(path, problem.strerror or "it cannot be opened", "broken")


def _read_text(path: Path) -> str | None:
    """Return the file's text; None when it is not a regular text file."""
    try:
        if not path.is_file():
            return None
        with open(path, "rb") as file:
            content = file.read(4 * MAX_TOTAL)
    except OSError:
        return None
    return None if b"\0" in content or not content.strip() else content.decode("utf-8-sig", "replace")


_COMMENT_OR_CODE = re.compile(
    r"^ {0,3}(`{3,}|~{3,})[^\n]*\n.*?^ {0,3}\1|`[^`\n]*`|<!--.*?(?:-->|\Z)", re.DOTALL | re.MULTILINE
)
"""A fenced block, code in a line, or a comment, whichever begins first."""


def _imports(text: str) -> Iterator[tuple[str, int]]:
    """Return the `@path` words outside code and comments, each with its line."""
    for number, line in _without_code(text):
        for found in _IMPORT.finditer(_INLINE_CODE.sub("", line)):
            yield found[1], number


def _without_comment(found: re.Match[str]) -> str:
    """Return code as it is, and of a comment its line ends."""
    return "\n" * found[0].count("\n") if found[0].startswith("<!--") else found[0]


def _without_code(text: str) -> Iterator[tuple[int, str]]:
    fence = ""
    for number, line in enumerate(_COMMENT_OR_CODE.sub(_without_comment, text).splitlines(), 1):
        mark = _FENCE.match(line)
        if fence:
            if mark is not None and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
            continue
        if mark is not None:
            fence = mark[1]
            continue
        yield number, line


def _target(name: str, base: Path) -> Path | None:
    """Return the file that an import names, or None for a mention or an address."""
    for form in (name, name.rstrip(_TRAILING_MARKS)):
        path = Path(os.path.normpath(os.path.join(base, os.path.expanduser(form))))
        try:
            if path.is_file():
                return path
        except (OSError, ValueError):
            return None
    return None


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.strip().encode("utf-8", "surrogatepass")).digest()
