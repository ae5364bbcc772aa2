"""What fails in the middle of a round: every call keeps its result, and the next request is complete."""

import asyncio
import json
import resource

import pytest

from teamwright.agent.conversation import Conversation, UserMessage
from teamwright.agent.turn_loop import run_turn
from teamwright.protocol.errors import StorageError
from teamwright.protocol.messages import text_block
from tests.agent.parts import Echo, EchoInput, Listed, an_agent, call, says
from tests.support.waits import WAIT_S

HELLO = UserMessage((text_block("hello"),), ("prompt:1",))


class Odd(Echo):
    """Cannot be looked at, or breaks in ways that are no exceptions."""

    def access(self, call: EchoInput, ctx):
        if call.text == "unlookable":
            raise ValueError("embedded null byte")
        return super().access(call, ctx)

    async def run(self, call: EchoInput, ctx):
        if call.text == "exit":
            raise SystemExit(3)
        if call.text == "cancelled inside":
            raise asyncio.CancelledError
        return await super().run(call, ctx)


@pytest.mark.promise("F39", "H1")
@pytest.mark.parametrize("text", ["unlookable", "exit", "cancelled inside"])
@pytest.mark.parametrize("siblings", [0, 2])
async def test_however_a_tool_breaks_it_is_a_result_and_its_siblings_go_on(tmp_path, text, siblings):
    calls = [call("Echo", "t0", text=text), *(call("Echo", f"s{n}", text="fine") for n in range(siblings))]
    model = Listed(says(*calls), says("done"))
    agent, _ = an_agent(tmp_path, model, [Odd()])
    assert (await run_turn(agent, HELLO)).text == "done"
    broken, *others = model.seen[1][-1]["content"]
    assert broken["is_error"] and "broke" in broken["content"]
    assert [one["content"] for one in others] == ["fine"] * siblings


@pytest.mark.promise("H1", "P1")
async def test_results_are_told_though_the_inbox_cannot_be_read_between_rounds(tmp_path):
    agent, _ = an_agent(tmp_path, Listed(says(call("Echo", "t1", text="x")), says("fine")), [Echo()])

    class Damaged:
        async def next_input(self):
            raise StorageError("damaged-file", "the inbox cannot be read")

    with pytest.raises(StorageError):
        await run_turn(agent, HELLO, Damaged())
    assert json.loads(agent.conversation.items[-1])["content"][0]["content"] == "x"


@pytest.mark.promise("H1", "P1")
async def test_calls_whose_results_never_reached_the_disk_have_one_before_anything_else_is_told(tmp_path):
    model = Listed(says(call("Echo", "t1", text="x")), says("fine"))
    tool = Echo(gate=asyncio.Event())
    agent, _ = an_agent(tmp_path, model, [tool])
    path = agent.conversation.path
    turn = asyncio.ensure_future(run_turn(agent, HELLO))
    async with asyncio.timeout(WAIT_S):
        await tool.started.wait()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, hard))  # not a byte more goes into it
    try:
        tool.gate.set()
        with pytest.raises(StorageError):
            await turn
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (await run_turn(agent, UserMessage((text_block("go on"),)))).text == "fine"
    roles = [(m["role"], m["content"][0]["type"]) for m in model.seen[-1]]
    assert roles == [("user", "text"), ("assistant", "tool_use"), ("user", "tool_result"), ("user", "text")]
    agent.conversation.close()
    assert Conversation.load(path, agent.conversation.prefix).items == agent.conversation.items
