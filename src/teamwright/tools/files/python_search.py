"""The search of Grep in Python, as a program: for machines without ripgrep, and for patterns that ripgrep refuses.

`python -P -m teamwright.tools.files.python_search '{"pattern": …}'` prints like `rg --null`: `path NUL line:text`.
It is a separate process because an expression may take forever, and only a process can be ended.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from teamwright.permissions.excluded_paths import Segments
from teamwright.permissions.excluded_paths import compile_patterns as left_out_of
from teamwright.storage.files import compile_globs, read_plain
from teamwright.tools.files.file_change import decode, is_binary, replace_surrogates
from teamwright.tools.files.file_walk import is_excluded, walk

_CLASSES = {
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "alnum": "a-zA-Z0-9",
    "upper": "A-Z",
    "lower": "a-z",
    "space": r"\s",
    "punct": r"!-/:-@\[-`{-~",
    "word": r"\w",
    "xdigit": "0-9a-fA-F",
}
MAX_BYTES = 64 * 1024 * 1024
"""The largest file that is searched, in bytes."""


class Search(Struct, frozen=True):
    """The parameters of a search. `mode` is `content`, `files_with_matches` or `count`; `names` narrow the files.

    `but` are patterns of files that must not be read, relative to `root`, as names between slashes.
    """

    pattern: str
    root: str
    mode: str = "files_with_matches"
    names: tuple[str, ...] = ()
    but: Sequence[Segments] = ()
    also: tuple[str, ...] = ()
    """Files and directories below the root that are searched although git ignores them."""
    ignore_case: bool = False
    before: int = 0
    after: int = 0
    multiline: bool = False

    def as_argument(self) -> str:
        """Return the search as the one argument of this program."""
        return json.dumps(asdict(self))


def compile_expression(search: Search) -> re.Pattern[str]:
    """Compile the pattern, with the syntax of other dialects translated. Raises re.error."""
    text = re.sub(r"\[:(\w+):\]", lambda found: _CLASSES.get(found.group(1), found.group(0)), search.pattern)
    text = text.replace("(?<", "(?P<").replace("(?P<=", "(?<=").replace("(?P<!", "(?<!").replace(r"\z", r"\Z")
    flags = re.IGNORECASE if search.ignore_case else re.NOFLAG
    return re.compile(text, flags | re.MULTILINE | (re.DOTALL if search.multiline else re.NOFLAG))


def result_lines(search: Search) -> Iterator[str]:
    """Return the output, in pieces. Raises re.error."""
    expression = compile_expression(search)
    names = compile_globs(search.names) if search.names else None
    first = True
    for path in _files(Path(search.root), names, search.but, search.also):
        text = _text(path)
        hits = _hits(expression, text, search.multiline) if text else []
        if not hits:
            continue
        if search.mode == "files_with_matches":
            yield f"{path}\0"
        elif search.mode == "count":
            yield f"{path}\0{sum(count for _, _, count in hits)}\n"
        else:
            yield from _content(path, text.split("\n"), hits, search, first)
        first = False


def main() -> int:
    """Run the given search. Return 0 for results, 1 for none, 2 for an invalid pattern (like ripgrep)."""
    fields: dict[str, Any] = json.loads(sys.argv[1])
    fields["names"] = tuple(fields["names"])
    fields["also"] = tuple(fields["also"])
    fields["but"] = [tuple(segments) for segments in fields["but"]]
    search = Search(**fields)
    found = False
    try:
        for piece in result_lines(search):
            sys.stdout.write(piece)
            found = True
    except (re.error, OverflowError, RecursionError) as problem:
        sys.stderr.write(f"regex parse error: {problem}")
        return 2
    return 0 if found else 1


def _files(
    root: Path, names: re.Pattern[str] | None, excluded: Sequence[Segments], also: Sequence[str]
) -> Iterator[str]:
    if root.is_file():
        yield str(root)
        return
    start = len(str(root).rstrip("/")) + 1
    for path in _paths(root, excluded, also):
        if names is None or names.match(path, start) is not None:
            yield path


def _paths(root: Path, excluded: Sequence[Segments], also: Sequence[str]) -> Iterator[str]:
    but = left_out_of(excluded) if excluded else None
    start = len(str(root).rstrip("/")) + 1
    for entry in walk(root, follow_links=False, excluded=but):
        yield entry.path
    for path in also:
        if not os.path.isdir(path):
            yield path
            continue
        for entry in walk(Path(path), follow_links=False):
            if but is None or not is_excluded(but, entry.path, start):
                yield entry.path


def _text(path: str) -> str:
    """Return the text of a file with plain line ends and without the last one; empty for a binary file."""
    try:
        content = read_plain(path, MAX_BYTES)
    except OSError:
        return ""
    if is_binary(content) or (b"\0" in content and not content.startswith((b"\xff\xfe", b"\xfe\xff"))):
        return ""
    return replace_surrogates(decode(content).text.replace("\r\n", "\n")).removesuffix("\n")


def _hits(expression: re.Pattern[str], text: str, multiline: bool) -> list[tuple[int, int, int]]:
    """Return (first line, last line, matches that begin on them), from 0; without `multiline` each line is searched
    alone."""
    if not multiline:
        # A search of the whole text is cheap and rejects most files. Lines decide, because `\s` and `[^x]` may cross
        # lines.
        # A pattern that looks at the ends of the text may match a line alone and not in its text.
        if expression.search(text) is None and not any(
            piece in expression.pattern for piece in (r"\A", r"\Z", "(?!", "(?<!", r"\z")
        ):
            return []
        return [(n, n, 1) for n, line in enumerate(text.split("\n")) if expression.search(line) is not None]
    hits: list[tuple[int, int, int]] = []
    at = line = 0
    for match in expression.finditer(text):
        line += text.count("\n", at, match.start())
        at = match.start()
        hits.append((line, line + text.count("\n", at, max(at, match.end() - 1)), 1))
    return hits


def _content(
    path: str, lines: list[str], hits: list[tuple[int, int, int]], search: Search, first: bool
) -> Iterator[str]:
    matched = {n for begin, end, _ in hits for n in range(begin, end + 1)}
    around = {
        n
        for begin, end, _ in hits
        for n in range(max(0, begin - search.before), min(len(lines), end + search.after + 1))
    }
    previous = None
    for n in sorted(around):
        if (search.before or search.after) and (n - 1 != previous if previous is not None else not first):
            yield "--\n"
        yield f"{path}\0{n + 1}{':' if n in matched else '-'}{lines[n]}\n"
        previous = n


if __name__ == "__main__":
    sys.exit(main())
