"""The files that deny rules for Read name, which no command of an agent may read.

A sandbox hides paths, so that a pattern is searched in the file system before each command.
"""

from __future__ import annotations

import os
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence

from teamwright.permissions.excluded_paths import ExcludedPaths, Segments, compile_patterns

MAX_ENTRIES = 50_000
"""Directory entries that are searched below one directory. Entries near to it come first."""


def denied_paths(
    excluded: ExcludedPaths, roots: Sequence[os.PathLike[str]], warn: Callable[[str], None]
) -> tuple[str, ...]:
    """Return the existing paths that the patterns name; of a directory, only itself.

    `excluded` are the patterns below `/`; a pattern that begins with a sign is searched in `roots`. `warn` is called
    with a sentence about each directory that has more than `MAX_ENTRIES` entries.
    """
    found, searched = list[str](), defaultdict[str, list[Segments]](list)
    for pattern in excluded.patterns:
        fixed = next((at for at, name in enumerate(pattern) if set(name) & set("*?")), len(pattern))
        top = os.path.join(os.sep, *pattern[:fixed])
        if fixed == len(pattern):
            found.append(top)
        else:
            for directory in [top] if fixed else map(os.fspath, roots):
                searched[directory].append(pattern[fixed:])
    for directory, patterns in searched.items():
        found += _matching_paths(directory, patterns, warn)
    return tuple(path for path in dict.fromkeys(found) if os.path.lexists(path))


def _matching_paths(top: str, patterns: Sequence[Segments], warn: Callable[[str], None]) -> Iterator[str]:
    """Yield the paths below `top` that a pattern names, nearest first. Links are not followed."""
    matches, left = compile_patterns(patterns).fullmatch, MAX_ENTRIES
    directories = deque([(top, "")])
    while directories:
        directory, prefix = directories.popleft()
        if left < 0:
            warn(_too_many(top, patterns))
            return
        try:
            entries = list(os.scandir(directory))
        except OSError:
            continue
        left -= len(entries)
        for entry in entries:
            if matches(prefix + entry.name):
                yield entry.path
            elif _is_directory(entry):
                directories.append((entry.path, f"{prefix}{entry.name}/"))


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _too_many(top: str, patterns: Sequence[Segments]) -> str:
    rules = ", ".join("/".join(pattern) for pattern in patterns[:3])
    return (
        f"{top} has more than {MAX_ENTRIES:,} entries, so that the sandbox does not search all of it: deep inside it, "
        f"commands can read files that the deny rules for Read name ({rules}). Name their directories in the rules."
    )
