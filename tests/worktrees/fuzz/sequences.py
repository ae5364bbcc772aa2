"""Sequences of lines in a worktree, and the comparison of the person's repository before and after them."""

import asyncio
import contextlib
import hashlib
import math
import os
import random
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct, field

from teamwright import Team
from teamwright.permissions.decision_context import PermissionScope
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.verdict import Access, Mode, Verdict
from teamwright.permissions.worktree_bounds import WorktreeBounds
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.task import Task
from teamwright.testing import ScriptedModel
from teamwright.worktrees.integration import Integration
from teamwright.worktrees.integration_store import FileIntegrationStore
from teamwright.worktrees.member_branch import MemberWorktree
from teamwright.worktrees.repository_git import RepositoryGit
from teamwright.worktrees.worktree_creation import Owner, SetupCommand, create_worktree
from teamwright.worktrees.worktree_record import WorktreeRecord
from tests.support.repositories import ENV, commit, git, make_repository
from tests.worktrees.fuzz.lines import Lines

HOME = "TEAMWRIGHT_HOME"
LINE_S = 20.0
SEQUENCES_OF_A_REPOSITORY = 25
TASK = Task("1", "Fuzz", "")
PLAIN = SetupCommand()
FILES = {"a.txt": "one\n", **{f"src/{number}.c": f"{number}\n" for number in range(12)}}


class Figures(Struct):
    """What was tried, and each violation with the seed of its sequence."""

    sequences: int = 0
    lines: int = 0
    run: int = 0
    asked: int = 0
    completions: Counter[str] = field(default_factory=Counter[str])
    violations: list[str] = field(default_factory=list[str])

    def describe(self) -> str:
        """Return the figures in words."""
        ends = ", ".join(f"{count} {name}" for name, count in sorted(self.completions.items()))
        return (
            f"{self.sequences} sequences, {self.lines} lines: {self.run} run, {self.asked} asked or denied; "
            f"completions: {ends}; {len(self.violations)} violations"
        )


class Repository:
    """A person's repository with a remote, branches, a tag, a note, a stash and a commit that only the log knows."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.checkout = make_repository(top / "shop", FILES)
        remote = top / "remote.git"
        git(self.checkout, "config", "user.name", "Ann")
        git(self.checkout, "config", "user.email", "ann@example.org")
        for name in ("two", "three"):
            commit(self.checkout, name, {"a.txt": f"{name}\n"})
        for name in ("packed", "theirs"):
            git(self.checkout, "branch", name, "HEAD~1")
        git(self.checkout, "tag", "v1", "HEAD~1")
        git(self.checkout, "pack-refs", "--all")
        git(self.checkout, "branch", "-f", "theirs", "HEAD")
        git(self.checkout, "notes", "add", "-m", "note", "HEAD")
        git(top, "clone", "-q", "--bare", str(self.checkout), str(remote))
        git(remote, "branch", "only-remote", "main")
        git(self.checkout, "remote", "add", "origin", f"file://{remote}")
        git(self.checkout, "fetch", "-q", "origin")
        (self.checkout / "a.txt").write_text("stashed\n")
        git(self.checkout, "stash", "-q")
        self.lost = commit(self.checkout, "lost", {"lost.txt": "x\n"})
        git(self.checkout, "reset", "-q", "--hard", "HEAD~1")
        (self.checkout / "a.txt").write_text("uncommitted\n")
        (self.checkout / "untracked.txt").write_text("untracked\n")
        self.before = self.state()

    def state(self) -> dict[str, object]:
        """Return everything that is the person's."""
        place = self.checkout
        refs = git(place, "for-each-ref", "--format=%(refname) %(objectname) %(symref)").splitlines()
        files = {
            str(path.relative_to(place)): path.read_bytes()
            for path in sorted(place.rglob("*"))
            if path.is_file() and ".git" not in path.relative_to(place).parts
        }
        own = place / ".git"
        names = sorted(
            path.name for path in own.iterdir() if not path.name.startswith(("worktrees", "COMMIT_", "FETCH_"))
        )
        alive = subprocess.run(["git", "cat-file", "-e", f"{self.lost}^{{tree}}"], cwd=place, env=ENV, check=False)
        return {
            "refs": {line.split()[0]: line for line in refs if _is_persons(line)},
            "HEAD": (own / "HEAD").read_text(),
            "config": (own / "config").read_bytes(),
            "index": git(place, "ls-files", "--stage"),
            "stash": (own / "logs/refs/stash").read_bytes() if (own / "logs/refs/stash").exists() else b"",
            "hooks": sorted(os.listdir(own / "hooks")) if (own / "hooks").is_dir() else [],
            "shallow": (own / "shallow").exists(),
            "files of git": [name for name in names if name not in {"logs", "lfs", "modules", "ORIG_HEAD"}],
            "files": files,
            "the lost commit": alive.returncode,
        }

    def changes(self) -> list[str]:
        """Return what is not as it was. Branches that were made since are the agent's."""
        now = self.state()
        found = [key for key in self.before if key != "refs" and now[key] != self.before[key]]
        before, after = self.before["refs"], now["refs"]
        assert isinstance(before, dict) and isinstance(after, dict)
        found += [
            f"{ref}: {line} is {after.get(ref, 'gone')}" for ref, line in before.items() if after.get(ref) != line
        ]
        made = [ref for ref in after if ref not in before and not ref.startswith(("refs/heads/", "refs/remotes/"))]
        return found + [f"{ref} is new" for ref in made]


