"""Pairs of mechanisms with members in processes of their own."""

import json
import os
import re
import signal

import pytest

from tests.pairs.parts import READY, SHORT_WAIT, bash, cost_rows, given, hook, serve, servers, update, write
from tests.support.leftovers import await_end
from tests.ui.edit_history.test_diff_and_undo import undo
from tests.ui.member_processes.house import BYPASS, until
from tests.ui.program import words_of
from tests.ui.subagents.play import Held, agent, call

pytestmark = pytest.mark.usefixtures("unconfined")


@pytest.mark.finding("3S12")
@pytest.mark.slow_after(1)
def test_a_member_process_has_hooks_servers_sub_agents_and_jobs_and_its_usage_and_edits_are_known(
    detached, repo, tmp_path
):
    pid, log = tmp_path / "pid", tmp_path / "log"
    ada = [
        serve("served.txt"),
        write("a.txt"),
        agent("JOB kid"),
        bash(f"echo $$ > {pid}; exec sleep 300", run_in_background=True),
        bash(f"while [ ! -s {pid} ]; do sleep 0.05; done"),
        "Done.",
    ]
    lead = [agent("JOB ada", name="ada"), "Wait.", "Seen.", "ok"]
    session = detached(lead, ada=ada, kid=[write("k.txt"), "made"], ask=['{"ok": true}'] * 2)
    hooks = hook("PreToolUse", "Write", type="command", command=f"cat >> {log}; echo >> {log}")
    hooks["PreToolUse"] += hook("PreToolUse", "Bash", type="prompt", prompt="JOB ask $ARGUMENTS")["PreToolUse"]
    session.set(mcpServers=servers(), hooks=hooks, agents=SHORT_WAIT)
    session.start("go", "--output-format", "json")
    code, out, err = session.end()
    assert code == 5 and "cut off at work: ada's command" in err
    told = [json.loads(line) for line in log.read_text().splitlines() if line]
    kid = told[1]["agent_id"]
    assert told[0]["teammate_name"] == "ada" and told[0]["tool_input"]["file_path"] == "a.txt"
    assert told[1]["tool_input"]["file_path"] == "k.txt" and re.fullmatch("a[0-9a-f]{6}", kid)
    server = int(session.play.results("ada")[0].split()[-1])
    assert all(map(await_end, (int(pid.read_text()), server)))
    rows, used = cost_rows(session.program), json.loads(out)["modelUsage"]
    assert rows["ada"][0] == str(len(session.play.asked("ada")) + 2), "with the two calls of its hooks"
    assert rows[kid][0] == "2"
    assert rows["all"][2] == f"{sum(one['inputTokens'] for one in used.values()):,}"
    assert {one["path"] for one in undo(session.program, "--member", "ada")["files"]} == {"a.txt", "k.txt"}
    assert (repo / "served.txt").exists()


@pytest.mark.slow_after(1)
def test_a_plan_of_a_member_process_is_approved_once_after_a_kill_of_the_lead(detached, repo):
    held = Held("Never sent.")

    def approve(body):
        found = re.search(r'"request_id": "([^"]+)", "approve": true', words_of(body))
        assert found is not None
        answer = {"type": "plan_approval_response", "request_id": found[1], "approve": True}
        return call("SendMessage", to="ada", message=answer, summary="yes")

    ada = [call("ExitPlanMode", plan="1. write"), write("done.txt"), "Done."]
    session = detached([agent("JOB ada", name="ada", mode="plan"), held, approve, "Approved.", "ok"], ada=ada)
    session.lead = session.program.start("-p", "go", "--permission-mode", "acceptEdits")
    until(lambda: [one for one in session.of("message_sent", "ada") if "plan" in one["wire"]], "its plan")
    session.kill_lead()
    held.go()
    done = session.program.run("resume", session.session, "-p", "--permission-mode", "acceptEdits")
    assert done.returncode == 0, done.stderr
    assert (repo / "done.txt").exists()
    assert [text for text in session.play.results() if "is approved" in text]
    session.once()


