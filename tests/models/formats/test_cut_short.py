"""An answer that is cut short: its words and its cost are kept, and the next request is whole in every format."""

import asyncio
import json
from contextlib import AsyncExitStack

import pytest

from teamwright import Budget, ModelCard, Reply, Team, TextPart, Usage
from teamwright.agent.conversation import Conversation, UserMessage
from teamwright.agent.model_call import INTERRUPTED_NOTE
from teamwright.agent.turn_loop import run_turn
from teamwright.models.model import INTERRUPTED, UsagePart
from teamwright.protocol.events import ModelCallEnded, TextDelta
from teamwright.protocol.messages import text_block
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, Stall
from tests.agent.parts import an_agent
from tests.support.waits import WAIT_S

WORDS = "These words were read by a person. These were as well."
EVENTS = {"messages": 5, "openai-chat": 3, "openai-responses": 6, "gemini": 2, "bedrock": 3}
FIELDS = {"gemini": "contents", "openai-responses": "input"}


@pytest.mark.finding("M1", "M2")
@pytest.mark.parametrize("api", EVENTS)
async def test_what_a_person_has_read_is_stored_booked_and_told_to_the_model(tmp_path, speaking, client, api):
    stall = Stall(EVENTS[api], Answer(WORDS, usage={"input_tokens": 4_881}), pings=False)
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(LoopbackModel([stall, Answer("Yes.")]))
        caller = client(server.url) if api == "messages" else speaking(api, server.url)
        await stack.enter_async_context(caller)
        agent, events = an_agent(tmp_path, caller.model)
        read, emit = asyncio.Event(), agent.emit
        agent.emit = lambda event: (emit(event), isinstance(event, TextDelta) and read.set())
        turn = asyncio.ensure_future(run_turn(agent, UserMessage((text_block("hello"),))))
        await asyncio.wait_for(read.wait(), WAIT_S)
        turn.cancel()
        await asyncio.wait({turn})
        assert turn.cancelled()
        shown = "".join(event.text for event in events if isinstance(event, TextDelta))
        stored = [json.loads(item) for item in agent.conversation.items]
        assert [one["role"] for one in stored] == ["user", "assistant", "user"]
        assert stored[1]["content"] == [text_block(shown)] and WORDS.startswith(shown)
        assert INTERRUPTED_NOTE in stored[2]["content"][0]["text"]
        line = json.loads(agent.conversation.path.read_text().splitlines()[2])
        [booked] = [event for event in events if isinstance(event, ModelCallEnded)]
        assert (line["stop_reason"], line["usage"]["estimated"], booked.counted) == (INTERRUPTED, True, "estimated")
        assert booked.usage == agent.meter.used and booked.usage.output_tokens >= len(shown) // 4
        told_first = api in {"messages", "gemini"}  # the others count at the end of an answer: estimated
        assert booked.usage.prompt_tokens == 4_881 if told_first else 0 < booked.usage.prompt_tokens < 4_881
        agent.conversation.interrupt()
        ended = await run_turn(agent, UserMessage((text_block("go on"),)))
        assert (ended.stop, ended.text) == ("done", "Yes.")
    sent = json.dumps(json.loads(server.requests[-1].body)[FIELDS.get(api, "messages")])
    assert sent.index(shown) < sent.index(INTERRUPTED_NOTE) < sent.index("go on"), (
        "the model reads its words, and that they end"
    )
    agent.conversation.close()
    loaded = Conversation.load(agent.conversation.path, agent.conversation.prefix)
    assert loaded.items == agent.conversation.items and not loaded.owes_answer


class Hanging:
    """Says some words, tells what they cost, and never ends."""

    card = ModelCard("own", "own", "own", usd_in=0.0, usd_out=0.0)

    def __init__(self):
        self.read = asyncio.Event()

    async def stream(self, request):
        yield UsagePart(Usage(input_tokens=4_000, output_tokens=1, requests=1))
        yield TextPart(WORDS)
        self.read.set()
        await asyncio.Event().wait()
        yield Reply([], "end_turn", Usage(), "own")

    async def aclose(self):
        pass


@pytest.mark.finding("M1", "M2")
async def test_cancelled_answers_count_for_the_cap_and_their_words_are_the_result(tmp_path):
    model = Hanging()
    async with Team("crew", model=model, cwd=tmp_path, env={}, budget=Budget(tokens=10_000)) as team:
        for number in range(1, 3):
            run = asyncio.ensure_future(team.run("Go."))
            await asyncio.wait_for(model.read.wait(), WAIT_S)
            model.read.clear()
            run.cancel()
            await asyncio.wait({run})
            assert team.usage.tokens == number * 4_000 + number * (len(WORDS) // 4 + 1)
        result = await team.run("Go.")
    assert (result.stop, result.limit, result.exit_code) == ("limit", "tokens", 4)


@pytest.mark.finding("M2")
@pytest.mark.slow
async def test_words_that_came_before_the_time_was_over_are_the_text_of_the_result(tmp_path):
    async with Team("crew", model=Hanging(), cwd=tmp_path, env={}, budget=Budget(minutes=0.02)) as team:
        result = await team.run("Go.")
    assert (result.stop, result.limit, result.text) == ("limit", "time", WORDS)
