"""Pairs of mechanisms in a team whose state is in a database."""

import pytest

from tests.pairs.parts import READY, SHORT_WAIT, bash, cost_rows, given, hook, serve, servers, update, write
from tests.support.leftovers import await_end
from tests.ui.edit_history.test_diff_and_undo import diff, undo
from tests.ui.member_processes.house import BYPASS
from tests.ui.program import words_of
from tests.ui.subagents.play import Files, agent

pytestmark = pytest.mark.usefixtures("unconfined")


@pytest.mark.slow
def test_hooks_servers_sub_agents_jobs_reviews_and_undo_are_the_same_as_with_files(opened, repo, postgres, tmp_path):
    pid, places, address = tmp_path / "pid", tmp_path / "places", postgres.new_space()
    ann = [
        *(READY, serve("served.txt"), write("ann.txt"), agent("JOB kid")),
        bash(f"echo $$ > {pid}; exec sleep 300", run_in_background=True),
        *(bash(f"while [ ! -s {pid} ]; do sleep 0.05; done"), update(status="completed"), "Done."),
    ]

    def approve_when_asked(body):
        return (
            update(review="approve")
            if "Review the finished work of ann" in words_of({"messages": body["messages"][-1:]})
            else "Seen."
        )

    lead = [agent("JOB ann", name="ann"), given("ann", metadata={"review": "lead"}), "Wait."]
    program, play = opened([*lead, *[approve_when_asked] * 9], ann=ann, kid=[write("kid.txt"), "made"])
    noted = hook("PreToolUse", "Write", type="command", command=f"pwd >> {places}")
    program.settings(agents=SHORT_WAIT, mcpServers=servers(), hooks=noted)
    assert program.run("--database", address, "database", "init").returncode == 0
    done = program.run("--database", address, "-p", "go", BYPASS)
    assert done.returncode == 5 and "cut off at work: ann's command" in done.stderr, done.stderr
    assert "open tasks" not in done.stderr
    assert places.read_text().split() == [str(repo)] * 2
    assert await_end(int(pid.read_text()))
    [kid] = Files(program.home).agent_ids()
    rows = cost_rows(program, "--database", address)
    assert rows["ann"][0] == str(len(play.asked("ann"))) and rows[kid][0] == "2"
    assert "ann.txt" in diff(program) and "served.txt" not in diff(program)
    assert {one["path"] for one in undo(program)["files"]} == {"ann.txt", "kid.txt"}
    assert {path.name for path in repo.glob("*.txt")} == {"served.txt"}
