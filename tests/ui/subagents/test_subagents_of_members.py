"""Sub-agents that a member runs in the background, through the real program: whose they are, and what a kill leaves."""

import asyncio
import json

import pytest

from teamwright.testing.model_server_replies import Answer
from tests.support.waits import WAIT_S
from tests.ui.program import told_results, words_of
from tests.ui.subagents.play import Files, Held, Play, call

BYPASS = "--dangerously-skip-permissions"


def spawn(name: str) -> Answer:
    return call("Agent", name=name, description=f"be {name}", prompt=f"JOB {name}")


BEHIND = call("Agent", description="job kid", prompt="JOB kid", run_in_background=True)


@pytest.mark.promise("row F3", "F38", "D5", "F12")
def test_its_end_wakes_the_idle_member_that_started_it_and_nobody_else(tmp_path, repo):
    held = Held("There are 412.")
    play = Play([spawn("ada"), "I wait."], ada=[BEHIND, "I wait for it.", "It found 412."], kid=[held])
    with play.on(repo, tmp_path / "home") as program:
        running = program.start("-p", "Go.", BYPASS)
        held.come()
        play.comes_back(2, "ada")
        play.written(Files(program.home), "I wait for it.")
        held.go()
        _, err = running.communicate(timeout=WAIT_S)
    assert running.returncode == 0, err
    [id] = Files(program.home).agent_ids()
    assert play.notices("ada") == [(id, "completed")] and play.notices() == []
    assert Files(program.home).facts()[0]["owner"] == "ada"


@pytest.mark.promise("row F12", "F37", "F38")
@pytest.mark.slow
def test_the_lead_may_read_it_without_taking_its_notice_and_another_member_may_not_touch_it(tmp_path, repo):
    held = Held("There are 412.")
    known: list[str] = []

    async def starts(_body):
        await asyncio.to_thread(held.come)
        known.extend(Files(tmp_path / "home").agent_ids())
        return spawn("bob")

    def tries(_body):
        id = known[0]
        stranger = [("TaskOutput", {"task_id": id}), ("TaskStop", {"task_id": id})]
        resumes = ("Agent", {"description": "more", "prompt": "More.", "resume": id})
        return Answer(tools=[*stranger, ("SendMessage", {"to": id, "message": "Hello."}), resumes])

    def let_go(_body):
        held.go()
        return call("TaskOutput", task_id=known[0])

    parts = {"ada": [BEHIND, "I wait for it."], "bob": [tries, "I may not."], "kid": [held]}
    play = Play([spawn("ada"), starts, "I wait.", let_go], **parts)
    with play.on(repo, tmp_path / "home") as program:
        done = program.run("-p", "Go.", BYPASS)
        assert done.returncode == 0, done.stderr
    refused = play.results("bob")
    assert len(refused) == 4 and all(f"{known[0]} belongs to ada" in text for text in refused), refused
    reads = [one["text"] for body in play.asked() for one in told_results(body) if "retrieval_status" in one["text"]]
    assert "There are 412." in reads[-1] and play.notices("ada") == [(known[0], "completed")]


@pytest.mark.promise("F38", "F57", "row F3")
@pytest.mark.slow
def test_after_a_kill_the_member_is_told_as_killed_once_and_goes_on_with_it(tmp_path, repo):
    held = Held()
    work = Answer("I found nine.", tools=[("Bash", {"command": "true"})])
    play = Play([spawn("ada"), "I wait."], ada=[BEHIND, "I wait for it."], kid=[work, held])
    with play.on(repo, tmp_path / "home") as program:
        running = program.start("-p", "Go.", BYPASS)
        held.come()
        play.written(Files(program.home), "I wait for it.")
        running.kill()
        running.communicate(timeout=WAIT_S)
    files = Files(program.home)
    [id] = files.agent_ids()
    more = call("Agent", description="the rest", prompt="Finish.", resume=id)
    play = Play([], ada=[more, "It has 412."], kid=["There are 412."])
    with play.on(repo, program.home) as program:
        done = program.run("resume", files.id[:8], "-p", BYPASS)
        assert done.returncode == 0, done.stderr
    assert play.notices("ada") == [(id, "killed")] and play.notices() == []
    assert "<result>I found nine.</result>" in words_of(play.asked("ada")[0])
    assert play.results("ada")[-1].startswith("There are 412.")


@pytest.mark.promise("row F2", "F57")
@pytest.mark.slow
def test_after_a_kill_one_that_a_member_waited_for_goes_on_and_answers_the_members_call(tmp_path, repo):
    held = Held()
    wait = call("Agent", description="job kid", prompt="JOB kid")
    play = Play([spawn("ada"), "I wait."], ada=[wait], kid=[held])
    with play.on(repo, tmp_path / "home") as program:
        running = program.start("-p", "Go.", BYPASS)
        held.come()
        play.comes_back(2)
        running.kill()
        running.communicate(timeout=WAIT_S)
    files = Files(program.home)
    [id] = files.agent_ids()
    play = Play([], ada=["It has 412."], kid=["There are 412."])
    with play.on(repo, program.home) as program:
        done = program.run("resume", files.id[:8], "-p", BYPASS)
        assert done.returncode == 0, done.stderr
    assert play.results("ada")[0].startswith(f"There are 412.agentId: {id}") and play.count["kid"] == 1
    assert play.notices("ada") == play.notices() == []


@pytest.mark.promise("row F3", "D4", "F39")
@pytest.mark.slow
def test_when_the_member_is_stopped_its_background_ends_with_it_and_is_settled(tmp_path, repo):
    held = Held()

    async def stop(_body):
        await asyncio.to_thread(held.come)
        return call("TaskStop", task_id="ada")

    play = Play([spawn("ada"), stop, "Done."], ada=[BEHIND, "I wait for it."], kid=[held])
    with play.on(repo, tmp_path / "home") as program:
        done = program.run("-p", "Go.", BYPASS)
        assert done.returncode == 0, done.stderr
        files = Files(program.home)
        again = program.run("-c", "-p", "Anything new?", BYPASS)
        assert again.returncode == 0, again.stderr
    assert json.loads(play.results()[1])["task_type"] == "teammate"
    facts = files.facts()
    assert [fact["type"] for fact in facts] == ["begun", "ended", "settled"]
    assert (facts[1]["state"], facts[1]["why"]) == ("killed", "the agent that started it has ended")
    assert play.notices() == []
