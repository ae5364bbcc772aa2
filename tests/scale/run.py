"""A long run as a program: `python -m tests.scale.run [--minutes 15] [--kill-every 40] [--seed S]`.

Three leads with eight members (in process, detached, in tmux) work through tasks that a scripted server on loopback
gives them, and are killed during the run. At the end each team is audited, every task must have been reported, and
memory and CPU of each process, sampled by the minute, must be flat. The directory is kept after a fault.
"""

import argparse
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
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from teamwright.agent.conversation import INTERRUPTED_RESULT, NEVER_RAN_RESULT
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from tests.support.notices import notices
from tests.support.waits import WAIT_S
from tests.teams.backends.rig import private_server
from tests.teams.member_processes.started_members import Marked
from tests.ui.program import Program

TEAMS = {"in-process": ("ada", "bob"), "detached": ("cyd", "dee", "eve"), "tmux": ("fay", "gus", "hal")}
SPARED = {"cyd", "fay"}
"""Members that are not killed: their processes are sampled from the beginning to the end."""

OPEN = 2
"""Tasks a member at the beginning; each report of one brings a new one."""

TICKS = os.sysconf("SC_CLK_TCK")
KB_A_MINUTE = 250
"""How much a process may grow in a minute after its first third: what is known of some sixty new tasks, and caches."""
KB_NOISE = 512
"""How much two samples of the same process differ without a cause."""


# ── the parts ────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Parts:
    """The answers of lead and members. They depend on the request, and on the time that is left."""

    until: float
    calls: int = 0
    compacted: int = 0

    def __call__(self, body: dict) -> Answer:
        """The answer to a request."""
        self.calls += 1
        talk = Talk(body)
        if "Call no tool; answer with the summary alone" in talk.new:
            self.compacted += 1
            return Answer(f"What is known: {talk.marker}")
        leads = any(tool["name"] == "TeamCreate" for tool in body["tools"])
        said = self.lead(talk) if leads else member(talk)
        return Answer(said) if isinstance(said, str) else Answer("Next.", tools=said)

    def lead(self, talk: "Talk") -> list | str:
        """Form the team, replace who ended, give a task for each that was reported; at the end stop everybody."""
        backend = talk.marker.partition(" ")[2]
        names = TEAMS[backend]
        if not talk.last and "SOAK" in talk.new:
            return [("TeamCreate", {"team_name": backend})]
        if "TeamCreate" in talk.last:
            return [start(name) for name in names] + [task() for _ in range(OPEN * len(names))]
        ended = [one for one in notices("teammate_terminated", talk.new) if not one["cause"].startswith("shut down")]
        made = [start(name) for name in names if name in {one["name"] for one in ended}]
        if made or time.monotonic() < self.until:
            made += [task() for _ in set(re.findall(r"report of #\d+", talk.fresh_words))]
            return made or "I wait."
        if "TaskList" not in talk.last:
            return [("TaskList", {})] if talk.fresh_words else "I wait."
        if "[pending]" in talk.new or "[in_progress]" in talk.new:
            return "I wait."
        words = {"type": "shutdown_request", "reason": "all is done"}
        return [("SendMessage", {"to": name, "message": words}) for name in names]


class Talk:
    """The part of a request that is new: `new` is all text since the last answer, `fresh_words` without results."""

    def __init__(self, body: dict) -> None:
        messages = body["messages"]
        at = max((n for n, one in enumerate(messages) if one["role"] == "assistant"), default=-1)
        blocks = [block for one in messages[at + 1 :] for block in blocks_of(one)]
        self.last = [b["name"] for b in blocks_of(messages[at]) if b["type"] == "tool_use"] if at >= 0 else []
        self.inputs = [b["input"] for b in blocks_of(messages[at]) if b["type"] == "tool_use"] if at >= 0 else []
        self.fresh_words = "\n".join(b["text"] for b in blocks if b["type"] == "text")
        self.new = "\n".join([self.fresh_words, *(json.dumps(b["content"]) for b in blocks if "content" in b)])
        found = re.search(r"SOAK ([a-z-]+)", json.dumps(messages[0]))
        self.marker = found[0] if found else ""


def blocks_of(message: dict) -> list[dict]:
    """The content of a message as blocks."""
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def start(name: str):
    return ("Agent", {"description": "works", "name": name, "prompt": f"You are {name}. Take tasks."})


def task():
    return ("TaskCreate", {"subject": f"job {secrets.token_hex(4)}", "description": "Run a command. " + "word " * 100})


def member(talk: Talk) -> list | str:
    """The answer of a member: the next step of its task, or its agreement to stop."""
    if asked := notices("shutdown_request", talk.new):
        words = {"type": "shutdown_response", "request_id": asked[-1]["request_id"], "approve": True}
        return [("SendMessage", {"to": "lead", "message": words})]
    if INTERRUPTED_RESULT in talk.new or NEVER_RAN_RESULT in talk.new:
        # its process was ended while the calls waited for a lead that was killed
        return list(zip(talk.last, talk.inputs, strict=True))
    if talk.last[:1] == ["Bash"]:
        id = talk.inputs[0]["command"].split()[-1]
        report = ("SendMessage", {"to": "lead", "message": f"report of #{id}"})
        return [("TaskUpdate", {"taskId": id, "status": "completed"}), report]
    if found := re.findall(r"#(\d+) job [0-9a-f]{8}", talk.fresh_words):
        return [("Bash", {"command": f"echo task {found[-1]}"})]
    return "Noted."


