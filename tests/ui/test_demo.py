"""The demo through the real program: what it promises on its first lines holds in every kind of directory."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

import teamwright
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from tests.support.programs import needs, require
from tests.support.waits import WAIT_S
from tests.ui.demo_runs import INSTALLED, PROGRAM, RECEIPT, Shown, Stage, set_up, shown
from tests.ui.histories import git, invented, snapshot

KINDS = ["python and go", "javascript and rust", "shallow", "empty", "outside"]
WITH_HISTORY = KINDS[:2]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """One run of each kind, made when it is first asked for."""
    made: dict[str, Shown] = {}

    def run(kind: str) -> Shown:
        if kind not in made:
            made[kind] = shown(kind, tmp_path_factory.mktemp(kind.split()[0]))
        return made[kind]

    return run


@pytest.fixture(params=KINDS)
def run(request, runs) -> Shown:
    return runs(request.param)


@pytest.fixture
def stage(tmp_path) -> Stage:
    return Stage(tmp_path / "stage")


@pytest.fixture
def place(tmp_path) -> Path:
    return invented("javascript and rust", 33, commits=30).write(tmp_path / "shown")


def columns(line: str) -> int:
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in line)


# ── what it says ──


@pytest.mark.slow_after(1)
def test_it_ends_well_with_a_report(run):
    assert (run.done.returncode, run.done.stderr) == (0, "")
    assert run.report[1].startswith("shown @ " if run.kind != "outside" else "sample @ ")
    assert run.lines[-2].startswith("yours     teamwright demo --model sonnet")


@pytest.mark.promise("H3", "K3")
@pytest.mark.slow_after(1)
def test_the_first_line_says_that_a_script_speaks_and_how_fast(run):
    assert run.lines[0] == "teamwright demo: scripted model, no key, no network, replies at once"


@pytest.mark.slow_after(1)
@pytest.mark.promise("K11")
def test_lines_fit_eighty_columns_and_need_neither_colour_nor_cursor(run):
    assert [line for line in run.lines if columns(line) > 80] == []
    assert [char for char in run.done.stdout if unicodedata.category(char) == "Cc" and char != "\n"] == []
    assert not re.search("[┌│└]", run.done.stdout), "the panel is for terminals"


@pytest.mark.slow_after(1)
def test_the_lead_is_called_lead(run):
    assert "team-lead" not in run.done.stdout
    assert re.search(r"^ +\d+\.\d  lead       creates the team demo-", run.done.stdout, re.MULTILINE)


@pytest.mark.slow
def test_the_rules_by_which_it_ranks_are_printed(runs):
    for kind in WITH_HISTORY:
        text = "\n".join(runs(kind).report)
        assert "rule: commits × lines, top five; * = most without a test" in text
        assert "no test: no path that looks like a test changed in the same commit" in text
        assert "merges left out; the year is counted back from the newest commit" in text
        assert "Every number comes from a command of this run; the sentences are templates." in text


@pytest.mark.slow
def test_nobody_is_named(runs):
    for kind in WITH_HISTORY:
        made = runs(kind)
        for name in {commit.author.split("@")[0] for commit in made.history.commits}:
            assert not re.search(rf"\b{name}\b", made.done.stdout)
        assert "@example.org" not in made.done.stdout


@pytest.mark.slow
def test_history_that_is_missing_is_said_and_its_rows_are_left_out(runs):
    shallow, empty = "\n".join(runs("shallow").report), "\n".join(runs("empty").report)
    assert re.search(r"Year to \S+: left out, a shallow clone has \d+ commits of its history \[c\d+\]", shallow)
    assert "ages left out, in a shallow clone all lines look equally old" in shallow
    assert "Year: left out, no commits yet" in empty
    assert "Here: left out, no commit with text in it" in empty
    for text in (shallow, empty):
        assert "Read first: left out, there are no paths to look at" in text
        assert "commits  lines" not in text


@pytest.mark.slow
def test_outside_git_it_says_so_and_shows_the_sample(runs):
    made = runs("outside")
    assert made.lines[1].startswith(f"not in a git repository: {str(made.place)[:40]}")
    assert made.lines[2] == "so here is the sample project that comes with teamwright:"
    assert made.lines[3].startswith("sample @ ")
    assert "tidetable/predict.py" in made.done.stdout


# ── that it is true ──


@pytest.mark.slow_after(1)
@pytest.mark.promise("P7")
def test_every_file_is_what_it_was_and_nothing_of_the_repository_ran(run):
    assert run.after == run.before
    assert not run.canary.exists()
    assert "0 bytes written here: every file, .git included, is what it was" in run.lines


@pytest.mark.promise("P7", "K10")
@pytest.mark.slow_after(1)
def test_no_network_is_used_and_only_git_and_a_shell_in_a_sandbox_are_started(run):
    assert [line for line in run.stage.watched if line.startswith("network")] == []
    started = {line.removeprefix("process ") for line in run.stage.watched if line.startswith("process")}
    started.discard(OWN_PYTHON)  # Where bwrap is missing, it confines the commands.
    names = {Path(program).name for program in started}
    assert {"bash"} <= names <= {"git", "bash", "sh", "bwrap"}, names


IMPLEMENTATION = """
import os

