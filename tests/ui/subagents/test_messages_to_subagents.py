"""Writing to a sub-agent, reading it, stopping it, through the real program: works, bad input, killed and resumed."""

import asyncio
import json
import re

import pytest

from teamwright.testing.model_server_replies import Answer, Status
from tests.support.model_requests import text_of
from tests.support.waits import WAIT_S
from tests.ui.program import words_of
from tests.ui.subagents.play import Files, Held, Play, agent, call

BYPASS = "--dangerously-skip-permissions"
LAUNCHED = re.compile(r"agentId: (a[0-9a-f]{6})")


def launched(body) -> str:
    """The id that the lead was given."""
    return LAUNCHED.findall(json.dumps(body["messages"]))[0]


def to_it(tool: str, **given):
    """A call that names the sub-agent that was started."""
    key = "to" if tool == "SendMessage" else "task_id"
    return lambda body: call(tool, **{key: launched(body)}, **given)


def then(act, reply):
    """Do something when the lead asks, then answer."""

    async def now(body):
        await asyncio.to_thread(act)
        return reply(body) if callable(reply) else reply

    return now


# ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.promise("row F11", "F38")
def test_words_for_one_that_runs_has_ended_or_is_forgotten_reach_it_by_its_id(tmp_path, repo):
    held = Held("First end.")
    told = to_it("SendMessage", message="Also the tests.")
    lead = [agent("JOB kid", run_in_background=True), told, then(held_go(held), "I wait.")]
    play = Play([*lead, to_it("SendMessage", message="Once more."), "I wait."], kid=[held, "Second end.", "Third end."])
    with play.on(repo, tmp_path / "home") as program:
        first = program.run("-p", "Go.", BYPASS)
        assert first.returncode == 0, first.stderr
        files = Files(program.home)
        [id] = files.agent_ids()
        outcomes = [json.loads(text)["outcome"] for text in play.results() if text.startswith("{")]
        assert outcomes == ["queued_next_round", "resumed"] and play.notices() == [(id, "completed")] * 2
        (files.directory / "agents.jsonl").unlink()  # nothing but its transcript remembers it
        play.lead.append(call("SendMessage", to=id, message="And a last time."))
        again = program.run("-c", "-p", "Ask it again.", BYPASS)
        assert again.returncode == 0, again.stderr
    assert play.notices() == [(id, "completed")] * 3
    child = [m for m in play.asked("kid")[-1]["messages"] if m["role"] == "user"]
    assert [text_of(m) for m in child] == ["JOB kid", "Also the tests.", "Once more.", "And a last time."]


def held_go(held: Held):
    def act() -> None:
        held.come()
        held.go()

    return act


@pytest.mark.slow
@pytest.mark.promise("row F11")
def test_where_there_are_no_teams_a_name_reaches_it_running_ended_and_in_the_next_life(tmp_path, repo):
    held = Held("First end.")
    start = agent("JOB kid", name="flaky", run_in_background=True)
    tell = [call("SendMessage", to=name, message=f"To {name}.") for name in ("Flaky", "flaky")]
    play = Play([start, tell[0], then(held_go(held), "I wait."), tell[1], "I wait."], kid=[held, "b", "c", "d"])
    with play.on(repo, tmp_path / "home") as program:
        program.settings(teams=False)
        first = program.run("-p", "Go.", BYPASS)
        assert first.returncode == 0, first.stderr
        play.lead.append(call("SendMessage", to="flaky", message="In another life."))
        again = program.run("-c", "-p", "Ask it.", BYPASS)
        assert again.returncode == 0, again.stderr
    [id] = Files(program.home).agent_ids()
    assert play.notices() == [(id, "completed")] * 3 and "In another life." in words_of(play.asked("kid")[-1])


@pytest.mark.slow
@pytest.mark.promise("row F11", "F38", "F57")
def test_words_that_a_running_one_had_not_read_are_there_after_a_kill_and_it_is_told_as_killed_once(tmp_path, repo):
    held = Held()
    told = to_it("SendMessage", message="Also the tests.")
    play = Play([agent("JOB kid", run_in_background=True), told, "I wait."], kid=[held])
    with play.on(repo, tmp_path / "home") as program:
        running = program.start("-p", "Go.", BYPASS)
        held.come()
        play.comes_back(3)
        running.kill()
        running.communicate(timeout=WAIT_S)
    files = Files(program.home)
    [id] = files.agent_ids()
    play = Play([call("SendMessage", to=id, message="Go on."), "I wait."], kid=["All done."])
    with play.on(repo, program.home) as program:
        done = program.run("resume", files.id[:8], "-p", BYPASS)
        assert done.returncode == 0, done.stderr
    told = words_of(play.asked("kid")[0])
    assert told.count("Also the tests.") == 1 and told.index("Also the tests.") < told.index("Go on.")
    assert play.notices() == [(id, "killed"), (id, "completed")]


