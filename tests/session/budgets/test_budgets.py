"""Budgets of members, tasks and runs in a real team: who reached a cap rests, is told once, and goes on with more."""

import asyncio
import json

import pytest

from teamwright import Budget, CannotStart, Team, UsageError
from teamwright.config.settings.files import SettingsOrigin, read_layer
from teamwright.models.model import ModelCard, Reply, Request
from teamwright.protocol.events import MemberChanged, ModelCallEnded, TurnEnded
from teamwright.protocol.usage import Usage
from teamwright.testing import ScriptedModel
from teamwright.ui.terminal.commands import HANDLERS
from teamwright.views.cost import cost_of, session_cost
from tests.support.waits import WAIT_S
from tests.teams.crew import newest, told, until, within

LOOK = ("TaskList", {})


@pytest.fixture(autouse=True)
def repetitions_are_meant(monkeypatch):
    """The scripts here make one call again and again, until a cap stops it."""
    monkeypatch.setattr("teamwright.agent.repetition_guard.END_AT", 1_000)


class Counting(ScriptedModel):
    """Every prompt counts 1,000 tokens, every answer 10; a dollar for a thousand of them."""

    def __init__(self, answers, name: str = "m", usd: float | None = 1_000.0) -> None:
        super().__init__(answers, card=ModelCard(name, name, "own", usd_in=usd, usd_out=usd, max_output_tokens=20))

    async def stream(self, request: Request):
        async for part in super().stream(request):
            if isinstance(part, Reply):
                part = Reply(part.content, part.stop_reason, Usage(1_000, 10, requests=1), part.model)
            yield part

    def asks(self, who: str) -> int:
        return sum(request.agent_name == who for request in self.requests)


def a_team(tmp_path, model, **more) -> Team:
    """A team whose only caps are those of the test: the model is a thousand times as expensive as a real one."""
    usual = {"permission_mode": "bypassPermissions", "budget": Budget.unlimited()}
    return Team("crew", model=model, cwd=tmp_path, **{**usual, **more})


def events_of(team: Team, kind: type) -> list:
    found: list = []
    team.session.log.subscribe(lambda _n, event: found.append(event) if isinstance(event, kind) else None)
    return found


def rests(team: Team, name: str):
    return lambda: (
        (teammate := team.session.team.find(name)) is not None and str(teammate.state) == "idle" and teammate.is_resting
    )


def lead_waits(request: Request):
    return "I wait."


@pytest.mark.promise("H10", "F61", "K4", "P6")
@pytest.mark.parametrize(
    ("budget", "calls", "limit"),
    [
        (Budget(tokens=50_000), None, "tokens"),
        (Budget(usd=50.0), None, "money"),
        (Budget(turns=3), 3, "turns"),
        (Budget(calls=3), 3, "calls"),
    ],
    ids=["tokens", "usd", "turns", "calls"],
)
async def test_a_member_at_its_cap_rests_with_what_it_said_the_lead_is_told_once_and_the_run_goes_on(
    tmp_path, budget, calls, limit
):
    def play(request: Request):
        if request.agent_name == "ada":
            return ["Still at it.", LOOK]
        return "I wait." if len(request.items) == 1 else "done"

    model = Counting(play)
    async with a_team(tmp_path, model) as team:
        ends = events_of(team, TurnEnded)
        await team.tasks.add("nobody's yet")
        ada = await team.spawn("ada", "Go on and on.", budget=budget)
        await within(WAIT_S, until(team, rests(team, "ada")))
        asked = model.asks("ada")
        result = await team.run("See it through.")
        assert (result.stop, result.limit) == ("done", "")
        again = await team.run("And?")
        assert again.stop == "done" and ada.state == "idle"
        assert model.asks("ada") == asked, "the call after the cap is refused"
        assert [t.owner for t in await team.tasks.all()] == [None], "it takes no task"
    mine = [end for end in ends if end.member == "ada"]
    assert (mine[0].stop, mine[0].text) == ("limit", "Still at it.")
    assert mine[0].detail.startswith(f"budget_exceeded: the cap on {limit}")
    heard = told(model, "team-lead")
    assert heard.count("budget_exceeded") == 1 and "Still at it." in heard
    if limit in ("tokens", "money"):
        used = 1_010 * asked
        assert f"{used:,} of 50,000 tokens" in heard or f"{used / 1000:.4f} of 50.0000 USD" in heard
        assert used <= 50_000
    if calls is not None:
        assert asked == calls


