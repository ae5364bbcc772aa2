"""A server of the user computes for minutes: what is known of it meanwhile, how long it may take, and who waits for a
slot of it."""

import asyncio
import json

import pytest

from teamwright.models import stream
from teamwright.models.endpoint import Endpoint
from teamwright.models.model import SLOT_WAIT, AlivePart, Failure, Reply, Request, TextPart, find_cause
from teamwright.models.model_pool import ModelPool
from teamwright.models.model_settings import CustomProvider, ModelSettings
from teamwright.models.rate_limit import RateLimiter, rate_limiter_for
from teamwright.models.rate_limit_store import FileRateLimitStore
from teamwright.models.request_prefix import build_prefix
from teamwright.models.stream import Timeouts
from teamwright.protocol.messages import message_text
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, Raw, Stall
from tests.models.conftest import quick, user
from tests.models.test_governor_shared import Child
from tests.support.slow_server import chunk, progress, props, spoken
from tests.support.waits import WAIT_S

pytestmark = pytest.mark.finding("R9")

PATHS = {"openai-chat": "/v1", "openai-responses": "/v1", "messages": ""}


def custom(url, api="openai-chat", **more):
    return quick(custom={"house": CustomProvider(base_url=url + PATHS[api], api=api)}, **more)


async def opened(pool, settings):
    return await pool.open_model("house/smollm2", {}, settings)


def request_to(model):
    return Request(build_prefix(model.card, ModelSettings(), [], []), [user()], "ada")


async def asked(model):
    return [part async for part in model.stream(request_to(model))]


def shares(parts):
    return [part.prompt_read for part in parts if isinstance(part, AlivePart) and part.prompt_read is not None]


def response(kind, **more):
    body = {"type": f"response.{kind}", **more}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def response_progress(read):
    about = {"prompt_progress": {"total": 100, "cache": 0, "processed": read, "time_ms": 1}}
    return response("in_progress", response={"status": "in_progress"}, **about)


RESPONSE = [
    response("created", response={"id": "r", "model": "smollm2", "status": "in_progress"}),
    *map(response_progress, (0, 41, 100)),
    response("output_text.delta", item_id="m", delta="Done."),
    response("completed", response={"status": "completed", "usage": {"input_tokens": 100, "output_tokens": 2}}),
]


# ── how far the prompt is read ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("api", "chunks"),
    [("openai-chat", [*map(progress, (0, 41, 100)), *spoken("Done.")]), ("openai-responses", RESPONSE)],
)
async def test_llamacpp_is_asked_how_far_it_reads_and_its_reports_are_no_part_of_the_answer(api, chunks):
    server = LoopbackModel([Raw(chunks)], facts=props(2))
    async with asyncio.timeout(WAIT_S), server, ModelPool() as pool:
        parts = await asked(await opened(pool, custom(server.url, api)))
    assert server.bodies[0]["return_progress"] is True
    assert shares(parts) == [0.0, 0.0, 0.41, 1.0], "the first one says that the server has the request"
    reply = parts[-1]
    assert isinstance(reply, Reply)
    assert (message_text(reply.content), reply.usage.input_tokens, reply.usage.requests) == ("Done.", 100, 1)


@pytest.mark.parametrize("api", list(PATHS))
async def test_no_other_server_gets_a_field_that_it_may_not_know(api):
    async with asyncio.timeout(WAIT_S), LoopbackModel() as server, ModelPool() as pool:
        parts = await asked(await opened(pool, custom(server.url, api)))
    assert "return_progress" not in server.bodies[0]
    assert shares(parts) == [0.0]


@pytest.mark.parametrize(
    "report",
    [{}, {"total": 0, "processed": 3}, {"total": "x"}, {"total": 10, "processed": -5}, {"total": 1, "processed": 9}],
)
async def test_a_report_that_says_nothing_of_use_does_no_harm(report):
    odd = chunk({"role": "assistant", "content": None}, prompt_progress=report)
    server = LoopbackModel([Raw([odd, *spoken("Done.")])], facts=props(1))
    async with asyncio.timeout(WAIT_S), server, ModelPool() as pool:
        parts = await asked(await opened(pool, custom(server.url)))
    assert isinstance(parts[-1], Reply)
    assert all(0 <= share <= 1 for share in shares(parts))


async def test_an_attempt_that_only_read_the_prompt_is_not_charged_as_an_answer():
    server = LoopbackModel([Raw([progress(41)]), Raw(spoken("Done."))], facts=props(1))
    async with asyncio.timeout(WAIT_S), server, ModelPool() as pool:
        reply = (await asked(await opened(pool, custom(server.url))))[-1]
    assert isinstance(reply, Reply)
    assert (reply.failed_usage.requests, len(server.bodies)) == (0, 2)


# ── how long it may take ──────────────────────────────────────────────────────────────────────────────────────


def test_the_deadline_of_a_local_server_is_long_until_its_answer_begins_and_as_before_after_that():
    local = Endpoint("llamacpp", "http://127.0.0.1:8080", is_local=True)
    remote = Endpoint("openai", "https://api.openai.com/v1", api="openai-responses")
    vendor = Endpoint("anthropic", "https://api.anthropic.com")
    found = [Timeouts.from_settings(ModelSettings(), one) for one in (local, remote, vendor)]
    assert [(one.first_s, one.stall_s) for one in found] == [(3600, 600), (600, 600), (90, 90)]
    said = Timeouts.from_settings(ModelSettings(stall_s=30), local)
    assert (said.first_s, said.stall_s, said.read_s) == (30, 30, 30), "the user's own word holds for both"


