"""Hooks as people have them: a `.claude` folder taken as it is, the real program, a server on loopback."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from teamwright.processes.process_records import RECORDS_DIRECTORY
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from tests.session.hook_log import HookLog, unbalanced
from tests.support.model_requests import teammate_of
from tests.support.waits import WAIT_S
from tests.ui.conftest import GIT
from tests.ui.program import Mark, Program, error_of, told_results
from tests.ui.test_session_resume import alive

SETTINGS = """{
  "hooks": {
    "PreToolUse": [
      {
        "matcher": "Bash",
        "hooks": [
          {
            "type": "command",
            "command": "python3 \\"$CLAUDE_PROJECT_DIR\\"/.claude/hooks/block_push.py"
          }
        ]
      }
    ],
    "PostToolUse": [
      {
        "matcher": "Edit|MultiEdit|Write",
        "hooks": [
          {
            "type": "command",
            "command": "\\"$CLAUDE_PROJECT_DIR\\"/.claude/hooks/format.sh",
            "timeout": 30
          }
        ]
      }
    ],
    "Stop": [
      {
        "hooks": [
          {
            "type": "command",
            "command": "echo \\"$(date +%H:%M) the answer is there\\" >> \\"$CLAUDE_PROJECT_DIR\\"/notifications"
          }
        ]
      }
    ]
  }
}
"""

BLOCK_PUSH = """#!/usr/bin/env python3
import json
import re
import sys

data = json.load(sys.stdin)
if data.get("tool_name") != "Bash":
    sys.exit(0)
command = data.get("tool_input", {}).get("command", "")
if re.search(r"\\bgit\\s+push\\b", command):
    print("Pushing is for people: leave the commit, and say that it is ready.", file=sys.stderr)
    sys.exit(2)
"""

FORMAT = """#!/bin/bash
# Runs after Edit and Write: strips blanks from the ends of lines.
file_path=$(python3 -c 'import json,sys; print(json.load(sys.stdin)["tool_input"]["file_path"])')
case "$file_path" in
  *.py) sed -i 's/[[:space:]]*$//' "$file_path" ;;
