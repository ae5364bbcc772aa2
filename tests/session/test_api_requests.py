"""Requests answered from Python: in the loop over events, by `on_request=`, by nobody, by a deadline."""

import asyncio
import json

import pytest

from teamwright import Request, RequestClosed, RequestOpened, RunEnded, Team, ToolCalled
from teamwright.testing import ScriptedModel
from tests.support.waits import WAIT_S


def a_team(tmp_path, model, **more) -> Team:
    (tmp_path / "work").mkdir(exist_ok=True)
    return Team("crew", model=model, cwd=tmp_path / "work", **more)


def settings(tmp_path, **values):
    path = tmp_path / "extra-settings.json"
    path.write_text(json.dumps(values))
    return path


def told(model: ScriptedModel, name: str = "team-lead") -> str:
    last = [r for r in model.requests if r.agent_name == name][-1]
    return "\n".join(item.decode() for item in last.items)


TOUCH = ("Bash", {"command": "touch made"})
QUESTION = ("AskUserQuestion", {"questions": [{"question": "Which branch?", "options": ["main", "next"]}]})


# ── in the loop over events ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("J1", "P4")
async def test_a_request_is_allowed_from_the_loop_and_shows_the_whole_call(tmp_path):
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, ScriptedModel([TOUCH, "done"])) as team:
        run = team.run("Go.")
        opened = []
        closed = []
        async for event in run.events():
            match event:
                case RequestOpened():
                    opened.append(event)
                    assert await event.allow()
                    assert not await event.deny("too late")
                case RequestClosed():
                    closed.append((event.verdict, event.by))
                case _:
                    pass
        result = await run
    assert (tmp_path / "work/made").exists() and not result.denials
    assert [(e.member, e.kind, e.tool, e.what) for e in opened] == [("team-lead", "permission", "Bash", "touch made")]
    assert closed == [("allow", "program")]


@pytest.mark.promise("J1", "P4")
async def test_a_denial_from_the_loop_has_its_reason_for_the_model_and_for_the_result(tmp_path):
    model = ScriptedModel([TOUCH, "done"])
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, model) as team:
        run = team.run("Go.")
        async for event in run.events():
            if isinstance(event, RequestOpened):
                await event.deny("not on a Friday")
        result = await run
    assert not (tmp_path / "work/made").exists()
    assert "This call was not allowed: not on a Friday" in told(model)  # by a program, not by the user
    assert [d["tool_name"] for d in result.denials] == ["Bash"]


@pytest.mark.promise("P4", "F44")
async def test_a_path_that_leads_elsewhere_since_it_was_asked_about_is_not_written(tmp_path):
    """A yes is for the file that was shown: a link that is put in its way meanwhile leads nowhere."""
    model = ScriptedModel([("Write", {"file_path": "d/x", "content": "y"}), "done"])
    (tmp_path / "far").mkdir()
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, model) as team:
        run = team.run("Go.")
        async for event in run.events():
            if isinstance(event, RequestOpened):
                (tmp_path / "work" / "d").symlink_to(tmp_path / "far")
                assert await event.allow()
        result = await run
    assert not (tmp_path / "far" / "x").exists()
    assert "leads to another place" in told(model) and [d["tool_name"] for d in result.denials] == ["Write"]


@pytest.mark.promise("J1", "P4")
async def test_a_question_is_answered_with_words(tmp_path):
    model = ScriptedModel([QUESTION, "done"])
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, model) as team:
        run = team.run("Go.")
        async for event in run.events():
            if isinstance(event, RequestOpened):
                assert (event.kind, event.what, event.options) == ("question", "Which branch?", ("main", "next"))
                await event.answer("next")
    assert "→ next" in told(model)


