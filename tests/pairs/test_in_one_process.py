"""Pairs of mechanisms in a session whose agents run in one process."""

import json
from pathlib import Path

import pytest

from tests.pairs.parts import (
    LATE,
    READY,
    SHORT_WAIT,
    bash,
    cost_rows,
    given,
    hook,
    serve,
    served_text,
    servers,
    tree_of,
    update,
    when_ready,
    write,
)
from tests.support.leftovers import await_end
from tests.support.model_requests import newest_text
from tests.support.programs import needs
from tests.support.repositories import git
from tests.support.waits import WAIT_S
from tests.ui.edit_history.test_diff_and_undo import diff, undo
from tests.ui.member_processes.house import BYPASS
from tests.ui.program import words_of
from tests.ui.subagents.play import Files, Held, agent, call

pytestmark = pytest.mark.usefixtures("unconfined")

REQUEST = "Review the finished work of ann"
"""The beginning of the message to a reviewer."""


@pytest.mark.promise("P5")
@pytest.mark.slow_after(1)
def test_a_background_command_ends_before_the_worktree_of_its_sub_agent_is_removed(opened, repo):
    """Otherwise the directory goes from a running command, and what it writes last is lost."""
    sub = [bash(LATE, run_in_background=True), when_ready, "made"]
    program, play = opened([agent("JOB sub", isolation="worktree"), "Done."], sub=sub)
    program.settings(agents=SHORT_WAIT)
    assert program.run("-p", "go", BYPASS).returncode == 0
    assert (tree_of(program) / "late.txt").read_text() == "late\n"
    assert "1 untracked file (late.txt)" in play.results()[0], "its caller is told of it"


@pytest.mark.finding("3S12")
def test_the_model_call_of_a_hook_is_in_the_cost_and_leaves_the_size_of_the_conversation(opened, repo):
    program, _ = opened([bash("true"), '{"ok": true}', "Done."])
    program.settings(hooks=hook("PreToolUse", "Bash", type="prompt", prompt="Is it right? $ARGUMENTS"))
    done = program.run("-p", "go", BYPASS, "--output-format", "json")
    result = json.loads(done.stdout)
    by_model = [one["inputTokens"] for one in result["modelUsage"].values()]
    assert len(by_model) == 2 and sum(by_model) == result["usage"]["input_tokens"]
    assert cost_rows(program)["lead"][:3] == ["3", "1", f"{result['usage']['input_tokens']:,}"]
    asides = [one.get("aside", "") for one in events(program) if one["type"] == "model_call_ended"]
    assert asides == ["", "hook", ""]


