"""The purse: calls that run side by side never pass a cap together, in whatever order they begin and end."""

import asyncio
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule
from msgspec.structs import replace

from teamwright.budgets.budget_scope import Estimate, Scope
from teamwright.budgets.budget_tracker import BudgetTracker, Reservation
from teamwright.budgets.usage_meter import OUTPUT_HELD, AgentMeter, Meters
from teamwright.budgets.usage_totals import UsageTotals
from teamwright.models.model import BudgetRefusal, ModelCard, Prefix, Reply, Request
from teamwright.models.token_estimate import IMAGE_TOKENS, message_tokens
from teamwright.protocol.errors import UsageError
from teamwright.protocol.event_json import from_json, to_json
from teamwright.protocol.events import MemberChanged, ModelCallEnded, TaskChanged, TaskInfo, TeamChanged
from teamwright.protocol.usage import NO_CAPS, Budget, Usage
from tests.support.examples import examples
from tests.support.waits import WAIT_S

CARD = ModelCard("m", "m", "p", max_output_tokens=500, usd_in=3.0, usd_out=15.0)


def a_request(*texts: str, most: int = 500, head: int = 400) -> Request:
    items = [json.dumps({"role": "user", "content": [{"type": "text", "text": text}]}).encode() for text in texts]
    return Request(Prefix.from_bytes("m", b'"model":"m","max_tokens":%d,"system":"%s"' % (most, b"x" * head)), items)


def answered(tokens_in: int, tokens_out: int, usd: float | None = 0.0, **more: int) -> Reply:
    return Reply([], "end_turn", Usage(tokens_in, tokens_out, requests=1, usd=usd, **more), "m")


# ── in any order ─────────────────────────────────────────────────────────────────────────────────────────────────


class Purses(RuleBasedStateMachine):
    """Calls of three agents under a run's cap and, some of them, a cap of their own; any order of beginning and end."""

    waiting = Bundle("waiting")

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()

    @initialize(run=st.integers(1, 3_000), own=st.integers(1, 2_000), usd=st.floats(0.001, 2.0))
    def begin(self, run: int, own: int, usd: float) -> None:
        self.budget_tracker = BudgetTracker(Budget(tokens=run, usd=usd))
        self.own = [Scope("ada", Budget(tokens=own)), Scope("ben", Budget(usd=usd / 2)), Scope("cy")]

    def turn(self) -> None:
        for _ in range(4):
            self.loop.run_until_complete(asyncio.sleep(0))

    @rule(
        target=waiting,
        who=st.integers(0, 2),
        prompt=st.integers(0, 900),
        answer=st.integers(1, 900),
        usd_in=st.floats(0, 0.3),
        usd_out=st.floats(0, 0.3),
    )
    def reserve(self, who: int, prompt: int, answer: int, usd_in: float, usd_out: float) -> object:
        call = Estimate(prompt, answer, usd_in, usd_out)
        task = self.loop.create_task(self.budget_tracker.reserve([self.budget_tracker.run, self.own[who]], call))
        self.turn()
        return task

    @rule(target=waiting, task=consumes(waiting), share=st.floats(0, 1), books=st.booleans())
    def settle(self, task: asyncio.Task, share: float, books: bool) -> object:
        """A call ends: with what was held for it or less, or without a use; one that still waits is looked at later."""
        if not task.done():
            return task
        got = task.result()
        if isinstance(got, Reservation) and got.parts:
            held = [part for _, part in got.parts]
            tokens = int(min(part.tokens for part in held) * share)
            usd = min(part.usd for part in held) * share
            got.settle(Usage(tokens, requests=1, usd=usd) if books else None)
            self.turn()
        return multiple()

    @rule(task=consumes(waiting))
    def cancel(self, task: asyncio.Task) -> None:
        """A turn is cut short, before or after it found room."""
        if task.done():
            got = task.result()
            if isinstance(got, Reservation):
                got.settle(None)
        else:
            task.cancel()
        self.turn()

    @invariant()
    def nothing_is_negative_and_no_cap_is_passed(self) -> None:
        if not hasattr(self, "budget_tracker"):
            return
        for scope in (self.budget_tracker.run, *self.own):
            assert scope.held_tokens >= 0 and scope.held_usd >= -1e-9 and scope.holders >= 0
            if scope.budget.tokens is not None:
                assert scope.tokens + scope.held_tokens <= scope.budget.tokens
            if scope.budget.usd is not None:
                assert scope.usd + scope.held_usd <= scope.budget.usd + 1e-9

    @invariant()
    def whoever_waits_waits_for_somebody(self) -> None:
        if hasattr(self, "budget_tracker") and not self.budget_tracker.run.holders:
            waits = [task for task in asyncio.all_tasks(self.loop) if not task.done()]
            assert not waits, "nobody holds anything, and somebody waits: it would wait for ever"

    def teardown(self) -> None:
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.turn()
        self.loop.close()


