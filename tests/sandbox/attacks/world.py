"""The world of the attacks: a project, a home with secrets, servers, and a process to attack."""

import contextlib
import ctypes
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path

from teamwright.processes.commands import ProcessStart, start_unconfined
from teamwright.requests.request_store import RequestStore
from teamwright.sandbox.bubblewrap import Bubblewrap, probe_bubblewrap
from teamwright.sandbox.command_policy import ConfinementRequest, SandboxPaths
from teamwright.sandbox.landlock import Landlock, probe_landlock
from teamwright.sandbox.policy import NetworkAccess, PolicyName, SandboxSettings
from teamwright.sandbox.sandbox import Sandbox
from tests.sandbox.attacks.attack_list import CANARY, Attack
from tests.support.waits import WAIT_S

IMPLEMENTATIONS = ("bubblewrap", "landlock")
SECRETS = (".ssh/id_ed25519", ".aws/credentials", ".npmrc", "notes.txt")
REQUEST = "perm-1764000000000-abcdefg"
PROGRAMS = {
    "TMUX_SOCKET": "exec tmux -f /dev/null -S {} -D",
    "SSH_AGENT": "exec ssh-agent -D -a {}",
    "BUS": "exec dbus-daemon --session --nofork --address=unix:path={}",
}
"""Other programs of the person, by the variable with their socket."""
_BOUND_S = WAIT_S * 10


