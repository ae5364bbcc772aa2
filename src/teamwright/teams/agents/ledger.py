"""What the transcript of a sub-agent tells when nothing else remembers: that it is there, its words, what it said.

Reads files; changes none.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from teamwright.agent.conversation import ids_held, read_header
from teamwright.agent.definition import FORK
from teamwright.agent.forking.origin import is_fork
from teamwright.protocol.blocks import text_of
from teamwright.protocol.clock import iso
from teamwright.protocol.errors import StorageError
from teamwright.storage.jsonl import read_backward
from teamwright.teams.agents.run import Run

_ID = re.compile(r"a[0-9a-f]{6}")


def is_run_id(text: str) -> bool:
    """Whether it has the form of a sub-agent's id."""
    return _ID.fullmatch(text) is not None


def remembered(id: str, transcript: Path, file: Path) -> Run | None:
    """The run of which only this transcript is left; None when it is none of a sub-agent."""
    with suppress(StorageError, OSError):
        header = read_header(transcript)
        if header is not None and header.get("agent_id") == id and header.get("member") == id:
            about = {"fork": True, "agent_type": FORK.name} if is_fork(header) else {}
            run = Run(id, "", file, transcript, about, background=True, state="killed")
            run.why = "nothing but its transcript is left"
            run.over()
            return run
    return None


def has_words(transcript: Path, id: str) -> bool:
    """Whether the transcript holds these words, told or waiting to be."""
    if ids_held(transcript, {id}):
        return True
    mark, queued = f'"id":"{id}"'.encode(), b'{"type":"queued"'
    return any(line.startswith(queued) and mark in line for line in read_backward(transcript))


def last_said(run: Run) -> str:
    """The newest text that it said in its newest generation; empty when it said none, or nothing can be read."""
    begun = iso(run.started_ms)
    with suppress(StorageError, OSError, ValueError, KeyError, TypeError):
        for line in read_backward(run.transcript):
            if not line.startswith(b'{"type":"assistant"'):
                continue
            fact = cast("dict[str, Any]", json.loads(line))
            if str(fact["at"]) < begun:
                break
            if text := text_of(fact["message"]["content"]):
                return text
    return ""