TestPurses = Purses.TestCase
TestPurses.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
TestPurses.pytestmark = [pytest.mark.promise("H10", "P6")]


@pytest.mark.promise("H10", "K4", "F61", "P6")
@pytest.mark.parametrize("agents", [1, 3, 12])
@pytest.mark.parametrize("money", [False, True])
async def test_many_agents_on_one_cap_all_end_and_pass_it_by_no_more_than_what_was_not_held(agents, money):
    rand = random.Random(agents)
    cap = Budget(usd=0.30) if money else Budget(tokens=60_000)
    budget_tracker = BudgetTracker(cap)
    meters = Meters(budget_tracker)
    longest = 2_000
    over = 0

    async def work(meter: AgentMeter) -> None:
        nonlocal over
        texts = ["go"]
        while True:
            request = a_request(*texts, most=longest)
            if await meter.reserve(request, CARD) is not None:
                return
            await asyncio.sleep(0)
            if rand.random() < 0.1:
                meter.settle(None)
                continue
            prompt = sum(message_tokens(item) for item in request.items) + 100
            out = rand.randint(1, longest)
            held = meter._hold.parts[0][1]
            usd = (prompt * 3.0 + out * 15.0) / 1e6
            over += max(0, usd - held.usd) if money else max(0, prompt + out - held.tokens)
            meter.settle(answered(prompt, out, usd))
            texts.append("x" * rand.randint(1, 4_000))

    async with asyncio.timeout(WAIT_S):
        names = [f"m{n}" for n in range(agents)]
        each = [meters.member(name, NO_CAPS, lambda: 0.0, is_resumed=False) for name in names]
        await asyncio.gather(*map(work, each))
    spent, most = (budget_tracker.run.usd, cap.usd) if money else (budget_tracker.run.tokens, cap.tokens)
    assert 0.5 * most < spent <= most + over + 1e-9
    assert over <= agents * (longest * 15e-6 if money else longest), "at most one answer for each agent"
    assert budget_tracker.run.holders == budget_tracker.run.held_tokens == 0 and budget_tracker.run.held_usd == 0
    assert (
        budget_tracker.total.tokens
        == sum(usage.tokens for usage in budget_tracker.by_member.values())
        == budget_tracker.run.tokens
    )


@pytest.mark.promise("H10")
async def test_a_call_without_room_waits_while_another_holds_it_and_runs_when_that_was_less():
    budget_tracker = BudgetTracker(Budget(tokens=1_000))
    first = await budget_tracker.reserve([budget_tracker.run], Estimate(600, 300))
    second = asyncio.ensure_future(budget_tracker.reserve([budget_tracker.run], Estimate(200, 100)))
    await asyncio.sleep(0)
    assert not second.done()
    assert isinstance(first, Reservation)
    first.settle(Usage(300, 10))
    async with asyncio.timeout(WAIT_S):
        assert isinstance(await second, Reservation)


