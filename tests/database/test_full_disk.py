"""A database whose disk becomes full while a team works: nothing is lost, and the team continues once there is room."""

import asyncio
import json
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from teamwright.database.address import parse_address
from teamwright.session.database_session import copy_teams
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from teamwright.views.audit.audit import audit
from tests.database.spaces import make_space
from tests.support.postgres import PostgresServer, run_server
from tests.support.small_disk import SmallDisk, small_disk
from tests.support.waits import WAIT_S, wait_until
from tests.ui.program import Program, words_of

pytestmark = [pytest.mark.slow, pytest.mark.promise("J6")]

PARTS = 12
MEMBERS = ("ada", "ben")
FLAGS = ("--permission-mode", "bypassPermissions", "--timeout", "5m")

FAILED = (1, 5)
"""The exit codes of a run whose lead failed, or whose members did."""

START = [
    ("TeamCreate", {"team_name": "crew", "description": "a test"}),
    *[
        ("TaskCreate", {"subject": f"part {number}", "description": "Write it.", "ready": True})
        for number in range(1, PARTS + 1)
    ],
    *[("Agent", {"name": name, "description": "work", "prompt": "Work through the list."}) for name in MEMBERS],
]
CONTINUE = [("SendMessage", {"to": name, "message": "Continue.", "summary": "continue"}) for name in MEMBERS]


def answer(body: dict) -> Answer:
    """Return the answer of the lead, which starts and encourages members, or of a member, which works task by task."""
    said = words_of(body)
    if "Have the parts written." not in said:
        return work(body, said)
    last = words_of({"messages": body["messages"][-1:]})
    called = [name for name, _, _ in calls(body)]
    if "TeamCreate" not in called:
        return Answer(tools=START)
    return Answer(tools=CONTINUE) if "Continue the work." in last else Answer("I wait for the members.")


def work(body: dict, said: str) -> Answer:
    """Report each claimed task once, and complete it. A member that a full disk stops waits to be told to continue."""
    if "no room" in json.dumps(body["messages"][-1]):
        return Answer("There is no room, so I stop.")
    succeeded = [(name, given) for name, given, is_error in calls(body) if not is_error]
    for id in re.findall(r"#(\d+) part \d+\s", said):
        text = f"Part {id} is written."
        if not any(name == "SendMessage" and given["message"] == text for name, given in succeeded):
            return Answer(tools=[("SendMessage", {"to": "lead", "message": text, "summary": "written"})])
        if not any(name == "TaskUpdate" and given["taskId"] == id for name, given in succeeded):
            return Answer(tools=[("TaskUpdate", {"taskId": id, "status": "completed"})])
    return Answer("All of it is done.")


def calls(body: dict) -> list[tuple[str, dict, bool]]:
    """Return the tool calls of a conversation with their input, and whether each one failed."""
    blocks = [block for message in body["messages"] for block in message["content"] if isinstance(block, dict)]
    failed = {block["tool_use_id"]: bool(block.get("is_error")) for block in blocks if block["type"] == "tool_result"}
    return [
        (block["name"], block["input"], failed.get(block["id"], True))
        for block in blocks
        if block["type"] == "tool_use"
    ]


@pytest.fixture
def disk() -> Iterator[SmallDisk]:
    mount = Path(tempfile.mkdtemp(prefix="tw-disk-"))
    mount.chmod(0o777)
    try:
        with small_disk(mount, 20) as made:
            yield made
    finally:
        shutil.rmtree(mount, ignore_errors=True)


@pytest.fixture
def small_tables(disk) -> Iterator[PostgresServer]:
    """A server whose tables are on the small disk."""
    space = disk.path / "tables"
    space.mkdir(mode=0o777)
    space.chmod(0o777)
    for server in run_server():
        shutil.chown(space, "nobody")
        server.sql(f"create tablespace small location '{space}'")
        server.sql("alter database postgres set default_tablespace = small")
        yield server


@pytest.fixture
def small_log(disk) -> Iterator[PostgresServer]:
    """A server whose write-ahead log is on the small disk."""
    yield from run_server(disk.path / "log")


