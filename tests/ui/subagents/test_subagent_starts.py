"""Each way to start a sub-agent, through the real program: what it leaves, and what a kill in its middle leaves.

| route | works | killed, resumed |
|---|---|---|
| foreground | test_an_answer_… | test_after_a_kill_one_that_was_waited_for_… |
| background: said, defined, coordinator, always | test_an_answer_… | test_after_a_kill_one_in_the_background_… |
| moved by the time limit | test_an_answer_… | test_after_a_kill_one_in_the_background_… |
| moved by /bg and Ctrl-B | test_terminal.py | test_terminal.py |
| a command with `context: fork`, in the background too | test_commands_that_fork.py | test_commands_that_fork.py |
| SendMessage, resume, TaskOutput, TaskStop | test_words.py | test_words.py |
| /stop | test_terminal.py | it leaves nothing to kill |
| sub-agents of a member | test_of_members.py | test_of_members.py |
"""

import re
from dataclasses import dataclass, field
from typing import Any

import pytest

from teamwright.testing.model_server_replies import Answer
from tests.support.waits import WAIT_S
from tests.ui.program import Program
from tests.ui.subagents.play import Files, Held, Play, agent, call, notices

BYPASS = "--dangerously-skip-permissions"
LONGHAND = "---\nname: digger\ndescription: Digs.\nbackground: true\n---\nYou dig.\n"


@dataclass(frozen=True)
class Route:
    """How the lead starts one: the call, settings, and the states that the event log shows of it."""

    name: str
    given: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    states: tuple[str, ...] = ("background", "completed")
    status: str = "runs in the background"


FOREGROUND = Route("foreground", states=("running", "completed"))
BACKGROUND = [
    Route("parameter", {"run_in_background": True}),
    Route("definition", {"subagent_type": "digger"}),
    Route("coordinator", settings={"coordinator": True}),
    Route("always", settings={"agents": {"background": "always"}}),
    Route(
        "time limit",
        settings={"agents.background_after_s": 0.3},
        states=("running", "background", "completed"),
        status="continues in the background",
    ),
]


def prepared(program: Program, route: Route) -> None:
    program.settings(**route.settings)
    (program.home / "agents").mkdir(parents=True)
    (program.home / "agents" / "digger.md").write_text(LONGHAND)


def ids(route: Route) -> str:
    return route.name


@pytest.mark.promise("row F2", "row F3", "row F4", "row F13", "row F16", "F36", "F38")
@pytest.mark.parametrize("route", [FOREGROUND, *BACKGROUND], ids=ids)
@pytest.mark.slow_after(1)
def test_an_answer_comes_back_once_and_leaves_events_a_transcript_a_file_and_a_record(tmp_path, repo, route):
    held = Held("There are 412.")
    work = Answer("I look.", tools=[("Bash", {"command": "echo looked"})])
    play = Play([agent("JOB kid", **route.given), "I wait."], kid=[work, held])
    with play.on(repo, tmp_path / "home") as program:
        prepared(program, route)
        running = program.start("-p", "Go.", BYPASS)
        held.come()
        if route is not FOREGROUND:
            play.comes_back(2)
        held.go()
        out, err = running.communicate(timeout=WAIT_S)
    assert running.returncode == 0, err
    files = Files(program.home)
    [id] = files.agent_ids()
    if route is FOREGROUND:
        [told] = play.results()
        assert told.startswith(f"There are 412.agentId: {id}") and "tool_uses: 1" in told
        assert play.notices() == [] and out == "I wait.\n"
    else:
        assert route.status in play.results()[0] and f"agentId: {id}" in play.results()[0]
        assert play.notices() == [(id, "completed")] and "<result>There are 412.</result>" in str(play.asked()[-1])
        assert out == "lead is done.\n"
    assert tuple(files.states()) == route.states
    assert files.output(id).splitlines()[1:] == [
        "I look.", "[Bash {'command': 'echo looked'}]", "There are 412.", "[completed]",
    ]  # fmt: skip
    assert [line["type"] for line in files.of_agent(id)] == [
        "header", "queued", "user", "assistant", "user", "assistant",
    ]  # fmt: skip
    kinds = [fact["type"] for fact in files.facts()]
    assert kinds == ["begun", *(["background"] if route.name == "time limit" else []), "ended"]
    assert files.facts()[-1]["text"] == "There are 412." and files.facts()[-1]["tools"] == 1


def killed_in_the_middle(program: Program, play: Play, held: Held, route: Route) -> Files:
    prepared(program, route)
    running = program.start("-p", "Go.", BYPASS)
    held.come()
    if route is not FOREGROUND:
        play.comes_back(2)
    running.kill()
    running.communicate(timeout=WAIT_S)
    return Files(program.home)