@pytest.mark.promise("H10")
async def test_a_run_that_refused_one_call_refuses_all_and_an_agents_own_cap_only_its_own():
    budget_tracker = BudgetTracker(Budget(tokens=1_000))
    ada = Scope("ada", Budget(tokens=100))
    small = Estimate(50, 10)
    assert isinstance(
        refused := await budget_tracker.reserve([budget_tracker.run, ada], Estimate(200, 10)), BudgetRefusal
    )
    assert "of ada" in refused.reason and not budget_tracker.spent_cap
    hold = await budget_tracker.reserve([budget_tracker.run, ada], small)
    assert isinstance(hold, Reservation)
    hold.settle(None)
    assert isinstance(refused := await budget_tracker.reserve([budget_tracker.run], Estimate(2_000, 10)), BudgetRefusal)
    assert (refused.limit, budget_tracker.spent_cap) == ("tokens", "tokens")
    assert isinstance(await budget_tracker.reserve([budget_tracker.run], small), BudgetRefusal)


async def test_a_free_model_fits_under_every_cap_on_money():
    budget_tracker = BudgetTracker(Budget(usd=0.01))
    assert isinstance(await budget_tracker.reserve([budget_tracker.run], Estimate(10_000_000, 1_000)), Reservation)


async def test_whoever_waits_is_refused_when_the_time_is_over():
    budget_tracker = BudgetTracker(Budget(tokens=100))
    first = await budget_tracker.reserve([budget_tracker.run], Estimate(50, 50))
    second = asyncio.ensure_future(budget_tracker.reserve([budget_tracker.run], Estimate(50, 50)))
    await asyncio.sleep(0)
    budget_tracker.out_of_time()
    async with asyncio.timeout(WAIT_S):
        refused = await second
    assert isinstance(first, Reservation) and isinstance(refused, BudgetRefusal) and refused.limit == "time"


@pytest.mark.promise("H10")
async def test_an_agent_whose_working_time_is_over_makes_no_call():
    worked = [30.0]
    meter = Meters(BudgetTracker()).member("ada", Budget(minutes=1.0), lambda: worked[0], is_resumed=False)
    assert await meter.reserve(a_request("go"), CARD) is None
    meter.settle(None)
    worked[0] = 60.0
    refused = await meter.reserve(a_request("go"), CARD)
    assert refused == BudgetRefusal("time", "the cap on time of ada is spent: 1 min are over")


@pytest.mark.promise("H10")
async def test_tool_calls_are_let_through_as_far_as_every_cap_above_leaves_room():
    meters = Meters(BudgetTracker(Budget(calls=7)))
    ada = meters.member("ada", Budget(calls=5), lambda: 0.0, is_resumed=False)
    sub = meters.subagent("s1", "ada", Budget(calls=4), lambda: 0.0)
    assert [await sub.admit(3), await sub.admit(3), await ada.admit(9), await meters.lead().admit(9)] == [3, 1, 1, 2]


def test_where_a_round_was_booked_is_in_the_log_and_only_where_it_says_something():
    plain = ModelCallEnded(member="ada", usage=Usage(5, requests=1), model="m", tools=0)
    assert not {"caller", "task"} & set(to_json(plain))
    booked = ModelCallEnded(member="s1", usage=Usage(5), model="m", tools=1, caller="ada", task="3")
    for event in (plain, booked, a_task("1", "ada", tokens=5)):
        assert from_json(json.loads(json.dumps(to_json(event), default=str))) == replace(event, at=round(event.at, 3))
    assert "budget" not in to_json(a_task("1", "ada"))["task"]


# ── what a call will need ────────────────────────────────────────────────────────────────────────────────────────


async def held_for(meter: AgentMeter, request: Request, card: ModelCard = CARD) -> tuple[int, float]:
    assert await meter.reserve(request, card) is None
    held = meter._hold.parts[0][1]
    return held.tokens, held.usd


async def test_the_first_prompt_is_estimated_by_its_bytes_and_later_ones_by_the_last_count_and_what_came_since():
    meter = AgentMeter(BudgetTracker(Budget(tokens=10_000_000)), "ada")
    tokens, _ = await held_for(meter, a_request("x" * 4_000))
    assert 1_500 < tokens < 1_700, "1,000 of the text, 100 of the head, 500 of the answer"
    meter.settle(answered(5_000, 200))
    request = a_request("x" * 4_000, "", "y" * 800)
    request.items[1] = b'{"role":"assistant","content":[{"type":"text","text":"' + b"z" * 9_999 + b'"}]}'
    tokens, _ = await held_for(meter, request)
    assert 5_200 + 200 + 500 <= tokens < 5_200 + 240 + 500, "its own answer is in the count already"