@pytest.mark.promise("H10", "F61")
async def test_a_member_with_a_larger_budget_goes_on_where_it_stopped(tmp_path):
    def play(request: Request):
        if request.agent_name != "ada":
            return "I wait."
        return "Finished." if len(request.items) > 40 else ["So far.", LOOK]

    model = Counting(play)
    async with a_team(tmp_path, model) as team:
        await team.spawn("ada", "Count.", budget=Budget(tokens=12_000))
        await within(WAIT_S, until(team, rests(team, "ada")))
        before = model.asks("ada")
        assert before < 20
        holds = await team.set_budget("ada", Budget(tokens=1_000_000))
        assert holds == Budget(tokens=1_000_000)
        await within(WAIT_S, until(team, lambda: rests(team, "ada")() and model.asks("ada") > 20))
        assert "Finished." in team.session.team.find("ada").agent.conversation.text_since(0)
        life = json.loads(team.session.team.home.team_file(team.session.team.directory).read_bytes())["lives"]["ada"]
        assert life["budget"] == {"tokens": 1_000_000}


@pytest.mark.promise("H10", "F61", "D8")
async def test_the_cap_of_a_member_counts_its_life_over_a_resume_and_the_runs_begins_anew(tmp_path):
    def play(request: Request):
        return ["So far.", LOOK] if request.agent_name == "ada" else "I wait."

    model = Counting(play)
    async with a_team(tmp_path, model) as team:
        await team.spawn("ada", "Count.", budget=Budget(tokens=30_000))
        await within(WAIT_S, until(team, rests(team, "ada")))
        await team.run("Wait.")
        used = team.session.agent_factory.budget_tracker.by_member["ada"].tokens
    model = Counting(play)
    async with Team.resume("crew", model=model, cwd=tmp_path, budget=Budget.unlimited(tokens=29_500)) as team:
        await within(WAIT_S, until(team, rests(team, "ada")))
        assert model.asks("ada") == 0, "what its life used before counts"
        assert team.session.agent_factory.budget_tracker._agents["ada"].tokens == used
        await team.set_budget("ada", Budget(tokens=used + 15_000))
        await within(WAIT_S, until(team, lambda: model.asks("ada") > 0 and rests(team, "ada")()))
        assert model.asks("ada") <= 15
        assert (await team.run("Anything?")).stop == "done"
        assert told(model, "team-lead").count("budget_exceeded") == 2, "once at each cap"


@pytest.mark.promise("H10", "F61")
async def test_what_sub_agents_use_is_their_callers_too_and_counts_once(tmp_path):
    def play(request: Request):
        if request.agent_name == "team-lead":
            return "I wait."
        if request.agent_name == "ada":
            job = ("Agent", {"description": "look", "prompt": "Look.", "budget_tokens": 9_000})
            return [job] if len(request.items) == 1 else "ok"
        return ["Looking.", LOOK, ("Glob", {"pattern": "*.none"})]

    model = Counting(play)
    async with a_team(tmp_path, model) as team:
        rounds = events_of(team, ModelCallEnded)
        await team.spawn("ada", "Have it looked at.")
        await within(WAIT_S, until(team, lambda: model.asks("ada") == 2 and rests(team, "ada")()))
        budget_tracker = team.session.agent_factory.budget_tracker
        sub = next(name for name in budget_tracker.by_member if name not in ("ada", "team-lead"))
        assert budget_tracker.books.agents[sub].caller == "ada"
        assert 0 < budget_tracker.by_member[sub].tokens <= 9_000
        assert (
            budget_tracker._agents["ada"].tokens
            == budget_tracker.by_member["ada"].tokens + budget_tracker.by_member[sub].tokens
        )
        assert budget_tracker.total == sum((event.usage for event in rounds), Usage())
        assert {event.caller for event in rounds if event.member == sub} == {"ada"}
    heard = told(model, "ada")
    assert "did not finish: budget_exceeded" in heard and "Looking." in heard


