"""Files of a project that a text names, such as the value of a git setting, and one digest of their content.

The text is not parsed as shell code: rather too many files count than too few. `executed_file_search` parses lines of
hooks, and says when it is in doubt; a digest has no doubt. Files are read within bounds. Runs nothing.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from teamwright.storage.files import read_plain

MAX_FILES = 200
"""Files of one tree that go into a digest."""

MAX_BYTES = 64_000_000
"""Bytes of one tree that go into a digest."""

TOO_MUCH = "more than can be compared"
"""The digest of a tree with more files or bytes, or with a file that cannot be read."""

DATA_EXTENSIONS = frozenset(
    (
        *(".log", ".txt", ".out", ".csv", ".tmp", ".pid", ".lock", ".md", ".rst", ".html", ".css", ".svg", ".png"),
        *(".json", ".jsonl", ".yaml", ".yml", ".toml", ".xml", ".ini", ".cfg", ".db", ".sqlite"),
        *(".c", ".h", ".cc", ".cpp", ".hpp", ".rs", ".go", ".java", ".kt", ".swift", ".cs"),
    )
)
"""Ends of the names of files that no interpreter runs. A name without an end may be a script."""

MAX_SCRIPTS = 60
"""Scripts that are read because another one, or a setting, names them."""

MAX_SCRIPT_BYTES = 256_000

_SKIPPED = frozenset({"__pycache__", ".git"})
"""Directories that are not part of a tree: hooks run with another cache of Python, and git has its own entries."""

_BETWEEN = re.compile(r"[\s;&|()<>`\"'{}=,]+")
_SEGMENT = re.compile(r"[;&|()`\n]+|\$\(")
_HOME = re.compile(r"\$HOME(?=/)|\$\{HOME\}(?=/)|~(?=/)")
_VARIABLE = re.compile(r"^\$\w*/")
_STREAM_EDITOR = re.compile(r"\s*g?sed\s")
_EXPRESSION = re.compile(r"(?<=[\s'\"])[sy]([/|,#:!])(?:(?!\1).)*\1(?:(?!\1).)*\1[gIimp0-9]*(?=[\s'\";]|$)")
"""An expression of sed that runs nothing and writes no file."""

_RUNNERS = re.compile(
    r"python[\d.]*|pypy[\d.]*|ruby|node|nodejs|deno|bun|bunx|perl|php|lua|npm|npx|pnpm|yarn|make|gmake|just|task|rake|uv"
    r"|uvx|poetry|pipenv|hatch|pdm|rye|bundle|go|cargo|gradle|mvn|tox|nox|invoke|inv|pre-commit|lefthook|husky|docker"
    r"|podman|devbox|mise|asdf|direnv|composer|mix|dotnet"
)
"""Programs that run what a file or a setting of the project says."""


def names_project_code(text: str, tree: Path, directories: Iterable[str] = ()) -> bool:
    """Return True when a command line may run code of the project: a relative program, a file of the work tree, or a
    program that runs what the project says.

    `directories` are further directories of the project, by real path.
    """
    tops = (str(tree), *directories)
    text = _EXPRESSION.sub("", text) if _STREAM_EDITOR.match(text) else text
    for segment in _SEGMENT.split(text):
        words = [word for word in _BETWEEN.split(_HOME.sub(os.path.expanduser("~"), segment)) if word]
        if words and _segment_is_code(words, tree, tops):
            return True
    return False


_GIT_COMMANDS = frozenset(
    (
        *("", "lfs", "annex", "crypt", "merge-file", "credential-cache", "credential-store"),
        *("diff", "log", "show", "cat-file"),
    )
)
"""Commands of git in settings that are no aliases: git runs its own commands, and installed ones, before an alias."""


def _segment_is_code(words: list[str], tree: Path, tops: tuple[str, ...]) -> bool:
    program = words[0].lstrip("!")
    name = os.path.basename(program)
    if _RUNNERS.fullmatch(name) and not _has_outside_script(words, tops):
        return True
    if name == "git" and next((word for word in words[1:] if not word.startswith("-")), "") not in _GIT_COMMANDS:
        return True  # an alias may be a command line
    is_relative = "/" in program and not program.startswith(("/", "$"))
    return is_relative or any(_is_of_project(word, tree, tops) for at, word in enumerate(words) if at or "/" in word)


def _has_outside_script(words: list[str], tops: tuple[str, ...]) -> bool:
    """Return True when an interpreter runs a script by an absolute path outside of the project."""
    script = next((word for word in words[1:] if not word.startswith("-")), "")
    modules = any(word.startswith("-") and not word.startswith("--") and set(word) & set("mcerI") for word in words[1:])
    return script.startswith("/") and not modules and not is_inside_any(script, tops)


def _is_of_project(word: str, tree: Path, tops: tuple[str, ...]) -> bool:
    if word.startswith("/"):
        return is_inside_any(word, tops) or os.path.isfile(f"{tree}/{word.lstrip('/')}")
    if word.startswith(("./", "../")):
        return True
    plain = _VARIABLE.sub("", word)
    return bool(plain.strip("/.-")) and os.path.isfile(os.path.join(tree, plain))


def is_inside_any(path: str, tops: Iterable[str]) -> bool:
    """Return True when an absolute path, or what it leads to, is one of these directories or inside one."""
    found = (os.path.normpath(path), os.path.realpath(path))
    return any(f"{one}/".startswith(f"{top.rstrip('/')}/") for one in found for top in tops)


def is_program(path: Path) -> bool:
    """Return True for a file that may be a script or a program, and for one that does not exist."""
    return path.suffix not in DATA_EXTENSIONS or not os.path.lexists(path) or os.access(path, os.X_OK)


def named_code(text: str, tree: Path) -> list[Path]:
    """Return the existing files and directories of a work tree that a text names, and the programs that the scripts
    among them name in turn, from the tree or from beside them.
    """
    found = dict.fromkeys(named_paths(text, tree))
    waiting = [file for path in found for file in tree_files(path) or () if file.is_file()]
    read = set[Path]()
    while waiting and len(read) < MAX_SCRIPTS:
        script = waiting.pop()
        read.add(script)
        if not is_program(script):
            continue
        try:
            inside = read_plain(script, MAX_SCRIPT_BYTES).decode("utf-8", "replace")
        except OSError:
            continue
        named = [*named_paths(inside, tree), *named_paths(inside, tree, script.parent)]
        new = [path for path in dict.fromkeys(named) if path not in found and path.is_file() and is_program(path)]
        found |= dict.fromkeys(new)
        waiting += new
    return list(found)


def named_paths(text: str, tree: Path, place: Path | None = None) -> list[Path]:
    """Return the existing files and directories of a work tree that a text names, also as modules of Python.

    The work tree itself is not one of them. Names are relative to `place`, by default the work tree.
    """
    place = place or tree
    found: dict[Path, None] = {}
    for word in dict.fromkeys(_BETWEEN.split(text)):
        plain = _VARIABLE.sub("", word).lstrip("!/")
        forms = {plain, plain.rpartition("$")[0]}
        if re.fullmatch(r"[A-Za-z_]\w*(?:\.\w+)*", plain):
            module = plain.replace(".", "/")
            forms |= {f"{module}.py", module}
        if word.startswith("/") and is_inside_any(word, (str(tree),)):
            forms.add(os.path.relpath(os.path.realpath(word), place))
        for form in sorted(forms) if len(plain) < 1_000 and "\0" not in plain else ():
            if not form.strip("./-") or not os.path.lexists(os.path.join(place, form)):
                continue  # looked at first: the real path of each word of a script would take ten times as long
            path = Path(os.path.realpath(os.path.join(place, form)))
            if path != tree and path.is_relative_to(tree) and os.path.lexists(path):
                found[path] = None
    return list(found)


def tree_files(path: Path) -> list[Path] | None:
    """Return a file, or all files below a directory, sorted; None when there are too many."""
    if not os.path.isdir(path):
        return [path]
    found: list[Path] = []
    for place, directories, files in os.walk(path):
        directories[:] = sorted(name for name in directories if name not in _SKIPPED)
        found += [Path(place, name) for name in files]
        if len(found) > MAX_FILES:
            return None
    return sorted(found)


def content_digest(paths: Iterable[Path], base: Path) -> str:
    """Return one digest of files and trees, with their names below `base`. TOO_MUCH: of more than can be compared."""
    parts: list[str] = []
    for path in sorted(set(paths)):
        files = tree_files(path)
        if files is None:
            return TOO_MUCH
        parts += _file_parts(files, base)
    if TOO_MUCH in parts:
        return TOO_MUCH
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest() if parts else ""


def _file_parts(files: Iterable[Path], base: Path) -> Iterator[str]:
    left = MAX_BYTES
    for file in files:
        yield os.path.relpath(file, base)
        if not os.path.lexists(file):
            yield "missing"
            continue
        try:
            content = read_plain(file)
        except OSError:
            yield TOO_MUCH
            continue
        left -= len(content)
        yield hashlib.sha256(content).hexdigest() if left >= 0 else TOO_MUCH
