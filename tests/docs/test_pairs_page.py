"""docs/reference/pairs.md: each pair of mechanisms has one row, whose test exists or which says why there is none."""

import itertools
import re

from tests.docs.pages import ROOT

MECHANISMS = [
    *("sandbox", "permissions", "worktrees", "integration queue", "reviews", "hooks", "MCP servers", "sub-agents"),
    *("background commands", "member processes", "database", "resume", "undo", "budgets"),
]


def rows() -> list[tuple[str, str, str, str]]:
    """Both mechanisms of each row, what holds, and its tests."""
    found, first = [], ""
    for line in (ROOT / "docs/reference/pairs.md").read_text().splitlines():
        if line.startswith("## "):
            first = line.removeprefix("## ")
        elif line.startswith("| ") and not line.startswith("| with"):
            second, holds, test = (cell.strip() for cell in line.strip("|").split("|"))
            found.append((first.lower(), second.lower(), holds, test))
    return found


def test_each_pair_of_mechanisms_has_one_row():
    pairs = [(first, second) for first, second, _, _ in rows()]
    assert pairs == [(first.lower(), second.lower()) for first, second in itertools.combinations(MECHANISMS, 2)]


def test_each_test_that_a_row_names_exists_and_the_other_rows_say_why_there_is_none():
    missing, without = [], 0
    for first, second, holds, cell in rows():
        if cell == "none":
            assert len(holds.split()) > 5, f"{first} and {second}: no reason"
            without += 1
            continue
        for test in cell.split(", "):
            path, _, name = test.strip("`").partition("::")
            file = ROOT / "tests" / path
            if not file.exists() or not re.search(rf"^(?:async )?def {name}\(", file.read_text(), re.M):
                missing.append(test)
    assert not missing
    assert without <= 6
