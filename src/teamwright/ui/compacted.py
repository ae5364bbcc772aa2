"""What is said of a compaction, for all faces. Pure."""

from __future__ import annotations

from teamwright.protocol.events import Compacted


def compacted_words(event: Compacted) -> str:
    """What happens to a conversation, or happened."""
    if event.trigger == "clear":
        return f"begins with an empty conversation: {event.before:,} tokens became about {event.after:,}"
    match event.state:
        case "begun":
            return f"compacts its conversation ({event.before:,} tokens)"
        case "done":
            return f"continues from a summary: {event.before:,} tokens became about {event.after:,}"
        case _:
            return f"was not compacted, nothing changed: {event.detail}"
