"""Long results: the part that a model reads, and the file with the whole text."""

from __future__ import annotations

import os
import secrets

from teamwright.agent.tool import ToolContext
from teamwright.processes.commands import ProcessOutput
from teamwright.storage.paths import make_private

MAX_TEXT = 30_000
"""The most characters of a result that the model reads. The whole text is in a file that the result names."""


def fit_result(text: str, ctx: ToolContext) -> str:
    """Return the text, or its beginning and end with the path of the file that has all of it."""
    if len(text) <= MAX_TEXT:
        return text
    make_private(ctx.workplace.scratch)
    output = ProcessOutput(MAX_TEXT, ctx.workplace.scratch / f"{ctx.call or 'call'}-{secrets.token_hex(4)}.output")
    output.feed(text.encode("utf-8", "replace"))
    output.close()
    return output.text()


def save_content(content: bytes, ending: str, ctx: ToolContext) -> str:
    """Store bytes that no model reads. Return the path. Raises OSError when the disk refuses the write."""
    make_private(ctx.workplace.scratch)
    path = ctx.workplace.scratch / f"{ctx.call or 'call'}-{secrets.token_hex(4)}{ending}"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
    return str(path)