@pytest.mark.promise("J1", "P4")
async def test_a_request_that_is_read_late_from_the_file_can_be_answered_too(tmp_path):
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, ScriptedModel([TOUCH, "done"])) as team:
        feed = team.events()
        run = team.run("Go.")
        async for _, event in feed:
            if isinstance(event, RequestOpened):
                break
        # Another reader, that begins now: the request comes to it out of the file.
        async for event in run.events():
            if isinstance(event, RequestOpened):
                assert await event.allow()
        assert (await run).ok
    assert (tmp_path / "work/made").exists()


@pytest.mark.promise("J1", "G2")
@pytest.mark.parametrize("how", ["loop", "on_request"])
@pytest.mark.slow_after(1)
async def test_always_stores_the_offered_rule_for_the_session_and_every_member(tmp_path, how):
    offered: list[str] = []

    def answer(request: Request):
        return TOUCH if len(request.items) == 1 else "ok"

    async def always(request: RequestOpened) -> None:
        offered.append(request.always)
        await request.allow(always=True)

    more = {"on_request": always} if how == "on_request" else {}
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, ScriptedModel(answer), **more) as team:
        run = team.run("Go.")
        async for event in run.events():
            if how == "loop" and isinstance(event, RequestOpened):
                await always(event)
        (tmp_path / "work/made").unlink()
        await team.spawn("ada", "Go.")
        assert not (await team.run("Wait for ada.")).denials
        assert (tmp_path / "work/made").exists(), "the rule holds for ada"
    assert len(offered) == 1 and "touch made" in offered[0] and "session" in offered[0]
    async with a_team(tmp_path, ScriptedModel(answer)) as team:
        assert len((await team.run("The rule was the session's.")).denials) == 1


# ── by on_request= ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("J1", "P4")
async def test_an_async_answerer_answers_for_the_lead_and_for_members(tmp_path):
    asked: list[str] = []

    async def decide(request: RequestOpened) -> None:
        asked.append(request.member)
        await asyncio.sleep(0)
        if request.member == "ada":
            await request.deny("not you")
        else:
            await request.allow()

    def answer(request: Request):
        return ("Bash", {"command": f"touch {request.agent_name}"}) if len(request.items) == 1 else "ok"

    async with asyncio.timeout(WAIT_S), a_team(tmp_path, ScriptedModel(answer), on_request=decide) as team:
        await team.spawn("ada", "Go.")
        result = await team.run("Go.")
    assert sorted(asked) == ["ada", "team-lead"]
    assert [d["member"] for d in result.denials] == ["ada"]
    assert [p.name for p in (tmp_path / "work").iterdir()] == ["team-lead"]


@pytest.mark.promise("J1", "P4")
async def test_a_plain_answerer_returns_what_the_methods_return(tmp_path):
    model = ScriptedModel([TOUCH, "done"])
    async with a_team(tmp_path, model, on_request=lambda request: request.deny(f"never {request.tool}")) as team:
        result = await team.run("Go.")
    assert "never Bash" in told(model) and len(result.denials) == 1


@pytest.mark.promise("J1", "P4")
async def test_an_answerer_that_breaks_denies_with_its_mistake(tmp_path):
    def broken(_request: RequestOpened) -> None:
        raise LookupError("no such channel")

    model = ScriptedModel([TOUCH, "done"])
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, model, on_request=broken) as team:
        assert (await team.run("Go.")).ok
    assert "no such channel" in told(model)


@pytest.mark.promise("P4")
async def test_an_answerer_that_hands_on_leaves_the_answer_to_others_until_the_deadline(tmp_path):
    waiting: asyncio.Queue[RequestOpened] = asyncio.Queue()

    async def somebody() -> None:
        await (await waiting.get()).allow()

    extra = settings(tmp_path, ask_timeout_s=0.1)
    model = ScriptedModel([TOUCH, ("Bash", {"command": "touch late"}), "done"])
    team = a_team(tmp_path, model, on_request=waiting.put_nowait, settings_file=extra)
    async with asyncio.timeout(WAIT_S), team:
        helper = asyncio.create_task(somebody())
        result = await team.run("Go.")
        await helper
        assert not await (await waiting.get()).allow()
    assert [p.name for p in (tmp_path / "work").iterdir()] == ["made"]
    assert "no answer within 0.1 s" in told(model) and len(result.denials) == 1


