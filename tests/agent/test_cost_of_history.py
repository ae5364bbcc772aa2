"""What a round costs does not grow with what was said before: old items are handed over as they were encoded."""

import json
from collections import Counter

from teamwright.agent import conversation
from teamwright.agent.conversation import Conversation, UserMessage
from teamwright.agent.turn_loop import run_turn
from teamwright.models.model import Prefix, Request
from teamwright.models.providers.anthropic_messages import request_body
from teamwright.protocol.events import LIVE
from teamwright.protocol.messages import encode, text_block
from tests.agent.parts import Echo, Listed, an_agent, call, says

ROUNDS = 30
HELLO = UserMessage((text_block("hello"),), ("prompt:1",))


class Remembers(Listed):
    """Keeps the items of each request as the very objects that they were."""

    def __init__(self):
        super().__init__(*(says(call("Echo", f"t{n}", text="x" * n)) for n in range(ROUNDS)), says("done"))
        self.requests: list[tuple[bytes, ...]] = []
        self.at_round = lambda: None

    def stream(self, request: Request):
        self.requests.append(tuple(request.items))
        self.at_round()
        return super().stream(request)


async def test_each_request_hands_over_the_very_items_of_the_one_before(tmp_path):
    model = Remembers()
    agent, _ = an_agent(tmp_path, model, [Echo()])
    await run_turn(agent, HELLO)
    assert len(model.requests) == ROUNDS + 1
    for before, after in zip(model.requests, model.requests[1:], strict=False):
        assert len(after) == len(before) + 2
        assert all(old is new for old, new in zip(before, after, strict=False))


async def test_the_last_round_encodes_and_writes_as_often_as_the_first(tmp_path, monkeypatch):
    count = Counter()

    def counted(value):
        made = encode(value)
        count["encoded"] += 1
        count["bytes"] += len(made)
        return made

    monkeypatch.setattr(conversation, "encode", counted)
    model, rounds = Remembers(), []
    model.at_round = lambda: (rounds.append(dict(count)), count.clear())
    agent, _ = an_agent(tmp_path, model, [Echo()])
    await run_turn(agent, HELLO)
    assert len({one["encoded"] for one in rounds[1:]}) == 1
    assert max(one["bytes"] for one in rounds[1:]) < 2 * rounds[1]["bytes"]


async def test_a_resume_parses_as_few_lines_of_a_long_conversation_as_of_a_short_one(tmp_path, monkeypatch):
    parsed = Counter()
    loads = json.loads

    def counted(text):
        parsed[rounds] += 1
        return loads(text)

    for rounds in (3, ROUNDS):
        model = Listed(*(says(call("Echo", f"t{n}", text="x")) for n in range(rounds)), says("done"))
        agent, _ = an_agent(tmp_path / str(rounds), model, [Echo()])
        await run_turn(agent, HELLO)
        agent.conversation.close()
        with monkeypatch.context() as patched:
            patched.setattr(json, "loads", counted)
            loaded = Conversation.load(agent.conversation.path, agent.conversation.prefix)
        assert loaded.reported_tokens == (2 * rounds + 2, 15)
    assert parsed[ROUNDS] == parsed[3] > 0


def test_a_body_is_joined_from_the_items_as_they_are(tmp_path):
    agent, _ = an_agent(tmp_path, Listed())
    for number in range(ROUNDS):
        agent.conversation.append_user_message(UserMessage((text_block(f"question {number}"),)))
        agent.conversation.append_reply(says(f"answer {number}"))
    items = agent.conversation.items
    body = request_body(agent.conversation.prefix, items, caching=True)
    marked = [item for item in items if item not in body]
    assert marked == [items[-4], items[-2]]


async def test_without_anybody_attached_no_live_event_is_made(tmp_path):
    model = Listed(says("a", call("Echo", "t1", text="b")), says("c"))
    agent, events = an_agent(tmp_path, model, [Echo()], has_listeners=lambda: False)
    await run_turn(agent, HELLO)
    assert events
    assert not [event for event in events if isinstance(event, LIVE)]


def test_prefixes_that_differ_by_a_name_share_the_bytes_of_their_tools():
    tools = [{"name": "Read", "description": 'Reads what "tools":[ says.', "input_schema": {"type": "object"}}]
    ada, ben = (
        Prefix.build({"model": "m", "max_tokens": 9, "system": [text_block(f"You are {name}.")], "tools": [*tools]})
        for name in ("ada", "ben")
    )
    assert ada.end is ben.end
    assert ada.digest != ben.digest
    again = Prefix.from_bytes("m", ada.head)
    assert (again, again.size) == (ada, len(ada.head))
    assert json.loads(b"{" + ben.head + b"}")["tools"] == tools
    assert Prefix.build({"model": "m"}).end == b""
