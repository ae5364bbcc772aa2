"""File types that limit a search, and lists of patterns in one text."""

from __future__ import annotations

import re

FILE_TYPES: dict[str, tuple[str, ...]] = {
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

TYPE_ALIASES = {
    "python": "py",
    "javascript": "js",
    "typescript": "ts",
    "rs": "rust",
    "rb": "ruby",
    "markdown": "md",
    "yml": "yaml",
}
"""Other names of types that models use."""


def split_patterns(text: str) -> list[str]:
    """Split a text into patterns, at blanks, or at commas outside of braces."""
    return [part for part in re.split(r"\s+|,(?![^{]*\})", text.strip()) if part]


def type_extensions(kind: str) -> tuple[str, ...] | None:
    """Return the extensions of a file type, or None for an unknown one."""
    name = kind.strip().lstrip(".").lower()
    return FILE_TYPES.get(TYPE_ALIASES.get(name, name))
