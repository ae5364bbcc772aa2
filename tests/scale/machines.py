"""A team over many machines: `python -m tests.scale.machines [--workers 8 --members 100 --tasks 10000 --messages 10]`.

Starts a private PostgreSQL, workers with separate homes (in network namespaces where the system allows it) and a lead.
Each member takes tasks from the list and sends that many messages a task to other members. At the end every task was
completed once and every message recorded once. Prints the cost of a member, a message and a task, by tenths of the job.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from teamwright.database.address import parse_address
from teamwright.protocol.ids import LEAD
from tests.crash.machines import NAMESPACES, can_unshare
from tests.scale.crew import LIMITS, ROOT
from tests.scale.machines_job import lead, script
from tests.support.postgres import PostgresServer, server_program
from tests.support.waits import WAIT_S, wait_until

TICKS = os.sysconf("SC_CLK_TCK")
LOOK_S = 0.5

CONNECTIONS = 3
"""Connections of a process to the database, at most."""


# ── what processes need ──────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class ProcessTree:
    """The processes below one, with their CPU seconds and their private memory in MB."""

    root: int

    def pids(self) -> list[int]:
        """Return the processes that exist now."""
        found, left = list[int](), [self.root]
        while left:
            found.append(pid := left.pop())
            for path in Path(f"/proc/{pid}/task").glob("*/children"):
                with suppress(OSError):
                    left += map(int, path.read_text().split())
        return found

    def cpu_s(self) -> float:
        """Return the CPU seconds of the processes, and of children that have ended."""
        total = 0
        for pid in self.pids():
            with suppress(OSError):
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                total += sum(map(int, fields[11:15]))
        return total / TICKS

    def member_mb(self) -> list[float]:
        """Return the private memory of each member process."""
        found: list[float] = []
        for pid in self.pids():
            with suppress(OSError):
                if b"--agent-name" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    status = Path(f"/proc/{pid}/status").read_text()
                    found.append(int(status.partition("RssAnon:")[2].split()[0]) / 1024)
        return found


@dataclass
class Tenth:
    """The state of the job when one more tenth of the tasks was completed."""

    tasks: int
    messages: int
    seconds: float
    cpu: dict[str, float]


class MachinesRun:
    """The processes of one run, and what the database says of them."""

    def __init__(self, directory: Path, server: PostgresServer, given: argparse.Namespace) -> None:
        self.directory, self.server, self.given = directory, server, given
        self.schema = parse_address(server.new_space()).schema
        socket = f"host={directory / 'server'}&port={server.port}"
        self.url = f"postgresql://postgres@/postgres?{socket}&schema={self.schema}"
        self.has_namespaces = can_unshare()
        self.workers: list[subprocess.Popen[bytes]] = []
        self.lead: subprocess.Popen[bytes] | None = None
        self.tenths: list[Tenth] = []
        self.connections = 0
        self.member_mb: list[float] = []
        self.began = time.monotonic()

    def query(self, statement: str) -> str:
        """Return the rows of a query in the team space."""
        return self.server.sql(f"set search_path to {self.schema}; {statement}")

    def count(self, statement: str) -> int:
        """Return the number that a query names."""
        return int(self.query(statement) or 0)

    def prepare(self) -> None:
        """Create the schema, a checkout, the script, and the settings of every machine."""
        command = [sys.executable, "-m", "teamwright", "--database", self.url, "database", "init"]
        subprocess.run(command, check=True, capture_output=True, timeout=WAIT_S)
        (self.directory / "work").mkdir()
        (self.directory / "script.toml").write_text(script(self.given.members, self.given.messages))
        for home in ("lead", *self._worker_names()):
            (self.directory / home).mkdir()
            (self.directory / home / "settings.json").write_text(json.dumps(LIMITS))

    def _worker_names(self) -> list[str]:
        return [f"w{number}" for number in range(self.given.workers)]

    def start_workers(self) -> None:
        """Start the workers, and wait until all offer their slots."""
        slots = str(-(-self.given.members // self.given.workers))
        prefix = list(NAMESPACES) if self.has_namespaces else []
        for name in self._worker_names():
            home = self.directory / name
            where = ["--home", str(home), "--database", self.url]
            flags = ["--name", name, "--slots", slots, "--directory", f"{home}-work"]
            command = [*prefix, sys.executable, "-P", "-m", "teamwright", *where, "worker", *flags]
            with open(self.directory / f"{name}.log", "wb") as log:
                self.workers.append(subprocess.Popen(command, stdout=log, stderr=log, cwd="/", start_new_session=True))
        wait_until(lambda: self.count("select count(*) from workers") == self.given.workers, "the workers")

    def run_lead(self) -> list[dict[str, Any]]:
        """Run the lead to its end, and look at the job from time to time. Return what it reported."""
        home = self.directory / "lead"
        spec = {
            "cwd": str(self.directory / "work"),
            "home": str(home),
            "script": str(self.directory / "script.toml"),
            "settings": str(home / "settings.json"),
            "database": self.url,
            "members": self.given.members,
            "tasks": self.given.tasks,
        }
        with open(self.directory / "lead.out", "wb") as out, open(self.directory / "lead.err", "wb") as err:
            command = [sys.executable, "-m", "tests.scale.machines", "--lead", json.dumps(spec)]
            self.lead = subprocess.Popen(command, stdout=out, stderr=err, cwd=ROOT, start_new_session=True)
        while self.lead.poll() is None:
            self._look()
            time.sleep(LOOK_S)
        if self.lead.returncode:
            raise AssertionError((self.directory / "lead.err").read_text()[-4000:])
        return [json.loads(line) for line in (self.directory / "lead.out").read_text().splitlines()]

    def _look(self) -> None:
        """Note the state of the job once a tenth of the tasks was completed since the last note."""
        assert self.lead is not None
        row = self.query(
            "select count(*) filter (where status = 'completed'), (select count(*) from mail where is_read), "
            "(select count(*) from pg_stat_activity where application_name = 'teamwright') from tasks"
        ).split("|")
        tasks, messages, connections = map(int, row)
        self.connections = max(self.connections, connections)
        has_begun = bool((self.directory / "lead.out").read_bytes())
        last = self.tenths[-1].tasks if self.tenths else -1
        if has_begun and tasks > last and tasks >= len(self.tenths) * self.given.tasks / 10:
            self.tenths.append(Tenth(tasks, messages, time.monotonic() - self.began, self._cpu()))
            memory = [mb for worker in self.workers for mb in ProcessTree(worker.pid).member_mb()]
            self.member_mb.append(max(memory, default=0.0))

    def _cpu(self) -> dict[str, float]:
        assert self.lead is not None
        return {
            "server": ProcessTree(self.server.pid).cpu_s(),
            "lead": ProcessTree(self.lead.pid).cpu_s(),
            "members": sum(ProcessTree(worker.pid).cpu_s() for worker in self.workers),
        }

    # ── what must be true ────────────────────────────────────────────────────────────────────────────────────

    def problems(self) -> list[str]:
        """Return what was lost or done twice, a sentence each."""
        found: list[str] = []
        if (done := self.count("select count(*) from tasks where status = 'completed'")) != self.given.tasks:
            found.append(f"{done} of {self.given.tasks} tasks are completed")
        log = next((self.directory / "lead").glob("projects/*/*/events.jsonl"))
        changes = Counter[tuple[str, str]]()
        for event in map(json.loads, log.open()):
            if event.get("type") == "task_changed":
                changes[event["change"], event["task"]["id"]] += 1
        for change in ("claimed", "completed"):
            times = [changes[change, str(id)] for id in range(1, self.given.tasks + 1)]
            if wrong := [(id, count) for id, count in enumerate(times, 1) if count != 1]:
                found.append(f"{len(wrong)} tasks were not {change} once: {wrong[:5]}")
        return [*found, *self._mail_problems()]

    def _mail_problems(self) -> list[str]:
        found: list[str] = []
        if unread := self.count("select count(*) from mail where not is_read"):
            found.append(f"{unread} messages are unread")
        wanted = self.given.tasks * self.given.messages
        if (sent := self.count(f"select count(*) from mail where sender <> '{LEAD}' and reader <> '{LEAD}'")) != wanted:
            found.append(f"{sent} of {wanted} messages between members are stored")
        recorded = Counter(id for path in self._transcripts() for id in delivered_ids(path))
        stored = self.query("select msg_id from mail").split()
        if lost := [id for id in stored if not recorded[id]]:
            found.append(f"{len(lost)} messages are in no transcript")
        if doubled := [id for id, count in recorded.items() if count > 1]:
            found.append(f"{len(doubled)} messages are in a transcript twice")
        return found

    def _transcripts(self) -> list[Path]:
        lead = list((self.directory / "lead").glob("projects/*/*.jsonl"))
        return lead + [
            path
            for name in self._worker_names()
            for path in (self.directory / name).glob("projects/*/*/agents/*.jsonl")
        ]

    def close(self) -> None:
        """End the lead and the workers with their members."""
        for process in [self.lead, *self.workers]:
            if process is not None and process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        for process in [self.lead, *self.workers]:
            if process is not None:
                try:
                    process.wait(WAIT_S)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)


def delivered_ids(transcript: Path) -> list[str]:
    """Return the ids of the messages that a transcript has, once for each time."""
    ids = [id for line in transcript.open() for id in json.loads(line).get("injected", ())]
    return [id.removeprefix("mail:") for id in ids if id.startswith("mail:")]


# ── the report ───────────────────────────────────────────────────────────────────────────────────────────────────


def tenths_table(tenths: Sequence[Tenth]) -> list[str]:
    """Return a line for each tenth of the job: what one task of it cost."""
    lines = ["tasks done   tasks/s   messages/s   CPU ms a task: server   lead   members"]
    for before, after in pairwise(tenths):
        tasks, seconds = after.tasks - before.tasks, after.seconds - before.seconds
        cpu = {name: (after.cpu[name] - before.cpu[name]) / tasks * 1000 for name in after.cpu}
        lines.append(
            f"{after.tasks:10} {tasks / seconds:9.1f} {(after.messages - before.messages) / seconds:12.1f} "
            f"{cpu['server']:22.1f} {cpu['lead']:6.1f} {cpu['members']:9.1f}"
        )
    return lines


def edges(seconds: Sequence[float]) -> str:
    """Return the mean of the first and of the last tenth."""
    size = max(1, len(seconds) // 10)
    first, last = sum(seconds[:size]) / size, sum(seconds[-size:]) / size
    return f"{first * 1000:.0f} ms in the first tenth, {last * 1000:.0f} ms in the last one"


def describe(run: MachinesRun, told: Mapping[str, Any]) -> list[str]:
    """Return the figures of a run."""
    given, whole = run.given, run.tenths[-1].seconds - run.tenths[0].seconds
    size = f"{given.workers} workers, {given.members} members, {given.tasks} tasks"
    cpu = {name: run.tenths[-1].cpu[name] - run.tenths[0].cpu[name] for name in run.tenths[0].cpu}
    messages, total = run.count("select count(*) from mail"), sum(cpu.values())
    where = "network and process namespaces" if run.has_namespaces else "process groups"
    return [
        f"{size}, {messages} messages recorded ({where})",
        f"a member: starts in {edges(told['start'])}; {run.member_mb[0]:.0f} MB at its start, "
        f"{run.member_mb[-1]:.0f} MB at the end (the largest); "
        f"{run.connections / (given.members + given.workers + 1):.1f} connections a process, {run.connections} in all",
        f"a new task: {edges(told['create'])}",
        f"the job: {whole:.0f} s, {given.tasks / whole:.1f} tasks/s, {messages / whole:.0f} messages/s",
        f"CPU: server {cpu['server']:.0f} s, lead {cpu['lead']:.0f} s, members {cpu['members']:.0f} s; "
        f"{total / given.tasks * 1000:.1f} ms a task, {total / messages * 1000:.1f} ms a message",
        *tenths_table(run.tenths),
    ]


def play(directory: Path, server: PostgresServer, given: argparse.Namespace) -> int:
    """Run the job. Return 0 when nothing was lost or done twice."""
    run = MachinesRun(directory, server, given)
    run.prepare()
    try:
        run.start_workers()
        told = {line["what"]: line["value"] for line in run.run_lead()}
    finally:
        run.close()
    print(*describe(run, told), sep="\n", flush=True)
    if problems := run.problems():
        print(*(f"wrong: {problem}" for problem in problems), sep="\n", flush=True)
        return 1
    print("every task was completed once, every message was recorded once", flush=True)
    return 0


def main() -> int:
    """Run with a private server in a temporary directory, which is kept after a fault."""
    parser = argparse.ArgumentParser(prog="scale.machines", description="a team over many machines")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--members", type=int, default=100)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--messages", type=int, default=10, help="messages that a member sends for each task")
    parser.add_argument("--lead", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.lead:
        asyncio.run(lead(json.loads(given.lead)))
        return 0
    if server_program("postgres") is None:
        sys.stderr.write("PostgreSQL 15 or newer is not installed: apt install postgresql\n")
        return 3
    directory = Path(tempfile.mkdtemp(prefix="teamwright-machines-"))
    os.chmod(directory, 0o755)
    (directory / "server").mkdir()
    processes = given.members + given.workers + 1
    server = PostgresServer(directory / "server", connections=processes * CONNECTIONS + 20)
    try:
        server.start()
        code = play(directory, server, given)
    finally:
        server.stop()
    if code:
        print(f"kept: {directory}")
    else:
        shutil.rmtree(directory, ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
