"""The contract of a request: its bytes, its headers, its address, its connection, and its end."""

import asyncio
import json
import subprocess
import sys

import pytest
from msgspec.structs import replace

from teamwright.models.endpoint import clean_base_url
from teamwright.models.model import Reply
from teamwright.models.providers.anthropic_messages import request_body, with_breakpoints
from teamwright.protocol.messages import encode, image_block, text_block, tool_result_block
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, Stall, Status
from tests.support.waits import WAIT_S


async def test_the_body_is_the_prefix_and_the_items_byte_for_byte(client, user):
    async with asyncio.timeout(WAIT_S), LoopbackModel() as server, client(server.url) as c:
        request = c.request(user("Grüße \u2028"), system=[text_block("Be brief.")])
        [_ async for _ in c.model.stream(request)]
    [sent] = server.requests
    assert sent.body == request_body(request.prefix, request.items, caching=True)
    assert request.prefix.head in sent.body
    assert sent.json["stream"] is True
    assert sent.headers["content-length"] == str(len(sent.body))


def test_two_user_items_carry_a_breakpoint_and_nothing_else_changes(user):
    items = [
        user("one"),
        encode({"role": "assistant", "content": [{"type": "thinking", "thinking": "", "signature": "s"}]}),
        encode(
            {"role": "user", "content": [tool_result_block("t", [text_block("x"), image_block("image/png", "aa")])]}
        ),
        encode({"role": "assistant", "content": [text_block("so")]}),
        encode({"role": "user", "content": [tool_result_block("u", "y"), text_block("ends in }]}")]}),
    ]
    marked = [json.loads(item) for item in with_breakpoints(items)]
    carriers = [place for place, item in enumerate(marked) if "cache_control" in item["content"][-1]]
    assert carriers == [2, 4]
    for item in marked:
        item["content"][-1].pop("cache_control", None)
    assert [encode(item) for item in marked] == items


def test_an_item_whose_content_is_plain_text_is_left_alone():
    item = encode({"role": "user", "content": "plain }]}"})
    assert with_breakpoints([item]) == [item]


async def test_a_service_without_caching_gets_no_breakpoints(client, user):
    async with asyncio.timeout(WAIT_S), LoopbackModel() as server:
        c = client(server.url)
        async with client(server.url, card=replace(c.card, caching=False)) as c:
            await c.ask(user())
    assert b"cache_control" not in server.requests[0].body


@pytest.mark.parametrize(
    ("auth", "header", "value"), [("x-api-key", "x-api-key", "{}"), ("bearer", "authorization", "Bearer {}")]
)
async def test_the_key_goes_in_one_header_and_betas_are_joined(client, key, auth, header, value):
    options = {"auth": auth, "version": "2026-10-21"}
    async with asyncio.timeout(WAIT_S), LoopbackModel() as server, client(server.url, **options) as c:
        await c.ask(betas=("one-2026-01-01", "two-2026-02-02"))
    headers = server.requests[0].headers
    assert headers[header] == value.format(key)
    assert len({"x-api-key", "authorization"} & set(headers)) == 1
    assert headers["anthropic-beta"] == "one-2026-01-01,two-2026-02-02"
    assert headers["anthropic-version"] == "2026-10-21"


async def test_without_betas_and_without_a_key_there_are_no_such_headers(client):
    async with asyncio.timeout(WAIT_S), LoopbackModel() as server, client(server.url, key="") as c:
        await c.ask()
    assert not {"anthropic-beta", "x-api-key", "authorization"} & set(server.requests[0].headers)


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/", "/gateway/anthropic", "/gateway/anthropic/v1"])
async def test_a_base_url_may_have_a_path_and_end_in_v1(client, path):
    async with asyncio.timeout(WAIT_S), LoopbackModel() as server, client(clean_base_url(server.url + path)) as c:
        assert isinstance((await c.ask()).last, Reply)
    assert server.requests[0].path == ("/gateway/anthropic" if "gateway" in path else "") + "/v1/messages"


@pytest.mark.promise("F66")
async def test_a_redirect_is_not_followed_with_the_key(client):
    async with asyncio.timeout(WAIT_S), LoopbackModel() as thief:
        away = Status(307, headers={"location": f"{thief.url}/v1/messages"})
        async with LoopbackModel([away]) as server, client(server.url) as c:
            asked = await c.ask()
    assert not thief.requests
    assert "redirect" in asked.last.what


