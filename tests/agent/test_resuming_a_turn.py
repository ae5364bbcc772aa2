"""One agent that is gone on with: calls told apart by their ids, and answers that were not whole."""

import pytest

from teamwright.agent.conversation import Conversation, UserMessage
from teamwright.agent.turn_loop import run_turn
from teamwright.protocol.messages import text_block
from tests.agent.parts import Echo, Listed, an_agent, call, says

HELLO = UserMessage((text_block("hello"),), ("prompt:1",))


class Keyed(Echo):
    """Remembers the names of its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: list[str] = []

    async def run(self, call, ctx):
        self.keys.append(ctx.key)
        return await super().run(call, ctx)


@pytest.mark.promise("P1", "H1")
async def test_calls_to_which_a_server_gives_the_same_id_have_results_and_names_of_their_own(tmp_path):
    same = [call("Echo", "call_0", text=text) for text in ("one", "two", "three")]
    tool = Keyed()
    model = Listed(says(*same, call("Echo", "call_0_2", text="four")), says("done"))
    agent, _ = an_agent(tmp_path, model, [tool])
    await run_turn(agent, HELLO)
    asked, told = (model.seen[1][at]["content"] for at in (-2, -1))
    assert [b["tool_use_id"] for b in told] == [b["id"] for b in asked]
    assert [b["content"] for b in told] == ["one", "two", "three", "four"]
    assert len(set(tool.keys)) == len({b["id"] for b in asked}) == 4


@pytest.mark.promise("D8", "P1")
async def test_an_answer_that_paused_is_still_owed_after_a_kill(tmp_path):
    agent, _ = an_agent(tmp_path, Listed(says("so far", stop="pause_turn")))
    agent.meter.why = None
    agent.model_calls_left = 1
    assert (await run_turn(agent, HELLO)).stop == "limit"
    agent.conversation.close()
    again = Conversation.load(agent.conversation.path, agent.conversation.prefix)
    assert agent.conversation.owes_answer and again.owes_answer
    agent.conversation, agent.model, agent.model_calls_left = again, Listed(says("and the rest")), None
    assert (await run_turn(agent, None)).text == "and the rest"
    assert not again.owes_answer
