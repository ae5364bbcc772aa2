"""The Python API as a program meets it: a team's lifetime, runs, results, limits, names and options."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

import teamwright
from teamwright import (
    Budget,
    CannotStart,
    InvalidName,
    LimitExceeded,
    ModelCard,
    ModelFailed,
    Part,
    Reply,
    Request,
    Result,
    RunEnded,
    SubagentChanged,
    Task,
    TaskRefused,
    Team,
    TeamRefused,
    TeamwrightError,
    TextPart,
    UnknownMember,
    Usage,
    UsageError,
)
from teamwright.models.model import Failure
from teamwright.protocol.messages import text_block
from teamwright.testing import ScriptedModel
from tests.support.waits import WAIT_S


def settings(tmp_path: Path, **values: object) -> Path:
    path = tmp_path / "extra-settings.json"
    path.write_text(json.dumps(values))
    return path


def a_team(tmp_path: Path, model: object, name: str = "crew", **more: object) -> Team:
    (tmp_path / "work").mkdir(exist_ok=True)
    return Team(name, model=model, cwd=tmp_path / "work", **more)


async def until(team: Team, condition) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():
            team.session.team.changed.clear()
            if not condition():
                await team.session.team.changed.wait()


class Stuck(ScriptedModel):
    """Never answers the agents that are named; `asked` is set when the first of them asks."""

    def __init__(self, answers, *names: str) -> None:
        super().__init__(answers)
        self.names = names
        self.asked = asyncio.Event()
        self.cut = 0

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        if request.agent_name in self.names:
            self.asked.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.cut += 1
        async for part in super().stream(request):
            yield part


# ── laziness ─────────────────────────────────────────────────────────────────────────────────────────────────


def in_a_new_python(code: str, **env: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=WAIT_S, env={**os.environ, **env}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.promise("J1")
@pytest.mark.slow
def test_importing_loads_no_room_starts_no_thread_sets_no_handler_and_touches_no_home(tmp_path):
    home = tmp_path / "home"
    code = """
