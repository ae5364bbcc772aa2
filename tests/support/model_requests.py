"""Requests that a model server of a test receives: the agent that sent one, and its texts without the session note."""

import json
import re
from typing import Any

_NOTE = re.compile(r"<system-reminder[^>]*>\n# This session\n")
_TEAMMATE = re.compile(r"# You are ([\w-]+), a teammate")


def teammate_of(body: dict[str, Any]) -> str:
    """Return the name of the teammate whose request this is, on any wire; empty for another agent."""
    found = _TEAMMATE.search(json.dumps(body))
    return found[1] if found else ""


def session_note_of(body: dict[str, Any]) -> str:
    """Return the session note in a request's first message, on the Messages API."""
    return next(block["text"] for block in body["messages"][0]["content"] if is_session_note(block.get("text", "")))


def is_session_note(text: str) -> bool:
    return _NOTE.match(text) is not None


def newest_text(body: dict[str, Any]) -> str:
    """Return the texts of a request's newest message, without the session note."""
    return text_of(body["messages"][-1])


def first_text(body: dict[str, Any]) -> str:
    """Return the texts of a request's first message, without the session note."""
    return text_of(body["messages"][0])


def text_of(message: dict[str, Any]) -> str:
    """Return the texts of a message of the Messages API, without the session note and without results."""
    texts = (block.get("text", "") for block in message["content"])
    return "\n".join(text for text in texts if not is_session_note(text))


def without_session_notes(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages without session notes: their directory may have any word in it."""
    return [
        {**message, "content": [block for block in message["content"] if not is_session_note(block.get("text", ""))]}
        for message in messages
    ]
