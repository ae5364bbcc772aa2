"""W9: a worktree for an agent: its record, branch, ports and lock, on a small repository and on a larger one.

Baseline: `git worktree add` alone, on a new branch. The two alternate, so that a busy machine slows both.
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from bench.report import Goal, Report
from teamwright.worktrees.repository_git import RepositoryGit
from teamwright.worktrees.worktree_creation import Owner, create_worktree

COLUMNS = ("files", "ours_ms", "floor_ms", "ratio")
SIZES = (100, 3_000)
PAIRS = 10
"""Worktrees of each kind in a round."""
MUST = 1.2
"""The most that a worktree may cost, over `git worktree add` alone."""


def run(rounds: int, *, quick: bool) -> Report:
    """Measure the sizes and return them with the goals."""
    report = Report("w9", COLUMNS)
    for files in SIZES[:1] if quick else SIZES:
        with tempfile.TemporaryDirectory(prefix="teamwright-bench-") as root:
            report.rows.append(_measure(Path(root), files, PAIRS * rounds))
    for row in report.rows:
        report.goals.append(Goal(f"a worktree of {row['files']} files over `git worktree add`", row["ratio"], MUST))
    report.notes = ["ratio: the median of the pairs, each over the `git worktree add` before it."]
    return report


def _measure(root: Path, files: int, pairs: int) -> dict[str, float]:
    shop = root / "shop"
    _make_repository(shop, files)
    git = RepositoryGit.open(shop)
    ours: list[float] = []
    floors: list[float] = []
    for number in range(pairs + 1):
        floors.append(_ms(lambda number=number: _add(shop, root / f"floor-{number}")))
        owner = Owner("bench", f"m{number}", "s")
        ours.append(_ms(lambda owner=owner: create_worktree(git, root / "home", owner)))
    del ours[0], floors[0]  # files are in memory afterwards
    ratio = statistics.median(one / floor for one, floor in zip(ours, floors, strict=True))
    return {"files": files, "ours_ms": statistics.median(ours), "floor_ms": statistics.median(floors), "ratio": ratio}


def _ms(call: object) -> float:
    assert callable(call)
    begun = time.perf_counter()
    call()
    return (time.perf_counter() - begun) * 1000


def _add(shop: Path, target: Path) -> None:
    _git(shop, "worktree", "add", "--quiet", "-b", target.name, str(target), "HEAD")


def _make_repository(shop: Path, files: int) -> None:
    shop.mkdir()
    _git(shop, "init", "-q", "-b", "main")
    for number in range(files):
        path = shop / f"d{number % 50}" / f"f{number}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{number}\n" * 50)
    _git(shop, "add", "-A")
    _git(shop, "-c", "user.name=b", "-c", "user.email=b@localhost", "commit", "-q", "-m", "files")


def _git(cwd: Path, *args: str) -> None:
    subprocess.run(["git", *args], cwd=cwd, check=True, capture_output=True)
