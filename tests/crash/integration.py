"""The crash suite of the integration queue: `python -m tests.crash.integration [--commits N] [--kills N] [--lives N]`.

A session with a long queue is killed with SIGKILL at random steps, half of the times together with its git. Each commit
must be integrated or returned exactly once, no branch may be lost, and `git fsck` finds no fault. Then members complete
tasks in as many lives, with deletions and renames by other programs and hooks that fail (`worktree_storm.py`).
`--seed N` replays both, `--keep DIRECTORY` leaves their files there; 0 leaves a part out.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from teamwright import Team
from teamwright.protocol.task import IntegrationState, Task, TaskIntegration
from teamwright.storage.paths import find_home
from teamwright.tasks.file_task_store import FileTaskStore
from teamwright.tasks.task_list import TaskList
from teamwright.testing import ScriptedModel
from teamwright.worktrees.integration_store import FileIntegrationStore
from teamwright.worktrees.repository_git import RepositoryGit
from teamwright.worktrees.worktree_creation import Owner, create_worktree
from tests.crash import worktree_storm
from tests.support.repositories import commit, git, make_repository

ROOT = Path(__file__).parents[2]
BRANCH = "teamwright/crew/integration"
MEMBERS = 4
CONFLICTING = 6
"""Each task of this number changes one file that all of these change: the first is merged, the others are returned."""


class Committed:
    """The port of the task list to worktrees: each task has a commit that is there already."""

    def __init__(self, commits: dict[str, TaskIntegration]) -> None:
        self._commits = commits

    async def save(self, task: Task, by: str) -> TaskIntegration | None:
        return self._commits[task.id]

    def has(self, member: str) -> bool:
        return True

    async def move(self, task: Task, member: str) -> None:
        pass


async def fill_queue(checkout: Path, count: int) -> dict[str, TaskIntegration]:
    """Make a team whose members completed this many tasks in worktrees, and have ended. Nothing is integrated yet."""
    home = find_home()
    async with Team("crew", model=ScriptedModel(["ok"] * 9), cwd=checkout):
        pass
    repository = RepositoryGit.open(checkout)
    records = [
        create_worktree(repository, home.worktrees, Owner("crew", f"m{number}", "s")).record
        for number in range(MEMBERS)
    ]
    commits: dict[str, TaskIntegration] = {}
    tasks = TaskList(FileTaskStore(home.tasks("crew"), home.guard), work=Committed(commits))
    for number in range(count):
        record = records[number % MEMBERS]
        conflicts = number % CONFLICTING == 0
        if conflicts:  # apart from the member's other commits, or all later ones would conflict too
            record = create_worktree(repository, home.worktrees, Owner("crew", f"c{number}", "s")).record
        files = {"a.txt": f"{number}\n"} if conflicts else {f"{number}.txt": "x\n"}
        tip = commit(record.tree, f"work {number}", files)
        task = await tasks.create(f"task {number}", "", by="team-lead")
        commits[task.id] = TaskIntegration(IntegrationState.QUEUED, record.branch, tip, record.base)
        await tasks.update(task.id, by=record.member, status="completed")
    return commits


def live(checkout: Path, kill_at: int, group: bool) -> int:
    command = [
        sys.executable,
        "-m",
        "tests.crash.queue_life",
        str(checkout),
        str(kill_at),
        str(int(group)),
    ]
    done = subprocess.run(
        command, cwd=ROOT, env=dict(os.environ), capture_output=True, text=True, start_new_session=True, check=False
    )
    assert done.returncode in {0, -signal.SIGKILL}, done.stderr[-3_000:]
    return done.returncode


async def require_each_once(checkout: Path, commits: dict[str, TaskIntegration]) -> None:
    home = find_home()
    entries = await FileIntegrationStore(home.integration("crew")).entries()
    tasks = {task.id: task for task in (await FileTaskStore(home.tasks("crew"), home.guard).read()).tasks}
    assert [int(entry.task) for entry in entries] == sorted(map(int, commits))
    assert all(entry.is_settled for entry in entries)
    merged = {entry.task for entry in entries if entry.state == "merged"}
    returned = {entry.task: entry for entry in entries if entry.state == "conflict"}
    assert merged | returned.keys() == commits.keys()
    assert len(returned) == sum(number % CONFLICTING == 0 for number in range(len(commits))) - 1
    for id, task in tasks.items():
        expected = ("completed", "merged") if id in merged else ("pending", "conflict")
        assert task.integration is not None
        assert (task.status, task.integration.state) == expected
    trailers = git(checkout, "log", "--format=%(trailers:key=Teamwright-Entry,valueonly)", "--merges", BRANCH).split()
    assert sorted(trailers) == sorted(entry.id for entry in entries if entry.state == "merged")
    inbox = json.loads(home.inbox("crew", "team-lead").read_bytes())
    mailed = [entry["msg_id"] for entry in inbox if str(entry.get("msg_id", "")).startswith("integration:")]
    assert sorted(mailed) == sorted(f"integration:{entry.id}" for entry in returned.values())
    repository = RepositoryGit.open(checkout)
    for id, work in commits.items():
        assert repository.contains(work.tip, work.branch)
        assert repository.contains(work.tip, BRANCH) == (id in merged)
    assert git(checkout, "fsck", "--no-progress", "--no-dangling") == ""


async def storm(place: Path, count: int, kills: int, seed: int) -> int:
    """Kill a session with this many queued commits this often. Return the number of kills that came before its end."""
    checkout = make_repository(place / "shop", {"a.txt": "one\n"})
    before = git(checkout, "status", "--porcelain"), git(checkout, "rev-parse", "main")
    commits = await fill_queue(checkout, count)
    chance = random.Random(seed)
    killed = 0
    for number in range(kills):
        # A life works about this share of the queue before its kill, so that the kills meet all entries.
        code = await asyncio.to_thread(live, checkout, chance.randint(30, 60 + 50 * count // kills), number % 2 == 1)
        if code == 0:
            break
        killed += 1
    assert killed
    assert await asyncio.to_thread(live, checkout, 0, False) == 0
    await require_each_once(checkout, commits)
    assert (git(checkout, "status", "--porcelain"), git(checkout, "rev-parse", "main")) == before
    return killed


def main() -> int:
    parser = argparse.ArgumentParser(prog="integration")
    parser.add_argument("--commits", type=int, default=40)
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--lives", type=int, default=5)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10_000)
    parser.add_argument("--keep", default="")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="teamwright-integration-") as directory:
        place = Path(os.path.realpath(options.keep or directory))
        os.environ.update(TEAMWRIGHT_HOME=str(place / "home"), GIT_CONFIG_GLOBAL=os.devnull)
        if options.kills:
            began = time.monotonic()
            killed = asyncio.run(storm(place, options.commits, options.kills, options.seed))
            counts = f"{options.commits} commits, {killed} kills"
            print(f"{counts}: each integrated or returned once ({time.monotonic() - began:.0f} s)", flush=True)
        if options.lives:
            began = time.monotonic()
            os.environ["TEAMWRIGHT_HOME"] = str(place / "faults" / "home")
            figures = worktree_storm.storm(place / "faults", options.lives, options.seed)
            print(f"{figures.describe()} ({time.monotonic() - began:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
