"""The crash suite on a database: `python -m tests.crash.database [--kills N] [--seconds N] [--seed S]`.

The job of the crash suite with its team in PostgreSQL. Every life runs on one of two machines, which share nothing but
the database and the checkout, and is killed by SIGKILL at a random moment; sometimes the server is killed too. What
must be true is read from a copy of the database.
"""

import argparse
import asyncio
import json
import os
import random
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from teamwright.database.address import parse_address
from teamwright.database.administration import upgrade_schema
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.messages import text_block
from teamwright.saved.sessions import session_views
from teamwright.session.database_session import copy_teams, fetch_session
from teamwright.session.open_session import open_session
from teamwright.session.options import Options
from teamwright.storage.paths import Home
from teamwright.views.audit.audit import audit
from tests.crash.lives import REFUSED, RoundDirectory, fork
from tests.crash.players import PROMPT, TEAM, Plan, Player
from tests.crash.verdict import is_done, of_answers, of_audit, of_errors, of_roster, of_tasks, talks_of
from tests.support.postgres import PostgresServer

LIFE_S = 90.0
"""Seconds within which a run that is not killed ends."""

MOST_LIVES = 60


@dataclass(frozen=True)
class Machine(RoundDirectory):
    """A machine with a separate home; the checkout is at the same path on all of them."""

    checkout: Path = Path()

    @property
    def work(self) -> Path:
        return self.checkout


@dataclass(frozen=True)
class Copy(RoundDirectory):
    """The teams of the database as files."""

    copied: Path = Path()

    @property
    def root(self) -> Path:
        return self.copied

    @property
    def home(self) -> Home:
        return Home.at(self.copied)


def life(machine: Machine, url: str) -> int:
    """One life of the lead on a machine: begin the job, or continue it. REFUSED while another one holds the lease."""
    os.environ["TEAMWRIGHT_DATABASE"] = url
    os.environ["HOME"] = str(machine.place / "home")
    try:
        asyncio.run(_lead(machine, url))
    except TeamwrightError as problem:
        print(f"refused: {problem.slug}: {problem.what}", *problem.looked_at, sep="\n", file=sys.stderr)
        return REFUSED if problem.slug in {"session-busy", "database"} else 1
    return 0


async def _lead(machine: Machine, url: str) -> None:
    session = await fetch_session(parse_address(url), machine.home, TEAM) or local_session(machine)
    options = Options(
        cwd=machine.work,
        home=str(machine.root),
        model=Player(machine.plan),
        permission_mode="bypassPermissions",
        resume=session,
    )
    async with open_session(options) as opened:
        began = PROMPT.encode() in opened.lead.agent.conversation.path.read_bytes()
        result = await opened.run([] if began else [text_block(PROMPT)])
        result = await opened.end_members(result)
        print(result.stop, result.text, result.error)


def local_session(machine: Machine) -> str | None:
    """The session of this machine that was killed before it had a team."""
    return next((view.id for view in session_views(machine.home) if not view.damaged), None)


