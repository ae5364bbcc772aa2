"""The crash suite with members in processes of their own: the real program; lead and members are struck, also at once.

The job is that of `players` with `errands`, played by a server on loopback; a member that died is started again by its
lead, as a model would do it. How processes end, and what others do meanwhile, is in `strikes`. A round ends when the
lead says that the job is done; the promises are then read from the files.
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
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from tests.crash import mutations, players
from tests.crash.errands import Errands
from tests.crash.lives import RoundDirectory
from tests.crash.players import DONE, PROMPT, STAFF, TEAM, Plan, Talk
from tests.crash.strikes import ENDINGS, OFTEN, ROOT, Acts
from tests.crash.verdict import is_done, problems_of, talks_of
from tests.support.waits import WAIT_S
from tests.teams.backends.rig import Rig, private_server
from tests.teams.member_processes.started_members import Marked
from tests.ui.program import Program

FREE = ("--dangerously-skip-permissions", "--max-tokens", "1000000000", "--max-budget-usd", "10000")
"""Flags of each life of the lead: nothing is asked, and no default cap ends a job of large messages."""
BACKENDS = ("in-process", "detached", "tmux")
STILL_S = WAIT_S
"""A life of the lead in which nothing is written for so long is stuck."""

QUIET = 3
"""So many lives in a row that nothing happens to must be enough for the rest of the job."""


# ── the parts ────────────────────────────────────────────────────────────────────────────────────────────────────


def lead(talk: Talk, plan: Plan) -> list | str:
    """The answer of the lead: as in `players`, but whoever dies is started again, and nobody is changed on purpose."""
    for calls in (players.begin(talk, plan), players.answers(talk), players.look(talk, plan)):
        if calls:
            return calls
    done = players.done_in(talk)
    if len(done) >= plan.first // 3 and (more := players.create(talk, range(plan.first, plan.count))):
        return more
    if len(done) < plan.count:
        gone = [name for name in STAFF if not alive(talk, name)]
        return [
            players.start(name, talk.starts[name] + 1, len(talk.of("Agent", name=name))) for name in gone
        ] or "I wait."
    return finish(talk, plan)


def alive(talk: Talk, name: str) -> bool:
    """Whether it was started more often than the lead was told of its end."""
    return talk.starts[name] > players.ended(talk, name)


def crashed(talk: Talk) -> list[str]:
    """Who crashed and was not started again: it keeps its place until it is asked to stop."""
    last = {body["name"]: body["cause"] for body in talk.protocol("teammate_terminated")}
    return [name for name in STAFF if "conversation is kept" in last.get(name, "") and not alive(talk, name)]


def finish(talk: Talk, plan: Plan) -> list | str:
    """Everybody is asked to stop, then it is said that all is done."""
    left = [name for name in STAFF if alive(talk, name)]
    unasked = [name for name in [*left, *crashed(talk)] if name not in talk.asked_to_stop]
    if calls := [players.ask_to_stop(name, "the end") for name in unasked]:
        return calls
    return "I wait." if left else f"{DONE} {plan.total}"


def part_of(plan: Plan, errands: Errands):
    """What the server answers: everything follows from the conversation that it is sent."""

    def answer(body: dict) -> Answer:
        items = [json.dumps(message).encode() for message in body["messages"]]
        talk = Talk(items)
        if label := re.search(rb"SUB-AGENT (\S+)[.]", items[0]):
            said = errands.sub_agent(talk, label[1].decode())
        else:
            said = (lead if PROMPT.encode() in items[0] else players.member)(talk, plan)
        return Answer(said) if isinstance(said, str) else Answer(tools=said)

    return answer


# ── a round ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Round:
    """One job in a directory of its own, with its members in a place. `wrong` is what must not be."""

    seed: str
    place: Path
    backend: str
    most: int
    endings: tuple[str, ...] = OFTEN
    kills: int = 0
    lives: int = 0
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dice = random.Random(f"round {self.seed}")
        plan = Plan(self.seed)
        self.round_directory = RoundDirectory(self.place, plan)
        plan.mannered, plan.stops, plan.deletes = True, False, False
        plan.tasks = "shared" if self.dice.random() < 0.4 else ""
        self.round_directory.work.mkdir(parents=True)
        self.errands = Errands(self.seed, self.place, self.round_directory.work, plan.count)
        plan.errand = self.errands.next_step
        self.marked = Marked("CRASH_MARK")
        self._pids: set[int] = set()
        self._lead = self._quiet = 0

    def play(self) -> "Round":
        """Until the job is done, or something is wrong."""
        part = part_of(self.round_directory.plan, self.errands)
        with LoopbackModel.in_thread(part) as server, self._terminal() as rig:
            where = {key: rig.environ[key] for key in ("TMUX", "TMUX_PANE")} if rig is not None else {}
            env = {**self.marked.env, **where, "HOME": str(self.place / "home")}
            program = Program(self.round_directory.work, self.round_directory.root, server.url, env)
            if os.environ.get(mutations.VARIABLE):
                program.before = [sys.executable, "-m", "tests.crash.mutations"]
                program.env["PYTHONPATH"] = str(ROOT)
            program.settings(members={"backend": self.backend, "orphan_timeout_s": 20}, **self.errands.prepare())
            self.acts = Acts(self.seed, self.round_directory, program, self._running, self.endings)
            try:
                while not self.wrong and not is_done(self.round_directory):
                    self._life(program)
                self._rebuild_roster(program)
                self._judge(rig)
            finally:
                self.marked.end_all()
        return self

    @contextmanager
    def _terminal(self) -> Generator[Rig | None]:
        with private_server() if self.backend == "tmux" else nullcontext() as rig:
            yield rig

    def _life(self, program: Program) -> None:
        """One life of the lead: it is struck, alone or with members, or members are under it, or it ends by itself."""
        self.lives += 1
        session, before, files = self._session(), self.acts.done.copy(), self._of_lead()
        words = ["-p", PROMPT] if session is None else ["resume", session, "-p"]
        if (
            self.round_directory.plan.tasks and not self.round_directory.home.team_file(TEAM).exists()
        ):  # afterwards the team knows it
            words += ["--task-list", self.round_directory.plan.tasks]
        said = self.place / f"life-{self.lives}.err"
        with said.open("wb") as file:
            running = program.start(*words, *FREE, stdout=file, stderr=file, start_new_session=True)
        self._lead = running.pid
        self._pids.add(running.pid)
        try:
            while self.kills < self.most and self._waits(running, self.dice.uniform(0.2, 2.0)):
                if self._act(running):
                    break
            self.acts.repair()
            if not self._ends(running):
                self.wrong.append(f"life {self.lives} got stuck: nothing was written for {STILL_S:.0f} s")
        finally:
            running.kill()
            running.wait()
            self.acts.repair()
        last = said.read_text(errors="replace")[-1500:]
        acts = self.acts.done - before
        struck = running.returncode in {-signal.SIGTERM, -signal.SIGHUP} and (acts["term"] or acts["hup"])
        if struck and ((not last and self._of_lead() == files) or " · fullest context " in last):
            return  # the signal came before the program was loaded, or when its run was over
        self._quiet = 0 if acts else self._quiet + 1
        if not self._may_end_with(running.returncode, last, acts):
            self.wrong.append(f"life {self.lives} ended with {running.returncode}:\n{last}")
        elif self._quiet >= QUIET and not is_done(self.round_directory):
            self.wrong.append(f"{QUIET} lives ended that nothing happened to, and the job is not done:\n{last}")

    def _ends(self, running: subprocess.Popen) -> bool:
        """Wait for its end; whether it came before nothing was written for too long."""
        size = -1
        while self._waits(running, STILL_S if (grown := self._size()) != size else 0):
            if grown == size:
                return False
            size = grown
        return True

    def _size(self) -> int:
        """Bytes in all transcripts."""
        return sum(path.stat().st_size for path in self.round_directory.root.glob("projects/**/*.jsonl"))

    def _running(self) -> list[int]:
        """All processes of the round: the lead is forked, and the others have the mark."""
        return [self._lead, *self.marked.pids()]

    def _of_lead(self) -> int:
        """Bytes in the files that only the lead's process writes."""
        paths = (
            path
            for name in ("*.jsonl", "*/events.jsonl")
            for path in self.round_directory.root.glob(f"projects/*/{name}")
        )
        return sum(path.stat().st_size for path in paths)

    def _may_end_with(self, code: int, last: str, acts: Counter[str]) -> bool:
        """Whether a life may end so after these acts; see docs/reference/exit-codes.md and the table of ends."""
        if code == 1:
            return bool(acts["disk full"]) and "disk-full" in last
        if code == 143:
            return bool(acts["term"] or acts["hup"])
        return code in {0, -signal.SIGKILL} or (code == 5 and bool(acts))

    def _waits(self, running: subprocess.Popen, seconds: float) -> bool:
        """Whether it still runs after so long."""
        try:
            running.wait(seconds)
        except subprocess.TimeoutExpired:
            return True
        return False

    def _act(self, running: subprocess.Popen) -> bool:
        """Do the next act; whether the lead ends by it."""
        dice = self.acts.dice()
        self.acts.repair()
        choice = dice.random()
        if choice < 0.15:
            self.acts.write_to_somebody(dice)
        elif choice < 0.30:
            self.acts.damage_a_task(dice)
        elif choice < 0.35:
            self.acts.fill_the_disk(dice)
        elif choice < 0.42:
            self.acts.empty_the_roster()
        else:
            return self._strike(running, dice)
        return False

    def _strike(self, running: subprocess.Popen, dice: random.Random) -> bool:
        """Strike the lead, members, or both; whether the lead ends by it."""
        members = self.marked.members() if self.backend != "in-process" else []
        target = dice.choice(("lead", "member", "member", "both", "all"))
        victims = {"lead": [], "all": members}.get(target, dice.sample(members, min(1, len(members))))
        struck = [running.pid] if target != "member" else []
        ended = self.acts.strike(dice.sample([*victims, *struck], len(victims) + len(struck)), dice)
        self.kills += ended * len(victims + struck)
        return ended and bool(struck)

    def _session(self) -> str | None:
        found = [
            path for path in self.round_directory.root.glob("projects/*/*.jsonl") if path.read_bytes().count(b"\n") > 1
        ]
        return found[0].stem if found else None

    # ── the verdict ──────────────────────────────────────────────────────────────────────────────────────────

    def _rebuild_roster(self, program: Program) -> None:
        """Run a command about teams when the roster was emptied after the last lead: it rebuilds the file."""
        roster = self.round_directory.home.config(TEAM)
        if self.acts.done["roster emptied"] and roster.exists() and not roster.stat().st_size:
            ended = program.run("teams")
            if ended.returncode or not roster.stat().st_size:
                self.wrong.append(f"the roster stays empty after {ended.args}: {ended.stdout}{ended.stderr}")

    def _judge(self, rig: Rig | None) -> None:
        if self.wrong:
            return
        (self.place / "count").write_text("0")
        found = problems_of(self.round_directory, pids=self._pids, kills=self.kills)
        self.wrong += [one for one in found if not self._is_excused(one)]
        self.wrong += [f"a process is left: {pid}" for pid in self.marked.pids()]
        self.wrong += [f"a socket is left: {path}" for path in self.round_directory.root.rglob("*") if path.is_socket()]
        if rig is not None and set(rig.panes()) != {rig.lead}:
            self.wrong.append(f"panes are left: {rig.panes()}")
        self.wrong += [
            *self._booked(),
            *self._told(),
            *self.errands.problems(list(talks_of(self.round_directory).values())),
        ]
        self.wrong += [*self.errands.is_old_or_new(), *self.acts.undo_all(), *self.errands.left_edits()]

    def _is_excused(self, one: str) -> bool:
        """Whether a kill of a member, or a full disk, explains what would be wrong without it."""
        died = "|".join(map(re.escape, () if self.backend == "in-process" else self._died())) or "-"
        full, emptied = bool(self.acts.done["disk full"]), bool(self.acts.done["roster emptied"])
        excuses = (
            (died != "-" or self._failed_starts(), r"lives were begun more than once"),  # after a death
            (True, r"failed: (the process of \w+ (ended|was not ready)|\w+ was started, and)"),  # killed, or too slow
            (True, r"the lead was told .* times that"),  # its calls do not tell how many lives there were: a file does
            (True, rf"/({'|'.join(self._cut_off()) or '-'})\.jsonl still owes an answer"),  # it ended with its caller
            (True, rf"/({died})\.jsonl still owes an answer"),  # a member that is killed owes what it owes
            (True, rf"^({died})\.jsonl answered \S+ 0 times"),  # it was killed between a question and its answer
            (True, r"TaskUpdate .* failed: #\d+ (belongs to|was completed by) [\w@-]+; nothing"),  # it was handed back
            (True, r"^[\w-]+\.jsonl: Write .* failed: You have not read"),  # the process that read it was killed
            (True, r"Agent .* failed: \w+ is already a live member of the team"),  # a resumed lead asks for who lives
            (emptied, r" failed: config\.json is not a roster"),  # no lead wrote it again in the time that is waited
            (full, r" Agent .* failed: .* could not be written: "),  # no disk took its prefix
            (full, r"^rounds of \S+ were never booked"),  # no disk took the lead's events of them
            (
                full,
                r"^the event log \S+: (line \d+ has number \d+ behind \d+(; )?)+(, and \d+ more)?$",
            ),  # no disk took these events
        )
        if "lost: " in one and {*re.findall(r"[0-9a-f-]{36}", one)} <= self._first_words():
            return True
        return any(holds and re.search(pattern, one) for holds, pattern in excuses)

    def _cut_off(self) -> Generator[str]:
        """Sub-agents whose last run did not complete, as the journals of their sessions say."""
        for journal in self.round_directory.root.glob("projects/**/agents.jsonl"):
            last = {one["id"]: one for one in map(json.loads, journal.read_bytes().splitlines())}
            yield from (id for id, one in last.items() if one["type"] == "ended" and one["state"] != "completed")

    def _died(self) -> Generator[str]:
        """Transcripts of members' lives that were ended by a kill."""
        for path in self.round_directory.root.glob("projects/*/*/agents/*.jsonl"):
            if (
                path.stem.split("-")[0] in STAFF
                and b'"agreed' not in path.read_bytes()
                and b'"approve": true' not in path.read_bytes()
            ):
                yield path.stem

    def _told(self) -> Generator[str]:
        """The lead hears of the end of each life and of each crash, once; a life goes on after a crash."""
        lead = next(talk for talk in talks_of(self.round_directory).values() if talk.of("TeamCreate"))
        begun = json.loads(self.round_directory.home.team_file(TEAM).read_bytes())["incarnations"]
        for name in STAFF:
            causes = [body["cause"] for body in lead.protocol("teammate_terminated") if body["name"] == name]
            crashes = [cause for cause in causes if cause.startswith("crashed")]
            if len(crashes) != len(set(crashes)) and len(crashes) > self._crashed(name):
                yield f"the lead was told twice of a crash of {name}: {crashes}"
            crashes += [cause for cause in causes if cause.startswith("could not be resumed: the process")]
            if self.acts.done["disk full"]:
                crashes += [
                    cause for cause in causes if cause.startswith("failed: ") and "could not be written" in cause
                ]
            if len(causes) - len(crashes) > begun.get(name, 0) or len(causes) < self._lived(name):
                lived = f"who began {begun.get(name, 0)} lives and lived {self._lived(name)}"
                yield f"the lead was told {causes} of the ends of {name}, {lived}"

    def _crashed(self, name: str) -> int:
        """How often the session's log says that this member crashed: several crashes can have the same cause."""
        return sum(
            (event.get("type"), event.get("state"), event.get("member")) == ("member_changed", "crashed", name)
            for log in self.round_directory.root.glob("projects/*/*/events.jsonl")
            for event in map(json.loads, log.read_bytes().splitlines())
        )

    def _taken_back(self) -> set[tuple[str, int]]:
        """Starts that failed, as the session's log has them: their member has no end to hear of."""
        logs = self.round_directory.root.glob("projects/*/*/events.jsonl")
        events = [json.loads(line) for log in logs for line in log.read_bytes().splitlines()]
        return {(one["member"], one["incarnation"]) for one in events if one.get("detail") == "it could not be started"}

    def _lived(self, name: str) -> int:
        """Lives of the name that read their first prompt and were not taken back. Of each the lead hears an end."""
        back, found = self._taken_back(), 0
        for path in self.round_directory.root.glob("projects/*/*/agents/*.jsonl"):
            member, _, number = path.stem.partition("-")
            found += member == name and (name, int(number or 1)) not in back and b'"type":"user"' in path.read_bytes()
        return found

    def _failed_starts(self) -> bool:
        """Whether a name began more lives than lived."""
        begun = json.loads(self.round_directory.home.team_file(TEAM).read_bytes())["incarnations"]
        return any(times > self._lived(name) for name, times in begun.items())

    def _first_words(self) -> set[str]:
        """Ids of first prompts: those of a start that failed are flagged, and in no transcript."""
        inboxes = self.round_directory.home.team(TEAM).glob("inboxes/*.json")
        entries = [entry for path in inboxes for entry in json.loads(path.read_bytes())]
        return {entry["msg_id"] for entry in entries if re.match(r"You are [a-z]+\.[0-9]+\.", entry["text"])}

    def _booked(self) -> Generator[str]:
        """What a member's process told stands once in the session's log, and every answered round is booked."""
        for log in self.round_directory.root.glob("projects/*/*/events.jsonl"):
            events = [json.loads(line) for line in log.read_bytes().splitlines()]
            origins = [one["origin"] for one in events if one.get("origin")]
            all_told = "\n".join(origins)
            if len(origins) != len(set(origins)):
                yield f"told twice: {sorted({one for one in origins if origins.count(one) > 1})[:5]}"
            for room in log.parent.glob("members/*/events.jsonl"):
                own = [json.loads(line) for line in room.read_bytes().splitlines() if line.endswith(b"}")]
                lives = {(one["member"], one["incarnation"]) for one in own if one["type"] == "member_changed"}
                rounds = {one["n"] for one in own if one["type"] == "model_call_ended"}
                told = {int(n) for name, life in lives for n in re.findall(rf"^{name}#{life}:(\d+)$", all_told, re.M)}
                missing = rounds - told
                if missing and not self.acts.done["disk full"]:  # the log of the session may have gaps then
                    yield f"rounds of {room.parent.name} were never booked: {sorted(missing)}"


