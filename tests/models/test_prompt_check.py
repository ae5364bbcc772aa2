"""A server that cuts the prompt is found out; one that counts as it likes is not accused."""

import asyncio

import pytest

from teamwright.models.model import Failure, Prefix, Reply, Request
from teamwright.models.truncated_prompt_check import PromptCheck
from teamwright.protocol.messages import encode, image_block, text_block
from teamwright.protocol.usage import Usage
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, CutPrompt
from tests.support.waits import WAIT_S

PREFIX = Prefix.build({"model": "m", "system": [text_block("x" * 4000)]})


def turn(tokens, *blocks):
    return encode({"role": "user", "content": [*blocks, text_block("word " * (tokens * 4 // 5))]})


def look(check, items, read, *, cached=0, asker="ada", prefix=PREFIX):
    return check.check(Request(prefix, items, asker), Usage(read, 1, cached, 0, 1))


async def test_a_cut_prompt_ends_in_a_failure_that_says_how_to_widen_the_window(client):
    small, ollama = LoopbackModel([CutPrompt(1500)]), {"provider": "ollama", "is_local": True}
    async with asyncio.timeout(WAIT_S), small as server, client(server.url, **ollama) as c:
        items = [turn(1800)]
        assert isinstance((await c.ask(*items)).last, Reply)
        items.append(turn(1200))
        failure = (await c.ask(*items)).last
    assert isinstance(failure, Failure)
    assert failure.slug == "window-too-small"
    assert "1,500 read" in failure.what
    assert failure.do[0].startswith("OLLAMA_CONTEXT_LENGTH=65536 ollama serve")
    assert not failure.retriable


def test_a_cut_is_found_out_however_little_each_message_adds():
    check, items, found = PromptCheck(), [turn(3000)], None
    for step in range(40):
        found = found or look(check, items, 2000 if step else 1900)
        items.append(turn(60))
    assert found is not None
    assert found.read == 2000


def test_a_prompt_that_fills_the_window_of_which_the_server_told_was_cut_at_once():
    request = Request(PREFIX, [turn(5000)], "ada")
    found = PromptCheck().check(request, Usage(4096, 1, 0, 0, 1), 4096)
    assert found is not None
    assert found.read == 4096
    assert PromptCheck().check(request, Usage(4095, 1, 0, 0, 1), 4096) is None
    assert PromptCheck().check(Request(PREFIX, [turn(100)], "ada"), Usage(4096, 1, 0, 0, 1), 4096) is None


async def test_anthropic_is_never_suspected(client):
    small = LoopbackModel([CutPrompt(1500)])
    async with asyncio.timeout(WAIT_S), small as server, client(server.url, provider="anthropic") as c:
        for items in ([turn(1800)], [turn(1800), turn(1800)]):
            assert isinstance((await c.ask(*items)).last, Reply)


def test_a_report_that_grows_is_believed_even_when_it_counts_less_than_we_do():
    check, items = PromptCheck(), []
    for step in range(1, 12):
        items.append(turn(700))
        assert look(check, items, step * 300) is None


def test_tokens_from_the_cache_count_as_read():
    check = PromptCheck()
    items = [turn(3000)]
    assert look(check, items, 4000) is None
    items.append(turn(1000))
    assert look(check, items, 1000, cached=4000) is None


def test_a_server_that_reports_only_what_was_not_cached_is_not_accused():
    check, items = PromptCheck(), [turn(3000)]
    assert look(check, items, 4000) is None
    for _ in range(4):
        items.append(turn(700))
        assert look(check, items, 700) is None


def test_images_do_not_count_as_growth():
    check, items = PromptCheck(), [turn(3000)]
    assert look(check, items, 4000) is None
    items.append(turn(10, image_block("image/png", "A" * 40_000)))
    assert look(check, items, 4000) is None


def test_after_compaction_the_check_begins_anew():
    check = PromptCheck()
    assert look(check, [turn(9000)], 9000) is None
    assert look(check, [turn(500)], 1500) is None
    assert look(check, [turn(500), turn(7000)], 8000) is None


def test_two_conversations_are_kept_apart():
    check = PromptCheck()
    assert look(check, [turn(3000)], 4000, asker="ada") is None
    assert look(check, [turn(5000)], 4000, asker="bob") is None


@pytest.mark.parametrize("conversations", [600])
def test_what_is_remembered_is_bounded(conversations):
    check = PromptCheck()
    for number in range(conversations):
        look(check, [turn(1)], 10, asker=str(number))
    assert len(check._seen) <= 256


async def test_an_honest_server_is_left_in_peace_over_a_long_conversation(client, user):
    async with asyncio.timeout(WAIT_S), LoopbackModel([Answer("Yes.")]) as server, client(server.url) as c:
        items = []
        for _ in range(10):
            items.append(turn(600))
            assert isinstance((await c.ask(*items)).last, Reply)
