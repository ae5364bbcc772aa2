"""`teamwright demo --panes` as a user runs it: inside tmux and outside, and nothing is left."""

import re
import subprocess
import sys

import pytest

from tests.support.programs import needs
from tests.support.waits import WAIT_S
from tests.ui.demo_runs import Stage
from tests.ui.histories import invented, snapshot

pytestmark = needs("tmux")


@pytest.fixture
def stage(tmp_path) -> Stage:
    return Stage(tmp_path / "stage")


@pytest.fixture
def place(tmp_path):
    return invented("python and go", 35, commits=30).write(tmp_path / "shown")


def members_of(root) -> list[str]:
    """Processes of members that were started there and still live."""
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if "--agent-id" in line and str(root) in line]


@pytest.mark.slow
@pytest.mark.promise("E2", "E6", "K5")
def test_outside_tmux_the_members_live_in_a_session_of_their_own_that_is_named(stage, place, monkeypatch):
    monkeypatch.delenv("TMUX", raising=False)
    monkeypatch.delenv("TMUX_PANE", raising=False)
    before = snapshot(place)
    done = stage.run("demo", "--panes", "--pace", "0", cwd=place)
    assert done.returncode == 0, done.stdout + done.stderr
    [socket] = set(re.findall(r"see it with: tmux -S (\S+) attach", done.stdout))
    assert "4 agents · 6 tasks" in done.stdout
    assert "every number has a receipt" in done.stdout
    assert snapshot(place) == before
    listed = subprocess.run(["tmux", "-S", socket, "list-panes", "-a"], capture_output=True, text=True, check=False)
    assert listed.returncode != 0, "its server has ended"


@pytest.mark.slow
@pytest.mark.promise("E2", "E5", "K5")
def test_inside_tmux_they_live_beside_the_lead_and_leave_its_pane_as_it_was(stage, place, tmp_path):
    server = ["tmux", "-S", str(tmp_path / "socket"), "-f", "/dev/null"]
    env = {**stage.environment, "TERM": "xterm-256color"}
    demo = [sys.executable, "-m", "teamwright", "demo", "--panes", "--pace", "0"]
    run = f"{subprocess.list2cmdline(demo)} >{tmp_path}/out 2>&1; echo $? >{tmp_path}/code; tmux wait-for -S over; cat"
    subprocess.run([*server, "new-session", "-d", "-x", "160", "-y", "40", "-c", str(place), run], env=env, check=True)
    try:
        subprocess.run([*server, "set-option", "-g", "base-index", "1"], env=env, check=True)
        subprocess.run([*server, "wait-for", "over"], env=env, check=True, timeout=WAIT_S)
        out = (tmp_path / "out").read_text()
        assert (tmp_path / "code").read_text().strip() == "0", out
        assert "4 agents · 6 tasks" in out
        listed = subprocess.run([*server, "list-panes", "-a"], env=env, capture_output=True, text=True, check=True)
        assert len(listed.stdout.splitlines()) == 1, "only the lead's pane is left"
    finally:
        subprocess.run([*server, "kill-server"], env=env, check=False, capture_output=True)
    assert members_of(stage.root) == []


@pytest.mark.promise("K5")
@pytest.mark.parametrize("other", [["--kill"], ["--ask"], ["--backend", "detached"]])
@pytest.mark.slow_after(1)
def test_what_does_not_go_with_it_is_refused(stage, place, other):
    done = stage.run("demo", "--panes", *other, cwd=place)
    assert done.returncode == 2
    assert "goes without" in done.stderr