import signal, sys, threading
before = {n: signal.getsignal(n) for n in signal.valid_signals()}
modules = set(sys.modules)
import teamwright
new = [m for m in set(sys.modules) - modules if m.startswith("teamwright")]
assert new == ["teamwright"], new
assert "asyncio" not in sys.modules and "pydantic" not in sys.modules
assert threading.active_count() == 1
assert {n: signal.getsignal(n) for n in signal.valid_signals()} == before
assert set(teamwright.__all__) <= set(dir(teamwright))
from teamwright import Team
team = Team("crew", model="sonnet")
assert threading.active_count() == 1
assert {n: signal.getsignal(n) for n in signal.valid_signals()} == before
heavy = {"httpx2", "anthropic", "prompt_toolkit", "rich", "markdownify", "tree_sitter", "watchfiles"} & set(sys.modules)
assert not heavy, heavy
"""
    in_a_new_python(code, TEAMWRIGHT_HOME=str(home), HOME=str(tmp_path / "user"))
    assert not home.exists()
    assert not (tmp_path / "user").exists()


def test_every_public_name_is_there_and_no_other_is():
    for name in teamwright.__all__:
        assert getattr(teamwright, name) is not None
    assert teamwright.__all__ == sorted(teamwright.__all__)
    with pytest.raises(AttributeError, match="nothing_of_ours"):
        _ = teamwright.nothing_of_ours
    assert hasattr(Team, "resume") and hasattr(Team, "adopt")


# ── lifetime ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("J1")
async def test_a_team_is_nothing_before_its_block_and_nothing_runs_after_it(tmp_path, own_home):
    before = threading.enumerate()  # functions of an earlier test's team leave threads that wait for the next call
    team = a_team(tmp_path, ScriptedModel("ok"))
    assert not (own_home / ".teamwright").exists()
    for early in (lambda: team.tasks, lambda: team.members, lambda: team.run("x"), lambda: team.usage, team.events):
        with pytest.raises(UsageError, match="not running"):
            early()
    async with team:
        ada = await team.spawn("ada", "Wait.")
        await until(team, lambda: ada.state == "idle")
    assert ada.state == "gone" and ada.model == ""
    with pytest.raises(UnknownMember):
        await ada.send("still there?")
    with pytest.raises(UsageError, match="not running"):
        team.run("x")
    others = asyncio.all_tasks() - {asyncio.current_task()}
    ours = f"{Path(teamwright.__file__).parent}{os.sep}"  # the checkout may be called teamwright too
    assert not [t for t in others if t.get_coro().cr_code.co_filename.startswith(ours)]
    begun = [t.name for t in threading.enumerate() if t not in before]
    assert not [name for name in begun if not name.startswith(("asyncio_", "AnyIO worker"))]  # the loop's own pools


@pytest.mark.promise("J1", "A2")
async def test_an_explicit_team_stays_on_disk_finished_and_its_name_can_be_used_again(tmp_path, own_home):
    for _ in range(2):
        async with a_team(tmp_path, ScriptedModel("done")) as team:
            await team.run("Go.")
    config = json.loads((own_home / ".teamwright/teams/crew/config.json").read_text())
    assert [m["name"] for m in config["members"]] == ["team-lead"]
    assert len(list((own_home / ".teamwright/archive").iterdir())) == 1


@pytest.mark.promise("J1")
async def test_a_team_object_may_be_entered_again_but_not_twice_at_once(tmp_path):
    team = a_team(tmp_path, ScriptedModel("done"))
    async with team:
        with pytest.raises(UsageError, match="running already"):
            await team.__aenter__()
        assert (await team.run("Go.")).ok
    async with team:
        assert (await team.run("Go.")).ok


@pytest.mark.promise("J1", "A2")
async def test_a_second_team_of_a_name_that_is_at_work_is_refused_and_leaves_nothing_running(tmp_path):
    async with a_team(tmp_path, ScriptedModel("one")) as first:
        with pytest.raises(TeamRefused, match="at work") as caught:
            async with a_team(tmp_path, ScriptedModel("two"), replace=True):
                pytest.fail("entered")
        assert "replace=True" not in caught.value.render()
        assert (await first.run("Still there?")).text == "one"


@pytest.mark.promise("J1", "A2")
async def test_what_a_dead_team_left_open_is_replaced_only_when_that_is_said(tmp_path, own_home):
    async with a_team(tmp_path, ScriptedModel("one")) as team:
        await team.tasks.add("left open")
    sessions = sorted((own_home / ".teamwright/projects").glob("*/*"))
    with pytest.raises(TeamRefused, match=r"1 open task\n") as caught:
        async with a_team(tmp_path, ScriptedModel("two")):
            pytest.fail("entered")
    assert "Team('crew', replace=True)" in caught.value.render()
    assert sorted((own_home / ".teamwright/projects").glob("*/*")) == sessions
    async with a_team(tmp_path, ScriptedModel("two"), replace=True) as team:
        assert await team.tasks.all() == []
    (kept,) = (own_home / ".teamwright/archive").iterdir()
    assert "left open" in (kept / "tasks" / "1.json").read_text()


@pytest.mark.promise("J1", "F22")
async def test_leaving_waits_goodbye_s_for_who_is_at_work_and_ends_it(tmp_path):
    model = Stuck("ok", "ada")
    extra = settings(tmp_path, shutdown_timeout_s=0.05)
    async with asyncio.timeout(WAIT_S):
        async with a_team(tmp_path, model, settings_file=extra) as team:
            ada = await team.spawn("ada", "Work for ever.")
            await model.asked.wait()
            inbox, session = team.session.team.mailbox("ada").path, team.session
        assert ada.state == "gone" and model.cut == 1
    assert "shutdown_request" not in inbox.read_text(), "nobody stops for good because the session is left"
    assert session.cut_off == ["ada"]


@pytest.mark.promise("J1", "F22")
async def test_a_member_whose_turn_ends_in_time_is_not_cut(tmp_path):
    gate, asked = asyncio.Event(), asyncio.Event()

    class Slow(ScriptedModel):
        async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
            if request.agent_name == "ada":
                asked.set()
                await gate.wait()
            async for part in super().stream(request):
                yield part

    async def let_go() -> None:
        for _ in range(50):  # the block is being left by then
            await asyncio.sleep(0)
        gate.set()

    async with asyncio.timeout(WAIT_S):
        async with a_team(tmp_path, Slow("wound up")) as team:
            session = team.session
            await team.spawn("ada", "Work.")
            await asked.wait()
            letting_go = asyncio.create_task(let_go())
    await letting_go
    assert session.cut_off == [] and session.team.members["ada"].state == "suspended"


@pytest.mark.promise("J1", "P3")
async def test_an_error_in_the_block_ends_everybody_too_and_is_raised_as_it_was(tmp_path):
    model = Stuck("ok", "ada")
    extra = settings(tmp_path, shutdown_timeout_s=0.05)
    mine = ZeroDivisionError("mine")
    with pytest.raises(ZeroDivisionError) as caught:
        async with a_team(tmp_path, model, settings_file=extra) as team:
            ada = await team.spawn("ada", "Work.")
            await model.asked.wait()
            raise mine
    assert caught.value is mine
    assert ada.state == "gone" and model.cut == 1


@pytest.mark.promise("J1", "P3")
@pytest.mark.parametrize("times", [1, 2, 3, 6])
@pytest.mark.slow_after(2)
async def test_cancelling_the_block_ends_everybody_however_often_it_is_cancelled(tmp_path, times):
    model = Stuck("ok", "team-lead", "ada")
    extra = settings(tmp_path, shutdown_timeout_s=0.1)

    async def program() -> None:
        async with a_team(tmp_path, model, settings_file=extra) as team:
            await team.spawn("ada", "Work.")
            await team.run("Go.")

    task = asyncio.create_task(program())
    async with asyncio.timeout(WAIT_S):
        await model.asked.wait()
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        await asyncio.wait({task})
    assert task.cancelled()
    assert not [t for t in asyncio.all_tasks() if t.get_name().startswith("member ")]
    async with a_team(tmp_path, ScriptedModel("free"), replace=True) as again:
        assert (await again.run("Is the name free?")).ok


@pytest.mark.promise("J1", "P3")
async def test_a_second_cancellation_cuts_the_goodbye_short_and_nothing_else(tmp_path):
    model = Stuck("ok", "ada")

    async def program() -> None:
        async with a_team(tmp_path, model) as team:
            await team.spawn("ada", "Work.")
            await asyncio.Event().wait()

    task = asyncio.create_task(program())
    async with asyncio.timeout(WAIT_S):  # shutdown_timeout_s is 10 s here
        await model.asked.wait()
        task.cancel()
        for _ in range(50):  # it says goodbye by then
            await asyncio.sleep(0)
        assert not task.done()
        task.cancel()
        await asyncio.wait({task})
    assert task.cancelled() and model.cut == 1
    assert not [t for t in asyncio.all_tasks() if t.get_name().startswith("member ")]


@pytest.mark.promise("J1", "P3")
async def test_closing_is_seen_to_its_end_whoever_cancels_meanwhile(tmp_path):
    cleaning, release = asyncio.Event(), asyncio.Event()

    class Tidy(Stuck):
        async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
            try:
                async for part in super().stream(request):
                    yield part
            finally:
                cleaning.set()
                await release.wait()

    model = Tidy("ok", "ada")
    extra = settings(tmp_path, shutdown_timeout_s=0.01)

    async def program() -> None:
        async with a_team(tmp_path, model, settings_file=extra) as team:
            await team.spawn("ada", "Work.")
            await model.asked.wait()

    task = asyncio.create_task(program())
    async with asyncio.timeout(WAIT_S):
        await cleaning.wait()
        for _ in range(5):
            task.cancel()
            for _ in range(20):
                await asyncio.sleep(0)
            assert not task.done()
        release.set()
        await asyncio.wait({task})
    assert task.cancelled()
    assert not [t for t in asyncio.all_tasks() if t.get_name().startswith("member ")]


@pytest.mark.promise("J1")
async def test_a_timeout_around_the_team_ends_it_and_is_a_timeout(tmp_path):
    model = Stuck("ok", "team-lead")

    async def expire_when_asked(limit: asyncio.Timeout) -> None:
        await model.asked.wait()
        limit.reschedule(asyncio.get_running_loop().time())

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(WAIT_S) as limit, asyncio.TaskGroup() as tasks:
            tasks.create_task(expire_when_asked(limit))
            async with a_team(tmp_path, model) as team:
                await team.run("Never ends.")
    assert model.cut == 1


# ── runs ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("J1")
async def test_a_timeout_around_a_run_ends_the_run_and_keeps_the_team(tmp_path):
    class Once(ScriptedModel):
        limit: asyncio.Timeout

        async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
            if not self.requests:
                self.requests.append(request)
                self.limit.reschedule(asyncio.get_running_loop().time())
                await asyncio.Event().wait()
            async for part in super().stream(request):
                yield part

    model = Once("second")
    async with a_team(tmp_path, model) as team:
        run = team.run("Never ends.")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(WAIT_S) as model.limit:
                await run
        assert run.done
        again = await run
        assert again.stop == "cancelled"
        assert (await team.run("Again.")).text == "second"


@pytest.mark.promise("J1")
async def test_cancelling_a_run_gives_a_result_with_the_reason_and_keeps_the_team(tmp_path):
    model = Stuck({"ada": ["ready"]}, "team-lead")
    async with a_team(tmp_path, model) as team:
        ada = await team.spawn("ada", "Wait.")
        run = team.run("Go.")
        async with asyncio.timeout(WAIT_S):
            await model.asked.wait()
            run.cancel("lunch")
            run.cancel("a later reason does not replace the first")
            result = await run
        assert (result.stop, result.ok, result.exit_code, result.text) == ("cancelled", False, 130, "")
        assert result.error is not None and "lunch" in result.error.what
        with pytest.raises(TeamwrightError, match="lunch"):
            result.raise_for_stop()
        assert ada.state in {"idle", "working"}
        run.cancel("over already")
        assert await run is result


@pytest.mark.promise("J1")
async def test_a_run_may_be_cancelled_before_it_began(tmp_path):
    model = ScriptedModel("never asked")
    async with a_team(tmp_path, model) as team:
        run = team.run("Go.")
        run.cancel()
        async with asyncio.timeout(WAIT_S):
            assert (await run).stop == "cancelled"
            assert [type(e) async for e in run.events()][-1] is RunEnded
    assert not model.requests


@pytest.mark.promise("J1")
async def test_a_run_that_nobody_waited_for_is_ended_with_its_team_and_still_has_a_result(tmp_path):
    model = Stuck("ok", "team-lead")
    async with asyncio.timeout(WAIT_S):
        async with a_team(tmp_path, model) as team:
            run = team.run("Go.")
            await model.asked.wait()
        result = await run
    assert result.stop == "cancelled" and result.error is not None and "left" in result.error.what


@pytest.mark.promise("J1")
async def test_two_runs_one_after_the_other_share_a_conversation_and_one_at_a_time_is_the_rule(tmp_path):
    model = ScriptedModel(["first", "second"])
    async with a_team(tmp_path, model) as team:
        run = team.run("One.")
        with pytest.raises(TeamRefused, match="still active"):
            team.run("Two.")
        assert (await run).text == "first"
        assert (await team.run("Two.")).text == "second"
        assert "One." in "".join(item.decode() for item in model.requests[1].items)
        for nothing in ("", " \n"):
            with pytest.raises(UsageError, match="prompt"):
                team.run(nothing)


@pytest.mark.promise("J1")
async def test_a_cancelled_run_does_not_give_the_answer_of_the_one_before(tmp_path):
    class SecondHangs(ScriptedModel):
        async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
            if self.requests:
                await asyncio.Event().wait()
            async for part in super().stream(request):
                yield part

    async with a_team(tmp_path, SecondHangs("first")) as team:
        assert (await team.run("One.")).text == "first"
        run = team.run("Two.")
        asyncio.get_running_loop().call_later(0.05, run.cancel)
        assert (await run).text == ""


@pytest.mark.promise("J1", "F60")
async def test_a_mistake_in_a_programs_model_ends_run_and_events_and_is_raised(tmp_path):
    def broken(_request: Request) -> str:
        raise KeyError("a mistake")

    async with a_team(tmp_path, ScriptedModel(broken)) as team:
        run = team.run("Go.")
        async with asyncio.timeout(WAIT_S):
            ended = [e async for e in run.events() if isinstance(e, RunEnded)]
            assert [(e.stop, "a mistake" in e.detail) for e in ended] == [("failed", True)]
            with pytest.raises(KeyError, match="a mistake"):
                await run


@pytest.mark.promise("J1")
async def test_several_teams_run_in_one_loop_and_do_not_hear_each_other(tmp_path):
    async def one(name: str) -> Result:
        model = ScriptedModel({"lead": ["I wait.", f"{name} is done"], "ada": [f"ada of {name}"]})
        async with a_team(tmp_path, model, name) as team:
            await team.spawn("ada", "Go.")
            return await team.run("Go.")

    async with asyncio.timeout(WAIT_S):
        results = await asyncio.gather(*(one(name) for name in ("alpha", "beta", "gamma")))
    assert [r.team for r in results] == ["alpha", "beta", "gamma"]
    assert all(r.ok for r in results)
    assert len({r.session_id for r in results}) == 3


def test_teams_run_in_several_threads_with_a_loop_each(tmp_path):
    def one(name: str, into: dict[str, str]) -> None:
        async def program() -> None:
            async with a_team(tmp_path, ScriptedModel(f"I am {name}"), name) as team:
                into[name] = (await team.run("Who?")).text

        asyncio.run(program())

    texts: dict[str, str] = {}
    threads = [threading.Thread(target=one, args=(name, texts)) for name in ("alpha", "beta")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert texts == {"alpha": "I am alpha", "beta": "I am beta"}


# ── the one call ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("J1")
def test_run_is_one_call_and_leaves_no_team(tmp_path, own_home):
    result = teamwright.run("Say hello.", model=ScriptedModel("hello"), cwd=tmp_path, budget=Budget(turns=2))
    assert (result.ok, result.text, result.stop, result.exit_code) == (True, "hello", "done", 0)
    assert not list((own_home / ".teamwright").glob("teams/*"))
    assert "resume" in result.resume_command


async def test_run_inside_a_running_loop_says_what_to_write_instead(tmp_path):
    with pytest.raises(UsageError) as caught:
        teamwright.run("Say hello.", model=ScriptedModel("hello"), cwd=tmp_path)
    assert "async with Team" in caught.value.render()
    with pytest.raises(UsageError, match="prompt"):
        teamwright.run("  ")


def test_run_in_a_script_needs_nothing_but_a_script_file(tmp_path):
    script = tmp_path / "s.toml"
    script.write_text('[[agent.lead.turn]]\nsay = "from a file"\n')
    code = f"""
