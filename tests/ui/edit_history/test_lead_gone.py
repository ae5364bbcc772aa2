"""The lead was killed, and a member's own process lives: an undo waits for it, unless the person insists."""

from pathlib import Path

import pytest

from tests.teams.member_processes.started_members import Marked, nobody_left
from tests.ui.member_processes.house import DETACHED, house, until
from tests.ui.program import error_of
from tests.ui.subagents.play import Held, agent, call

pytestmark = [pytest.mark.promise("K6", "P5"), pytest.mark.slow]


@pytest.fixture
def marked(monkeypatch: pytest.MonkeyPatch):
    """Whoever the test starts has its mark; after it nobody lives."""
    with nobody_left() as found:
        monkeypatch.setenv(*next(iter(found.env.items())))
        yield found


def test_an_undo_is_refused_while_a_members_process_outlives_its_lead(repo: Path, own_home: Path, marked: Marked):
    held = Held("ann's report.")
    lead = [agent("JOB ann", name="ann"), *["I wait."] * 3]
    ann = [call("Write", file_path="hers.txt", content="hers\n"), held]
    with house(repo, own_home / ".teamwright", DETACHED, marked, lead, ann=ann) as here:
        here.start()
        held.come()
        here.kill_lead()
        assert "hers.txt (created)  +1 -0  ann 1 edit" in here.program.run("diff").stdout
        refused = here.program.run("undo", "--yes")
        slug, lines = error_of(refused)
        assert (refused.returncode, slug) == (1, "undo-refused")
        assert "ann has a process and may be at work" in lines[0] and "teamwright stop session-" in "\n".join(lines)
        assert (repo / "hers.txt").exists()
        forced = here.program.run("undo", "--yes", "--force")
        assert forced.returncode == 0, forced.stderr
        assert "removed    hers.txt  (ann)" in forced.stdout and not (repo / "hers.txt").exists()
        held.go()
        until(lambda: "ann's report." in here.told("ann"))
        assert here.program.run("stop", here.team().name).returncode == 0