@dataclass
class DatabaseRound:
    """One job. `kills` counts SIGKILLs of leads, `crashes` those of the server, `moves` lives on the other machine."""

    seed: str
    place: Path
    server: PostgresServer
    most: int
    kills: int = 0
    crashes: int = 0
    moves: int = 0
    refused: int = 0
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dice = random.Random(f"database {self.seed}")
        plan = Plan(self.seed)
        plan.mannered, plan.stops = True, False
        self.url = self.server.new_space()
        asyncio.run(upgrade_schema(parse_address(self.url), create=True))
        checkout = self.place / "checkout"
        checkout.mkdir(parents=True)
        self.machines = [Machine(self.place / name, plan, checkout) for name in ("one", "two")]
        for machine in self.machines:
            machine.root.mkdir(parents=True)
            # The server is killed too, and mail that it only has in memory may be lost with it.
            (machine.root / "settings.json").write_text(json.dumps({"database_durable_mail": True}))

    def play(self) -> "DatabaseRound":
        """Until the job is done, or something is wrong."""
        here = self.machines[0]
        for number in range(MOST_LIVES):
            there = self.dice.choice(self.machines) if self._has_team() else here
            self.moves += there is not here
            here = there
            status = self._live(here, number, kill=self.kills < self.most)
            if status not in {0, REFUSED, None}:
                self.wrong.append((here.place / f"life-{number}.err").read_text(errors="replace")[-2500:])
            if self.wrong or (status == 0 and is_done(here)):
                break
        else:
            self.wrong.append(f"the job was not done after {MOST_LIVES} lives")
        if not self.wrong:
            self.wrong += self._judge(here)
        return self

    def _has_team(self) -> bool:
        schema = parse_address(self.url).schema
        return self.server.sql(f"select count(*) from {schema}.documents where team = '{TEAM}'") == "2"

    def _live(self, machine: Machine, number: int, *, kill: bool) -> int | None:
        """Run one life. Return its exit code; None when it was killed."""
        pid = fork(machine, f"life-{number}", lambda: life(machine, self.url))
        until = time.monotonic() + (self.dice.uniform(0.1, 1.4) if kill else LIFE_S)
        crash_at = time.monotonic() + self.dice.random() if kill and self.dice.random() < 0.1 else 0.0
        while True:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                self.refused += os.waitstatus_to_exitcode(status) == REFUSED
                return os.waitstatus_to_exitcode(status)
            if crash_at and time.monotonic() > crash_at:
                self.server.kill()
                self.server.start()
                self.crashes, crash_at = self.crashes + 1, 0.0
            if time.monotonic() > until:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                if not kill:
                    self.wrong.append(f"life {number} got stuck")
                self.kills += 1
                return None
            time.sleep(0.005)

    def _judge(self, last: Machine) -> list[str]:
        home = copy_teams(parse_address(self.url), TEAM)
        copy = Copy(last.place, last.plan, home.own)
        found = audit(home, TEAM)
        talks = talks_of(copy)
        problems = [*of_audit(found, copy.plan), *of_tasks(copy, found), *of_roster(copy, found)]
        return [*problems, *of_errors(talks), *of_answers(talks, copy.plan), *doubled_mail(copy)]


def doubled_mail(copy: Copy) -> list[str]:
    """Mail that one transcript has twice, which its reader was told twice."""
    found: list[str] = []
    for path in sorted(talks_of(copy)):
        raw = path.read_bytes().splitlines()
        found += [f"{path.name} line {n} is torn: {line[:80]!r}" for n, line in enumerate(raw) if line[:1] != b"{"]
        lines = [json.loads(line) for line in raw if line[:1] == b"{"]
        counts = Counter(id for line in lines for id in line.get("injected", ()))
        found += [f"{path.name} has {id} twice" for id, count in counts.items() if count > 1]
    return found


def main() -> int:
    """0 when everything held, 1 when something was wrong."""
    parser = argparse.ArgumentParser(prog="crash.database")
    parser.add_argument("--kills", type=int, default=int(os.environ.get("CRASH_KILLS", "100")))
    parser.add_argument("--most", type=int, default=12, help="kills of one round")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", default=os.environ.get("CRASH_SEED") or secrets.token_hex(4))
    options = parser.parse_args()
    began = time.monotonic()
    print(f"seed {options.seed}", flush=True)
    top = Path(tempfile.mkdtemp(prefix="teamwright-crash-"))
    server = PostgresServer(Path(tempfile.mkdtemp(prefix="tw-pg-")), is_durable=True)
    server.start()
    kills = crashes = moves = number = 0
    try:
        for number in range(1, 10_000):
            most = min(options.kills - kills, options.most)
            made = DatabaseRound(f"{options.seed}/{number}", top / str(number), server, most).play()
            kills, crashes, moves = kills + made.kills, crashes + made.crashes, moves + made.moves
            if made.wrong:
                print(f"round {number}: {len(made.wrong)} wrong after {kills} kills; kept: {made.place}")
                print(*(f"  - {one}" for one in made.wrong[:20]), sep="\n", flush=True)
                return 1
            shutil.rmtree(made.place)
            counts = f"{made.kills} kills, {made.crashes} of the server, {made.moves} moves, {made.refused} refused"
            print(f"round {number}: {counts}", flush=True)
            if kills >= options.kills or time.monotonic() - began > options.seconds:
                break
    finally:
        server.stop()
        shutil.rmtree(server.directory, ignore_errors=True)
    shutil.rmtree(top)
    took = time.monotonic() - began
    print(f"{kills} kills, {crashes} of the server, {moves} moves: nothing lost, nothing doubled ({took:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