import teamwright
result = teamwright.run("Go.", model="scripted:{script}", budget=teamwright.Budget(usd=0.01))
print(result.text, result.usage)
raise SystemExit(0 if result.ok else 1)
"""
    assert in_a_new_python(code).startswith("from a file 0 tokens in")


def test_run_without_a_model_raises_what_the_command_line_says(tmp_path):
    with pytest.raises(CannotStart, match="no model"):
        teamwright.run("Go.", cwd=tmp_path, env={})


# ── results and limits ───────────────────────────────────────────────────────────────────────────────────────


class Priced(ScriptedModel):
    """Says what it used, without money, as a program's own model does."""

    def __init__(self, answers, *, usd: float | None, tokens: int = 1_000_000, name: str = "own") -> None:
        super().__init__(answers, card=ModelCard(name, name, "own", usd_in=usd, usd_out=usd))
        self.tokens = tokens

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        async for part in super().stream(request):
            if isinstance(part, Reply):
                part = Reply(part.content, part.stop_reason, Usage(input_tokens=self.tokens, requests=1), part.model)
            yield part


@pytest.mark.promise("J1", "K4")
async def test_a_result_has_usage_by_member_tasks_denials_and_how_to_go_on(tmp_path):
    model = Priced(
        {"lead": [("Write", {"file_path": "x", "content": "y"}), "I wait.", "done"], "ada": ["found it"]}, usd=2.0
    )
    async with a_team(tmp_path, model) as team:
        await team.tasks.add("nobody does it", metadata={"for": ["nobody"]})
        await team.spawn("ada", "Look.")
        result = await team.run("Go.")
        assert team.usage == result.usage
    assert set(result.by_member) == {"team-lead", "ada"}
    total = sum(result.by_member.values(), Usage())
    assert total == result.usage and result.usage.usd == pytest.approx(2.0 * result.usage.requests)
    assert [(t.id, t.status) for t in result.tasks] == [("1", "pending")] and len(result.open_tasks) == 1
    assert [d["tool_name"] for d in result.denials] == ["Write"]
    assert result.resume_command == "teamwright resume crew", "by the name of its team, whose members keep their places"
    result.raise_for_stop()