esac
exit 0
"""


@pytest.fixture
def claude_folder(repo: Path) -> Path:
    """The repository with a `.claude` folder as somebody committed it, and a remote that could be pushed to."""
    hooks = repo / ".claude" / "hooks"
    hooks.mkdir(parents=True)
    (repo / ".claude" / "settings.json").write_text(SETTINGS)
    (hooks / "block_push.py").write_text(BLOCK_PUSH)
    (hooks / "format.sh").write_text(FORMAT)
    (hooks / "format.sh").chmod(0o755)
    remote = repo.parent / "remote.git"
    subprocess.run(["git", "init", "-q", "--bare", str(remote)], check=True)
    subprocess.run(["git", "remote", "add", "origin", str(remote)], cwd=repo, check=True)
    subprocess.run([*GIT, "add", "."], cwd=repo, check=True)
    subprocess.run([*GIT, "commit", "-q", "-m", "hooks"], cwd=repo, check=True)
    return repo


WORK = [
    Answer("I look.", tools=[("Read", {"file_path": "main.py"})]),
    Answer(tools=[("Edit", {"file_path": "main.py", "old_string": "'hello')", "new_string": "'bye')   "})]),
    Answer(tools=[("Write", {"file_path": "notes.txt", "content": "kept   \n"})]),
    Answer(tools=[("Bash", {"command": "git push origin HEAD"})]),
    Answer("Done."),
]


def pushed(repo: Path) -> str:
    return subprocess.run(["git", "ls-remote", "origin"], cwd=repo, capture_output=True, text=True, check=True).stdout


@pytest.mark.promise("G7", "K1")
@pytest.mark.slow
def test_three_hooks_of_a_claude_folder_work_unchanged(tmp_path, claude_folder):
    with LoopbackModel.in_thread(WORK) as server:
        program = Program(claude_folder, tmp_path / "home", server.url)
        done = program.run("-p", "Change the greeting.", "--trust", "--dangerously-skip-permissions")
        results = told_results(server.requests[-1].json)
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert (claude_folder / "main.py").read_text() == "print('bye')\n", "the formatter ran after Edit"
    assert (claude_folder / "notes.txt").read_text() == "kept   \n"
    assert "Pushing is for people" in results[-1]["text"] and not pushed(claude_folder)
    assert (claude_folder / "notifications").read_text().count("the answer is there") == 1
    assert "counts for nothing" not in done.stderr


@pytest.mark.promise("G7", "F60")
@pytest.mark.slow
def test_a_hook_that_runs_the_program_is_not_run_again_by_what_it_started(tmp_path, repo):
    """Without that each answer would start another run, and each of those another one."""
    runs, said = tmp_path / "runs", tmp_path / "said"
    with LoopbackModel.in_thread(["Done."] * 9) as server:
        program = Program(repo, tmp_path / "home", server.url)
        given = {name: value for name, value in program.environment.items() if name not in os.environ or "KEY" in name}
        env = " ".join(f"{name}={shlex.quote(value)}" for name, value in given.items())
        inner = f"env {env} {sys.executable} -m teamwright -p 'Sum it up.'"
        command = f"echo x >> {runs}; test $(wc -l < {runs}) -gt 3 || {inner} >> {said} 2>&1"
        other = {"type": "command", "command": f"echo y >> {runs}.other"}
        program.settings(hooks={"Stop": [{"hooks": [{"type": "command", "command": command}, other]}]})
        done = program.run("-p", "Do it.")
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert runs.read_text() == "x\n", said.read_text()
    assert "\nDone.\n" in said.read_text()
    assert Path(f"{runs}.other").read_text() == "y\ny\n", "other hooks are not touched by that"


@pytest.mark.promise("K1", "G7", "P7")
@pytest.mark.slow
def test_a_hook_of_a_repository_runs_what_was_trusted_from_any_directory(tmp_path, repo):
    for name, said in (("tools/note.sh", "trusted"), ("below/tools/note.sh", "nobody looked at this")):
        (repo / name).parent.mkdir(parents=True)
        (repo / name).write_text(f"echo {said}")
    hooks = {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "sh tools/note.sh"}]}]}
    (repo / ".claude").mkdir(exist_ok=True)
    (repo / ".claude" / "settings.json").write_text(json.dumps({"hooks": hooks}))
    with LoopbackModel.in_thread(["Done."]) as server:
        done = Program(repo / "below", tmp_path / "home", server.url).run("-p", "hi", "--trust")
    told = json.dumps(server.bodies[0]["messages"])
    assert done.returncode == 0 and "trusted" in told and "nobody looked" not in told


@pytest.mark.promise("G7", "P3")
@pytest.mark.slow
def test_a_guard_that_does_not_guard_is_told_on_stderr_without_being_asked(tmp_path, repo):
    slow = {"type": "command", "command": "sleep 60 & sleep 60", "timeout": 0.2}
    groups = {"PreToolUse": [{"matcher": "Bash", "hooks": [slow]}]}
    groups["SessionStart"] = [{"hooks": [{"type": "command", "command": "./missing.sh"}]}]
    call = Answer(tools=[("Bash", {"command": "true"})])
    with LoopbackModel.in_thread([call, "Done."]) as server:
        program = Program(repo, tmp_path / "home", server.url)
        program.settings(hooks=groups)
        done = program.run("-p", "hi")
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    assert "a hook of PreToolUse counts for nothing (sleep 60 & sleep 60): it was ended after 0.2 s" in done.stderr
    assert "a hook of SessionStart counts for nothing (./missing.sh): exit code 127" in done.stderr
    assert done.stderr.count("counts for nothing") == 2


@pytest.mark.promise("G7", "K1", "P7")
def test_hooks_of_a_repository_that_nobody_trusts_never_run(tmp_path, claude_folder):
    with LoopbackModel.in_thread([*WORK[:3], Answer("Done.")]) as server:
        program = Program(claude_folder, tmp_path / "home", server.url)
        done = program.run("-p", "Change the greeting.", "--dangerously-skip-permissions")
    assert done.returncode == 0, done.stderr
    assert (claude_folder / "main.py").read_text() == "print('bye')   \n"
    assert not (claude_folder / "notifications").exists()
    assert "not trusted" in done.stderr and "--trust" in done.stderr


@pytest.mark.promise("G7", "F44", "P7")
@pytest.mark.parametrize("there", [True, False])
@pytest.mark.slow_after(1)
def test_no_agent_changes_what_a_hook_runs_without_being_asked(tmp_path, repo, there):
    """Else whoever may edit files could have any program run, by the next hook."""
    script = repo / "scripts" / "look.sh"
    script.parent.mkdir()
    (repo / "evil").write_text(f"touch {tmp_path}/ran")
    if there:
        script.write_text("true")
    hook = {"type": "command", "command": 'sh "$CLAUDE_PROJECT_DIR"/scripts/look.sh'}
    work = [
        *([Answer(tools=[("Read", {"file_path": "scripts/look.sh"})])] if there else []),
        Answer(tools=[("Write", {"file_path": "scripts/look.sh", "content": f"touch {tmp_path}/ran"})]),
        Answer(tools=[("Bash", {"command": "cp evil scripts/look.sh"})]),
        Answer(tools=[("Bash", {"command": "mv scripts moved"})] if there else []),
        Answer(tools=[("Write", {"file_path": "scripts/other.sh", "content": "x"})]),
        Answer("Done."),
    ]
    with LoopbackModel.in_thread([one for one in work if one.tools or one.text]) as server:
        program = Program(repo, tmp_path / "home", server.url)
        program.settings(hooks={"PostToolUse": [{"hooks": [hook]}]})
        done = program.run("-p", "Change it.", "--permission-mode", "acceptEdits")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "ran").exists()
    assert (script.read_text() if script.exists() else None) == ("true" if there else None)
    assert (repo / "scripts" / "other.sh").exists(), "only what a hook runs is guarded"


@pytest.mark.promise("G7", "K1", "P7")
@pytest.mark.slow
def test_a_trusted_hook_whose_script_was_changed_waits_for_trust_again(tmp_path, claude_folder):
    with LoopbackModel.in_thread(["Done."]) as server:
        program = Program(claude_folder, tmp_path / "home", server.url)
        shown = program.run("trust", "--yes")
        assert shown.returncode == 0, shown.stderr
        assert program.run("-p", "Hello.").returncode == 0
        assert (claude_folder / "notifications").read_text().count("\n") == 1
        (claude_folder / ".claude" / "hooks" / "block_push.py").write_text("import os; os.system('touch evil')")
        done = program.run("-p", "Hello.")
    assert done.returncode == 0 and "not trusted" in done.stderr, done.stderr
    assert (claude_folder / "notifications").read_text().count("\n") == 1
    assert not (claude_folder / "evil").exists()


@pytest.mark.promise("G7")
def test_a_prompt_that_a_hook_refuses_is_an_error_with_its_words(tmp_path, repo):
    hooks = HookLog(tmp_path).on("UserPromptSubmit", "echo 'it holds a password' >&2; exit 2")
    with LoopbackModel.in_thread(["Hello."]) as server:
        done = Program(repo, tmp_path / "home", server.url).run("-p", "hunter2", "--settings", str(hooks.settings))
        assert not [one for one in server.requests if one.method == "POST"]
    assert done.returncode == 1
    slug, lines = error_of(done)
    assert slug == "hook-refused" and "it holds a password" in lines[0]


@pytest.mark.finding("C2")
@pytest.mark.slow
def test_setup_hooks_run_only_where_a_person_asks_for_them(tmp_path, repo):
    note = {"hookSpecificOutput": {"hookEventName": "Setup", "additionalContext": "node_modules is there"}}
    hooks = HookLog(tmp_path).on("Setup", f"echo '{json.dumps(note)}'", matcher="init").on("SessionStart")
    with LoopbackModel.in_thread(["Hello.", "Again."]) as server:
        program = Program(repo, tmp_path / "home", server.url)
        assert program.run("-p", "Hi.", "--settings", str(hooks.settings)).returncode == 0
        assert not hooks.of("Setup")
        assert program.run("-p", "Hi.", "--init", "--settings", str(hooks.settings)).returncode == 0
        [sent] = [one.body for one in server.requests if one.method == "POST"][1:]
    assert [event["hook_event_name"] for event in hooks.told[1:]] == ["Setup", "SessionStart"]
    assert hooks.of("Setup")[0]["trigger"] == "init" and b"node_modules is there" in sent
    both = program.run("-p", "Hi.", "--init", "--maintenance")
    assert both.returncode == 2


class Players:
    """A lead that starts ada and a sub-agent; whoever is told to waits at the mark until it is killed."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark
        self.held = True

    def __call__(self, body: dict) -> Answer:
        name = teammate_of(body)
        tools = {tool["name"] for tool in body.get("tools", ())}
        calls = len([m for m in body["messages"] if m["role"] == "assistant"])
        if name == "ada":
            return Answer("ada is ready.")
        if "TaskCreate" not in tools:
            return (
                Answer(tools=[("Bash", {"command": f"echo up > {self.mark}; sleep 600"})])
                if self.held
                else Answer("ok")
            )
        if calls == 0:
            return Answer(tools=[("Agent", {"name": "ada", "description": "help", "prompt": "Wait."})])
        if calls == 1:
            return Answer(tools=[("Agent", {"description": "look", "prompt": "Look.", "subagent_type": "Bash"})])
        return Answer("Over.")


