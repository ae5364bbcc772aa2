"""The table of ends of member processes: after each of them, who has a place, a conversation and tasks."""

import json
import re
import signal
import subprocess
from collections.abc import Callable

import pytest

from teamwright.testing.model_server_replies import Answer, Status
from tests.docs.pages import ROOT
from tests.support.model_requests import newest_text
from tests.ui.member_processes.house import BYPASS, DETACHED, TMUX, House, kill, until
from tests.ui.subagents.play import Held, agent, call
from tests.ui.terminal_driver import CTRL_D, Person

pytestmark = pytest.mark.promise("D4", "D8", "P3")

TEAM = "crew"
FORMS = call("TeamCreate", team_name=TEAM)
PLACES = [
    "in-process",
    pytest.param(DETACHED, marks=pytest.mark.slow),
    pytest.param(TMUX, marks=pytest.mark.slow),
]


def newest(body: dict) -> str:
    return newest_text(body)


class Rounds:
    """A lead that writes `word N` to ann in round N, and stays in a model call once she has answered.

    It stays in one too when ann has said that she is there (`start`): the first run is ended from outside as well.
    `spends`: from then on it makes one call after the other.
    """

    def __init__(self, rounds: int) -> None:
        self.start = Held("too late")
        self.held = [Held("too late") for _ in range(rounds)]
        self.spends = False

    def lead(self, body: dict):
        words = newest(body)
        if self.spends:
            return call("Glob", pattern=f"{len(body['messages'])}*")
        # After a kill the prompt of the next round follows what the last one left unanswered, in one message.
        for n, held in reversed(list(enumerate(self.held))):
            if f"ann heard word {n}." in words:
                return held
            if f"round {n}." in words:
                return call("SendMessage", to="ann", message=f"word {n}", summary="a word")
        return self.start if "ann is here." in words else "I wait."

    def ann(self, body: dict):
        said = json.dumps(body["messages"])
        heard = [n for n in range(len(self.held)) if f"word {n}" in newest(body)]
        if "TaskUpdate" not in said:
            return call("TaskUpdate", taskId="1", status="in_progress", owner="ann")
        return f"ann heard word {heard[-1]}." if heard else "ann is here."


End = Callable[[House, Rounds, Held], object]


def by(number: int) -> End:
    return lambda here, _play, _held: here.lead.send_signal(number)


def stopped(*args: str) -> End:
    return lambda here, _play, _held: here.program.run("stop", TEAM, *args)


def spends(_here: House, play: Rounds, held: Held) -> None:
    held.answer, play.spends = call("Glob", pattern="*"), True
    held.go()


def fails(_here: House, _play: Rounds, held: Held) -> None:
    held.answer = Status(400, "a scripted fault")
    held.go()


ENDS_OF_LEAD: list[tuple[str, End, int]] = [
    ("SIGKILL", by(signal.SIGKILL), -signal.SIGKILL),
    ("SIGTERM", by(signal.SIGTERM), 143),
    ("SIGHUP", by(signal.SIGHUP), 143),
    ("SIGINT", by(signal.SIGINT), 130),
    ("stop", stopped(), 143),
    ("stop --now", stopped("--now"), 143),
    ("a cap is spent", spends, 4),
    ("the lead's model fails", fails, 1),
]


def begin(here: House, prompt: str) -> subprocess.Popen[str]:
    """The next run of the team: it is resumed by its name once it is there."""
    if not list(here.program.home.glob("teams/*/team.json")):
        return here.start(prompt)
    here.lead = here.program.start("resume", TEAM, "-p", BYPASS, "--max-turns", "25", prompt)
    return here.lead


@pytest.mark.finding("T21", "T8")
@pytest.mark.parametrize("backend", PLACES, indirect=True)
@pytest.mark.slow
def test_however_a_lead_ends_its_members_come_back_with_their_conversation_and_their_tasks(scene, backend):
    play = Rounds(len(ENDS_OF_LEAD) + 1)
    task = call("TaskCreate", subject="the job", description="do it")
    here = scene([FORMS, task, agent("JOB ann", name="ann"), *[play.lead] * 99], ann=[play.ann] * 99)
    begin(here, "work")
    play.start.come()
    here.lead.send_signal(signal.SIGTERM)
    assert here.end()[0] == 143
    for n, (name, end, code) in enumerate(ENDS_OF_LEAD):
        begin(here, f"round {n}.")
        play.held[n].come()
        end(here, play, play.held[n])
        got, _, err = here.end()
        play.spends = False
        assert got == code, f"{name}: {err}"
        assert here.roster() == ["ann"], name
        assert here.tasks() == [("in_progress", "ann")], name
        if got > 0:
            assert "teamwright: open tasks: #1 the job (ann)" in err, name
            assert f"teamwright resume {TEAM}" in err, name
    begin(here, f"round {len(ENDS_OF_LEAD)}.")
    play.held[-1].come()
    play.held[-1].go()
    code, _, err = here.end()
    assert code == 0, err
    assert "resumed: 1 member, 1 open task" in err
    assert "open tasks: #1 the job (ann)" in err and f"continue with: teamwright resume {TEAM}" in err
    assert here.roster() == ["ann"], "a task is open: the members of a run that is done keep their places too"
    lines = here.told("ann").splitlines()
    for n in range(len(play.held)):
        assert sum('"type":"user"' in line and f"\\nword {n}\\n" in line for line in lines) == 1, n
        assert sum('"type":"assistant"' in line and f"ann heard word {n}." in line for line in lines) == 1, n
    here.once()


