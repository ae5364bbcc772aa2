"""`teamwright requests`: a second process of the real program sees what waits, and its answer counts."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from tests.support.model_requests import teammate_of
from tests.support.waits import WAIT_S
from tests.ui.program import Program, error_of
from tests.ui.terminal_driver import Person
from tests.ui.test_terminal_session import all_told, at_terminal, bash, told

TOUCH = bash("touch made")
WRITE = Answer(tools=[("Write", {"file_path": "new.txt", "content": "one\ntwo\n"})])
CHOICE = Answer(
    tools=[
        (
            "AskUserQuestion",
            {"questions": [{"question": "Which store?", "options": [{"label": "PostgreSQL"}, {"label": "SQLite"}]}]},
        )
    ]
)


def asks(call: Answer) -> Callable[[dict], Answer | str]:
    """A lead that makes this call, and says then what it was told."""
    return lambda body: call if told(body).strip() == "go" else f"I was told: {told(body)}"


def nested(body: dict) -> Answer | str:
    """A lead whose sub-agent makes the call."""
    if "Touch it." in all_told(body) and "Agent" not in all_told(body):
        return TOUCH if told(body).strip().endswith("Touch it.") else f"Done: {told(body)}"
    if told(body).strip() == "go":
        call = {"description": "touch a file", "prompt": "Touch it.", "subagent_type": "general-purpose"}
        return Answer(tools=[("Agent", call)])
    return f"It came back: {told(body)}"


@dataclass
class Waiting:
    """A headless run in which somebody asks, and a second terminal."""

    program: Program
    process: subprocess.Popen[str]

    def requests(self, *args: str, **more) -> subprocess.CompletedProcess[str]:
        return self.program.run("requests", *args, **more)

    def opened(self) -> dict:
        """The request, once it is open."""
        done = self.requests("--wait", "30s", "--json")
        assert done.returncode == 0, done.stderr
        (one,) = json.loads(done.stdout)
        return one

    def ended(self) -> str:
        out, err = self.process.communicate(timeout=WAIT_S)
        assert self.process.returncode == 0, err
        return out

    def events(self) -> list[dict]:
        [log] = self.program.home.glob("projects/*/*/events.jsonl")
        return [json.loads(line) for line in log.read_text().splitlines()]


@contextmanager
def waiting(repo: Path, home: Path, play: Callable[[dict], Answer | str], **settings) -> Iterator[Waiting]:
    """The run, at work. It is ended at the end."""
    with LoopbackModel.in_thread(play) as server:
        program = Program(repo, home, server.url)
        program.settings(unattended_requests="wait", **settings)
        process = program.start("-p", "go")
        try:
            yield Waiting(program, process)
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate()


@pytest.fixture
def home(tmp_path) -> Path:
    return tmp_path / "home"


# ── what is shown ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("F44", "K5", "G4")
@pytest.mark.slow
def test_a_request_of_a_nested_agent_is_listed_whole_and_allowed_from_another_terminal(repo, home):
    with waiting(repo, home, nested) as run:
        request = run.opened()
        assert (request["kind"], request["tool"], request["input"]["command"]) == ("permission", "Bash", "touch made")
        assert request["asker"].startswith("lead › general-purpose: touch a file")
        lines = run.requests().stdout.splitlines()
        assert lines[0] == request["id"]
        assert lines[1].startswith("? lead › general-purpose: touch a file")
        assert lines[1].endswith("wants to use Bash")
        assert lines[2] == "    touch made"
        text = "\n".join(lines)
        assert "  rule    mode default" in text
        assert "  always  Bash(touch made) (for every agent, until this session ends)" in text
        assert "  until   " in text
        tail = request["id"].rpartition("-")[2]
        assert f"  yes     teamwright requests allow {tail}" in lines
        assert f"  no      teamwright requests deny {tail} --reason TEXT" in lines
        named = run.program.run("--home", str(home), "requests").stdout
        assert f"  yes     teamwright --home {home} requests allow {tail}" in named.splitlines()
        done = run.requests("allow", tail)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("allowed: lead › general-purpose: touch a file")
        out = run.ended()
        assert "It came back" in out and (repo / "made").exists()
        closed = [event for event in run.events() if event["type"] == "request_closed"]
        assert [(one["verdict"], one["by"]) for one in closed] == [("allow", "another terminal")]
        assert run.requests().stdout == "No request is open.\n"


@pytest.mark.promise("K5")
@pytest.mark.slow
def test_the_second_terminal_shows_the_same_diff_as_the_first(repo):
    with at_terminal(asks(WRITE), repo) as (person, _):
        person.says("go")
        person.sees("lead wants to use Write", "+one", "+two", "allow?")
        there = person.screen.text
        done = Program(repo, Path(os.environ["HOME"]) / ".teamwright").run("requests")
        lines = done.stdout.splitlines()
        shown = lines[lines.index("? lead wants to use Write") :]
        diff = [line for line in shown if line.startswith("    ")]
        assert "    +one" in diff
        assert "".join("".join(diff).split()) in "".join(there.split()), "long lines go on in the next one there"
        person.says("y")
        person.sees("Write new.txt (+2 -0)")


@pytest.mark.promise("F44")
@pytest.mark.slow
def test_a_request_that_is_answered_elsewhere_goes_from_the_screen_with_a_line_that_says_who_answered(repo):
    with at_terminal(asks(TOUCH), repo) as (person, _):
        person.says("go")
        person.sees("lead wants to use Bash", "touch made", "allow?")
        home = Path(os.environ["HOME"]) / ".teamwright"
        (one,) = json.loads(Program(repo, home).run("requests", "--json").stdout)
        done = Program(repo, home).run("requests", "deny", one["id"], "--reason", "not today")
        assert done.returncode == 0, done.stderr
        person.sees("lead       denied from another terminal: Bash touch made (not today)", "I was told", "\n>")
        late = Program(repo, home).run("requests", "allow", one["id"])
        slug, lines = error_of(late)
        assert (late.returncode, slug) == (1, "request-closed")
        assert lines[0].endswith("was answered before: denied from another terminal (not today)")
        assert not (repo / "made").exists()


@pytest.mark.promise("F44", "F67", "D7")
@pytest.mark.slow
def test_status_and_log_say_who_waits_for_what_and_how_it_is_answered(repo, home):
    def play(body):
        if teammate_of(body) == "tester":
            return TOUCH if '"tool_use"' not in all_told(body) else "Touched."
        if told(body).strip() != "go":
            return "Done."
        start = {"description": "start tester", "prompt": "Touch it.", "name": "tester"}
        return Answer(tools=[("TeamCreate", {"team_name": "crew"}), ("Agent", start)])

    with waiting(repo, home, play) as run:
        request = run.opened()
        assert (request["owner"], request["team"]) == ("tester", "crew")
        name = request["id"].rpartition("-")[2]
        shown = run.program.run("status", "crew").stdout
        assert re.search(r"^tester +blocked .* permission for Bash touch made$", shown, re.MULTILINE)
        lines = shown.splitlines()
        (head,) = [line for line in lines if line.startswith("request  ")]
        at = lines.index(head)
        assert head.startswith(f"request  {request['id']} permission of tester, "), head
        assert lines[at + 1 : at + 3] == [
            "         Bash touch made",
            f"         teamwright requests allow {name}",
        ]
        assert max(map(len, lines)) <= 80
        (seen,) = json.loads(run.program.run("status", "crew", "--json").stdout)["requests"]
        assert (seen["id"], seen["owner"], seen["tool"], seen["what"]) == (
            request["id"],
            "tester",
            "Bash",
            "touch made",
        )
        assert f"asks: Bash touch made  [{name}]" in run.program.run("log", "crew").stdout
        run.requests("deny", request["id"], "--reason", "no")
        _, err = run.process.communicate(timeout=WAIT_S)
        assert "teamwright: tester asks: Bash touch made\n  answer it with: teamwright requests allow " + name in err
        assert f"tester       denied from another terminal: no  [{name}]" in err
        assert f"denied from another terminal: no  [{name}]" in run.program.run("log", "crew").stdout


# ── answers ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("F44")
@pytest.mark.slow
def test_a_denial_has_its_reason_for_the_agent(repo, home):
    with waiting(repo, home, asks(TOUCH)) as run:
        request = run.opened()
        done = run.requests("deny", request["id"][:12], "--reason", "not on a Friday", "--json")
        assert json.loads(done.stdout) == {"id": request["id"], "verdict": "deny"}
        assert "not on a Friday" in run.ended()
    assert not (repo / "made").exists()


@pytest.mark.slow
def test_a_question_is_answered_with_a_number_or_with_words(repo, home):
    with waiting(repo, home, asks(CHOICE)) as run:
        request = run.opened()
        assert (request["kind"], request["options"]) == ("question", ["PostgreSQL", "SQLite"])
        refused = run.requests("allow", request["id"])
        slug, lines = error_of(refused)
        assert (refused.returncode, slug) == (2, "usage")
        assert "1 PostgreSQL, 2 SQLite" in "\n".join(lines)
        for flag in (["--always"], ["--input", "-"], ["--grant", "m"]):
            assert run.requests("allow", request["id"], *flag, "--answer", "2").returncode == 2
        assert "--answer TEXT" in run.requests().stdout
        assert run.requests("allow", request["id"], "--answer", "2").returncode == 0
        assert "SQLite" in run.ended()


@pytest.mark.promise("F44", "G4")
@pytest.mark.slow
def test_the_input_is_replaced_by_what_stdin_or_a_file_has(repo, home, tmp_path):
    with waiting(repo, home, asks(TOUCH)) as run:
        request = run.opened()
        other = json.dumps({"command": "touch instead"})
        done = run.requests("allow", request["id"], "--input", "-", stdin=other)
        assert done.returncode == 0, done.stderr
        run.ended()
    assert [path.name for path in (repo / "made", repo / "instead") if path.exists()] == ["instead"]


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read: No such file"),
        ("{", "--input is not JSON"),
        ("[1]", "--input is not a JSON object"),
        ("[" * 100_000, "--input is not JSON"),
        (b"\xff\xfe", "--input is not JSON"),
    ],
)
def test_an_input_that_is_none_is_refused_and_the_request_stays_open(repo, home, tmp_path, content, said):
    path = tmp_path / "input.json"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with waiting(repo, home, asks(TOUCH)) as run:
        request = run.opened()
        done = run.requests("allow", request["id"], "--input", str(path))
        slug, lines = error_of(done)
        assert (done.returncode, slug) == (2, "usage")
        assert said in lines[0]
        assert json.loads(run.requests("--json").stdout)[0]["id"] == request["id"]


@pytest.mark.slow_after(1)
@pytest.mark.promise("K5", "G4")
@pytest.mark.parametrize("how", [["--always"], ["--always", "session"], ["--always", "local"]])
def test_always_keeps_the_rule_where_it_says_and_nobody_is_asked_again(repo, home, how):
    def play(body):
        count = all_told(body).count('"tool_use"')
        return TOUCH if count < 2 else f"I was told: {told(body)}"

    with waiting(repo, home, play) as run:
        request = run.opened()
        done = run.requests("allow", *how, request["id"])
        assert done.returncode == 0, done.stderr
        run.ended()
        assert sum(event["type"] == "request_opened" for event in run.events()) == 1
    kept = repo / ".teamwright" / "settings.local.json"
    if how[-1] == "local":
        assert json.loads(kept.read_text())["permissions"]["allow"] == ["Bash(touch made)"]
    else:
        assert not kept.exists()


@pytest.mark.promise("G4")
@pytest.mark.slow
def test_a_suggestion_is_granted_with_its_key(repo, home):
    def play(body):
        count = all_told(body).count('"tool_use"')
        name = f"new{count}.txt"
        call = Answer(tools=[("Write", {"file_path": name, "content": "x\n"})])
        return call if count < 2 else f"I was told: {told(body)}"

    with waiting(repo, home, play) as run:
        request = run.opened()
        assert "  grant m and edits of the lead and of members in its mode are not asked about" in run.requests().stdout
        assert run.requests("allow", request["id"], "--grant", "x").returncode == 2
        assert run.requests("allow", request["id"], "--grant", "m").returncode == 0
        run.ended()
        assert sum(event["type"] == "request_opened" for event in run.events()) == 1
    assert (repo / "new0.txt").exists() and (repo / "new1.txt").exists()


# ── what is no answer ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.promise("F44")
@pytest.mark.parametrize("verb", ["allow", "deny"])
def test_an_id_that_nobody_has_names_the_nearest(repo, home, verb):
    with waiting(repo, home, asks(TOUCH)) as run:
        request = run.opened()
        wrong = request["id"][:-1] + "!"
        done = run.requests(verb, wrong)
        slug, lines = error_of(done)
        assert (done.returncode, slug) == (2, "unknown-request")
        assert f"did you mean {request['id']}?" in "\n".join(lines)
        assert run.requests("allow", "").returncode == 2
        assert json.loads(run.requests("--json").stdout)[0]["id"] == request["id"]


@pytest.mark.promise("F44")
@pytest.mark.slow
def test_a_beginning_that_means_several_is_refused(repo, home):
    with waiting(repo, home, asks(Answer(tools=[*TOUCH.tools, *bash("touch second").tools]))) as run:
        first = run.opened()
        with waiting(repo, home, asks(bash("touch other"))) as other:
            while len(found := json.loads(run.requests("--wait", "--json").stdout)) < 2:
                pass
            done = run.requests("deny", "perm-")
            slug, lines = error_of(done)
            assert (done.returncode, slug) == (2, "usage")
            assert all(one["id"] in "\n".join(lines) for one in found)
            assert other.process.poll() is None
        assert first["id"] in {one["id"] for one in found}


@pytest.mark.promise("F44", "P4")
@pytest.mark.slow
def test_an_answer_for_a_process_that_is_gone_counts_at_the_resume_which_is_named(repo, home):
    with waiting(repo, home, asks(TOUCH)) as run:
        request = run.opened()
        run.process.send_signal(signal.SIGKILL)
        run.process.wait(timeout=WAIT_S)
        listed = run.requests()
        assert listed.stdout.startswith("No request is open.\n1 more was left open by a process that is gone: ")
        assert f"teamwright resume {request['session'][:8]}" in listed.stdout
        named = run.program.run("--home", str(home), "requests").stdout
        assert f"teamwright --home {home} resume {request['session'][:8]}" in named
        assert json.loads(run.requests("--json").stdout) == []
        done = run.requests("allow", request["id"])
        assert done.returncode == 0
        assert "the process that asked is gone; the answer counts when you resume: teamwright resume" in done.stdout


@pytest.mark.promise("F44", "P4")
@pytest.mark.slow
def test_an_answer_after_the_deadline_is_told_so(repo, home):
    with waiting(repo, home, asks(TOUCH), ask_timeout_s=1.0) as run:
        request = run.opened()
        assert "no answer within 1 s" in run.ended()
        done = run.requests("allow", request["id"])
        slug, lines = error_of(done)
        assert (done.returncode, slug) == (1, "request-closed")
        assert "was up before, and it was denied" in lines[0]
    assert not (repo / "made").exists()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--wait", "soon"], "is not a time span"),
        (["--wait", "1s", "allow", "x"], "--wait does not go with allow"),
        (["allow"], "ID"),
        (["allow", "x", "y"], "unexpected"),
        (["alow", "x"], "allow"),
        (["deny", "x", "--always"], "--always"),
    ],
)
@pytest.mark.slow_after(2)
def test_what_is_typed_wrong_is_said(repo, home, args, said):
    done = Program(repo, home).run("requests", *args)
    assert done.returncode == 2
    assert said in "\n".join(error_of(done)[1])


@pytest.mark.slow
def test_waiting_for_a_request_that_does_not_come_ends_with_its_time(repo, home):
    done = Program(repo, home).run("requests", "--wait", "1s")
    assert (done.returncode, error_of(done)[0]) == (1, "failed")
    assert "no request came within 1s" in done.stderr


@pytest.mark.promise("F44")
@pytest.mark.slow
def test_waiting_begins_before_there_is_a_home_and_ends_with_the_first_request(repo, home):
    waits = Program(repo, home).start("requests", "--wait", "50s", "--json")
    with waiting(repo, home, asks(TOUCH)) as run:
        out, err = waits.communicate(timeout=WAIT_S)
        assert waits.returncode == 0, err
        (one,) = json.loads(out)
        assert run.requests("deny", one["id"]).returncode == 0
        run.ended()


@pytest.mark.promise("K5")
@pytest.mark.slow
def test_a_person_edits_the_command_at_the_terminal_and_that_runs(repo):
    with at_terminal(asks(TOUCH), repo) as (person, _):
        person.says("go")
        person.sees("lead wants to use Bash", "e edit it first", "allow?")
        person.says("e")
        person.sees("run: touch made")
        person.says("2")
        person.sees("runs instead: touch made2", "I was told")
        assert [path.name for path in repo.glob("made*")] == ["made2"]


@pytest.mark.promise("K5")
def test_at_a_dumb_terminal_of_80_columns_a_command_is_written_anew(repo):
    with LoopbackModel.in_thread(asks(TOUCH)) as server:
        keys = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "sk-ant-test-000000001234"}
        person = Person("--model", "sonnet", cwd=repo, size=(24, 80), TERM="dumb", NO_COLOR="1", **keys)
        try:
            person.sees("/help", ">")
            person.says("go")
            person.sees("lead wants to use Bash", "allow?")
            assert "\x1b[3" not in person.raw
            person.says("e")
            person.sees("an empty line cancels", "run:")
            person.says("touch made3")
            person.sees("runs instead: touch made3", "I was told")
        finally:
            person.child.close(force=True)
    assert [path.name for path in repo.glob("made*")] == ["made3"]


@pytest.mark.promise("K5")
@pytest.mark.slow
def test_a_request_is_put_off_and_asked_again_while_the_person_talks_to_the_lead(repo):
    with at_terminal(asks(TOUCH), repo) as (person, _):
        person.says("go")
        person.sees("lead wants to use Bash", "allow?")
        person.says("/requests")
        person.sees("perm-", "lead wants to use Bash: touch made", "lead wants to use Bash", "allow?")
        person.says("l")
        person.sees("it waits; /requests asks again", "\n>", "1 request waits")
        person.says("/members")
        person.sees("  lead ")
        person.says("/requests")
        person.sees("it waits; /requests asks again", "lead wants to use Bash", "allow?")
        person.says("y")
        person.sees("I was told")
        assert (repo / "made").exists()
        person.says("/requests")
        person.sees("no request waits")
