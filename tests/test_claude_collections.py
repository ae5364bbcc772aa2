"""The counts of public collections: small checkouts with known parts, counted by the script that people run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.claude_collections import read_collection
from tests.support.waits import WAIT_S

ROOT = Path(__file__).parent.parent
MANIFEST = ROOT / "bench" / "claude_collections.json"
AGENT = "---\nname: {name}\ndescription: d\n---\nYou work.\n"
SKILL = "---\nname: {name}\ndescription: Does it.\n---\nText.\n"


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def folder(base: Path) -> Path:
    """A repository with a `.claude` folder, of which one hook and one agent cannot be used."""
    theirs = base / ".claude"
    put(theirs / "agents/good.md", AGENT.format(name="good"))
    put(theirs / "agents/odd.md", AGENT.format(name="odd").replace("\n---\nYou", "\nmaxTurns: many\n---\nYou"))
    put(theirs / "agents/ATTRIBUTION.md", "# Thanks\n")
    put(theirs / "commands/ui/ui:test.md", "Test $1.")
    put(theirs / "skills/notes/SKILL.md", SKILL.format(name="notes"))
    hooks = [{"type": "command", "command": "true"}, {"type": "wish"}]
    put(theirs / "settings.json", json.dumps({"hooks": {"Stop": [{"hooks": hooks}]}}))
    return base


def market(base: Path) -> Path:
    """A marketplace of two plugins: one in a directory, one that names skills of the marketplace's own directory."""
    put(base / "skills/a/SKILL.md", SKILL.format(name="a"))
    put(base / "skills/b/SKILL.md", SKILL.format(name="b"))
    put(base / "tools/agents/helper.md", AGENT.format(name="helper"))
    put(base / "tools/.claude-plugin/plugin.json", '{"name": "tools"}')
    entries = [
        {"name": "tools", "source": "./tools"},
        {"name": "one", "source": "./", "strict": False, "skills": ["./skills/a"]},
        {"name": "far", "source": {"source": "github", "repo": "a/b"}},
    ]
    put(base / ".claude-plugin/marketplace.json", json.dumps({"name": "m", "owner": {}, "plugins": entries}))
    return base


def counts(base: Path, scratch: Path) -> dict[str, tuple[int, int]]:
    scratch.mkdir()
    found = read_collection(base, scratch)
    return {group: found.count(group) for group in ("agents", "commands", "skills", "hooks")}


@pytest.mark.promise("row F8", "H4")
def test_the_parts_of_a_folder_are_counted_and_each_unused_one_has_its_reason(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    (tmp_path / "scratch").mkdir()
    found = read_collection(folder(tmp_path / "it"), tmp_path / "scratch")
    assert found.count("agents") == (1, 2) and found.documents == 1
    assert (found.count("commands"), found.count("skills"), found.count("hooks")) == ((1, 1), (1, 1), (1, 2))
    assert any("maxTurns must be" in why for why in found.reasons)
    assert any("'wish'" in why for why in found.reasons)


@pytest.mark.promise("row L6")
def test_a_plugin_of_a_marketplace_has_what_its_entry_names(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    made = counts(market(tmp_path / "it"), tmp_path / "scratch")
    assert made["agents"] == (1, 1) and made["skills"] == (1, 1), "the skill that no entry names belongs to no plugin"


@pytest.mark.slow_after(1)
def test_the_script_prints_the_counts_and_writes_names_and_counts_only(tmp_path):
    put(tmp_path / "loose/design/artist.md", AGENT.format(name="artist"))
    command = [sys.executable, "-m", "bench.claude_collections", str(tmp_path / "loose"), "--manifest"]
    done = subprocess.run(
        [*command, str(tmp_path / "made.json")], cwd=ROOT, capture_output=True, text=True, timeout=WAIT_S, check=True
    )
    assert "agents: 100.0 % used" in done.stdout
    [row] = json.loads((tmp_path / "made.json").read_text())
    assert row["name"] == "loose" and row["agents"] == {"used": 1, "all": 1}
    assert set(row) == {"name", "commit", "agents", "commands", "skills", "hooks"}


@pytest.mark.promise("row F8", "H4")
def test_the_committed_counts_keep_the_goals():
    rows = json.loads(MANIFEST.read_text())
    assert len(rows) >= 12 and all(len(row["commit"]) == 40 for row in rows)
    for group, goal in {"agents": 0.99, "commands": 0.9, "skills": 0.9}.items():
        used, every = (sum(row[group][key] for row in rows) for key in ("used", "all"))
        assert every > 300 and used >= goal * every
