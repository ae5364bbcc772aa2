"""A PostgreSQL server of the tests: a private cluster in a temporary directory, on a socket and a free port."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.programs import reason
from tests.support.waits import WAIT_S

BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
"""Debian keeps the server's programs outside the search path."""


def server_program(name: str) -> Path | None:
    """Return a program of the newest server that is installed; None without one."""
    there = BINARIES[-1].parent / name if BINARIES else Path(shutil.which(name) or "/nowhere")
    return there if there.exists() else None


def unprivileged() -> list[str]:
    """Return the words before a command that may not run as root."""
    if os.geteuid() != 0:
        return []
    return ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]


class PostgresServer:
    """A server whose data is lost with it. Each space is a schema with a random name."""

    def __init__(
        self, directory: Path, *, is_durable: bool = False, log: Path | None = None, connections: int = 300
    ) -> None:
        """Make the cluster. `log`: an empty directory for its write-ahead log, in place of one beside the tables."""
        self.is_durable, self.connections = is_durable, connections
        self.directory = directory
        self.data = directory / "data"
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        os.chmod(directory, 0o777)
        words = [] if log is None else [f"--waldir={log}", "--wal-segsize=1"]
        self._run("initdb", "-D", str(self.data), "-U", "postgres", "-A", "trust", "--no-sync", "-N", *words)

    @property
    def url(self) -> str:
        """The address of the server, without a schema."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    @property
    def pid(self) -> int:
        """The process number of the server."""
        assert self._process is not None
        return self._process.pid

    def new_space(self) -> str:
        """Return the address of a schema that no other test uses."""
        return f"{self.url}?schema=s{secrets.token_hex(6)}"

    @property
    def is_running(self) -> bool:
        """True until the server has ended."""
        return self._process is not None and self._process.poll() is None

    def start(self, before: Sequence[str] = (), listen: str = "127.0.0.1") -> None:
        """Start the server and wait until it answers. `before`: the words before its command and that of the test."""
        program = server_program("postgres")
        settings = {
            "listen_addresses": listen,
            "port": str(self.port),
            "unix_socket_directories": str(self.directory),
            "max_connections": str(self.connections),
            "fsync": "on" if self.is_durable else "off",
            "logging_collector": "off",
        }
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with open(self.directory / "log", "ab") as log:
            self._process = subprocess.Popen(
                [*before, *unprivileged(), str(program), "-D", str(self.data), *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd="/",
            )
        ready = server_program("pg_isready")
        for _ in range(int(WAIT_S * 20)):
            command = [*before, str(ready), "-q", "-h", "127.0.0.1", "-p", str(self.port), "-t", "1"]
            done = subprocess.run(command, check=False, timeout=WAIT_S)
            if done.returncode == 0:
                return
            if self._process.poll() is not None:
                break
            _pause()
        raise AssertionError(f"the server did not start: {(self.directory / 'log').read_text()}")

    def kill(self) -> None:
        """Kill the server and all its processes at once, as a crash of its machine."""
        assert self._process is not None
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(WAIT_S)
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def stop(self) -> None:
        """Stop the server without waiting for its clients."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(WAIT_S)
                return
            self.kill()

    def sql(self, statement: str) -> str:
        """Run a statement. Return its rows."""
        psql = server_program("psql")
        command = [str(psql), self.url, "-v", "ON_ERROR_STOP=1", "-q", "-A", "-t", "-c", statement]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=WAIT_S)
        return done.stdout.strip()

    def _run(self, name: str, *words: str) -> None:
        command = [*unprivileged(), str(server_program(name)), *words]
        subprocess.run(command, check=True, capture_output=True, timeout=WAIT_S, cwd="/")


def _pause() -> None:
    import time

    time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


def run_server(log: Path | None = None) -> Iterator[PostgresServer]:
    """Run a server; skip the test where PostgreSQL is not installed. `log` as for PostgresServer."""
    if server_program("postgres") is None:
        pytest.skip(reason("postgres"))
    directory = Path(tempfile.mkdtemp(prefix="tw-pg-"))
    server = PostgresServer(directory, log=log)
    server.start()
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(directory, ignore_errors=True)
