"""The processes of the crash suite: a lead with its team, a second one that wants its place, and those around them.

Each is forked by the driver, in a session of its own, and may be killed by SIGKILL at any moment; a life may also be
told to kill itself just before a chosen change of a file, or in the middle of one.
"""

import asyncio
import contextlib
import ctypes
import json
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from teamwright.protocol.errors import LockLost, TeamwrightError
from teamwright.protocol.messages import text_block
from teamwright.saved.member_control import send, stop_member
from teamwright.saved.sessions import session_views
from teamwright.saved.team_access import FileAccess, find_address
from teamwright.saved.teams import find_team_view
from teamwright.session.open_session import open_session
from teamwright.session.options import Options
from teamwright.storage.files import write_atomic
from teamwright.storage.locks import FileLock
from teamwright.storage.paths import Home
from teamwright.team_records.snapshots import team_views
from teamwright.views.audit.audit import audit
from teamwright.views.follow_team import follow_log
from teamwright.views.status import status_views
from tests.crash import mutations
from tests.crash.aims import Aim, take_aim
from tests.crash.players import PROMPT, TEAM, Plan, Player
from tests.simulated_product_checks import newer, older

REFUSED = 3
ENOUGH = "enough"
"""The file in a round's place that ends its stranger, who is not killed: nobody of ours knows a dead one's lock."""


@dataclass(frozen=True)
class RoundDirectory:
    """Where a round takes place: `root` is its state root, `work` the directory where agents work."""

    place: Path
    plan: Plan

    @property
    def root(self) -> Path:
        return self.place / "home" / ".teamwright"

    @property
    def home(self) -> Home:
        return Home.at(self.root)

    @property
    def work(self) -> Path:
        return self.place / "work"

    @property
    def tasks(self) -> Path:
        """The directory of the team's task list."""
        return self.home.tasks(self.plan.tasks or TEAM)

    def notes(self, name: str) -> Path:
        return self.place / f"{name}.jsonl"

    def note(self, name: str, **what) -> None:
        """Written down with one call, so that it stands when the next thing happens."""
        with open(self.notes(name), "ab", buffering=0) as file:
            file.write(json.dumps(what).encode() + b"\n")