@pytest.mark.promise("F38", "F57")
@pytest.mark.slow
def test_two_calls_that_go_on_with_one_at_once_are_one_life_and_a_clear_refusal(tmp_path, repo):
    held = Held("Once.")

    def twice(body):
        id = launched(body)
        given = {"description": "more", "resume": id}
        return Answer(tools=[("Agent", given | {"prompt": word}) for word in ("One way.", "Another way.")])

    play = Play([agent("JOB kid"), twice], kid=["Begun.", held])
    with play.on(repo, tmp_path / "home") as program:
        running = program.start("-p", "Go.", BYPASS)
        held.come()
        held.go()
        _, err = running.communicate(timeout=WAIT_S)
        assert running.returncode == 0, err
    files = Files(program.home)
    [id] = files.agent_ids()
    good, bad = sorted(play.results()[1:], key=lambda text: "is running" in text)
    assert (
        good.startswith("Once.") and f"{id} is running" in bad and f'SendMessage with to "{id}" reaches it now' in bad
    )
    assert [fact["type"] for fact in files.facts()] == ["begun", "ended"] * 2


# ── its own commands ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.promise("D8", "F38", "row F2")
def test_one_that_waited_for_its_own_command_when_all_was_killed_hears_of_it_before_it_ends(tmp_path, repo):
    play = Play(
        [agent("JOB kid")],
        kid=[Answer(tools=[("Bash", {"command": "exec sleep 300", "run_in_background": True})]), "I wait for it."],
    )
    with play.on(repo, tmp_path / "home") as program:
        running = program.start("-p", "Go.", BYPASS)
        play.comes_back(2, "kid")
        files = Files(program.home)
        play.written(files, "I wait for it.")
        running.kill()
        running.communicate(timeout=WAIT_S)
    play = Play(["So be it."], kid=["It is gone, here is what I know."])
    with play.on(repo, program.home) as program:
        done = program.run("resume", files.id[:8], "-p", BYPASS)
        assert (done.returncode, done.stdout) == (0, "So be it.\n"), done.stderr
        again = program.run("resume", files.id[:8], "-p", "Anything new?", BYPASS)
        assert again.returncode == 0, again.stderr
    assert [state for _, state in play.notices("kid")] == ["killed"]
    assert play.results()[0].startswith("It is gone, here is what I know.") and play.notices() == []


# ── reading and stopping ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("row F12", "F37", "F38")
@pytest.mark.slow
def test_reading_waits_as_long_as_is_said_and_what_delivers_the_end_is_its_only_notice(tmp_path, repo):
    held = Held("There are 412.")
    reads = [
        to_it("TaskOutput", block=False),
        to_it("TaskOutput", timeout=0),
        to_it("TaskOutput", timeout=30),
        to_it("TaskOutput", timeout=-1),
        then(held_go(held), to_it("TaskOutput", timeout=10**12)),
    ]
    play = Play([agent("JOB kid", run_in_background=True), *reads, "I have it."], kid=[held])
    with play.on(repo, tmp_path / "home") as program:
        done = program.run("-p", "Go.", BYPASS)
    assert (done.returncode, done.stdout) == (0, "I have it.\n"), done.stderr
    said = play.results()[1:]
    ways = [re.findall(r"<retrieval_status>(\w+)<", text) for text in said]
    assert ways == [["not_ready"], ["timeout"], ["timeout"], [], ["success"]]
    assert "timeout" in said[3] and "greater than or equal to 0" in said[3]
    assert "<output>\nThere are 412.\n</output>" in said[4] and play.notices() == []