def events(program) -> list[dict]:
    lines = Files(program.home).directory.joinpath("events.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.slow_after(1)
def test_undo_takes_back_edits_in_the_worktree_of_a_sub_agent_and_no_commit(opened, repo):
    sub = [write("kept.txt"), bash("git add kept.txt && git commit -qm kept"), write("sub.txt"), "made"]
    program, _ = opened([agent("JOB sub", isolation="worktree"), write("mine.txt"), "Done."], sub=sub)
    assert program.run("-p", "go", BYPASS).returncode == 0
    tree = tree_of(program)
    assert (tree / "sub.txt").exists() and not (repo / "sub.txt").exists()
    assert f"\n+++ b{tree}/sub.txt\n" in diff(program)
    took = {Path(one["path"]).name: one["did"] for one in undo(program)["files"]}
    assert took == {"mine.txt": "removed", "kept.txt": "removed", "sub.txt": "removed"}
    assert git(tree, "log", "--format=%s", "-1") == "kept", "git has it still"
    assert git(tree, "status", "--porcelain").split() == ["D", "kept.txt"]
    assert not (repo / "mine.txt").exists()


def test_undo_follows_the_input_that_a_hook_changed(opened, repo):
    changed = {"file_path": str(repo / "other.txt"), "content": "hooked\n"}
    out = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": changed}}
    program, _ = opened([write("a.txt"), "Done."])
    program.settings(hooks=hook("PreToolUse", "Write", type="command", command=f"echo '{json.dumps(out)}'"))
    assert program.run("-p", "go", BYPASS).returncode == 0
    assert (repo / "other.txt").read_text() == "hooked\n" and not (repo / "a.txt").exists()
    assert "other.txt (created)" in diff(program)
    assert [one["path"] for one in undo(program)["files"]] == ["other.txt"]
    assert not (repo / "other.txt").exists()


def test_the_file_of_a_server_is_no_edit_and_stays_at_an_undo(opened, repo):
    program, _ = opened([write("a.txt"), serve("served.txt"), "Done."])
    program.settings(mcpServers=servers())
    assert program.run("-p", "go", BYPASS).returncode == 0
    assert "served.txt" not in diff(program)
    assert [one["path"] for one in undo(program)["files"]] == ["a.txt"]
    assert (repo / "served.txt").exists()


def test_undo_gives_no_budget_back(opened, repo):
    program, _ = opened([write("a.txt"), "Done."])
    assert program.run("-p", "go", BYPASS).returncode == 0
    before = cost_rows(program)
    assert before["lead"][0] == "2"
    assert [one["did"] for one in undo(program)["files"]] == ["removed"]
    assert cost_rows(program) == before


def test_a_spent_budget_stops_background_commands_and_the_resume_reports_them_once(opened, repo, tmp_path):
    pid = tmp_path / "pid"
    job = bash(f"echo $$ > {pid}; exec sleep 300", run_in_background=True)
    program, play = opened([job, bash(f"while [ ! -s {pid} ]; do sleep 0.05; done")])
    assert program.run("-p", "go", BYPASS, "--max-turns", "2").returncode == 4
    assert await_end(int(pid.read_text()))
    play.lead[:] = ["I see.", "Nothing new."]
    for prompt in ("and now?", "again?"):
        assert program.run("-c", "-p", prompt, BYPASS).returncode == 0
    assert words_of(play.asked()[-1]).count("was stopped with exit code") == 1


def test_a_server_of_a_repository_runs_where_its_session_is_wherever_that_is_resumed(opened, repo, tmp_path):
    (repo / ".mcp.json").write_text(json.dumps({"mcpServers": servers()}))
    program, play = opened(["One.", serve("served.txt"), "Done."])
    program.run("trust", "--yes")
    assert program.run("-p", "go", BYPASS).returncode == 0
    program.cwd = tmp_path / "elsewhere"
    program.cwd.mkdir()
    assert program.run("-r", Files(program.home).id, "-p", "more", BYPASS).returncode == 0
    assert play.results()[0].startswith(str(repo / "served.txt"))
    assert (repo / "served.txt").exists() and not [*program.cwd.iterdir()]


@pytest.mark.slow_after(1)
def test_tools_and_agents_of_hooks_work_in_the_worktree_of_the_agent_of_the_event(opened, repo):
    sub = [write("sub.txt"), "made"]
    judge = [call("Read", file_path="sub.txt"), '{"ok": true}']
    program, play = opened([agent("JOB sub", isolation="worktree"), "Done."], sub=sub, judge=judge)
    use_tool = {"type": "mcp_tool", "server": "w", "tool": "write", "input": {"name": "hooked.txt"}}
    hooks = hook("PostToolUse", "Write", type="agent", prompt="JOB judge $ARGUMENTS")
    hooks["PostToolUse"] += hook("PostToolUse", "Write", **use_tool)["PostToolUse"]
    program.settings(hooks=hooks, mcpServers=servers(cwd="worktree"))
    done = program.run("-p", "go", "--permission-mode", "acceptEdits")
    assert done.returncode == 0, done.stderr
    tree = tree_of(program)
    assert (tree / "hooked.txt").exists() and not (repo / "hooked.txt").exists()
    assert play.results("judge")[0].endswith("x"), "it reads the file of the event"


@pytest.mark.slow_after(1)
def test_a_resumed_sub_agent_has_its_server_in_its_worktree_again(opened, repo):
    sub = [serve("one.txt"), "made", serve("two.txt"), "made more"]
    program, play = opened([agent("JOB sub", isolation="worktree"), "Done."], sub=sub)
    program.settings(mcpServers=servers(cwd="worktree"))
    assert program.run("-p", "go", BYPASS).returncode == 0
    [id] = Files(program.home).agent_ids()
    play.lead[:] = [call("Agent", description="more", prompt="Go on.", resume=id), "Done."]
    assert program.run("-c", "-p", "more", BYPASS).returncode == 0
    assert {path.name for path in tree_of(program).glob("*.txt")} == {"one.txt", "two.txt"}
    first, second = (text.split() for text in play.results("sub"))
    assert Path(first[0]).parent == Path(second[0]).parent and first[1] != second[1]


@pytest.mark.slow_after(1)
def test_a_spent_cap_leaves_the_work_of_a_sub_agent_in_its_worktree(opened, repo):
    sub = [write("sub.txt"), write("more.txt")]
    program, play = opened([agent("JOB sub", isolation="worktree", max_turns=1), "Done."], sub=sub)
    assert program.run("-p", "go", BYPASS).returncode == 0
    assert "budget_exceeded" in play.results()[0] and "1 untracked file (sub.txt)" in play.results()[0]
    assert (tree_of(program) / "sub.txt").exists()


def test_a_cap_that_a_sub_agent_spends_ends_the_run_and_a_larger_one_continues_it(opened, repo):
    program, play = opened([agent("JOB sub"), "Done."], sub=["made"])
    done = program.run("-p", "go", BYPASS, "--max-tokens", "9000")
    assert done.returncode == 4 and "--max-tokens N" in done.stderr
    assert program.run("-c", "-p", "more", BYPASS, "--max-tokens", "100000").stdout == "Done.\n"
    rows = cost_rows(program)
    [id] = Files(program.home).agent_ids()
    assert rows["all"][0] == str(int(rows["lead"][0]) + int(rows[id][0])), "both runs, both agents"
    assert len(play.asked()) == 2


@pytest.mark.slow_after(1)
def test_a_rewind_empties_the_worktree_of_a_sub_agent_which_continues_there(opened, repo):
    sub = [write("sub.txt"), "made", bash("ls"), "seen"]
    program, play = opened(["One.", agent("JOB sub", isolation="worktree"), "Done."], sub=sub)
    for prompt in (["-p", "one"], ["-c", "-p", "two"]):
        assert program.run(*prompt, BYPASS).returncode == 0
    assert program.run("rewind", "--to", "2", "--yes").returncode == 0
    assert not (tree_of(program) / "sub.txt").exists()
    [id] = Files(program.home).agent_ids()
    play.lead[:] = [call("Agent", description="more", prompt="Look.", resume=id), "Done."]
    assert program.run("-c", "-p", "three", BYPASS).returncode == 0
    assert play.results("sub")[-1].split() == ["README.md", "main.py"]


@pytest.mark.slow_after(1)
def test_a_completion_takes_the_work_of_sub_agents_and_leaves_the_last_words_of_a_command(opened, repo):
    """A member's commit has what its sub-agents wrote. What a background command writes later stays uncommitted."""
    job = [bash(LATE, run_in_background=True), when_ready]
    ann = [READY, write("ann.txt"), agent("JOB kid"), *job, update(status="completed"), "Done."]
    lead = [agent("JOB ann", name="ann", isolation="worktree"), given("ann"), "Wait.", "Seen."]
    program, _ = opened(lead, ann=ann, kid=[write("kid.txt"), "made"])
    program.settings(agents=SHORT_WAIT)
    assert program.run("-p", "go", BYPASS).returncode == 5, "the command was cut off"
    [branch] = git(repo, "for-each-ref", "--format=%(refname:short)", "refs/heads/teamwright/*/integration").split()
    assert set(git(repo, "ls-tree", "--name-only", branch).split()) == {"README.md", "main.py", "ann.txt", "kid.txt"}
    assert (tree_of(program) / "late.txt").exists()
    undo(program, "--member", "ann")
    assert not (tree_of(program) / "ann.txt").exists(), "the files of the worktree are as before"
    assert program.run("integrate", "--into", "main").returncode == 0
    assert (repo / "ann.txt").exists() and (repo / "kid.txt").exists(), "what was integrated is git's, not an edit"


@pytest.mark.slow_after(1)
def test_a_commit_whose_check_runs_when_the_budget_is_spent_is_merged_once(opened, repo, tmp_path):
    gate = tmp_path / "gate"

    def spend(_body):
        """Answer only when the check has begun: then the cap is spent while the commit is in the queue."""
        return bash(f"while [ ! -e {gate}.began ]; do sleep 0.05; done; touch {gate}")

    ann = [READY, write("ann.txt"), update(status="completed"), "Done."]
    lead = [agent("JOB ann", name="ann", isolation="worktree"), given("ann"), spend]
    program, play = opened(lead, ann=ann)
    program.settings(checks={"integration": f"touch {gate}.began; until [ -e {gate} ]; do sleep 0.05; done"})
    first = program.run("-p", "go", BYPASS, "--max-turns", "3")
    assert first.returncode == 4, first.stderr
    play.lead[:] = ["Seen.", "ok", "ok"]
    assert program.run("-c", "-p", "go on", BYPASS).returncode == 0
    assert git(repo, "log", "--all", "--format=%s").splitlines().count("Merge task 1 of ann") == 1


def test_a_run_names_the_branch_with_its_integrated_work_which_is_found_after_the_team_has_ended(opened, repo):
    lead = [agent("JOB ann", name="ann", isolation="worktree"), given("ann"), "Wait.", "Seen.", "Seen."]
    program, _ = opened(lead, ann=[READY, write("ann.txt"), update(status="completed"), "Done."])
    done = program.run("-p", "go", BYPASS)
    assert done.returncode == 0
    [branch] = git(repo, "branch", "--format=%(refname:short)", "--list", "teamwright/*/integration").split()
    team = branch.split("/")[1]
    own = git(repo, "branch", "--show-current").strip()
    named = f"finished work is on the branch {branch}: teamwright integrate {team} --into {own}"
    assert named in done.stderr
    assert program.run("integrate", "--into", own).returncode == 0
    assert (repo / "ann.txt").exists()
    again = program.run("integrate", "--into", own)
    assert again.returncode == 2 and "no team has" in again.stderr
    assert "finished work" not in program.run("-c", "-p", "more", BYPASS).stderr


@pytest.mark.slow_after(1)
def test_hooks_of_a_member_run_in_its_worktree_again_after_a_kill_and_undo_covers_both_processes(
    opened, repo, tmp_path
):
    places, held = tmp_path / "places", Held("Later.")
    program, play = opened(
        [agent("JOB ann", name="ann", isolation="worktree"), "Wait.", "Seen.", "ok"], ann=[write("a.txt"), held]
    )
    program.settings(hooks=hook("PreToolUse", "Write", type="command", command=f"pwd >> {places}"))
    process = program.start("-p", "go", BYPASS)
    held.come()
    process.kill()
    process.communicate(timeout=WAIT_S)
    held.go()
    play.parts["ann"][:] = [write("b.txt"), "Ended."]
    assert program.run("resume", Files(program.home).id, "-p", BYPASS).returncode == 0
    tree = tree_of(program)
    assert places.read_text().split() == [str(tree), str(tree)]
    assert {Path(one["path"]).name for one in undo(program)["files"]} == {"a.txt", "b.txt"}
    assert git(tree, "status", "--porcelain") == ""


def test_a_deny_rule_holds_for_the_input_that_a_hook_made_of_an_allowed_call(opened, repo):
    changed = {"file_path": str(repo / "secret.txt"), "content": "x"}
    out = {
        "hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": changed}
    }
    program, play = opened([write("a.txt"), "Done."])
    program.settings(
        permissions={"allow": ["Write(a.txt)"], "deny": ["Write(secret.txt)"]},
        hooks=hook("PreToolUse", "Write", type="command", command=f"echo '{json.dumps(out)}'"),
    )
    assert program.run("-p", "go").returncode == 0
    assert not (repo / "secret.txt").exists() and not (repo / "a.txt").exists()
    assert "The rule Write(secret.txt) forbids this" in play.results()[0]


