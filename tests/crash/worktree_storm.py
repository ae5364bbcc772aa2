"""A storm over members in worktrees: kills, deletions and renames by other programs, and hooks that fail.

`storm` makes a team whose members' tasks conflict in all ways, and lets it live several lives. Between and during these
other programs delete worktrees and branches, the repository is renamed, and hooks fail, hang or damage the work. In the
last life all is well again: then each task must be completed and on the integration branch, once.
"""

import asyncio
import json
import os
import random
import re
import signal
import stat
import subprocess
import sys
from collections import Counter
from pathlib import Path

from msgspec import Struct, field

from teamwright.git.git_calls import NO_ENTRIES
from teamwright.protocol.errors import WorktreeRefused
from teamwright.storage.paths import find_home
from teamwright.tasks.file_task_store import FileTaskStore
from teamwright.worktrees.integration_store import FileIntegrationStore
from teamwright.worktrees.repository_git import RepositoryGit
from teamwright.worktrees.worktree_identity import require_worktree
from teamwright.worktrees.worktree_record import list_records
from tests.crash.worktree_life import FAULTS, MEMBERS, TASKS, TEAM, begin
from tests.support.repositories import commit, git, make_repository

ROOT = Path(__file__).parents[2]
BRANCH = f"teamwright/{TEAM}/integration"
LIFE_S = 240
LAST_LIVES = 4
"""Lives without faults, in which all work must be finished: a returned commit is resolved in one life or the next."""
MOST_DELETED = 4
"""Files that one task deletes at most: more are the loss of work."""

COMMIT_HOOKS = {
    "none": "",
    "fails": "echo the tests fail >&2; exit 1",
    "hangs": "exec sleep 600",
    "changes the index": "echo report > report.txt; git add report.txt",
    "empties the index": "git rm -rq --cached .",
    "removes and fails": "git rm -rqf src; exit 1",
    "deletes files": "rm -rf src",
}
TOOL_HOOKS = {
    "none": {},
    "TaskCompleted refuses": {"TaskCompleted": "echo the task has no changelog >&2; exit 2"},
    "PostToolUse fails": {"PostToolUse": "exit 1"},
    "PostToolUse blocks": {"PostToolUse": "echo look again >&2; exit 2"},
}


class Figures(Struct):
    """What happened in a storm."""

    lives: int = 0
    kills: int = 0
    faults: Counter[str] = field(default_factory=Counter[str])
    refusals: Counter[str] = field(default_factory=Counter[str])

    def describe(self) -> str:
        """Return the figures in words."""
        faults = ", ".join(f"{count} {name}" for name, count in sorted(self.faults.items()))
        refusals = ", ".join(f"{count} for {name}" for name, count in sorted(self.refusals.items()))
        return (
            f"{self.lives} lives, {self.kills} kills; faults: {faults}; refused completions: {refusals}: "
            "each task is on the integration branch once"
        )


def write_settings(place: Path, hooks: dict[str, str]) -> None:
    """Write the settings of the next life."""
    entries = {event: [{"hooks": [{"type": "command", "command": line}]}] for event, line in hooks.items()}
    worktrees = {"commit_hooks": True}
    settings = {"worktrees": worktrees, "checks": {"integration_timeout_s": 3}, "hooks": entries}
    (place / "settings.json").write_text(json.dumps(settings))


def write_hook(checkout: Path, line: str) -> None:
    """Install the hook of the next life."""
    path = checkout / ".git/hooks/pre-commit"
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def live(checkout: Path, mode: str, kill_at: int, fault: str, fault_at: int, *, group: bool) -> int:
    """Live one life in a process of its own. Returns its exit code."""
    words = [sys.executable, "-m", "tests.crash.worktree_life", str(checkout), mode, str(kill_at), str(int(group))]
    done = subprocess.run(
        [*words, fault, str(fault_at)],
        cwd=ROOT,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
        timeout=LIFE_S,
    )
    assert done.returncode in {0, -signal.SIGKILL}, done.stderr[-3_000:]
    return done.returncode


