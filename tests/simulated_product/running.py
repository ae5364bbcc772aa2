"""Stand-ins as processes, for tests: started with a script, their log followed line by line, gone at the end."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from tests.support.waits import WAIT_S

HERE = Path(__file__).resolve().parent
MEMBER, LEAD_PROGRAM = HERE / "member.py", HERE / "lead.py"


def command(program: Path, format_: str, patience_s: float | None = WAIT_S) -> list[str]:
    """The command of a stand-in, to which a lead adds its flags; it polls every 10 ms.

    A stand-in that waits for locks loses no mail, however busy the machine. None: it waits as its format does.
    """
    given = [sys.executable, "-I", str(program), "--format", format_, "--poll", "0.01"]
    return given if patience_s is None else [*given, "--patience", str(patience_s)]


def flags(name: str, team: str, *more: str) -> list[str]:
    """The flags that a member is started with."""
    given = ["--agent-id", f"{name}@{team}", "--agent-name", name, "--team-name", team, "--agent-color", "blue"]
    return [*given, "--parent-session-id", "50101e6d", *more, "--agent-type", "general-purpose", "--model", "haiku"]


class Running:
    """One stand-in. Its log is read as it comes; `until` goes on from where the last one ended."""

    def __init__(self, argv: list[str], root: Path, script: Path) -> None:
        variables = os.environ | {"CLAUDE_CONFIG_DIR": str(root), "STRANGER_SCRIPT": str(script), "STRANGER_LOG": "-"}
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=variables)
        self.log: list[dict[str, Any]] = []
        self._read = 0
        self._over = False
        self._came = threading.Condition()
        self._reader = threading.Thread(target=self._follow, daemon=True)
        self._reader.start()

    def _follow(self) -> None:
        for line in self.process.stdout or ():
            with self._came:
                self.log.append(json.loads(line))
                self._came.notify_all()
        with self._came:
            self._over = True
            self._came.notify_all()

    def until(self, kind: str, has: str = "", **fits: Any) -> dict[str, Any]:
        """The next line of this kind with these values, and these words in its text.

        AssertionError when it ended, or took too long.
        """

        def found() -> bool:
            while self._read < len(self.log):
                line = self.log[self._read]
                self._read += 1
                fitting = line["kind"] == kind and has in line.get("text", "")
                if fitting and all(line.get(key) == value for key, value in fits.items()):
                    self._found = line
                    return True
            return self._over

        with self._came:
            self._found: dict[str, Any] | None = None
            self._came.wait_for(found, WAIT_S)
        assert self._found is not None, f"no {kind} {fits} in {self.log}"
        return self._found

    async def seen(self, kind: str, has: str = "", **fits: Any) -> dict[str, Any]:
        """`until`, beside whatever else the loop does."""
        return await asyncio.to_thread(self.until, kind, has, **fits)

    def told(self) -> str:
        """All that its model was told so far."""
        return "\n".join(line["text"] for line in self.log if line["kind"] == "told")

    def ended(self) -> int:
        """Its exit code, once it ended by itself."""
        code = self.process.wait(WAIT_S)
        self._reader.join(WAIT_S)
        return code

    def end(self) -> None:
        """It is gone, whatever it was at."""
        self.process.kill()
        self.process.wait()
        self._reader.join()
        if self.process.stdout:
            self.process.stdout.close()


class Strangers:
    """Starts stand-ins on one state root. `format` is the one that all have; `patience_s` as in `command`."""

    def __init__(self, root: Path, place: Path, format_: str, patience_s: float | None) -> None:
        self.root, self.format, self.patience_s = root, format_, patience_s
        self._place = place
        self._running: list[Running] = []

    def member(self, name: str, team: str, script: dict[str, Any] | None = None, *more: str) -> Running:
        """A member with its flags; its roster entry is the business of whoever leads."""
        return self._run([*command(MEMBER, self.format, self.patience_s), *flags(name, team, *more)], script or {})

    def lead(self, *steps: dict[str, Any], **more: Any) -> Running:
        """A lead that goes through these steps."""
        return self._run(command(LEAD_PROGRAM, self.format, self.patience_s), {"do": list(steps), **more})

    def _run(self, argv: list[str], script: dict[str, Any]) -> Running:
        path = self._place / f"script{len(self._running)}.json"
        path.write_text(json.dumps(script))
        made = Running(argv, self.root, path)
        self._running.append(made)
        return made

    def end(self) -> None:
        """All of them are gone."""
        for one in self._running:
            one.end()
