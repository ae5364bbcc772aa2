"""Lines of a transcript with messages as a request has them: a file may have a prompt as text, with notes beside it."""

import json
from pathlib import Path
from typing import Any

from teamwright.agent.transcript import line_blocks


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The lines of a transcript, oldest first; a line with a message has its blocks."""
    found = [(raw, json.loads(raw)) for raw in path.read_bytes().splitlines()]
    for raw, line in found:
        if "message" in line:
            line["message"]["content"] = line_blocks(raw)
    return [line for _, line in found]


def messages_of(path: Path) -> list[dict[str, Any]]:
    """The messages of a transcript, oldest first."""
    return [line["message"] for line in lines_of(path) if "message" in line]
