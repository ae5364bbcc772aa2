"""The habits of an older foreign version, from outside: `python older.py NAME ARGS…`. Imports nothing of ours.

It truncates and writes again, in two pieces here, so that readers meet half a file; it never waits for a lock; task
changes and the roster know no lock at all; what it does not know of a task it drops.
"""

import json
import os
import random
import sys
import time

TASK_KEYS = ("id", "subject", "description", "activeForm", "owner", "status", "blocks", "blockedBy", "metadata")


def say(*words):
    print(*words, flush=True)


def write_in_place(path, value):
    text = json.dumps(value, indent=2)
    with open(path, "w") as file:
        file.write(text[: len(text) // 2])
        file.flush()
        os.sched_yield()
        file.write(text[len(text) // 2 :])


def read(path):
    """None for a file that is missing, empty or half written."""
    try:
        with open(path) as file:
            return json.load(file)
    except (FileNotFoundError, ValueError):
        return None


def locked_at_once(path):
    """Whether the lock was free, or so old that it counts as left behind."""
    try:
        os.mkdir(f"{path}.lock")
    except FileExistsError:
        return left_behind(path) and locked_at_once(path)
    return True


def left_behind(path):
    try:
        if os.stat(f"{path}.lock").st_mtime > time.time() - 10:
            return False
        os.rmdir(f"{path}.lock")
    except FileNotFoundError:
        return False
    return True


def send(inbox, name, times):
    """Says `sent N`, or `lost N` when somebody held the lock: then it does not try again."""
    for number in range(int(times)):
        if not locked_at_once(inbox):
            say("lost", number)
            os.sched_yield()
            continue
        entries = read(inbox) or []
        entries.append({"from": name, "text": str(number), "timestamp": "2026-11-20T22:53:56.642Z", "read": False})
        write_in_place(inbox, entries)
        os.rmdir(f"{inbox}.lock")
        say("sent", number)


def die_while_sending(inbox):
    """Leaves the lock, and half of the file."""
    while not locked_at_once(inbox):
        os.sched_yield()
    text = json.dumps([*read(inbox), {"from": "zed", "text": "cut", "timestamp": "x", "read": False}], indent=2)
    with open(inbox, "w") as file:
        file.write(text[: -len(text) // 4])
    say("dead")
    os._exit(0)


def change_tasks(directory, ids, times, seed):
    """Sets owner and status of these tasks without a lock, as its update does; now and then drops in its own file."""
    dice = random.Random(int(seed))
    for number in range(int(times)):
        path = f"{directory}/{dice.choice(ids.split(','))}.json"
        task = read(path)
        if task is None:
            continue
        task |= {"owner": "zed", "status": dice.choice(["in_progress", "pending"])}
        write_in_place(path, {key: task[key] for key in TASK_KEYS if key in task})
        say("changed", path, number)


def create_tasks(directory, times):
    """Under the list's lock, which it does not wait for; every third file is its own book-keeping."""
    made = 0
    while made < int(times):
        if not locked_at_once(f"{directory}/.lock"):
            os.sched_yield()
            continue
        numbers = [int(name[:-5]) for name in os.listdir(directory) if name[:-5].isdigit() and name.endswith(".json")]
        mark = read(f"{directory}/.highwatermark") or 0
        id = str(max([*numbers, mark, 0]) + 1)
        task = {"id": id, "subject": f"theirs {id}", "description": "", "status": "pending"}
        task |= {"blocks": [], "blockedBy": []}
        if made % 3 == 2:
            task |= {"status": "in_progress", "metadata": {"_internal": True}}
        write_in_place(f"{directory}/{id}.json", task)
        os.rmdir(f"{directory}/.lock.lock")
        made += 1
        say(id)


def join(config, name, times):
    """Puts itself into the roster and notes its turns there, again and again: read, change, write, no lock."""
    member = {"agentId": f"{name}@demo", "name": name, "agentType": "general-purpose", "joinedAt": 1}
    for number in range(int(times)):
        roster = read(config)
        if roster is None:
            os.sched_yield()
            continue
        others = [one for one in roster["members"] if one["name"] != name]
        roster["members"] = [*others, member | {"isActive": number % 2 == 0}]
        write_in_place(config, roster)
        say(number)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
