"""The prefix of each agent in tokens, counted by real tokenizers; each is skipped where its package is missing."""

import json

import pytest

from tests.session.test_compact_prompt import LARGE, SMALL, SPAWN, head, model, of, play
from tests.support.tokenizers import TOKENIZERS

MOST = {
    "full": {"lead": 4_000, "teammate": 3_800, "sub-agent": 1_900},
    "compact": {"lead": 1_500, "teammate": 1_500, "sub-agent": 1_500},
}
MOST_OF_TOOLS = {"Agent": 450, "SendMessage": 400}
"""Tokens in the full prompt, without the list of agent types."""

LIST = "\nAgent types:"


def as_sent(fields: dict) -> str:
    """The system prompt and the tools as a request has them, without cache breakpoints."""
    tools = [{name: part for name, part in tool.items() if name != "cache_control"} for tool in fields["tools"]]
    return "\n".join(block["text"] for block in fields["system"]) + encoded(tools)


def encoded(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@pytest.mark.slow
@pytest.mark.finding("R3")
@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@pytest.mark.parametrize(("size", "window"), [("full", LARGE), ("compact", SMALL)])
async def test_the_prefix_is_short_for_the_tokenizer(tmp_path, size, window, tokenizer, capsys):
    with TOKENIZERS[tokenizer]() as count:
        requests = await play(tmp_path, model({"team-lead": [SPAWN, "Done."], "*": ["Hello."]}, window))
        agents = {"lead": of(requests, "team-lead"), "teammate": of(requests, "ada")}
        agents["sub-agent"] = next(one for one in requests if one.agent_name not in {"team-lead", "ada"})
        sizes = dict(zip(agents, count([as_sent(head(request)) for request in agents.values()]), strict=True))
        tools = {tool["name"]: tool for tool in head(agents["lead"])["tools"]}
        own = {**tools["Agent"], "description": tools["Agent"]["description"].partition(LIST)[0]}
        of_tools = dict(zip(MOST_OF_TOOLS, count([encoded(own), encoded(tools["SendMessage"])]), strict=True))
    with capsys.disabled():
        print(f"\n{tokenizer}, {size} prompt: {sizes}, {of_tools}")
    assert all(sizes[name] <= most for name, most in MOST[size].items()), sizes
    assert size == "compact" or all(of_tools[name] <= most for name, most in MOST_OF_TOOLS.items()), of_tools