def _is_persons(line: str) -> bool:
    name = line.split()[0]
    return not name.startswith(("refs/heads/teamwright/", "refs/teamwright/", "refs/remotes/"))


FAULTS: list[Callable[[Path], object]] = [
    shutil.rmtree,
    lambda tree: tree.rename(tree.with_name(f"{tree.name}.moved")),
    lambda tree: (tree / ".git").unlink(),
    lambda tree: _replace_by_copy(tree),
    lambda tree: [path.unlink() for path in tree.rglob("*.c")],
    lambda tree: _empty(tree),
]
"""What other programs do to a worktree."""


def _replace_by_copy(tree: Path) -> None:
    other = tree.with_name(f"{tree.name}.copy")
    shutil.copytree(tree, other, symlinks=True)
    shutil.rmtree(tree)
    other.rename(tree)


def _empty(tree: Path) -> None:
    text = (tree / ".git").read_bytes()
    shutil.rmtree(tree)
    tree.mkdir()
    (tree / ".git").write_bytes(text)


async def run_sequences(
    seed: int, *, most: int, seconds: float = math.inf, product: int = 0, until_violation: bool = False
) -> Figures:
    """Run so many sequences, or fewer when the time is over. Each has a seed of its own, which a violation names."""
    figures = Figures()
    ends = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="teamwright-fuzz-") as name:
        top, repository = Path(name).resolve(), None
        while figures.sequences < most and time.monotonic() < ends:
            if repository is None or figures.sequences % SEQUENCES_OF_A_REPOSITORY == 0:
                if repository is not None:
                    shutil.rmtree(repository.top, ignore_errors=True)
                repository = Repository(top / f"r{figures.sequences}")
            own = seed * 1_000_003 + figures.sequences
            in_product = bool(product) and figures.sequences % product == product - 1
            run = _run_in_product if in_product else _run_sequence
            said = await run(repository, random.Random(own), figures)
            if changes := repository.changes():
                figures.violations.append("\n".join([f"sequence {figures.sequences} of seed {seed}", *said, *changes]))
                repository = None
            figures.sequences += 1
            if figures.violations and until_violation:
                break
    return figures


def _names(repository: Repository, branch: str) -> dict[str, str]:
    return {"checkout": str(repository.checkout), "own": branch}


async def _run_sequence(repository: Repository, chance: random.Random, figures: Figures) -> list[str]:
    """Let one agent work by the verdicts of its policy, complete its task and integrate it."""
    home = repository.top / "home"
    root, git_of = home / "worktrees", RepositoryGit.open(repository.checkout)
    record = create_worktree(git_of, root, Owner("crew", f"m{figures.sequences}", "s")).record
    scope = PermissionScope((repository.checkout,), private=(home,), base=repository.checkout)
    session = Policy(chance.choice([*[Mode.BYPASS] * 5, Mode.ACCEPT_EDITS]), (), scope)
    bounds = WorktreeBounds(record.tree, repository.checkout, record.branch)
    policy = Policy(session.mode, (), scope, (session,)).in_worktree(bounds)
    lines, said = Lines(chance, _names(repository, record.branch)), list[str]()
    for _ in range(chance.randrange(1, 5)):
        line = lines.make()
        figures.lines += 1
        verdict = policy.decide("Bash", Access(command=line, cwd=record.tree)).verdict
        said.append(f"{verdict}: {line}")
        if verdict is not Verdict.ALLOW:
            figures.asked += 1
        elif record.tree.is_dir():
            figures.run += 1
            await asyncio.to_thread(_run_line, line, record, repository)
    if chance.random() < 0.4:
        fault = chance.choice(FAULTS)
        said.append(f"fault {FAULTS.index(fault)}")
        with contextlib.suppress(OSError):
            fault(record.tree)
    said.append(await _complete(repository, git_of, record, root, figures))
    return said


