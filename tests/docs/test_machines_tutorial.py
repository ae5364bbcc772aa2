"""The tutorial about three machines is followed literally, with a network namespace, a shell and a home for each.

`<!-- step MACHINE … -->` stands above commands, with `until PATTERN` where they are repeated until they print it.
Without the right to make namespaces, the machines are separate homes.
"""

import os
import re
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, Block, blocks
from tests.support.postgres import PostgresServer, server_program
from tests.support.programs import require
from tests.support.waits import WAIT_S

PAGE = ROOT / "docs/tutorials/team-on-three-machines.md"
MACHINES = ("laptop", "left", "right")


class Network:
    """Namespaces that a bridge connects, as three machines at one switch; without the right to make them, nothing."""

    def __init__(self, stack: ExitStack) -> None:
        self.name = f"tw{secrets.token_hex(2)}"
        self.addresses = dict.fromkeys(MACHINES, "127.0.0.1")
        self.is_real = shutil.which("ip") is not None and _ip("link", "add", self.name, "type", "bridge")
        if not self.is_real:
            return
        stack.callback(_ip, "link", "del", self.name)
        _ip("link", "set", self.name, "up")
        for number, machine in enumerate(MACHINES, 1):
            space, outer, self.addresses[machine] = self.space(machine), f"{self.name}{number}", f"10.203.7.{number}"
            assert _ip("netns", "add", space)
            stack.callback(_ip, "netns", "del", space)
            assert _ip("link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", space)
            assert _ip("link", "set", outer, "master", self.name, "up")
            assert _ip("-n", space, "addr", "add", f"{self.addresses[machine]}/24", "dev", "eth0")
            assert _ip("-n", space, "link", "set", "eth0", "up") and _ip("-n", space, "link", "set", "lo", "up")

    def space(self, machine: str) -> str:
        """Return the name of the namespace of a machine."""
        return f"{self.name}-{machine}"

    def enter(self, machine: str) -> list[str]:
        """Return the words before a command on a machine."""
        return ["ip", "netns", "exec", self.space(machine)] if self.is_real else []


def _ip(*words: str) -> bool:
    return subprocess.run(["ip", *words], capture_output=True, check=False, timeout=WAIT_S).returncode == 0


class Shell:
    """A shell of a person on one machine. Exports and background commands stay between steps."""

    def __init__(self, before: list[str], directory: Path, env: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [*before, "bash", "--norc"],
            cwd=directory,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.type("set -m")

    def type(self, text: str) -> tuple[int, str]:
        """Type commands. Return the exit code of the last one, and all that they printed."""
        assert self.process.stdin is not None and self.process.stdout is not None
        # Without this redirection a command would read the next commands as its input.
        end = f"end-{secrets.token_hex(6)}"
        self.process.stdin.write(f"{{ {text}\n}} < /dev/null\nprintf '\\n{end} %s\\n' $?\n")
        self.process.stdin.flush()
        output = ""
        while (found := re.search(rf"\n{end} (\d+)\n", output)) is None:
            ready = select.select([self.process.stdout], [], [], WAIT_S)[0]
            chunk = os.read(self.process.stdout.fileno(), 65536).decode() if ready else ""
            assert chunk, f"{text}\n{'ended' if ready else 'waits'} after:\n{output}"
            output += chunk
        return int(found[1]), output[: found.start()]

    def close(self) -> None:
        """End the shell and what it left running."""
        self.type("kill $(jobs -p) 2>/dev/null; wait")
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(WAIT_S)


class MachineServer(PostgresServer):
    """A server on the laptop that asks others for the password of a user."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        rules = [
            "local all postgres trust",
            "host all postgres 127.0.0.1/32 trust",
            "host all all 0.0.0.0/0 scram-sha-256",
        ]
        (self.data / "pg_hba.conf").write_text("\n".join(rules) + "\n")
        with (self.data / "postgresql.conf").open("a") as settings:
            settings.write("password_encryption = scram-sha-256\n")


@pytest.fixture
def shells(tmp_path: Path) -> Iterator[dict[str, Shell]]:
    """A shell on each machine. The laptop has the server."""
    require("postgres")
    with ExitStack() as stack:
        network = Network(stack)
        top = Path(tempfile.mkdtemp(prefix="tw-pg-"))
        stack.callback(shutil.rmtree, top, ignore_errors=True)
        server = MachineServer(top)
        server.start(before=network.enter("laptop"), listen="*")
        stack.callback(server.stop)
        psql = server_program("psql")
        assert psql is not None
        tools = tmp_path / "tools"
        tools.mkdir()
        (tools / "teamwright").write_text(f'#!/bin/sh\nexec {sys.executable} -m teamwright "$@"\n')
        (tools / "teamwright").chmod(0o755)
        kept = {name: os.environ[name] for name in ("LANG", "TERM", "PYTHONPATH") if name in os.environ}
        made: dict[str, Shell] = {}
        for machine in MACHINES:
            home = tmp_path / machine
            home.mkdir()
            env = kept | {
                "PATH": f"{tools}:{psql.parent}:{os.environ['PATH']}",
                "HOME": str(home),
                "LAPTOP": f"{network.addresses['laptop']}:{server.port}",
            }
            if machine == "laptop":
                env |= {"PGHOST": str(top), "PGPORT": str(server.port)}
            made[machine] = Shell(network.enter(machine), home, env)
            stack.callback(made[machine].close)
        yield made


def run_step(shells: dict[str, Shell], block: Block, words: str) -> str:
    """Type a block on the machines that its remark names. Return what it printed."""
    machines, _, pattern = words.partition(" until ")
    output = ""
    deadline = time.monotonic() + WAIT_S
    for machine in machines.split():
        while True:
            code, output = shells[machine].type(block.text)
            if code == block.exit_code and re.search(pattern, output):
                break
            assert pattern and time.monotonic() < deadline, f"{block.id}: exit code {code}\n{output}"
    return output


@pytest.mark.slow
@pytest.mark.promise("J6")
def test_the_tutorial_about_three_machines_works_as_it_is_written(shells: dict[str, Shell]):
    output = ""
    for block in (block for block in blocks() if block.page == PAGE):
        if saved := block.remark("save"):
            name, machine = saved.split()
            end = secrets.token_hex(6)
            shells[machine].type(f"cat > {name} <<'{end}'\n{block.text}{end}")
        elif (words := block.remark("step")) is not None:
            output = run_step(shells, block, words)
        elif block.remark("prints") is not None:
            for line in block.text.splitlines():
                assert line in output, f"{block.id}: {line!r} was not printed:\n{output}"
