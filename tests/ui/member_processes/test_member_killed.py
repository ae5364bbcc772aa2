"""A process of a member ends by a kill or a signal: its tasks go back, the lead hears of it once, nothing stays."""

import json
import re
import signal
from itertools import chain, repeat

import pytest

from tests.support.model_requests import newest_text
from tests.support.notices import notices
from tests.ui.member_processes.house import House, kill, until
from tests.ui.program import Mark
from tests.ui.subagents.play import Held, agent, call

pytestmark = pytest.mark.promise("B7", "D4", "D5", "F20", "F21")


def newest(body):
    """What the newest message says, results of calls left out."""
    return newest_text(body)


class Lead:
    """Resumes the member as soon as it hears that it has crashed."""

    def __init__(self):
        self.told = []

    def __call__(self, body):
        words = newest(body)
        if not notices("teammate_terminated", words):
            return "I wait."
        self.told.append(words)
        return agent("Finish it.", name="ann") if len(self.told) == 1 else "Again?"

    def parts(self):
        makes = call("TaskCreate", subject="the job", description="do it")
        return chain([makes, agent("JOB ann", name="ann"), agent("JOB bob", name="bob")], repeat(self, 30))


TAKES = call("TaskUpdate", taskId="1", status="in_progress", owner="ann")
AGAIN = [call("TaskUpdate", taskId="1", status="completed"), "ann did it."]


def mail_of_lead(here: House) -> list[dict]:
    found = [json.loads(path.read_text()) for path in here.program.home.glob("*/*/inboxes/team-lead.json")]
    return [entry for inbox in found for entry in inbox]


def ended(here: House, lead: Lead, why: str) -> None:
    """The crash was told once, the task went back, and the member did it when it was resumed."""
    code, _, err = here.end()
    assert code == 0, err
    terminated = [entry for entry in mail_of_lead(here) if "teammate_terminated" in entry["text"]]
    assert len(terminated) == 1
    told = json.loads(terminated[0]["text"])
    assert (told["name"], told["handedBack"]) == ("ann", ["1"])
    assert why in told["cause"]
    assert len(lead.told) == 1
    lives = {one["incarnation"] for one in here.of("member_changed", "ann")}
    assert lives == {1}
    assert here.told_lead().count("ann did it.") == 1
    here.once()


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(
    ("at", "number"),
    [("rest", signal.SIGKILL), ("work", signal.SIGKILL), ("work", signal.SIGTERM), ("rest", signal.SIGHUP)],
)
def test_whose_process_ends_at_rest_or_in_a_model_call_is_told_of_once(scene, at, number):
    held, bob, lead = Held("too late"), Held("bob's report."), Lead()
    mine = [TAKES, "ann's report.", *AGAIN] if at == "rest" else [TAKES, held, *AGAIN]
    here = scene(lead.parts(), ann=mine, bob=[bob])
    here.start()
    bob.come()
    if at == "rest":
        until(lambda: "ann's report." in here.told_lead())
    else:
        held.come()
    pid = here.marked.member("ann")
    kill(pid, number)
    here.play.comes_back(4, "ann")
    bob.go()
    crash = f"crashed: its process {pid} ended without a message"
    ended(here, lead, {signal.SIGTERM: "SIGTERM", signal.SIGHUP: "its terminal was closed"}.get(number, crash))
    assert "too late" not in here.told_lead()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda one: one.name)
@pytest.mark.usefixtures("unconfined")
def test_who_is_killed_in_a_command_leaves_none_of_its_commands(scene, tmp_path, number):
    up, bob, lead = Mark(tmp_path / "up"), Held("bob's report."), Lead()
    behind = call("Bash", command=f"echo $$ > {up.path}; sleep 1001", run_in_background=True)
    runs = call("Bash", command=f"echo $$ > {up.path}; setsid sleep 1002")
    here = scene(lead.parts(), ann=[TAKES, behind, runs, *AGAIN], bob=[bob])
    here.start()
    up.wait()
    up.wait()
    bob.come()
    until(lambda: here.marked.pids("sleep", "1001") and here.marked.pids("sleep", "1002"))
    kill(here.marked.member("ann"), number)
    here.play.comes_back(4, "ann")
    assert not here.marked.pids("sleep")
    here.play.comes_back(5, "ann")
    bob.go()
    ended(here, lead, "SIGTERM" if number == signal.SIGTERM else "crashed: ")


HELD_AGREEMENT = "grep -q '\"approve\": *true' && echo $$ > {up} && cat {gate}; true"
"""A hook that holds the process once its model's agreement to stop is in the file of the request."""


@pytest.mark.slow
def test_who_has_agreed_to_stop_has_ended_so_though_it_was_killed_before_it_could_say_goodbye(scene, tmp_path):
    up, gate = Mark(tmp_path / "up"), Mark(tmp_path / "gate")

    def lead(body):
        stops = {"type": "shutdown_request", "reason": "all is done"}
        return call("SendMessage", to="ann", message=stops) if "ann's report." in newest(body) else "I wait."

    def agrees(body):
        [request] = set(re.findall(r"shutdown-\d+@ann", json.dumps(body["messages"])))
        answer = {"type": "shutdown_response", "request_id": request, "approve": True}
        return call("SendMessage", to="lead", message=answer)

    here = scene(chain([agent("JOB ann", name="ann")], repeat(lead, 30)), ann=["ann's report.", agrees])
    hook = {"type": "command", "command": HELD_AGREEMENT.format(up=up.path, gate=gate.path)}
    here.set(hooks={"PostToolUse": [{"matcher": "SendMessage", "hooks": [hook]}]})
    here.start()
    up.wait()
    kill(here.marked.member("ann"))
    code, _, err = here.end()
    assert code == 0, err
    assert here.of("member_changed", "ann")[-1]["state"] == "completed"
    told = [json.loads(entry["text"]) for entry in mail_of_lead(here) if entry["text"].startswith("{")]
    told = [one for one in told if one["type"] in {"shutdown_approved", "teammate_terminated"}]
    assert [one["type"] for one in told] == ["shutdown_approved", "teammate_terminated"]
    assert told[1]["cause"] == "shut down on request"
    here.once()


@pytest.mark.slow
def test_what_a_process_logged_last_is_known_though_it_was_killed_before_it_could_tell(scene):
    """The kill came after the line was in its file, and before it was sent: the state that is left is put back so."""
    held = Held("too late")
    here = scene([agent("JOB ann", name="ann"), *["I wait."] * 9], ann=[call("Bash", command="echo hello"), held])
    here.start()
    held.come()
    log = here.transcript.with_suffix("") / "members/ann/events.jsonl"
    # No line of its own comes any more that would have the number of the line written here.
    until(lambda: here.of("model_call_ended", "ann") and '"tool_called"' in log.read_text())
    used = next(line for line in log.read_text().splitlines() if '"model_call_ended"' in line)
    number = json.loads(log.read_text().splitlines()[-1])["n"]
    with log.open("a") as file:
        file.write(json.dumps({**json.loads(used), "n": number + 1}, separators=(",", ":")) + "\n")
        file.write('{"torn')
    kill(here.marked.member("ann"))
    assert here.end()[0] == 5
    assert len(here.of("model_call_ended", "ann")) == 2
    here.once()
