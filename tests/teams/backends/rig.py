"""A private tmux server with strange indexes, programs that report what they got, and what a test may ask of both."""

import asyncio
import contextlib
import json
import os
import secrets
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path

from teamwright.backends.tmux import TmuxBackend, TmuxSettings
from teamwright.teams.backend import Launch
from tests.support.programs import needs
from tests.support.waits import WAIT_S

TMUX = shutil.which("tmux")
needs_tmux = needs("tmux")

REPORTER = """
import json, os, signal, socket, sys
line = socket.socket(socket.AF_UNIX)
line.connect(sys.argv[1])
told = {
    "pid": os.getpid(),
    "cwd": os.getcwdb().decode("latin-1"),
    "argv": [os.fsencode(word).decode("latin-1") for word in sys.argv[2:]],
    "env": {key.decode("latin-1"): value.decode("latin-1") for key, value in os.environb.items()},
}
line.sendall(json.dumps(told).encode() + b"\\n")
sys.stdout.write("ready\\n")
sys.stdout.flush()
answer = line.makefile().readline()
if answer.startswith("fail"):
    sys.stderr.write("the key is not accepted\\n")
    sys.exit(3)
if answer.startswith("ignore"):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    line.sendall(b"ignoring\\n")
    while True:
        signal.pause()
"""
"""Says over a socket what it was started with, then waits: its end is the end of the socket, or what it is told."""


_STARTS = 3
"""A client of tmux 3.3a sometimes misses its new server on a busy machine (2 of 600 starts)."""


class NoRoom(Exception):
    """tmux has no room for one more pane there."""


class Rig:
    """One server of a test; `lead` is the pane in which the lead is said to be."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = str(folder / "t")
        config = folder / "conf"
        config.write_text("set -g base-index 1\nset -g pane-base-index 1\nset -g default-size 200x50\n")
        self._config = config

    def start(self, *options: str) -> None:
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "LANG": "C.UTF-8"}
        argv = [TMUX, "-S", self.socket, "-f", str(self._config), *options, "new-session", "-d", "-s", "main"]
        argv += ["-x", "200", "-y", "50", "cat"]
        for _ in range(_STARTS):
            done = subprocess.run(argv, env=env, check=False, timeout=WAIT_S, capture_output=True, text=True)
            if "server exited unexpectedly" not in done.stderr:
                break
        assert done.returncode == 0, done.stderr
        self.lead = self.run("list-panes", "-a", "-F", "#{pane_id}").strip()

    def run(self, *words: str) -> str:
        done = subprocess.run(
            [TMUX, "-u", "-S", self.socket, *words], capture_output=True, text=True, check=False, timeout=WAIT_S
        )
        if "no space for new pane" in done.stderr:
            raise NoRoom
        assert done.returncode == 0, done.stderr
        return done.stdout

    def split(self, *words: str) -> str:
        """A pane of somebody else."""
        return self.run("split-window", "-d", "-P", "-F", "#{pane_id}", *words, "--", "sleep", "1000").strip()

    def window(self) -> str:
        """A window of somebody else; its pane."""
        return self.run("new-window", "-d", "-P", "-F", "#{pane_id}", "-t", "main:", "--", "sleep", "1000").strip()

    def panes(self, what: str = "#{window_id} #{pane_pid}") -> dict[str, str]:
        lines = self.run("list-panes", "-a", "-F", f"#{{pane_id}}\t{what}").splitlines()
        return dict(line.split("\t", 1) for line in lines)

    @property
    def environ(self) -> dict[str, str]:
        number, session = self.run("display-message", "-p", "-t", self.lead, "#{pid} #{session_id}").split()
        return {**os.environ, "TMUX": f"{self.socket},{number},{session[1:]}", "TMUX_PANE": self.lead}

    @contextlib.contextmanager
    def attached(self, session: str):
        """A person who looks at this session, at a real terminal."""
        number = len(self.run("list-clients").splitlines())
        ours, theirs = os.openpty()
        argv = [TMUX, "-u", "-S", self.socket, "attach-session", "-t", session]
        env = {**os.environ, "TERM": "screen"}
        client = subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=theirs, env=env, start_new_session=True)
        os.close(theirs)
        try:
            for _ in range(600):
                if len(self.run("list-clients").splitlines()) > number:
                    break
                self.run("run-shell", "-d", "0.1")
            yield
        finally:
            client.kill()
            client.wait(WAIT_S)
            os.close(ours)

    def place(self, **settings: object) -> TmuxBackend:
        return TmuxBackend(TMUX, self.environ, TmuxSettings(**settings))

    def stop(self) -> None:
        """End the server and wait for its end: the next one at this socket would meet it."""
        asked = [TMUX, "-S", self.socket, "display-message", "-p", "#{pid}"]
        said = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=WAIT_S).stdout.strip()
        server = os.pidfd_open(int(said)) if said.isdigit() else -1
        subprocess.run([TMUX, "-S", self.socket, "kill-server"], capture_output=True, check=False, timeout=WAIT_S)
        if server >= 0:
            ending = select.poll()
            ending.register(server, select.POLLIN)
            assert ending.poll(WAIT_S * 1000)
            os.close(server)


class Programs:
    """Where programs report; one connection each."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._arrived: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()

    async def met(self, reading: asyncio.StreamReader, writing: asyncio.StreamWriter) -> None:
        self._arrived.put_nowait((reading, writing))

    def launch(self, name: str = "ada", *words: str, **changes: object) -> Launch:
        argv = (sys.executable, "-I", "-S", "-c", REPORTER, self.address, *words)
        facts = {"team": "docs", "session": "7f3a0000-1111", "argv": argv, "env": {"PATH": os.environ["PATH"]}}
        return Launch(name, **{**facts, "cwd": Path("/"), "color": "purple", **changes})

    async def report(self) -> "Report":
        async with asyncio.timeout(WAIT_S):
            reading, writing = await self._arrived.get()
            return Report(json.loads(await reading.readline()), reading, writing)


class Report:
    """What one program told, and the line to it."""

    def __init__(self, told: dict, reading: asyncio.StreamReader, writing: asyncio.StreamWriter) -> None:
        self.told, self._reading, self._writing = told, reading, writing

    async def tell(self, word: str) -> str:
        self._writing.write(f"{word}\n".encode())
        async with asyncio.timeout(WAIT_S):
            return (await self._reading.readline()).decode().strip()


@contextlib.asynccontextmanager
async def programs() -> AsyncGenerator[Programs]:
    folder = tempfile.mkdtemp(prefix="tp-", dir="/tmp")
    reporting = Programs(f"{folder}/{secrets.token_hex(2)}")
    server = await asyncio.start_unix_server(reporting.met, reporting.address, limit=1 << 20)
    try:
        yield reporting
    finally:
        server.close()
        shutil.rmtree(folder)


@contextlib.contextmanager
def private_server():
    folder = Path(tempfile.mkdtemp(prefix="tr-", dir="/tmp"))  # a socket's path has to be short
    rig = Rig(folder)
    try:
        rig.start()
        yield rig
    finally:
        rig.stop()
        shutil.rmtree(folder)
