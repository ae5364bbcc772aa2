"""Our side where it meets strangers, as processes of its own: `python ours.py NAME ARGS…`."""

import asyncio
import os
import sys
from pathlib import Path

from teamwright.mail.inbox import Inbox
from teamwright.protocol.errors import LockLost
from teamwright.protocol.mail import Entry
from teamwright.storage.atomic import write_atomic
from teamwright.storage.lock import FileLock


def note(log, text):
    with open(log, "a") as file:
        file.write(text + "\n")


async def count(target, guard, log, times, wait_s):
    """Add 1 to the number in a file, again and again; every hold is logged. TIMES 0: until killed."""
    lock = FileLock(Path(target), Path(guard), wait_s=float(wait_s))
    n = 0
    while times == "0" or n < int(times):
        id = f"ours{os.getpid()}-{n}"
        try:
            async with lock.hold() as held:
                note(log, f"enter {id}")
                number = int(Path(target).read_text())
                held.check()
                write_atomic(Path(target), str(number + 1).encode())
                note(log, f"leave {id}")
        except LockLost:
            continue
        print(n, flush=True)
        n += 1


async def send(root, name, times):
    """Send numbered messages to bob; says each once the send returned. TIMES 0: until killed."""
    place = Path(root)
    inbox = Inbox(place / "bob.json", place / "guards" / "bob.json", place / "archive.jsonl")
    n = 0
    while times == "0" or n < int(times):
        await inbox.send(Entry(name, str(n), summary="x" * (n % 7 * 600)), runtime=True)
        print(n, flush=True)
        n += 1


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]](*sys.argv[2:]))
