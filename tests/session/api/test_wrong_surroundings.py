"""A team in the wrong thread, loop or library: a clear error, and nothing happens."""

import asyncio
import os
import threading
import time

import pytest
import sniffio

from teamwright import Budget, IntegrationQueue, Member, RequestOpened, Run, Tasks, Team, UsageError, run
from teamwright.models.endpoint import clean_base_url
from teamwright.session.wiring.sandbox_factory import WARN_AGAIN_S, WARNING_FILE, warn_once_a_day
from teamwright.storage.paths import find_home
from teamwright.testing import ScriptedModel
from tests.support import preloaded
from tests.support.waits import WAIT_S


def in_thread(work) -> object:
    """What the work returns or raises in another thread."""
    found = []

    def run():
        try:
            found.append(work())
        except Exception as problem:
            found.append(problem)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(WAIT_S)
    return found[0]


@pytest.mark.finding("3L13")
async def test_another_thread_that_uses_a_team_gets_an_error_that_names_the_way(tmp_path):
    async with Team("crew", model=ScriptedModel(["ok", "ok"]), cwd=tmp_path) as team:
        run = team.run("Go.")
        for work in (lambda: asyncio.run(team.send("lead", "Hi.")), run.cancel, lambda: team.members):
            problem = in_thread(work)
            assert isinstance(problem, UsageError) and "run_coroutine_threadsafe" in problem.do[0]
        assert (await run).ok


async def awaited(one) -> object:
    return await one


def from_a_loop(call):
    """A call of a coroutine function in another thread's own event loop."""
    return lambda: asyncio.run(awaited(call()))


def public_names(kind: type) -> set[str]:
    """What programs use of the objects of a class. Static and class methods need no running team."""
    shared = staticmethod | classmethod
    return {name for name, value in vars(kind).items() if name[0] != "_" and not isinstance(value, shared)}


@pytest.mark.finding("3L13")
async def test_every_use_of_a_team_and_its_handles_in_another_thread_names_the_way_to_the_loop(tmp_path):
    options = {"cwd": tmp_path, "permission_mode": "acceptEdits", "output_type": None}
    async with Team("crew", model=ScriptedModel(lambda _request: "ok"), **options) as team:
        ada = await team.spawn("ada", "Wait.")
        task, tasks, queue, run = await team.tasks.add("one"), team.tasks, team.integration, team.run("Go.")
        uses = {
            Team: {
                "requests": lambda: team.requests,
                "session": lambda: team.session,
                "suspend": from_a_loop(team.suspend),
                "run": lambda: team.run("Go."),
                "command": lambda: team.command("init"),
                "commands": lambda: team.commands,
                "spawn": from_a_loop(lambda: team.spawn("bob", "Go.")),
                "set_budget": from_a_loop(lambda: team.set_budget("ada", Budget(usd=1.0))),
                "wait_idle": from_a_loop(team.wait_idle),
                "tasks": lambda: team.tasks,
                "integration": lambda: team.integration,
                "members": lambda: team.members,
                "usage": lambda: team.usage,
                "mode": lambda: team.mode,
                "set_mode": lambda: team.set_mode("plan"),
                "model": lambda: team.model,
                "set_model": from_a_loop(lambda: team.set_model(ScriptedModel("no"))),
                "send": from_a_loop(lambda: team.send("lead", "Hi.")),
                "compact": from_a_loop(team.compact),
                "clear": from_a_loop(team.clear),
                "ask": from_a_loop(lambda: team.ask("How far are you?")),
                "context": from_a_loop(team.context),
                "reload": from_a_loop(team.reload),
                "stop": from_a_loop(lambda: team.stop("ada")),
                "delete": from_a_loop(lambda: team.delete(force=True)),
                "events": lambda: team.events(answers=False),
            },
            Member: {
                "state": lambda: ada.state,
                "waiting_on": lambda: ada.waiting_on,
                "model": lambda: ada.model,
                "mode": lambda: ada.mode,
                "set_mode": from_a_loop(lambda: ada.set_mode("plan")),
                "send": from_a_loop(lambda: ada.send("Hi.")),
                "wait_idle": from_a_loop(ada.wait_idle),
                "interrupt": ada.interrupt,
                "stop": from_a_loop(ada.stop),
                "require": ada.require,
            },
            Tasks: {
                "add": from_a_loop(lambda: tasks.add("two")),
                "answer_review": from_a_loop(lambda: tasks.answer_review(task, approve=True)),
                "update": from_a_loop(lambda: tasks.update(task, status="completed")),
                "all": from_a_loop(tasks.all),
                "get": from_a_loop(lambda: tasks.get(task)),
            },
            IntegrationQueue: {
                "branch": lambda: queue.branch,
                "entries": from_a_loop(queue.entries),
                "wait": from_a_loop(queue.wait),
                "fast_forward": from_a_loop(lambda: queue.fast_forward("main")),
            },
            Run: {
                "done": lambda: run.done,
                "cancelled": lambda: run.cancelled,
                "cancel": run.cancel,
                "events": lambda: run.events(answers=False),
                "stop": from_a_loop(run.stop),
                "await": from_a_loop(lambda: run),
            },
        }
        numbered = team.events(answers=False)
        for kind, calls in uses.items():
            fields = set(getattr(kind, "__struct_fields__", ()))
            assert public_names(kind) - fields == set(calls) - {"await"}
            for name, call in calls.items():
                problem = in_thread(call)
                assert isinstance(problem, UsageError), f"{kind.__name__}.{name} gave {problem!r}"
                assert "run_coroutine_threadsafe" in problem.do[0]
        assert isinstance(in_thread(from_a_loop(lambda: anext(numbered))), UsageError)
        assert "crew" in "".join(map(repr, (team, ada, tasks, queue, run))), "a repr may be read anywhere"
        assert ((await run).ok, team.mode, len(team.members)) == (True, "acceptEdits", 1)
        await ada.wait_idle()
        assert [one.subject for one in await tasks.all()] == ["one"]
    assert (run.done, ada.state) == (True, "gone")


