"""One life of a session whose members work in worktrees: it is killed at a step, and a fault comes at another step.

`python -m tests.crash.worktree_life CHECKOUT MODE KILL_AT GROUP FAULT FAULT_AT`. MODE is `resume` or `adopt`. The
answers of members follow from their conversations alone: a life continues the earlier one as a real model would.
"""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from teamwright import Team
from teamwright.models.model import Request
from teamwright.protocol.messages import message_text
from teamwright.storage.paths import find_home
from teamwright.testing import ScriptedModel
from tests.crash import queue_life
from tests.support.repositories import ENV
from tests.teams.crew import until

TEAM = "crew"
MEMBERS = 3
TASKS = 12
TRIES = 3
"""Completions of one task in one turn, until the member reports that it cannot complete it."""

WORK = {
    0: "echo {id} > shared.txt",
    1: "rm -rf place && mkdir place && echo {id} > place/{id}.txt",
    2: "rm -rf place && echo {id} > place",
    3: "rm -rf link && ln -s a.txt link",
    4: "rm -rf link && echo {id} > link",
    5: "mkdir -p moved && mv src/{id}.c moved/",
}
"""What a task changes besides its own file, by its number: texts, a directory, a file, a link, and a renamed file."""

REPAIR = (
    "git checkout-index --all ; git rm -rfq --ignore-unmatch shared.txt place link {sides} ; git add -A ; "
    "echo repaired {id}"
)
"""Brings deleted files back, and resolves each conflict: what members quarrel about is deleted."""

_SIDES = re.compile(r"\b(?:place|link)~\w+")
"""The names that git gives a side of a conflict between a file and a directory or a link."""

_CLAIMED = re.compile(r"#(\d+) task \1\s+The task is yours now")
_RETURNED = re.compile(r"of task #(\d+)(?:, merged onto \S+, does not pass| conflicts| was not integrated)")


def is_mine(id: int, name: str) -> bool:
    """Return True for a task of this member."""
    return f"m{id % MEMBERS}" == name


def answer(request: Request) -> object:
    """Return the next step of an agent."""
    messages = [json.loads(item) for item in request.items]
    if request.agent_name in {"lead", "team-lead"}:
        return "ok"
    calls: dict[str, tuple[str, dict]] = {}
    done, failed, last = set[int](), 0, ("", 0, "")
    own = {id for id in range(1, TASKS + 1) if is_mine(id, request.agent_name)}
    for message in messages:
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if block["type"] == "tool_use":
                calls[block["id"]] = (block["name"], block["input"])
            elif block["type"] == "tool_result":
                name, given = calls[block["tool_use_id"]]
                id, bad = int(given.get("taskId") or given["description"].split()[-1]), bool(block.get("is_error"))
                said = block["content"] if isinstance(block["content"], str) else message_text(block["content"])
                last = (name, id, said) if not bad else (f"{name} failed", id, said)
                if bad and ("belongs to" in said or "was completed by" in said):
                    own.discard(id)
                if name == "TaskUpdate":
                    failed = failed + 1 if bad else 0
                    (done.discard if bad and "already completed" not in said else done.add)(id)
            elif message["role"] == "user":
                returned = {int(id) for id in _RETURNED.findall(block.get("text", ""))}
                claimed = {int(id) for id in _CLAIMED.findall(block.get("text", ""))}
                own, done = own | claimed, done - returned - claimed
                failed, last = 0, ("", 0, "")
    left = sorted(own - done)
    if last[0] == "Bash failed" and "interrupted" in last[2]:
        return _bash(last[1], "echo again > {id}.txt")  # a kill came before or while it ran
    if last[0].startswith("Bash"):
        return ("TaskUpdate", {"taskId": str(last[1]), "status": "completed"})
    if last[0] == "TaskUpdate failed":
        if failed >= TRIES:
            return f"I cannot complete #{last[1]}: {last[2]}"
        if "was made again" in last[2]:
            return _bash(last[1], "echo again > {id}.txt")
        return _bash(last[1], REPAIR.replace("{sides}", " ".join(_SIDES.findall(last[2]))))
    if not left:
        return "All my tasks are completed."
    id = left[0]
    return _bash(
        id, f"echo done > {id}.txt && {WORK[id % 6]}" if not _was_begun(calls, id) else f"echo again > {id}.txt"
    )


