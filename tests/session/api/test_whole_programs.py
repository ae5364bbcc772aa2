"""Whole programs with a team inside: a web server, cells of a notebook, one that is killed, one that is interrupted."""

import asyncio
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from teamwright import RunEnded, Team, ToolStarted
from teamwright.testing import ScriptedModel
from tests.support.waits import WAIT_S

SLEEP = ("Bash", {"command": "sleep 47"})
MAY_SLEEP = ["Bash(sleep:*)"]


# ── in somebody else's loop ──────────────────────────────────────────────────────────────────────────────────


class Reviews:
    """A small web server: POST runs a team to its answer; GET gives its events, each with its number, as they come."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.teams: dict[str, Team] = {}
        self.seen: dict[str, asyncio.Event] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        method, path, _ = (await reader.readline()).decode().split()
        name = path.strip("/")
        if method == "POST":
            answer = asyncio.create_task(self.review(name))
            gone = asyncio.create_task(reader.read())  # a client that closes wants no answer any more
            await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
            (gone if answer.done() else answer).cancel()
            if answer.done():
                writer.write((await answer).encode())
        else:
            name, _, after = name.partition("?after=")
            async for number, event in self.teams[name].events(after=int(after), answers=False):
                writer.write(json.dumps([number, type(event).__name__, event.member]).encode() + b"\n")
                await writer.drain()
        writer.close()

    async def review(self, name: str) -> str:
        slow = name == "slow"
        model = ScriptedModel({"lead": [SLEEP if slow else ("Bash", {"command": "ls"}), f"{name}: fine."]})
        async with Team(name, model=model, cwd=self.place, allowed_tools=MAY_SLEEP) as team:
            self.teams[name] = team
            run = team.run("Review.")
            async for event in run.events():
                if isinstance(event, ToolStarted):
                    self.seen[name].set()
            return (await run).text


async def asked(port: int, line: str) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{line} HTTP/1.0\r\n".encode())
    text = (await reader.read()).decode()
    writer.close()
    return text


@pytest.mark.promise("J1")
async def test_a_web_server_has_a_team_a_request_streams_their_events_and_ends_only_what_its_client_left(tmp_path):
    before = asyncio.all_tasks()
    server = Reviews(tmp_path)
    server.seen = {name: asyncio.Event() for name in ("one", "two", "slow")}
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    port = int(listening.sockets[0].getsockname()[1])
    async with asyncio.timeout(WAIT_S):
        _, leaving = await asyncio.open_connection("127.0.0.1", port)
        leaving.write(b"POST /slow HTTP/1.0\r\n")
        await server.seen["slow"].wait()
        watched = asyncio.create_task(asked(port, "GET /slow?after=0"))
        texts = await asyncio.gather(asked(port, "POST /one"), asked(port, "POST /two"))
        assert texts == ["one: fine.", "two: fine."]
        leaving.close()
        events = [json.loads(line) for line in (await watched).splitlines()]
        assert [kind for _, kind, _ in events].count("RunEnded") == 1
        late = [json.loads(line) for line in (await asked(port, f"GET /one?after={events[2][0]}")).splitlines()]
        assert late[0][0] == events[2][0] + 1 and "RunEnded" in [kind for _, kind, _ in late]
    listening.close()
    await listening.wait_closed()
    assert asyncio.all_tasks() == before


@pytest.mark.promise("J1")
async def test_a_team_is_entered_used_and_left_from_different_tasks_as_cells_of_a_notebook_do(tmp_path):
    before, spawned = asyncio.all_tasks(), asyncio.Event()
    model = ScriptedModel({"lead": ["One.", "Two."], "ada": [SLEEP]})
    team = Team("nb", model=model, cwd=tmp_path, allowed_tools=MAY_SLEEP)

    async def cell(work):
        return await asyncio.create_task(work)

    async def first():
        return await team.run("Go.")

    async def interrupted():
        await team.spawn("ada", "Sleep.")
        spawned.set()
        await asyncio.Event().wait()

    await cell(team.__aenter__())
    assert (await cell(first())).text == "One."
    waiting = asyncio.create_task(interrupted())
    await spawned.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert [member.name for member in team.members] == ["ada"], "an interrupted cell leaves the team to the next one"
    await cell(team.stop("ada"))
    assert (await cell(first())).text == "Two."
    await cell(team.__aexit__(None, None, None))
    assert asyncio.all_tasks() == before


@pytest.mark.promise("J1")
async def test_a_team_leaves_signals_and_the_current_directory_to_the_program(tmp_path):
    numbers = [number for number in signal.valid_signals() if number not in (signal.SIGKILL, signal.SIGSTOP)]
    before = [signal.getsignal(number) for number in numbers], Path.cwd(), threading.excepthook, sys.excepthook
    async with Team("crew", model=ScriptedModel([("Bash", {"command": "ls"}), "ok"]), cwd=tmp_path) as team:
        run = team.run("Go.")
        async for event in run.events(answers=False):
            if isinstance(event, ToolStarted | RunEnded):
                now = [signal.getsignal(number) for number in numbers], Path.cwd(), threading.excepthook, sys.excepthook
                assert now == before
        assert (await run).ok
    assert [signal.getsignal(number) for number in numbers] == before[0]


# ── in a process of their own ────────────────────────────────────────────────────────────────────────────────

WORKER = """
import asyncio, sys
from pathlib import Path