@pytest.mark.slow_after(1)
def test_a_grant_for_the_session_reaches_a_member_process_and_ends_with_a_kill(detached, repo, tmp_path):
    outside, once, held = tmp_path / "outside", tmp_path / "once", Held("Never sent.")
    outside.mkdir()
    for name in "fg":
        (outside / name).write_text(name.upper())
    grant = {"type": "addDirectories", "directories": [str(outside)], "destination": "session"}
    decision = {"behavior": "allow", "updatedPermissions": [grant]}
    out = json.dumps({"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}})
    read_f, read_g = (call("Read", file_path=str(outside / name)) for name in "fg")
    session = detached(
        [agent("JOB ada", name="ada"), "Wait.", "Seen.", "ok"], ada=[read_f, read_g, held, read_g, "Ended."]
    )
    asks = hook("PermissionRequest", "", type="command", command=f"[ -e {once} ] || echo '{out}'; touch {once}")
    session.set(hooks=asks)
    session.lead = session.program.start("-p", "go")
    held.come()
    [ada] = session.marked.members("ada")
    os.kill(ada, signal.SIGKILL)
    session.kill_lead()
    assert await_end(ada)
    held.go()
    done = session.program.run("resume", session.session, "-p")
    assert done.returncode == 0, done.stderr
    first, second, after = session.play.results("ada")
    assert "F" in first and "G" in second, "the second reading was not asked about"
    assert after.startswith("This call was not allowed"), "a resume does not keep the grant"


@pytest.mark.slow_after(1)
def test_a_background_command_of_a_killed_member_process_ends_and_its_resume_is_told(detached, repo, tmp_path):
    pid, held = tmp_path / "pid", Held("Never sent.")
    job = bash(f"echo $$ > {pid}; exec sleep 300", run_in_background=True)
    ada = [job, bash(f"while [ ! -s {pid} ]; do sleep 0.05; done"), held, "Ended."]
    session = detached([agent("JOB ada", name="ada"), "Wait.", "Seen.", "ok"], ada=ada)
    session.set(agents=SHORT_WAIT)
    session.start("go")
    held.come()
    [process] = session.marked.members("ada")
    os.kill(process, signal.SIGKILL)
    session.kill_lead()
    held.go()
    assert session.resume().returncode == 0
    assert await_end(int(pid.read_text()))
    assert words_of(session.play.asked("ada")[-1]).count("was killed: it ended with the process that ran it") == 1


@pytest.mark.slow_after(1)
def test_a_review_by_a_member_process_counts_once_and_an_undo_leaves_the_task_completed(detached, repo):
    ann = [READY, write("ann.txt"), agent("JOB kid"), update(status="completed"), "Done."]
    rev = [READY, update(review="approve", comment="fine"), "Reviewed."]
    lead = [agent("JOB rev", name="rev"), "Wait for its report."]
    lead += [agent("JOB ann", name="ann"), given("ann", metadata={"review": "member"})]
    session = detached([*lead, "Wait.", *["Seen."] * 6], ann=ann, rev=rev, kid=[write("kid.txt"), "made"])
    session.start("go")
    code, _, err = session.end()
    assert code == 0, err
    shown = words_of(session.play.asked("rev")[-1])
    assert "Review the finished work of ann" in shown
    assert "ann.txt" in shown and "kid.txt" in shown, "the work of its sub-agents is reviewed too"
    done = [one["task"] for one in session.of("task_changed") if one["task"]["status"] == "completed"]
    assert done and done[-1]["id"] == "1"
    undo(session.program, "--member", "ann")
    assert not (repo / "ann.txt").exists()
    assert [one["task"] for one in session.of("task_changed") if one["task"]["status"] == "completed"] == done
    session.once()


@pytest.mark.slow_after(1)
def test_the_worktree_of_a_member_process_that_a_resume_took_over_is_named_at_the_end(detached, repo):
    held = Held("Ended.")
    ada = [write("a.txt"), held]
    session = detached([agent("JOB ada", name="ada", isolation="worktree"), "Wait.", "Seen.", "ok"], ada=ada)
    session.start("go")
    held.come()
    session.kill_lead()
    session.lead = session.program.start("resume", session.session, "-p", BYPASS)
    until(lambda: len(session.of("session_opened")) == 2, "the resume")
    held.go()
    code, _, err = session.end()
    assert code == 0 and "the worktree of ada stays: 1 untracked file (a.txt)" in err