@pytest.mark.slow
@pytest.mark.promise("row F2", "F57", "F38")
def test_after_a_kill_one_that_was_waited_for_goes_on_and_answers_the_same_call_whatever_is_killed_again(
    tmp_path, repo
):
    held, again = Held(), Held()
    work = Answer("I look.", tools=[("Bash", {"command": "echo looked >> seen"})])
    play = Play([agent("JOB kid")], kid=[work, held])
    with play.on(repo, tmp_path / "home") as program:
        files = killed_in_the_middle(program, play, held, FOREGROUND)
    play = Play([], kid=[again])
    with play.on(repo, program.home) as program:
        second = program.start("resume", files.id[:8], "-p", BYPASS)
        again.come()
        second.kill()
        second.communicate(timeout=WAIT_S)
    play = Play(["I have it."], kid=["There are 412."])
    with play.on(repo, program.home) as program:
        third = program.run("resume", files.id[:8], "-p", BYPASS)
        fourth = program.run("resume", files.id[:8], "-p", "Anything new?", BYPASS)
    assert (third.returncode, third.stdout) == (0, "I have it.\n"), third.stderr
    assert fourth.returncode == 0, fourth.stderr
    [id] = files.agent_ids()
    [told] = play.results()
    assert told.startswith(f"There are 412.agentId: {id}") and play.notices() == []
    assert (repo / "seen").read_text() == "looked\n", "what it had done is not done again"
    assert files.states() == ["running", "running", "running", "completed"]
    assert [fact["type"] for fact in files.facts()] == ["begun", "begun", "begun", "ended"]


@pytest.mark.slow_after(1)
@pytest.mark.promise("row F3", "row F4", "row F16", "F36", "F38", "F57")
@pytest.mark.parametrize("route", BACKGROUND, ids=ids)
def test_after_a_kill_one_in_the_background_is_told_as_killed_once_with_what_it_had_said_and_goes_on(
    tmp_path, repo, route
):
    held, stalls = Held(), Held()
    work = Answer("I found nine.", tools=[("Bash", {"command": "echo looked >> seen"})])
    play = Play([agent("JOB kid", **route.given), "I wait."], kid=[work, held])
    with play.on(repo, tmp_path / "home") as program:
        files = killed_in_the_middle(program, play, held, route)
    [id] = files.agent_ids()
    play = Play([stalls])
    with play.on(repo, program.home) as program:  # the second life is killed when it was told, and has said nothing
        second = program.start("resume", files.id[:8], "-p", BYPASS)
        stalls.come()
        second.kill()
        second.communicate(timeout=WAIT_S)
        assert play.notices() == [(id, "killed")]
    told = str(play.asked()[-1])
    assert "<result>I found nine.</result>" in told and "it ended with the process that ran it" in told
    more = {"prompt": "Finish.", "resume": id, "description": "the rest"}
    play = Play([call("Agent", **more), "I wait."], kid=["There are 412."])
    with play.on(repo, program.home) as program:
        third = program.run("resume", files.id[:8], "-p", "Go on.", BYPASS)
        fourth = program.run("resume", files.id[:8], "-p", "Anything new?", BYPASS)
        assert (third.returncode, fourth.returncode) == (0, 0), third.stderr + fourth.stderr
    child = play.asked("kid")[-1]
    assert "JOB kid" in str(child["messages"][0]) and "Finish." in str(child["messages"][-1])
    ends = [state for told_id, state in play.notices() if told_id == id]
    forced = bool(route.settings)  # a setting sends it to the background again, or lets it answer before the limit
    assert ends in ([["killed"], ["killed", "completed"]] if forced else [["killed"]]), ends
    assert (repo / "seen").read_text() == "looked\n", "what it had done is not done again"
    assert files.states()[-1] == "completed"
    assert len(re.findall("There are 412.", str(play.asked()[-1]))) == 1


@pytest.mark.slow
@pytest.mark.promise("F38", "F39", "row F14", "row F15")
def test_twenty_that_end_in_one_moment_are_told_once_each_and_after_a_kill_too(tmp_path, repo):
    names = [f"kid{number:02}" for number in range(20)]
    calls = [
        ("Agent", {"description": f"job {name}", "prompt": f"JOB {name}", "run_in_background": True}) for name in names
    ]
    held = {name: Held(f"{name} says so") for name in names}
    caps = {"limits.spawns_per_minute": 60, "limits.agents": 20}
    play = Play([Answer(tools=calls), "I wait."], **{name: [one] for name, one in held.items()})
    with play.on(repo, tmp_path / "home") as program:
        program.settings(**caps)
        running = program.start("-p", "Go.", BYPASS)
        for one in held.values():
            one.come()
        play.comes_back(2)
        for one in held.values():
            one.go()
        _, err = running.communicate(timeout=WAIT_S)
        assert running.returncode == 0, err
    files = Files(program.home)
    assert sorted(play.notices()) == [(id, "completed") for id in files.agent_ids()] and len(play.notices()) == 20
    play = Play([])
    with play.on(repo, program.home) as program:
        again = program.run("-c", "-p", "Anything new?", BYPASS)
        assert again.returncode == 0, again.stderr
    assert len(play.notices()) == 20, "a session that ended in order has nothing to tell again"
    # The same twenty, killed.
    held = {name: Held() for name in names}
    play = Play([Answer(tools=calls), "I wait."], **{name: [one] for name, one in held.items()})
    with play.on(repo, tmp_path / "other") as program:
        program.settings(**caps)
        running = program.start("-p", "Go.", BYPASS)
        for one in held.values():
            one.come()
        running.kill()
        running.communicate(timeout=WAIT_S)
    files = Files(program.home)
    play = Play([])
    with play.on(repo, program.home) as program:
        for _ in range(2):
            done = program.run("resume", files.id[:8], "-p", "Go on.", BYPASS)
            assert done.returncode == 0, done.stderr
    assert sorted(notices(play.asked()[-1])) == [(id, "killed") for id in files.agent_ids()]
    assert len(files.agent_ids()) == 20