@pytest.mark.promise("J1", "K4")
async def test_an_unknown_price_is_none_never_zero_and_prints(tmp_path):
    async with a_team(tmp_path, Priced("ok", usd=None)) as team:
        result = await team.run("Go.")
    assert result.usage.usd is None
    assert str(result.usage) == "1,000,000 tokens in, 0 out, price unknown"


@pytest.mark.promise("K4", "F59")
@pytest.mark.parametrize(
    ("budget", "limit"),
    [(Budget(usd=4.5), "money"), (Budget(tokens=2_500_000), "tokens"), (Budget(turns=2), "turns")],
    ids=["usd", "tokens", "turns"],
)
async def test_a_cap_ends_the_run_with_a_limit_that_can_be_raised(tmp_path, budget, limit):
    model = Priced(lambda _request: ("TaskList", {}), usd=2.0)
    async with a_team(tmp_path, model, budget=budget) as team:
        result = await team.run("Loop.")
        assert (await team.run("The cap is the team's.")).limit == limit
    assert (result.stop, result.limit, result.exit_code) == ("limit", limit, 4)
    assert len(model.requests) == 2
    with pytest.raises(LimitExceeded, match=limit):
        result.raise_for_stop()


@pytest.mark.promise("K4")
async def test_minutes_end_a_run_that_never_would(tmp_path):
    model = Stuck("ok", "team-lead")
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, model, budget=Budget(minutes=0.005)) as team:
        result = await team.run("Never ends.")
    assert (result.stop, result.limit) == ("limit", "time")