@pytest.mark.promise("G7", "F69", "D8")
@pytest.mark.slow
def test_every_start_has_one_stop_also_after_a_kill_and_a_resume(tmp_path, repo):
    hooks = HookLog(tmp_path)
    for event in ("SessionStart", "SessionEnd", "SubagentStart", "SubagentStop"):
        hooks.on(event)
    mark = Mark(tmp_path / "up")
    players = Players(mark.path)
    flags = ("--settings", str(hooks.settings), "--dangerously-skip-permissions")
    with LoopbackModel.in_thread(players) as server:
        program = Program(repo, tmp_path / "home", server.url)
        life = program.start("-p", "Go.", *flags)
        assert mark.wait() == "up"
        life.kill()
        life.communicate(timeout=WAIT_S)
        killed = hooks.told
        assert {one["hook_event_name"] for one in killed} == {"SessionStart", "SubagentStart"}
        assert len(unbalanced(killed)) == 3, "the session, ada and the sub-agent"
        players.held = False
        done = program.run("-c", "-p", "Go on.", *flags, timeout=WAIT_S)
    assert done.returncode in {0, 5}, done.stderr
    assert unbalanced(hooks.told) == {}
    crashed = [one for one in hooks.told if one.get("outcome") == "crashed"]
    assert sorted(one["kind"] for one in crashed) == ["lead", "subagent", "teammate"]
    later = hooks.told[len(killed) :]
    assert {one["hook_event_name"] for one in later[:3]} <= {"SessionEnd", "SubagentStop"}, "stops first, then starts"
    ledger = next((tmp_path / "home").glob("projects/*/*/hooks.jsonl"))
    types = [json.loads(line)["type"] for line in ledger.read_text().splitlines()]
    assert types.count("start") == types.count("stop")
    assert not list(ledger.parent.glob(f"{RECORDS_DIRECTORY}/*"))


