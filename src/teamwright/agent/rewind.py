"""A rewind of a conversation: the line of the transcript that continues with the messages before a chosen prompt.

Changes no earlier line. Depends on transcripts. Format: docs/reference/formats/transcript.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from teamwright.agent.conversation import INTERRUPTED_RESULT
from teamwright.agent.fork import count_answers
from teamwright.agent.transcript import (
    INJECTED_KEY,
    MESSAGE_KEY,
    REWIND,
    CompactBoundary,
    History,
    line_ids,
    newest_delivered_ids,
    read_history,
    without_thinking,
)
from teamwright.protocol.messages import Block, decode, encode, tool_calls, tool_result_block
from teamwright.storage.jsonl import Journal, read_backward_with_offsets

FORK = "fork"
"""The trigger in the line that begins the own part of a forked session."""


def prompt_position(transcript: Path, prompt: str) -> tuple[int, tuple[str, ...]] | None:
    """Return the offset of the line that delivered this prompt, and all ids that it delivered.

    None when the transcript has no such line.
    """
    for end, line in read_backward_with_offsets(transcript):
        if prompt.encode() in line and INJECTED_KEY in line[: line.find(MESSAGE_KEY)]:
            ids = line_ids(line)
            if prompt in ids:
                return end - len(line) - 1, tuple(ids)
    return None


def append_rewind(transcript: Path, offset: int, note_id: str, note: Sequence[Block]) -> None:
    """Append the line that takes the conversation back to the position `offset`, unless it is there already.

    The note waits for the next prompt under its id, which also identifies the rewind. Only the transcript's one writer
    may call this. Raises StorageError.
    """
    now = read_history(transcript)
    if note_id in now.queued:
        return
    boundary = _rewound(transcript, now, read_history(transcript, offset), {**now.queued, note_id: list(note)})
    journal = Journal.open(transcript)
    try:
        journal.append(boundary.encode_line({"trigger": REWIND, "before": 0}))
    finally:
        journal.close()


def append_fork(transcript: Path, offset: int, note_id: str, note: Sequence[Block]) -> None:
    """Append the line that continues a copied conversation at the position `offset`.

    Calls without a result get one, no answer is owed, and of waiting messages only the note remains: the others wait
    in the first session. Raises StorageError.
    """
    now = read_history(transcript)
    boundary = _rewound(transcript, now, read_history(transcript, offset), {note_id: list(note)})
    journal = Journal.open(transcript)
    try:
        journal.append(boundary.encode_line({"trigger": FORK, "before": 0}))
    finally:
        journal.close()


def _rewound(transcript: Path, now: History, before: History, queued: dict[str, list[Block]]) -> CompactBoundary:
    """Return the line's content. Message and answer numbers continue from the state before the rewind."""
    items = list(before.items) if before.prefix == now.prefix else list(map(without_thinking, before.items))
    if before.has_unanswered:
        calls = tool_calls(cast("list[Block]", decode(items[-1])["content"]))
        results = [tool_result_block(call.id, INTERRUPTED_RESULT, is_error=True) for call in calls]
        items.append(encode({"role": "user", "content": results}))
    summarized, answers = 0, 0
    if now.boundary is not None:
        summarized, answers = max(0, now.boundary.summarized_count - 1), now.boundary.answer_count
    told, older = newest_delivered_ids(transcript)
    return CompactBoundary(
        line_count=now.lines,
        messages=tuple(items),
        summarized_count=max(0, summarized + len(now.items) - len(items)) + 1,
        answer_count=answers + count_answers(now.items) - count_answers(items),
        delivered_ids=told,
        has_older_ids=older,
        queued=queued,
        prefix=now.prefix,
    )