@needs("bwrap")
def test_what_the_sandbox_refused_is_no_edit_and_what_it_allowed_is_taken_back(opened, repo, monkeypatch):
    monkeypatch.setenv("TEAMWRIGHT_SANDBOX", "required")
    before = (repo / ".git/config").read_text()
    program, play = opened([bash("echo x > made.txt; echo evil >> .git/config; echo y >> main.py"), "Done."])
    assert program.run("-p", "go", BYPASS).returncode == 0
    assert "refused to write .git/config" in play.results()[0]
    assert {one["path"]: one["did"] for one in undo(program)["files"]} == {"made.txt": "removed", "main.py": "restored"}
    assert (repo / ".git/config").read_text() == before


@needs("bwrap")
@pytest.mark.slow_after(1)
def test_a_confined_hook_and_server_work_in_the_worktree_of_the_agent_and_read_nothing_that_rules_deny(
    opened, repo, monkeypatch
):
    monkeypatch.setenv("TEAMWRIGHT_SANDBOX", "required")
    (repo / "secret.txt").write_text("DENIED")
    (repo / ".mcp.json").write_text(json.dumps({"mcpServers": servers(cwd="worktree")}))
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "a secret")
    sub = [
        write("sub.txt"),
        serve("served.txt"),
        served_text("secret.txt"),
        served_text(str(repo / "secret.txt")),
        "made",
    ]
    program, play = opened([agent("JOB sub", isolation="worktree"), "Done."], sub=sub)
    command = f"{{ echo formatted >> sub.txt; cat secret.txt {repo}/secret.txt; }} > seen.txt 2>&1; true"
    hooks = hook("PostToolUse", "Write", type="command", sandbox=True, command=command)
    program.settings(permissions={"deny": ["Read(secret.txt)"]}, hooks=hooks)
    program.run("trust", "--yes")
    done = program.run("-p", "go", BYPASS)
    assert done.returncode == 0 and "counts for nothing" not in done.stderr
    tree = tree_of(program)
    assert (tree / "sub.txt").read_text() == "x\nformatted\n" and (tree / "served.txt").exists()
    assert "DENIED" not in (tree / "seen.txt").read_text()
    assert not [text for text in play.results("sub")[2:] if "DENIED" in text]
    assert {Path(one["path"]).name for one in undo(program)["files"]} >= {"sub.txt"}
    assert not (tree / "sub.txt").exists(), "with what the hook made of it"


