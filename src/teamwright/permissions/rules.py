"""Permission rules: `Tool` or `Tool(pattern)` with a verdict, parsed once and matched against a call's access.

Commands are compared word by word, paths by name and by real path, addresses by host as the resolver looks it up. Paths
of which only the shell knows a part are compared too. The syntax is that of the other product, so that its settings
files have the same meaning here.
"""

from __future__ import annotations

import os
import re
import shlex
import unicodedata
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import Struct

from teamwright.permissions.excluded_paths import (
    Segments,
    path_expression,
    patterns_below,
    segment_expression,
    star_expression,
)
from teamwright.permissions.verdict import Verdict
from teamwright.protocol.errors import UsageError
from teamwright.shell_lines.command_words import join_words
from teamwright.storage.real_paths import real_path

if TYPE_CHECKING:
    from teamwright.shell_lines.expansion import Shape


READ_TOOLS = frozenset({"Read", "Glob", "Grep"})
"""Tools to which a `Read` rule applies."""

WRITE_TOOLS = frozenset({"Write", "Edit", "NotebookEdit"})
"""Tools to which an `Edit` or `Write` rule applies."""
PATH_TOOLS = READ_TOOLS | WRITE_TOOLS | {"MultiEdit"}
"""Tools whose patterns are paths."""

_TOOLS_BY_NAME = {
    "Read": READ_TOOLS,
    "Edit": WRITE_TOOLS | {"MultiEdit"},
    "MultiEdit": frozenset({"Edit", "MultiEdit"}),
    "Agent": frozenset({"Agent", "Task"}),
    "Task": frozenset({"Agent", "Task"}),
    "Unconfined": frozenset({"Bash"}),
}
_RULE_FORM = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*(?:\*)?)(?:\((.*)\))?", re.DOTALL)


class Rule(Struct, frozen=True):
    """One rule. `source` names the file or flag that it came from; `by_user`: a person set it.

    A rule of a repository's shared settings is not the user's. `trusted`: a person trusted this entry.
    """

    verdict: Verdict
    tool: str
    pattern: str | None
    source: str
    by_user: bool = True
    trusted: bool = False
    _matcher: PathPattern | WordPattern | HostPattern | None = None

    @property
    def text(self) -> str:
        """The rule as it was written."""
        return self.tool if self.pattern is None else f"{self.tool}({self.pattern})"

    def __str__(self) -> str:
        return f"{self.text} [{self.source}]"

    @property
    def is_unconfined(self) -> bool:
        """True when a person allowed the command outside the sandbox."""
        return self.tool == "Unconfined" and self.by_user

    @property
    def is_whole_tool(self) -> bool:
        """True when the rule applies to every call of its tool."""
        return self.pattern is None

    @property
    def names_port(self) -> bool:
        """True when the rule names one port of a host."""
        return isinstance(self._matcher, HostPattern) and self._matcher.port != 0

    @property
    def is_exact(self) -> bool:
        """True when the rule leaves no words open: it applies to every call, or to a command word by word."""
        matcher = self._matcher
        return self.is_whole_tool or (isinstance(matcher, WordPattern) and not matcher.prefix and matcher.line is None)

    @property
    def written_words(self) -> tuple[str, ...]:
        """The words of a command pattern as they were written."""
        return self._matcher.written if isinstance(self._matcher, WordPattern) else ()

    @property
    def tools(self) -> frozenset[str]:
        """The names of the tools to which the rule applies; a name may end in a star."""
        return _TOOLS_BY_NAME.get(self.tool, frozenset()) | {self.tool}

    def names_tool(self, tool: str) -> bool:
        """Return True when the rule applies to this tool."""
        mine = self.tool
        if mine.endswith("*"):
            return tool.startswith(mine[:-1])
        if tool in _TOOLS_BY_NAME.get(mine, ()) or mine == tool:
            return True
        return mine.startswith("mcp__") and mine.count("__") == 1 and tool.startswith(mine + "__")

    def matches_path(self, path: str, real: str) -> bool:
        """Match a path by name and by real path: an allow rule needs both, any other rule one."""
        if self.pattern is None:
            return True
        if not isinstance(self._matcher, PathPattern):
            return False
        named = self._matcher.matches_name(path)
        truly = self._matcher.matches_real(real)
        return named and truly if self.verdict is Verdict.ALLOW else named or truly or self._matcher.matches_name(real)

    def may_name_below(self, real: str) -> bool:
        """Return True when a path rule may name something below this directory, given by its real path."""
        return bool(self.names_below(real))

    def names_below(self, directory: str) -> set[Segments]:
        """Return the patterns of the rule for paths below this directory, relative to it."""
        return self._matcher.patterns_below(directory) if isinstance(self._matcher, PathPattern) else set()

    def may_name(self, shape: Shape, *, certain: bool) -> bool:
        """Return whether the rule may name a file of which only a part is written (see `NamePattern.may_name`)."""
        if self.pattern is None:
            return certain
        return isinstance(self._matcher, PathPattern) and self._matcher.may_match(shape, certain)

    def matches_words(self, words: Sequence[str | None]) -> bool:
        """Return True when the rule names a command of these words."""
        return self.pattern is None or (isinstance(self._matcher, WordPattern) and self._matcher.matches(words))

    def could_match(self, words: Sequence[str | None]) -> bool:
        """Return True when the rule may name it, after the shell has filled in unknown words."""
        return self.pattern is None or (isinstance(self._matcher, WordPattern) and self._matcher.could_match(words))

    def matches_url(self, url: str) -> bool:
        """Return True when the address is at the rule's host; a rule that forbids also covers hosts below it."""
        if self.pattern is None:
            return True
        return isinstance(self._matcher, HostPattern) and self._matcher.matches(url, self.verdict is not Verdict.ALLOW)

    def matches_subject(self, subject: str | None) -> bool:
        """Return True when `Tool(pattern)` names this subject; `*` matches any text."""
        return self.pattern is None or (subject is not None and fnmatchcase(subject, self.pattern))