@pytest.mark.slow
@pytest.mark.promise("row F12", "F36", "F37", "F38")
def test_a_read_that_a_kill_cut_off_tells_the_end_in_its_own_result_and_nowhere_else(tmp_path, repo):
    held = Held()
    work = Answer("I found nine.", tools=[("Bash", {"command": "true"})])
    play = Play([agent("JOB kid", run_in_background=True), to_it("TaskOutput", timeout=600_000)], kid=[work, held])
    with play.on(repo, tmp_path / "home") as program:
        running = program.start("-p", "Go.", BYPASS)
        held.come()
        play.comes_back(2)
        play.written(Files(program.home), "TaskOutput")
        running.kill()
        running.communicate(timeout=WAIT_S)
    files = Files(program.home)
    play = Play(["I see."])
    with play.on(repo, program.home) as program:
        done = program.run("resume", files.id[:8], "-p", BYPASS)
        again = program.run("resume", files.id[:8], "-p", "Anything new?", BYPASS)
        assert (done.returncode, again.returncode) == (0, 0), done.stderr + again.stderr
    read = play.results()[-1]
    assert "<status>killed</status>" in read and "<output>\nI found nine.\n</output>" in read and play.notices() == []


@pytest.mark.promise("row F12", "row F3", "F36")
@pytest.mark.slow
def test_one_that_is_stopped_says_so_once_and_bad_ids_are_told_from_good_ones(tmp_path, repo):
    held = Held()
    tries = [
        call("TaskStop", task_id="a000000"),
        call("TaskOutput", task_id="nope"),
        call("SendMessage", to="a000000", message="Hello."),
        call("Agent", description="more", prompt="More.", resume="a000000"),
        call("Agent", description="more", prompt="  "),
        lambda body: call("Agent", description="more", prompt="More.", resume=launched(body)),
        to_it("SendMessage", message=" "),
        then(held.come, to_it("TaskStop")),
        to_it("TaskStop"),
        "Done.",
    ]
    play = Play([agent("JOB kid", run_in_background=True), *tries], kid=[held])
    with play.on(repo, tmp_path / "home") as program:
        done = program.run("-p", "Go.", BYPASS)
        assert done.returncode == 0, done.stderr
    [id] = Files(program.home).agent_ids()
    stop, read, write, resume, wordless, running, empty, stopped, twice = play.results()[1:]
    assert "there is no background task 'a000000' in this session" in stop and id in stop
    assert "there is no background task 'nope' in this session" in read
    assert "there is no sub-agent 'a000000' in this session" in write
    assert "there is no sub-agent 'a000000' in this session" in resume
    assert wordless == "the prompt is empty; nothing was started\nPut the whole job into prompt."
    assert f"{id} is running" in running and f'SendMessage with to "{id}" reaches it now' in running
    assert "needs words" in empty
    assert json.loads(stopped)["task_id"] == id and f"{id} is not running (status: killed)" in twice
    assert play.notices() == [(id, "killed")] and "stopped by the lead" in words_of(play.asked()[-1])


@pytest.mark.promise("F38", "row F12", "row F14")
@pytest.mark.slow
def test_one_that_goes_on_while_its_failed_life_still_ends_a_command_is_told_of_as_itself(tmp_path, repo):
    stubborn = Answer("Begun.", tools=[("Bash", {"command": "trap '' TERM; sleep 300", "run_in_background": True})])

    def more(body):
        return call("Agent", description="more", prompt="More.", resume=launched(body))

    play = Play(
        [agent("JOB kid", run_in_background=True), to_it("TaskOutput", timeout=60_000), more, "I have it."],
        kid=[stubborn, Status(400), "Second end."],
    )
    with play.on(repo, tmp_path / "home") as program:
        done = program.run("-p", "Go.", BYPASS)
        assert done.returncode == 0, done.stderr
    _, read, gone_on = play.results()
    assert "<status>failed</status>" in read and "<output>\nBegun.\n</output>" in read
    assert gone_on.startswith("Second end.") and play.notices() == []
    files = Files(program.home)
    assert [fact["type"] for fact in files.facts()] == ["begun", "ended", "settled", "begun", "ended"]


@pytest.mark.slow
@pytest.mark.promise("F36", "row F12")
def test_a_long_answer_is_whole_in_its_file_and_a_later_life_says_where_it_was_cut(tmp_path, repo):
    long = "line of an answer\n" * 2_000 + "the end"
    play = Play([agent("JOB kid", run_in_background=True), "I wait."], kid=[long])
    with play.on(repo, tmp_path / "home") as program:
        first = program.run("-p", "Go.", BYPASS)
        assert first.returncode == 0, first.stderr
        files = Files(program.home)
        [id] = files.agent_ids()
        assert long in files.output(id)
        play.lead[:] = [call("TaskOutput", task_id=id), "I see."]
        again = program.run("-c", "-p", "Read it again.", BYPASS)
        assert again.returncode == 0, again.stderr
    assert "[… its output file has all of it]" in play.results()[-1] and "the end" not in play.results()[-1]
