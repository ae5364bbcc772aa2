"""Our side where it meets strangers, as processes of its own: `python ours.py NAME ARGS…`."""

import asyncio
import os
import sys
from pathlib import Path

from teamwright.mail.inbox import Inbox
from teamwright.protocol.errors import LockLost, StorageError, TaskRefused
from teamwright.protocol.mail import InboxEntry
from teamwright.storage.files import write_atomic
from teamwright.storage.locks import FileLock
from teamwright.storage.paths import Home
from teamwright.tasks.file_task_store import FileTaskStore
from teamwright.tasks.task_list import TaskList


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
        await inbox.put(InboxEntry(name, str(n), summary="x" * (n % 7 * 600)), runtime=True)
        print(n, flush=True)
        n += 1


async def watch(root, count):
    """Look into bob's inbox until that many entries are there; what was seen must stay, in order."""
    place = Path(root)
    inbox = Inbox(place / "bob.json", place / "guards" / "bob.json", place / "archive.jsonl")
    before = []
    while len(before) < int(count):
        now = [(entry.sender, entry.text) for entry in await inbox.unread()]
        if now[: len(before)] != before:
            print("vanished", [entry for entry in before if entry not in now], flush=True)
            return
        before = now
        await asyncio.sleep(0.0005)
    print("saw all", flush=True)


async def drain(root, name):
    """Claim, and complete what is still ours, until nothing is left to claim; says what was won, done, or given up."""
    home = Home.at(Path(root))
    tasks = TaskList(FileTaskStore(home.tasks("demo"), home.guard))
    while (task := await tasks.claim_next(name)) is not None:
        print("won", task.id, flush=True)
        try:
            await tasks.update(task.id, by=name, status="completed")
            print("done", task.id, flush=True)
            continue
        except (TaskRefused, StorageError) as refused:
            print("refused", task.id, refused, file=sys.stderr)
        print("gave", task.id, flush=True)


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]](*sys.argv[2:]))
