"""What a fork is told: results that stand for its caller's, then what a fork is, then its job, last.

The text is `prompts/fork.md`. Its tag is how a fork is known by its conversation alone. Knows blocks and transcripts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any, cast

from teamwright.agent.definition import prompt
from teamwright.agent.transcript import USER
from teamwright.protocol.blocks import Block, text_of
from teamwright.protocol.envelope import FORK, RuntimeTags
from teamwright.storage.jsonl import read_lines

TAG = f"<{FORK}"
"""How what a fork is told begins."""

_FIRST = 8
"""Lines of a fork's transcript among which its job is: behind the header, queued and then told."""

_MARK = f'"text":"{TAG}'.encode()


def fork_words(tags: RuntimeTags, job: str) -> str:
    """What a fork is told: the same for all but for the job, which is last."""
    return f"{tags.fork(prompt('fork'))}\n\n{job}"


def told_as_fork(items: Iterable[bytes]) -> bool:
    """Whether one of these encoded messages tells an agent that it is a fork; what a tool's result says does not."""
    return any(_MARK in item and item.startswith(USER) and _tells(item) for item in items)


def _tells(item: bytes) -> bool:
    content: Any = json.loads(item)["content"]
    return isinstance(content, list) and any(text_of([block]).startswith(TAG) for block in cast("list[Block]", content))


def words_of(transcript: Path) -> str:
    """What the fork of this transcript was told when it began; empty when that cannot be found."""
    for line in islice(read_lines(transcript), 1, _FIRST):
        try:
            body = cast("dict[str, Any]", json.loads(line))
            content: Any = body["content"] if body["type"] == "queued" else body["message"]["content"]
        except (ValueError, KeyError, TypeError):
            continue
        for block in content:
            text = text_of([block])
            if text.startswith(TAG):
                return text
    return ""
