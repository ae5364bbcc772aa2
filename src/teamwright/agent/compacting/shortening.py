"""Conversations that do not fit even to be summarised: written down in short, within so many characters.

And results of calls that are kept, cut where there is no room for them. Never tears a call from its result: what is
written down is one text, and what is cut stays a result. Knows blocks; calls no model.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

from teamwright.agent.compacting.measure import tokens_of, tokens_of_all
from teamwright.agent.compacting.words import inside
from teamwright.agent.transcript import USER
from teamwright.protocol.blocks import Block, encode, text_block, text_of

PIECES = (20_000, 5_000, 1_500, 400)
"""Characters of one block at most, tried in this order until all fits."""

RESULTS = (16_000, 6_000, 2_000, 600)
"""Characters of one kept result at most, tried in this order until all fits."""

CUT = "[… {left:,} characters were cut: the conversation had no room for them. Run the call again for less at once.]"
IMAGE_CUT = "[An image was here; the conversation had no room for it.]"


def in_short(items: Sequence[bytes], characters: int) -> str:
    """The messages as one text of about so many characters at most: the beginning, then the newest that fit."""
    texts: list[str] = []
    for most in PIECES:
        texts = [text for item in items if (text := _written(item, most))]
        if sum(map(len, texts)) <= characters:
            return inside("\n\n".join(texts))
    first, rest = texts[:1], texts[1:]
    room, kept = characters - sum(map(len, first)), list[str]()
    while rest and len(rest[-1]) <= room:
        room -= len(rest[-1])
        kept.insert(0, rest.pop())
    return inside("\n\n".join([*first, f"[… {len(rest)} messages are left out here …]", *kept]))


def with_room(items: Sequence[bytes], tokens: int) -> list[bytes]:
    """The messages with the results of calls cut until all come to so many tokens, as far as that goes."""
    made = list(items)
    for most in RESULTS:
        if tokens_of_all(made) <= tokens:
            break
        made = [_cut(item, most) if item.startswith(USER) and tokens_of(item) > most // 8 else item for item in made]
    return made


def _written(item: bytes, most: int) -> str:
    """One message in words."""
    message = cast("dict[str, Any]", json.loads(item))
    content: str | list[Block] = message["content"]
    blocks = [text_block(content)] if isinstance(content, str) else content
    said = [text for block in blocks if (text := _words(block, most))]
    if not said:
        return ""
    return f"[{'you' if message['role'] == 'assistant' else 'told'}]\n" + "\n".join(said)


def _words(block: Block, most: int) -> str:
    match block.get("type"):
        case "text":
            return _shorter(str(block.get("text", "")), most)
        case "tool_use":
            given = json.dumps(block.get("input") or {}, ensure_ascii=False)
            return f"calls {block.get('name')} {_shorter(given, most)}"
        case "tool_result":
            failed = "failed: " if block.get("is_error") else ""
            return f"result: {failed}{_shorter(_result(block), most)}"
        case "image":
            return "[an image]"
        case _:
            return ""


def _result(block: Block) -> str:
    content: object = block.get("content")
    if isinstance(content, str):
        return content
    parts = cast("list[Block]", content or [])
    images = sum(part.get("type") == "image" for part in parts)
    return text_of(parts) + (f" [{images} images]" if images else "")


def _shorter(text: str, most: int) -> str:
    """Beginning and end of a text that is too long."""
    if len(text) <= most:
        return text
    return f"{text[: most * 2 // 3]} [… {len(text) - most:,} characters …] {text[-(most // 3) :]}"


def _cut(item: bytes, most: int) -> bytes:
    message = cast("dict[str, Any]", json.loads(item))
    content: object = message["content"]
    if isinstance(content, str):
        return item
    return encode({**message, "content": [_cut_result(block, most) for block in cast("list[Block]", content)]})


def _cut_result(block: Block, most: int) -> Block:
    if block.get("type") != "tool_result":
        return block
    content: object = block.get("content")
    if isinstance(content, str):
        return {**block, "content": _cut_text(content, most)}
    parts = [_cut_part(part, most) for part in cast("list[Block]", content or [])]
    return {**block, "content": parts} if parts else block


def _cut_part(part: Block, most: int) -> Block:
    if part.get("type") == "image":
        return text_block(IMAGE_CUT)
    return {**part, "text": _cut_text(str(part["text"]), most)} if part.get("type") == "text" else part


def _cut_text(text: str, most: int) -> str:
    if len(text) <= most + len(CUT):
        return text
    return f"{text[: most * 2 // 3]}\n{CUT.format(left=len(text) - most)}\n{text[-(most // 3) :]}"
