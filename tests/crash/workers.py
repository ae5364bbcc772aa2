"""The crash suite over several machines: `python -m tests.crash.workers [--kills N] [--seconds N] [--seed S]`.

The job of the crash suite with its team in PostgreSQL and its members on workers. At random a lead, a worker, a machine
or a member alone is killed by SIGKILL, or the network of a machine is cut and healed later. A killed or cut lead is
resumed on another machine. What must be true is read from a copy of the database.
"""

import argparse
import asyncio
import json
import os
import random
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from teamwright.database.address import parse_address
from teamwright.database.administration import upgrade_schema
from teamwright.session.database_session import copy_teams
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from teamwright.views.audit.audit import audit
from tests.crash import players
from tests.crash.database import Copy, Machine, doubled_mail
from tests.crash.players import PROMPT, STAFF, TEAM, Plan, Talk
from tests.crash.processes import FREE, lead
from tests.crash.verdict import is_done, of_answers, of_audit, of_errors, of_roster, of_tasks, talks_of
from tests.support.cutting_proxy import CuttingProxy
from tests.support.postgres import PostgresServer
from tests.support.waits import WAIT_S, wait_until
from tests.teams.member_processes.started_members import Marked
from tests.ui.program import Program

WORKERS = ("gpu1", "gpu2", "gpu3")
LEADS = ("left", "right")

ACTS = ("lead killed", "worker killed", "machine killed", "member killed", "worker cut", "lead cut")
KILLS = ("lead killed", "worker killed", "machine killed", "member killed")

STILL_S = WAIT_S * 2
"""A lead that nothing happens to, and that does not come to an end within this time, is stuck."""

MOST_LIVES = 60

LONGEST_PAUSE_S = 5.0
"""Seconds between two acts, at most: a member starts within them."""


@dataclass
class Host:
    """A machine with a separate home and a network that can be cut. `process`: its worker or its lead."""

    name: str
    place: Path
    program: Program
    proxy: CuttingProxy
    marked: Marked
    process: subprocess.Popen[str] | None = None
    is_cut: bool = False

    def start(self, *words: str) -> None:
        """Start the program there."""
        with open(self.place / f"{self.name}.err", "ab") as log:
            self.process = self.program.start(*words, stdout=log, stderr=log, start_new_session=True)

    def heal(self) -> None:
        """Give it its network back."""
        if self.is_cut:
            self.is_cut = False
            self.proxy.heal()

    def cut(self) -> None:
        """Take its network away."""
        self.is_cut = True
        self.proxy.cut()

    def close(self) -> None:
        """End all its processes."""
        if self.is_running:
            self.process.kill()
        self.marked.end_all()
        self.proxy.close()

    @property
    def is_running(self) -> bool:
        """True while its worker or its lead runs."""
        return self.process is not None and self.process.poll() is None


def answer_of(plan: Plan, body: dict) -> Answer:
    """The answer of the model: everything follows from the conversation that it is sent."""
    items = [json.dumps(message).encode() for message in body["messages"]]
    answer = (lead if PROMPT.encode() in items[0] else players.member)(Talk(items), plan)
    return Answer(answer) if isinstance(answer, str) else Answer(tools=answer)


