"""The table of formats: every file that a team leaves in the state root or in a repository is in its tables."""

import json
import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.docs.places import at_work
from tests.support.waits import WAIT_S

PAGE = (ROOT / "docs" / "reference" / "formats" / "README.md").read_text()
TOPS = (
    "teams",
    "tasks",
    "projects",
    "archive",
    "plans",
    "guards",
    "governors",
    "worktrees",
    "integration",
    "mcp",
    "shell-snapshots",
    "agent-memory",
)


def listed() -> list[str]:
    """Every path of the tables; a name that is no path from the top stands beside the one before it in its row."""
    found: list[str] = []
    for cell in re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE):
        beside = ""
        for name in re.findall(r"`([^`]+)`", cell):
            top = name.partition("/")[0] in TOPS or name.startswith(".teamwright") or not beside
            found.append(name if top else f"{beside}{name}")
            beside = beside or name.rpartition("/")[0] + "/" * ("/" in name)
            beside = beside or "./"
    return [name.removeprefix("./") for name in found]


def pattern(path: str) -> re.Pattern[str]:
    """`<x>` is one name; what ends with `/` or `…` has anything below it."""
    parts = re.split(r"(<[^>]+>|…$|(?<=/)$)", path)
    return re.compile("".join("[^/]+" if p.startswith("<") else ".*" if p == "…" else re.escape(p) for p in parts))


def known(path: str) -> bool:
    tables = listed()
    return any(pattern(one).fullmatch(path) or (one.endswith("/") and pattern(one).match(path)) for one in tables)


def test_the_tables_are_read_as_they_are_meant():
    assert {"tasks/<dir>/.lock", "teams/<dir>/requests/<id>.answer.json", "trust.json"} <= set(listed())
    assert known("tasks/x/7.json")
    assert known("projects/a/b.jsonl")
    assert not known("projects/a/b/c")
    assert not known("tasks/x/7.yaml")


@pytest.mark.slow
def test_every_file_that_a_team_leaves_is_in_the_tables(tmp_path: Path):
    with at_work(tmp_path) as place:
        [asked] = json.loads(place.give("teamwright requests --json").out)
        for command in (
            f"teamwright requests allow {asked['id']} --always local",
            "teamwright trust --yes",
            'teamwright -p "Lead the team." --backend detached',
            'teamwright -p "Say so." --permission-mode plan',
            "teamwright teams rm review --force",
        ):
            if command.startswith("teamwright teams rm"):
                place.live.communicate(timeout=WAIT_S)  # the lead was allowed its call, and ends with its turn
            done = place.give(command)
            assert done.code == 0, f"{command}\n{done}"
    home, project = tmp_path / "home" / ".teamwright", place.directory
    made = [path.relative_to(home) for path in home.rglob("*") if not path.is_dir()]
    made += [path.relative_to(project) for path in (project / ".teamwright").rglob("*") if not path.is_dir()]
    assert len(made) > 40
    assert not sorted(str(path) for path in made if not known(str(path)))
