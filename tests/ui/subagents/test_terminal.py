"""A person at a terminal and the sub-agents of a session: moving them to the background, stopping them, a kill."""

import signal
from contextlib import contextmanager

import pytest

from teamwright.testing.model_server import LoopbackModel
from tests.ui.program import words_of
from tests.ui.subagents.play import Files, Held, Play, agent
from tests.ui.terminal_driver import Person

CTRL_B = "\x02"
BYPASS = "--dangerously-skip-permissions"


@contextmanager
def at_terminal(play: Play, repo, home, *args: str):
    """A person in front of a session that this play answers."""
    with LoopbackModel.in_thread(play) as play.server:
        keys = {"ANTHROPIC_BASE_URL": play.server.url, "ANTHROPIC_API_KEY": "sk-ant-test-000000001234"}
        person = Person(*args, BYPASS, cwd=repo, TEAMWRIGHT_HOME=str(home), **keys)
        try:
            person.sees("/help", "\n>")
            yield person
        finally:
            person.child.close(force=True)


MOVES = {
    "/bg": lambda person, id: person.says("/bg"),
    "/bg ID": lambda person, id: person.says(f"/bg {id}"),
    "/bg lead": lambda person, id: person.says("/bg @lead"),
    "Ctrl-B": lambda person, id: person.types(CTRL_B),
}


@pytest.mark.slow_after(1)
@pytest.mark.promise("row F4", "F38", "K8")
@pytest.mark.parametrize("how", MOVES)
def test_what_the_lead_waits_for_is_moved_by_a_person_and_its_end_wakes_the_lead(tmp_path, repo, how):
    held = Held("There are 412.")
    play = Play([agent("JOB kid"), "I go on meanwhile.", "It found 412."], kid=[held])
    with at_terminal(play, repo, tmp_path / "home") as person:
        person.says("Go.")
        held.come()
        files = Files(tmp_path / "home")
        [id] = files.agent_ids()
        person.says("/members")
        person.sees(f"└ {id} job JOB kid, waited for")
        MOVES[how](person, id)
        person.sees(f"in the background: {id} job JOB kid", "I go on meanwhile.")
        person.says("/bg")
        person.sees("nothing runs in the foreground")
        held.go()
        person.sees("It found 412.")
        person.says("/quit")
        assert person.leaves() == 0
    assert "continues in the background" in play.results()[0] and play.notices() == [(id, "completed")]
    assert files.states() == ["running", "background", "completed"]
    assert play.count == {"lead": 3, "kid": 1}, "no step was done a second time"


@pytest.mark.slow
@pytest.mark.promise("row F4", "F38", "F57")
def test_one_that_a_person_moved_is_told_as_killed_after_a_kill_and_the_terminal_says_so(tmp_path, repo):
    held = Held()
    play = Play([agent("JOB kid"), "I go on meanwhile."], kid=[held])
    with at_terminal(play, repo, tmp_path / "home") as person:
        person.says("Go.")
        held.come()
        person.types(CTRL_B)
        person.sees("I go on meanwhile.")
        person.child.kill(signal.SIGKILL)
        person.child.wait()
    files = Files(tmp_path / "home")
    [id] = files.agent_ids()
    play = Play(["It was killed, I see.", "Nothing new."])
    with at_terminal(play, repo, tmp_path / "home", "resume", files.id[:8]) as person:
        person.sees("It was killed, I see.")
        person.says("Anything new?")
        person.sees("Nothing new.")
        person.says("/quit")
        assert person.leaves() == 0
    assert play.notices() == [(id, "killed")]
    assert files.states() == ["running", "background", "killed"]


@pytest.mark.promise("row F12", "D4", "K8")
@pytest.mark.slow
def test_a_person_stops_a_sub_agent_or_a_command_by_its_id_and_the_lead_is_told(tmp_path, repo):
    held, job = Held(), ("Bash", {"command": "exec sleep 300", "run_in_background": True, "description": "Serve"})
    start = agent("JOB kid", run_in_background=True)
    start.tools.append(job)
    play = Play([start, "Both run.", "One is stopped.", "Both are stopped."], kid=[held])
    with at_terminal(play, repo, tmp_path / "home") as person:
        person.says("Go.")
        person.sees("Both run.")
        held.come()
        files = Files(tmp_path / "home")
        [id] = files.agent_ids()
        [job_id] = [path.stem for path in files.directory.glob("output/b*.output")]
        person.says("/members")
        person.sees(f"└ {id} job JOB kid", f"└ {job_id} Serve")
        person.says(f"/stop {id}")
        person.sees(f"{id} job JOB kid was stopped", "One is stopped.")
        person.says(f"/stop {job_id}")
        person.sees(f"{job_id} Serve was stopped", "Both are stopped.")
        person.says(f"/stop {id}")
        person.sees(f"{id} job JOB kid does not run: it is killed")
        for line in ("/stop a000000", "/bg a000000"):
            person.says(line)
            person.sees(line, "'a000000' is not in the team")
        person.says("/quit")
        assert person.leaves() == 0
    assert play.notices() == [(id, "killed"), (job_id, "stopped")]
    assert "stopped by the user" in words_of(play.asked()[-1])


@pytest.mark.slow
@pytest.mark.promise("row F10")
def test_a_persons_own_command_and_what_a_fork_answered_are_there_after_a_kill(tmp_path, repo):
    (tmp_path / "home" / "commands").mkdir(parents=True)
    (tmp_path / "home" / "commands" / "look.md").write_text("---\ncontext: fork\n---\nJOB kid: $1\n")
    play = Play([], kid=["A sub-agent looked."])
    with at_terminal(play, repo, tmp_path / "home") as person:
        person.says("!echo printed-by-me")
        person.sees("!echo printed-by-me", "printed-by-me")
        person.says("/look it")
        person.sees("A sub-agent looked.")
        play.written(Files(tmp_path / "home"), "<bash-output>")
        person.child.kill(signal.SIGKILL)
        person.child.wait()
    play = Play(["I know.", "Still."])
    with at_terminal(play, repo, tmp_path / "home", "resume", Files(tmp_path / "home").id[:8]) as person:
        person.says("What do you know?")
        person.sees("I know.")
        person.says("And now?")
        person.sees("Still.")
    known = words_of(play.asked()[-1])
    assert known.count("<bash-output>printed-by-me") == 1 and known.count("A sub-agent looked.") == 1