@pytest.mark.parametrize("cap", [0, -1, float("nan"), "2", True])
def test_a_cap_that_is_no_number_above_zero_is_refused(cap):
    with pytest.raises(UsageError, match="cap on usd"):
        Budget(usd=cap)


@pytest.mark.promise("K4")
async def test_capped_money_refuses_every_model_whose_price_nobody_knows(tmp_path):
    unknown = Priced("ok", usd=None, name="mystery")
    with pytest.raises(CannotStart, match="price"):
        async with a_team(tmp_path, unknown, budget=Budget(usd=1.0)):
            pytest.fail("entered")
    async with a_team(tmp_path, Priced("ok", usd=1.0), budget=Budget(usd=100.0)) as team:
        with pytest.raises(CannotStart, match="price") as caught:
            await team.spawn("ada", "Go.", model=unknown)
        assert "mystery" in caught.value.render()
        assert team.members == []


@pytest.mark.promise("J1", "F60")
async def test_a_service_that_fails_is_a_result_with_its_error(tmp_path):
    model = ScriptedModel(lambda _request: Failure("model-failed", "the service is down"))
    async with a_team(tmp_path, model) as team:
        result = await team.run("Go.")
    assert (result.stop, result.exit_code) == ("failed", 1)
    with pytest.raises(ModelFailed, match="service is down"):
        result.raise_for_stop()


