"""The crash suite with members in processes of their own: the real program; lead and members are killed, also at once.

The job is that of `players`, played by a server on loopback; a member that died is started again by its lead, as a
model would do it. A round ends when the lead says that the job is done; the promises are then read from the files.
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
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.replies import Answer
from tests.crash import players
from tests.crash.lives import Ground
from tests.crash.players import DONE, PROMPT, STAFF, TEAM, Plan, Talk
from tests.crash.verdict import is_done, problems_of, talks_of
from tests.teams.places.rig import Rig, private_server
from tests.teams.processes.lodge import Marked
from tests.ui.program import Program

BYPASS = "--dangerously-skip-permissions"
BACKENDS = ("in-process", "detached", "tmux")
LIFE_S = 90.0
"""A life of the lead that nobody kills ends by itself within this."""


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
        return [players.start(name, lives(talk, name) + 1) for name in STAFF if not alive(talk, name)] or "I wait."
    return finish(talk, plan)


def lives(talk: Talk, name: str) -> int:
    """How often the member was started, also by a call that heard only of its end, or was cut off by a kill."""
    calls = talk.of("Agent", name=name)
    refused = any("in the team already and alive" in call.text for call in calls)
    return sum(not call.failed or "was started, and" in call.text for call in calls) + refused


def alive(talk: Talk, name: str) -> bool:
    """Whether it was started more often than the lead was told of its end."""
    return lives(talk, name) > players.ended(talk, name)


def finish(talk: Talk, plan: Plan) -> list | str:
    """Everybody is asked to stop, then it is said that all is done."""
    asked = {call.given["to"] for call in talk.of("SendMessage") if "the end" in str(call.given["message"])}
    left = [name for name in STAFF if alive(talk, name)]
    if calls := [players.ask_to_stop(name, "the end") for name in left if name not in asked]:
        return calls
    return "I wait." if left else f"{DONE} {plan.total}"


def part_of(plan: Plan):
    """What the server answers: everything follows from the conversation that it is sent."""

    def answer(body: dict) -> Answer:
        items = [json.dumps(message).encode() for message in body["messages"]]
        talk = Talk(items)
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
    kills: int = 0
    lives: int = 0
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dice = random.Random(f"round {self.seed}")
        self.ground = Ground(self.place, Plan(self.seed))
        self.ground.plan.mannered, self.ground.plan.stops, self.ground.plan.deletes = True, False, False
        self.ground.work.mkdir(parents=True)
        self.marked = Marked()
        self._pids: set[int] = set()

    def play(self) -> "Round":
        """Until the job is done, or something is wrong."""
        with LoopbackModel.in_thread(part_of(self.ground.plan)) as server, self._terminal() as rig:
            where = {key: rig.environ[key] for key in ("TMUX", "TMUX_PANE")} if rig is not None else {}
            env = {**self.marked.env, **where, "HOME": str(self.place / "home")}
            program = Program(self.ground.work, self.ground.root, server.url, env)
            program.settings(members={"backend": self.backend, "grace_s": 20})
            try:
                while not self.wrong and not is_done(self.ground):
                    self._life(program)
                self._judge(rig)
            finally:
                self.marked.end_all()
        return self

    @contextmanager
    def _terminal(self) -> Generator[Rig | None]:
        with private_server() if self.backend == "tmux" else nullcontext() as rig:
            yield rig

    def _life(self, program: Program) -> None:
        """One life of the lead: it is killed, alone or with members, or members die under it, or it ends by itself."""
        self.lives += 1
        session = self._session()
        words = ["-p", PROMPT] if session is None else ["resume", session, "-p"]
        said = self.place / f"life-{self.lives}.err"
        with said.open("wb") as file:
            running = program.start(*words, BYPASS, stdout=file, stderr=file, start_new_session=True)
        self._pids.add(running.pid)
        try:
            while self.kills < self.most and self._waits(running, self.dice.uniform(0.2, 2.5)):
                if self._strike(running):
                    break
            running.wait(LIFE_S)
        except subprocess.TimeoutExpired:
            self.wrong.append(f"life {self.lives} got stuck")
        finally:
            running.kill()
            running.wait()
        if running.returncode not in {0, -signal.SIGKILL}:
            last = said.read_text(errors="replace")[-1500:]
            self.wrong.append(f"life {self.lives} ended with {running.returncode}:\n{last}")

    def _waits(self, running: subprocess.Popen, seconds: float) -> bool:
        """Whether it still runs after so long."""
        try:
            running.wait(seconds)
        except subprocess.TimeoutExpired:
            return True
        return False

    def _strike(self, running: subprocess.Popen) -> bool:
        """Kill the lead, members, or both; whether the lead was among them."""
        members = self.marked.members() if self.backend != "in-process" else []
        whom = self.dice.choice(("lead", "member", "member", "both", "all"))
        victims = {"lead": [], "all": members}.get(whom, self.dice.sample(members, min(1, len(members))))
        struck = [running.pid] if whom != "member" else []
        for pid in self.dice.sample([*victims, *struck], len(victims) + len(struck)):
            try:
                os.kill(pid, signal.SIGKILL)
                self.kills += 1
            except ProcessLookupError:
                continue
        return bool(struck)

    def _session(self) -> str | None:
        found = [path for path in self.ground.root.glob("projects/*/*.jsonl") if path.read_bytes().count(b"\n") > 1]
        return found[0].stem if found else None

    # ── the verdict ──────────────────────────────────────────────────────────────────────────────────────────

    def _judge(self, rig: Rig | None) -> None:
        if self.wrong:
            return
        (self.place / "count").write_text("0")
        died = set() if self.backend == "in-process" else set(self._died())
        for one in problems_of(self.ground, pids=self._pids, kills=self.kills):
            if "lives were begun more than once" in one and died:
                continue  # a new life after a death
            if re.search(r"failed: (the process of \w+ ended|\w+ was started, and)", one):
                continue  # a spawn that was killed, or whose call was
            if "lost: " in one and {*re.findall(r"[0-9a-f-]{36}", one)} <= self._first_words():
                continue
            if "the lead was told" in one:
                continue  # its calls do not tell how many lives there were: the team's file does
            if "still owes an answer" in one and any(f"/{stem}.jsonl" in one for stem in died):
                continue  # who is killed owes what it owes
            if any(re.match(rf"{re.escape(stem)}\.jsonl answered \S+ 0 times", one) for stem in died):
                continue  # it was killed between being asked and its answer
            self.wrong.append(one)
        self.wrong += [f"a process is left: {pid}" for pid in self.marked.pids()]
        self.wrong += [f"a socket is left: {path}" for path in self.ground.root.rglob("*") if path.is_socket()]
        if rig is not None and set(rig.panes()) != {rig.lead}:
            self.wrong.append(f"panes are left: {rig.panes()}")
        self.wrong += [*self._booked(), *self._told()]

    def _died(self) -> Generator[str]:
        """Transcripts of lives that were ended by a kill."""
        for path in self.ground.root.glob("projects/*/*/agents/*.jsonl"):
            if b'"agreed' not in path.read_bytes() and b'"approve": true' not in path.read_bytes():
                yield path.stem

    def _told(self) -> Generator[str]:
        """The lead hears of the end of each life and of each crash, once; a life goes on after a crash."""
        lead = next(talk for talk in talks_of(self.ground).values() if talk.of("TeamCreate"))
        begun = json.loads(self.ground.home.team_file(TEAM).read_bytes())["incarnations"]
        for name in STAFF:
            causes = [body["cause"] for body in lead.protocol("teammate_terminated") if body["name"] == name]
            crashes = [cause for cause in causes if cause.startswith("crashed")]
            if len(crashes) != len(set(crashes)):
                yield f"the lead was told twice of a crash of {name}: {crashes}"
            if len(causes) - len(crashes) > begun.get(name, 0) or len(causes) < begun.get(name, 0) - self._unborn(name):
                yield f"the lead was told {causes} of the ends of {name}, who lived {begun.get(name, 0)} times"

    def _unborn(self, name: str) -> int:
        """Starts that failed before anybody lived: nobody has ended then, and a kill may keep it from the lead."""
        logs = self.ground.root.glob("projects/*/*/events.jsonl")
        events = [json.loads(line) for log in logs for line in log.read_bytes().splitlines()]
        return sum(one.get("member") == name and one.get("detail") == "it could not be started" for one in events)

    def _first_words(self) -> set[str]:
        """Ids of first prompts: those of a start that failed are flagged, and in no transcript."""
        inboxes = self.ground.home.team(TEAM).glob("inboxes/*.json")
        entries = [entry for path in inboxes for entry in json.loads(path.read_bytes())]
        return {entry["msg_id"] for entry in entries if re.match(r"You are [a-z]+\.[0-9]+\.", entry["text"])}

    def _booked(self) -> Generator[str]:
        """What a member's process told stands once in the session's log, and every answered round is booked."""
        for log in self.ground.root.glob("projects/*/*/events.jsonl"):
            events = [json.loads(line) for line in log.read_bytes().splitlines()]
            origins = [one["origin"] for one in events if one.get("origin")]
            all_told = "\n".join(origins)
            if len(origins) != len(set(origins)):
                yield f"told twice: {sorted({one for one in origins if origins.count(one) > 1})[:5]}"
            for room in log.parent.glob("members/*/events.jsonl"):
                own = [json.loads(line) for line in room.read_bytes().splitlines() if line.endswith(b"}")]
                lives = {(one["member"], one["life"]) for one in own if one["type"] == "member_changed"}
                rounds = {one["n"] for one in own if one["type"] == "round_ended"}
                told = {int(n) for name, life in lives for n in re.findall(rf"^{name}#{life}:(\d+)$", all_told, re.M)}
                if missing := rounds - told:
                    yield f"rounds of {room.parent.name} were never booked: {sorted(missing)}"


def main() -> int:
    """0 when everything held, 1 when something was wrong."""
    env = os.environ.get
    parser = argparse.ArgumentParser(prog="crash")
    parser.add_argument("--kills", type=int, default=int(env("CRASH_MEMBER_KILLS", "60")))
    parser.add_argument("--most", type=int, default=8, help="kills of one round")
    parser.add_argument("--seed", default=env("CRASH_SEED") or secrets.token_hex(4))
    parser.add_argument("--round", type=int, default=int(env("CRASH_ROUND", "1")))
    parser.add_argument("--place", help="where rounds take place; default: the system's temporary directory")
    parser.add_argument(
        "--backends", nargs="*", default=[one for one in BACKENDS if one != "tmux" or shutil.which(one)]
    )
    given = parser.parse_args()
    began, kills, number = time.monotonic(), 0, given.round
    print(f"seed {given.seed}, members in processes of their own", flush=True)
    top = Path(tempfile.mkdtemp(prefix="tw-crash-", dir=given.place))
    while True:
        backend = given.backends[number % len(given.backends)]
        made = Round(f"{given.seed}/{number}", top / str(number), backend, min(given.most, given.kills - kills)).play()
        kills += made.kills
        if made.wrong:
            print(f"round {number} ({backend}): {len(made.wrong)} wrong after {kills} kills; kept: {made.place}")
            print(*(f"  - {one}" for one in made.wrong[:20]), sep="\n")
            return 1
        shutil.rmtree(made.place)
        print(f"round {number} ({backend}): {made.kills} kills in {made.lives} lives", flush=True)
        number += 1
        if kills >= given.kills:
            break
    shutil.rmtree(top)
    print(f"{kills} kills: nothing lost, nothing doubled ({time.monotonic() - began:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