def _run_line(line: str, record: WorktreeRecord, repository: Repository) -> None:
    env = {**ENV, "HOME": str(repository.top), "GIT_EDITOR": "true", "GIT_PAGER": "cat"}
    call = ["bash", "-c", line]
    with contextlib.suppress(subprocess.TimeoutExpired, OSError):
        subprocess.run(
            call,
            cwd=record.tree,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LINE_S,
            check=False,
        )


async def _complete(
    repository: Repository, git_of: RepositoryGit, record: WorktreeRecord, root: Path, figures: Figures
) -> str:
    tip = git_of.commit_of(f"refs/heads/{record.branch}")
    try:
        work = await MemberWorktree(git_of, record, PLAIN).save(TASK, record.member)
        if work is None:
            figures.completions["without commits"] += 1
            return "nothing to integrate"
        if work.tip != tip:
            _check_composed(repository, tip, work.tip, figures)
        queue = Integration(git_of, root, "crew", FileIntegrationStore(root.parent / "queue"), PLAIN)
        entry = await queue.work(await queue.add_task(TASK.id, work, record.member))
        figures.completions[str(entry.state)] += 1
    except TeamwrightError as problem:
        figures.completions["refused"] += 1
        return f"refused: {problem.what}"
    return str(entry.state)


def _check_composed(repository: Repository, tip: str, made: str, figures: Figures) -> None:
    """Note a commit of the runtime that deletes all files, or that has private, generated or large ones."""
    changed = git(repository.checkout, "diff-tree", "-r", "--name-status", "--no-renames", tip, made).splitlines()
    tracked = git(repository.checkout, "ls-tree", "-r", "--name-only", made).splitlines()
    bad = [line for line in changed if line[0] == "A" and any(name in line for name in (".env", "node_modules", "big"))]
    if bad or not tracked:
        figures.violations.append(f"a composed commit has {bad} and {len(tracked)} files")


async def _run_in_product(repository: Repository, chance: random.Random, figures: Figures) -> list[str]:
    """Let a member of a session run the lines, and complete its task."""
    digest = hashlib.sha256(str(repository.top).encode()).hexdigest()[:4]
    name = f"crew{digest}{figures.sequences}"
    lines = Lines(chance, _names(repository, f"teamwright/{name}/ann"))
    said = [lines.make() for _ in range(chance.randrange(1, 4))]
    calls = [("Bash", {"command": line, "timeout": 10_000}) for line in said]
    update = ("TaskUpdate", {"taskId": "1", "status": "completed"})
    script = {"lead": ["ok"] * 30, "ann": ["Waiting.", *calls, update, *["Done."] * 20]}
    former = os.environ.get(HOME)
    os.environ[HOME] = str(repository.top / "product")
    try:
        mode = chance.choice(["bypassPermissions", "acceptEdits"])
        async with Team(name, model=ScriptedModel(script), cwd=repository.checkout, permission_mode=mode) as team:
            await team.spawn("ann", "Wait.", isolation="worktree")
            await team.tasks.add("Fuzz", metadata={"for": ["ann"]})
            async with asyncio.timeout(60):
                while not team.session.team.is_quiet():
                    team.session.team.changed.clear()
                    if not team.session.team.is_quiet():
                        await team.session.team.changed.wait()
            figures.completions[f"product {(await team.tasks.all())[0].status}"] += 1
    finally:
        if former is None:
            del os.environ[HOME]
        else:
            os.environ[HOME] = former
    figures.lines += len(said)
    return [f"in the product: {line}" for line in said]
