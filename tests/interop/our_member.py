"""Our program as a member of a stand-in's team: what starts it, what plays its model, and what it left on disk."""

import asyncio
import inspect
import json
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from teamwright.testing import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from tests.simulated_product.disk import NEWER
from tests.simulated_product.running import Running, Strangers, flags
from tests.support import preloaded
from tests.support.waits import WAIT_S, wait_until
from tests.ui.program import words_of

SESSION = "50101e6d-0000-4000-8000-000000000000"


def call(tool: str, **given: Any) -> Answer:
    return Answer(tools=[(tool, given)])


def send(text: str, to: str = "team-lead") -> Answer:
    return call("SendMessage", to=to, message=text)


class Gate:
    """A model call that is held: `come` until it is asked, `go` lets it answer."""

    def __init__(self, reply: Any = "ok") -> None:
        self.reply = reply
        self.reached, self._go = threading.Event(), threading.Event()

    def come(self) -> None:
        assert self.reached.wait(WAIT_S), "it was never asked"

    def go(self) -> None:
        self._go.set()

    async def wait(self) -> Any:
        self.reached.set()
        await asyncio.to_thread(self._go.wait, WAIT_S)
        return self.reply


class Part:
    """What the model says, call by call; a spent part says `ok`. A part of a reply may be a function of the request."""

    def __init__(self, *replies: Any) -> None:
        self.replies = list(replies)

    async def __call__(self, body: dict[str, Any]) -> Any:
        reply = self.replies.pop(0) if self.replies else "ok"
        if isinstance(reply, Gate):
            reply = await reply.wait()
        if callable(reply):
            reply = reply(body)
        return await reply if inspect.isawaitable(reply) else reply


class Ours:
    """Our program, with a model of its own on this machine and the state root of the stand-ins."""

    def __init__(self, strangers: Strangers, place: Path, server: LoopbackModel, part: Part) -> None:
        self.strangers, self.root, self.server, self._part = strangers, strangers.root, server, part
        self.newer = strangers.format == NEWER
        self.team = f"session-{SESSION[:8]}" if self.newer else "My Team"
        self.directory = self.team if self.newer else "my-team"
        self.place, self.work = place, place / "work"
        self.work.mkdir()
        self.out = place / "bob.out"
        self._alone: list[subprocess.Popen[str]] = []

    def script(self, *replies: Any) -> None:
        """What its model says from now on."""
        self._part.replies = list(replies)

    def settings(self, **values: Any) -> None:
        """The user's own settings."""
        file = self.root / "teamwright" / "settings.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(values))

    # ── starting ─────────────────────────────────────────────────────────────────────────────────────────────

    def lead(self, *steps: dict[str, Any], **more: Any) -> Running:
        """A lead that has made its team, and goes on with these steps."""
        make = [] if self.newer else [{"do": "team", "name": self.team}]
        return self.strangers.lead(*make, *steps, session=SESSION, **more)

    def spawn(self, prompt: str = "Go.", **more: Any) -> dict[str, Any]:
        """The step that starts bob. Its words go to a file: the lead's own output is read line by line."""
        command = ["sh", "-c", 'exec "$@" >>"$0" 2>&1', str(self.out), sys.executable, "-m", "teamwright"]
        new = {"flags": ["--lead-verify-key", "1795214741865.MCowBQYDK2VwAyEA", "--brand-new"]} if self.newer else {}
        return {
            "do": "spawn",
            "name": "bob",
            "prompt": prompt,
            "command": command,
            "cwd": str(self.work),
            **new,
            **more,
        }

    def start(self, *more: str, name: str = "bob", env: dict[str, str] | None = None) -> subprocess.Popen[str]:
        """The same flags by hand."""
        given = flags(name, self.team, *more)
        given[given.index("--parent-session-id") + 1] = SESSION
        variables = os.environ | (env or {})
        with self.out.open("a") as out:
            command = [sys.executable, "-m", "teamwright", *given]
            streams = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": subprocess.STDOUT}
            made = preloaded.popen(command, cwd=self.work, env=variables, text=True, **streams)
        self._alone.append(made)
        return made

    def end(self) -> None:
        for one in self._alone:
            one.kill()
            one.wait()

    def over(self, lead: Running) -> None:
        """The lead has gone through all of its steps."""
        try:
            assert lead.ended() == 0
        except (AssertionError, subprocess.TimeoutExpired) as problem:
            words = self.out.read_text() if self.out.exists() else "nothing"
            steps = "\n".join(str(line)[:400] for line in lead.log[-6:])
            raise AssertionError(f"ours said:\n{words}\nthe lead did last:\n{steps}") from problem

    # ── what is there ────────────────────────────────────────────────────────────────────────────────────────

    def read(self, path: Path) -> Any:
        """What stands in it now; None while it is missing or not whole."""
        try:
            return json.loads(path.read_bytes())
        except (OSError, ValueError):
            return None

    def entry(self, name: str = "bob") -> dict[str, Any] | None:
        """Its entry on the roster; None when there is none, {} while it cannot be read."""
        config = self.read(self.root / "teams" / self.directory / "config.json")
        if config is None:
            return {}
        return next((one for one in config["members"] if one["name"] == name), None)

    def inbox(self, name: str) -> Path:
        return self.root / "teams" / self.directory / "inboxes" / f"{name}.json"

    def task(self, id: str = "1") -> dict[str, Any] | None:
        return self.read(self.root / "tasks" / self.directory / f"{id}.json")

    @property
    def room(self) -> Path:
        """Where its own files lie, once there are any."""
        return wait_until(lambda: list((self.root / "teamwright" / "projects").glob(f"*/{SESSION}/members/bob")))[0]

    def events(self, kind: str = "") -> list[dict[str, Any]]:
        path = self.room / "events.jsonl"
        wait_until(path.exists)
        lines = [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
        return [line for line in lines if kind in {"", line.get("type")}]

    def said(self, words: str) -> list[str]:
        """Its notices with these words."""
        return [one["text"] for one in self.events("notice") if words in one["text"]]

    def told(self) -> str:
        """Everything that its model was told, once: the last request has it all."""
        return words_of(self.server.bodies[-1]) if self.server.bodies else ""


@contextmanager
def ours(strangers: Strangers, place: Path, monkeypatch, *replies: Any):
    """Our program with a model that says these replies."""
    part = Part(*replies)
    with LoopbackModel.in_thread(part) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test-guest")
        for name in ("TMUX", "TMUX_PANE", "CLAUDE_CONFIG_DIR"):
            monkeypatch.delenv(name, raising=False)
        made = Ours(strangers, place, server, part)
        try:
            yield made
        finally:
            made.end()


def letters(lead: Running, sender: str = "bob") -> list[dict[str, Any]]:
    """What the lead read from it, in order."""
    return [line["entry"] for line in lead.log if line["kind"] == "envelope" and line["entry"].get("from") == sender]


def body(entry: dict[str, Any]) -> dict[str, Any]:
    return json.loads(entry["text"]) if entry["text"].startswith("{") else {}