@pytest.mark.finding("3L13")
async def test_an_answer_from_another_loop_is_refused_and_the_request_stays_open(tmp_path):
    asked: asyncio.Queue[RequestOpened] = asyncio.Queue()
    model = ScriptedModel([("Bash", {"command": "touch made"}), "done"])
    async with Team("crew", model=model, cwd=tmp_path, on_request=asked.put) as team:
        run = team.run("Go.")
        request = await asyncio.wait_for(asked.get(), WAIT_S)
        problem = await asyncio.to_thread(in_thread, lambda: asyncio.run(request.allow()))
        assert isinstance(problem, UsageError) and "another event loop" in problem.what
        assert await request.allow()
        await run
    assert (tmp_path / "made").exists()


@pytest.mark.finding("3L13")
def test_a_coroutine_of_another_library_gets_an_error_that_names_asyncio(tmp_path):
    entering = Team("crew", model=ScriptedModel("ok"), cwd=tmp_path).__aenter__()
    with pytest.raises(UsageError, match="a team needs asyncio"):
        entering.send(None)


@pytest.mark.finding("T39")
async def test_a_coroutine_of_a_library_whose_guest_is_asyncio_gets_an_error_that_names_asyncio(tmp_path):
    entering = Team("crew", model=ScriptedModel("ok"), cwd=tmp_path).__aenter__()
    entered = asyncio.get_running_loop().create_future()

    def step() -> None:  # what runs here is no task of the loop, as in the guest mode of trio
        try:
            entering.send(None)
        except BaseException as problem:
            entered.set_exception(problem)

    asyncio.get_running_loop().call_soon(step)
    with pytest.raises(UsageError, match="a team needs asyncio"):
        await asyncio.wait_for(entered, WAIT_S)


@pytest.mark.finding("T39")
def test_a_run_in_a_loop_of_another_library_is_refused_with_its_name(tmp_path, monkeypatch):
    monkeypatch.setattr(sniffio.thread_local, "name", "trio")  # the way in which trio tells that it runs
    model = ScriptedModel("ok")
    with pytest.raises(UsageError, match=r"run\(\) needs asyncio, and this coroutine runs in trio"):
        run("Go.", model=model, cwd=tmp_path)
    assert not model.requests


@pytest.mark.finding("3L13")
def test_a_prompt_on_stdin_with_a_nul_byte_is_refused(tmp_path):
    done = preloaded.run([*preloaded.COMMAND, "-p", "--model", "sonnet"], input=b"PK\0\1", timeout=WAIT_S, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"stdin is not text: byte 3 is NUL" in done.stderr


@pytest.mark.finding("3L13")
def test_the_same_warning_of_the_sandbox_is_a_warning_once_a_day(own_home):
    home, said = find_home(), []
    for text in ("no bubblewrap", "no bubblewrap", "no Landlock"):
        warn_once_a_day(home, lambda event: said.append((event.text, event.level)), text)
    assert said == [("no bubblewrap", "warning"), ("no bubblewrap", "info"), ("no Landlock", "warning")]
    past = time.time() - WARN_AGAIN_S - 60
    os.utime(home.own / WARNING_FILE, (past, past))
    warn_once_a_day(home, lambda event: said.append((event.text, event.level)), "no Landlock")
    assert said[-1] == ("no Landlock", "warning")


@pytest.mark.finding("3L13")
@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("https://host/messages/tenant", "https://host/messages/tenant"),
        ("https://host/messages/proxy/v1", "https://host/messages/proxy"),
        ("https://host/v1/messages", "https://host"),
        ("https://host/v1/messages/count_tokens", "https://host"),
        ("https://host/v1/messages/batches/b1/results", "https://host"),
    ],
)
def test_a_segment_messages_of_a_base_url_is_cut_only_where_it_is_the_api_s(given, used):
    assert clean_base_url(given) == used