@pytest.mark.slow
@pytest.mark.promise("G7", "F69", "D8")
def test_who_adopts_a_dead_team_gives_its_killed_session_the_stops(tmp_path, repo):
    hooks = HookLog(tmp_path)
    for event in ("SessionStart", "SessionEnd", "SubagentStart", "SubagentStop"):
        hooks.on(event)
    mark = Mark(tmp_path / "up")
    players = Players(mark.path)
    flags = ("--settings", str(hooks.settings), "--dangerously-skip-permissions")
    with LoopbackModel.in_thread(players) as server:
        program = Program(repo, tmp_path / "home", server.url)
        life = program.start("-p", "Go.", *flags)
        assert mark.wait() == "up"
        life.kill()
        life.communicate(timeout=WAIT_S)
        players.held = False
        [team] = [path.parent.name for path in (tmp_path / "home").glob("teams/*/config.json")]
        done = program.run("teams", "adopt", team, "-p", "Go on.", *flags, timeout=WAIT_S)
    assert done.returncode in {0, 5}, done.stderr
    assert unbalanced(hooks.told) == {}
    assert len({one["session_id"] for one in hooks.of("SessionStart")}) == 2
    assert sorted(one["kind"] for one in hooks.told if one.get("outcome") == "crashed") == [
        "lead",
        "subagent",
        "teammate",
    ]


