"""What is sent in W1 and W2, and how an inbox with a past is made: by its own sender and reader."""

from __future__ import annotations

import asyncio
from pathlib import Path

from teamwright.mail.inbox import Inbox
from teamwright.protocol.mail import InboxEntry

TEXT = "I looked at the parser and found the cause: the tail of the last line is read twice. Shall I mend it? %d"
"""About what members say to each other; the number tells one from another."""

SUMMARY = "found the cause in the parser"


def letter(number: int, sender: str = "ada") -> InboxEntry:
    """The N-th message of a sender."""
    return InboxEntry(sender, TEXT % number, SUMMARY, color="blue")


def paths(root: Path, name: str = "bea") -> tuple[Path, Path, Path]:
    """Inbox, guard and archive of a member below this directory."""
    return root / "inboxes" / f"{name}.json", root / "guards" / f"{name}.json", root / "archive" / f"{name}.jsonl"


async def consume(inbox: Inbox, messages: int, batch: int = 100) -> None:
    """Send that many and read them."""
    while messages > 0:
        size = min(batch, messages)
        ids = await asyncio.gather(*(inbox.put(letter(number)) for number in range(size)))
        await inbox.mark_delivered(ids)
        messages -= size