def parse_rule(
    text: str, verdict: Verdict, source: str, base: Path, by_user: bool = True, trusted: bool = False
) -> Rule:
    """Parse a rule; relative path patterns are below `base`. Raises UsageError naming the source."""
    form = _RULE_FORM.fullmatch(text.strip())
    if form is None:
        raise _invalid_rule(text, source, "a tool's name, or Tool(pattern)")
    tool = form[1]
    pattern = form[2]
    if tool.endswith("*") and not tool.startswith(("mcp__", "python__")):
        raise _invalid_rule(text, source, "a star in a tool's name only after mcp__ or python__")
    if pattern is not None and (pattern.strip() in {"", "*", ":*", "**"}):
        pattern = None
    if tool == "Unconfined" and (pattern is None or verdict is not Verdict.ALLOW):
        raise _invalid_rule(text, source, "Unconfined(COMMAND), in rules that allow; Bash(COMMAND) asks or denies")
    if pattern is None:
        return Rule(verdict, tool, None, source, by_user, trusted)
    try:
        return Rule(verdict, tool, pattern, source, by_user, trusted, _pattern_of(tool, pattern, base, verdict))
    except ValueError as problem:
        raise _invalid_rule(text, source, str(problem)) from None


def _pattern_of(
    tool: str, pattern: str, base: Path, verdict: Verdict
) -> PathPattern | WordPattern | HostPattern | None:
    if "\0" in pattern or "\n" in pattern:
        raise ValueError("one line")
    if tool in {"Bash", "Unconfined"}:
        return WordPattern.parse(pattern.strip(), verdict is not Verdict.ALLOW)
    if tool in PATH_TOOLS:
        if ".." in pattern.split("/"):
            raise ValueError("a path without '..'")
        return PathPattern.parse(pattern, base, verdict is not Verdict.ALLOW)
    if tool == "WebFetch":
        return HostPattern.parse(pattern)
    return None


def parse_rules(
    texts: Iterable[str], verdict: Verdict, source: str, base: Path, by_user: bool = True, trusted: bool = False
) -> tuple[Rule, ...]:
    """Parse rules, in order. Raises UsageError for the first invalid one."""
    return tuple(parse_rule(text, verdict, source, base, by_user, trusted) for text in texts)


def _invalid_rule(text: str, source: str, expected: str) -> UsageError:
    return UsageError(
        "usage",
        f"{text[:120]!r} is not a permission rule",
        looked_at=[("from", source), ("expected", expected)],
        do=["Bash(git status:*), Read(src/**), Edit(//abs/path/**), WebFetch(domain:example.org), Agent(Explore)"],
    )


