"""Conversion of a fetched body to text for a model: HTML as Markdown, other text unchanged, with a size limit.

markdownify is imported with the first HTML. Depends on content types; fetches nothing.
"""

from __future__ import annotations

import asyncio
import codecs
import re

MAX_TEXT = 100_000
"""The most characters of a page that reach the model: some 25,000 tokens."""

MAX_HTML = 1_500_000
"""The most characters of HTML that are converted: more would use a processor for seconds."""

_TEXT_TYPES = re.compile(r"text/|application/([\w.+-]*\+)?(json|xml|yaml|javascript|ecmascript|x-ndjson|toml|x-sh)\b")
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w-]+)", re.IGNORECASE)
_BLANKS = re.compile(r"\n[ \t]*\n(?:[ \t]*\n)+")


def is_text_type(content_type: str) -> bool:
    """Return True when a body of this type is text; a missing type counts as text."""
    return not content_type or _TEXT_TYPES.match(content_type.strip().lower()) is not None


async def to_text(body: bytes, content_type: str) -> str:
    """Return the text without a size limit."""
    kind = content_type.split(";")[0].strip().lower()
    text = body.decode(_charset(body, content_type), "replace")
    if kind in {"text/html", "application/xhtml+xml"} or (not kind and text.lstrip()[:1] == "<"):
        return await asyncio.to_thread(_to_markdown, text[:MAX_HTML])
    return text


def cut_text(text: str) -> str:
    """Return the text within the limit, with a note when it was longer."""
    if len(text) <= MAX_TEXT:
        return text
    return f"{text[:MAX_TEXT]}\n[… {len(text) - MAX_TEXT:,} characters more: fetch it with Bash into a file to see all]"


def _charset(body: bytes, content_type: str) -> str:
    """Return the encoding by byte order mark, header, or the beginning of an HTML page; else UTF-8."""
    for mark, name in (
        (codecs.BOM_UTF8, "utf-8-sig"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if body.startswith(mark):
            return name
    found = _CHARSET.search(content_type) or _CHARSET.search(body[:2048].decode("ascii", "replace"))
    try:
        # `encode` refuses codecs that are not text encodings, such as base64.
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