from teamwright.__main__ import main
from teamwright.sandbox import bubblewrap, sandbox

HIDDEN = os.environ["HIDDEN"].split()
sandbox.find_system_program = lambda name: None if name in HIDDEN else bubblewrap.find_system_program(name)
main()
"""
"""The program, which does not find the programs of the system that `HIDDEN` names."""


@pytest.mark.promise("P7", "K10")
@pytest.mark.finding("3V1")
@pytest.mark.parametrize("implementation", ["landlock", "bubblewrap", "none"])
@pytest.mark.slow_after(1)
def test_the_demo_listens_on_no_port_whatever_confines_its_commands(implementation, tmp_path):
    place, _ = set_up("empty", tmp_path)
    if implementation == "bubblewrap":
        require("bwrap")
    hidden = {"HIDDEN": "bwrap"} if implementation == "landlock" else {"HIDDEN": ""}
    mode = {"TEAMWRIGHT_SANDBOX": "off"} if implementation == "none" else {}
    stage = Stage(tmp_path / "stage", watching=True, env=hidden | mode)
    command = [OWN_PYTHON, "-P", "-c", IMPLEMENTATION, "demo", "--pace", "0"]
    ends = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": WAIT_S, "check": False}
    done = subprocess.run(command, cwd=place, env=stage.environment, **ends)
    assert (done.returncode, done.stderr) == (0, "")
    [state] = (tmp_path / "stage/home/.teamwright").glob("**/sandbox.json")
    if (used := json.loads(state.read_text())["sandbox"]["implementation"]) != implementation:
        pytest.skip(f"{implementation} does not work here, but {used}")
    assert [line for line in stage.watched if line.startswith("network")] == []
    assert any(line.startswith("process") for line in stage.watched)


OWN_PYTHON = Path(INSTALLED).read_text().splitlines()[0].removeprefix("#!") if INSTALLED else sys.executable
"""The interpreter of the program: an installed one names it in its first line."""


def can_trace() -> bool:
    """Whether calls of the system may be traced here."""
    return subprocess.run(["strace", "-qq", "-f", "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.slow
@pytest.mark.promise("P7", "K10")
@needs("strace")
def test_no_process_of_a_run_opens_a_connection_or_runs_a_program_of_the_repository(stage, runs, tmp_path):
    if not can_trace():
        pytest.skip("this machine permits no tracing of system calls")
    place, trace = runs("python and go").place, tmp_path / "trace"
    traced = ["strace", "-f", "-qq", "-e", "trace=execve,connect,bind,sendto,unshare", "-o", str(trace), *PROGRAM]
    done = subprocess.run(
        [*traced, "demo", "--pace", "0"],
        cwd=place,
        env=stage.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    calls = trace.read_text().splitlines()
    assert [line for line in calls if "AF_INET" in line] == []
    ran = {match[1] for line in calls if (match := re.search(r'execve\("([^"]+)".* = 0$', line))}
    assert {Path(path).name for path in ran} >= {"git", "bash", "awk", "tr"}
    assert [path for path in ran if path.startswith(str(place)) or not path.startswith("/")] == []


@pytest.mark.promise("F21")
@pytest.mark.slow_after(1)
def test_nothing_is_left_running_or_lying_about(run):
    assert run.stage.leftovers == []


@pytest.mark.slow
@pytest.mark.promise("H3")
@pytest.mark.parametrize("kind", WITH_HISTORY)
def test_three_receipts_at_random_say_the_same_again(kind, runs):
    made = runs(kind)
    maps = "".join(event["output"] for event in made.events if "map 1: " in str(event.get("output")))
    for number in random.sample(made.receipts, 3):
        call = made.call(number)
        command = call["input"]["command"]
        again = subprocess.run(["bash", "-c", command], cwd=made.place, capture_output=True, text=True, check=True)
        assert again.stdout.rstrip("\n") == call["output"].rstrip("\n"), number
        for line in made.report:
            if f"[{number}]" in line and not line.startswith("shown @"):
                numbers = re.findall(r"[\d,]*\d", RECEIPT.sub("", re.sub(r"^Year to \S+", "", line)))
                assert all(one in call["output"] + maps for one in numbers), line
    told = made.stage.run("log", made.team, "--call", number, cwd=made.place).stdout
    assert call["member"] in told
    assert call["output"].split("\n")[0] in told
    assert command.strip().split("\n")[0] in told


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("kind", WITH_HISTORY)
def test_every_number_of_the_report_has_a_receipt(kind, runs):
    for line in runs(kind).report[1:]:
        bare = re.sub(r"#\d+", "", RECEIPT.sub("", line))
        dated = re.match(r"  \d{4}-\d\d-\d\d  ", line)  # their receipt is on the line above them
        assert not re.search(r"\d", bare) or RECEIPT.search(line) or dated, line


@pytest.mark.slow
def test_two_repositories_give_different_numbers(runs):
    numbers = [re.findall(r"\d+", RECEIPT.sub("", "\n".join(runs(kind).report[2:]))) for kind in WITH_HISTORY]
    assert numbers[0] != numbers[1]
    for kind in WITH_HISTORY:
        made = runs(kind)
        people = len({commit.author.lower() for commit in made.history.year})
        assert f": {len(made.history.year)} commits by {people} people [" in "\n".join(made.report)


@pytest.mark.slow_after(1)
def test_a_command_has_ten_seconds_and_at_most_five_thousand_commits(run):
    assert len(run.commands) >= 5
    assert {one["timeout"] for one in run.commands} == {10_000}
    for one in run.commands:
        assert one["command"].count("log -z ") == one["command"].count("log -z -n 5000 ")
        assert not re.search(r"--since|--until|\bdate \+|strftime|systime", one["command"]), "no number knows the day"


@pytest.mark.promise("P4")
@pytest.mark.slow_after(1)
def test_a_member_that_is_asked_to_stop_objects_exactly_when_a_task_of_its_own_is_open(run):
    owner: dict[str, str] = {}
    refusals = 0
    for event in run.events:
        if event["type"] == "task_changed":
            task = event["task"]
            owner[task["id"]] = task["owner"] if task["status"] == "in_progress" else ""
        if event["type"] == "tool_called" and event["tool"] == "SendMessage":
            message = event["input"].get("message")
            if isinstance(message, dict) and message["type"] == "shutdown_response":
                mine = [number for number, name in owner.items() if name == event["member"]]
                assert message["approve"] is not bool(mine), event
                refusals += not message["approve"]
    assert run.done.stdout.count("is mine and open") == refusals


# ── what it may be asked for ──


@pytest.mark.slow
def test_a_pace_is_kept_and_said(stage, place):
    done = stage.run("demo", "--pace", "20", cwd=place)
    assert done.returncode == 0
    assert done.stdout.split("\n")[0].endswith("replies paced 20 ms")
    assert stage.run("demo", "--pace", "-1", cwd=place).returncode == 2


@pytest.mark.promise("K14")
@pytest.mark.slow
def test_the_report_file_has_every_receipt_with_command_output_and_time(stage, place, tmp_path):
    target = tmp_path / "out" / "report.md"
    target.parent.mkdir()
    done = stage.run("demo", "--repo", str(place), "--report", "report.md", "--pace", "0", cwd=target.parent)
    assert done.returncode == 0, done.stderr
    assert f"report    {target}" in done.stdout
    text = target.read_text()
    assert text.split("\n")[0] == "generated by teamwright demo, scripted"
    wanted = set(RECEIPT.findall(done.stdout[done.stdout.index("── report") :]))
    sections = dict(re.findall(r"^### (c\d+)\n\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL))
    assert set(sections) == wanted
    logged = [json.loads(line) for line in stage.run("log", "demo-shown", "--json", cwd=place).stdout.splitlines()]
    calls = {event["call"]: event for event in logged if event["type"] == "tool_called"}
    for number, section in sections.items():
        assert re.match(r"Bash by (lead|surveyor|historian|tester), \d+\.\d\d s, done\n\n```sh\n", section), section
        assert calls[number]["input"]["command"].strip() in section
        assert "\n".join(calls[number]["output"].rstrip("\n").split("\n")[:20]) in section
    for head in ("## Receipts", "## Team", "## Tasks", "## Messages", "## Limits and refusals", "## Resume"):
        assert f"\n{head}\n" in text
    assert "team-lead" not in text.split("## Team")[1]
    assert [path.name for path in target.parent.iterdir()] == ["report.md"]


@pytest.mark.parametrize("kind", ["no such directory", "a directory"])
@pytest.mark.slow
def test_a_report_that_cannot_be_written_is_refused_before_anything_starts(kind, stage, place, tmp_path):
    target = tmp_path / "missing" / "r.md" if kind == "no such directory" else tmp_path
    done = stage.run("demo", "--report", str(target), cwd=place)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"no report can be written to {target}" in done.stderr
    assert not (stage.root / "home" / ".teamwright").exists()


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_report_that_meets_a_full_disk_is_a_failure_and_the_device_stays_a_device(stage, place):
    done = stage.run("demo", "--report", "/dev/full", "--pace", "0", cwd=place)
    assert done.returncode == 1
    assert "[disk-full]  the run itself is done" in done.stderr
    assert Path("/dev/full").is_char_device()


@pytest.mark.promise("K11")
@pytest.mark.slow
def test_json_is_alone_on_stdout(stage, place):
    done = stage.run("demo", "--output-format", "json", "--pace", "0", cwd=place)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["subtype"], result["total_cost_usd"]) == ("success", 0)
    assert result["team"]["tasks_done"] == 6
    assert result["team"]["messages"]["sent"] == result["team"]["messages"]["seen"]
    assert result["result"].strip() in done.stderr
    assert done.stderr.startswith("teamwright demo: scripted model")


@pytest.mark.parametrize("name", ["missing", "README.md"])
def test_a_repository_that_is_not_there_is_a_usage_error(name, stage, place):
    done = stage.run("demo", "--repo", name, cwd=place)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{place / name} is not a directory" in done.stderr
    assert "[usage]" in done.stderr


@pytest.mark.slow
def test_without_git_it_says_what_is_missing(stage, place, tmp_path):
    stage.env["PATH"] = str(tmp_path / "empty")
    done = stage.run("demo", cwd=place)
    assert (done.returncode, done.stdout) == (3, "")
    assert "git is not installed" in done.stderr
    assert "[no-git]" in done.stderr
    assert stage.run("demo", cwd=tmp_path).returncode == 3, "the sample needs git too"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_repository_that_git_refuses_is_not_called_empty(stage, place):
    subprocess.run(["chown", "-R", "12345", str(place)], check=True)
    done = stage.run("demo", cwd=place)
    assert (done.returncode, done.stdout) == (3, "")
    assert f"git config --global --add safe.directory {place}" in done.stderr


@pytest.mark.slow
def test_a_directory_with_an_awkward_name_gets_a_receipt_that_works_as_it_is_printed(stage, tmp_path):
    awkward = tmp_path / f"a b; touch 'ouch' $(touch ouch) ü\t*{'表' * 40}"
    invented("python and go", 34, commits=12).write(awkward)
    done = stage.run("demo", "--pace", "0", cwd=awkward)
    assert done.returncode == 0, done.stderr
    [line] = [line for line in done.stdout.split("\n") if line.startswith("receipt   ")]
    assert [other for other in done.stdout.split("\n") if columns(other) > 80 and other != line] == []
    command = line.removeprefix("receipt   teamwright ")
    words = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {command}"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    receipt = stage.run(*words.rstrip("\0").split("\0"), cwd=awkward)
    assert receipt.returncode == 0, receipt.stderr
    assert "git --no-pager" in receipt.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([awkward.name, "stage"])


@pytest.mark.slow
def test_a_users_settings_neither_stop_it_nor_widen_it(stage, place):
    home = stage.root / "home" / ".teamwright"
    home.mkdir()
    settings = {"teams": False, "permissions": {"defaultMode": "bypassPermissions"}, "model": "nowhere/none"}
    (home / "settings.json").write_text(json.dumps(settings))
    done = stage.run("demo", "--pace", "0", cwd=place)
    assert done.returncode == 0, done.stderr
    assert "Read first  (rule" in done.stdout


@pytest.mark.slow
def test_two_at_once_in_one_repository_both_end_well(stage, place):
    both = [stage.start("demo", "--pace", "0", cwd=place) for _ in range(2)]
    for one in both:
        out, err = one.communicate(timeout=WAIT_S)
        assert one.returncode == 0, err
        assert "Read first  (rule" in out, out
    assert stage.leftovers == []


# ── when it is ended ──

MOMENTS = ["teamwright demo", "creates the team", "joins the team", "Bash rank", "✓ #3", "── report"]


def until(process: subprocess.Popen[str], text: str) -> None:
    while text not in (line := process.stdout.readline()):
        assert line, f"{text!r} did not come"


@pytest.mark.slow_after(1)
@pytest.mark.promise("F21", "K11")
@pytest.mark.parametrize("moment", MOMENTS)
def test_ctrl_c_at_any_moment_leaves_nothing_and_the_next_demo_runs(moment, stage, tmp_path, runs):
    outside = tmp_path / "outside"
    outside.mkdir()
    place = outside if moment in {"teamwright demo", "Bash rank"} else runs("python and go").place
    before = snapshot(place)
    process = stage.start("demo", "--pace", "30", cwd=place)
    until(process, moment)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=WAIT_S)
    if moment != "── report":  # then it may have ended already
        assert process.returncode == 130, err
        assert "teamwright: interrupted: every member has ended, nothing is left running" in err
    assert process.returncode in (0, 130)
    assert "Traceback" not in err
    assert stage.leftovers == []
    assert snapshot(place) == before
    if moment in {"creates the team", "Bash rank"}:
        again = stage.run("demo", "--pace", "0", cwd=place)
        assert again.returncode == 0, again.stderr


@pytest.mark.promise("F21")
@pytest.mark.slow
def test_impatient_presses_of_ctrl_c_change_nothing(stage, tmp_path):
    process = stage.start("demo", "--pace", "30", cwd=tmp_path)
    until(process, "claims #")
    for _ in range(3):
        process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=WAIT_S)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert stage.leftovers == []


@pytest.mark.slow_after(1)
@pytest.mark.promise("F21", "K11")
@pytest.mark.parametrize("moment", ["teamwright demo", "claims #"])
def test_a_termination_is_as_clean(moment, stage, tmp_path):
    process = stage.start("demo", "--pace", "30", cwd=tmp_path)
    until(process, moment)
    process.terminate()
    _, err = process.communicate(timeout=WAIT_S)
    assert process.returncode == 143, err
    assert stage.leftovers == []


@pytest.mark.parametrize(("name", "code"), [("INT", 130), ("TERM", 143)])
@pytest.mark.slow_after(1)
def test_a_signal_while_the_sample_is_unpacked_leaves_no_part_of_it(name, code, stage, tmp_path):
    shim, real = tmp_path / "bin" / "git", shutil.which("git")
    shim.parent.mkdir()
    unpacking = f'mkdir -p "$last"; touch "$last/part"; kill -{name} $PPID; exec sleep 20'
    shim.write_text(
        f'#!/bin/bash\nlast="${{@: -1}}"\n[[ " $* " == *" clone "* ]] && {{ {unpacking}; }}\nexec {real} "$@"\n'
    )
    shim.chmod(0o755)
    stage.env["PATH"] = f"{shim.parent}:{os.environ['PATH']}"
    outside = tmp_path / "outside"
    outside.mkdir()
    done = stage.run("demo", "--pace", "0", cwd=outside)
    assert (done.returncode, done.stdout) == (code, "")
    assert "Traceback" not in done.stderr
    assert stage.leftovers == []


@pytest.mark.promise("K11")
@pytest.mark.slow
def test_a_reader_that_goes_away_ends_it_without_a_word(stage, tmp_path):
    process = stage.start("demo", "--pace", "30", cwd=tmp_path)
    until(process, "claims #")
    process.stdout.close()
    err = process.stderr.read()
    assert (process.wait(WAIT_S), err) == (0, "")
    process.stderr.close()
    assert stage.leftovers == []
    assert not ended_by_itself(stage), "nobody looks on: it does not go on"


def ended_by_itself(stage: Stage) -> bool:
    """Return True when a run came to its end."""
    logs = (stage.root / "home" / ".teamwright").rglob("events.jsonl")
    return any('"run_ended"' in log.read_text() for log in logs)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
@pytest.mark.slow
def test_lines_that_nobody_can_store_are_a_failure(stage, place):
    with open("/dev/full", "w") as full:
        options = {"stdin": subprocess.DEVNULL, "stdout": full, "stderr": subprocess.PIPE}
        process = subprocess.Popen([*PROGRAM, "demo"], cwd=place, env=stage.environment, text=True, **options)
        _, err = process.communicate(timeout=WAIT_S)
    assert process.returncode == 1
    assert "[disk-full]" in err
    assert stage.leftovers == []
    assert not ended_by_itself(stage)


# ── with a real model ──


def paid(stage: Stage, server: LoopbackModel) -> Stage:
    stage.env |= {"ANTHROPIC_API_KEY": "sk-test-0000000000000000", "ANTHROPIC_BASE_URL": server.url}
    return stage


@pytest.mark.promise("K10")
def test_a_real_model_needs_a_yes_and_is_sent_nothing_without(stage, place):
    with LoopbackModel.in_thread() as server:
        done = paid(stage, server).run("demo", "--model", "sonnet", cwd=place)
    assert (done.returncode, done.stdout, server.requests) == (2, "", [])
    assert "add --yes" in done.stderr


@pytest.mark.promise("G2")
@pytest.mark.slow
def test_a_real_model_may_only_read_whatever_the_user_allows_elsewhere(stage, place):
    home = stage.root / "home" / ".teamwright"
    home.mkdir()
    allowed = {"permissions": {"allow": ["Bash(git commit:*)", "Bash(touch:*)", "Write"], "defaultMode": "acceptEdits"}}
    (home / "settings.json").write_text(json.dumps(allowed))
    tried = ["git log -1 --format=%h", "git commit --allow-empty -m x", "touch x", "echo x > x", "git status | tee x"]
    turns = [
        Answer(tools=[("Bash", {"command": command, "description": command}) for command in tried]),
        Answer(tools=[("Write", {"file_path": str(place / "x"), "content": "x"})]),
        Answer("Read README.md first."),
    ]
    before = snapshot(place)
    with LoopbackModel.in_thread(turns) as server:
        done = paid(stage, server).run("demo", "--model", "sonnet", "--yes", cwd=place)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("teamwright demo: the model sonnet, for at most 1.00 USD\n")
    assert "Read README.md first." in done.stdout
    assert "yours" not in done.stdout
    tools = {tool["name"] for tool in server.bodies[0]["tools"]}
    assert {"Bash", "Read", "Grep", "Glob", "Agent", "TaskCreate", "SendMessage"} <= tools
    assert tools.isdisjoint({"Write", "Edit", "NotebookEdit", "WebFetch"})
    results = [block for block in server.bodies[1]["messages"][-1]["content"] if block["type"] == "tool_result"]
    assert [bool(block.get("is_error")) for block in results] == [False, True, True, True, True]
    assert snapshot(place) == before


@pytest.mark.promise("K4")
@pytest.mark.slow
def test_a_real_model_is_stopped_at_the_cap(stage, place):
    dear = {"input_tokens": 900_000, "output_tokens": 100}
    turns = [Answer(tools=[("Glob", {"pattern": "*.md"})], usage=dear)] * 9
    with LoopbackModel.in_thread(turns) as server:
        done = paid(stage, server).run("demo", "--model", "sonnet", "--yes", cwd=place)
    assert done.returncode == 4, done.stderr
    assert len(server.bodies) < 9
    assert "cap on money" in done.stdout + done.stderr


@pytest.mark.slow
def test_a_model_cannot_steer_the_terminal(stage, place):
    with LoopbackModel.in_thread([Answer("\x1b]0;title\x07\x1b[2JRead\x9b1m this.")]) as server:
        done = paid(stage, server).run("demo", "--model", "sonnet", "--yes", cwd=place)
    assert "Read" in done.stdout
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(bool(INSTALLED), reason="the program lies elsewhere")
@pytest.mark.parametrize("way", [(), ("--kill",), ("--backend", "detached")])
def test_the_repository_that_the_program_itself_lies_in_gets_no_compiled_files(stage, tmp_path, way):
    top = tmp_path / "own"
    shutil.copytree(Path(teamwright.__file__).parent, top / "teamwright", ignore=shutil.ignore_patterns("__pycache__"))
    git(top, "init", "-q", ".")
    del stage.env["PYTHONDONTWRITEBYTECODE"]
    stage.env["PYTHONPATH"] = os.pathsep.join([str(stage.root / "watch"), str(top)])
    done = stage.run("demo", "--pace", "0", *way, cwd=top, timeout=3 * WAIT_S)
    assert done.returncode == 0, done.stderr
    assert "0 bytes written here: every file, .git included, is what it was" in done.stdout