@needs("bwrap")
def test_a_resume_confines_commands_as_before(opened, repo, monkeypatch):
    monkeypatch.setenv("TEAMWRIGHT_SANDBOX", "required")
    forbidden = bash("echo evil >> .git/config")
    program, play = opened([forbidden, "One.", forbidden, "Two."])
    for args in (["-p", "one"], ["-c", "-p", "two"]):
        assert program.run(*args, BYPASS).returncode == 0
    assert all("refused to write .git/config" in text for text in play.results()) and len(play.results()) == 2


def test_a_person_takes_back_edits_of_a_file_that_rules_deny_to_agents(opened, repo):
    program, _ = opened([write("a.txt"), "Done."])
    assert program.run("-p", "go", BYPASS).returncode == 0
    program.settings(permissions={"deny": ["Write(a.txt)", "Edit(a.txt)"]})
    assert [one["did"] for one in undo(program)["files"]] == ["removed"]
    assert not (repo / "a.txt").exists()


def test_a_hook_that_refuses_a_completion_comes_before_the_review(opened, repo, tmp_path):
    refused = tmp_path / "refused"
    command = f"[ -e {refused} ] || {{ touch {refused}; echo 'Test it first.' >&2; exit 2; }}"
    done = update(status="completed")

    def approve_when_asked(body):
        return update(review="approve") if "review" in newest_text(body) else "Wait."

    lead = [agent("JOB ann", name="ann"), given("ann", metadata={"review": "lead"}), *[approve_when_asked] * 6]
    program, play = opened(lead, ann=[READY, write("ann.txt"), done, done, "Done."])
    program.settings(hooks=hook("TaskCompleted", "", type="command", command=command))
    assert program.run("-p", "go", BYPASS).returncode == 0
    first, second = play.results("ann")[1:]
    assert "Test it first." in first and "review" in second
    states = [one["task"]["review"] for one in events(program) if one["type"] == "task_changed"]
    assert sorted(set(states), key=states.index) == ["working", "waiting", "approved"]


