"""A lead of the other product, as a process: `python -I lead.py --format 2.1.41`.

It makes its team and goes through its script, a list of actions, one after the other; where one waits, it polls and
does what its program does by itself: it says yes to plans at once, and sees members off that it started itself. Who
came onto its roster otherwise stays there until somebody else takes the entry away.

    {"session": "50101e6d-…", "mode": "default", "plans": "approve" or "leave", "do": [{"do": "team", …}, …]}

At the end the older format leaves all as it is, the newer removes its team's directory.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from simulated_product.agent import Agent, log_of, script
from simulated_product.disk import BOUND_S, FORMATS, Disk, Log, as_file, now_ms, wait_for
from simulated_product.inbox import body_of
from simulated_product.mail_texts import (
    LEAD,
    permission_allowed,
    permission_denied,
    plan_response,
    shutdown_request,
)

COLORS = ("blue", "green", "yellow", "purple", "orange", "pink", "cyan")


class Lead(Agent):
    """One life of a lead."""

    def __init__(self, args: argparse.Namespace, log: Log, said: dict[str, Any]) -> None:
        self.session: str = said.get("session", "50101e6d-0000-4000-8000-000000000000")
        self._implicit = f"session-{self.session[:8]}"
        super().__init__(Disk(args.format, log, patience_s=args.patience), log, self._implicit, LEAD)
        self._poll_s: float = args.poll
        self._mode: str = said.get("mode", "default")
        self._approves = said.get("plans", "approve") == "approve"
        self._steps: list[dict[str, Any]] = said.get("do", [])
        self._children: dict[str, subprocess.Popen[bytes] | None] = {}
        """Members that it started itself: what it knows of them is in its memory."""
        self._started = 0
        self._seen: list[dict[str, Any]] = []
        self._asked: dict[str, dict[str, Any]] = {}
        """The newest plan or permission request of each member."""

    def run(self) -> None:
        """The script, then the end."""
        if self.disk.newer:
            self._implicit_team()
        try:
            for step in self._steps:
                self.act(step)
            if self.disk.newer:
                shutil.rmtree(self.disk.team(self.team), ignore_errors=True)
            self.log.note("exit")
        finally:
            for child in self._children.values():
                if child is not None:
                    child.kill()
                    child.wait()

    # ── the team ─────────────────────────────────────────────────────────────────────────────────────────────

    def _of(self, team: str) -> None:
        """This team is led from now on."""
        super().__init__(self.disk, self.log, team, LEAD)

    def do_team(self, name: str, description: str | None = None, agent_type: str = LEAD) -> dict[str, Any]:
        """TeamCreate of the older format."""
        self._of(name)
        now = now_ms()
        config: dict[str, Any] = {"name": name}
        if description is not None:
            config["description"] = description
        entry = {"agentId": f"{LEAD}@{name}", "name": LEAD, "agentType": agent_type, "model": "claude-opus-4-6"}
        entry |= {"joinedAt": now, "tmuxPaneId": "", "cwd": os.getcwd(), "subscriptions": []}
        config |= {"createdAt": now, "leadAgentId": entry["agentId"], "leadSessionId": self.session, "members": [entry]}
        self.roster.path.parent.mkdir(parents=True, exist_ok=True)
        self.disk.write(self.roster.path, as_file(config))
        self.tasks.reset()
        return {"team_name": name, "team_file_path": str(self.roster.path), "lead_agent_id": entry["agentId"]}

    def _implicit_team(self) -> None:
        """What the newer format does at its start. The values of `leadProcess` beside `pid` were not seen."""
        now, name = now_ms(), self._implicit
        entry = {"agentId": f"{LEAD}@{name}", "name": LEAD, "joinedAt": now, "tmuxPaneId": "", "subscriptions": []}
        entry |= {"agentType": LEAD, "cwd": os.getcwd(), "backendType": "in-process"}
        config = {"name": name, "createdAt": now, "leadAgentId": entry["agentId"], "leadSessionId": self.session}
        process = {"pid": os.getpid(), "pidSpace": "host", "claimedAt": now, "procStart": str(now)}
        self.roster.path.parent.mkdir(parents=True, exist_ok=True)
        self.disk.write(self.roster.path, as_file(config | {"members": [entry], "leadProcess": process}))

        def in_place(config: dict[str, Any]) -> None:
            config["members"][0]["tmuxPaneId"] = "leader"

        self.roster.change(in_place)

    def do_spawn(self, name: str, prompt: str, command: list[str] | None = None, **more: Any) -> dict[str, Any]:
        """A member in a pane: its entry, its first mail, then its process (`command` and the flags).

        `more`: plan, agent_type, model, cwd, pane, flags. Without `command` nothing is started, and it counts as its
        own. With `in_process` the prompt is in memory, and there is a task of book-keeping in its place.
        """
        if self.roster.read() is None:
            return {"error": f'Team "{self.team}" does not exist.'}
        name = self._free(name)
        entry = self._entry(name, prompt, more)
        self.roster.change(lambda config: config["members"].append(self.roster.ordered(entry)))
        self._children[name] = None
        if more.get("in_process"):
            self.tasks.create(name, prompt, status="in_progress", metadata={"_internal": True})
        else:
            self.mail.send(name, prompt)
        if command:
            given = [*command, *self._flags(entry, plan=entry["planModeRequired"]), *more.get("flags", [])]
            self._children[name] = subprocess.Popen(given, cwd=entry["cwd"], stdin=subprocess.DEVNULL)
        return {"agent_id": entry["agentId"], "name": name, "team_name": self.team}

    def _free(self, name: str) -> str:
        """`-2` behind a name that is there already; `@` becomes `-`."""
        wanted, number = name.replace("@", "-"), 2
        name = wanted
        while self.roster.find(name) is not None:
            name, number = f"{wanted}-{number}", number + 1
        return name

    def _entry(self, name: str, prompt: str, more: dict[str, Any]) -> dict[str, Any]:
        entry = {"agentId": f"{name}@{self.team}", "name": name, "prompt": prompt, "joinedAt": now_ms()}
        entry |= {"agentType": more.get("agent_type", "general-purpose"), "model": more.get("model", "claude-opus-4-6")}
        entry |= {"color": COLORS[self._started % len(COLORS)], "planModeRequired": bool(more.get("plan"))}
        self._started += 1
        entry |= {"cwd": more.get("cwd", os.getcwd()), "subscriptions": []}
        if more.get("in_process"):
            return entry | {"tmuxPaneId": "in-process", "backendType": "in-process"}
        return entry | {"tmuxPaneId": more.get("pane", f"%{self._started}"), "backendType": "tmux"}

    def _flags(self, entry: dict[str, Any], *, plan: bool) -> list[str]:
        given = ["--agent-id", entry["agentId"], "--agent-name", entry["name"], "--team-name", self.team]
        given += ["--agent-color", entry["color"], "--parent-session-id", self.session]
        given += ["--plan-mode-required"] if plan else []
        given += ["--agent-type", entry["agentType"]]
        if not plan and self._mode == "bypassPermissions":
            given += ["--dangerously-skip-permissions"]
        elif not plan and self._mode == "acceptEdits":
            given += ["--permission-mode", "acceptEdits"]
        return [*given, "--model", entry["model"]]

    def do_delete(self) -> dict[str, Any]:
        """TeamDelete: refused while anybody but the lead is on the roster."""
        others = self.roster.others(LEAD)
        if others:
            what = f"Cannot cleanup team with {len(others)} active member(s): {', '.join(others)}."
            return {"success": False, "message": what, "team_name": self.team}
        shutil.rmtree(self.disk.team(self.team), ignore_errors=True)
        shutil.rmtree(self.disk.tasks(self.team), ignore_errors=True)
        return {"success": True, "team_name": self.team}

    # ── what it asks and answers ─────────────────────────────────────────────────────────────────────────────

    def do_stop(self, name: str, reason: str = "") -> dict[str, Any]:
        """Ask a member to stop."""
        id = f"shutdown-{now_ms()}@{name}"
        self.mail.send(name, shutdown_request(id, LEAD, reason or None))
        return {"success": True, "request_id": id, "target": name}

    def do_answer_plan(self, name: str, approve: bool, feedback: str = "", mode: str = "") -> str:
        """To the newest plan of that member."""
        id = str(self._asked[name]["requestId"])
        self.mail.send(name, plan_response(id, approved=approve, feedback=feedback, mode=mode or self._mode))
        return id

    def do_answer_permission(self, name: str, **given: Any) -> str:
        """To its newest request. `given`: error, or input and updates."""
        asked = self._asked[name]
        id = str(asked["request_id"])
        if "error" in given:
            self.mail.send(name, permission_denied(id, given["error"]))
        else:
            allowed = permission_allowed(id, given.get("input", asked["input"]), given.get("updates", []))
            self.mail.send(name, allowed)
        return id

    # ── waiting, and what it does by itself meanwhile ────────────────────────────────────────────────────────

    def do_hear(self, words: str, sender: str = "") -> str:
        """Until mail with these words came; mail that one `hear` ended with is not heard again."""
        return str(self._until(lambda: self._heard(words, sender)).get("text"))

    def _heard(self, words: str, sender: str) -> dict[str, Any] | None:
        for entry in self._seen:
            if words in str(entry.get("text")) and sender in {"", entry.get("from")}:
                self._seen.remove(entry)
                return entry
        return None

    def do_see_task(self, id: str, **wanted: Any) -> dict[str, Any]:
        """Until the task has these values."""

        def fits() -> dict[str, Any] | None:
            task = self.tasks.get(id)
            return task if task is not None and all(task.get(key) == value for key, value in wanted.items()) else None

        return self._until(fits)

    def do_see_member(self, name: str, **wanted: Any) -> dict[str, Any]:
        """Until its entry has these values; with `gone`, until it has none."""
        gone = wanted.pop("gone", False)

        def fits() -> dict[str, Any] | None:
            config = self.roster.read()
            entry = self.roster.find(name) if config is not None else {}
            if gone:
                return {"gone": name} if entry is None else None
            return entry if entry and all(entry.get(key) == value for key, value in wanted.items()) else None

        return self._until(fits)

    def do_lead_until(self, file: str) -> None:
        """Go on leading until that file is there."""
        self._until(lambda: {"there": file} if os.path.exists(file) else None)

    def _until(self, found: Any) -> dict[str, Any]:
        bound = time.monotonic() + BOUND_S
        while (one := found()) is None:
            if time.monotonic() > bound:
                self.log.note("waited in vain")
                raise TimeoutError("what the script waits for did not come")
            time.sleep(self._poll_s)
            if self._children or not self.disk.newer:  # the newer one polls only when it started a member itself
                self._poll()
        return one

    def _poll(self) -> None:
        for entry in self.mail.take():
            self.log.note("envelope", entry=entry)
            body, sender = body_of(entry), str(entry.get("from"))
            kind = body.get("type")
            if kind in {"plan_approval_request", "permission_request"}:
                self._asked[sender] = body
            if kind == "plan_approval_request" and self._approves:
                self.do_answer_plan(sender, True)
            if kind == "shutdown_approved" and not self._see_off(sender, body):
                continue
            self._seen.append(entry)

    def _see_off(self, name: str, body: dict[str, Any]) -> bool:
        """Take a member of its own off; whether its model is told. It believes pane and backend unchecked."""
        mine = name in self._children
        if self.disk.newer and not mine:
            return False
        if body.get("backendType") == "tmux" and body.get("paneId"):
            self.log.note("kill-pane", pane=body["paneId"])
        if mine:
            self._children.pop(name, None)
            self.roster.change(_without(name))
            freed = [t["id"] for t in self.tasks.all() if t.get("owner") == name and t["status"] != "completed"]
            for id in freed:
                self._unassign(id)
            self.log.note("terminated", name=name, unassigned=freed)
        return True

    def _unassign(self, id: str) -> None:
        task = self.tasks.get(id) or {}
        left = {key: value for key, value in task.items() if key != "owner"} | {"status": "pending"}
        self.disk.write(self.tasks.place / f"{id}.json", as_file(left))

    def do_await(self, file: str) -> None:
        """Until that file is there, deaf meanwhile: as a headless lead, which nobody wakes."""
        wait_for(file)


def _without(name: str) -> Any:
    def change(config: dict[str, Any]) -> None:
        config["members"] = [one for one in config["members"] if one["name"] != name]

    return change


if __name__ == "__main__":
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--format", choices=FORMATS, required=True)
    parser.add_argument("--poll", type=float, default=1.0, help="seconds")
    parser.add_argument("--patience", type=float, help="seconds that it waits for a lock; without it the format's own")
    Lead(parser.parse_args(), log_of(LEAD), script(LEAD)).run()