# ── what processes need ──────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Curve:
    """Samples of one process: memory of its own in kB and CPU in seconds so far, by the time of the sample.

    Pages of files are left out: how many count depends on which other processes use them, on those of others too.
    """

    name: str
    at: list[float] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def shares(self) -> list[float]:
        """CPU between two samples, in percent of a core."""
        moments, used = zip(self.at, self.at[1:], strict=False), zip(self.cpu, self.cpu[1:], strict=False)
        return [100 * (b - a) / (late - early) for (early, late), (a, b) in zip(moments, used, strict=True)]

    def problem(self) -> str:
        """Why this is not flat; empty for a flat one, and for one too short to say."""
        third = len(self.memory) // 3
        if third < 2:
            return ""
        shares = self.shares()
        early, late = (sum(one) / len(one) for one in (shares[third : 2 * third], shares[-third:]))
        minutes = (self.at[-1] - self.at[-1 - third]) / 60
        grown = min(self.memory[-third:]) - min(self.memory[-2 * third : -third])
        if grown > KB_NOISE + KB_A_MINUTE * minutes:
            return f"{self.name} grew by {grown} kB in {minutes:.1f} minutes after its first third"
        return f"{self.name} needs {late:.1f} % of a core, at first {early:.1f} %" if late > 1.3 * early + 0.3 else ""

    def __str__(self) -> str:
        shares = " ".join(f"{one:4.1f}" for one in self.shares())
        memory = " ".join(f"{one / 1024:5.1f}" for one in self.memory)
        return f"{self.name:<22} MB     {memory}\n{'':<22} CPU %  {shares}"


def sample(curves: dict[int, Curve], names: dict[int, str]) -> None:
    """One more sample of each process."""
    for pid, name in names.items():
        with suppress(OSError, StopIteration, ValueError):
            status = Path(f"/proc/{pid}/status").read_text().splitlines()
            memory = next(int(line.split()[1]) for line in status if line.startswith("RssAnon:"))
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            curve = curves[pid] if pid in curves else curves.setdefault(pid, Curve(f"{name} ({pid})"))
            curve.at.append(time.monotonic())
            curve.memory.append(memory)
            curve.cpu.append((int(fields[11]) + int(fields[12])) / TICKS)


# ── the run ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Lead:
    """The lead of one team, and its session once it has one. `over` when its run ended normally."""

    backend: str
    program: Program
    process: subprocess.Popen | None = None
    over: bool = False
    lives: int = 0

    def start(self) -> None:
        """The first life, or the next one of its session."""
        self.lives += 1
        session = self._session()
        words = ["-p", f"SOAK {self.backend}"] if session is None else ["resume", session, "-p", "Continue."]
        flags = ["--dangerously-skip-permissions", "--backend", self.backend, "--max-turns", "1000000"]
        flags += ["--max-tokens", "100000000000", "--max-budget-usd", "1000000", "--timeout", "10h"]
        with (self.program.cwd / f"life-{self.lives}.err").open("wb") as said:
            self.process = self.program.start(*words, *flags, stdout=said, stderr=said, start_new_session=True)

    def look(self, wrong: list[str]) -> None:
        """Start the next life of a lead that was killed; one that ended normally is not started."""
        code = self.process.poll() if self.process is not None else 0
        if self.over or code is None:
            return
        if code == -signal.SIGKILL:
            self.start()
            return
        self.over = True
        if code != 0:
            said = (self.program.cwd / f"life-{self.lives}.err").read_text(errors="replace")
            wrong.append(f"the lead of {self.backend} ended with {code}: {said[-600:]}")

    def _session(self) -> str | None:
        place = "-" + re.sub(r"[^A-Za-z0-9]", "-", str(self.program.cwd.resolve())).strip("-")
        found = [path for path in self.program.home.glob(f"projects/{place}/*.jsonl") if path.stat().st_size > 2_000]
        return found[0].stem if found else None