def main() -> int:
    """0 when everything held, 1 when something was wrong."""
    env = os.environ.get
    parser = argparse.ArgumentParser(prog="crash")
    parser.add_argument("--kills", type=int, default=int(env("CRASH_MEMBER_KILLS", "60")))
    parser.add_argument("--most", type=int, default=8, help="kills of one round")
    parser.add_argument(
        "--seconds", type=float, default=float(env("CRASH_SECONDS", "900")), help="no round starts later"
    )
    parser.add_argument("--seed", default=env("CRASH_SEED") or secrets.token_hex(4))
    parser.add_argument("--round", type=int, default=int(env("CRASH_ROUND", "1")))
    parser.add_argument("--endings", nargs="*", choices=ENDINGS, default=OFTEN, help="how processes are struck")
    parser.add_argument("--place", help="where rounds take place; default: the system's temporary directory")
    parser.add_argument(
        "--backends", nargs="*", default=[one for one in BACKENDS if one != "tmux" or shutil.which(one)]
    )
    given = parser.parse_args()
    began, kills, number, done = time.monotonic(), 0, given.round, Counter[str]()
    print(f"seed {given.seed}, members in processes of their own", flush=True)
    top = Path(tempfile.mkdtemp(prefix="tw-crash-", dir=given.place))
    while kills < given.kills and time.monotonic() - began < given.seconds:
        backend = given.backends[number % len(given.backends)]
        most = min(given.most, given.kills - kills)
        made = Round(f"{given.seed}/{number}", top / str(number), backend, most, tuple(given.endings)).play()
        kills, done = kills + made.kills, done + made.acts.done
        if made.wrong:
            print(f"round {number} ({backend}): {len(made.wrong)} wrong after {kills} kills; kept: {made.place}")
            print(*(f"  - {one}" for one in made.wrong[:20]), sep="\n")
            print(f"again: CRASH_SEED={given.seed} CRASH_ROUND={number} {sys.executable} -m tests.crash.processes")
            return 1
        shutil.rmtree(made.place)
        print(
            f"round {number} ({backend}): {made.kills} kills in {made.lives} lives: {said(made.acts.done)}", flush=True
        )
        number += 1
    shutil.rmtree(top)
    print(f"{kills} kills: nothing lost, nothing doubled ({time.monotonic() - began:.0f} s)\n{said(done)}")
    return 0


def said(done: Counter[str]) -> str:
    """How often each act was done."""
    return ", ".join(f"{times} {name}" for name, times in sorted(done.items()) if times)


if __name__ == "__main__":
    sys.exit(main())