class Run:
    """A lead with two members on a server, whose model counts nothing and forgets nothing."""

    def __init__(self, directory: Path, server: PostgresServer, url: str, model: str) -> None:
        self.server, self.url, self.schema = server, url, parse_address(url).schema
        work = directory / "work"
        work.mkdir()
        self.program = Program(work, directory / "home", model, {"TEAMWRIGHT_DATABASE": url})

    def start(self) -> subprocess.Popen[str]:
        """Start the lead, and wait until some tasks are completed."""
        lead = self.program.start("-p", "Have the parts written.", *FLAGS)
        wait_until(lambda: self.completed() >= 2 or lead.poll() is not None)
        return lead

    def completed(self) -> int:
        return int(self.server.sql(f"select count(*) from {self.schema}.tasks where status = 'completed'"))

    def check_end(self) -> None:
        """Every task was completed once, and every message that was acknowledged is in one transcript once."""
        assert self.completed() == PARTS
        home = copy_teams(parse_address(self.url), "crew")
        found = audit(home, "crew")
        assert not (found.messages.lost or found.messages.doubled), found
        lines = [json.loads(line) for path in home.own.glob("projects/*/*/agents/*.jsonl") for line in path.open()]
        lines += [json.loads(line) for path in home.own.glob("projects/*/*.jsonl") for line in path.open()]
        injected = Counter(id for line in lines for id in line.get("injected", ()) if id.startswith("mail:"))
        acknowledged = set(re.findall(r'"msg_id": "([0-9a-f-]{36})"', "\n".join(tool_results(lines))))
        assert len(acknowledged) >= PARTS
        assert {injected[f"mail:{id}"] for id in acknowledged} == {1}
        events = [json.loads(line) for path in home.own.glob("projects/*/*/events.jsonl") for line in path.open()]
        completed = Counter(
            event["task"]["id"]
            for event in events
            if event.get("type") == "task_changed" and event["change"] == "completed"
        )
        assert set(completed.values()) == {1} and len(completed) == PARTS, completed


def tool_results(lines: list[dict]) -> Iterator[str]:
    for line in lines:
        content = line.get("message", {}).get("content", ())
        blocks = () if isinstance(content, str) else content
        yield from (str(block["content"]) for block in blocks if block["type"] == "tool_result")


def test_a_team_whose_tables_have_no_room_says_so_and_continues_once_there_is_room(tmp_path, small_tables, disk):
    url = asyncio.run(make_space(small_tables.new_space()))
    with LoopbackModel.in_thread(answer) as model:
        run = Run(tmp_path, small_tables, url, model.url)
        lead = run.start()
        disk.fill()
        _, said = lead.communicate(timeout=WAIT_S)
        assert lead.returncode in FAILED, said
        assert "the database has no room, make some on its server: " in said and "resume crew" in said, said
        disk.make_room()
        done = run.program.run("resume", "crew", "-p", "Continue the work.", *FLAGS)
        assert done.returncode == 0, done.stderr
        run.check_end()


def test_a_team_whose_server_ended_for_want_of_room_says_so_and_continues_once_the_server_runs(
    tmp_path, small_log, disk
):
    url = asyncio.run(make_space(small_log.new_space()))
    with LoopbackModel.in_thread(answer) as model:
        run = Run(tmp_path, small_log, url, model.url)
        lead = run.start()
        disk.fill()
        with suppress(subprocess.CalledProcessError):  # the server ends in the middle of the answer
            small_log.sql("select pg_logical_emit_message(false, 'x', repeat('x', 30000000))")
        wait_until(lambda: not small_log.is_running)
        _, said = lead.communicate(timeout=WAIT_S)
        assert lead.returncode in FAILED, said
        assert "the database cannot be reached: " in said and "see that its server runs, then resume" in said, said
        disk.make_room()
        small_log.start()
        done = run.program.run("resume", "crew", "-p", "Continue the work.", *FLAGS)
        assert done.returncode == 0, done.stderr
        run.check_end()
