"""Separation of thinking in tags at the beginning of a text from the text.

Reads and writes events of the Messages API. A server that removes the tags leaves none to find.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias, cast

Event: TypeAlias = dict[str, Any]

OPEN, CLOSE = "<think>", "</think>"
BY = "think-tags"
"""The mark of such thinking: it is sent back to no service."""
_BLOCK_EVENTS = frozenset({"content_block_start", "content_block_delta", "content_block_stop"})


class ThinkTags:
    """A splitter of the first text of one answer. Block indices are doubled, to make room for the thinking before the
    text."""

    __slots__ = ("_at", "_held", "_opened", "_state")

    def __init__(self) -> None:
        self._at = -1
        self._held = ""
        self._state = "begin"
        self._opened = False

    def take(self, event: Event) -> Iterator[Event]:
        """Yield the events that one event becomes."""
        if event.get("type") in _BLOCK_EVENTS:
            event = {**event, "index": 2 * int(event.get("index", -1)) + 1}
        match event:
            case {"type": "content_block_start", "content_block": {"type": "text"}} if self._at < 0:
                self._at = event["index"]
                block = cast("Event", event["content_block"])
                yield {**event, "content_block": {**block, "text": ""}}
                yield from self._split(str(block.get("text") or ""))
            case {"type": "content_block_delta", "delta": {"type": "text_delta", "text": str(text)}} if (
                event["index"] == self._at
            ):
                yield from self._split(text)
            case {"type": "message_stop"}:
                yield from self._rest()
                yield event
            case _:
                yield event

    def _split(self, text: str) -> Iterator[Event]:
        self._held += text
        if self._state == "begin":
            found = self._held.lstrip()
            if OPEN.startswith(found[: len(OPEN)]) and len(found) < len(OPEN):
                return
            self._state = "thinking" if found.startswith(OPEN) else "words"
            self._held = found.removeprefix(OPEN).lstrip("\n") if self._state == "thinking" else self._held
        if self._state == "thinking":
            thought, closed, rest = self._held.partition(CLOSE)
            kept = 0 if closed else _overlap(thought)
            yield from self._thinking(thought[: len(thought) - kept])
            self._held = rest.lstrip("\n") if closed else thought[len(thought) - kept :]
            self._state = "after" if closed else "thinking"
        if self._state == "after":
            self._held = self._held.lstrip("\n")
            self._state = "words" if self._held else "after"
        if self._state == "words" and self._held:
            yield self._words(self._held)
            self._held = ""

    def _rest(self) -> Iterator[Event]:
        held, self._held = self._held, ""
        if held and self._state == "thinking":
            yield from self._thinking(held)
        elif held:
            yield self._words(held)

    def _thinking(self, text: str) -> Iterator[Event]:
        if not text:
            return
        place = self._at - 1
        if not self._opened:
            self._opened = True
            block = {"type": "thinking", "thinking": "", "signature": "", "by": BY}
            yield {"type": "content_block_start", "index": place, "content_block": block}
        yield {"type": "content_block_delta", "index": place, "delta": {"type": "thinking_delta", "thinking": text}}

    def _words(self, text: str) -> Event:
        return {"type": "content_block_delta", "index": self._at, "delta": {"type": "text_delta", "text": text}}


def _overlap(text: str) -> int:
    """Return how many characters at the end of a text may begin the closing tag."""
    return next((size for size in range(len(CLOSE) - 1, 0, -1) if text.endswith(CLOSE[:size])), 0)