def fork(round_directory: RoundDirectory, name: str, run: Callable[[], object]) -> int:
    """Start a process; what it says on stderr is kept in the round's place. Returns its pid."""
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        os.setsid()
        die_with_the_driver()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        said = os.open(round_directory.place / f"{name}.err", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(said, 1)
        os.dup2(said, 2)
        random.seed()
        mutations.apply(os.environ.get(mutations.VARIABLE, ""))
        code = run() or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def die_with_the_driver() -> None:
    """Where the system can do it: nothing of a round outlives the program that plays it."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


# ── a number under a lock ────────────────────────────────────────────────────────────────────────────────────────


async def count(round_directory: RoundDirectory) -> None:
    """Add 1 to a number in a file under its lock, again and again: nobody else is ever inside."""
    target = round_directory.place / "count"
    lock = FileLock(target, round_directory.place / "guards" / "count", wait_s=30.0)
    while True:
        try:
            async with lock.hold() as held:
                number = int(target.read_text()) if target.exists() else 0
                held.check()
                write_atomic(target, str(number + 1).encode())
                held.check()
        except LockLost as problem:
            round_directory.note("count", wrong=problem.what)
        else:
            round_directory.note("count", number=number + 1)
        await asyncio.sleep(random.uniform(0.0, 0.02))


@contextlib.asynccontextmanager
async def counting(round_directory: RoundDirectory):
    """Count meanwhile."""
    task = asyncio.create_task(count(round_directory))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


# ── the lead ─────────────────────────────────────────────────────────────────────────────────────────────────────


def lead(round_directory: RoundDirectory, aim: Aim | None, *, second: bool) -> int:
    """One life of the lead: begin the job, or go on with it; `second` only goes on, and may be refused."""
    if aim is not None:
        take_aim(aim, str(round_directory.root))
    try:
        asyncio.run(_lead(round_directory, second=second))
    except TeamwrightError as problem:
        print(f"refused: {problem.slug}: {problem.what}", *problem.looked_at, *problem.do, sep="\n", file=sys.stderr)
        return REFUSED
    return 0


async def _lead(round_directory: RoundDirectory, *, second: bool) -> None:
    session = session_to_resume(round_directory)
    if second and session is None:
        raise TeamwrightError("unknown-session", "there is nothing to go on with yet")
    model = Player(round_directory.plan)
    options = Options(
        cwd=round_directory.work,
        home=str(round_directory.root),
        model=model,
        permission_mode="bypassPermissions",
        resume=session,
    )
    async with counting(round_directory), open_session(options) as opened:
        began = PROMPT.encode() in opened.lead.agent.conversation.path.read_bytes()
        result = await opened.run([] if began else [text_block(PROMPT)])
        result = await opened.end_members(result)
        print(result.stop, result.text, result.error)


def session_to_resume(round_directory: RoundDirectory) -> str | None:
    """The session that leads the team, else the newest that has a conversation; None: a new one begins."""
    with contextlib.suppress(TeamwrightError):
        if session := find_team_view(round_directory.home, TEAM).session:
            return session
    return next((view.id for view in session_views(round_directory.home) if not view.damaged), None)


# ── those around them ────────────────────────────────────────────────────────────────────────────────────────────


def sender(round_directory: RoundDirectory, seed: str) -> None:
    """The user writes to members from another terminal; each attempt is noted before and after."""
    dice = random.Random(seed)

    async def one(number: int) -> None:
        target, _ = find_address(FileAccess(round_directory.home), TEAM)
        name = dice.choice([m.name for m in target.config.members])
        token, size = f"{seed}-{number}", dice.choice((0, 0, 0, 0, 300, 3_000, 20_000))
        round_directory.note("sender", token=token, to=name)
        try:
            sent = await send(target, name, f"note {token} " + "z" * size)
        except TeamwrightError as problem:
            round_directory.note("sender", token=token, error=problem.slug, what=problem.what)
        else:
            round_directory.note("sender", token=token, sent=sent.message_id, outcome=sent.outcome)

    async def go_on() -> None:
        async with counting(round_directory):
            for number in range(60):
                with contextlib.suppress(TeamwrightError):  # no team yet, or no more
                    await one(number)
                await asyncio.sleep(dice.uniform(0.0, 0.3))

    asyncio.run(go_on())


def stopper(round_directory: RoundDirectory) -> None:
    """Ends eve from another terminal once she is at work; tries again when nobody leads the team."""

    async def go_on() -> None:
        while True:
            await asyncio.sleep(0.02)
            with contextlib.suppress(TeamwrightError):
                target, _ = find_address(FileAccess(round_directory.home), TEAM)
                if target.config.find("eve") is None:
                    continue
                stopped = await stop_member(target, "eve", now=True, timeout_s=5.0)
                round_directory.note("stopper", outcome=stopped.outcome)
                if stopped.outcome == "ended":
                    return

    asyncio.run(go_on())


def reader(round_directory: RoundDirectory) -> None:
    """Looks at everything all the while: whatever the moment, a look never breaks."""

    async def follow() -> None:
        while True:
            logs = list((round_directory.root / "projects").glob("*/*/events.jsonl"))
            if not logs:
                await asyncio.sleep(0.02)
                continue
            last = 0
            async for item in follow_log(logs[0], 0):
                if isinstance(item, tuple):
                    assert item[0] > last, f"event {item[0]} came after {last}"
                    last = item[0]

    async def look() -> None:
        following = asyncio.create_task(follow())
        while True:
            for view in (
                lambda: audit(round_directory.home, TEAM),
                lambda: team_views(round_directory.home),
                lambda: status_views(round_directory.home, round_directory.work),
                lambda: session_views(round_directory.home),
            ):
                with contextlib.suppress(TeamwrightError):
                    view()
                await asyncio.sleep(0.01)
                if following.done():
                    following.result()

    asyncio.run(look())


def stranger(round_directory: RoundDirectory, *, mannered: bool) -> None:
    """Another product's process, until the round is over: with its lock directories, or with no manners at all.

    The first writes to inboxes and tasks. What the second writes over is lost to anybody, so it has only the roster.
    """
    roster, dice = round_directory.home.config(TEAM), random.Random()
    for number in range(120):
        if (round_directory.place / ENOUGH).exists():
            return
        time.sleep(dice.uniform(0.01, 0.2))
        with contextlib.suppress(OSError, ValueError, TypeError):
            if mannered:
                disturb(round_directory, dice, number)
            elif (config := older.read(roster)) is not None:
                older.write_in_place(roster, config | {"theirs": number})


def disturb(round_directory: RoundDirectory, dice: random.Random, number: int) -> None:
    """Write to somebody, or change a task, under the lock that others understand."""
    config = json.loads(round_directory.home.config(TEAM).read_bytes())
    numbered = sorted(round_directory.home.tasks(TEAM).glob("[0-9]*.json"))
    if dice.random() < 0.6:
        to = dice.choice([member["name"] for member in config["members"]])
        write_to(round_directory, round_directory.home.inbox(TEAM, to), f"note zed-{number}")
    elif numbered:
        newer.under_lock(dice.choice(numbered), lambda task: task | {"theirs": number})


def write_to(round_directory: RoundDirectory, inbox: Path, text: str) -> None:
    entry = {"from": "zed", "text": text, "timestamp": "2026-11-20T22:53:56.642Z", "read": False}
    if inbox.exists() and newer.under_lock(inbox, lambda entries: [*entries, entry]):
        round_directory.note("stranger", token=text.split()[1], to=inbox.stem)
