"""A team over two machines, one of which is killed in the middle: `make demo MACHINES=1`.

Starts a private PostgreSQL, two workers with separate homes and a lead with a scripted job. The workers run in
network and process namespaces where the system allows it. Says what happened, and what the database has at the end.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.postgres import PostgresServer, server_program
from tests.support.repositories import make_repository
from tests.support.waits import WAIT_S, wait_until

TASKS = 8
MEMBERS = ("ada", "ben")

NAMESPACES = ("unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
"""A machine has no network: its processes reach the database by a socket in the file system, and die together."""

_LEAD = """
[script]
name = "machines"

[[agent.lead.turn]]
say = "Two machines share this job."
{tasks}{starts}
[[agent.lead.turn]]
when.text = '(ada|ben).*crashed'
capture_text = ['(?P<lost>ada|ben).*crashed']
say = "The machine of {{{{lost}}}} is gone: it continues on the other one."
[[agent.lead.turn.call]]
tool = "Agent"
input = {{ name = "{{{{lost}}}}", description = "continue", prompt = "Continue with the list.", isolation = "remote" }}

[[agent."*".otherwise]]
say = "I have nothing to add."
"""

_TASK = """[[agent.lead.turn.call]]
tool = "TaskCreate"
input = {{ subject = "part {n}", description = "Write file {n}.", ready = true }}
"""

_START = """[[agent.lead.turn.call]]
tool = "Agent"
input = {{ name = "{name}", description = "work", prompt = "Work through the list.", isolation = "remote" }}
"""

_WORK = """
[[agent.{name}.turn]]
when.task = "part {n}"
[[agent.{name}.turn.call]]
tool = "Bash"
input = {{ command = "sleep {pause}; echo {name} > part-{n}.txt", description = "write the file" }}
[[agent.{name}.turn.call]]
tool = "TaskUpdate"
input = {{ taskId = "{n}", status = "completed" }}
"""


def script(pause: float) -> str:
    """Return the script of the lead and of both members."""
    numbers = range(1, TASKS + 1)
    tasks = "".join(_TASK.format(n=n) for n in numbers)
    starts = "".join(_START.format(name=name) for name in MEMBERS)
    work = "".join(_WORK.format(name=name, n=n, pause=pause) for name in MEMBERS for n in numbers)
    head, tail = _LEAD.format(tasks=tasks, starts=starts).split('[[agent."*"')
    return f'{head}{work}\n[[agent."*"{tail}'


class MachinesDemo:
    """The processes of the demo, and what the database says of them."""

    def __init__(self, directory: Path, server: PostgresServer) -> None:
        self.directory = directory
        self.server = server
        url = server.new_space()
        self.schema = url.rpartition("=")[2]
        self.url = (
            f"postgresql://postgres@/postgres?host={directory / 'server'}&port={server.port}&schema={self.schema}"
        )
        self.machines: dict[str, subprocess.Popen[bytes]] = {}
        self.has_namespaces = can_unshare()

    def program(self, home: str, *words: str) -> list[str]:
        """Return a command of the program with a home and the database."""
        where = ["--home", str(self.directory / home), "--database", self.url]
        return [sys.executable, "-P", "-m", "teamwright", *where, *words]

    def start_worker(self, name: str) -> None:
        """Start a machine with a worker, and wait until it offers its slots."""
        prefix = list(NAMESPACES) if self.has_namespaces else []
        command = self.program(
            name, "worker", "--name", name, "--slots", "2", "--directory", f"{self.directory}/{name}-work"
        )
        with open(self.directory / f"{name}.log", "wb") as log:
            self.machines[name] = subprocess.Popen(
                [*prefix, *command], stdout=log, stderr=log, cwd="/", start_new_session=True
            )
        wait_until(lambda: self.count(f"select count(*) from workers where name = '{name}'") == 1, f"worker {name}")

    def kill_machine(self, name: str) -> None:
        """Kill a machine: its worker and the members there."""
        process = self.machines[name]
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        for pid in (process.pid, *map(int, children)):
            os.kill(pid, signal.SIGKILL)
        process.wait(WAIT_S)

    def query(self, statement: str) -> str:
        """Return the rows of a query in the team space."""
        return self.server.sql(f"set search_path to {self.schema}; {statement}")

    def count(self, statement: str) -> int:
        """Return the number that a query names."""
        return int(self.query(statement) or 0)

    def close(self) -> None:
        """End all machines."""
        for process in self.machines.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                try:
                    process.wait(WAIT_S)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)


def can_unshare() -> bool:
    if shutil.which("unshare") is None:
        return False
    done = subprocess.run([*NAMESPACES, "true"], check=False, capture_output=True, timeout=WAIT_S)
    return done.returncode == 0


def run(directory: Path, server: PostgresServer, say: Callable[[str], None], pause: float) -> int:
    """Run the demo. Return 0 when nothing was lost or done twice."""
    demo = MachinesDemo(directory, server)
    repository = make_repository(directory / "repository", {"README.md": "a repository\n"})
    (directory / "machines.toml").write_text(script(pause))
    subprocess.run(demo.program("lead", "database", "init"), check=True, capture_output=True, timeout=WAIT_S)
    try:
        for name in ("left", "right"):
            demo.start_worker(name)
        where = "network and process namespaces" if demo.has_namespaces else "process groups with separate homes"
        say(f"PostgreSQL, the lead and the machines left and right run ({where})")
        return _run_job(demo, repository, say)
    finally:
        demo.close()


def _run_job(demo: MachinesDemo, repository: Path, say: Callable[[str], None]) -> int:
    model = f"scripted:{demo.directory / 'machines.toml'}"
    flags = ("--model", model, "--permission-mode", "bypassPermissions", "--timeout", "5m")
    command = demo.program("lead", *flags, "-p", "Have the parts written.")
    with open(demo.directory / "lead.log", "wb") as log:
        lead = subprocess.Popen(command, stdout=log, stderr=log, cwd=repository, start_new_session=True)
    try:
        done = "select count(*) from tasks where status = 'completed' and not is_internal"
        running = "select count(distinct member) from start_orders where state = 'running'"
        wait_until(lambda: demo.count(running) == len(MEMBERS) or lead.poll() is not None, "both members")
        wait_until(lambda: demo.count(done) >= 2 or lead.poll() is not None, "two completed parts")
        lost = demo.query("select worker from start_orders where state = 'running' order by id limit 1")
        members = demo.query(f"select string_agg(member, ', ') from start_orders where worker = '{lost}'")
        say(f"{demo.count(done)} of {TASKS} parts are done; SIGKILL of the machine {lost} with {members}")
        demo.kill_machine(lost)
        killed = time.monotonic()
        again = f"select count(*) from start_orders where state = 'running' and worker <> '{lost}'"
        wait_until(lambda: demo.count(again) == len(MEMBERS) or lead.poll() is not None, "the members elsewhere")
        say(f"{members} continues on the other machine {time.monotonic() - killed:.1f} s later")
        lead.wait(WAIT_S * 4)
    finally:
        if lead.poll() is None:
            os.killpg(lead.pid, signal.SIGKILL)
    return _report(demo, lead.returncode, say)


def _report(demo: MachinesDemo, code: int, say: Callable[[str], None]) -> int:
    completed = demo.count("select count(*) from tasks where status = 'completed' and not is_internal")
    unread = demo.count("select count(*) from mail where not is_read")
    messages = demo.count("select count(*) from mail")
    starts = demo.query("select string_agg(member || ' on ' || worker, ', ' order by id) from start_orders")
    say(f"{completed} of {TASKS} parts are completed; {messages} messages, {unread} of them unread; exit code {code}")
    say(f"starts that are still in the table: {starts or 'none'}")
    return 0 if completed == TASKS and code == 0 else 1


def main() -> int:
    """Run the demo in a temporary directory."""
    parser = argparse.ArgumentParser(description="a team over two machines, one of which is killed")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds that each part takes")
    given = parser.parse_args()
    if server_program("postgres") is None:
        sys.stderr.write("PostgreSQL 15 or newer is not installed: apt install postgresql\n")
        return 3
    directory = Path(tempfile.mkdtemp(prefix="teamwright-machines-"))
    os.chmod(directory, 0o755)
    (directory / "server").mkdir()
    server = PostgresServer(directory / "server")
    try:
        server.start()
        return run(directory, server, lambda line: print(line, flush=True), given.pause)
    finally:
        server.stop()
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
