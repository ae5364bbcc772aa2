"""Pasted text in the input line: several lines become a placeholder, and the path of an image becomes a mention.

The placeholder is replaced by the whole text when the line is sent. Depends on file names alone.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from msgspec import Struct, field

MAX_VISIBLE_LINES, MAX_VISIBLE_CHARS = 5, 1_000
"""The most lines and characters of a paste that the input line shows; a longer paste becomes a placeholder."""

IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})

_PLACEHOLDER = re.compile(r"\[pasted text \d+: [\d,]+ (?:lines|characters)\]")
_MAX_PATH = 4_096
_ESCAPED = re.compile(r"\\(.)")
_NEEDS_QUOTES = re.compile(r"[\s\"'`<>|]")


class PastedTexts(Struct):
    """The long texts that were pasted at one terminal, by their placeholders."""

    _texts: dict[str, str] = field(default_factory=dict[str, str])

    def fold(self, pasted: str) -> str:
        """Return the text for the input line: the pasted text, or a placeholder for a long one."""
        lines = pasted.rstrip("\n").count("\n") + 1
        if lines <= MAX_VISIBLE_LINES and len(pasted) <= MAX_VISIBLE_CHARS:
            return pasted
        size = f"{lines:,} lines" if lines > 1 else f"{len(pasted):,} characters"
        placeholder = f"[pasted text {len(self._texts) + 1}: {size}]"
        self._texts[placeholder] = pasted
        return placeholder

    def expand(self, line: str) -> str:
        """Return the line with the whole text in place of each placeholder."""
        return _PLACEHOLDER.sub(lambda found: self._texts.get(found[0], found[0]), line) if self._texts else line

    def placeholder_before(self, text_before: str) -> int:
        """Return the length of the placeholder that ends at the cursor; 0 without one."""
        if not self._texts or not text_before.endswith("]"):
            return 0
        last = list(_PLACEHOLDER.finditer(text_before))[-1:]
        return len(last[0][0]) if last and last[0].end() == len(text_before) and last[0][0] in self._texts else 0


def image_mention(pasted: str, cwd: Path) -> str:
    """Return `@PATH ` when the pasted text is the path of an existing image, which attaches it; else an empty text.

    Terminals paste a dropped file with quotes, with backslashes before blanks, or as an address `file://`.
    """
    text = pasted.strip()
    if "\n" in text or len(text) > _MAX_PATH:
        return ""
    for name in dict.fromkeys((text, _unquoted(text))):
        path = cwd / Path(name)
        if path.suffix.lower() not in IMAGE_SUFFIXES:
            continue
        try:
            if not path.is_file():
                continue
        except (OSError, ValueError):
            continue
        path_text = str(path.relative_to(cwd)) if path.is_relative_to(cwd) else str(path)
        if '"' not in path_text:
            return f'@"{path_text}" ' if _NEEDS_QUOTES.search(path_text) else f"@{path_text} "
    return ""


def _unquoted(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    if text.startswith("file://"):
        try:
            return unquote(urlsplit(text).path)
        except ValueError:
            return text
    plain = _ESCAPED.sub(r"\1", text)
    return str(Path.home() / plain[2:]) if plain.startswith("~/") else plain