class AttackWorld:
    """One world; `succeeds` runs an attack in a policy of an implementation."""

    def __init__(self, directory: Path, env: dict[str, str]) -> None:
        self.home, self.work, self.state = directory / "home", directory / "work", directory / "state"
        self.outside, self.env = directory / "outside", env
        self.stack = contextlib.ExitStack()
        for path in (self.home / ".ssh", self.home / ".aws", self.state / "output", self.outside):
            path.mkdir(parents=True)
        for name in SECRETS:
            (self.home / name).write_text(CANARY)
        (self.home / ".bashrc").write_text("")
        (self.state / "inbox.json").write_text(CANARY)
        for path in (".git/hooks", ".git/objects", ".git/refs"):
            (self.work / path).mkdir(parents=True)
        (self.work / ".git/HEAD").write_text("ref: refs/heads/main\n")
        (self.work / ".git/config").write_text("[core]\n")
        (self.work / "a.txt").write_text("")
        for path in (".husky/pre-commit", ".vscode/tasks.json", "keys/a.pem"):
            (self.work / path).parent.mkdir()
            (self.work / path).write_text(CANARY if path.endswith("pem") else "")
        (self.home / ".cache").mkdir()
        (self.home / ".cache/prompt.zsh").write_text("")
        self.requests = RequestStore(self.state / "teams/crew/requests")
        (self.state / "teams/crew/requests").mkdir(parents=True)
        body = {"id": REQUEST, "v": 1, "kind": "permission", "requester": "team-lead", "target": "user"}
        more = {"tool": "Bash", "what": "make", "input": {"command": "make"}, "opened_at": time.time_ns() // 10**6}
        self.requests.open(REQUEST, body | more)
        self.received: list[bytes] = []

    def succeeds(self, attack: Attack, policy: PolicyName, implementation: str) -> bool:
        """Return True when the attack reached what it must not."""
        for name in PROGRAMS:
            if f"${name}" in attack.line:
                self._start_program(name)
        if attack.first:
            first = PolicyName.UNCONFINED if policy is PolicyName.UNCONFINED else PolicyName.WORK
            self._run(attack.first, first, implementation)
        text = self._run(attack.line, policy, implementation, attack)
        return CANARY in text or bool(self.received) or self._is_changed()

    def _run(self, line: str, policy: PolicyName, implementation: str, attack: Attack | None = None) -> str:
        """Run a line, with what happens at the time of an attack; return its output."""
        reading, writing = os.pipe()
        start = ProcessStart(("bash", "-c", line), self.work, self.env, subprocess.DEVNULL, writing, writing)
        confinement = None if policy is PolicyName.UNCONFINED else self._confinement(policy, implementation)
        guard = None if confinement is None else confinement.guard()
        if attack is not None and attack.between:
            self._run(attack.between, PolicyName.UNCONFINED, implementation)
        child = start_unconfined(start) if confinement is None else confinement.start(start)
        os.close(writing)
        if attack is not None and attack.during:
            os.read(reading, 1)  # the line prints something when it runs
            self._run(attack.during, PolicyName.UNCONFINED, implementation)
        with os.fdopen(reading, encoding="utf-8", errors="replace") as output:
            text = output.read()
        child.wait()
        if guard is not None:
            guard.restore(self.state / "quarantine")
        return text

    def _confinement(self, policy: PolicyName, implementation: str) -> Bubblewrap | Landlock:
        place = SandboxPaths(
            str(self.home), (str(self.state),), (str(self.state / "output"),), str(self.state / "tmp"), self.env
        )
        request = ConfinementRequest(policy, (self.work,), denied=(str(self.work / "keys/a.pem"),))
        made = Sandbox(SandboxSettings(network=NetworkAccess.DENY), place).policy(request)
        if implementation == "landlock":
            return Landlock(probe_landlock(), made)
        abilities = probe_bubblewrap("/usr/bin/bwrap")
        assert abilities is not None
        return Bubblewrap(abilities, made)

    def _start_program(self, name: str) -> None:
        """Start another program of the person, and wait until it listens."""
        path = self.env[name]
        line = f"{PROGRAMS[name].format(path)} 2>&1"  # a superuser's bus complains
        program = subprocess.Popen(["/bin/sh", "-c", line], stdout=subprocess.DEVNULL)
        self.stack.callback(program.wait)
        self.stack.callback(program.kill)
        deadline = time.monotonic() + _BOUND_S
        with socket.socket(socket.AF_UNIX) as client:
            while client.connect_ex(path) != 0:
                assert time.monotonic() < deadline and program.poll() is None, f"{name} does not listen"
                threading.Event().wait(0.01)

    def _is_changed(self) -> bool:
        watched = [self.home / ".bashrc", self.outside / "new", self.work / ".git/config"]
        watched += [self.home / ".cache/prompt.zsh", self.work / ".husky/pre-commit", self.work / ".vscode/tasks.json"]
        watched += [*(self.work / ".git/hooks").glob("*")]
        changed = [path for path in watched if path.exists() and CANARY in path.read_text()]
        changed += [self.state] if self.requests.get_answer(REQUEST) is not None else []
        changed += [Path(self.env["SHARED"])] if Path(self.env["SHARED"]).read_text() != CANARY else []
        return bool(changed) or (self.state / "inbox.json").read_text() != CANARY


@contextlib.contextmanager
def attack_world(directory: Path) -> Generator[AttackWorld]:
    """Create the world in this directory; its servers and its process end with the block."""
    with contextlib.ExitStack() as stack:
        stream = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = stream.getsockname()[1]
        datagrams = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        datagrams.bind(("127.0.0.1", port))
        datagrams.settimeout(0.05)
        victim = subprocess.Popen(["sleep", str(WAIT_S * 10)], env={"SECRET": CANARY, "PATH": os.defpath})
        stack.callback(victim.wait)
        stack.callback(victim.kill)
        env = {
            **os.environ,
            "HOME": str(directory / "home"),
            "STATE": str(directory / "state"),
            "WORK": str(directory / "work"),
            "OUTSIDE": str(directory / "outside"),
            "VICTIM": str(victim.pid),
            "PORT": str(port),
            "SOCKET": str(directory / "home/agent.sock"),
            "ABSTRACT": f"teamwright-{os.getpid()}",
            **{name: str(directory / f"home/{name.lower()}") for name in PROGRAMS},
            "DATAGRAMS": str(directory / "home/datagrams"),
            "PYTHON": sys.executable,
            "REQUEST": REQUEST,
            "REQUESTS": str(directory / "state/teams/crew/requests"),
            "SHARED": f"/dev/shm/teamwright-{directory.name}-{os.getpid()}",
            "SEGMENT": str(_share_memory(stack)),
            "TTY": _open_terminal(stack),
            # A person's own settings: caches in a cache and in the project, and programs in the project.
            "UV_CACHE_DIR": str(directory / "home/.cache/uv"),
            "PIP_CACHE_DIR": str(directory / "work/.pip-cache"),
            "PATH": f"{directory}/work/.venv/bin{os.pathsep}{os.environ['PATH']}",
        }
        world = AttackWorld(directory, env)
        stack.enter_context(world.stack)
        Path(env["SHARED"]).write_text(CANARY)
        stack.callback(os.unlink, env["SHARED"])
        messages = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        messages.bind(env["DATAGRAMS"])
        for address in (env["SOCKET"], f"\0{env['ABSTRACT']}"):
            server = stack.enter_context(socket.socket(socket.AF_UNIX))
            server.bind(address)
            server.listen()
        ended = threading.Event()
        listener = threading.Thread(target=_receive, args=(datagrams, world.received, ended))
        listener.start()
        stack.callback(listener.join)
        stack.callback(ended.set)
        yield world


def _share_memory(stack: contextlib.ExitStack) -> int:
    """Create shared memory of System V with the canary; return its number."""
    libc = ctypes.CDLL(None)
    libc.shmat.restype = ctypes.c_void_p
    number = libc.shmget(0, 4096, 0o600 | 0o1000)
    address = libc.shmat(number, None, 0)
    ctypes.memmove(address, CANARY.encode(), len(CANARY))
    libc.shmdt(ctypes.c_void_p(address))
    stack.callback(libc.shmctl, number, 0, None)
    return number


def _open_terminal(stack: contextlib.ExitStack) -> str:
    """Open a terminal; return its device."""
    ends = os.openpty()
    for end in ends:
        stack.callback(os.close, end)
    return os.ttyname(ends[1])


def _receive(server: socket.socket, received: list[bytes], ended: threading.Event) -> None:
    while not ended.is_set():
        with contextlib.suppress(TimeoutError):
            received.append(server.recv(100))
