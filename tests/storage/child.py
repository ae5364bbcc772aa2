"""Programs that tests start as processes of their own: `python child.py NAME ARGS…`; a line on stdout means ready."""

import asyncio
import json
import os
import resource
import signal
import sys
from pathlib import Path

from teamwright.protocol.errors import StorageError
from teamwright.storage import locks
from teamwright.storage.doorbell import Doorbell
from teamwright.storage.file_lease import Lease
from teamwright.storage.files import write_atomic, write_new
from teamwright.storage.json_lines import Journal
from teamwright.storage.locks import FileLock


def say(text):
    print(text, flush=True)


def count(target, guard, times):
    """Add 1 to the number in a file, under the lock; without the lock numbers would be lost."""

    async def work():
        lock = FileLock(Path(target), Path(guard), wait_s=20)
        for _ in range(int(times)):
            async with lock.hold() as held:
                number = int(Path(target).read_text())
                held.check()
                Path(target).write_text(str(number + 1))

    asyncio.run(work())


def count_as_stranger(target, times):
    """The same as another product would: the directory alone, without a guard."""
    for _ in range(int(times)):
        while True:
            try:
                os.mkdir(f"{target}.lock")
                break
            except FileExistsError:
                os.sched_yield()
        Path(target).write_text(str(int(Path(target).read_text()) + 1))
        os.rmdir(f"{target}.lock")


def die_inside(target, guard):
    """Hold the lock until killed."""

    async def work():
        async with FileLock(Path(target), Path(guard)).hold():
            say("inside")
            signal.pause()

    asyncio.run(work())


def die_before_the_record(target, guard):
    """Be killed after the directory was made and before the guard says so."""

    def killed(*_, **__):
        os.kill(os.getpid(), signal.SIGKILL)

    locks.os = type("Os", (), {**vars(os), "utime": staticmethod(killed)})

    async def work():
        async with FileLock(Path(target), Path(guard)).hold():
            say("never")

    asyncio.run(work())


def append_for_ever(path):
    """Batches of three lines of growing length, numbered; says each number once its batch was appended."""
    journal = Journal.open(Path(path))
    number = 0
    while True:
        journal.append(*[json.dumps({"n": number + i, "x": "y" * (number % 5000)}).encode() for i in range(3)])
        number += 3
        say(number)


def fill_the_disk(directory, limit):
    """Append until files of `limit` bytes are the most that the system takes, and say what the errors were."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
    journal = Journal.open(Path(directory) / "journal")
    said = []
    try:
        while True:
            journal.append(b"a" * 100, b"b" * 100)
    except StorageError as problem:
        said.append(problem.slug)
    journal.append(b"short")
    for write in (write_atomic, write_new):
        try:
            write(Path(directory) / "whole", b"x" * 2 * int(limit))
        except StorageError as problem:
            said.append(problem.slug)
    say(" ".join(said))


def hold_lease(path):
    Lease.take(Path(path), "a test")
    say("held")
    signal.pause()


def hold_lease_and_start_another(path):
    lease = Lease.take(Path(path), "a parent")
    os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, "-c", "input()"])
    lease.release()
    say("released")


def hang_bell(path):
    async def work():
        bell = Doorbell.bind(Path(path))
        say("hung")
        async with asyncio.timeout(120):
            await bell.wait()
        say("rung")

    asyncio.run(work())


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
