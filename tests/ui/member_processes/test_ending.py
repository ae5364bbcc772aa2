"""Every way in which a session with members in processes of their own ends: no process of it is left."""

import json
import os
import signal
import subprocess
from itertools import chain, repeat

import pytest

from tests.support.model_requests import newest_text
from tests.ui.member_processes.house import BYPASS, kill
from tests.ui.subagents.play import Held, agent, call
from tests.ui.terminal_driver import Person

pytestmark = pytest.mark.promise("D3", "D6", "F21", "F22", "F23", "F28")


def asks_bob(seen):
    """Asks bob to stop as soon as he has reported, and goes on when he has answered."""

    def lead(body):
        words = newest_text(body)
        seen.append(words)
        if "bob's report." in words:
            return call("SendMessage", to="bob", message={"type": "shutdown_request", "reason": "all is done"})
        return "I wait."

    return chain([agent("JOB bob", name="bob")], repeat(lead, 30))


@pytest.mark.slow
def test_who_agrees_by_its_silence_to_stop_is_gone_and_told_of_once(scene):
    seen = []
    here = scene(asks_bob(seen), bob=["bob's report.", "All right."])
    here.start()
    code, _, err = here.end()
    assert code == 0, err
    terminated = [one for one in here.of("message_sent") if one.get("wire") == "teammate_terminated"]
    assert len(terminated) == 1
    assert here.of("member_changed", "bob")[-1]["state"] == "completed"
    here.once()


@pytest.mark.slow
def test_who_never_answers_a_request_to_stop_is_ended_at_the_deadline(scene):
    seen, held = [], Held("much too late")
    here = scene(asks_bob(seen), bob=["bob's report.", held])
    here.set(shutdown_objection_s=1)
    here.start()
    code, _, err = here.end()
    assert code == 0, err
    last = here.of("member_changed", "bob")[-1]
    assert (last["state"], "did not answer" in last["detail"]) == ("killed", True)
    assert "much too late" not in here.told_lead()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda one: one.name)
def test_a_signal_to_the_lead_ends_all_and_everybody_keeps_its_place(scene, number):
    held = Held("ann's report.")
    here = scene([agent("JOB ann", name="ann"), *["I wait."] * 9], ann=[held, held, "ann again."])
    here.start()
    held.come()
    here.lead.send_signal(number)
    code, _, err = here.end()
    assert code == (130 if number == signal.SIGINT else 143), err
    assert not here.marked.pids()
    assert here.roster() == ["ann"]
    held.go()
    assert here.resume().returncode == 0
    assert len(here.of("model_call_ended", "ann")) == 1
    here.once()


@pytest.mark.slow
def test_both_are_killed_and_each_message_is_seen_once(scene):
    """The kill came after the transcript had the mail, and before its flag: the state that is left is put back so."""
    held = Held("ann's report.")
    here = scene([agent("JOB ann", name="ann"), *["I wait."] * 9], ann=[held, held, "ann again."])
    here.start()
    held.come()
    pid = here.marked.member("ann")
    here.kill_lead()
    kill(pid)
    inbox = here.team() / "inboxes/ann.json"
    inbox.write_text(inbox.read_text().replace('"read": true', '"read": false').replace('"read":true', '"read":false'))
    assert here.program.run("send", f"ann@{here.team().name}", "and a word to her").returncode == 0
    held.go()
    assert here.resume().returncode == 0
    lines = here.told("ann").splitlines()
    for words in ("JOB ann", "and a word to her"):
        assert sum('"type":"user"' in line and words in line for line in lines) == 1, words
    here.once()


@pytest.mark.slow
def test_a_place_that_is_not_there_any_more_costs_no_member_its_life(scene, backend):
    held = Held("ann's report.")
    here = scene([agent("JOB ann", name="ann"), *["I wait."] * 9], ann=[held, held, "ann again."])
    here.start()
    held.come()
    pid = here.marked.member("ann")
    here.kill_lead()
    if backend == "tmux":
        here.closable = False
        here.program.env["PATH"] = os.pathsep.join(
            place for place in os.environ["PATH"].split(os.pathsep) if not os.path.exists(f"{place}/tmux")
        )
    held.go()
    done = here.resume()
    assert done.returncode == 0, done.stderr
    assert "report." in here.told_lead() or "again." in here.told_lead()
    sessions = (here.transcript.with_suffix("") / "members/ann/events.jsonl").read_text().count('"session_opened"')
    assert sessions == 1
    if backend == "tmux":
        assert "continues in the lead's process" in done.stderr + str(here.of("notice"))
    assert not here.marked.pids(), pid
    here.once()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["/quit", "Ctrl-C twice"])
def test_a_person_who_leaves_leaves_no_process(scene, how):
    held = Held("ann's report.")
    here = scene([agent("JOB ann", name="ann"), *["I wait."] * 9], ann=[held])
    here.program.settings(members={"backend": here.backend, "orphan_timeout_s": 60}, shutdown_timeout_s=1)
    person = Person("--model", "sonnet", BYPASS, cwd=here.program.cwd, **here.program.environment)
    try:
        person.sees("/help", "\n>")
        person.says("work")
        held.come()
        person.sees("I wait.")
        if how == "/quit":
            person.says("/quit")
        else:
            person.types("\x03")
            person.sees("Ctrl-C")
            person.types("\x03")
        person.sees("leave? [w/s/l]")
        person.says("l")
        assert person.leaves() == 5, "ann was cut off at work"
        assert not here.marked.pids()
        assert here.roster() == ["ann"]
    finally:
        person.child.close(force=True)
        held.go()


@pytest.mark.slow
def test_a_line_that_a_kill_cut_off_in_a_members_transcript_costs_nothing_else(scene):
    """The state that a kill leaves while the line is written is put back: half a line at the end."""
    held = Held("too late")
    first = call("Bash", command="echo hello")
    here = scene([agent("JOB ann", name="ann"), *["I wait."] * 9], ann=[first, held, "ann again."])
    here.start()
    held.come()
    pid = here.marked.member("ann")
    here.kill_lead()
    kill(pid)
    path = here.transcript.with_suffix("") / "agents/ann.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + whole.splitlines()[-1][:-9])
    held.go()
    done = here.resume()
    assert done.returncode == 0, done.stderr
    assert path.read_bytes().startswith(whole)
    messages = [one["message"] for line in path.read_text().splitlines() if (one := json.loads(line)).get("message")]
    said = json.dumps(messages)
    assert [said.count(words) for words in (r"\nJOB ann\n", "hello", "ann again.")] == [1, 2, 1], said
    assert here.told_lead().count("ann again.") == 1
    here.once()


@pytest.mark.slow
@pytest.mark.finding("R9")
def test_whose_answer_a_local_server_computes_is_not_ended_at_the_deadline(scene):
    held = Held("All right.")
    here = scene(asks_bob([]), bob=["bob's report.", held])
    house = {"base_url": here.program.url, "api": "messages"}
    deadline_s = 2
    here.set(shutdown_objection_s=deadline_s, providers={"house": house}, model="house/test")
    here.start()
    held.come()
    with pytest.raises(subprocess.TimeoutExpired):
        here.lead.wait(timeout=3 * deadline_s)
    assert here.of("progress", "bob")[-1]["doing"] == "prompt"
    held.go()
    code, _, err = here.end()
    assert code == 0, err
    assert here.of("member_changed", "bob")[-1]["state"] == "completed"