class PathPattern(Struct, frozen=True):
    """A path pattern as two expressions: for the path as it is named, and for its real path."""

    _named: re.Pattern[str]
    _real: re.Pattern[str]
    _parts: tuple[Segments, ...]
    """The segments from the root on, by name and by real path."""
    _names: tuple[NamePattern, ...]
    """The pattern for partly known names, by name and by real path."""

    def patterns_below(self, directory: str) -> set[Segments]:
        """Return the patterns that may match below this directory, relative to it."""
        names = [part for part in directory.split("/") if part]
        return set[Segments]().union(*(patterns_below(parts, names) for parts in self._parts))

    def matches_name(self, path: str) -> bool:
        """Return True when the path matches as it is named."""
        return self._named.fullmatch(path) is not None

    def matches_real(self, path: str) -> bool:
        """Return True when a real path matches."""
        return self._real.fullmatch(path) is not None

    def may_match(self, shape: Shape, certain: bool) -> bool:
        """Return whether a name of this shape may become one that matches."""
        return any(names.may_name(shape, certain=certain) for names in self._names)

    @classmethod
    def parse(cls, pattern: str, base: Path, strict: bool) -> PathPattern:
        """Parse `//abs`, `~/home`, `/from-the-base`, or any other path below the base; one name matches at any depth.

        `strict` is for rules that forbid: they also follow links in the written part, and ignore case.
        """
        root, rest = _split_start(pattern, base)
        if pattern.startswith("//"):
            top, slash, below = rest.partition("/")
            real_root, real_rest = (Path("/"), rest) if "*" in top else (Path(real_path("/" + top)), slash + below)
        elif pattern == "~" or pattern.startswith("~/"):
            real_root = Path(real_path(root))
            real_rest = rest
        else:
            real_root = Path(real_path(base))
            real_rest = rest
        begins = ((root, rest), (real_root, real_rest))
        flags = re.IGNORECASE if strict else 0
        named = _path_expression(root, rest)
        real = _path_expression(real_root, real_rest)
        if strict:
            fixed, rest = _written_part(root, rest)
            real += "|" + _path_expression(Path(real_path(fixed)), rest)
        written = (_written_part(*begin) for begin in begins)
        forms = {*begins, *((Path(real_path(fixed)), below) for fixed, below in written)}
        parts = tuple(
            tuple(part for part in f"{top}/{below}".split("/") if part not in {"", "."}) for top, below in forms
        )
        names = tuple(NamePattern.parse(str(root), rest) for root, rest in dict.fromkeys(begins))
        return cls(re.compile(named, flags), re.compile(real, flags), parts, names)


def _split_start(pattern: str, base: Path) -> tuple[Path, str]:
    """Return the directory where a path pattern begins, and the rest of it."""
    if pattern.startswith("//"):
        return Path("/"), pattern[2:]
    if pattern == "~" or pattern.startswith("~/"):
        return Path(os.path.expanduser("~")), pattern[2:]
    rest = pattern.removeprefix("/").removeprefix("./")
    return base, rest if "/" in pattern.rstrip("/") or not rest else "**/" + rest


def fixed_directory(pattern: str, base: Path) -> Path:
    """Return the real path of a pattern's part without wildcards. All its matches are there or below."""
    return Path(real_path(_written_part(*_split_start(pattern, base))[0]))


def _written_part(root: Path, rest: str) -> tuple[Path, str]:
    """Return the leading segments without wildcards joined to the root, and the rest."""
    parts = [part for part in rest.split("/") if part]
    count = next((at for at, part in enumerate(parts) if "*" in part or "?" in part), len(parts))
    return root.joinpath(*parts[:count]), "/".join(parts[count:])


def _path_expression(root: Path, rest: str) -> str:
    expression = re.escape(str(root)).rstrip("/")
    names = [part for part in rest.split("/") if part not in {"", "."}]
    while names[-1:] == ["**"]:
        names.pop()  # everything below is included anyway
    return f"{expression}{'/' if names else ''}{path_expression(names)}(?:/.*)?"


