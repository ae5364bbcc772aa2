"""Find in a conversation what the runtime's notices said: their sentences are for models."""

from __future__ import annotations

import re

_AT = r"(?:(?<=\\n)|(?<![\\\w-]))"
"""Where a name begins: also behind a line break that is encoded."""

_SENTENCES = {
    "shutdown_request": re.compile(
        r'The lead asks you to stop \(shutdown_request, request_id \\*"(?P<request_id>[^"\\]+)\\*"\)\.'
        r"(?: Reason: (?P<reason>[^\n\\]*))?"
    ),
    "shutdown_approved": re.compile(rf"{_AT}(?P<sender>[\w-]+) agreed to stop \(request_id"),
    "shutdown_rejected": re.compile(rf"{_AT}(?P<sender>[\w-]+) objects to its shutdown and continues"),
    "teammate_terminated": re.compile(rf"{_AT}(?P<name>[\w-]+) has ended: (?P<cause>[^\n\\]*)"),
    "idle_notification": re.compile(rf"{_AT}(?P<sender>[\w-]+)(?: is idle\.|'s turn failed: )"),
}


def notices(kind: str, text: str) -> list[dict[str, str]]:
    """Return the facts of each notice of this kind in the text, which may be encoded as JSON; absent ones are empty."""
    return [found.groupdict(default="") for found in _SENTENCES[kind].finditer(text)]


def request_ids(text: str) -> list[str]:
    """Return the ids of the shutdown requests in the text, oldest first."""
    return [one["request_id"] for one in notices("shutdown_request", text)]
