"""What came over the wire as text for a model: HTML as Markdown, the rest as it is, both within a bound.

Imports markdownify when it meets the first HTML. Knows content types; fetches nothing.
"""

from __future__ import annotations

import asyncio
import codecs
import re

MAX_TEXT = 100_000
"""Characters of a page that reach the model: some 25,000 tokens."""

MAX_HTML = 1_500_000
"""Characters of HTML that are converted: more would hold a processor for seconds."""

_TEXT_TYPES = re.compile(r"text/|application/([\w.+-]*\+)?(json|xml|yaml|javascript|ecmascript|x-ndjson|toml|x-sh)\b")
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w-]+)", re.IGNORECASE)
_BLANKS = re.compile(r"\n[ \t]*\n(?:[ \t]*\n)+")


def is_text_type(content_type: str) -> bool:
    """Whether a body of this type can be given as text; no type at all counts as text."""
    return not content_type or _TEXT_TYPES.match(content_type.strip().lower()) is not None


async def to_text(body: bytes, content_type: str) -> str:
    """The text, not yet cut."""
    kind = content_type.split(";")[0].strip().lower()
    text = body.decode(_charset(body, content_type), "replace")
    if kind in {"text/html", "application/xhtml+xml"} or (not kind and text.lstrip()[:1] == "<"):
        return await asyncio.to_thread(_to_markdown, text[:MAX_HTML])
    return text


def cut_text(text: str) -> str:
    """The text within the bound, with a note when it was longer."""
    if len(text) <= MAX_TEXT:
        return text
    return f"{text[:MAX_TEXT]}\n[… {len(text) - MAX_TEXT:,} characters more: fetch it with Bash into a file to see all]"


def _charset(body: bytes, content_type: str) -> str:
    """The encoding by mark, by header, or by what the beginning of an HTML page says; else UTF-8."""
    for mark, name in (
        (codecs.BOM_UTF8, "utf-8-sig"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if body.startswith(mark):
            return name
    found = _CHARSET.search(content_type) or _CHARSET.search(body[:2048].decode("ascii", "replace"))
    try:
        # `encode` refuses what is no text encoding, such as base64
        return codecs.lookup(found.group(1)).name if found and "".encode(found.group(1)) == b"" else "utf-8"
    except LookupError:
        return "utf-8"


def _to_markdown(html: str) -> str:
    from markdownify import markdownify

    try:
        text = markdownify(html, heading_style="ATX", strip=["img", "svg", "noscript", "iframe"])
    except RecursionError:  # tags nested a thousand deep
        text = re.sub(r"<[^>]*>", " ", html)
    return _BLANKS.sub("\n\n", text).strip()
