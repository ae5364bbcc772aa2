"""Programs that the tests of mail start as processes of their own; see the one of tests/storage."""

import asyncio
import json
import os
import random
import resource
import signal
import sys
from pathlib import Path

from teamwright.mail.inbox import Inbox
from teamwright.protocol.errors import StorageError
from teamwright.protocol.mail import InboxEntry


def box(directory):
    return Inbox(Path(directory) / "t" / "bob.json", Path(directory) / "g" / "bob.json", Path(directory) / "bob.jsonl")


def send(directory, name, times):
    """Send numbered messages, several at a time; refused ones are an error."""

    async def work():
        inbox = box(directory)
        for start in range(0, int(times), 5):
            await asyncio.gather(*(inbox.put(InboxEntry(name, str(start + i))) for i in range(5)))

    asyncio.run(work())


def send_until_killed(directory, seed, most):
    """Messages of 1 B to 200 kB, at most so many; says each id once the send returned, then waits for its end."""
    chance = random.Random(int(seed))

    async def work():
        inbox = box(directory)
        for _ in range(int(most)):
            size = chance.choice([1, 50, 300, 300, 2_000, 2_000, 20_000, 20_000, 200_000])
            print(await inbox.put(InboxEntry(f"writer{seed}", "x" * size), runtime=True), flush=True)
        signal.pause()

    asyncio.run(work())


def send_until_full(directory, limit, size):
    """Send while the system takes no file over `limit` bytes; says the ids that were sent, then the error."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))

    async def work():
        inbox = box(directory)
        try:
            while True:
                print(await inbox.put(InboxEntry("alice", "x" * int(size))), flush=True)
        except StorageError as problem:
            print(problem.slug, flush=True)
        await inbox.unread()

    asyncio.run(work())


def consume_for_ever(directory):
    """The owner: reads, writes what it saw down, flags."""

    async def work():
        inbox = box(directory)
        with (Path(directory) / "seen").open("a") as seen:
            while True:
                entries = await inbox.unread()
                for entry in entries:
                    seen.write(f"{entry.msg_id}\n")
                seen.flush()
                await inbox.mark_delivered([entry.msg_id for entry in entries])
                print(len(entries), flush=True)

    asyncio.run(work())


def _under_a_strangers_lock(directory, change):
    path = Path(directory) / "t" / "bob.json"
    while True:
        try:
            os.mkdir(f"{path}.lock")
            break
        except FileExistsError:
            os.sched_yield()
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
    try:
        change(path)
    finally:
        os.rmdir(f"{path}.lock")


def older_stranger(directory, name, times):
    """Appends entries without ids by truncating and writing again, as the older foreign version does."""
    for number in range(int(times)):

        def change(path, number=number):
            entries = json.loads(path.read_bytes()) if path.exists() else []
            entries.append({"from": name, "text": str(number), "timestamp": "2026-11-20T22:53:56.642Z", "read": False})
            with path.open("w") as file:
                json.dump(entries, file, indent=2)

        _under_a_strangers_lock(directory, change)


def newer_stranger(directory, times):
    """Reads, writes down and removes what it consumed by rename, as the newer foreign version does."""
    for _ in range(int(times)):

        def change(path):
            entries = json.loads(path.read_bytes()) if path.exists() else []
            with (Path(directory) / "consumed").open("a") as consumed:
                for entry in entries:
                    consumed.write(entry["from"] + " " + entry["text"] + "\n")
            path.with_name("bob.json.tmp.0badcafe").write_text("[]")
            os.rename(path.with_name("bob.json.tmp.0badcafe"), path)

        _under_a_strangers_lock(directory, change)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