from teamwright import TaskChanged, Team, TeamOptions, TeamwrightError, ToolStarted


def note(line: str) -> str:
    '''Keep a line.'''
    with Path("ledger.txt").open("a") as ledger:
        ledger.write(line + "\\n")
    return "kept"


async def main() -> None:
    options: TeamOptions = {"model": "scripted:script.toml", "tools": [note], "allowed_tools": ["python__note"]}
    try:
        team = await Team.resume("work", **options).__aenter__()
        print("resumed", *(member.name for member in team.members), flush=True)
    except TeamwrightError as error:
        print(error.slug, flush=True)
        team = await Team("work", **options).__aenter__()
        for number in (1, 2, 3):
            await team.tasks.add(f"item {number}", metadata={"for": ["ada"]})
        await team.spawn("ada", "Claim what is free.")
    try:
        run = team.run("See all of it through.")
        async for event in run.events(after=0):
            if isinstance(event, TaskChanged):
                print(event.task.id, event.task.status, flush=True)
            elif isinstance(event, ToolStarted) and "sleep" in event.summary:
                print("sleeping", flush=True)
        print((await run).stop, *(task.status for task in (await run).tasks), flush=True)
    finally:
        await team.__aexit__(*sys.exc_info())


asyncio.run(main())
"""

SCRIPT = """
[[agent.ada.turn]]
repeat = true
when.task = 'item (?P<n>\\d)'
capture_text = ['item (?P<n>\\d)']
call = [{ tool = "python__note", input = { line = "item {{n}}" } }]
[[agent.ada.turn]]
repeat = true
when.tool = "python__note"
call = [{ tool = "TaskUpdate", input = { taskId = "{{n}}", status = "completed" } }]
[[agent."*".otherwise]]
say = "That is all."
"""


@contextmanager
def program(text: str, cwd: Path) -> Iterator[subprocess.Popen[str]]:
    (cwd / "program.py").write_text(text)
    child = subprocess.Popen(
        [sys.executable, "program.py"], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate(timeout=WAIT_S)


def until(child: subprocess.Popen[str], line: str) -> list[str]:
    """The lines it prints up to that one."""
    assert child.stdout is not None
    lines: list[str] = []
    for one in child.stdout:
        lines.append(one.strip())
        if lines[-1] == line:
            return lines
    pytest.fail(f"{line!r} never came: {lines} {child.stderr.read() if child.stderr else ''}")


@pytest.mark.slow
@pytest.mark.promise("J1", "P2", "P5")
def test_a_program_that_is_killed_goes_on_with_team_resume_and_finishes_each_task_once(tmp_path):
    (tmp_path / "script.toml").write_text(SCRIPT)
    with program(WORKER, tmp_path) as first:
        assert until(first, "1 completed")[0] == "unknown-team"
        first.send_signal(signal.SIGKILL)
    with program(WORKER, tmp_path) as second:
        lines = until(second, "done completed completed completed")
        assert second.wait(WAIT_S) == 0
    assert lines[0] == "resumed ada"
    assert {f"{number} completed" for number in (2, 3)} <= set(lines)
    ledger = (tmp_path / "ledger.txt").read_text().splitlines()
    assert ledger[0] == "item 1" and len(ledger) == len(set(ledger))


INTERRUPTED = """
import asyncio

import teamwright
from teamwright import Team, ToolStarted
from teamwright.testing import ScriptedModel

SLEEP = ("Bash", {"command": "echo $$ > shell.pid; exec sleep 47"})


async def main() -> None:
    model = ScriptedModel({"lead": [SLEEP, "ok"]})
    async with Team("crew", model=model, allowed_tools=["Bash"]) as team:
        run = team.run("Sleep.")
        async for event in run.events():
            if isinstance(event, ToolStarted):
                print("sleeping", flush=True)
        await run


asyncio.run(main())
"""


@pytest.mark.promise("J1", "P6")
@pytest.mark.slow
def test_ctrl_c_ends_a_program_as_python_does_and_leaves_nothing_but_what_a_resume_needs(tmp_path):
    with program(INTERRUPTED, tmp_path) as child:
        until(child, "sleeping")
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=WAIT_S)
    assert child.returncode == -signal.SIGINT
    assert errors.rstrip().endswith("KeyboardInterrupt")
    shell = tmp_path / "shell.pid"
    assert not shell.exists() or not Path(f"/proc/{shell.read_text().strip()}").exists()

    async def again() -> str:
        async with Team.resume("crew", model=ScriptedModel("Here again."), cwd=tmp_path) as team:
            return (await team.run("Go on.")).text

    assert asyncio.run(again()) == "Here again."
