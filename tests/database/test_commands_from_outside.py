"""The commands of a person in another terminal reach a team in a database, from another home."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import zipfile
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from teamwright.database.address import parse_address
from teamwright.protocol.ids import LEAD
from teamwright.protocol.messages import text_block
from teamwright.saved.database_access import open_database_access
from teamwright.saved.team_access import find_address
from teamwright.session.open_session import open_session
from teamwright.session.options import Options
from teamwright.testing import ScriptedModel
from tests.database.spaces import make_space
from tests.support import preloaded
from tests.support.repositories import git, make_repository
from tests.support.waits import WAIT_S
from tests.teams.crew import newest

pytestmark = pytest.mark.promise("J6")

START = [
    ("TeamCreate", {"team_name": "crew", "description": "a test"}),
    ("TaskCreate", {"subject": "the job", "description": "do it", "for": ["ada"], "ready": True}),
    ("Agent", {"name": "ada", "description": "work", "prompt": "Take the job."}),
]
COMMAND = "rm -f nothing.txt; echo done > done.txt"


class Crew:
    """Answers of the lead and of ada, who runs a command that needs permission, and repeats what the user says."""

    def __init__(self) -> None:
        self.calls = list(START)

    def __call__(self, request):
        if request.agent_name == LEAD:
            return [self.calls.pop(0)] if self.calls else "ok"
        said = newest(request)
        if "the job" in said and "Take the job" not in said:
            return [("Bash", {"command": COMMAND, "description": "the job"})]
        if "say" in said:
            return f"I say {said.rpartition('say ')[2].split()[0]}"
        return "Waiting."


class Terminal:
    """Another terminal with another home, and the address of the database in its environment."""

    def __init__(self, home, url: str, cwd, **env: str) -> None:
        self.url = url
        self._options = {
            "env": {**os.environ, "TEAMWRIGHT_HOME": str(home), "TEAMWRIGHT_DATABASE": url, **env},
            "cwd": str(cwd),
            "stdin": subprocess.DEVNULL,
            "text": True,
        }

    async def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "teamwright", *words]
        return await asyncio.to_thread(preloaded.run, command, timeout=WAIT_S, **self._options)

    async def say(self, *words: str) -> str:
        """Run a command that succeeds. Return its output."""
        done = await self.run(*words)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    @asynccontextmanager
    async def follow(self, *words: str):
        """Run a command that does not end, and give a function that waits for a text in its output."""
        command = [sys.executable, "-m", "teamwright", *words]
        process = preloaded.popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **self._options)
        seen: list[str] = []

        async def until(text: str) -> str:
            async with asyncio.timeout(WAIT_S):
                while not any(text in line for line in seen):
                    line = await asyncio.to_thread(process.stdout.readline)
                    assert line, (words, seen)
                    seen.append(line)
            return "".join(seen)

        try:
            yield until
        finally:
            process.send_signal(signal.SIGINT)
            await asyncio.to_thread(process.communicate, timeout=WAIT_S)


@pytest.fixture
async def terminal(tmp_path, postgres, own_home) -> Terminal:
    url = await make_space(postgres.new_space())
    (tmp_path / "work").mkdir()
    return Terminal(tmp_path / "elsewhere", url, tmp_path / "work")


@pytest.mark.slow
async def test_a_person_watches_answers_writes_and_stops_from_another_terminal(tmp_path, terminal):
    ended = asyncio.Event()
    options = Options(
        cwd=tmp_path / "work", model=ScriptedModel(Crew()), database=terminal.url, ask="wait", permission_mode="default"
    )
    asked = asyncio.create_task(terminal.say("requests", "--wait", "--json"))
    async with AsyncExitStack() as follows:
        async with open_session(options, ended.set) as session:
            running = asyncio.create_task(session.run([text_block("Have it done.")]))
            [request] = json.loads(await asked)
            assert (request["asker"], request["input"]["command"]) == ("ada", COMMAND)
            watched = await follows.enter_async_context(terminal.follow("status", "crew", "--watch"))
            followed = await follows.enter_async_context(terminal.follow("log", "crew", "--follow", "-n", "1"))
            await watched("asks")
            assert "allowed: ada" in await terminal.say("requests", "allow", request["id"])
            late = await terminal.run("requests", "deny", request["id"])
            assert late.returncode == 1 and "answered before" in late.stderr
            await watched(f"request {request['id']}: gone")
            await followed("allowed from another terminal")
            assert "I say hello" in await terminal.say("send", "ada@crew", "say hello", "--wait")
            await followed("I say hello")
            assert "0 lost" in await terminal.say("audit", "crew")
            assert "ada has ended" in await terminal.say("stop", "ada@crew", "--now")
            stopping = asyncio.create_task(terminal.say("stop", "crew"))
            async with asyncio.timeout(WAIT_S):
                await ended.wait()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        assert 'team "crew" has ended' in await stopping
        await watched("resume: teamwright resume crew")
    assert (tmp_path / "work" / "done.txt").read_text() == "done\n"
    assert 'team "crew" is in the archive' in await terminal.say("teams", "rm", "crew", "--force")
    assert "crew" not in await terminal.say("teams")
    assert "archived" in await terminal.say("teams", "--archived")


NOBODY = {
    "status": ("crew",),
    "log": ("crew",),
    "tasks": ("crew",),
    "cost": ("crew",),
    "audit": ("crew",),
    "review": ("crew",),
    "diff": ("crew",),
    "inbox": ("ada@crew",),
    "send": ("ada@crew", "hello"),
    "stop": ("crew",),
    "resume": ("crew", "-p", "go on"),
    "teams rm": ("crew", "--force"),
    "teams adopt": ("crew", "-p", "go on"),
    "integrate": ("crew", "--list"),
}
"""Each command that takes a team, with its arguments."""


@pytest.mark.slow
async def test_no_command_of_another_person_finds_a_team_or_a_request(tmp_path, postgres, terminal):
    repository = make_repository(tmp_path / "repository", {"one.txt": "1\n"})
    other = Terminal(tmp_path / "other", await make_space(postgres.new_space()), repository)
    calls = list(START[:1])
    model = ScriptedModel(lambda _request: [calls.pop(0)] if calls else "ok")
    async with open_session(Options(cwd=repository, model=model, database=terminal.url)) as session:
        await session.run([text_block("Begin.")])
        for command, words in NOBODY.items():
            done = await other.run(*command.split(), *words)
            assert done.returncode != 0, (command, done.stdout)
            assert "crew" in done.stderr and "bug in Teamwright" not in done.stderr, (command, done.stderr)
            assert session.id[:8] not in done.stdout + done.stderr
        assert "No team yet" in await other.say("teams")
        assert "No request is open" in await other.say("requests")
        assert "crew" in await terminal.say("teams")


@pytest.mark.slow
async def test_a_fault_of_the_database_is_one_sentence_and_an_exit_code_and_shows_no_password(
    tmp_path, postgres, own_home
):
    postgres.sql("create role pw login password 'quince'; create role looks login")
    access = postgres.data / "pg_hba.conf"
    access.write_text("host all pw 127.0.0.1/32 scram-sha-256\n" + access.read_text())
    postgres.sql("select pg_reload_conf()")
    old = await make_space(postgres.new_space())
    postgres.sql(f"update {old.rpartition('=')[2]}.space set version = 1")
    read_only = await make_space(postgres.new_space())
    schema = read_only.rpartition("=")[2]
    postgres.sql(f"grant usage on schema {schema} to looks; grant select on all tables in schema {schema} to looks")
    host = f"127.0.0.1:{postgres.port}"
    faults = {
        f"postgresql://pw@{host}/postgres": "password authentication failed",
        f"postgresql://pw:quince@{host}/postgres": "contains a password",
        f"postgresql://pw@{host}/postgres?password=quince": "contains a password",
        "postgresql://pw@127.0.0.1:1/postgres": "cannot be reached",
        f"postgresql://postgres@{host}/nowhere": "cannot be reached",
        f"postgresql://postgres@{host}/postgres?schema=nothing": "has no schema nothing",
        old: "has version 1",
        read_only.replace("postgres@", "looks@"): "permission denied",
    }
    (tmp_path / "work").mkdir()
    try:
        for address, reason in faults.items():
            terminal = Terminal(tmp_path / "home", address, tmp_path / "work", PGPASSWORD="wrong-quince")
            done = (
                await terminal.run("-p", "Go.", "--model", "scripted:none")
                if reason == "permission denied"
                else (await terminal.run("status", "crew"))
            )
            assert done.returncode != 0 and reason in done.stderr, (address, done.stdout, done.stderr)
            assert "quince" not in done.stderr + done.stdout and "bug in Teamwright" not in done.stderr
        terminal = Terminal(tmp_path / "home", next(iter(faults)), tmp_path / "work", PGPASSWORD="wrong-quince")
        await terminal.run("doctor", "--bundle", str(tmp_path / "report.zip"))
        with zipfile.ZipFile(tmp_path / "report.zip") as report:
            assert all(b"quince" not in report.read(name) for name in report.namelist())
    finally:
        postgres.sql("drop owned by looks; drop role pw; drop role looks")


@pytest.mark.slow
@pytest.mark.finding("I4")
async def test_a_queue_in_a_database_is_worked_where_the_worktrees_are_and_listed_everywhere(
    tmp_path, terminal, own_home
):
    repository = make_repository(tmp_path / "repository", {"one.txt": "1\n"})
    git(repository, "config", "user.name", "Ann")
    git(repository, "config", "user.email", "ann@example.org")
    commit = "echo x > made.txt && git add made.txt && git commit -q -m made"
    calls = {
        LEAD: [START[0], ("Agent", {**START[2][1], "isolation": "worktree"})],
        "ada": [("Bash", {"command": commit, "description": "make it"})],
    }
    model = ScriptedModel(lambda request: [calls[request.agent_name].pop(0)] if calls[request.agent_name] else "ok")
    options = Options(cwd=repository, model=model, database=terminal.url, permission_mode="bypassPermissions")
    async with open_session(options) as session:
        await session.run([text_block("Begin.")])
    here = Terminal(own_home / ".teamwright", terminal.url, repository)
    assert "merged" in await here.say("integrate", "crew", "--into", "main")
    assert (repository / "made.txt").read_text() == "x\n"
    elsewhere = Terminal(tmp_path / "other", terminal.url, repository)
    assert "merged" in await elsewhere.say("integrate", "crew", "--list")


async def test_a_lead_in_a_database_that_does_not_answer_is_fenced_out_by_a_stop(tmp_path, postgres, own_home):
    url = await make_space(postgres.new_space())
    model, calls, fenced = ScriptedModel(lambda _request: [calls.pop()] if calls else "ok"), [START[0]], asyncio.Event()
    async with open_session(Options(cwd=tmp_path, model=model, database=url), fenced.set) as session:
        await session.run([text_block("Begin.")])
        async with open_database_access(parse_address(url), "crew") as access:
            target, _ = find_address(access, "crew")
            lead = target.lead()
            assert lead is not None and lead.pid == os.getpid() and target.is_led()
            assert await lead.force_end() == "fenced" and not lead.is_alive
            async with asyncio.timeout(WAIT_S):
                await fenced.wait()
