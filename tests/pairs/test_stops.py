"""A member is asked to stop while something else keeps it busy."""

import pytest

from tests.ui.member_processes.house import until
from tests.ui.subagents.play import Held, agent

pytestmark = pytest.mark.usefixtures("unconfined")


@pytest.mark.slow
def test_a_stop_that_no_longer_waits_names_the_member_that_is_at_work_and_the_member_ends_later(detached):
    held = Held("Never sent.")
    session = detached([agent("JOB ada", name="ada"), "Wait.", "Seen.", "ok"], ada=[held])
    session.set(shutdown_objection_s=8)
    session.start("go")
    held.come()
    late = session.program.run("stop", f"ada@{session.team().name}", "--timeout", "1s")
    assert late.returncode == 1
    assert "ada has not ended yet; it was asked to stop" in late.stderr
    assert "does not answer" not in late.stderr
    until(lambda: not session.roster(), "the end of ada")
    code, _, err = session.end()
    assert code == 5 or code == 0, err
    assert "did not answer the shutdown request within 8 s" in session.told_lead()