@pytest.mark.promise("H10", "F61")
async def test_a_tasks_cap_stops_who_works_on_it_and_the_lead_may_raise_it(tmp_path):
    def play(request: Request):
        if request.agent_name == "team-lead":
            return "I wait."
        if "is yours now" not in told_all(request):
            return "ready"
        if "updated" in newest(request):
            return "Counted."
        return ("TaskUpdate", {"taskId": "1", "status": "completed"}) if len(request.items) > 30 else LOOK

    model = Counting(play)
    async with a_team(tmp_path, model) as team:
        ends = events_of(team, TurnEnded)
        rounds = events_of(team, ModelCallEnded)
        await team.tasks.add("count", budget=Budget(tokens=12_000))
        await team.spawn("ada", "Take what is there.")
        await within(WAIT_S, until(team, lambda: any(end.stop == "limit" for end in ends) and rests(team, "ada")()))
        assert "of task #1 is spent" in ends[-1].detail
        task = await team.tasks.get("1")
        assert (task.owner, task.status) == ("ada", "in_progress"), "its task stays with it"
        used = sum(event.usage.tokens for event in rounds if event.task == "1")
        assert 0 < used <= 12_000
        await team.tasks.update("1", metadata={"budget": {"tokens": 1_000_000}})
        await within(WAIT_S, until(team, lambda: model.asks("ada") > 12 and rests(team, "ada")()))
        assert (await team.tasks.get("1")).status == "completed"
        books = team.session.agent_factory.budget_tracker.books
        assert books.total.tokens == sum(usage.tokens for usage in books.tasks.values()) + books.untasked.tokens
        assert books.tasks[books.list, "1"].tokens == sum(e.usage.tokens for e in rounds if e.task == "1")


def told_all(request: Request) -> str:
    return b"\n".join(request.items).decode()


@pytest.mark.promise("H10", "P6")
async def test_the_setting_caps_every_member_and_sub_agent_and_a_call_can_only_lower_it(tmp_path, own_home):
    path = own_home / ".teamwright" / "settings.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"budget": {"agent": {"tokens": 20_000, "turns": 4}}}))

    def play(request: Request):
        if request.agent_name == "team-lead" and len(request.items) == 1:
            job = {"description": "x", "prompt": "Go.", "budget_tokens": 900_000}
            return [("Agent", {**job, "name": "ada"}), ("Agent", job)]
        return "I wait." if request.agent_name == "team-lead" else LOOK

    model = Counting(play)
    async with a_team(tmp_path, model) as team:
        await within(WAIT_S, team.run("Start them."))
        assert team.session.agent_factory.budget_tracker._agents["ada"].budget == Budget(tokens=20_000, turns=4)
    others = {request.agent_name for request in model.requests} - {"team-lead", "ada"}
    assert len(others) == 1
    assert model.asks("ada") <= 4 and model.asks(others.pop()) <= 4


@pytest.mark.promise("H10", "P6")
async def test_members_side_by_side_do_not_pass_the_runs_cap_and_it_ends_the_run_with_the_way_on(tmp_path):
    model = Counting(lambda request: LOOK if request.agent_name != "team-lead" else "I wait.")
    async with a_team(tmp_path, model, budget=Budget.unlimited(tokens=100_000)) as team:
        for number in range(6):
            await team.spawn(f"m{number}", "Go on and on.")
        result = await within_result(WAIT_S, team.run("See it through."))
        assert (result.stop, result.limit, result.exit_code) == ("limit", "tokens", 4)
        assert "resume crew" in result.resume_command
        assert team.usage.tokens <= 100_000
        assert team.usage.tokens == sum(usage.tokens for usage in result.by_member.values())


async def within_result(seconds: float, run):
    async with asyncio.timeout(seconds):
        return await run


async def test_a_member_may_not_set_what_its_task_may_use_and_nobody_sets_nonsense(tmp_path):
    def play(request: Request):
        if request.agent_name == "ada":
            raise_ = ("TaskUpdate", {"taskId": "1", "metadata": {"budget": {"tokens": 9_999_999}}})
            return raise_ if len(request.items) == 1 else "ok"
        if len(request.items) == 1:
            return ("TaskCreate", {"subject": "s", "description": "d", "metadata": {"budget": {"token": 5}}})
        return "ok"

    model = Counting(play)
    async with a_team(tmp_path, model) as team:
        await team.tasks.add("count", metadata={"for": ["nobody"]}, budget=Budget(tokens=12_000))
        await team.spawn("ada", "Raise it.")
        await within(WAIT_S, until(team, lambda: model.asks("ada") == 2 and rests(team, "ada")()))
        await team.run("Make a task.")
        assert (await team.tasks.get("1")).budget == {"tokens": 12_000}
        assert len(await team.tasks.all()) == 1
    assert "only the lead" in newest(next(r for r in reversed(model.requests) if r.agent_name == "ada"))
    assert "did you mean tokens" in told(model, "team-lead")


