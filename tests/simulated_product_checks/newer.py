"""The habits of a newer foreign version, from outside: `python newer.py NAME ARGS…`. Imports nothing of ours.

It waits for a lock a little, then gives up; writes a file beside and renames it over; removes what it consumed; adds
keys and types that nobody else knows.
"""

import json
import os
import sys
import time
import uuid


def say(*words):
    print(*words, flush=True)


def under_lock(path, change):
    """False when the lock was not free within 0.75 s."""
    bound = time.monotonic() + 0.75
    while True:
        try:
            os.mkdir(f"{path}.lock")
            break
        except FileExistsError:
            if time.monotonic() > bound:
                return False
            os.sched_yield()
    with open(path) as file:
        value = change(json.load(file))
    with open(f"{path}.tmp.{uuid.uuid4().hex[:8]}", "w") as file:
        json.dump(value, file)
    os.rename(file.name, path)
    os.rmdir(f"{path}.lock")
    return True


def send(inbox, name, times):
    """Entries with its own keys, and some of a type that nobody knows."""
    for number in range(int(times)):
        text = (
            str(number) if number % 2 else json.dumps({"type": "weather_report", "number": number, "wind": [1, None]})
        )
        entry = {"from": name, "text": text, "timestamp": "2026-11-20T22:53:56.642Z", "msgV": 1}
        entry |= {"msg_id": str(uuid.uuid4()), "type": "message", "read": False, "lead_sig": "x" * 86}
        say("sent" if under_lock(inbox, lambda entries, entry=entry: [*entries, entry]) else "lost", number)


def consume(inbox, seen, times):
    """Takes everything out of the inbox and writes it down."""

    def taken(entries):
        with open(seen, "a") as file:
            file.writelines(json.dumps(entry) + "\n" for entry in entries)
        return []

    for number in range(int(times)):
        under_lock(inbox, taken)
        say(number)


def hold(path):
    """Hold the lock of a file until told to end; with the word `leave` the lock stays."""
    os.mkdir(f"{path}.lock")
    say("inside")
    if sys.stdin.readline() != "leave\n":
        os.rmdir(f"{path}.lock")
    say("gone")


def change_tasks(directory, ids, times):
    """Adds keys to tasks, under their locks."""
    for number in range(int(times)):
        for id in ids.split(","):
            under_lock(f"{directory}/{id}.json", lambda task, n=number: task | {"theirs": {"n": n}})
        say(number)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
