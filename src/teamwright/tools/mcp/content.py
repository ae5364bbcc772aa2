"""What a server answers as what a model reads: texts, images for models with eyes, everything else in files.

All of it is data of a stranger: bounded, and without tags that look like ours.
"""

from __future__ import annotations

import base64
import binascii
import json
import mimetypes
import re
from collections.abc import Mapping
from typing import Any, cast

from teamwright.agent.tool import ToolContext, ToolResult
from teamwright.mcp.trouble import plain_line
from teamwright.protocol.blocks import Block, image_block, text_block
from teamwright.protocol.envelope import harmless
from teamwright.protocol.images import image_type, unfit_image
from teamwright.tools.fitting import fitting, in_a_file

MOST_IMAGES = 10
MOST_PARTS = 1_000

_ENDING = re.compile(r"\.[A-Za-z0-9]{1,8}")


def result_of(result: Mapping[str, Any], ctx: ToolContext) -> ToolResult:
    """The result of a call as a model reads it."""
    texts: list[str] = []
    images: list[Block] = []
    content = result.get("content")
    parts = cast("list[object]", content)[:MOST_PARTS] if isinstance(content, list) else []
    for part in parts:
        _take(cast("Mapping[str, Any]", part) if isinstance(part, dict) else {}, texts, images, ctx)
    if not texts and not images and (said := result.get("structuredContent")) is not None:
        texts.append(json.dumps(said, ensure_ascii=False))
    text = fitting(harmless("\n".join(texts)), ctx)
    is_error = result.get("isError") is True
    if not images:
        return ToolResult(text, is_error, brief=plain_line(text, 80) if is_error else "")
    return ToolResult([*([text_block(text)] if text else []), *images], is_error)


def _take(part: Mapping[str, Any], texts: list[str], images: list[Block], ctx: ToolContext) -> None:
    kind = part.get("type")
    if kind == "text":
        texts.append(str(part.get("text", "")))
    elif kind in {"image", "audio"}:
        _binary(part.get("data"), part.get("mimeType"), str(kind), texts, images, ctx)
    elif kind == "resource_link":
        about = plain_line(f"{part.get('name', '')} {part.get('description', '') or ''}")
        texts.append(f"[resource {plain_line(str(part.get('uri', '')))}] {about}".rstrip())
    elif kind == "resource" and isinstance(part.get("resource"), dict):
        inner = cast("Mapping[str, Any]", part["resource"])
        texts.append(f"[resource {plain_line(str(inner.get('uri', '')))}]")
        if isinstance(inner.get("text"), str):
            texts.append(inner["text"])
        else:
            _binary(inner.get("blob"), inner.get("mimeType"), "content", texts, images, ctx)
    else:
        texts.append(f"[something of the kind {plain_line(str(kind), 40)}, which is left out]")


def _binary(data: object, mime: object, what: str, texts: list[str], images: list[Block], ctx: ToolContext) -> None:
    kind = mime if isinstance(mime, str) else ""
    try:
        content = base64.b64decode(data, validate=False) if isinstance(data, str) else b""
    except (binascii.Error, ValueError):
        content = b""
    if not content:
        texts.append(f"[{what} that cannot be read, which is left out]")
        return
    image = image_type(content) if what == "image" or kind.startswith("image/") else None
    if image is not None and ctx.workplace.images and len(images) < MOST_IMAGES and not unfit_image(content):
        images.append(image_block(image, base64.b64encode(content).decode()))
        return
    guessed = mimetypes.guess_extension(kind) or ".bin"
    ending = guessed if _ENDING.fullmatch(guessed) else ".bin"
    try:
        where = f"it is in {in_a_file(content, ending, ctx)}"
    except OSError as problem:
        where = f"it could not be kept: {problem.strerror}"
    texts.append(f"[{what} {plain_line(kind, 60)}, {len(content):,} bytes: {where}]")
