"""What members of the crash suite do beside their tasks: small scripts, each with one effect that can be counted.

An attempt has a label. Its effect is a file with that label, or a line of one. After the round `problems` compares each
call with its effect: a call that succeeded had it once, one that a kill cut off at most once.
"""

import json
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.crash.players import STAFF, Made, Talk

OLD = "as it was"
"""The content of the files that members edit, before the round."""

SERVER = """
import json, sys, time
for line in sys.stdin:
    said = json.loads(line)
    method, given = said.get("method"), said.get("params", {})
    if method == "initialize":
        result = {"protocolVersion": given["protocolVersion"], "capabilities": {"tools": {}}}
        result["serverInfo"] = {"name": "notes", "version": "1"}
    elif method == "tools/list":
        schema = {"type": "object", "properties": {"label": {"type": "string"}}}
        result = {"tools": [{"name": "note", "description": "Writes a label down.", "inputSchema": schema}]}
    elif method == "tools/call":
        time.sleep(0.2)
        with open(sys.argv[1], "a") as file:
            file.write(given["arguments"]["label"] + "\\n")
        time.sleep(0.2)
        result = {"content": [{"type": "text", "text": "noted"}]}
    elif "id" in said:
        result = {}
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": said["id"], "result": result}), flush=True)
"""
"""An MCP server on stdin and stdout whose one tool takes a moment before and after its effect."""

Step = tuple[str, dict[str, Any]]


class Errands:
    """The errands of one round: which task brings which, and where their effects are.

    `place` is the round's directory, `work` the directory of the agents.
    """

    def __init__(self, seed: str, place: Path, work: Path, tasks: int) -> None:
        dice = random.Random(f"errands {seed}")
        kinds = [*self.kinds, *self.kinds]
        dice.shuffle(kinds)
        self.of_task = dict(zip(dice.sample(range(tasks), min(tasks, len(kinds))), kinds, strict=False))
        self.effects = place / "effects"
        self.files = work / "files"

    @property
    def kinds(self) -> dict[str, Callable[[Talk, str], Step]]:
        """The script of each errand: the next call for a label."""
        return {"sub-agent": self._sub_agent, "job": self._job, "mcp": self._mcp, "edit": self._edit}

    def prepare(self) -> dict[str, Any]:
        """Make the files of the errands. Returns their settings: an MCP server, a hook, a path for the sandbox."""
        for directory in (self.effects / "hooks", self.files):
            directory.mkdir(parents=True)
        for name in STAFF:
            for k, kind in self.of_task.items():
                if kind == "edit":
                    (self.files / f"{name}-{k}.txt").write_text(OLD)
        server = self.effects / "server.py"
        server.write_text(SERVER)
        hook = f"cat > $(mktemp {self.effects}/hooks/XXXXXXXX)"
        arguments = ["-I", "-S", str(server), str(self._log("mcp"))]
        return {
            "sandbox": {"write": [str(self.effects)]},
            "mcpServers": {"notes": {"command": sys.executable, "args": arguments}},
            "hooks": {"PostToolUse": [{"matcher": "Write", "hooks": [{"type": "command", "command": hook}]}]},
        }

    def next_step(self, talk: Talk, me: str, k: int) -> list[Step]:
        """The next call of the errand of task `k`; nothing when it is done, or was cut off twice."""
        kind = self.of_task.get(k)
        if kind is None:
            return []
        for attempt in range(2):
            label = f"{me}-{k}-{attempt}"
            made = [call for call in talk.calls if label_of(call) == label]
            if any(call.failed and "interrupted" in call.text for call in made):
                continue
            return [] if made else [self.kinds[kind](talk, label)]
        return []

    def sub_agent(self, talk: Talk, label: str) -> list[Step] | str:
        """What the sub-agent with this label answers."""
        made = talk.of("Bash")
        if not made:
            return [("Bash", {"command": f"echo {label} >> {self._log('sub-agent')}"})]
        return f"{label} was cut off." if made[0].failed else f"{label} is done."

    def _sub_agent(self, _talk: Talk, label: str) -> Step:
        return ("Agent", {"description": f"errand {label}", "prompt": f"SUB-AGENT {label}."})

    def _job(self, _talk: Talk, label: str) -> Step:
        command = f"sleep 0.2; echo {label} >> {self._log('job')}"
        return ("Bash", {"command": command, "description": f"errand {label}", "run_in_background": True})

    def _mcp(self, _talk: Talk, label: str) -> Step:
        return ("McpCall", {"server": "notes", "tool": "note", "arguments": {"label": label}})

    def _edit(self, talk: Talk, label: str) -> Step:
        me, k, attempt = label.split("-")
        path = {"file_path": str(self.files / f"{me.split('.')[0]}-{k}.txt")}
        read = path | {"limit": 100 + int(attempt)}
        return ("Write", path | {"content": label}) if talk.of("Read", **read) else ("Read", read)

    def _log(self, kind: str) -> Path:
        return self.effects / f"{kind}.log"

    # ── the verdict ──────────────────────────────────────────────────────────────────────────────────────────

    def problems(self, talks: list[Talk]) -> Iterator[str]:
        """Every effect that a call should have had and has not, or has twice; read before anything is undone."""
        effects = {kind: self._counted(kind) for kind in ("sub-agent", "job", "mcp")}
        effects["edit"] = Counter(self._hooked())
        asked: set[str] = set()
        for talk in talks:
            for call in talk.calls:
                label = label_of(call)
                kind = self.of_task.get(int(label.split("-")[1]), "") if label else ""
                if not kind:
                    continue
                asked.add(label)
                times = effects[kind][label]
                if times > 1 or (times == 0 and is_certain(kind, label, call)):
                    yield f"the {kind} errand {label} had its effect {times} times: {call.text[:200]!r}"
        for kind, counted in effects.items():
            yield from (f"the {kind} errand {label} was never asked for" for label in counted if label not in asked)

    def left_edits(self) -> Iterator[str]:
        """Every file that an undo of all edits did not bring back."""
        for path in sorted(self.files.iterdir()):
            if path.read_text() != OLD:
                yield f"{path} was not taken back: it has {path.read_text()[:100]!r}"

    def is_old_or_new(self) -> Iterator[str]:
        """Every file that has neither its former content nor that of an edit."""
        for path in sorted(self.files.iterdir()):
            text = path.read_text()
            if text != OLD and not re.fullmatch(rf"{path.stem.split('-')[0]}\.\d+-\d+-\d", text):
                yield f"{path} is torn: {text[:100]!r}"

    def _counted(self, kind: str) -> Counter[str]:
        log = self._log(kind)
        return Counter(log.read_text().splitlines() if log.exists() else [])

    def _hooked(self) -> Iterator[str]:
        """The label of each run of the hook that came to its end."""
        for path in (self.effects / "hooks").iterdir():
            if text := path.read_text():
                yield json.loads(text)["tool_input"]["content"]


def label_of(call: Made) -> str:
    """The label of a call that belongs to an errand, or nothing."""
    given = call.given
    if call.tool == "Write":
        return given["content"]
    if call.tool == "McpCall":
        return given["arguments"]["label"]
    found = re.fullmatch(r"errand (\S+)", str(given.get("description")))
    return found[1] if found else ""


def is_certain(kind: str, label: str, call: Made) -> bool:
    """Whether the call's result says that its effect is there. A job outlasts its call, but not its agent."""
    if call.failed is not False or kind == "job":
        return False
    return kind != "sub-agent" or f"{label} is done." in call.text
