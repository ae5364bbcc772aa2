"""The contract of failure: what is tried again, how long, and how a person is told; and that no key is told."""

import asyncio
import json
import logging
import socket
from email.utils import formatdate

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from teamwright.models.model import Failure, Reply, Retrying
from teamwright.models.service_error import parse_event_error, parse_http_error, retry_after_s
from teamwright.protocol.errors import SLUGS
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, Cut, ErrorEvent, Raw, Stall, Status
from tests.support.waits import WAIT_S


def failed(script, client):
    """What comes of a script that ends badly, and the server that saw it."""

    async def one(**options):
        async with asyncio.timeout(WAIT_S), LoopbackModel(script) as server, client(server.url, **options) as c:
            return await c.ask(), server

    return one()


def told(failure):
    return json.dumps([failure.what, failure.looked_at, failure.do, failure.partial], ensure_ascii=False)


CASES = [
    (Status(401, "invalid x-api-key"), "wrong-key", False),
    (Status(403, "not yours"), "no-access", False),
    (Status(403, "Your API key does not have permission to use this model"), "no-access", False),
    (Status(403, "The provided API key is invalid."), "wrong-key", False),
    (Status(404, "model: test"), "unknown-model", False),
    (Status(404, body=b"<html>nothing here</html>"), "no-network", False),
    (Status(400, "prompt is too long: 1000123 tokens > 1000000 maximum"), "context-full", False),
    (Status(400, type="exceed_context_size_error", message="n_ctx"), "context-full", False),
    (Status(413, "Request exceeds the maximum size"), "context-full", False),
    (Status(400, "tools.0.name: bad"), "model-failed", False),
    (Status(402, "no credit"), "model-failed", True),
    (Status(429, headers={"x-should-retry": "false"}), "model-failed", False),
    (Status(529, retry_after=3600), "model-failed", True),
    (Status(307, headers={"location": "http://127.0.0.1:9/v1/messages"}), "model-failed", False),
    (ErrorEvent("authentication_error", "expired"), "wrong-key", False),
    (
        Raw([b'{"type":"error","error":{"type":"not_found_error","message":"model"}}'], {}, "application/json"),
        "unknown-model",
        False,
    ),
    (Raw([b'{"id":"msg","type":"message"}'], {}, "application/json"), "model-failed", False),
]


@pytest.mark.parametrize(("reply", "slug", "retriable"), CASES, ids=lambda v: str(v)[:60])
async def test_an_error_of_the_service_is_told_in_our_form(client, reply, slug, retriable):
    asked, server = await failed([reply], client)
    failure = asked.last
    assert isinstance(failure, Failure)
    assert (failure.slug, failure.retriable) == (slug, retriable)
    assert failure.slug in SLUGS
    assert failure.before_first_reply
    assert ("model", f"custom/test at {server.url.removeprefix('http://')}") in failure.looked_at
    assert len(server.requests) == 1


async def test_the_request_s_id_and_the_service_s_words_are_told(client):
    asked, _ = await failed([Status(400, "tools.0.name: bad")], client)
    facts = dict(asked.last.looked_at)
    assert (facts["request"], facts["it said"]) == ("req_test_1", "tools.0.name: bad")
    asked, _ = await failed([ErrorEvent("invalid_request_error", "odd")], client)
    assert dict(asked.last.looked_at)["request"] == "req_test_1"


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
async def test_what_may_pass_is_tried_again(client, status):
    asked, server = await failed([Status(status), Status(status), Answer("There.")], client)
    assert isinstance(asked.last, Reply)
    assert [part.attempt for part in asked.of(Retrying)] == [1, 2]
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    "fault",
    [
        Status(400, headers={"x-should-retry": "true"}),
        Raw([b'{"error":{"type":"overloaded_error"}}'], {}, "application/json"),
    ],
)
async def test_the_service_s_word_on_trying_again_wins(client, fault):
    asked, server = await failed([fault, Answer("There.")], client)
    assert isinstance(asked.last, Reply)
    assert len(server.requests) == 2


@pytest.mark.promise("F60")
async def test_when_all_tries_are_spent_the_agent_is_paused_and_nothing_is_lost(client, quick):
    async with (
        asyncio.timeout(WAIT_S),
        LoopbackModel([Status(529), Status(529), Status(529), Answer("Later.")]) as server,
        client(server.url, settings=quick(retries=2)) as c,
    ):
        first = await c.ask()
        assert isinstance(first.last, Failure)
        assert first.last.retriable
        assert ("tried", "3 times") in first.last.looked_at
        assert isinstance((await c.ask()).last, Reply)