class Again(Rounds):
    """The lead is held when ann has answered; once she has crashed it resumes her with `word N`, but for the last."""

    def lead(self, body: dict):
        words = newest(body)
        if "Its conversation is kept" in words:
            crashes = json.dumps(body["messages"]).count("Its conversation is kept")
            return agent(f"word {crashes}", name="ann") if crashes < len(self.held) else "She has crashed."
        if "round 9." in words:
            return call("SendMessage", to="ann", message="word 9", summary="a word")
        answers = ["ann is here.", *(f"ann heard word {n}." for n in range(1, len(self.held)))]
        return next((held for held, answer in zip(self.held, answers, strict=True) if answer in words), "I wait.")

    def ann(self, body: dict):
        found = re.search(r"word \d", newest(body))
        return f"ann heard {found[0]}." if found else "ann is here."


@pytest.mark.slow
@pytest.mark.finding("T5", "T8")
@pytest.mark.parametrize("backend", [DETACHED, TMUX], indirect=True)
def test_however_a_process_of_a_member_ends_the_member_keeps_its_place_and_is_resumed_with_its_conversation(
    scene, backend
):
    numbers = [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP]
    play = Again(len(numbers))
    task = call("TaskCreate", subject="the job", description="do it", metadata={"for": ["nobody"]})
    here = scene([FORMS, task, agent("JOB ann", name="ann"), *[play.lead] * 99], ann=[play.ann] * 99)
    begin(here, "work")
    for n, number in enumerate(numbers):
        play.held[n].come()
        kill(here.marked.member("ann"), number)
        until(lambda n=n: mail_of_lead(here).count("Its conversation is kept") == n + 1)
        shown = here.program.run("status", TEAM).stdout
        assert " crashed " in shown, shown
        assert here.roster() == ["ann"]
        play.held[n].go()
    code, _, err = here.end()
    assert code == 5, err  # every member failed
    assert "teamwright: ann crashed: its terminal was closed" in err and "open tasks: #1 the job" in err
    assert here.roster() == ["ann"]
    begin(here, "round 9.")
    assert here.end()[0] == 0
    assert "ann heard word 9." in here.told_lead()
    lines = here.told("ann").splitlines()
    for word in ("JOB ann", "word 1", "word 2", "word 9"):
        assert sum('"type":"user"' in line and f"{word}\\n" in line for line in lines) == 1, word
    here.once()


def mail_of_lead(here: House) -> str:
    return (here.team() / "inboxes/team-lead.json").read_text()


# ── ends of members, and of runs that are done ───────────────────────────────────────────────────────────────────


class Takes:
    """A member that starts its task, then says that it is there."""

    def __init__(self, name: str, task: str) -> None:
        self.name, self.task = name, task

    def __call__(self, body: dict):
        if "TaskUpdate" not in json.dumps(body["messages"]):
            return call("TaskUpdate", taskId=self.task, status="in_progress", owner=self.name)
        return "All right." if "shutdown-" in newest(body) else f"{self.name} is here."


class Parts:
    """A lead that asks ann to stop, is held once she has ended, and completes the tasks in its next run."""

    def __init__(self) -> None:
        self.held = Held("I wait.")

    def lead(self, body: dict):
        words, said = newest(body), json.dumps(body["messages"])
        if "finish." in words:
            return Answer(tools=[("TaskUpdate", {"taskId": n, "status": "completed"}) for n in "12"])
        if "shutdown_request" not in said and "ann is here." in said and "bob is here." in said:
            return call("SendMessage", to="ann", message={"type": "shutdown_request", "reason": "all is done"})
        return self.held if "ann has ended" in words else "I wait."