async def test_while_the_prompt_is_read_no_deadline_of_an_answer_ends_the_request(monkeypatch):
    monkeypatch.setattr(stream, "FIRST_CONTENT_S", 10 * WAIT_S)
    monkeypatch.setattr(stream, "STALL_QUIET_S", 0.05)
    go = asyncio.Event()

    async def before(number):
        if number == 1:
            asyncio.get_running_loop().call_later(0.2, go.set)  # four times the deadline of an answer
            await go.wait()

    server = LoopbackModel([Raw([progress(41), *spoken("Done.")], before=before)], facts=props(1))
    async with asyncio.timeout(WAIT_S), server, ModelPool() as pool:
        assert isinstance((await asked(await opened(pool, custom(server.url))))[-1], Reply)
    assert len(server.bodies) == 1


async def test_an_answer_that_has_begun_and_stops_is_ended_and_the_text_says_what_was_seen(monkeypatch):
    monkeypatch.setattr(stream, "FIRST_CONTENT_S", 10 * WAIT_S)
    monkeypatch.setattr(stream, "STALL_QUIET_S", 0.05)
    begun = Raw([progress(100), chunk({"content": "I "})], close=False)
    server = LoopbackModel([begun], facts=props(1))
    async with asyncio.timeout(WAIT_S), server, ModelPool() as pool:
        parts = await asked(await opened(pool, custom(server.url, retries=0)))
    failure = parts[-1]
    assert isinstance(failure, Failure)
    assert failure.what == "house continued no answer within 0 s"
    assert "it said" not in dict(failure.looked_at)
    assert [part.text for part in parts if isinstance(part, TextPart)] == ["I "]


async def test_a_silent_service_is_not_quoted_with_our_words(client):
    server = LoopbackModel([Stall(0, pings=False)])
    async with asyncio.timeout(WAIT_S), server, client(server.url, settings=quick(retries=0, stall_s=0.1)) as caller:
        failure = (await caller.ask()).last
    assert failure.what == "custom began no answer within 0 s"
    assert find_cause(failure.looked_at) == ""


# ── its slots ─────────────────────────────────────────────────────────────────────────────────────────────────


class Busy:
    """A script that counts the requests under way; each waits until the test lets it go."""

    def __init__(self):
        self.running = self.most = 0
        self.arrived = asyncio.Semaphore(0)
        self.go = asyncio.Semaphore(0)

    async def __call__(self, _):
        self.running += 1
        self.most = max(self.most, self.running)
        self.arrived.release()
        await self.go.acquire()
        self.running -= 1
        return Answer("Done.")


@pytest.mark.parametrize("slots", [1, 2])
async def test_a_server_gets_no_more_requests_than_it_has_slots_and_those_who_wait_say_so(slots):
    busy = Busy()
    async with asyncio.timeout(WAIT_S), LoopbackModel(busy, facts=props(slots)) as server, ModelPool() as pool:
        model = await opened(pool, custom(server.url))
        calls = [asyncio.create_task(asked(model)) for _ in range(4)]
        for _ in calls:
            await busy.arrived.acquire()
            busy.go.release()
        answers = await asyncio.gather(*calls)
    assert busy.most == slots
    assert all(isinstance(parts[-1], Reply) for parts in answers)
    assert sum(AlivePart(SLOT_WAIT) in parts for parts in answers) == 4 - slots


async def test_the_users_own_number_of_requests_counts_more_than_the_servers():
    busy = Busy()
    async with asyncio.timeout(WAIT_S), LoopbackModel(busy, facts=props(1)) as server, ModelPool() as pool:
        house = CustomProvider(base_url=f"{server.url}/v1", api="openai-chat", requests=3)
        model = await opened(pool, quick(custom={"house": house}))
        calls = [asyncio.create_task(asked(model)) for _ in range(3)]
        for _ in calls:
            await busy.arrived.acquire()
        for _ in calls:
            busy.go.release()
        await asyncio.gather(*calls)
    assert busy.most == 3


async def test_a_call_that_is_cancelled_leaves_its_slot_to_the_next_one_and_so_does_one_that_waits():
    busy = Busy()
    async with asyncio.timeout(WAIT_S), LoopbackModel(busy, facts=props(1)) as server, ModelPool() as pool:
        model = await opened(pool, custom(server.url))
        first = asyncio.create_task(asked(model))
        await busy.arrived.acquire()
        waiting = model.stream(request_to(model))
        assert await anext(waiting) == AlivePart(SLOT_WAIT)
        await waiting.aclose()
        last = asyncio.create_task(asked(model))
        first.cancel()
        await busy.arrived.acquire()
        busy.go.release()
        busy.go.release()
        assert isinstance((await last)[-1], Reply)


async def test_processes_share_the_slots_and_a_call_says_that_it_waits_for_another_process(tmp_path):
    page = tmp_path / "governors" / "a"
    mine = RateLimiter(max_running=1, store=FileRateLimitStore(page))
    child = Child("holds_one", page)
    try:
        assert [await child.says(), await child.says()] == ["ready", "in"]
        assert mine.try_permit() is None
        waiting = asyncio.create_task(mine.permit().__aenter__())
        done, _ = await asyncio.wait({waiting}, timeout=0.2)
        assert not done
    finally:
        child.kill()
        child.process.communicate()
    async with asyncio.timeout(WAIT_S):
        await waiting
    assert mine.running_count == 1


def test_a_credential_keeps_its_one_limiter_when_its_server_has_another_number_of_slots(tmp_path):
    page = tmp_path / "governors" / "a"
    first = rate_limiter_for("slots", page, 1)
    assert first.limit == 1
    assert rate_limiter_for("slots", page, 3) is first
    assert first.limit == 3
