"""A team in the wrong thread, loop or library: a clear error, and nothing happens."""

import asyncio
import os
import threading
import time

import pytest

from teamwright import RequestOpened, Team, UsageError
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