async def test_the_environment_s_proxy_is_used_but_never_for_this_machine(client, monkeypatch):
    async with asyncio.timeout(WAIT_S), LoopbackModel(["By proxy."]) as proxy, LoopbackModel(["Straight."]) as server:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        async with client("http://model.invalid:8123") as far, client(server.url) as near:
            assert (await far.ask()).last.content[0]["text"] == "By proxy."
            assert (await near.ask()).last.content[0]["text"] == "Straight."
    assert proxy.requests[0].path == "http://model.invalid:8123/v1/messages"
    assert len(proxy.requests) == 1


async def test_a_connection_is_kept_for_the_next_request(client):
    async with asyncio.timeout(WAIT_S), LoopbackModel() as server, client(server.url) as c:
        for _ in range(3):
            await c.ask()
        assert server.connections == 1


LONG = Answer("x" * 500)


async def listen(c, begun):
    async for _ in c.model.stream(c.request()):
        begun.set()


async def test_cancelling_closes_the_connection(client):
    async with asyncio.timeout(WAIT_S), LoopbackModel([Stall(5, LONG)]) as server, client(server.url) as c:
        begun = asyncio.Event()
        task = asyncio.create_task(listen(c, begun))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(server.client_left.wait, WAIT_S)
        assert c.rate_limiter.running_count == 0


async def test_leaving_the_parts_early_closes_the_connection(client):
    async with asyncio.timeout(WAIT_S), LoopbackModel([Stall(5, LONG)]) as server, client(server.url) as c:
        parts = c.model.stream(c.request())
        await anext(parts)
        await parts.aclose()
        assert await asyncio.to_thread(server.client_left.wait, WAIT_S)
        assert c.rate_limiter.running_count == 0


async def test_an_adapter_may_be_closed_twice_and_used_again(client):
    async with asyncio.timeout(WAIT_S), LoopbackModel() as server, client(server.url) as c:
        await c.ask()
        await c.model.aclose()
        await c.model.aclose()
        assert isinstance((await c.ask()).last, Reply)


async def test_an_adapter_that_is_closed_while_a_call_waits_for_its_turn_tries_anew(client):
    async with asyncio.timeout(WAIT_S), LoopbackModel() as server, client(server.url) as c:
        await c.ask()
        async with c.rate_limiter.permit() as turn:
            c.rate_limiter.note_throttled(turn, 0.05)
        asking = asyncio.create_task(c.ask())
        await asyncio.sleep(0)
        await c.model.aclose()
        assert isinstance((await asking).last, Reply)


def test_one_adapter_serves_one_event_loop_after_another(client):
    with LoopbackModel.in_thread(["Hello."]) as server:
        c = client(server.url)
        for _ in range(2):
            assert isinstance(asyncio.run(c.ask()).last, Reply)


LAZY = """
import asyncio, sys
from teamwright.models.endpoint import Endpoint
from teamwright.models.rate_limit import RateLimiter
from teamwright.models.service_model import ServiceModel
from teamwright.models.model import ModelCard, Prefix, Reply, Request
from teamwright.models.model_pool import ModelPool
from teamwright.models.model_settings import ModelSettings
from teamwright.protocol.messages import encode, text_block

def model(url):
    card = ModelCard("custom/test", "test", "custom")
    return ServiceModel(card, Endpoint("custom", url, "key"), rate_limiter=RateLimiter(), settings=ModelSettings())

model("https://api.example")
assert not {"httpx2", "httpcore2", "anthropic"} & set(sys.modules), "loaded at import"

import ssl
read = []
ssl.SSLContext.load_verify_locations = lambda *a, **k: read.append(a)

async def main():
    m = model(sys.argv[1])
    item = encode({"role": "user", "content": [text_block("x")]})
    parts = [p async for p in m.stream(Request(Prefix.build({"model": "test"}), [item]))]
    assert isinstance(parts[-1], Reply), parts
    await m.aclose()

asyncio.run(main())
assert "httpx2" in sys.modules
heavy = {"anthropic", "certifi", "pydantic", "rich", "click"} & set(sys.modules)
assert not heavy, heavy
assert not read, "certificates were read for a plain connection"
"""


@pytest.mark.slow
def test_http_is_loaded_at_the_first_request_and_certificates_only_where_tls_is_spoken():
    with LoopbackModel.in_thread() as server:
        run = subprocess.run([sys.executable, "-c", LAZY, server.url], capture_output=True, text=True, timeout=WAIT_S)
    assert run.returncode == 0, run.stderr