@pytest.mark.parametrize(
    ("stop", "slug", "code"), [("cut_off", "cut-off", 5), ("cancelled", "interrupted", 130), ("failed", "failed", 1)]
)
def test_raise_for_stop_has_the_slug_and_code_of_each_ending(stop, slug, code):
    with pytest.raises(TeamwrightError) as caught:
        Result("", stop, Usage(), resume_command="teamwright resume x").raise_for_stop()
    assert (caught.value.slug, caught.value.exit_code) == (slug, code)


# ── models ───────────────────────────────────────────────────────────────────────────────────────────────────


class Parrot:
    """A model of a program's own: nothing of ours but the words of the contract."""

    def __init__(self, word: str) -> None:
        self.word = word
        self.closed = False

    @property
    def card(self) -> ModelCard:
        return ModelCard(f"own/{self.word}", self.word, "own")

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        yield TextPart(self.word)
        yield Reply([text_block(f"{self.word} ({request.agent_name})")], "end_turn", Usage(3, 1, requests=1), self.word)

    async def aclose(self) -> None:
        self.closed = True


@pytest.mark.promise("J1")
async def test_a_model_of_the_programs_own_plays_the_team_and_is_the_programs_to_close(tmp_path):
    parrot, other = Parrot("squawk"), Parrot("croak")
    async with a_team(tmp_path, parrot) as team:
        ada = await team.spawn("ada", "Go.", model=other)
        ben = await team.spawn("ben", "Go.", model=other)
        eve = await team.spawn("eve", "Go.")
        assert [ada.model, ben.model, eve.model] == ["own/croak", "own/croak", "own/squawk"]
        result = await team.run("Go.")
    assert result.text == "squawk (team-lead)"
    assert {m.name: m.model for m in result.members}["ada"] == "own/croak"
    assert not parrot.closed and not other.closed


@pytest.mark.promise("J1")
async def test_a_member_whose_named_model_cannot_be_had_is_refused_and_nobody_is_left(tmp_path):
    async with a_team(tmp_path, Parrot("squawk"), env={}) as team:
        with pytest.raises(CannotStart, match="no key for Anthropic"):
            await team.spawn("ada", "Go.", model="sonnet")
        with pytest.raises(UsageError, match="model= takes"):
            await team.spawn("ada", "Go.", model=3)
        assert team.members == []
        ada = await team.spawn("ada", "Go.")
        assert ada.model == "own/squawk"


@pytest.mark.promise("J1")
async def test_what_an_agent_asks_for_never_leaves_the_object_that_the_program_gave(tmp_path):
    def answer(request: Request):
        if request.agent_name == "team-lead" and len(request.items) == 1:
            return ("Agent", {"description": "x", "prompt": "Go.", "name": "ada", "model": "haiku"})
        return "ok"

    async with a_team(tmp_path, ScriptedModel(answer), env={}, permission_mode="bypassPermissions") as team:
        await team.run("Go.")
        assert [(m.name, m.model) for m in team.members] == [("ada", "scripted")]


