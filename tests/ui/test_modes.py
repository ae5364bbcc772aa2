"""Permission modes of the real program: by flag, at a terminal, and again in the next process."""

import json
import os
import signal
from pathlib import Path

import pytest

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from tests.support.notices import notices
from tests.support.waits import WAIT_S
from tests.ui.program import Mark, Program, told_results
from tests.ui.terminal_driver import CTRL_D, Person
from tests.ui.test_terminal_session import all_told, at_terminal, told, who

READ = Answer(tools=[("Read", {"file_path": "README.md"})])
BEGINS, SHORT = "You are in delegate mode", "Delegate mode: coordinate"


def spawn(name: str) -> tuple[str, dict]:
    return ("Agent", {"description": "start it", "prompt": "Write the file.", "name": name})


def wrote(name: str) -> Answer:
    return Answer(tools=[("Write", {"file_path": f"{name}.txt", "content": "by " + name})])


def gone(body: dict) -> bool:
    return bool(notices("teammate_terminated", all_told(body)))


def coordinator(body: dict) -> Answer | str:
    """The lead reads first, is refused, spawns ada, and sees her out; ada writes a file."""
    if who(body) == "ada":
        if "shutdown_request" in told(body):
            return "Gone."
        return wrote("ada") if "Write the file." in told(body) else "Written."
    lead = all_told(body)
    if '"Read"' not in lead:
        return READ
    if '"Agent"' not in lead:
        return Answer(tools=[spawn("ada")])
    if "Written." in lead and "shutdown_request" not in lead:
        ask = {"to": "ada", "message": {"type": "shutdown_request", "reason": "done"}}
        return Answer(tools=[("SendMessage", ask)])
    if gone(body) and '"TeamDelete"' not in lead:
        return Answer(tools=[("TeamDelete", {})])
    return "All is done." if gone(body) else "I wait."


@pytest.mark.promise("G6", "F45")
@pytest.mark.slow
def test_a_lead_that_delegates_by_a_flag_is_refused_a_file_and_has_a_teammate_write_one(tmp_path, repo):
    with LoopbackModel.in_thread(coordinator) as server:
        program = Program(repo, tmp_path / "home", server.url)
        program.settings(permissions={"defaultMode": "acceptEdits"})
        done = program.run("-p", "go", "--permission-mode", "delegate", "--output-format", "stream-json", "--verbose")
    assert done.returncode == 0, done.stderr
    assert (repo / "ada.txt").read_text() == "by ada"
    init = json.loads(done.stdout.splitlines()[0])
    assert init["permissionMode"] == "delegate"
    leads = [body for body in server.bodies if who(body) == "lead"]
    first, *_ = told_results(leads[1])
    assert first["is_error"] and "while you coordinate" in first["text"]
    assert BEGINS in json.dumps(leads[0]["messages"][-1]["content"][-1]), "behind what it is told"
    assert SHORT in json.dumps(leads[1]["messages"][-1]["content"][-1])
    others = [body for body in server.bodies if who(body) == "ada"]
    assert not any("elegate mode" in all_told(body) for body in others)
    assert len({json.dumps(body["tools"]) for body in leads}) == 1, "the list of tools stays"


@pytest.mark.slow
@pytest.mark.promise("G6", "G1", "D8")
@pytest.mark.usefixtures("unconfined")
def test_a_killed_session_goes_on_in_its_mode_unless_a_flag_says_otherwise(tmp_path, repo):
    mark = Mark(tmp_path / "running")
    (repo / "README.md").write_text("the text")
    holding = Answer(tools=[("Bash", {"command": f"echo $$ > {mark.path}; exec sleep 300"})])
    with LoopbackModel.in_thread([holding]) as server:
        program = Program(repo, tmp_path / "home", server.url)
        process = program.start("-p", "begin", "--permission-mode", "acceptEdits", "--allowed-tools", "Bash")
        command = int(mark.wait())
        process.kill()
        process.communicate(timeout=WAIT_S)
        os.kill(command, signal.SIGKILL)
    [kept] = program.home.glob("projects/*/*/mode.json")
    assert json.loads(kept.read_text())["mode"] == "acceptEdits"
    kept.write_text(json.dumps({"version": 1, "mode": "delegate", "lasting": "acceptEdits"}))
    with LoopbackModel.in_thread([READ, "Refused.", READ, "Read."]) as server:
        again = Program(repo, tmp_path / "home", server.url)
        assert again.run("-c", "-p", "go on").stdout == "Refused.\n"
        assert again.run("-c", "-p", "and now", "--permission-mode", "default").stdout == "Read.\n"
    refused, read = (told_results(server.bodies[number])[-1] for number in (1, 3))
    assert refused["is_error"] and "while you coordinate" in refused["text"]
    assert not read.get("is_error") and "the text" in read["text"]
    assert json.loads(kept.read_text())["mode"] == "default"


@pytest.mark.promise("G1")
@pytest.mark.parametrize(
    ("mode", "said"), [("delegat", "did you mean delegate?"), ("bubble", "no agent started the lead")]
)
def test_a_mode_that_is_none_is_bad_usage(tmp_path, repo, mode, said):
    done = Program(repo, tmp_path / "home", "http://127.0.0.1:9").run("-p", "go", "--permission-mode", mode)
    assert done.returncode == 2
    assert said in done.stderr


def at_work(body: dict) -> Answer | str:
    """The lead starts ada and reads when it is told to; ada answers what she is told."""
    if who(body) == "ada":
        return "Ready."
    if "start" in told(body) and '"Agent"' not in all_told(body):
        return Answer(tools=[spawn("ada")])
    return READ if told(body).startswith("read") else "Well."


def start(person: Person) -> None:
    person.says("start")
    person.sees("ada        joined")
    person.sees("Well.")


@pytest.mark.slow
@pytest.mark.promise("G1", "G6", "K5")
def test_a_person_looks_at_modes_changes_them_by_name_and_has_all_back_at_once(repo: Path, own_home):
    (repo / "README.md").write_text("the text")
    with at_terminal(at_work, repo) as (person, server):
        start(person)
        person.says("/mode")
        person.sees(
            "lead               default", "ada                default", "delegate           a lead only coordinates"
        )
        person.says("/mode plann")
        person.sees("'plann' is not a permission mode", "did you mean plan?")
        person.says("/mode dontask @addda")
        person.sees("did you mean ada?")
        person.says("/mode dontask @ada")
        person.sees("ada        is in mode dontAsk now")
        person.says("/mode bypassPermissions")
        person.sees("not given while a session runs")
        person.says("/mode delegate")
        person.sees("lead       is in mode delegate now")
        person.says("read it")
        person.sees("Read README.md — refused")
        person.says("/mode default")
        person.sees("lead       is in mode default now")
        person.says("read it now")
        person.sees("lead       Read README.md")
        person.says("/mode plan @ada and more")
        person.sees("one mode, for the lead or for one member")
        config = json.loads(next((own_home / ".teamwright/teams").glob("*/config.json")).read_text())
        assert {m["name"]: m.get("mode") for m in config["members"]}["ada"] == "dontAsk"
        person.types(CTRL_D)
    leads = [body for body in server.bodies if who(body) == "lead"]
    assert "Delegate mode has ended" in all_told(leads[-1])


@pytest.mark.promise("G1")
@pytest.mark.slow
def test_the_tab_key_completes_modes_and_members(repo: Path, own_home):
    with at_terminal(at_work, repo) as (person, _):
        start(person)
        person.types("/mode dont\t")
        person.sees("/mode dontAsk")
        person.types(" @a\t")
        person.sees("/mode dontAsk @ada")