@pytest.mark.promise("K5")
async def test_a_service_that_counts_nothing_is_capped_by_what_it_was_sent_and_what_it_said():
    budget_tracker = BudgetTracker(Budget(tokens=1_000))
    meter = Meters(budget_tracker).lead()
    said = Reply([{"type": "text", "text": "y" * 400}], "end_turn", Usage(requests=1), "m")
    calls = 0
    while await meter.reserve(a_request("x" * 300, most=20), CARD) is None:
        meter.settle(said)
        calls += 1
        assert calls < 20
    assert 2 <= calls <= 5 and budget_tracker.spent_cap == "tokens"
    assert budget_tracker.total.tokens == 0  # the books have what the service said


async def test_an_answer_is_held_at_its_longest_but_no_more_than_usual():
    meter = AgentMeter(BudgetTracker(Budget(tokens=10_000_000)), "ada")
    few, _ = await held_for(meter, a_request("", most=100))
    meter.settle(None)
    many, _ = await held_for(meter, a_request("", most=100_000))
    assert many - few == OUTPUT_HELD - 100


async def test_a_prompt_that_the_service_has_in_its_cache_is_held_at_the_caches_price():
    card = ModelCard("m", "m", "p", usd_in=10.0, usd_out=0.0, usd_cache_read=1.0, usd_cache_write=12.5)
    meter = AgentMeter(BudgetTracker(Budget(usd=1_000)), "ada")
    _, cold = await held_for(meter, a_request("x" * 400_000), card)
    meter.settle(answered(0, 0, 1.0, cache_write=100_000))
    _, warm = await held_for(meter, a_request("x" * 400_000), card)
    assert cold == pytest.approx(1.25, rel=0.01), "all of it is written"
    assert warm == pytest.approx(0.10, rel=0.05)


def test_an_image_counts_as_an_image_and_not_as_its_bytes():
    source = {"type": "base64", "media_type": "image/png", "data": "A" * 1_000_000}
    item = json.dumps({"role": "user", "content": [{"type": "image", "source": source}] * 2}).encode()
    assert 2 * IMAGE_TOKENS <= message_tokens(item) < 2 * IMAGE_TOKENS + 100


# ── who it is booked to ──────────────────────────────────────────────────────────────────────────────────────────

ROUNDS = st.lists(
    st.tuples(
        st.sampled_from(["team-lead", "ada", "ben"]),
        st.booleans(),
        st.sampled_from(["", "1", "2"]),
        st.sampled_from(["a", "b"]),
        st.integers(0, 999),
        st.integers(0, 999),
        st.integers(0, 999),
    ),
    max_size=30,
)


@pytest.mark.promise("H10", "F61")
@given(ROUNDS)
def test_agents_tasks_and_models_each_add_up_to_the_total_to_the_token(rounds):
    events = [
        ModelCallEnded(
            member=f"sub-of-{who}" if sub else who,
            usage=Usage(tokens, out, cache_read=read, requests=1, usd=None if tokens == 7 else 0.5),
            model=model,
            tools=1,
            caller=who if sub else "",
            task=task,
        )
        for who, sub, task, model, tokens, out, read in rounds
    ]
    books = UsageTotals.from_events(events)
    logged = sum((event.usage for event in events), Usage())
    assert books.total == logged
    assert sum((one.usage for one in books.agents.values()), Usage()) == logged
    assert sum(books.tasks.values(), books.untasked) == logged
    assert sum(books.models.values(), Usage()) == logged


