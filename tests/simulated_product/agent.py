"""What a member and a lead of the other product have in common: tools, each an action that a script names.

The script stands for the model. An action is an object: `{"do": "send", "to": "bob", "text": "hello"}`; `$task`,
`$request`, `$from` and `$me` in its words stand for what was met last. Results go to the log as the model would read
them.
"""

import json
import os
import sys
from typing import Any

from simulated_product.disk import Disk, Log, wait_for
from simulated_product.inbox import NOT_SENT, Mail
from simulated_product.mail_texts import LEAD, assignment
from simulated_product.roster import Roster
from simulated_product.tasks import Held, Tasks


def script(name: str) -> dict[str, Any]:
    """The script in the file that `STRANGER_SCRIPT` names; nothing is scripted without one.

    Under `members` it may have one for each name.
    """
    path = os.environ.get("STRANGER_SCRIPT")
    if not path:
        return {}
    with open(path, encoding="utf-8") as file:
        said = json.load(file)
    return said["members"].get(name, {}) if "members" in said else said


def log_of(name: str) -> Log:
    """The log in the file that `STRANGER_LOG` names, where `{name}` stands for the agent's."""
    path = os.environ.get("STRANGER_LOG")
    return Log(path.replace("{name}", name) if path else None)


class Agent:
    """One agent of a team. Every `do_…` is an action."""

    def __init__(self, disk: Disk, log: Log, team: str, name: str, color: str | None = None) -> None:
        self.disk, self.log, self.team, self.name = disk, log, team, name
        self.mail = Mail(disk, team, name, color, signs=name == LEAD)
        self.roster = Roster(disk, team)
        self.tasks = Tasks(disk, team)
        self.met: dict[str, str] = {"me": name}
        self.peer = ""
        """The first words of this turn's mail to a peer, as the idle notice has them."""

    def act(self, action: dict[str, Any]) -> Any:
        """Do it, and log what came of it."""
        given = self._filled(dict(action))
        name = given.pop("do")
        try:
            result = getattr(self, f"do_{name}")(**given)
        except Held as held:
            result = {"error": str(held)}
        self.log.note("result", do=name, result=result)
        return result

    def _filled(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._filled(one) for key, one in value.items()}
        if isinstance(value, list):
            return [self._filled(one) for one in value]
        if isinstance(value, str):
            for key, found in self.met.items():
                value = value.replace(f"${key}", found)
        return value

    # ── mail ─────────────────────────────────────────────────────────────────────────────────────────────────

    def do_send(self, to: str, text: str, summary: str | None = None) -> dict[str, Any]:
        to = to if self.disk.newer else to.split("@")[0]
        if self.disk.newer:
            summary = summary or text
            if to not in self.roster.others(""):
                return {"success": False, "message": f"No agent named '{to}' is reachable."}
        if not self.mail.send(to, text, summary=summary):
            return {"success": False, "message": NOT_SENT.format(to)}
        if to != LEAD:
            self.peer = f"[to {to}] {summary}"
        return {"success": True, "message": f"Message sent to {to}'s inbox"}

    def do_broadcast(self, text: str, summary: str = "") -> dict[str, Any]:
        if self.disk.newer:
            return {"success": False, "message": 'broadcast (to: "*") is no longer supported'}
        recipients = self.roster.others(self.name)
        for one in recipients:
            self.mail.send(one, text, summary=summary)
        return {"success": True, "recipients": recipients}

    def do_put(self, to: str, entry: dict[str, Any]) -> bool:
        """Any entry, as a hand would write it."""
        return self.mail.put(to, entry)

    # ── tasks ────────────────────────────────────────────────────────────────────────────────────────────────

    def do_create(self, subject: str, description: str = "", **given: Any) -> str:
        task = self.tasks.create(subject, description, **given)
        self.met["task"] = task["id"]
        return f"Task #{task['id']} created successfully: {subject}"

    def do_update(self, id: str, **changes: Any) -> str:
        before = self.tasks.get(id)
        takes = changes.get("status") == "in_progress" and self.name != LEAD and "owner" not in changes
        if before is not None and takes and not before.get("owner"):
            changes["owner"] = self.name
        result = self.tasks.update(id, **changes)
        owner = changes.get("owner")
        if before is not None and owner and owner != before.get("owner"):
            self.mail.send(owner, assignment(before, self.name))
        return result

    def do_list(self) -> str:
        return self.tasks.listed()

    def do_get(self, id: str) -> str:
        return self.tasks.told(id)

    def do_claim(self) -> str:
        """What a model does that looks for work: the first free task of the list becomes its own."""
        task = self.tasks.free()
        if task is None:
            return "nothing to claim"
        self.met["task"] = task["id"]
        return self.do_update(task["id"], status="in_progress")

    def do_complete(self, id: str = "") -> str:
        return self.do_update(id or self.met["task"], status="completed")

    # ── for tests ────────────────────────────────────────────────────────────────────────────────────────────

    def do_gate(self, file: str, at: str, until: str) -> None:
        """The next write of such a file stops: see `Disk`."""
        self.disk.gate(file, at, until)

    def do_await(self, file: str) -> None:
        """The turn goes on when that file is there."""
        wait_for(file)

    def do_die(self, code: int = 1) -> None:
        """End at once, in the middle of whatever it is."""
        self.log.note("died", code=code)
        sys.stdout.flush()
        os._exit(code)