@dataclass
class WorkersRound:
    """One job. `wrong` is what must not be."""

    seed: str
    place: Path
    server: PostgresServer
    most: int
    acts: tuple[str, ...] = ACTS
    done: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    is_finished: bool = False

    def __post_init__(self) -> None:
        self.dice = random.Random(f"workers {self.seed}")
        self.plan = Plan(self.seed)
        self.plan.mannered, self.plan.stops, self.plan.deletes = True, False, False
        self.url = self.server.new_space()
        asyncio.run(upgrade_schema(parse_address(self.url), create=True))
        self.checkout = self.place / "checkout"
        self.checkout.mkdir(parents=True)
        self.hosts: dict[str, Host] = {}
        self.lead = LEADS[0]

    @property
    def kills(self) -> int:
        """The number of SIGKILLs of leads, workers, machines and members."""
        return sum(self.done[act] for act in KILLS)

    def play(self) -> "WorkersRound":
        """Until the job is done, or something is wrong."""
        with LoopbackModel.in_thread(lambda body: answer_of(self.plan, body)) as model, ExitStack() as stack:
            for name in (*WORKERS, *LEADS):
                host = self.hosts[name] = self._host(name, model.url)
                stack.callback(host.close)
            self._run_job()
        return self

    def _run_job(self) -> None:
        self._start_workers()
        lives = 0
        while not self.wrong and not self.is_finished:
            if (lives := lives + 1) > MOST_LIVES:
                self.wrong.append(f"the job was not done after {MOST_LIVES} lives of the lead")
            else:
                self._life()
        if not self.wrong:
            self._end()
            self.wrong += self._judge()

    def _host(self, name: str, url: str) -> Host:
        proxy, marked = CuttingProxy(self.server.port), Marked("CRASH_MARK")
        home = self.place / name / "home" / ".teamwright"
        through = self.url.replace(f":{self.server.port}/", f":{proxy.port}/")
        env = {**marked.env, "HOME": str(self.place / name / "home"), "TEAMWRIGHT_DATABASE": through}
        program = Program(self.checkout, home, url, env)
        members = {"backend": "remote"} if name in LEADS else {}
        program.settings(database_durable_mail=True, members=members)
        return Host(name, self.place, program, proxy, marked)

    # ── one life of the lead ─────────────────────────────────────────────────────────────────────────────────

    def _life(self) -> None:
        """Start or resume the lead, let things happen to it and to the workers, and wait until it has ended."""
        self._leave_cut_lead()
        host = self.hosts[self.lead]
        words = ["resume", TEAM, "-p"] if self._has_team() else ["-p", PROMPT]
        if not self._has_team():
            shutil.rmtree(host.program.home / "projects", ignore_errors=True)
        host.start(*words, *FREE)
        while host.is_running and self.kills < self.most:
            with suppress(subprocess.TimeoutExpired):
                host.process.wait(self.dice.uniform(0.2, LONGEST_PAUSE_S))
                break
            self._act(self.dice.choice(self.acts))
            if host.is_cut:
                self.lead = next(name for name in LEADS if name != self.lead)
                return  # the other machine takes the team over, and this process ends once its network is back
        if self.kills >= self.most:
            self._repair()
        try:
            code = host.process.wait(STILL_S)
        except subprocess.TimeoutExpired:
            self.wrong.append(f"the lead on {host.name} got stuck:\n{self._output(host)}")
            return
        has_nothing_to_do = code == 2 and "has answered every prompt" in self._output(host)
        self.is_finished = has_nothing_to_do or (code in {0, 5} and self._says_done(host))
        if code not in {0, 3, 5, -signal.SIGKILL} and not has_nothing_to_do:
            self.wrong.append(f"the lead on {host.name} ended with {code}:\n{self._output(host)}")
        if code == -signal.SIGKILL:
            self.lead = self.dice.choice(LEADS)
        self._repair()

    def _leave_cut_lead(self) -> None:
        """A machine whose former lead is still cut off cannot lead: its network comes back, and that lead must end."""
        host = self.hosts[self.lead]
        if not host.is_running:
            host.heal()
            return
        host.heal()
        try:
            host.process.wait(STILL_S)
        except subprocess.TimeoutExpired:
            self.wrong.append(f"the replaced lead on {host.name} did not end:\n{self._output(host)}")

    def _act(self, act: str) -> None:
        """Let one thing happen; a machine that was cut off before gets its network back at times."""
        for host in self.hosts.values():
            if host.is_cut and self.dice.random() < 0.4:
                host.heal()
        worker = self.hosts[self.dice.choice(WORKERS)]
        self.done[act] += 1
        match act:
            case "lead killed":
                self._kill([self.hosts[self.lead].process.pid])
            case "worker killed":
                self._kill([worker.process.pid])
            case "machine killed":
                self._kill([worker.process.pid, *worker.marked.pids()])
            case "member killed":
                members = worker.marked.members()
                self._kill(self.dice.sample(members, min(1, len(members))))
            case "worker cut":
                worker.cut()
            case _:
                self.hosts[self.lead].cut()
        self._start_workers()

    def _kill(self, pids: list[int]) -> None:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _start_workers(self) -> None:
        """Start each worker that does not run, once its machine has a network and the former lease is free."""
        for name in WORKERS:
            host = self.hosts[name]
            if not host.is_running and not host.is_cut:
                host.start("worker", "--name", name, "--slots", "3", "--directory", str(self.place / name / "work"))

    def _repair(self) -> None:
        """Heal every network but that of the replaced lead, and start the workers again."""
        for name in WORKERS:
            self.hosts[name].heal()
        self.hosts[self.lead].heal()
        self._start_workers()

    # ── the end ──────────────────────────────────────────────────────────────────────────────────────────────

    def _says_done(self, host: Host) -> bool:
        """Return True when the lead there has said that the job is done."""
        return is_done(Machine(self.place / host.name, self.plan, self.checkout))

    def _end(self) -> None:
        """Heal all, and end the workers: no member and no lead may be left after that."""
        for host in self.hosts.values():
            host.heal()
        for name in LEADS:
            host = self.hosts[name]
            if host.is_running:
                with suppress(subprocess.TimeoutExpired):
                    host.process.wait(STILL_S)
                if host.is_running:
                    self.wrong.append(f"the replaced lead on {name} did not end:\n{self._output(host)}")
        try:
            wait_until(lambda: not self._members(), "the end of the members")
        except AssertionError:
            self.wrong.append(f"members are left: {self._members()}")
        for name in WORKERS:
            if (host := self.hosts[name]).is_running:
                host.process.terminate()
                host.process.wait(WAIT_S)

    def _members(self) -> list[str]:
        """Return the processes of members that run, with their names."""
        pids = [pid for name in WORKERS for pid in self.hosts[name].marked.members()]
        return [f"{pid} {command_line(pid)}" for pid in pids]

    def _judge(self) -> list[str]:
        home = copy_teams(parse_address(self.url), TEAM)
        copy = Copy(self.place / self.lead, self.plan, home.own)
        found, talks = audit(home, TEAM), talks_of(copy)
        problems = [*of_audit(found, self.plan), *of_tasks(copy, found), *of_roster(copy, found)]
        problems += [*of_errors(talks), *of_answers(talks, self.plan), *doubled_mail(copy)]
        events = [json.loads(line) for log in home.own.glob("projects/*/*/events.jsonl") for line in log.open()]
        problems += [*of_task_events(events), *of_notices(events, talks)]
        inboxes = home.team(TEAM).glob("inboxes/*.json")
        entries = [entry for path in inboxes for entry in json.loads(path.read_bytes())]
        prompts = {entry["msg_id"] for entry in entries if re.match(r"You are [a-z]+\.[0-9]+\.", entry["text"])}
        return [one for one in problems if not is_excused(one, prompts)]

    def _has_team(self) -> bool:
        schema = parse_address(self.url).schema
        return self.server.sql(f"select count(*) from {schema}.documents where team = '{TEAM}'") == "2"

    def _output(self, host: Host) -> str:
        return (self.place / f"{host.name}.err").read_text(errors="replace")[-1500:]


