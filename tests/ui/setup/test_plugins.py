"""`teamwright plugin`: a plugin is shown, pinned and used as a unit; nothing of it runs before a person added it."""

import json
import os
import random
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from teamwright.config.plugins import InstalledPlugin, PluginStore, copy_plugin, digest_of
from teamwright.storage.paths import find_home
from teamwright.testing.model_server import LoopbackModel
from tests.ui.conftest import GIT
from tests.ui.program import Program

pytestmark = pytest.mark.promise("row L6")


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def git(directory: Path, *args: str) -> str:
    done = subprocess.run([*GIT, *args], cwd=directory, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A repository with a plugin whose hook leaves a trace where it runs."""
    base = tmp_path / "origin"
    put(base / ".claude-plugin/plugin.json", json.dumps({"name": "tracer", "version": "1.0.0"}))
    hook = {"type": "command", "command": 'echo ran >> "$CLAUDE_PLUGIN_DATA/trace"; sh "$CLAUDE_PLUGIN_ROOT/run.sh"'}
    put(base / "hooks/hooks.json", json.dumps({"hooks": {"SessionStart": [{"hooks": [hook]}]}}))
    put(base / "run.sh", "true\n")
    put(base / "commands/ship.md", "---\nallowed-tools: Bash(git push:*)\n---\nShip it.")
    put(base / "agents/helper.md", "---\nname: helper\ndescription: Helps.\n---\nYou help.")
    git(base, "init", "-q", "-b", "main")
    git(base, "add", "-A")
    git(base, "commit", "-q", "-m", "one")
    return base


@pytest.fixture
def program(tmp_path: Path, repo: Path) -> Program:
    return Program(repo, tmp_path / "home", env={"HOME": str(tmp_path / "user")})


def added(program: Program) -> dict[str, dict]:
    return {one["name"]: one for one in json.loads(program.run("plugin", "list", "--json").stdout)}


@pytest.mark.slow
def test_a_plugin_of_a_git_address_is_shown_and_pinned_and_then_used(tmp_path, program, origin):
    address = f"file://{origin}"
    trace = find_home(str(program.home)).own / "plugin-data/tracer/trace"
    shown = program.run("plugin", "add", address)
    assert shown.returncode == 1 and "Nothing was changed" in shown.stdout and not added(program)
    lines = shown.stdout.splitlines()
    first = lines.index("what it allows or runs") + 1
    assert "allows: Bash(git push:*)" in lines[first], "what it allows comes first"
    assert "hook SessionStart: echo ran" in lines[first + 1] and not trace.exists()
    done = program.run("plugin", "add", address, "--yes")
    assert done.returncode == 0, done.stderr
    [one] = added(program).values()
    assert (one["commit"], one["version"], one["state"]) == (git(origin, "rev-parse", "HEAD"), "1.0.0", "used")
    with LoopbackModel.in_thread(["Hello."]) as server:
        program.url = server.url
        assert program.run("-p", "Hi.").returncode == 0
    assert trace.read_text() == "ran\n"
    assert "tracer:helper" in program.run("agents", "list").stdout
    assert "tracer:ship" in program.run("check").stdout


@pytest.mark.slow
def test_a_later_commit_has_no_effect_until_a_person_updates(program, origin):
    assert program.run("plugin", "add", f"file://{origin}", "--yes").returncode == 0
    before = added(program)["tracer"]
    put(origin / "run.sh", "evil\n")
    git(origin, "commit", "-q", "-am", "two")
    assert added(program)["tracer"] == before
    assert "is up to date" not in program.run("plugin", "update").stdout
    assert added(program)["tracer"] == before, "it was shown only"
    assert program.run("plugin", "update", "tracer", "--yes").returncode == 0
    after = added(program)["tracer"]
    assert after["commit"] == git(origin, "rev-parse", "HEAD") != before["commit"]
    assert Path(after["directory"], "run.sh").read_text() == "evil\n" and not Path(before["directory"]).exists()
    assert "tracer is up to date." in program.run("plugin", "update").stdout


@pytest.mark.slow
def test_a_copy_that_changed_is_not_used_and_a_removed_plugin_is_gone(program, origin):
    assert program.run("plugin", "add", str(origin), "--yes").returncode == 0
    copy = Path(added(program)["tracer"]["directory"])
    put(copy / "run.sh", "changed by another program")
    assert "changed since" in added(program)["tracer"]["state"]
    assert "tracer:helper" not in program.run("agents", "list").stdout
    with LoopbackModel.in_thread(["Hello."]) as server:
        program.url = server.url
        done = program.run("-p", "Hi.")
    assert done.returncode == 0 and "the added plugin tracer is not used" in done.stderr
    removed = program.run("plugin", "remove", "tracer")
    assert removed.returncode == 0 and not added(program) and not copy.exists()
    assert program.run("plugin", "remove", "tracer").returncode == 2


@pytest.mark.slow
def test_a_marketplace_names_its_plugins_and_one_in_another_repository_is_fetched(tmp_path, program, origin):
    market = tmp_path / "market"
    put(market / "tools/skills/a/SKILL.md", "---\nname: a\ndescription: Does.\n---\nText.")
    entries = [
        {"name": "tools", "source": "./tools", "description": "Skills."},
        {"name": "tracer", "source": {"source": "url", "url": f"file://{origin}", "ref": "main"}},
        {"name": "odd", "source": {"source": "npm", "package": "x"}},
    ]
    put(market / ".claude-plugin/marketplace.json", json.dumps({"name": "m", "plugins": entries}))
    asked = program.run("plugin", "add", str(market))
    assert asked.returncode == 2 and "name the ones to add" in asked.stderr and "tracer" in asked.stderr
    assert program.run("plugin", "add", str(market), "odd", "--yes").returncode == 2
    assert program.run("plugin", "add", str(market), "tools", "tracer", "--yes").returncode == 0
    found = added(program)
    assert set(found) == {"tools", "tracer"} and found["tracer"]["commit"] == git(origin, "rev-parse", "HEAD")
    assert program.run("plugin", "update").stdout.count("is up to date") == 2
    other = program.run("plugin", "add", f"file://{origin}", "--yes")
    assert other.returncode == 2 and "was added from" in other.stderr, "a name has one source"


@pytest.mark.parametrize(
    "source", ["./nowhere", "https://user:secret@127.0.0.1/x.git", "ext::sh -c true", "-uhttp://x"]
)
@pytest.mark.slow_after(1)
def test_a_source_that_is_none_is_an_error_and_nothing_is_added(program, source):
    done = program.run("plugin", "add", "--yes", "--", source)
    assert done.returncode == 2 and not added(program)
    assert (
        "secret" not in (program.home / "plugins.json").read_text()
        if (program.home / "plugins.json").exists()
        else True
    )


@pytest.mark.slow
def test_no_link_leads_out_of_a_copy_and_a_mode_is_part_of_the_digest(tmp_path, program, origin):
    put(tmp_path / "secret", "x")
    os.symlink(tmp_path / "secret", origin / "stolen")
    os.symlink("run.sh", origin / "inside")
    assert program.run("plugin", "add", str(origin), "--yes").returncode == 0
    copy = Path(added(program)["tracer"]["directory"])
    assert not os.path.lexists(copy / "stolen") and (copy / "inside").is_symlink() and not (copy / ".git").exists()
    before = digest_of(copy)
    (copy / "run.sh").chmod(0o700)
    assert digest_of(copy) != before == PluginStore.load(find_home(str(program.home))).find("tracer").digest


def test_a_directory_without_any_part_of_a_plugin_is_refused(tmp_path, program):
    (tmp_path / "empty").mkdir()
    done = program.run("plugin", "add", str(tmp_path / "empty"), "--yes")
    assert done.returncode == 2 and "has no part of a plugin" in done.stderr and not added(program)


def test_plugins_that_are_added_at_the_same_time_are_all_there(tmp_path):
    home = find_home(str(tmp_path / "home"))
    home.prepare()
    stores = {f"p{n}": PluginStore.load(home) for n in range(4)}  # each process has read the file before any writes it

    def add(name: str) -> None:
        stores[name].add(InstalledPlugin(name=name, source="here", directory=str(tmp_path / name / "copy"), digest="0"))

    with ThreadPoolExecutor(len(stores)) as pool:
        list(pool.map(add, stores))
    assert set(PluginStore.load(home).plugins) == set(stores)
    stores["p0"].remove("p3")
    assert set(PluginStore.load(home).plugins) == {"p0", "p1", "p2"}


def test_an_unchanged_copy_of_a_plugin_stays_where_it_is_used(tmp_path, origin):
    home = find_home(str(tmp_path / "home"))
    place, digest = copy_plugin(origin, home, "tracer")
    before = place.stat().st_ino
    assert copy_plugin(origin, home, "tracer") == (place, digest) and place.stat().st_ino == before
    (place / "run.sh").write_text("changed\n")
    assert copy_plugin(origin, home, "tracer") == (place, digest) and digest_of(place) == digest


@pytest.mark.slow
@pytest.mark.parametrize("command", [("plugin", "update", "tracer", "--yes"), ("plugin", "add", "ORIGIN", "--yes")])
def test_a_kill_at_any_moment_of_a_change_of_plugins_leaves_the_plugin_usable(tmp_path, program, origin, command):
    address = f"file://{origin}"
    assert program.run("plugin", "add", address, "--yes").returncode == 0
    words = [address if word == "ORIGIN" else word for word in command]
    begun = time.monotonic()
    assert program.run(*words).returncode == 0
    whole = time.monotonic() - begun
    drawn = random.Random(21)
    for number in range(12):
        put(origin / "run.sh", f"true {number // 2}\n")
        git(origin, "commit", "-q", "--allow-empty", "-am", f"{number}")
        running = program.start(*words, start_new_session=True)
        try:
            running.wait(whole * drawn.random())
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):  # it may end at this moment
                os.killpg(running.pid, signal.SIGKILL)
        running.communicate()
        assert added(program)["tracer"]["state"] == "used"
    assert program.run(*words).returncode == 0


@pytest.mark.finding("3F12")
def test_of_several_plugins_all_or_none_are_added_and_all_are_named(tmp_path, program):
    market = tmp_path / "market"
    entries = [{"name": f"tool{n}", "source": f"./tool{n}", "description": "Skills."} for n in range(20)]
    for entry in entries[:19]:
        put(market / entry["name"] / "skills/a/SKILL.md", "---\nname: a\ndescription: Does.\n---\nText.")
    put(market / "tool19/empty.txt", "")
    put(market / ".claude-plugin/marketplace.json", json.dumps({"name": "m", "plugins": entries}))
    listed = program.run("plugin", "add", str(market))
    assert listed.returncode == 2
    assert all(entry["name"] in listed.stderr for entry in entries)
    for wrong in ("tool19", "nothing"):
        done = program.run("plugin", "add", str(market), "tool0", wrong, "tool1", "--yes")
        assert done.returncode == 2
        assert "nothing was added" in done.stderr
        assert wrong in done.stderr.splitlines()[0]
        assert not added(program)
    assert program.run("plugin", "add", str(market), "tool0", "tool1", "--yes").returncode == 0
    assert set(added(program)) == {"tool0", "tool1"}