def run_cli(checkout: Path, *words: str) -> str:
    """Run the program, as the documentation says. Returns its output."""
    command = [sys.executable, "-m", "teamwright", *words]
    done = subprocess.run(command, cwd=checkout, env=dict(os.environ), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rename_repository(checkout: Path, number: int) -> Path:
    """Rename the repository, and repair the worktrees as the documentation says."""
    moved = checkout.with_name(f"shop-{number}")
    checkout.rename(moved)
    run_cli(moved, "worktrees", "repair")
    return moved


def follow_advice(checkout: Path) -> None:
    """Run the command with which an error about a worktree ends, as a person would before the last life."""
    repository = RepositoryGit.open(checkout, NO_ENTRIES)
    for record in list_records(find_home().worktrees)[0]:
        if not record.tree.is_dir():
            continue
        try:
            require_worktree(repository, record)
        except WorktreeRefused as problem:
            if "another directory" not in problem.what:
                command = problem.do[0].partition(",")[0].split()
                subprocess.run(command, cwd=checkout, capture_output=True, check=False)


def person(checkout: Path) -> tuple[object, ...]:
    """Return what is the person's."""
    refs = [line for line in git(checkout, "for-each-ref").splitlines() if "teamwright/" not in line]
    return (
        git(checkout, "symbolic-ref", "HEAD"),
        refs,
        git(checkout, "ls-files", "--stage"),
        git(checkout, "status", "--porcelain"),
        (checkout / ".git/config").read_bytes(),
        (checkout / "mine.txt").read_text(),
    )


def states(checkout: Path) -> dict[str, tuple[str, str]]:
    """Return status and integration of each task."""
    home = find_home()
    tasks = asyncio.run(FileTaskStore(home.tasks(TEAM), home.guard).read()).tasks
    return {one.id: (str(one.status), str(one.integration.state) if one.integration else "") for one in tasks}


def is_finished(checkout: Path) -> bool:
    """Return True when each task is completed. One whose files an earlier commit has needs no commit of its own."""
    return all(status == "completed" and state in {"merged", ""} for status, state in states(checkout).values())


def require_all(checkout: Path) -> None:
    """Raise AssertionError unless each task is on the integration branch, once, and no commit loses files."""
    assert is_finished(checkout), states(checkout)
    names = git(checkout, "ls-tree", "-r", "--name-only", BRANCH).splitlines()
    missing = [id for id in range(1, TASKS + 1) if f"{id}.txt" not in names]
    assert not missing, f"the work of {missing} is not on the branch"
    # A member that brings lost files back also brings back what it had moved before.
    sources = {Path(name).name for name in names if name.endswith(".c")}
    assert len(sources) == TASKS + 8, sources
    entries = asyncio.run(FileIntegrationStore(find_home().integration(TEAM)).entries())
    assert all(entry.is_settled for entry in entries)
    merged = [entry for entry in entries if entry.state == "merged"]
    trailers = git(checkout, "log", "--format=%(trailers:key=Teamwright-Entry,valueonly)", "--merges", BRANCH).split()
    assert len(trailers) == len(set(trailers)), "an entry was merged twice"
    assert set(trailers) <= {entry.id for entry in merged}
    for entry in merged:
        assert RepositoryGit.open(checkout).contains(entry.tip, BRANCH), entry
    for line in git(checkout, "rev-list", "--no-merges", "--all").split():
        gone = git(checkout, "show", "--format=", "--name-only", "--diff-filter=D", line).splitlines()
        assert len(gone) <= MOST_DELETED, (line, gone)
    assert git(checkout, "fsck", "--no-progress", "--no-dangling") == ""


_REASONS = {
    "the commit of the worktree failed": "a failed commit hook",
    "took longer than": "a hook that hangs",
    "the commit hooks": "a hook that loses work",
    "is not the one that was made": "a changed worktree",
    "has no changelog": "a TaskCompleted hook",
    "files are gone from the worktree": "lost files",
    "was gone and was made again": "a worktree that was made again",
    "conflict": "a conflict",
}


def read_refusals(place: Path, figures: Figures) -> None:
    """Count the refused completions in the transcripts of members, and require that person and lead know the reason.

    The person has it in the event log. The lead has it in its inbox or transcript: a member that could not go on said
    it, and the runtime told of a changed worktree.
    """

    def texts(pattern: str) -> str:
        return "\n".join(path.read_text(errors="replace") for path in (place / "home").rglob(pattern) if path.is_file())

    told, logs, talks = texts("team-lead.json"), texts("events*.jsonl"), texts("agents/*.jsonl")
    for line in re.findall(r"#\d+ is not completed: [^\n\"\\]{0,160}|[^\n\"]{0,40}has no changelog", talks):
        reason = next((name for text, name in _REASONS.items() if text in line), line[:80])
        figures.refusals[reason] += 1
    for text, name in _REASONS.items():
        if figures.refusals[name]:
            assert text in logs, f"the person is not told of {name}"
            if name == "a changed worktree":
                assert text in told or "worktree" in told, f"the lead is not told of {name}"


def storm(place: Path, lives: int, seed: int) -> Figures:
    """Let a team live this many lives with faults, then some without, and require that nothing is lost."""
    chance = random.Random(seed)
    files = {
        "a.txt": "one\n",
        "mine.txt": "x\n",
        **{f"src/{number}.c": f"{number}\n" for number in range(1, TASKS + 9)},
    }
    checkout = make_repository(place / "shop", files)
    for key, value in (("user.name", "Pat"), ("user.email", "pat@example.org")):
        git(checkout, "config", key, value)
    git(checkout, "branch", "release")
    commit(checkout, "second", {"b.txt": "two\n"})
    (checkout / "mine.txt").write_text("uncommitted\n")
    (checkout / "staged.txt").write_text("staged\n")
    git(checkout, "add", "staged.txt")
    write_settings(place, {})
    asyncio.run(begin(checkout))
    before, figures, mode = person(checkout), Figures(), "resume"
    for number in range(lives):
        hook, tool = chance.choice([*COMMIT_HOOKS, "none", "none"]), chance.choice([*TOOL_HOOKS, "none", "none"])
        write_hook(checkout, COMMIT_HOOKS[hook])
        write_settings(place, TOOL_HOOKS[tool])
        fault = chance.choice(["", *FAULTS])
        fault_at, kill_at = chance.randint(50, 900), chance.randint(100, 1_500)
        figures.faults.update([f"hook {hook}"] * (hook != "none") + [tool] * (tool != "none") + [fault] * bool(fault))
        code = live(checkout, mode, kill_at, fault, fault_at, group=number % 2 == 1)
        figures.lives, figures.kills, mode = figures.lives + 1, figures.kills + (code != 0), "resume"
        for _ in range(chance.choice((0, 0, 1, 2))):
            name = chance.choice(list(FAULTS))
            figures.faults[name] += 1
            try:
                FAULTS[name](checkout, chance.randrange(MEMBERS))
            except (OSError, ZeroDivisionError):
                continue
        if chance.random() < 0.3:
            figures.faults["rename of the repository"] += 1
            checkout, mode = rename_repository(checkout, number), "adopt"
        assert person(checkout) == before
        if chance.random() < 0.5:
            follow_advice(checkout)
    write_hook(checkout, "")
    write_settings(place, {})
    for _ in range(LAST_LIVES):
        follow_advice(checkout)
        assert live(checkout, mode, 0, "", 0, group=False) == 0
        mode = "resume"
        if is_finished(checkout):
            break
    if not git(checkout, "branch", "--list", BRANCH):
        run_cli(checkout, "integrate", TEAM)  # as the page of the queue says
    require_all(checkout)
    assert person(checkout) == before
    read_refusals(place, figures)
    return figures
