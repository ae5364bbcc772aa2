"""A member of the other product, as a process: `python -I member.py --format 2.1.41 --agent-id … --agent-name … …`.

The flags are those that its lead gives to a member in a pane. It takes its first prompt from its inbox, notes its turns
in config.json, polls, obeys its lead, and ends by itself after it agreed to. Its model is a script:

    {"turns": [{"when": "words in what it is told", "again": false, "do": [{"do": "send", …}, …]}, …],
     "idle_after_goodbye": false,
     "start": {"await": "a file", "screen": "words", "stderr": "words", "exit": 1}}

A turn takes the first rule that fits and was not used before; one that may be used `again` stays. A request to stop
that no rule answers is agreed to. `start` is for a start that is slow, or fails. The environment names its script
(`STRANGER_SCRIPT`) and its log (`STRANGER_LOG`).
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from simulated_product.agent import Agent, log_of, script
from simulated_product.disk import FORMATS, Disk, Log, now_ms, stamp, wait_for
from simulated_product.inbox import body_of, from_lead
from simulated_product.mail_texts import (
    LEAD,
    idle,
    permission_id,
    permission_request,
    plan_request,
    rendered,
    shutdown_approved,
    shutdown_rejected,
)

READING = frozenset({"Read", "Glob", "Grep"})
WRITING = frozenset({"Write", "Edit", "NotebookEdit"})
TO_ACCEPT_EDITS = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}


class Member(Agent):
    """One life of a member."""

    def __init__(self, args: argparse.Namespace, log: Log, rules: dict[str, Any]) -> None:
        disk = Disk(args.format, log, patience_s=args.patience)
        super().__init__(disk, log, args.team_name, args.agent_name, args.agent_color)
        self._args = args
        self._rules: list[dict[str, Any]] = list(rules.get("turns", []))
        self._late_idle = bool(rules.get("idle_after_goodbye"))
        self._start: dict[str, Any] = rules.get("start", {})
        self.mode = _mode(args)
        self.plan = ""
        """The request of the plan that waits for an answer."""
        self._held: list[dict[str, Any]] = []
        self._answers: dict[str, dict[str, Any]] = {}
        self._words = ""
        self._leaving = False

    def run(self) -> None:
        """Turns until it agreed to stop."""
        self.log.note("start", flags=sys.argv[1:], mode=self.mode)
        if "await" in self._start:
            wait_for(self._start["await"])
        if "screen" in self._start:
            print(self._start["screen"], flush=True)
        if "exit" in self._start:
            print(self._start.get("stderr", ""), file=sys.stderr)
            raise SystemExit(self._start["exit"])
        while not self._leaving:
            self._poll()
            if self._held:
                self._turn()
            else:
                time.sleep(self._args.poll)
        if self._late_idle:
            self._tell_idle()
        self.log.note("exit")

    # ── mail ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _poll(self) -> None:
        """Take what waits: answers to a permission at once, all else for the next turn."""
        for entry in self.mail.take():
            body = body_of(entry)
            self.log.note("envelope", entry=entry)
            if body.get("type") == "permission_response":
                if from_lead(entry):
                    self._answers[str(body.get("request_id"))] = body
                continue
            if body.get("type") == "plan_approval_response" and from_lead(entry):
                self._plan_answered(body)
            self._held.append(entry)

    def _plan_answered(self, body: dict[str, Any]) -> None:
        if body.get("requestId") == self.plan and self.mode == "plan":
            self.plan = ""
            if body.get("approved") is True:
                self._set_mode(body.get("permissionMode") or "default")

    def _set_mode(self, mode: str) -> None:
        self.mode = mode
        self.log.note("mode", mode=mode)

    # ── a turn ───────────────────────────────────────────────────────────────────────────────────────────────

    def _turn(self) -> None:
        entries, self._held, self.peer, self._words = self._held, [], "", ""
        self.roster.set_active(self.name, True)
        verifying = bool(self._args.lead_verify_key)
        told = "\n\n".join(
            rendered(entry, body_of(entry), newer=self.disk.newer, verifying=verifying) for entry in entries
        )
        self.met["from"] = str(entries[-1].get("from", "undefined"))
        bodies = [body_of(one) for one in entries if from_lead(one)]
        stops = [body for body in bodies if body.get("type") == "shutdown_request"]
        if stops:
            self.met["request"] = str(stops[-1].get("requestId"))
        self.log.note("told", text=told)
        for action in self._actions(told, stopping=bool(stops)):
            self.act(action)
            if self._leaving:
                return
            self._poll()
        self.roster.set_active(self.name, False)
        self._tell_idle()

    def _actions(self, told: str, *, stopping: bool) -> list[dict[str, Any]]:
        for rule in self._rules:
            if rule.get("when", "") in told and (not stopping or rule.get("when")):
                if not rule.get("again"):
                    self._rules.remove(rule)
                return rule["do"]
        return [{"do": "agree"}] if stopping else []

    def _tell_idle(self) -> None:
        self.mail.send(LEAD, idle(self.name, peer=self.peer, result=self._words if self.disk.newer else None))
        self.log.note("idle")

    # ── what only a member does ──────────────────────────────────────────────────────────────────────────────

    def do_say(self, text: str) -> str:
        """The last words of its turn: in the newer format the idle notice has them."""
        self._words = text
        return text

    def do_agree(self) -> dict[str, Any]:
        """Agree to stop: the lead is told, the turn and the process end; its entry stays on the roster."""
        told = shutdown_approved(self.met["request"], self.name, self.roster.find(self.name))
        self._leaving = True
        return {"success": self.mail.send(LEAD, told), "request_id": self.met["request"]}

    def do_refuse(self, reason: str) -> dict[str, Any]:
        """Object to being stopped."""
        told = shutdown_rejected(self.met["request"], self.name, reason)
        return {"success": self.mail.send(LEAD, told), "request_id": self.met["request"]}

    def do_plan(self, plan: str, words: str = "bright-calm-river") -> str:
        """Write the plan and hand it in; the answer comes as mail. The id is that of the request."""
        path = self.disk.root / "plans" / f"{words}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(plan)
        now = now_ms()
        self.plan = f"plan_approval-{now}@{self.name}@{self.team}"
        told = plan_request(self.name, str(path), plan, self.plan, stamp(now))
        self.mail.send(LEAD, told, color=False, at=stamp(now))
        return self.plan

    def do_tool(self, tool: str, input: dict[str, Any], description: str = "") -> dict[str, Any]:
        """Call a tool. Only Write does something: a file below the working directory or where its path says."""
        call = {"tool": tool, "id": f"toolu_{now_ms()}", "input": input}
        if self._must_ask(tool):
            answer = self._asked(call, description or f"{tool} of {self.name}")
            if answer.get("subtype") != "success":
                return {"is_error": True, "text": f"the user said:\n{answer.get('error', '')}"}
            response = answer.get("response") or {}
            call["input"] = response.get("updated_input") or input
            for update in response.get("permission_updates") or []:
                if update.get("type") == "setMode":
                    self._set_mode(update["mode"])
        if tool == "Write":
            path = Path(call["input"]["file_path"])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(call["input"]["content"])
        return {"is_error": False, "ran": call["input"]}

    def _must_ask(self, tool: str) -> bool:
        if tool in READING or self.mode == "bypassPermissions":
            return False
        return not (self.mode == "acceptEdits" and tool in WRITING)

    def _asked(self, call: dict[str, Any], description: str) -> dict[str, Any]:
        """The lead's answer; it waits as long as it takes, and other mail waits with it."""
        id = permission_id()
        suggestions = [TO_ACCEPT_EDITS] if call["tool"] in WRITING else []
        self.mail.send(LEAD, permission_request(id, self.name, call, description, suggestions))
        self.log.note("asked", request=id)
        while id not in self._answers:
            time.sleep(self._args.poll)
            self._poll()
        return self._answers.pop(id)


def _mode(args: argparse.Namespace) -> str:
    if args.plan_mode_required:
        return "plan"
    return "bypassPermissions" if args.dangerously_skip_permissions else args.permission_mode or "default"


def flags(argv: list[str]) -> argparse.Namespace:
    """The flags that a lead gives, all of them known; two of this stand-in stand before them."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--format", choices=FORMATS, required=True)
    parser.add_argument("--poll", type=float, default=1.0, help="seconds")
    parser.add_argument("--patience", type=float, help="seconds that it waits for a lock; without it the format's own")
    for name in ("agent-id", "agent-name", "team-name"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("agent-color", "parent-session-id", "agent-type", "model", "permission-mode", "lead-verify-key"):
        parser.add_argument(f"--{name}")
    for name in ("plan-mode-required", "dangerously-skip-permissions"):
        parser.add_argument(f"--{name}", action="store_true")
    return parser.parse_args(argv)


if __name__ == "__main__":
    given = flags(sys.argv[1:])
    Member(given, log_of(given.agent_name), script(given.agent_name)).run()