# ── names, options, tasks ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("J1", "F15")
@pytest.mark.parametrize("name", ["", "  ", "x" * 101, "a\nb", "a\0b"])
def test_a_name_that_cannot_be_is_refused_before_anything(name):
    with pytest.raises(InvalidName):
        Team(name)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"modle": "sonnet"}, "did you mean model=?"),
        ({"check": "make docs"}, "check= is not an option"),
        ({"tools": print}, "tools= takes a list"),
        ({"allowed_tools": "Bash"}, "allowed_tools= takes a list of rules"),
        ({"add_dirs": Path("x")}, "add_dirs= takes a list"),
        ({"budget": 2.0}, "budget= takes a Budget"),
        ({"model": 3}, "model= takes a name"),
        ({"on_request": "deny"}, "on_request= takes a function"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_slip_in_the_options_is_a_sentence_at_once(options, said):
    for begin in (lambda: Team("crew", **options), lambda: teamwright.run("Go.", **options)):
        with pytest.raises(UsageError) as caught:
            begin()
        assert said in caught.value.render()


async def test_a_mode_that_is_none_is_refused_for_the_team_and_for_a_member(tmp_path):
    with pytest.raises(UsageError, match="permission mode"):
        async with a_team(tmp_path, ScriptedModel("ok"), permission_mode="alow"):
            pytest.fail("entered")
    async with a_team(tmp_path, ScriptedModel("ok")) as team:
        with pytest.raises(UsageError, match="permission mode"):
            await team.spawn("ada", "Go.", mode="alow")
        with pytest.raises(UsageError, match="no-such-role"):
            await team.spawn("ada", "Go.", agent_type="no-such-role")
        assert team.members == []


@pytest.mark.promise("J1", "B8")
async def test_a_check_is_given_to_a_new_task_and_changed_in_its_metadata(tmp_path):
    async with a_team(tmp_path, ScriptedModel("ok")) as team:
        assert (await team.tasks.add("docs", check="make docs")).check == "make docs"
        assert (await team.tasks.update("1", metadata={"check": "make all"})).check == "make all"
        with pytest.raises(UsageError, match="check="):
            await team.tasks.update("1", check="make docs")


@pytest.mark.promise("J1", "B6", "F17")
async def test_tasks_are_added_after_others_changed_and_read(tmp_path):
    async with a_team(tmp_path, ScriptedModel("ok")) as team:
        one = await team.tasks.add("one", "all of it")
        two = await team.tasks.add("two", after=one)
        three = await team.tasks.add("three", after=[one, two.id])
        assert (one.description, two.description) == ("all of it", "two")
        assert (two.blocked_by, three.blocked_by) == (("1",), ("1", "2"))
        with pytest.raises(TaskRefused):
            await team.tasks.add("four", after=["99"])
        with pytest.raises(TaskRefused):
            await team.tasks.update(two, status="completed")
        done = await team.tasks.update(one, status="completed")
        assert done.status == "completed"
        assert isinstance(await team.tasks.get("2"), Task) and await team.tasks.get("99") is None
        assert (await team.tasks.update("#2", subject="second")).subject == "second"
        await team.tasks.update(three, status="deleted")
        assert [t.subject for t in await team.tasks.all()] == ["one", "second"]


@pytest.mark.promise("B4")
async def test_a_member_to_whom_the_program_gives_a_task_is_told(tmp_path):
    model = ScriptedModel(lambda _request: "ok")
    async with a_team(tmp_path, model) as team:
        ada = await team.spawn("ada", "Wait.")
        await until(team, lambda: ada.state == "idle")
        task = await team.tasks.add("reserved", metadata={"for": ["nobody"]})
        await team.tasks.update(task, owner="ada")
        await until(team, lambda: any(b"gave you task #1" in item for r in model.requests for item in r.items))


@pytest.mark.promise("A1")
async def test_a_home_is_where_it_is_said_private_and_a_foreign_one_keeps_ours_apart(tmp_path):
    ours, foreign = tmp_path / "state", tmp_path / ".claude"
    foreign.mkdir(mode=0o755)
    for home in (ours, foreign):
        async with a_team(tmp_path, ScriptedModel("ok"), home=home) as team:
            await team.run("Go.")
    assert ours.stat().st_mode & 0o777 == 0o700
    assert (ours / "teams/crew/config.json").stat().st_mode & 0o777 == 0o600
    assert foreign.stat().st_mode & 0o777 == 0o755
    assert sorted(p.name for p in foreign.iterdir()) == ["tasks", "teams", "teamwright"]
    assert not (ours / "teamwright").exists()


async def test_a_members_handle_says_what_it_waits_for_and_ends_it(tmp_path):
    asked = asyncio.Event()
    model = ScriptedModel({"ada": [("Bash", {"command": "touch x"}), "ok"]})
    async with a_team(tmp_path, model, on_request=lambda _request: asked.set()) as team:
        ada = await team.spawn("ada", "Go.")
        async with asyncio.timeout(WAIT_S):
            await asked.wait()
        assert ada.state == "blocked" and "touch x" in ada.waiting_on
        assert repr(ada) == "Member(name='ada')" and ada == team.members[0]
        await ada.stop()
        assert ada.state == "gone" and ada.waiting_on == ""
        with pytest.raises(UnknownMember):
            await ada.stop()


@pytest.mark.finding("T16", "T14")
async def test_a_scripted_model_gives_one_text_of_a_mapping_whole_and_every_time(tmp_path):
    model = ScriptedModel({"team-lead": "all is well"})
    async with Team("crew", model=model, cwd=tmp_path) as team:
        assert [(await team.run("go")).text for _ in range(2)] == ["all is well"] * 2


@pytest.mark.finding("T16")
async def test_a_program_stops_a_sub_agent_by_its_id(tmp_path):
    def answer(request):
        if request.agent_name != "team-lead":
            return ("Bash", {"command": "sleep 60", "description": "wait"})
        start = {"description": "wait", "prompt": "Wait.", "run_in_background": True}
        return ("Agent", start) if b"Wait." not in b"".join(request.items) else "It works."

    async with (
        asyncio.timeout(WAIT_S),
        a_team(tmp_path, ScriptedModel(answer), permission_mode="bypassPermissions") as team,
    ):
        run = team.run("Begin.")
        await team.stop((await anext(_until_background(run))).agent)
        assert (await run).ok
        ends = [event.state async for event in run.events() if isinstance(event, SubagentChanged)]
        assert ends[-1] == "killed"
        with pytest.raises(UnknownMember):
            await team.stop("a0000000")


async def _until_background(run):
    """The event of the first sub-agent that works in the background."""
    async for event in run.events():
        if isinstance(event, SubagentChanged) and event.state == "background":
            yield event
            return


@pytest.mark.finding("T16")
async def test_a_program_removes_its_team_in_the_block_or_at_its_end(tmp_path):
    home = tmp_path / "home"
    teams, archive = home / "teams", home / "archive"
    async with a_team(tmp_path, ScriptedModel("ok"), home=home) as team:
        await team.spawn("ada", "Wait.")
        task = await team.tasks.add("open")
        with pytest.raises(TeamRefused, match="open tasks"):
            await team.delete()
        assert [member.name for member in team.members] == ["ada"], "nothing was ended"
        await team.tasks.update(task, status="completed")
        await team.delete()
        assert not team.members and not list(teams.iterdir())
    async with Team("crew", model=ScriptedModel("ok"), cwd=tmp_path, home=home, keep=False) as team:
        await team.spawn("ada", "Wait.")
        await team.tasks.add("open")
    assert not list(teams.iterdir()) and len(list(archive.iterdir())) == 2
    with pytest.raises(ZeroDivisionError):
        async with Team("crew", model=ScriptedModel("ok"), cwd=tmp_path, home=home, keep=False):
            _ = 1 / 0
    assert [path.name for path in teams.iterdir()] == ["crew"], "a block that failed can be resumed"
    with pytest.raises(UsageError, match="keep="):
        Team("crew", keep="no")


class WorksForEver(ScriptedModel):
    """Calls a tool in every answer, each time with another input, and reports 200,000 tokens of prompt."""

    def __init__(self) -> None:
        super().__init__({})
        self.calls = 0

    @property
    def card(self) -> ModelCard:
        return ModelCard(
            name="own/loop", wire="loop", provider="own", context_tokens=1_000_000, usd_in=3.0, usd_out=15.0
        )

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        self.calls += 1
        call = {"type": "tool_use", "id": f"t{self.calls}", "name": "python__tick", "input": {"number": self.calls}}
        used = Usage(input_tokens=0 if self.free else 200_000, output_tokens=10, requests=1)
        yield Reply([call], "tool_use", used, "loop")

    free = False


def tick(number: int) -> str:
    """Tick."""
    return str(number)


@pytest.mark.finding("3L3")
async def test_a_team_without_a_budget_has_the_default_caps_of_the_command_line(tmp_path):
    model = WorksForEver()
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, model, tools=[tick]) as team:
        result = await team.run("go")
        assert (result.stop, result.limit) == ("limit", "tokens")
        assert team.session.agent_factory.budget_tracker.budget == Budget(
            usd=20.0, tokens=5_000_000, turns=200, minutes=120
        )
    assert model.calls <= 25


@pytest.mark.finding("3L3")
async def test_the_default_cap_on_model_calls_ends_a_run_whose_tokens_cost_nothing(tmp_path):
    model = WorksForEver()
    model.free = True
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, model, tools=[tick], budget=Budget(usd=5.0)) as team:
        result = await team.run("go")
    assert (result.stop, result.limit) == ("limit", "turns")
    assert model.calls == 200


@pytest.mark.finding("3L3")
async def test_an_unlimited_budget_has_only_the_caps_that_it_names(tmp_path):
    model = WorksForEver()
    budget = Budget.unlimited(usd=30.0)
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, model, tools=[tick], budget=budget) as team:
        result = await team.run("go")
        caps = team.session.agent_factory.budget_tracker.budget
        assert caps.as_json() == {"usd": 30.0}
    assert (result.stop, result.limit) == ("limit", "money")
    assert model.calls > 25


@pytest.mark.finding("3L3")
async def test_an_unlimited_budget_without_caps_has_none(tmp_path):
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, ScriptedModel("ok"), budget=Budget.unlimited()) as team:
        assert team.session.agent_factory.budget_tracker.budget.as_json() == {}
