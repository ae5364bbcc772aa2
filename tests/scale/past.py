"""An inbox with a long past: what a send and a look read and write, counted at the system calls; and a team that is
gone on with in spite of it."""

import asyncio
import json
import os
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from teamwright.mail.inbox import Inbox
from teamwright.protocol.mail import InboxEntry
from teamwright.storage.paths import Home
from tests.scale.crew import main

ROUNDS = 400
TEXT = "The tests of the parser pass now; what is left is the sentence about empty files. "


@contextmanager
def counted() -> Generator[Counter[str]]:
    """Bytes that are read and written through `os`, and files that are opened, while the block lasts."""
    count: Counter[str] = Counter()
    kept = {name: getattr(os, name) for name in ("read", "write", "pread", "pwrite", "open", "stat")}

    def reading(name: str):
        def call(*args: Any) -> bytes:
            got = kept[name](*args)
            count["read"] += len(got)
            return got

        return call

    def writing(name: str):
        def call(*args: Any) -> int:
            done = kept[name](*args)
            count["written"] += done
            return done

        return call

    def opening(path: Any, *args: Any, **more: Any) -> int:
        count["opened"] += 1
        count["archive"] += "archive" in str(path)
        return kept["open"](path, *args, **more)

    def looking(*args: Any, **more: Any) -> os.stat_result:
        count["stat"] += 1
        return kept["stat"](*args, **more)

    os.read, os.pread, os.write, os.pwrite = reading("read"), reading("pread"), writing("write"), writing("pwrite")
    os.open, os.stat = opening, looking
    try:
        yield count
    finally:
        for name, function in kept.items():
            setattr(os, name, function)


def box(root: Path, name: str) -> Inbox:
    """An inbox below this directory, with nobody else in front of it: as in a process of its own."""
    home = Home.at(root / "state")
    path = home.inbox("crew", name)
    path.parent.mkdir(parents=True, exist_ok=True)
    return Inbox(path, home.guard(path), home.inbox_archive("crew", name))


async def consume(inbox: Inbox, messages: int) -> None:
    """So many messages are sent, read and flagged."""
    for first in range(0, messages, 500):
        texts = (f"{TEXT}{number}" for number in range(first, min(first + 500, messages)))
        sent = await asyncio.gather(*(inbox.put(InboxEntry("ada", text)) for text in texts))
        await inbox.mark_delivered(sent)


async def cost(root: Path, name: str) -> dict[str, Any]:
    """Bytes of `ROUNDS` sends, looks and flags by two that share nothing but the file, after as many to get even."""
    sender, reader = box(root, name), box(root, name)
    for number in range(100):  # the array is as long as it gets before it is cut
        await reader.mark_delivered([await sender.put(InboxEntry("ada", f"{TEXT}{number}"))])
    await reader.unread()
    found: dict[str, Counter[str]] = {}
    for number in range(ROUNDS):
        with counted() as sending:
            id = await sender.put(InboxEntry("ada", f"{TEXT}{number}"))
        with counted() as looking:
            (entry,) = await reader.unread()
        assert entry.msg_id == id
        with counted() as flagging:
            await reader.mark_delivered([id])
        for what, count in (("send", sending), ("look", looking), ("flag", flagging)):
            found[what] = found.get(what, Counter()) + count
    return {what: dict(count) for what, count in found.items()}


async def run(spec: dict[str, Any], root: Path) -> dict[str, Any]:
    """Costs without a past and with one; what is in the array and in the archive then."""
    empty = await cost(root, "eve")
    inbox = box(root, "ada")
    kept = [await inbox.put(InboxEntry("ben", f"unread {number}")) for number in range(spec["unread"])]
    await consume(inbox, spec["messages"])
    array = json.loads(inbox.path.read_bytes())
    found = {
        "consumed": sum(entry["read"] for entry in array),
        "unread": [entry["msg_id"] for entry in array if not entry["read"]] == kept,
        "bytes": inbox.path.stat().st_size,
        "archived": sum(1 for _ in inbox.archive.open("rb")),
        "ids": len({json.loads(line)["msg_id"] for line in inbox.archive.open("rb")}),
    }
    await inbox.mark_delivered(kept)
    return {**found, "empty": empty, "long": await cost(root, "ada")}


if __name__ == "__main__":
    main(run)
