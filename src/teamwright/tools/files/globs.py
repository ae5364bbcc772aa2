"""File patterns as regular expressions, and the file types that a search can be limited to.

`*` and `?` stay in one directory, `**` crosses them, `{a,b}` is either, `[ab]` one character. A pattern without `/`
is meant for the name, at any depth. Knows text only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

MOST_BRACES = 200

TYPES: dict[str, tuple[str, ...]] = {
    "c": ("c", "h"),
    "cpp": ("cpp", "cc", "cxx", "hpp", "hh", "hxx", "h", "inl"),
    "cs": ("cs",),
    "css": ("css", "scss", "sass", "less"),
    "dart": ("dart",),
    "elixir": ("ex", "exs", "eex", "heex"),
    "go": ("go",),
    "haskell": ("hs", "lhs"),
    "html": ("html", "htm"),
    "java": ("java",),
    "js": ("js", "jsx", "mjs", "cjs", "vue"),
    "json": ("json", "jsonl"),
    "kotlin": ("kt", "kts"),
    "lua": ("lua",),
    "md": ("md", "markdown", "mdx"),
    "php": ("php",),
    "proto": ("proto",),
    "py": ("py", "pyi"),
    "r": ("r", "R", "Rmd"),
    "ruby": ("rb", "gemspec", "rake"),
    "rust": ("rs",),
    "scala": ("scala", "sbt"),
    "sh": ("sh", "bash", "zsh", "fish"),
    "sql": ("sql",),
    "svelte": ("svelte",),
    "swift": ("swift",),
    "toml": ("toml",),
    "ts": ("ts", "tsx", "mts", "cts"),
    "txt": ("txt",),
    "xml": ("xml",),
    "yaml": ("yaml", "yml"),
    "zig": ("zig",),
}
"""Type to extensions, under the names that ripgrep users know."""

ALSO = {
    "python": "py",
    "javascript": "js",
    "typescript": "ts",
    "rs": "rust",
    "rb": "ruby",
    "markdown": "md",
    "yml": "yaml",
}
"""Other names of types that models use."""


def compiled(patterns: Sequence[str]) -> re.Pattern[str]:
    """One expression that matches a relative path with `/` when one of the patterns does. Raises re.error."""
    return re.compile("|".join(f"(?:{_expression(one)})" for pattern in patterns for one in alternatives(pattern)))


def alternatives(pattern: str) -> list[str]:
    """The pattern with its braces multiplied out, at most 200 of them."""
    done: list[str] = []
    waiting = [pattern]
    while waiting and len(done) + len(waiting) <= MOST_BRACES:
        one = waiting.pop(0)
        found = re.search(r"\{([^{}]*,[^{}]*)\}", one)
        if found is None:
            done.append(one)
            continue
        waiting += [one[: found.start()] + choice + one[found.end() :] for choice in found.group(1).split(",")]
    return done + waiting


def listed(text: str) -> list[str]:
    """Patterns that were given in one string, apart by blanks or by commas outside of braces."""
    return [part for part in re.split(r"\s+|,(?![^{]*\})", text.strip()) if part]


def extensions(kind: str) -> tuple[str, ...] | None:
    """The extensions of a file type, or None for one that is not known."""
    name = kind.strip().lstrip(".").lower()
    return TYPES.get(ALSO.get(name, name))


def _expression(pattern: str) -> str:
    pattern = pattern.removeprefix("./")
    if "/" not in pattern.rstrip("/"):
        pattern = f"**/{pattern}"
    pattern = pattern.lstrip("/")
    if pattern.endswith("/"):
        pattern += "**"
    parts = re.findall(r"\*\*/|/\*\*$|\*+|\?|\[!?\]?[^\]]*\]|.", pattern, re.DOTALL)
    return "".join(_part(part) for part in parts) + r"\Z"


def _part(part: str) -> str:
    match part:
        case "**/":
            return r"(?:.*/)?"
        case "/**":
            return r"/.*"
        case "?":
            return r"[^/]"
        case "**":
            return r".*"
        case _ if part[0] == "*":
            return r"[^/]*"
        case _ if part[0] == "[" and len(part) > 2:
            inside = part[1:-1].replace("\\", "\\\\").replace("[", "\\[")
            return f"[^{inside[1:]}]" if inside[0] == "!" else f"[{inside}]"
        case _:
            return re.escape(part)
