"""The other product's task list: one file a task, keys that it does not know dropped, results in its own words.

2.1.41 locks only the making of a task and does not wait; 2.1.329 locks each file too. TaskUpdate truncates and writes.
"""

import os
from contextlib import nullcontext
from typing import Any

from simulated_product.disk import Disk, as_file

KEYS = ("id", "subject", "description", "activeForm", "owner", "status", "blocks", "blockedBy", "metadata")
STATUSES = ("pending", "in_progress", "completed")
BUSY = "Lock file is already being held"


class Held(Exception):
    """Somebody has the lock."""


class Tasks:
    """The list of one team."""

    def __init__(self, disk: Disk, team: str) -> None:
        self._disk = disk
        self.place = disk.tasks(team)

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────

    def get(self, id: str) -> dict[str, Any] | None:
        """A task with the keys that are known, in their order; None for what is no valid one."""
        found = self._disk.read(self.place / f"{id}.json")
        return {key: found[key] for key in KEYS if key in found} if _valid(found) else None

    def all(self) -> list[dict[str, Any]]:
        """In the order of file names as strings; book-keeping hidden."""
        names = sorted(name[:-5] for name in self._names() if name.endswith(".json"))
        tasks = [task for name in names if (task := self.get(name))]
        return [task for task in tasks if not (task.get("metadata") or {}).get("_internal")]

    def listed(self) -> str:
        done = {task["id"] for task in self.all() if task["status"] == "completed"}
        lines = [_line(task, [id for id in task["blockedBy"] if id not in done]) for task in self.all()]
        return "\n".join(lines) or "No tasks found"

    def told(self, id: str) -> str:
        task = self.get(id)
        if task is None:
            return "Task not found"
        lines = [f"Task #{id}: {task['subject']}", f"Status: {task['status']}", f"Description: {task['description']}"]
        for key, label in (("blockedBy", "Blocked by"), ("blocks", "Blocks")):
            if task[key]:
                lines.append(f"{label}: {', '.join(f'#{one}' for one in task[key])}")
        return "\n".join(lines)

    def free(self) -> dict[str, Any] | None:
        """The first task that is pending, without owner, and whose blockers are completed."""
        done = {task["id"] for task in self.all() if task["status"] == "completed"}
        return next(
            (t for t in self.all() if t["status"] == "pending" and not t.get("owner") and set(t["blockedBy"]) <= done),
            None,
        )

    # ── changing ─────────────────────────────────────────────────────────────────────────────────────────────

    def reset(self) -> None:
        """What making a team does to the list: older tasks go, their highest id is remembered."""
        self.place.mkdir(parents=True, exist_ok=True)
        lock = self.place / ".lock"
        lock.touch()
        with self._disk.lock(lock) as got:
            if not got:
                raise Held(BUSY)
            old = [name for name in self._names() if name.endswith(".json")]
            for name in old:
                (self.place / name).unlink()
            if old:
                self._mark(max((int(name[:-5]) for name in old if name[:-5].isdigit()), default=0))

    def create(self, subject: str, description: str = "", **given: Any) -> dict[str, Any]:
        """A new task. `given`: activeForm, metadata, status. Raises Held."""
        self.place.mkdir(parents=True, exist_ok=True)
        lock = self.place / ".lock"
        lock.touch()
        with self._disk.lock(lock) as got:
            if not got:
                raise Held(BUSY)
            made = {"subject": subject, "description": description, "status": "pending", "blocks": [], "blockedBy": []}
            made |= {"id": str(self._highest() + 1)} | given
            task = {key: made[key] for key in KEYS if key in made}
            self._disk.write(self.place / f"{task['id']}.json", as_file(task))
        return task

    def update(self, id: str, **changes: Any) -> str:
        """The fields that changed, in words; `deleted` is a status too. `addBlocks`, `addBlockedBy`: one write an edge.

        A key that is there for the first time stands last, until the next change. Raises Held.
        """
        if self.get(id) is None:
            return "Task not found"
        if changes.get("status") == "deleted":
            self._delete(id)
            return f"Updated task #{id} deleted"
        edges = {"blocks": changes.pop("addBlocks", []), "blockedBy": changes.pop("addBlockedBy", [])}
        changed = self._write(id, changes) if changes else []
        for key, others in edges.items():
            for other in others:
                self._edge(*((id, other) if key == "blocks" else (other, id)))
            changed += [key] if others else []
        return f"Updated task #{id} {', '.join(changed)}" if changed or not self._disk.newer else f"Updated task #{id}"

    def _write(self, id: str, changes: dict[str, Any]) -> list[str]:
        path = self.place / f"{id}.json"
        with self._disk.lock(path) if self._disk.newer else nullcontext(True) as got:
            task = self.get(id) if got else None
            if task is None:
                raise Held(BUSY)
            if isinstance(more := changes.get("metadata"), dict):
                merged = (task.get("metadata") or {}) | more
                changes = changes | {"metadata": {key: value for key, value in merged.items() if value is not None}}
            after = task | {"id": id} | changes
            self._disk.write(path, as_file(after))
        order = ("subject", "description", "activeForm", "owner", "metadata", "status")
        return [key for key in order if key in changes and changes[key] != task.get(key)]

    def _edge(self, blocker: str, blocked: str) -> None:
        one, other = self.get(blocker), self.get(blocked)
        if one is None or other is None:
            return
        if blocked not in one["blocks"]:
            self._write(blocker, {"blocks": [*one["blocks"], blocked]})
        if blocker not in other["blockedBy"]:
            self._write(blocked, {"blockedBy": [*other["blockedBy"], blocker]})

    def _delete(self, id: str) -> None:
        (self.place / f"{id}.json").unlink(missing_ok=True)
        self._mark(int(id) if id.isdigit() else 0)
        for name in [name[:-5] for name in self._names() if name.endswith(".json")]:
            task = self.get(name)
            if task and (id in task["blocks"] or id in task["blockedBy"]):
                left = {key: [one for one in task[key] if one != id] for key in ("blocks", "blockedBy")}
                self._write(name, left)

    def _names(self) -> list[str]:
        return os.listdir(self.place) if self.place.is_dir() else []

    def _highest(self) -> int:
        numbers = [int(name[:-5]) for name in self._names() if name.endswith(".json") and name[:-5].isdigit()]
        return max([*numbers, self._watermark()])

    def _watermark(self) -> int:
        try:
            return int((self.place / ".highwatermark").read_text())
        except (OSError, ValueError):
            return 0

    def _mark(self, id: int) -> None:
        self._disk.write(self.place / ".highwatermark", str(max(id, self._watermark())))


def _valid(task: Any) -> bool:
    if not isinstance(task, dict) or task.get("status") not in STATUSES:
        return False
    lists = all(isinstance(task.get(key), list) for key in ("blocks", "blockedBy"))
    return lists and all(isinstance(task.get(key), str) for key in ("id", "subject", "description"))


def _line(task: dict[str, Any], blockers: list[str]) -> str:
    line = f"#{task['id']} [{task['status']}] {task['subject']}"
    if task.get("owner"):
        line += f" ({task['owner']})"
    return line + (f" [blocked by {', '.join(f'#{id}' for id in blockers)}]" if blockers else "")