@needs("bwrap")
def test_the_commands_of_a_reviewer_are_confined(opened, repo, monkeypatch):
    monkeypatch.setenv("TEAMWRIGHT_SANDBOX", "required")
    before = (repo / ".git/config").read_text()
    rev = [READY, bash("echo evil >> .git/config"), update(review="approve"), "Reviewed."]
    lead = [agent("JOB rev", name="rev"), agent("JOB ann", name="ann"), given("ann", metadata={"review": "member"})]
    ann = [READY, write("ann.txt"), update(status="completed"), "Done."]
    program, play = opened([*lead, "Wait.", *["Seen."] * 4], ann=ann, rev=rev)
    assert program.run("-p", "go", BYPASS).returncode == 0
    assert "refused to write .git/config" in play.results("rev")[0]
    assert (repo / ".git/config").read_text() == before
    done = [one["task"] for one in events(program) if one["type"] == "task_changed"][-1]
    assert (done["status"], done["review"]) == ("completed", "approved")


@needs("bwrap")
def test_a_command_that_the_sandbox_refused_is_charged_and_a_larger_budget_does_not_widen_it(opened, repo, monkeypatch):
    monkeypatch.setenv("TEAMWRIGHT_SANDBOX", "required")
    before = (repo / ".git/config").read_text()
    program, play = opened([bash("echo evil >> .git/config"), bash("echo evil >> .git/config")])
    assert program.run("-p", "go", BYPASS, "--max-turns", "2").returncode == 4
    assert cost_rows(program)["lead"] != [] and len(play.asked()) == 2
    play.lead[:] = [bash("echo evil >> .git/config"), "Done."]
    assert program.run("-c", "-p", "more", BYPASS, "--max-turns", "9").returncode == 0
    assert all("refused to write .git/config" in text for text in play.results())
    assert (repo / ".git/config").read_text() == before


