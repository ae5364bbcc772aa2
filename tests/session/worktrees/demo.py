"""`make demo WORKTREES=1`: three members change overlapping files in worktrees, on a scratch clone, by a script.

One commit conflicts and is returned and resolved, one fails the check and is fixed. At the end the integration branch
passes its tests, the worktrees are gone, and the original checkout is the same to the byte. Exit code 1 otherwise.
"""

import asyncio
import hashlib
import json
import os
import sys
import tempfile
from pathlib import Path

from teamwright import Team
from teamwright.protocol.events import IntegrationChanged, TaskChanged, TeamEvent
from teamwright.ui.terminal.events import EventFormatter
from tests.support.repositories import git, make_repository
from tests.support.waits import WAIT_S
from tests.teams.crew import Holding, until

FILES = {
    "shop.py": "def prices():\n    return [1, 2]\n",
    "test_shop.py": "import unittest\n\nimport shop\n\n\nclass Prices(unittest.TestCase):\n"
    "    def test_there_are_prices(self):\n        self.assertTrue(shop.prices())\n",
}
CHECK = f"{sys.executable} -m unittest -q"
TEST = "import unittest\n\nimport tax\n\n\nclass Tax(unittest.TestCase):\n    def test_half(self):\n"
TEST += "        self.assertEqual(tax.half(3), 1.5)\n"
BRANCH = "teamwright/shop/integration"


def complete(task: int):
    return ("TaskUpdate", {"taskId": str(task), "status": "completed"})


def edit(path: str, content: str):
    return [("Read", {"file_path": path}), ("Write", {"file_path": path, "content": content})]


def write(path: str, content: str):
    return ("Write", {"file_path": path, "content": content})


MORE = "def prices():\n    return [1, 2, 3]\n"
TOTAL = "def prices():\n    return [1, 2]  # in cents\n\n\ndef total():\n    return sum(prices())\n"
BOTH = "def prices():\n    return [1, 2, 3]  # in cents\n\n\ndef total():\n    return sum(prices())\n"
SCRIPT = {
    "lead": ["Noted."] * 50,
    "ann": ["I wait for a task.", *edit("shop.py", MORE), complete(2), "Done."],
    "bob": [
        *("I wait for a task.", *edit("shop.py", TOTAL), complete(1), "Done."),
        *(complete(1), *edit("shop.py", BOTH), complete(1), "The conflict is resolved."),
    ],
    "cid": [
        *("I wait for a task.", write("tax.py", "def half(x):\n    return x // 2\n"), write("test_tax.py", TEST)),
        *(complete(3), "Done.", *edit("tax.py", "def half(x):\n    return x / 2\n"), complete(3), "It is fixed."),
    ],
}
TASKS = {"bob": "Add total() to shop.py", "ann": "Add a price to shop.py", "cid": "Write tax.py with a test"}


def content(place: Path) -> str:
    """Return a digest of all files of a checkout, without git's own."""
    whole = hashlib.sha256()
    for path in sorted(path for path in place.rglob("*") if path.is_file() and ".git" not in path.parts):
        whole.update(f"{path.relative_to(place)}\0{path.stat().st_mtime_ns}\0".encode() + path.read_bytes())
    return whole.hexdigest()


class Screen:
    """Prints the events of the team, and remembers what the demo waits for."""

    def __init__(self, team: Team) -> None:
        self.claimed: set[str] = set()
        self.states: list[tuple[str, str]] = []
        self._team = team
        self._formatter = EventFormatter(width=110)

    def note(self, _number: int, event: TeamEvent) -> None:
        for line in self._formatter.lines(event):
            print(line, flush=True)
        if isinstance(event, TaskChanged) and event.change == "claimed":
            self.claimed.add(event.member)
        elif isinstance(event, IntegrationChanged):
            self.states.append((event.member, str(event.state)))
        self._team.session.team.changed.set()


async def work(checkout: Path, settings: Path) -> list[tuple[str, str]]:
    model = Holding(SCRIPT)
    options = {"permission_mode": "bypassPermissions", "settings_file": settings, "keep": False}
    async with Team("shop", model=model, cwd=checkout, **options) as team:
        screen = Screen(team)
        team.session.log.subscribe(screen.note, live=False)
        for name in SCRIPT:
            if name != "lead":
                await team.spawn(name, "Wait for your task.", isolation="worktree")
        await until(team, team.session.team.is_quiet)
        model.held.add("bob")  # bob begins first and finishes last, so that his commit conflicts
        for name, subject in TASKS.items():
            await team.tasks.add(subject, metadata={"for": [name]})
            await until(team, lambda name=name: name in screen.claimed)
        await until(team, lambda: ("ann", "merged") in screen.states)
        model.go.set()
        await until(team, lambda: {("bob", "merged"), ("cid", "merged")} <= {*screen.states})
        await until(team, team.session.team.is_quiet)
        await team.run("Say what is integrated.")
        for member in team.members:
            await member.stop()
    return screen.states


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="teamwright-demo-") as directory:
        place = Path(os.path.realpath(directory))
        os.environ.update(TEAMWRIGHT_HOME=str(place / "home"), GIT_CONFIG_GLOBAL=os.devnull)
        make_repository(place / "original", FILES)
        git(place, "clone", "-q", str(place / "original"), str(place / "shop"))
        checkout, settings = place / "shop", place / "settings.json"
        settings.write_text(json.dumps({"checks.integration": CHECK}))
        before = content(checkout), git(checkout, "status", "--porcelain"), git(checkout, "rev-parse", "main")
        states = asyncio.run(asyncio.wait_for(work(checkout, settings), 3 * WAIT_S))
        after = content(checkout), git(checkout, "status", "--porcelain"), git(checkout, "rev-parse", "main")
        left = git(checkout, "worktree", "list").count("\n")
        git(checkout, "worktree", "add", "-q", "--detach", str(place / "result"), BRANCH)
        tests = os.system(f"cd {place / 'result'} && {CHECK} 2>/dev/null")
        facts = {
            "one conflict was returned and resolved": states.count(("bob", "conflict")) == 1,
            "one failed check was returned and fixed": states.count(("cid", "failed")) == 1,
            "both sides of the conflict are on the branch": git(checkout, "show", f"{BRANCH}:shop.py") + "\n" == BOTH,
            "the tests of the integration branch pass": tests == 0,
            f"{3 - left} of 3 worktrees are removed": left <= 1,
            "the original checkout is the same to the byte": before == after,
            "git fsck finds no fault": git(checkout, "fsck", "--no-progress", "--no-dangling") == "",
        }
        print(git(checkout, "log", "--oneline", "--graph", BRANCH))
        for fact, holds in facts.items():
            print("✓" if holds else "✗", fact)
        return 0 if all(facts.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
