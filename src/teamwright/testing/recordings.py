"""Replies of the loopback model server that repeat what a real server once sent, from files."""

from __future__ import annotations

import re
from pathlib import Path

from teamwright.testing.model_server_replies import Raw, Status

_STATUS = re.compile(r"\.([1-5][0-9]{2})\.json")


def load_recording(path: Path) -> Raw | Status:
    """Return the recorded answer of a file: `NAME.400.json` is the body of an HTTP error, another name a stream.

    A stream is sent in the chunks in which servers send it: one event a chunk.
    """
    data = path.read_bytes()
    if status := _STATUS.search(path.name):
        return Status(int(status[1]), body=data)
    return Raw([event + b"\n\n" for event in data.split(b"\n\n") if event.strip()])
