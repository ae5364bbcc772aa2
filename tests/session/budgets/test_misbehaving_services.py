"""Budgets at services that misbehave: answers that never end or break off, and token counts that are wrong."""

import asyncio
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teamwright.agent.conversation import Conversation
from teamwright.agent.turn_loop import run_turn
from teamwright.budgets.budget_tracker import BudgetTracker
from teamwright.budgets.usage_meter import AgentMeter
from teamwright.models.model import Prefix
from teamwright.protocol.usage import Budget
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, Cut, Raw
from tests.agent.test_refused_conversations import agent_at, prompt
from tests.agent.wire_faults import PATHS, events
from tests.support.examples import examples
from tests.support.waits import WAIT_S

LONGEST = 2_000
PREFIX = Prefix.build({"model": "test", "max_tokens": LONGEST})
USD_OUT = 10e-6
TEXT = "All work and no play. " * 1_000
"""A text of 5,500 tokens: more than was asked for, and not yet so much that it is cut without a budget."""
NOTHING = {"input_tokens": 0, "output_tokens": 0}


def endless(api, kind="text"):
    """The beginning of an answer, and then its text, thinking or arguments again and again."""
    call = [("Echo", {"text": TEXT})] if kind == "arguments" else []
    text, thinking = (TEXT if kind == "text" else ""), (TEXT if kind == "thinking" else "")
    chunks = events(api, Answer(text, call, thinking=thinking))
    middle = chunks[len(chunks) // 2]
    return Raw([*chunks[: len(chunks) // 2], *[middle] * 20_000], close=False)


async def agents_at(stack, root, api, server, tracker, count=1):
    found = []
    for number in range(count):
        name = f"ada{number}"
        conversation = Conversation.start(Path(root) / f"{name}.jsonl", PREFIX, {"member": name})
        agent, _ = await stack.enter_async_context(
            agent_at(Path(root), api, server, name=name, conversation=conversation)
        )
        agent.meter = AgentMeter(tracker, name)
        found.append(agent)
    return found


@pytest.mark.finding("3L4")
@pytest.mark.parametrize("kind", ["text", "arguments"])
@pytest.mark.parametrize("api", PATHS)
async def test_an_answer_that_never_ends_is_cut_when_the_budget_is_used_up(tmp_path, api, kind):
    if (api, kind) == ("gemini", "arguments"):
        pytest.skip("this API sends the arguments of a call as one value")
    tracker = BudgetTracker(Budget(usd=0.03))
    async with asyncio.timeout(WAIT_S), LoopbackModel([endless(api, kind)]) as server, AsyncExitStack() as stack:
        [agent] = await agents_at(stack, tmp_path, api, server, tracker)
        end = await run_turn(agent, prompt("go"))
    assert (end.stop, end.limit) == ("limit", "money")
    assert 0.03 <= tracker.run.usd < 0.03 + LONGEST * USD_OUT
    assert "interrupted" in str(agent.conversation.items[-1])


@pytest.mark.finding("3L4")
@pytest.mark.parametrize("kind", ["text", "thinking", "arguments"])
@pytest.mark.parametrize("api", PATHS)
async def test_an_answer_that_never_ends_is_cut_without_a_budget_and_its_cost_counts(tmp_path, api, kind):
    if (api, kind) == ("gemini", "arguments"):
        pytest.skip("this API sends the arguments of a call as one value")
    tracker = BudgetTracker()
    async with asyncio.timeout(WAIT_S), LoopbackModel([endless(api, kind)]) as server, AsyncExitStack() as stack:
        [agent] = await agents_at(stack, tmp_path, api, server, tracker)
        end = await run_turn(agent, prompt("go"))
        assert len(server.requests) == 1, "it is not sent again"
    assert end.failure is not None
    assert "did not end" in end.failure.what
    assert 8_192 <= tracker.total.output_tokens < 8_192 + 500


@pytest.mark.finding("3L4")
async def test_events_without_content_that_never_end_are_cut(tmp_path):
    chunks = events("messages", Answer("x"))
    server_script = [Raw([*chunks[:2], *[b'data: {"type": "unknown"}\n\n'] * 40_000], close=False)]
    async with asyncio.timeout(WAIT_S), LoopbackModel(server_script) as server, AsyncExitStack() as stack:
        [agent] = await agents_at(stack, tmp_path, "messages", server, BudgetTracker())
        end = await run_turn(agent, prompt("go"))
    assert end.failure is not None
    assert "did not end" in end.failure.what


@pytest.mark.finding("3L5")
@pytest.mark.parametrize("api", [*PATHS, "bedrock"])
async def test_answers_that_break_off_count_by_their_bytes(tmp_path, api):
    tracker = BudgetTracker()
    sent = Cut(12_000, Answer("y" * 6_000, usage=NOTHING))
    async with asyncio.timeout(WAIT_S), LoopbackModel([sent, sent]) as server, AsyncExitStack() as stack:
        [agent] = await agents_at(stack, tmp_path, api, server, tracker)
        assert (await run_turn(agent, prompt("go"))).failure is not None
    used = tracker.total
    assert used.requests == 2
    assert used.output_tokens > 500
    assert used.prompt_tokens > 20
    assert used.usd


@pytest.mark.finding("3L5")
@pytest.mark.parametrize("api", PATHS)
async def test_a_broken_answer_is_not_asked_for_again_when_the_budget_is_used_up(tmp_path, api):
    tracker = BudgetTracker(Budget(tokens=600))
    broken = Raw(events(api, Answer("y" * 6_000, usage=NOTHING))[:-3])
    async with asyncio.timeout(WAIT_S), LoopbackModel([broken]) as server, AsyncExitStack() as stack:
        [agent] = await agents_at(stack, tmp_path, api, server, tracker)
        end = await run_turn(agent, prompt("go"))
        assert len(server.requests) == 1
    assert (end.stop, end.limit) == ("limit", "tokens")
    assert tracker.run.tokens == tracker.total.tokens > 1_500


@pytest.mark.finding("3L5")
@pytest.mark.parametrize("usage", [NOTHING, {"input_tokens": -5_000}, {"input_tokens": 10, "output_tokens": 0}])
async def test_an_answer_whose_tokens_are_not_counted_uses_the_budget_by_its_bytes(tmp_path, usage):
    tracker = BudgetTracker(Budget(tokens=50_000))
    script = [Answer("y" * 4_000, usage=usage)]
    async with asyncio.timeout(WAIT_S), LoopbackModel(script) as server, AsyncExitStack() as stack:
        [agent] = await agents_at(stack, tmp_path, "messages", server, tracker)
        await run_turn(agent, prompt("go"))
    assert tracker.run.tokens > 1_000


behaviours = st.one_of(
    st.just("endless text"),
    st.just("endless arguments"),
    st.tuples(st.just("cut"), st.integers(0, 30_000)),
    st.tuples(
        st.just("answer"), st.integers(1, LONGEST), st.sampled_from(["right", "none", "negative"]), st.booleans()
    ),
)


def reply(api, behaviour, number):
    """The reply of the server."""
    match behaviour:
        case "endless text":
            return endless(api)
        case "endless arguments":
            return endless(api, "text" if api == "gemini" else "arguments")
        case ("cut", size):
            return Cut(size, Answer(TEXT[:8_000], usage=NOTHING))
        case (_, tokens, counted, calls):
            usage = {"right": None, "none": NOTHING, "negative": {"input_tokens": -(10**6), "output_tokens": -(10**6)}}
            text = TEXT[: tokens * 4]
            return Answer(text, [("Echo", {"text": str(number)})] if calls else [], usage=usage[counted])


@pytest.mark.slow
@pytest.mark.finding("3L4", "3L5")
@settings(max_examples=examples(60))
@given(st.sampled_from(list(PATHS)), st.lists(behaviours, min_size=1, max_size=6), st.integers(1, 3))
async def test_a_budget_is_exceeded_by_no_more_than_the_answers_in_flight_at_their_maximum(api, script, count):
    cap, requests, most_prompt = 0.05, 0, 0

    def script_of_server(body):
        nonlocal requests, most_prompt
        requests += 1
        return reply(api, script[requests % len(script)], requests)

    tracker = BudgetTracker(Budget(usd=cap))
    with tempfile.TemporaryDirectory() as root:
        async with asyncio.timeout(WAIT_S), LoopbackModel(script_of_server) as server, AsyncExitStack() as stack:
            agents = await agents_at(stack, root, api, server, tracker, count)

            async def work(agent):
                for _ in range(12):
                    if (await run_turn(agent, prompt("go"))).stop == "limit":
                        return

            await asyncio.gather(*map(work, agents))
            most_prompt = max(len(request.body) for request in server.requests) // 4
    in_flight = count * (LONGEST * USD_OUT + most_prompt * 1e-6)
    assert tracker.run.usd <= cap + in_flight
    assert abs(tracker.run.held_usd) < 1e-9
