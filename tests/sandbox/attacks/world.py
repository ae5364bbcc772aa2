"""The world of the attacks: a project, a home with secrets, servers, and a process to attack."""

import contextlib
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

from teamwright.processes.confinement import ProcessStart
from teamwright.sandbox.bubblewrap import Bubblewrap, probe_bubblewrap
from teamwright.sandbox.command_policy import ConfinementRequest, SandboxPaths
from teamwright.sandbox.landlock import Landlock, probe_landlock
from teamwright.sandbox.policy import NetworkAccess, PolicyName, SandboxSettings
from teamwright.sandbox.sandbox import Sandbox
from tests.sandbox.attacks.attack_list import CANARY, Attack
from tests.support.waits import WAIT_S

IMPLEMENTATIONS = ("bubblewrap", "landlock")
SECRETS = (".ssh/id_ed25519", ".aws/credentials", ".npmrc", "notes.txt")


class AttackWorld:
    """One world; `succeeds` runs an attack in a policy of an implementation."""

    def __init__(self, directory: Path, env: dict[str, str]) -> None:
        self.home, self.work, self.state = directory / "home", directory / "work", directory / "state"
        self.outside, self.env = directory / "outside", env
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
        self.received: list[bytes] = []

    def succeeds(self, attack: Attack, policy: PolicyName, implementation: str) -> bool:
        """Return True when the attack reached what it must not."""
        place = SandboxPaths(
            str(self.home), (str(self.state),), (str(self.state / "output"),), str(self.state / "tmp"), self.env
        )
        request = ConfinementRequest(policy, (self.work,))
        made = Sandbox(SandboxSettings(network=NetworkAccess.DENY), place).policy(request)
        if implementation == "bubblewrap":
            abilities = probe_bubblewrap("bwrap")
            assert abilities is not None
            confinement = Bubblewrap(abilities, made)
        else:
            confinement = Landlock(probe_landlock(), made)
        guard = confinement.guard()
        reading, writing = os.pipe()
        argv = ("bash", "-c", attack.line)
        child = confinement.start(ProcessStart(argv, self.work, self.env, subprocess.DEVNULL, writing, writing))
        os.close(writing)
        with os.fdopen(reading, encoding="utf-8", errors="replace") as output:
            text = output.read()
        child.wait()
        guard.restore(self.state / "quarantine")
        return CANARY in text or bool(self.received) or self._is_changed()

    def _is_changed(self) -> bool:
        watched = [self.home / ".bashrc", self.outside / "new", self.work / ".git/config"]
        watched += [*(self.work / ".git/hooks").glob("*")]
        changed = [path for path in watched if path.exists() and CANARY in path.read_text()]
        return bool(changed) or (self.state / "inbox.json").read_text() != CANARY


@contextlib.contextmanager
def attack_world(directory: Path) -> Iterator[AttackWorld]:
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
        }
        world = AttackWorld(directory, env)
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


def _receive(server: socket.socket, received: list[bytes], ended: threading.Event) -> None:
    while not ended.is_set():
        with contextlib.suppress(TimeoutError):
            received.append(server.recv(100))
