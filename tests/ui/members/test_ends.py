"""The table of ends in docs/members.md: after each of them, who has a place, a conversation and tasks."""

import json
import re
import signal
import subprocess
from collections.abc import Callable

import pytest

from tests.ui.agents.play import Held, agent, call
from tests.ui.members.house import BYPASS, DETACHED, TMUX, House, kill, until

pytestmark = pytest.mark.promise("D4", "D8", "P3")

TEAM = "crew"
FORMS = call("TeamCreate", team_name=TEAM)
PLACES = [
    "in-process",
    pytest.param(DETACHED, marks=pytest.mark.slow),
    pytest.param(TMUX, marks=pytest.mark.slow),
]


def newest(body: dict) -> str:
    return "\n".join(block.get("text", "") for block in body["messages"][-1]["content"])


class Rounds:
    """A lead that writes `word N` to ann in round N, and stays in a model call once she has answered."""

    def __init__(self, rounds: int) -> None:
        self.held = [Held("too late") for _ in range(rounds)]

    def lead(self, body: dict):
        words = newest(body)
        for n, held in enumerate(self.held):
            if f"ann heard word {n}." in words:
                return held
            if f"round {n}." in words:
                return call("SendMessage", to="ann", message=f"word {n}", summary="a word")
        return "I wait."

    def ann(self, body: dict):
        said = json.dumps(body["messages"])
        heard = [n for n in range(len(self.held)) if f"word {n}" in newest(body)]
        if "TaskUpdate" not in said:
            return call("TaskUpdate", taskId="1", status="in_progress", owner="ann")
        return f"ann heard word {heard[-1]}." if heard else "ann is here."


def by(number: int) -> Callable[[House], object]:
    return lambda here: here.lead.send_signal(number)


def stopped(*args: str) -> Callable[[House], object]:
    return lambda here: here.program.run("stop", TEAM, *args)


ENDS_OF_LEAD: list[tuple[str, Callable[[House], object], int]] = [
    ("SIGKILL", by(signal.SIGKILL), -signal.SIGKILL),
    ("SIGTERM", by(signal.SIGTERM), 143),
    ("SIGHUP", by(signal.SIGHUP), 143),
    ("SIGINT", by(signal.SIGINT), 130),
    ("stop", stopped(), 143),
    ("stop --now", stopped("--now"), 143),
]


def begin(here: House, prompt: str) -> subprocess.Popen[str]:
    """The next run of the team: it is resumed by its name once it is there."""
    if not list(here.program.home.glob("teams/*/team.json")):
        return here.start(prompt)
    here.lead = here.program.start("resume", TEAM, "-p", BYPASS, prompt)
    return here.lead


@pytest.mark.finding("T21", "T8")
@pytest.mark.parametrize("backend", PLACES, indirect=True)
def test_however_a_lead_ends_its_members_come_back_with_their_conversation_and_their_tasks(scene, backend):
    play = Rounds(len(ENDS_OF_LEAD) + 1)
    task = call("TaskCreate", subject="the job", description="do it")
    here = scene([FORMS, task, agent("JOB ann", name="ann"), *[play.lead] * 99], ann=[play.ann] * 99)
    begin(here, "work")
    until(lambda: "ann is here." in here.told_lead())
    here.lead.send_signal(signal.SIGTERM)
    assert here.end()[0] == 143
    for n, (name, end, code) in enumerate(ENDS_OF_LEAD):
        begin(here, f"round {n}.")
        play.held[n].come()
        end(here)
        got, _, err = here.end()
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
    assert code == 0, err
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