@pytest.mark.promise("P4")
async def test_an_answerer_that_never_ends_is_let_go_with_the_team(tmp_path):
    began, ended = asyncio.Event(), asyncio.Event()

    async def for_ever(_request: RequestOpened) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with asyncio.timeout(WAIT_S):
        async with a_team(tmp_path, ScriptedModel([TOUCH, "done"]), on_request=for_ever) as team:
            run = team.run("Go.")
            await began.wait()
        assert (await run).stop == "cancelled"
        await ended.wait()


# ── by nobody ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("J1", "P4", "G1")
@pytest.mark.parametrize("readers", ["none", "one that only looks", "one that was abandoned", "one that is over"])
async def test_where_nobody_could_answer_asking_is_denied_at_once(tmp_path, readers):
    model = ScriptedModel([TOUCH, QUESTION, "done"])
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, model) as team:  # the deadline would be 600 s
        if readers == "one that was abandoned":
            feed = team.events()
            del feed
        elif readers == "one that is over":
            feed = team.events()
            await feed.aclose()
        run = team.run("Go.")
        if readers == "one that only looks":
            seen = [type(event) async for event in run.events(answers=False)]
            assert RequestOpened not in seen and ToolCalled in seen
        result = await run
    assert result.ok and [d["tool_name"] for d in result.denials] == ["Bash"]
    assert "no user is present to ask" in told(model)
    assert "state in your answer what you assumed" in told(model)


@pytest.mark.promise("P4")
@pytest.mark.parametrize("where", ["run", "team", "a task of its own"])
async def test_whoever_reads_events_may_answer_until_the_deadline(tmp_path, where):
    extra = settings(tmp_path, ask_timeout_s=0.1)
    model = ScriptedModel([TOUCH, "done"])
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, model, settings_file=extra) as team:
        feed = team.events() if where == "team" else None
        run = team.run("Go.")

        async def watch() -> list[type]:
            events = (e async for _, e in feed) if feed is not None else run.events()
            kinds = []
            async for event in events:
                kinds.append(type(event))
                if isinstance(event, RunEnded):
                    break
            return kinds

        if where == "a task of its own":
            kinds = (await asyncio.gather(run, asyncio.create_task(watch())))[1]
        else:
            kinds = await watch()
        await run
    assert RequestOpened in kinds
    assert "no answer within 0.1 s" in told(model)


@pytest.mark.promise("G1")
async def test_where_the_mode_says_so_nobody_is_asked_even_if_somebody_could_answer(tmp_path):
    asked: list[RequestOpened] = []
    team = a_team(tmp_path, ScriptedModel([TOUCH, "done"]), permission_mode="dontAsk", on_request=asked.append)
    async with asyncio.timeout(WAIT_S), team:
        result = await team.run("Go.")
    assert not asked and len(result.denials) == 1


@pytest.mark.promise("P4", "F22")
async def test_leaving_denies_what_is_open_so_that_a_blocked_member_winds_up(tmp_path):
    asked = asyncio.Event()
    model = ScriptedModel({"ada": [TOUCH, "understood"]})
    async with asyncio.timeout(WAIT_S):  # shutdown_timeout_s is 10 s
        async with a_team(tmp_path, model, on_request=lambda _request: asked.set()) as team:
            await team.spawn("ada", "Go.")
            await asked.wait()
            session = team.session
    assert session.cut_off == []
    assert "the team was left" in told(model, "ada")
    assert not (tmp_path / "work/made").exists()


async def test_only_where_somebody_may_answer_is_the_lead_not_told_that_nobody_is_here(tmp_path):
    for on_request, alone in ((None, True), (lambda _request: None, False)):
        model = ScriptedModel("ok")
        async with a_team(tmp_path, model, on_request=on_request) as team:
            await team.run("Go.")
        assert (b"No user is present" in model.requests[0].items[0]) is alone
