"""A program of somebody else on a team's files: it takes no lock, and truncates and rewrites in place.

Does one job a line of stdin, `[name, argument, …]`, and says `done` after each.
"""

import json
import os
import shutil
import sys


def write(path, text):
    """In place, as programs do that know nothing of renaming: empty for a moment, then whole."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.flush()
        file.write(text)


def load(path):
    with open(path) as file:
        return json.load(file)


def change(path, **keys):
    write(path, json.dumps(load(path) | keys))


def task(directory, number, **keys):
    made = {"id": str(number), "subject": f"s{number}", "description": "", "status": "pending"}
    write(f"{directory}/{number}.json", json.dumps(made | {"blocks": [], "blockedBy": []} | keys))


def many(directory, first, last):
    for number in range(first, last + 1):
        task(directory, number)


def without(config, *names):
    data = load(config)
    data["members"] = [m for m in data["members"] if m["name"] not in names]
    write(config, json.dumps(data))


def member(config, name, **keys):
    """A member of its own, or other keys of one that is there."""
    data = load(config)
    found = next((m for m in data["members"] if m["name"] == name), None)
    if found is None:
        found = {"agentId": f"{name}@{data['name']}", "name": name, "joinedAt": 1, "tmuxPaneId": "%7", "cwd": "/"}
        data["members"].append(found)
    found.update(keys)
    write(config, json.dumps(data))


def letter(inbox, **keys):
    entries = load(inbox) if os.path.exists(inbox) else []
    write(inbox, json.dumps([*entries, {"timestamp": "2026-01-01T00:00:00.000Z"} | keys], indent=2))


def flag(inbox):
    write(inbox, json.dumps([entry | {"read": True} for entry in load(inbox)]))


def remove(path):
    """Until it is gone: those who write there meanwhile are in its way for a moment."""
    if not os.path.isdir(path):
        os.remove(path)
    while os.path.isdir(path):
        shutil.rmtree(path, ignore_errors=True)


if __name__ == "__main__":
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        keys = arguments.pop() if arguments and isinstance(arguments[-1], dict) else {}
        globals()[name](*arguments, **keys)
        print("done", flush=True)