async def test_after_a_first_reply_a_failure_says_so(client):
    async with asyncio.timeout(WAIT_S), LoopbackModel(["Yes.", Status(401)]) as server, client(server.url) as c:
        await c.ask()
        assert not (await c.ask()).last.before_first_reply


def test_the_wait_that_a_service_asks_for_is_read_in_all_three_spellings():
    assert retry_after_s({"retry-after": "7"}) == 7.0
    assert retry_after_s({"retry-after": "0.25"}) == 0.25
    assert retry_after_s({"retry-after-ms": "1500", "retry-after": "9"}) == 1.5
    assert retry_after_s({"retry-after": "Sat, 01 Jan 2000 00:00:00 GMT"}) == 0.0
    assert (retry_after_s({"retry-after": formatdate(4_000_000_000, usegmt=True)}) or 0) > 3000
    for nonsense in (
        {},
        {"retry-after": "soon"},
        {"retry-after": "nan"},
        {"retry-after": "inf"},
        {"retry-after": ""},
        {"retry-after": "Wed, 21 Oct 999999999999 07:28:00 GMT"},
    ):
        assert retry_after_s(nonsense) is None
    assert retry_after_s({"retry-after": "-5"}) == 0.0


@pytest.mark.promise("F60")
@pytest.mark.parametrize("asked_for", [{"retry-after": "0.3"}, {"retry-after-ms": "300"}])
async def test_the_wait_that_a_service_asks_for_is_kept(client, asked_for):
    asked, _ = await failed([Status(429, headers=asked_for), Answer("There.")], client)
    [retrying] = asked.of(Retrying)
    assert 0.2 < retrying.wait_s < 0.5
    assert isinstance(asked.last, Reply)


async def test_a_server_that_is_not_there_is_told_at_once(client):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        async with asyncio.timeout(WAIT_S), client(url) as c:
            asked = await c.ask()
    assert asked.last.slug == "no-network"
    assert not asked.of(Retrying)


async def test_a_server_that_goes_away_later_is_waited_for(client, quick):
    async with asyncio.timeout(WAIT_S):
        async with LoopbackModel(["Here."]) as server, client(server.url, settings=quick(retries=3)) as c:
            await c.ask()
            await server.__aexit__()
            asked = await c.ask()
            await c.model.aclose()
    assert asked.last.slug in ("no-network", "model-failed")
    assert asked.last.retriable
    assert len(asked.of(Retrying)) == 3


@pytest.mark.promise("F66")
@pytest.mark.parametrize(
    "echo",
    [
        lambda key: Status(401, f"Incorrect API key provided: {key}."),
        lambda key: Status(500, body=f"stack trace: header x-api-key={key}".encode()),
        lambda key: ErrorEvent("invalid_request_error", f"your key {key}"),
        lambda key: Cut(20, Answer(key)),
        lambda key: Stall(1),
        lambda key: Raw([f'{{"error":"{key}"}}'.encode()], {}, "application/json"),
        lambda key: Status(400, "x", headers={"request-id": key}),
    ],
)
async def test_no_failure_repr_or_log_holds_the_key(client, quick, key, echo, caplog):
    caplog.set_level(logging.DEBUG)
    async with (
        asyncio.timeout(WAIT_S),
        LoopbackModel([echo(key)]) as server,
        client(server.url, settings=quick(retries=1, stall_s=0.2)) as c,
    ):
        asked = await c.ask()
        shown = "\n".join([told(asked.last), repr(asked.parts[:-1]), repr(c.model), repr(c.endpoint), caplog.text])
    assert isinstance(asked.last, Failure)
    assert key not in shown
    assert "SECRET" not in shown


@pytest.mark.promise("F66")
async def test_a_wrong_key_is_named_by_its_variable_and_its_last_four(client, key):
    asked, _ = await failed([Status(401, f"bad key {key}")], client)
    facts = dict(asked.last.looked_at)
    assert facts["key"] == "TEST_API_KEY …wxyz"
    assert facts["it said"] == "bad key …wxyz"
    assert asked.last.do == ("export TEST_API_KEY=…",)