async def test_a_members_cap_on_money_needs_a_price_and_a_budget_a_member(tmp_path):
    async with a_team(tmp_path, Counting("ok", usd=None)) as team:
        with pytest.raises(CannotStart, match="price"):
            await team.spawn("ada", "Go.", budget=Budget(usd=1.0))
        assert team.members == []
        with pytest.raises(UsageError, match="cap on usd"):
            await team.set_budget("ada", Budget(usd=-1))


@pytest.mark.promise("H10", "F61")
async def test_who_writes_to_a_member_at_its_cap_is_told_that_it_does_nothing_now(tmp_path):
    def play(request: Request):
        if request.agent_name == "ada":
            return LOOK
        if request.agent_name == "bob" or "Write" in newest(request):
            return ("SendMessage", {"to": "ada", "message": "And?"}) if "inbox" not in newest(request) else "ok"
        return "I wait."

    model = Counting(play)
    async with a_team(tmp_path, model) as team:
        await team.spawn("ada", "Go.", budget=Budget(turns=1))
        await within(WAIT_S, until(team, rests(team, "ada")))
        await team.run("Write to ada.")
        await team.spawn("bob", "Write to ada.")
        await within(WAIT_S, until(team, rests(team, "bob")))
    for who, then in (("team-lead", "Stop it to give the task back"), ("bob", "Do without it until then")):
        heard = told(model, who)
        assert "In ada's inbox. It does nothing now: the cap on turns is spent" in heard and then in heard


async def test_a_member_at_its_cap_is_shown_with_it(tmp_path):
    model = Counting(lambda request: LOOK if request.agent_name == "ada" else "ok")
    async with a_team(tmp_path, model) as team:
        states = events_of(team, MemberChanged)
        await team.spawn("ada", "Go.", budget=Budget(turns=1))
        await within(WAIT_S, until(team, rests(team, "ada")))
    assert any(one.member == "ada" and one.state == "idle" and "cap on turns" in one.detail for one in states)


@pytest.mark.promise("H10")
async def test_what_a_live_team_costs_is_the_same_in_its_log_and_in_its_purse(tmp_path):
    model = Counting(lambda request: "I wait." if request.agent_name == "team-lead" else "ok")
    async with a_team(tmp_path, model) as team:
        await team.tasks.add("count")
        await team.spawn("ada", "Go.")
        await team.run("Wait.")
        session = team.session
        mine = await session_cost(session)
        session.log.flush()
        logged = cost_of(session.team.home, tmp_path, "crew")
        assert mine == logged and not mine.empty
        assert [line.subject for line in mine.tasks] == ["count", ""]
        lines = await HANDLERS["/cost"](session, "")
        assert lines[-1].split()[0] == "all" and any("count" in line for line in lines)
        shown_sum = sum(int(line.split()[1].replace(",", "")) for line in lines if line.split()[0] in ("lead", "ada"))
        assert shown_sum == mine.total.tokens_in


@pytest.mark.finding("3I6")
async def test_the_caps_of_a_session_are_shown_as_people_write_them(tmp_path):
    caps = Budget(usd=0.5, tokens=5_000_000, turns=200, minutes=120, calls=7)
    async with a_team(tmp_path, Counting(lambda request: "ok"), budget=caps) as team:
        [*_, total] = await HANDLERS["/cost"](team.session, "")
    assert total.endswith("caps: 0.5 USD, 5,000,000 tokens, 200 model calls, 120 min, 7 tool calls")


@pytest.mark.promise("H10")
@pytest.mark.parametrize(
    ("budget", "said"),
    [
        (5, "budget is not an object"),
        ({"agent": 5}, "budget.agent is not an object"),
        ({"agent": {"tokens": 0}}, "budget.agent.tokens must be a whole number above 0"),
        ({"agent": {"usd": "2"}}, "budget.agent.usd must be a number above 0"),
    ],
)
def test_a_setting_that_is_no_cap_is_an_error_with_its_place(tmp_path, budget, said):
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"budget": budget}))
    with pytest.raises(CannotStart, match=said) as caught:
        read_layer(path, SettingsOrigin.USER)
    assert "line 1" in caught.value.render()


def test_a_setting_of_a_budget_that_nobody_knows_is_a_warning_with_the_nearest(tmp_path):
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"budget": {"agent": {"tokes": 5, "turns": 4}}}))
    layer = read_layer(path, SettingsOrigin.USER)
    assert layer.values == {"budget.agent.turns": 4}
    assert "did you mean budget.agent.tokens?" in layer.warnings[0]