class WordPattern(Struct, frozen=True):
    """A command pattern: words that must come first (`prefix`), all words, or a line with `*` in it.

    A rule that allows names its last word exactly: `npm run test:*` is not `npm run test:unit`. In other rules the last
    word of a prefix may continue after a colon, or with any text.
    """

    words: tuple[str, ...]
    prefix: bool = False
    more: str | None = None
    """The sign after which the last word of a prefix may continue; None: it may not."""
    line: re.Pattern[str] | None = None
    written: tuple[str, ...] = ()

    def matches(self, words: Sequence[str | None]) -> bool:
        """Return True when these words certainly match; an unknown word only where any text may follow."""
        if self.line is not None:
            return self.line.fullmatch(join_words(words)) is not None
        count = len(self.words)
        if not self.prefix or not count:
            return tuple(words) == self.words or self.prefix
        last = words[count - 1] if len(words) >= count else None
        if last is None or tuple(words[: count - 1]) != self.words[:-1]:
            return False
        is_longer = self.more is not None and last.startswith(self.words[-1] + self.more)
        return last == self.words[-1] or is_longer or (last.startswith("--") and last.startswith(self.words[-1] + "="))

    def could_match(self, words: Sequence[str | None]) -> bool:
        """Return True when they may match: an unknown word may be any text, or several words."""
        if None not in words:
            return self.matches(words)
        known = tuple(words[: list(words).index(None)])
        if self.line is not None:
            line = join_words(known)
            until = " ".join(self.written).split("*")[0].rstrip()
            return line.startswith(until[: len(line)]) or until.startswith(line)
        return known[: len(self.words)] == self.words[: len(known)]

    @classmethod
    def parse(cls, pattern: str, strict: bool) -> WordPattern:
        """Parse `git push:*`, `npm run test`, `git * main`. Raises ValueError when quotes do not close."""
        for end in (":*", " *"):
            if pattern.endswith(end) and (end == ":*" or "*" not in pattern[:-2]):
                words = tuple(shlex.split(pattern[:-2]))
                more = ("" if end == ":*" else ":") if strict else None
                return cls(words, prefix=True, more=more, written=words)
        written = tuple(shlex.split(pattern))
        if "*" not in pattern:
            return cls(written, written=written)
        expression = star_expression(" ".join(pattern.split()), ".")
        return cls((), line=re.compile(expression, re.DOTALL), written=tuple(pattern.split()))


class NamePattern(Struct, frozen=True):
    """A path pattern: the directory where it begins, and the names of the pattern below it. Case is ignored."""

    root: str
    rest: Segments

    @classmethod
    def parse(cls, root: str, rest: str) -> NamePattern:
        """Return the pattern `rest` below the directory `root`."""
        return cls(root, tuple(part for part in rest.split("/") if part not in {"", "."}))

    @property
    def names_directory(self) -> bool:
        """True when it may name a directory, whose contents it then includes.

        `.env` and `*.pem` are names of files: they include nothing below, unless such a directory exists.
        """
        fixed = [part for part in self.rest if part != "**"]
        if not fixed or "." not in fixed[-1] or self.rest[-1] == "**":
            return True
        return os.path.isdir(os.path.join(self.root, *fixed))

    def may_name(self, shape: Shape, *, certain: bool) -> bool:
        """Return True when a file name of this shape may become one that the pattern names.

        With `certain` the program takes the word for a file, so the unknown part may be any path. Otherwise the written
        part must contain everything that the pattern requires.
        """
        partial, full = _written_end(shape)
        root = _lower_names(self.root)
        rest = tuple(part.lower() for part in self.rest)
        whole = (*root, *rest)
        free = len(whole) if certain else len(root)
        patterns = [whole, (*whole, "**")] if self.names_directory else [whole]
        if any(_ends_like(pattern, partial, full, free) for pattern in patterns):
            return True
        # The directory at its start may be one that the pattern names, with its contents.
        begin, slash, _ = (shape[0] or "").rpartition("/")
        names = _lower_names(os.path.normpath(begin)) if slash else ()
        return any(_match_names(whole, names[:end]) for end in range(1, len(names) + 1))


def _lower_names(path: str) -> Segments:
    return tuple(part.lower() for part in path.split("/") if part not in {"", "."})


def _written_end(shape: Shape) -> tuple[str, Segments]:
    """Return the written end of a name after its last unknown part: the end of a name, and whole names after it."""
    text = (shape[-1] or "").lower() if shape else ""
    first, *full = text.split("/")
    if ".." in full:
        # `..` leaves the part before it, so its beginning is unknown.
        first = ""
        full = full[len(full) - full[::-1].index("..") :]
    return first, tuple(name for name in full if name not in {"", "."})


