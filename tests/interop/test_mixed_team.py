"""A mixed team sees a whole job through: members in the lead's process, in panes, and another program.

Tasks that wait for each other, permissions, plans, a killed lead, a killed pane, a resume, requests to stop: then
nothing is left. In tmux, in one that counts from 1, and outside of it.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from teamwright.storage.file_lease import lease_held
from tests.crash.players import Talk, ask_to_stop, send
from tests.interop import mixed_team
from tests.interop.rig import Started
from tests.simulated_product.disk import NEWER
from tests.support.leftovers import await_end
from tests.support.waits import WAIT_S
from tests.teams.backends.rig import needs_tmux, private_server
from tests.teams.member_processes.started_members import nobody_left
from tests.ui.member_processes.house import until
from tests.ui.program import Program
from tests.ui.subagents.play import Answer, Held, Play, agent, call

pytestmark = [pytest.mark.slow, needs_tmux]

STAFF = ("ann", "bob", "cyd", "zed")
JOBS = ("base", "left", "right", "review")
FOR = tuple(zip(JOBS, STAFF, strict=True))


def talk_of(body) -> Talk:
    return Talk([json.dumps(message).encode() for message in body["messages"]])


def lead(body):
    """Makes the list; a member that crashed is resumed; when all is done everybody stops, and the team goes."""
    talk = talk_of(body)
    if not talk.of("TaskCreate"):
        made = [{"subject": job, "description": job, "metadata": {"for": [who]}} for job, who in FOR]
        return Answer(tools=[("TaskCreate", one) for one in made])
    if not talk.of("TaskUpdate"):
        needs = {"2": ["1"], "3": ["1"], "4": ["2", "3"]}
        return Answer(tools=[("TaskUpdate", {"taskId": id, "addBlockedBy": these}) for id, these in needs.items()])
    over = [body["name"] for body in talk.protocol("teammate_terminated")]
    said = {text for _, text in talk.mail}
    if over == ["bob"] and not talk.of("Agent"):
        return agent("Continue.", name="bob")
    if {"done left", "done right"} <= said and not talk.sent("Review it."):
        return Answer(tools=[send("zed", "Review it.")])
    asked = [one for one in talk.of("SendMessage") if isinstance(one.given["message"], dict)]
    if "the review is done" in said and not asked:
        return Answer(tools=[ask_to_stop(name, "the end") for name in STAFF])
    if asked and sorted(over) == sorted([*STAFF, "bob"]):
        return "ALL DONE" if talk.of("TeamDelete") else call("TeamDelete")
    return "I wait."


def worker(id: str, job: str, *steps: tuple[str, dict], once: str = ""):
    """Takes its task, does these steps in order, completes it, and tells the lead."""

    def part(body):
        talk = talk_of(body)
        if not any(text.startswith(f"#{id} {job}") for _, text in talk.mail):
            return "I am ready."
        last = ("TaskUpdate", {"taskId": id, "status": "completed"}), send("lead", f"done {job}")
        for tool, given in (*steps, *last):
            if not any(one.failed is False for one in talk.of(tool, **given)):
                return call(tool, **given)
        return "Nothing more."

    return [part] * 40


def planner(id: str, job: str):
    """As a worker; but it has to plan first, and its first plan is sent back."""
    works = worker(id, job, ("Write", {"file_path": f"{job}.txt", "content": job}))[0]

    def part(body):
        plans = len(talk_of(body).of("ExitPlanMode"))
        if "#3 right" not in json.dumps(body["messages"]) or plans == 2:
            return works(body)
        return call("ExitPlanMode", plan=f"# Plan {plans + 1}")

    return [part] * 40


class Scene:
    """The program, and a person in another terminal."""

    def __init__(self, program: Program, settings: Path) -> None:
        self.program, self.settings = program, settings
        self.running: subprocess.Popen[bytes] | None = None

    @contextmanager
    def lead(self, life: str) -> Generator[subprocess.Popen[bytes]]:
        """A life of the lead, which is over after the block; what it says is in a file."""
        argv = [sys.executable, mixed_team.__file__, str(self.settings), life]
        with self.said(life).open("wb") as said:
            out = {"stdin": subprocess.DEVNULL, "stdout": said, "stderr": said}
            process = self.running = subprocess.Popen(argv, cwd=self.program.cwd, env=self.program.environment, **out)
        try:
            yield process
        except BaseException as problem:
            problem.add_note(self.said(life).read_text()[-3000:])
            raise
        finally:
            process.kill()
            process.wait(WAIT_S)

    def said(self, life: str) -> Path:
        return self.settings.with_name(f"{life}.log")

    def request(self, owner: str, tool: str) -> str:
        """The id of what this one asks, once it does."""

        def found():
            done = self.program.run("requests", "--wait", "5s", "--json")
            ours = [
                one["id"] for one in json.loads(done.stdout or "[]") if (one["owner"], one["tool"]) == (owner, tool)
            ]
            return ours[0] if ours else ""

        return until(found, f"{owner} never asked for {tool}")

    def answers(self, owner: str, tool: str, *how: str) -> None:
        word, *more = how or ("allow",)
        done = self.program.run("requests", word, self.request(owner, tool), *more)
        assert done.returncode == 0, done.stderr


@pytest.fixture(params=["inside", "inside, from 1", "outside"])
def terminal(request, monkeypatch):
    """The variables of the terminal in which the lead is started; then no pane of ours is left."""
    monkeypatch.delenv("TMUX", raising=False)
    if request.param == "outside":
        with tempfile.TemporaryDirectory(dir="/tmp", prefix="tt-") as folder:
            yield {"TMUX_TMPDIR": folder}
            for socket in Path(folder).rglob("teamwright-*"):
                listed = ["tmux", "-S", str(socket), "list-panes", "-a"]
                done = subprocess.run(listed, capture_output=True, text=True, check=False, timeout=WAIT_S)
                assert not done.stdout, done.stdout
        return
    with private_server() as rig:
        for option in ("base-index", "pane-base-index"):
            rig.run("set-option", "-g", option, "1" if "1" in request.param else "0")
        yield {key: rig.environ[key] for key in ("TMUX", "TMUX_PANE")}
        assert set(rig.panes()) == {rig.lead}


@pytest.fixture
def marked(monkeypatch):
    with nobody_left() as found:
        monkeypatch.setenv(*next(iter(found.env.items())))
        yield found


@pytest.mark.promise("E5", "E6", "E8", "D3", "D4", "D8", "G4", "G5", "F21", "F32")
def test_a_mixed_team_does_its_job_through_kills_and_leaves_nothing(tmp_path, terminal, marked):
    home, work = tmp_path / ".claude", tmp_path / "work"
    work.mkdir()
    review = [{"do": "tool", "tool": "Bash", "input": {"command": "make"}}, {"do": "claim"}, {"do": "complete"}]
    turns = [
        {"when": "Begin.", "do": [{"do": "plan", "plan": "# Review"}]},
        {"when": "Review it.", "do": [*review, {"do": "send", "to": "team-lead", "text": "the review is done"}]},
    ]
    started = Started(tmp_path, NEWER, home)
    settings = started.settings({"zed": {"turns": turns}}, backend="tmux", unattended_requests="wait")
    held = Held("too late")
    left = ("Write", {"file_path": "left.txt", "content": "left"})
    parts = {
        "ann": worker("1", "base", ("Bash", {"command": "echo base >> base.txt"})),
        # the crash gave its task back to the list: it takes it again
        "bob": [
            "I am ready.",
            held,
            *worker("2", "left", ("TaskUpdate", {"taskId": "2", "status": "in_progress"}), left),
        ],
        "cyd": planner("3", "right"),
    }
    play = Play([lead] * 200, **parts)
    with ExitStack() as stack, play.on(work, home) as program:
        program.env |= {"HOME": str(tmp_path), **terminal}
        here = Scene(program, settings)

        stack.callback(marked.end_all)
        with here.lead("first"):
            here.request("ann", "Bash")
        with here.lead("second"):
            here.answers("zed", "ExitPlanMode")
            here.answers("ann", "Bash")
            held.come()
            here.request("cyd", "ExitPlanMode")
            assert len(marked.members()) == 3
        with here.lead("third") as last:
            here.answers("cyd", "ExitPlanMode", "deny", "--reason", "name the file")
            bob = marked.member("bob")
            os.kill(bob, signal.SIGKILL)
            assert await_end(bob)
            here.answers("bob", "Write")
            here.answers("cyd", "ExitPlanMode")
            here.answers("cyd", "Write")
            here.answers("zed", "Bash")
            assert last.wait(WAIT_S) == 0
        held.go()
        result = json.loads(here.said("third").read_text().splitlines()[-1])
        assert (result["stop"], result["text"]) == ("done", "ALL DONE")
        marked.gone(within_s=WAIT_S)

    [tasks] = [path for path in home.rglob("tasks") if path.is_dir() and path.parent.name.startswith("crew-")]
    done = [json.loads(path.read_text()) for path in sorted(tasks.glob("[0-9]*.json"), key=lambda path: int(path.stem))]
    assert [(one["subject"], one["status"], one["owner"]) for one in done] == [
        (job, "completed", who) for job, who in FOR
    ]
    assert (work / "base.txt").read_text() == "base\n"
    assert ((work / "left.txt").read_text(), (work / "right.txt").read_text()) == ("left", "right")
    assert not [path for path in home.rglob("*") if path.is_socket() or (path.is_dir() and path.suffix == ".lock")]
    assert not [path for path in home.rglob("lease") if lease_held(path)]
    assert not [*home.glob("teams/*"), *home.glob("tasks/*")]