def test_a_denied_call_is_charged_and_a_larger_budget_allows_nothing_more(opened, repo):
    program, play = opened([write("secret.txt"), write("secret.txt")])
    program.settings(permissions={"deny": ["Write(secret.txt)"]})
    assert program.run("-p", "go", BYPASS, "--max-turns", "2").returncode == 4
    assert len(play.asked()) == 2, "the denied call used up a part of the cap"
    play.lead[:] = [write("secret.txt"), write("a.txt"), "Done."]
    assert program.run("-c", "-p", "more", BYPASS, "--max-turns", "9").returncode == 0
    assert "The rule Write(secret.txt) forbids this" in play.results()[-2]
    assert (repo / "a.txt").exists() and not (repo / "secret.txt").exists()


@pytest.mark.slow_after(1)
def test_the_file_of_a_server_is_reviewed_and_merged_and_the_queue_starts_no_server(opened, repo, tmp_path):
    places, queued = tmp_path / "places", list[str]()

    def approve(body):
        if queued or REQUEST not in words_of(body):
            return "Seen."
        queued.append(git(repo, "for-each-ref", "refs/heads/teamwright/*/integration"))
        return update(review="approve")

    ann = [READY, serve("served.txt"), update(status="completed"), "Done."]
    lead = [agent("JOB ann", name="ann", isolation="worktree"), given("ann", metadata={"review": "lead"}), "Wait."]
    program, play = opened([*lead, *[approve] * 6], ann=ann)
    [server] = servers(cwd="worktree").values()
    line = f"pwd >> {places}; exec {' '.join([server['command'], *server['args']])}"
    program.settings(
        mcpServers={"w": {**server, "command": "/bin/sh", "args": ["-c", line]}},
        checks={"integration": f"echo check >> {places}; test -e served.txt"},
    )
    assert program.run("-p", "go", BYPASS).returncode == 0
    assert any("+from the server" in words_of(body) for body in play.asked()), "the lead reviews it"
    assert queued == [""], "nothing is integrated before the approval"
    [branch] = git(repo, "for-each-ref", "--format=%(refname:short)", "refs/heads/teamwright/*/integration").split()
    assert git(repo, "show", f"{branch}:served.txt") == "from the server"
    started = [line for line in places.read_text().splitlines() if line != "check"]
    assert "check" in places.read_text().split() and not any(".integration" in place for place in started)


def test_a_review_is_answered_while_a_command_of_the_author_still_runs(opened, repo, tmp_path):
    pid, alive = tmp_path / "pid", list[bool]()

    def approve(body):
        if alive or REQUEST not in words_of(body):
            return "Seen."
        alive.append(Path(f"/proc/{pid.read_text().strip()}").exists())
        return update(review="approve")

    job = bash(f"echo $$ > {pid}; exec sleep 300", run_in_background=True)
    started = bash(f"while [ ! -s {pid} ]; do sleep 0.05; done")
    ann = [READY, write("ann.txt"), job, started, update(status="completed"), "Done."]
    lead = [agent("JOB ann", name="ann"), given("ann", metadata={"review": "lead"}), "Wait."]
    program, _ = opened([*lead, *[approve] * 6], ann=ann)
    program.settings(agents=SHORT_WAIT)
    program.run("-p", "go", BYPASS)
    done = [one["task"] for one in events(program) if one["type"] == "task_changed"][-1]
    assert (done["status"], done["review"]) == ("completed", "approved")
    assert alive == [True] and await_end(int(pid.read_text()))