@pytest.mark.finding("P17")
@pytest.mark.parametrize(
    "echo",
    [
        lambda key: Status(401, f"Incorrect API key provided: {key[:14]}*****{key[-9:]}."),
        lambda key: Status(401, f"bad key {key[3:11]}"),
        lambda key: Status(401, "x" * 580 + key[:12]),
        lambda key: Status(403, "the string to sign was x-amz-security-token:IQoJb3JpZ2luX2VjEXAMPLE host:y"),
        lambda key: Status(
            500, body=b'{"error": {"message": "sent: {\\"x-api-key\\": \\"IQoJb3JpZ2luX2VjEXAMPLE\\"}"}}'
        ),
        lambda key: ErrorEvent("invalid_request_error", f"your key begins with {key[:10]}"),
        lambda key: Status(400, "x", headers={"request-id": key[2:-2]}),
    ],
)
async def test_an_error_text_repeats_no_piece_of_a_key(client, quick, key, echo, caplog):
    caplog.set_level(logging.DEBUG)
    async with (
        asyncio.timeout(WAIT_S),
        LoopbackModel([echo(key)]) as server,
        client(server.url, settings=quick(retries=0)) as c,
    ):
        asked = await c.ask()
    assert isinstance(asked.last, Failure)
    shown = "\n".join([told(asked.last), repr(asked.parts), caplog.text])
    pieces = {key[at : at + 8] for at in range(len(key) - 7)} | {"IQoJb3Jp"}
    assert not [piece for piece in pieces if piece in shown]


@pytest.mark.promise("F66")
@pytest.mark.parametrize("stray", ["sk-test-SECRET\nwxyz-0123456789", "sk-test-SECRET-ключ-0123456789"])
async def test_a_key_that_fits_no_header_is_a_failure_without_the_key(client, stray):
    async with asyncio.timeout(WAIT_S), LoopbackModel() as server, client(server.url, key=stray) as c:
        asked = await c.ask()
    assert asked.last.slug == "model-failed"
    assert "SECRET" not in told(asked.last)


@pytest.mark.promise("F66")
async def test_a_password_in_the_address_is_never_shown(client):
    async with asyncio.timeout(WAIT_S), LoopbackModel([Status(400, "pw-in-url-77 is odd")]) as server:
        url = server.url.replace("http://", "http://ann:pw-in-url-77@")
        async with client(url) as c:
            asked = await c.ask()
            assert "pw-in-url-77" not in told(asked.last) + repr(c.model)


USED = {"input_tokens": 120, "output_tokens": 1, "cache_read_input_tokens": 1_000}


@pytest.mark.promise("H10")
async def test_what_broken_tries_had_used_comes_with_the_answer(client):
    broken = ErrorEvent(answer=Answer("This breaks.", usage=USED))
    cut = Answer("Whole.", usage={"input_tokens": 7, "output_tokens": 2})
    asked, server = await failed([broken, Status(529), broken, cut], client)
    reply = asked.last
    assert isinstance(reply, Reply) and len(server.requests) == 4
    assert (reply.usage.tokens, reply.usage.requests) == (9, 1)
    assert (reply.failed_usage.input_tokens, reply.failed_usage.cache_read, reply.failed_usage.requests) == (
        240,
        2_000,
        2,
    )
    assert reply.failed_usage.usd == pytest.approx(
        (reply.failed_usage.input_tokens + 2_000) * 1e-6 + reply.failed_usage.output_tokens * 1e-5
    )


@pytest.mark.promise("H10")
async def test_what_a_call_had_used_that_failed_for_good_comes_with_its_failure(client, quick):
    broken = ErrorEvent(answer=Answer("This breaks.", usage=USED))
    asked, _ = await failed([broken] * 3, lambda url: client(url, settings=quick(retries=2)))
    assert isinstance(asked.last, Failure)
    assert (asked.last.failed_usage.prompt_tokens, asked.last.failed_usage.requests) == (3_360, 3)
    asked, _ = await failed([Status(401)], client)
    assert (asked.last.failed_usage.tokens, asked.last.failed_usage.requests) == (0, 0)


_names = st.sampled_from(
    ["error", "message", "type", "code", "status", "details", "reason", "violations", "quotaId", "@type", "retryDelay"]
)
_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["²", "400", "insufficient_quota"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names | st.text(max_size=3), inner, max_size=5),
    max_leaves=20,
)


@pytest.mark.finding("3L8")
@given(_json)
@example({"error": {"details": [{"reason": ["x"]}, {"violations": 5}], "code": "²"}})
def test_the_body_of_an_error_never_raises_anything(value):
    body = json.dumps(value).encode()
    for status in (200, 400, 500):
        assert parse_http_error(status, {}, body).kind == "http"
    assert parse_event_error(body, "").kind == "http"


@pytest.mark.finding("3L8")
def test_the_body_of_an_error_with_100000_levels_is_read_as_text():
    assert parse_http_error(400, {}, b"[" * 100_000).answer.status == 400