@pytest.mark.slow
@pytest.mark.promise("G7", "P2", "D8")
def test_a_task_that_a_hook_looked_at_when_the_kill_came_is_looked_at_again_and_then_free(tmp_path, repo):
    first, mark = tmp_path / "first", Mark(tmp_path / "up")
    wait = f"test -e {first} || {{ touch {first}; echo up > {mark.path}; sleep 600; }}"
    hooks = HookLog(tmp_path).on("TaskCreated", wait, timeout=600)
    flags = ("--settings", str(hooks.settings), "--dangerously-skip-permissions")
    task = ("TaskCreate", {"subject": "Fix it", "description": "All of it."})
    with LoopbackModel.in_thread([Answer(tools=[task]), Answer("Over.")]) as server:
        program = Program(repo, tmp_path / "home", server.url)
        life = program.start("-p", "Go.", *flags)
        assert mark.wait() == "up"
        [path] = (tmp_path / "home").glob("tasks/*/1.json")
        assert json.loads(path.read_text())["metadata"]["for"] == ["(a hook looks at it)"]
        life.kill()
        life.communicate(timeout=WAIT_S)
        done = program.run("-c", "-p", "Go on.", *flags)
    assert done.returncode == 0, done.stderr
    tasks = [json.loads(path.read_text()) for path in (tmp_path / "home").glob("tasks/*/[0-9]*.json")]
    assert [task["subject"] for task in tasks] == ["Fix it"]
    assert "for" not in tasks[0]["metadata"]
    assert len(hooks.told) == 2


@pytest.mark.slow
@pytest.mark.promise("G7", "F69", "P6")
def test_a_stop_hook_that_ran_when_the_kill_came_is_not_begun_again_and_does_not_run_on(tmp_path, repo):
    mark = Mark(tmp_path / "up")
    hooks = HookLog(tmp_path).on("SubagentStart").on("SubagentStop", f"echo $$ > {mark.path}; sleep 600", timeout=600)
    flags = ("--settings", str(hooks.settings), "--dangerously-skip-permissions")
    agent = ("Agent", {"description": "look", "prompt": "Look.", "subagent_type": "Explore"})

    def script(body: dict) -> Answer:
        lead = any(tool["name"] == "TaskCreate" for tool in body.get("tools", ()))
        return Answer(tools=[agent]) if lead and len(body["messages"]) == 1 else Answer("Over.")

    with LoopbackModel.in_thread(script) as server:
        program = Program(repo, tmp_path / "home", server.url)
        life = program.start("-p", "Go.", *flags)
        running = int(mark.wait())
        life.kill()
        life.communicate(timeout=WAIT_S)
        done = program.run("-c", "-p", "Go on.", *flags)
    assert done.returncode == 0, done.stderr
    assert [one["hook_event_name"] for one in hooks.told] == ["SubagentStart", "SubagentStop"]
    assert not alive(running), "a session that goes on ends what its killed life left running"