def test_a_members_life_has_used_what_its_sub_agents_used_and_a_new_life_begins_at_nothing():
    usage = Usage(10, requests=1)
    one = ModelCallEnded(member="ada", usage=usage, model="m", tools=2)
    sub = ModelCallEnded(member="s1", usage=usage, model="m", tools=0, caller="ada")
    life = MemberChanged(member="ada", state="working", incarnation=2)
    books = UsageTotals.from_events([one, sub])
    assert (books.agents["ada"].usage.tokens, books.agents["ada"].incarnation_usage.tokens) == (10, 20)
    books = UsageTotals.from_events([one, sub, life, one])
    assert (books.agents["ada"].usage.tokens, books.agents["ada"].incarnation_usage.tokens) == (20, 10)


def test_tasks_of_two_lists_with_the_same_number_are_two():
    one = ModelCallEnded(member="ada", usage=Usage(10), model="m", tools=0, task="1")
    books = UsageTotals.from_events(
        [one, TeamChanged(member="team-lead", team="t", directory="t", change="created"), one]
    )
    assert {key: usage.tokens for key, usage in books.tasks.items()} == {("", "1"): 10, ("t", "1"): 10}


def a_task(id: str, owner: str | None, status: str = "in_progress", **budget: int) -> TaskChanged:
    info = TaskInfo(id=id, subject="s", status=status, owner=owner, budget=budget or None)
    return TaskChanged(member="x", task=info, change="updated")


def test_an_agent_works_on_the_task_that_it_took_last_and_still_has():
    budget_tracker = BudgetTracker()
    for event in (a_task("1", "ada"), a_task("2", "Ada@crew"), a_task("3", "ben")):
        budget_tracker.add_event(event)
    assert (budget_tracker.task_of("ada"), budget_tracker.task_of("ben"), budget_tracker.task_of("cy")) == (
        "2",
        "3",
        "",
    )
    budget_tracker.add_event(a_task("2", "ada", "completed"))
    assert budget_tracker.task_of("ada") == "1"
    budget_tracker.add_event(a_task("1", "ben"))
    assert (budget_tracker.task_of("ada"), budget_tracker.task_of("ben")) == ("", "1")


def test_the_cap_of_a_task_counts_what_earlier_lives_of_the_session_used_for_it():
    before = UsageTotals.from_events([ModelCallEnded(member="ada", usage=Usage(70), model="m", tools=0, task="1")])
    budget_tracker = BudgetTracker(earlier=lambda: before)
    budget_tracker.add_usage("ben", Usage(20), "m", task="1")
    budget_tracker.add_event(a_task("1", "ben", tokens=100))
    assert budget_tracker.task_scope("1").tokens == 90


def test_a_budget_of_a_task_that_is_none_caps_nothing_and_breaks_nothing():
    budget_tracker = BudgetTracker()
    info = TaskInfo(id="1", subject="s", status="pending", budget={"tokens": "all"})
    budget_tracker.add_event(TaskChanged(member="x", task=info, change="created"))
    assert budget_tracker.task_scope("1") is None


# ── the value ────────────────────────────────────────────────────────────────────────────────────────────────────

CAPS = st.builds(
    Budget,
    usd=st.none() | st.floats(0.01, 100),
    tokens=st.none() | st.integers(1, 10_000),
    turns=st.none() | st.integers(1, 100),
    minutes=st.none() | st.floats(0.1, 100),
    calls=st.none() | st.integers(1, 100),
)


@given(CAPS, CAPS)
def test_of_two_budgets_that_both_hold_the_smaller_cap_counts(one, other):
    both = one.smaller_caps(other)
    assert both == other.smaller_caps(one)
    for name, cap in both.as_json().items():
        given_ = [budget.as_json()[name] for budget in (one, other) if name in budget.as_json()]
        assert cap == min(given_)
    assert set(both.as_json()) == set(one.as_json()) | set(other.as_json())
    assert Budget.from_json(one.as_json()) == one


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([], "object of caps"),
        ("5", "object of caps"),
        ({"token": 5}, "no cap 'token'"),
        ({"tokens": 1.5}, "whole number"),
        ({"tokens": True}, "whole number"),
        ({"tokens": 0}, "above 0"),
        ({"usd": "2"}, "above 0"),
    ],
)
def test_what_is_no_budget_is_refused_with_what_would_be_one(data, said):
    with pytest.raises(UsageError, match=said):
        Budget.from_json(data)
