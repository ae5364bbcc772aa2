"""A llama.cpp server on loopback that reads prompts for as long as a test wants: it reports how far it is."""

import asyncio
import json
import threading
from collections.abc import Mapping
from typing import Any

from teamwright.testing.model_server_replies import Raw


def props(slots: int, window: int = 65_536) -> dict[str, Any]:
    """What llama.cpp answers at `/props`, as far as it is read (seen with b11549)."""
    return {
        "/props": {
            "default_generation_settings": {"n_ctx": window},
            "total_slots": slots,
            "chat_template_caps": {"supports_tools": True},
        }
    }


def chunk(delta: Mapping[str, Any], finish: str | None = None, **more: Any) -> bytes:
    """One event of Chat Completions, as llama.cpp writes it."""
    choice = {"finish_reason": finish, "index": 0, "delta": delta}
    event = {"choices": [choice], "model": "smollm2", "object": "chat.completion.chunk", **more}
    return b"data: " + json.dumps(event).encode() + b"\n\n"


def progress(read: int, total: int = 100, cache: int = 0) -> bytes:
    """The report that so many tokens of the prompt are read."""
    report = {"total": total, "cache": cache, "processed": read, "time_ms": 10 * read}
    return chunk({"role": "assistant", "content": None}, prompt_progress=report)


USAGE = {"completion_tokens": 2, "prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 0}}


def spoken(text: str) -> list[bytes]:
    """The end of an answer: a text, the usage, and the end of the stream."""
    return [chunk({"content": text}), chunk({}, "stop", usage=USAGE), b"data: [DONE]\n\n"]


class SlowReply:
    """A reply that reports each of these percentages of the prompt, and then answers.

    It waits before the piece number `holds_at` until `go` is set; `is_held` is set then.
    """

    def __init__(self, *read: int, text: str = "Done.", holds_at: int | None = None) -> None:
        self._chunks = [*map(progress, read), *spoken(text)]
        self._holds_at = len(read) if holds_at is None else holds_at
        self.is_held, self.go = threading.Event(), threading.Event()

    @property
    def raw(self) -> Raw:
        return Raw(self._chunks, before=self._wait)

    async def _wait(self, number: int) -> None:
        if number == self._holds_at:
            self.is_held.set()
            await asyncio.to_thread(self.go.wait)