@lru_cache(maxsize=4_096)
def _ends_like(pattern: Segments, partial: str, full: Segments, free: int) -> bool:
    """Return True when a path with this end may be named; the unknown part may replace the first `free` names."""
    if not full:
        return _matches_from_unknown(pattern, partial, free)
    if not pattern:
        return False
    if pattern[-1] == "**":
        return _ends_like(pattern[:-1], partial, full, free) or _ends_like(pattern, partial, full[:-1], free)
    return _is_named(pattern[-1], full[-1]) and _ends_like(pattern[:-1], partial, full[:-1], free)


def _matches_from_unknown(pattern: Segments, partial: str, free: int) -> bool:
    if partial and pattern and pattern[-1] == "**" and _matches_from_unknown(pattern[:-1], partial, free):
        return True
    if partial and pattern and pattern[-1] != "**":
        ends = (pattern[-1][at:] for at in range(len(pattern[-1])))
        if not any(_is_named(end, partial) for end in ends):
            return False
        pattern = pattern[:-1]
    return all(name == "**" for name in pattern[free:])


@lru_cache(maxsize=4_096)
def _match_names(pattern: Segments, names: Segments) -> bool:
    if not pattern:
        return not names
    if pattern[0] == "**":
        return _match_names(pattern[1:], names) or (bool(names) and _match_names(pattern, names[1:]))
    return bool(names) and _is_named(pattern[0], names[0]) and _match_names(pattern[1:], names[1:])


def _is_named(pattern: str, name: str) -> bool:
    return re.fullmatch(segment_expression(pattern), name, re.DOTALL) is not None


_WITH_PORT = re.compile(r"(\[[^\]]*\]|[^:]*):(\d+)")
_MAX_PORT = 65_535
_DOTS = str.maketrans({"\u3002": ".", "\uff0e": ".", "\uff61": "."})


class HostPattern(Struct, frozen=True):
    """A pattern `domain:HOST` or `domain:HOST:PORT`; `*.HOST` is every host below it. `port` is 0 for all ports."""

    host: str
    port: int = 0

    @classmethod
    def parse(cls, pattern: str) -> HostPattern:
        """Parse the pattern. Raises ValueError for an invalid one."""
        written = pattern.removeprefix("domain:").strip()
        found = _WITH_PORT.fullmatch(written)
        host = plain_host((found[1] if found else written).strip("[]"))
        port = int(found[2]) if found else 0
        if not pattern.startswith("domain:") or not host or "/" in host or (found and not 0 < port <= _MAX_PORT):
            raise ValueError("WebFetch(domain:HOST) or WebFetch(domain:HOST:PORT)")
        return cls(host, port)

    def matches(self, url: str, below: bool) -> bool:
        """Return True when the address is at this host, or with `below` also at one below it."""
        host = url_host(url)
        if not host:
            return below  # an invalid address is never allowed by a rule
        if self.port and self.port != url_port(url):
            return False
        if self.host.startswith("*."):
            return host.endswith(self.host[1:]) or (below and host == self.host[2:])
        return host == self.host or (below and host.endswith("." + self.host))


def url_host(url: str) -> str:
    """Return the host of an address in lower case; empty for an invalid address."""
    try:
        return plain_host(urlsplit(url).hostname or "")
    except ValueError:
        return ""


def url_port(url: str) -> int:
    """Return the port of an address; 0 for an invalid one."""
    try:
        parts = urlsplit(url)
        return parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
    except ValueError:
        return 0


def plain_host(host: str) -> str:
    """Return a host as the resolver looks it up: in lower case and ASCII. Raises ValueError for an impossible one."""
    name = unicodedata.normalize("NFKC", host).translate(_DOTS).rstrip(".").lower()
    return name if name.isascii() else name.encode("idna").decode("ascii")


def is_local_host(host: str) -> bool:
    """Return True for the name or address of this machine or its network: `localhost`, or a private address.

    Link-local addresses are excluded: cloud machines have services there that return credentials.
    """
    name = host.lower().strip("[]").rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ip_address(name)
    except ValueError:
        return False
    address = getattr(address, "ipv4_mapped", None) or address
    return (address.is_loopback or address.is_private) and not address.is_link_local and not address.is_unspecified