@dataclass
class Run:
    """The whole. `wrong` is what must not be."""

    options: argparse.Namespace
    top: Path
    kills: int = 0
    wrong: list[str] = field(default_factory=list)
    curves: dict[int, Curve] = field(default_factory=dict)

    def play(self) -> None:
        """Until the time has passed and each lead has ended its team; then the verdict."""
        self.dice = random.Random(self.options.seed)
        self.marked = Marked()
        began = time.monotonic()
        self.parts = Parts(began + 60 * self.options.minutes)
        with LoopbackModel.in_thread(self.parts, delay_s=(0.2, 1.2), keep=1) as server, ExitStack() as stack:
            backends = [one for one in TEAMS if one != "tmux" or shutil.which("tmux")]
            self.leads = [self._lead(one, server.url, stack) for one in backends]
            try:
                for lead in self.leads:
                    lead.start()
                self._watch(self.parts.until + 300)
                self._judge()
            finally:
                self.marked.end_all()

    def _lead(self, backend: str, url: str, stack: ExitStack) -> Lead:
        work = self.top / backend
        work.mkdir()
        env = {**self.marked.env, "HOME": str(self.top / "home")}
        if backend == "tmux":
            rig = stack.enter_context(private_server())
            env |= {key: rig.environ[key] for key in ("TMUX", "TMUX_PANE")}
        program = Program(work, self.top / "home" / ".teamwright", url, env)
        limits = {"spawns": 10_000, "spawns_per_minute": 10_000}
        small = {"anthropic/claude-sonnet-5-5": {"context_tokens": 20_000}}
        program.settings(models=small, limits=limits, members={"orphan_timeout_s": 30}, cache_warmup_s=None)
        return Lead(backend, program)

    def _watch(self, most: float) -> None:
        next_kill = time.monotonic() + self.options.kill_every
        next_sample = time.monotonic() + 20
        while not all(lead.over for lead in self.leads):
            now = time.monotonic()
            if now > most:
                self.wrong.append(f"stuck: {[lead.backend for lead in self.leads if not lead.over]}")
                return
            for lead in self.leads:
                lead.look(self.wrong)
            if now > next_sample:
                next_sample = now + self.options.sample_every
                sample(self.curves, self._processes())
            if now > next_kill and now < self.parts.until - 20:
                next_kill = now + self.options.kill_every
                self._kill()
            time.sleep(0.5)

    def _processes(self) -> dict[int, str]:
        found = {lead.process.pid: f"lead {lead.backend}" for lead in self.leads if lead.process and not lead.over}
        for names in TEAMS.values():
            for name in names:
                found |= dict.fromkeys(self.marked.members(f"{name}@"), f"member {name}")
        return found

    def _kill(self) -> None:
        """A member, or a lead; of those that may be killed."""
        who = self._processes()
        victims = [pid for pid, name in who.items() if name.split()[-1] not in {*SPARED, "detached"}]
        with suppress(ProcessLookupError, IndexError):
            os.kill(self.dice.choice(victims), signal.SIGKILL)
            self.kills += 1

    # ── the verdict ──────────────────────────────────────────────────────────────────────────────────────────

    def _judge(self) -> None:
        self.wrong += [problem for curve in self.curves.values() if (problem := curve.problem())]
        self.wrong += [f"a process is left: {pid}" for pid in self.marked.pids() if pid != os.getpid()]
        for lead in self.leads:
            done = lead.program.run("audit", lead.backend, timeout=3 * WAIT_S)
            print(done.stdout.strip(), flush=True)
            if done.returncode:
                self.wrong.append(f"the audit of {lead.backend} ended with {done.returncode}: {done.stderr[-600:]}")
            self.wrong += self._reported(lead)

    def _reported(self, lead: Lead) -> list[str]:
        """Every task is completed, and the lead received the report of each: its next task came of that."""
        tasks = lead.program.run("tasks", lead.backend, "--json", timeout=3 * WAIT_S)
        rows = json.loads(tasks.stdout) if tasks.returncode == 0 else []
        if not rows:
            return [f"no tasks of {lead.backend}: {tasks.stderr[-300:]}"]
        transcripts = [path.read_bytes() for path in lead.program.home.glob("projects/*/*.jsonl")]
        lines = [one for text in transcripts if f"SOAK {lead.backend}".encode() in text for one in text.splitlines()]
        heard = b"\n".join(line for line in lines if line.startswith(b'{"type":"user"'))
        told = {id.decode() for id in re.findall(rb"report of #(\d+)", heard)}
        wrong = [f"{lead.backend} #{row['id']} is {row['status']}" for row in rows if row["status"] != "completed"]
        print(f"{lead.backend}: {len(rows)} tasks, {len(told)} reported, {lead.lives} lives of the lead", flush=True)
        return wrong + [f"{lead.backend} #{row['id']} was never reported" for row in rows if row["id"] not in told]


def main() -> int:
    """0 when everything held, 1 when something was wrong."""
    parser = argparse.ArgumentParser(prog="scale")
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--kill-every", type=float, default=40, metavar="SECONDS")
    parser.add_argument("--sample-every", type=float, default=60, metavar="SECONDS")
    parser.add_argument("--seed", default=secrets.token_hex(4))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    run = Run(options, Path(tempfile.mkdtemp(prefix="tw-scale-")))
    run.play()
    print(*(curve for curve in run.curves.values() if len(curve.memory) > 2), sep="\n")
    print(f"{run.parts.calls} model calls, {run.parts.compacted} compactions, {run.kills} kills")
    if run.wrong:
        print(f"{len(run.wrong)} wrong; kept: {run.top}", *(f"  - {one}" for one in run.wrong[:30]), sep="\n")
        return 1
    shutil.rmtree(run.top)
    print("nothing lost, memory and CPU flat")
    return 0


if __name__ == "__main__":
    sys.exit(main())