def _was_begun(calls: dict[str, tuple[str, dict]], id: int) -> bool:
    return any(name == "Bash" and given["description"] == f"task {id}" for name, given in calls.values())


def _bash(id: int, line: str) -> tuple[str, dict]:
    return ("Bash", {"command": line.format(id=id), "description": f"task {id}"})


# ── faults ───────────────────────────────────────────────────────────────────────────────────────────────────────


def trees() -> list[Path]:
    """Return the worktrees of members, in order of their names."""
    return sorted(path for path in find_home().worktrees.glob("*/crew-m*") if path.is_dir())


def delete_tree(checkout: Path, number: int) -> None:
    """Delete the directory of a worktree."""
    shutil.rmtree(trees()[number % len(trees())], ignore_errors=True)


def move_tree(checkout: Path, number: int) -> None:
    """Move the directory of a worktree."""
    tree = trees()[number % len(trees())]
    tree.rename(tree.with_name(f"gone-{number}-{os.getpid()}"))


def remove_git_file(checkout: Path, number: int) -> None:
    """Remove the file `.git` of a worktree."""
    (trees()[number % len(trees())] / ".git").unlink()


def delete_branch(checkout: Path, number: int) -> None:
    """Delete the branch of a member, as a program that looks at no worktree does."""
    _git(checkout, "update-ref", "-d", f"refs/heads/teamwright/{TEAM}/m{number % MEMBERS}")


def delete_integration_branch(checkout: Path, number: int) -> None:
    """Delete the integration branch."""
    _git(checkout, "update-ref", "-d", f"refs/heads/teamwright/{TEAM}/integration")


def delete_check_worktree(checkout: Path, number: int) -> None:
    """Delete the worktree of the checks."""
    for path in find_home().worktrees.glob(f"*/.integration-{TEAM}"):
        shutil.rmtree(path, ignore_errors=True)


def expire(checkout: Path, number: int) -> None:
    """Throw away each object that no ref keeps."""
    _git(checkout, "reflog", "expire", "--expire=now", "--all")
    _git(checkout, "gc", "--quiet", "--prune=now")


FAULTS: dict[str, Callable[[Path, int], None]] = {
    one.__name__: one
    for one in (
        delete_tree,
        move_tree,
        remove_git_file,
        delete_branch,
        delete_integration_branch,
        delete_check_worktree,
        expire,
    )
}
"""What other programs do to worktrees and branches."""


def _git(checkout: Path, *args: str) -> None:
    subprocess.run(["git", *args], cwd=checkout, env=ENV, capture_output=True, check=False)


# ── one life ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def begin(checkout: Path) -> None:
    """Make the team with its members and tasks. Nobody works yet."""
    async with Team(TEAM, model=ScriptedModel("Later."), cwd=checkout, keep=True, **options(checkout)) as team:
        for number in range(MEMBERS):
            await team.spawn(f"m{number}", "Wait for my message.", isolation="worktree")
        await until(team, team.session.team.is_quiet)
        for id in range(1, TASKS + 1):
            await team.session.team.tasks.create(f"task {id}", "", by="team-lead", owner=f"m{id % MEMBERS}", draft=True)


def options(checkout: Path) -> dict:
    """Return the options of each life. The settings are beside the repository, which may be renamed."""
    return {"permission_mode": "bypassPermissions", "settings_file": checkout.parent / "settings.json"}


async def live(checkout: Path, mode: str, kill_at: int, fault: str, fault_at: int, *, group: bool) -> None:
    """Continue the team until everybody rests, unless a kill comes first."""
    queue_life.arm(kill_at, group=group)
    if fault:
        queue_life.at_step(fault_at, lambda: FAULTS[fault](checkout, fault_at))
    opening = Team.resume if mode == "resume" else Team.adopt
    async with opening(TEAM, model=ScriptedModel(answer), cwd=checkout, **options(checkout)) as team:
        for member in team.members:
            await team.send(member.name, "Complete your tasks.")
        while True:
            await until(team, team.session.team.is_quiet)
            if not team.session.integration.is_working:
                break
            await until(team, lambda: not team.session.integration.is_working)
    print(f"{queue_life.STEPS} steps")


if __name__ == "__main__":
    place, mode, kill_at, group, fault, fault_at = sys.argv[1:]
    asyncio.run(live(Path(place), mode, int(kill_at), fault, int(fault_at), group=group == "1"))