@pytest.mark.finding("T8")
@pytest.mark.parametrize("backend", PLACES, indirect=True)
def test_a_member_that_agrees_to_stop_or_is_stopped_has_ended_and_a_run_that_is_done_ends_the_others(scene, backend):
    play = Parts()
    tasks = [
        ("TaskCreate", {"subject": f"job {name}", "description": "do it", "for": [name]}) for name in ("ann", "bob")
    ]
    first = Answer(tools=[("TeamCreate", {"team_name": TEAM}), *tasks])
    spawns = [agent(f"JOB {name}", name=name) for name in ("ann", "bob", "cyd")]
    members = {"ann": [Takes("ann", "1")] * 99, "bob": [Takes("bob", "2")] * 99, "cyd": ["cyd is here."] * 99}
    here = scene([first, *spawns, *[play.lead] * 99], **members)
    begin(here, "work")
    play.held.come()
    assert here.tasks() == [("pending", ""), ("in_progress", "bob")]
    assert here.program.run("stop", f"bob@{TEAM}").returncode == 0
    play.held.go()
    code, _, err = here.end()
    assert code == 0, err
    assert here.roster() == ["cyd"] and here.tasks() == [("pending", ""), ("pending", "")]
    assert "ann is here." in here.told("ann") and "bob is here." in here.told("bob")
    begin(here, "finish.")
    code, _, err = here.end()
    assert code == 0, err
    assert "resumed: 1 member, 2 open tasks" in err and "ended before: ann (" in err and "bob (" in err
    assert here.roster() == [] and [status for status, _ in here.tasks()] == ["completed"] * 2
    begin(here, "and now?")
    code, _, err = here.end()
    assert code == 0 and "cyd (" in err, err
    here.once()


class Polite:
    """A member that thanks the other for each message."""

    def __init__(self, other: str) -> None:
        self.other, self.count = other, 0

    def __call__(self, body: dict):
        if any(block["type"] == "tool_result" for block in body["messages"][-1]["content"]):
            return "sent"
        self.count += 1
        return call("SendMessage", to=self.other, message=f"Thank you, {self.other}: {self.count}.", summary="thanks")


@pytest.mark.finding("T8", "T19")
@pytest.mark.parametrize("backend", PLACES, indirect=True)
@pytest.mark.slow
def test_members_whose_messages_the_ping_pong_guard_keeps_have_their_places_after_a_run_that_is_done(scene, backend):
    polite = {"ann": [Polite("bob")] * 99, "bob": [Polite("ann")] * 99}
    here = scene([FORMS, *[agent(f"JOB {name}", name=name) for name in polite], *["I wait."] * 99], **polite)
    begin(here, "work")
    code, _, err = here.end()
    assert code == 0, err
    assert "exchanged 20 messages" in here.told_lead()
    assert here.roster() == ["ann", "bob"]
    sent = [(one.other, f"{one.other}: {one.count}.") for [one, *_] in polite.values()]
    assert [name for name, words in sent if words not in here.told(name)], "a message is kept"


LEFT_BY_A_PERSON = {"l": (["ann"], [("in_progress", "ann")]), "s": ([], [("pending", "")])}


@pytest.mark.slow
@pytest.mark.finding("T8", "T21")
@pytest.mark.parametrize("answer", LEFT_BY_A_PERSON)
@pytest.mark.parametrize("backend", PLACES, indirect=True)
def test_a_person_who_leaves_keeps_the_members_unless_they_are_to_end(scene, backend, answer):
    play = Rounds(1)
    task = call("TaskCreate", subject="the job", description="do it")
    held = Held("ann heard it.")
    here = scene([FORMS, task, agent("JOB ann", name="ann"), *["I wait."] * 99], ann=[play.ann, held, "All right."])
    person = Person("--model", "sonnet", BYPASS, cwd=here.program.cwd, **here.program.environment)
    try:
        person.sees("/help", "\n>")
        person.says("work")
        held.come()
        person.sees("I wait.")
        person.types(CTRL_D)
        person.sees("leave? [w/s/l]")
        person.says(answer)
        assert person.leaves() == 5, "ann was cut off at work"
    finally:
        person.child.close(force=True)
        held.go()
    assert (here.roster(), here.tasks()) == LEFT_BY_A_PERSON[answer]


ROWS = {
    "the lead is killed (SIGKILL, a crash, a power cut)": ENDS_OF_LEAD,
    "the lead gets SIGTERM, or its window is closed (SIGHUP)": ENDS_OF_LEAD,
    "the lead gets SIGINT (headless)": ENDS_OF_LEAD,
    "`teamwright stop TEAM`, with or without `--now`": ENDS_OF_LEAD,
    "the person leaves with Ctrl-D or `/quit`": LEFT_BY_A_PERSON,
    "a cap is spent, or the lead's model fails": ENDS_OF_LEAD,
    "a headless run is done, and a task is open": ENDS_OF_LEAD,
    "a headless run is done, and the ping-pong guard keeps messages": Polite,
    "a headless run is done, and nothing of that is left": Parts,
    "a member's process is killed, terminated or hung up, or an error ends the member": Again,
    "a member agrees to stop, or is stopped: `/stop`, `TaskStop`, `teamwright stop NAME@TEAM`": Parts,
}
"""What of this file plays each row of the table."""


def test_each_row_of_the_table_of_ends_is_played_here():
    table = (ROOT / "docs/reference/member-processes.md").read_text().split("## How members end")[1].split("\n## ")[0]
    assert re.findall(r"^\| (?!end \|)(.*?) \| .* \|$", table, re.M) == list(ROWS)