def command_line(pid: int) -> str:
    """Return the command line of a process, or an empty text once it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    return ""


def of_task_events(events: list[dict]) -> Iterator[str]:
    """Each task is completed once, and given back at most once after each claim."""
    changes: dict[str, list[str]] = {}
    for event in events:
        if event.get("type") == "task_changed":
            changes.setdefault(event["task"]["id"], []).append(event["change"])
    for id, found in changes.items():
        if found.count("completed") != 1:
            yield f"#{id} was completed {found.count('completed')} times: {found}"
        if found.count("released") > found.count("claimed"):
            yield f"#{id} was given back more often than it was claimed: {found}"


def of_notices(events: list[dict], talks: dict[Path, Talk]) -> Iterator[str]:
    """The lead is notified of each crash once."""
    crashes = Counter(
        event["member"] for event in events if event.get("type") == "member_changed" and event["state"] == "crashed"
    )
    talk = max(talks.values(), key=lambda one: len(one.of("Agent")))
    for name in STAFF:
        causes = [one["cause"] for one in talk.protocol("teammate_terminated") if one["name"] == name]
        told = [cause for cause in causes if cause.startswith("crashed")]
        if len(told) > crashes[name]:
            yield f"the lead was notified {len(told)} times of {crashes[name]} crashes of {name}: {told}"


EXCUSES = (
    r"failed: another process has taken this session over",  # a cut lead wrote so into its file, and was resumed later
    r"lives were begun more than once",
    r"failed: (the process of \w+|\w+ was started, and|the worker could not start|no worker can start)",
    r"the lead was told .* times that",  # of_notices compares with the log
    r"/(ada|bob|cyd|dee)(-\d+)?\.jsonl still owes an answer",  # a member that is killed owes what it owes
    r"^(ada|bob|cyd|dee)(-\d+)?\.jsonl answered \S+ 0 times",  # it was killed between a question and its answer
    r"TaskUpdate .* failed: #\d+ (belongs to|was completed by) [\w@-]+; nothing",  # it was given back
    r"Agent .* failed: \w+ is already a live member of the team",  # a resumed lead asks for a member that lives
)
"""What the kill of a member explains."""


def is_excused(problem: str, prompts: set[str]) -> bool:
    """Return True for what kills of members explain. `prompts`: ids of first prompts, also of starts that failed."""
    if "lost: " in problem and {*re.findall(r"[0-9a-f-]{36}", problem)} <= prompts:
        return True
    return any(re.search(pattern, problem) for pattern in EXCUSES)


def main() -> int:
    """0 when everything held, 1 when something was wrong."""
    env = os.environ.get
    parser = argparse.ArgumentParser(prog="crash.workers")
    parser.add_argument("--kills", type=int, default=int(env("CRASH_WORKER_KILLS", "30")))
    parser.add_argument("--most", type=int, default=6, help="kills of one round")
    parser.add_argument("--seconds", type=float, default=900, help="no round starts later")
    parser.add_argument("--seed", default=env("CRASH_SEED") or secrets.token_hex(4))
    parser.add_argument("--round", type=int, default=int(env("CRASH_ROUND", "1")))
    parser.add_argument("--acts", nargs="*", choices=ACTS, default=ACTS)
    given = parser.parse_args()
    began, done, number = time.monotonic(), Counter[str](), given.round
    print(f"seed {given.seed}, members on {len(WORKERS)} workers", flush=True)
    top = Path(tempfile.mkdtemp(prefix="tw-crash-"))
    server = PostgresServer(Path(tempfile.mkdtemp(prefix="tw-pg-")))
    server.start()
    kills = 0
    try:
        while kills < given.kills and time.monotonic() - began < given.seconds:
            most = min(given.most, given.kills - kills)
            seed = f"{given.seed}/{number}"
            made = WorkersRound(seed, top / str(number), server, most, tuple(given.acts)).play()
            kills, done = kills + made.kills, done + made.done
            if made.wrong:
                print(f"round {number}: {len(made.wrong)} wrong after {kills} kills; kept: {made.place}")
                print(*(f"  - {one}" for one in made.wrong[:20]), sep="\n")
                print(f"again: CRASH_SEED={given.seed} CRASH_ROUND={number} {sys.executable} -m tests.crash.workers")
                return 1
            shutil.rmtree(made.place)
            print(f"round {number}: {described(made.done)}", flush=True)
            number += 1
    finally:
        server.stop()
        shutil.rmtree(server.directory, ignore_errors=True)
    shutil.rmtree(top)
    took = time.monotonic() - began
    print(f"{kills} kills: nothing lost, nothing doubled ({took:.0f} s)\n{described(done)}")
    return 0


def described(done: Counter[str]) -> str:
    """How often each act was done."""
    return ", ".join(f"{times} {act}" for act, times in sorted(done.items()) if times)


if __name__ == "__main__":
    sys.exit(main())
