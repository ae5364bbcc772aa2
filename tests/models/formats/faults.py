"""The table of faults: what each fault of a service becomes in each format, found by running it on loopback.

`python -m tests.models.formats.faults` writes docs/reference/service-faults.md; a test compares the page with a run.
"""

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path

from teamwright.models.endpoint import Endpoint, Signing
from teamwright.models.model import Failure, ModelCard, Prefix, Request, Retrying
from teamwright.models.model_pool import format_for
from teamwright.models.model_settings import ModelSettings
from teamwright.models.rate_limit import RateLimiter
from teamwright.models.service_model import ServiceModel
from teamwright.protocol.messages import UNPARSED_ARGUMENTS, encode, text_block
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, Cut, ErrorEvent, Raw, ScriptedReply, Stall, Status
from tests.support.waits import WAIT_S

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "service-faults.md"
UNPARSED = "The model produced output that does not match the expected peg-native format"
LONG = "This much had come, and a person has read it. " * 90
CALL = [("Read", {"path": "x"})]
FORMATS = {
    "Messages": ("messages", {}),
    "Chat Completions": ("openai-chat", {"auth": "bearer"}),
    "Responses": ("openai-responses", {"auth": "bearer"}),
    "Gemini": ("gemini", {"auth": "x-goog-api-key"}),
    "Bedrock": ("bedrock", {"auth": "signed", "signing": Signing("eu-central-1", "AKIATESTACCESSKEY")}),
}


def nested(levels: int) -> dict:
    found: dict = {}
    for _ in range(levels):
        found = {"a": found}
    return found


FAULTS: Mapping[str, ScriptedReply] = {
    "HTTP 400": Status(400, "bad request"),
    "HTTP 400, the prompt is too long": Status(400, "prompt is too long: 9000 tokens > 8000 maximum"),
    "HTTP 400, vLLM's words for a full window": Status(
        400, "This model's maximum context length is 8000 tokens. However, you requested 9000 tokens"
    ),
    "HTTP 400, llama.cpp's words for a full window": Status(
        400, "the request exceeds the available context size, try increasing it"
    ),
    "HTTP 400, the model has no tools": Status(400, "phi does not support tools"),
    "HTTP 401": Status(401, "invalid key"),
    "HTTP 402": Status(402, "credit balance is too low"),
    "HTTP 403": Status(403, "not allowed"),
    "HTTP 403, about the key": Status(403, "invalid api key"),
    "HTTP 404 in the service's words": Status(404, "no such model"),
    "HTTP 404 of another server": Status(404, body=b"<html>not here</html>"),
    "HTTP 408": Status(408, "timeout"),
    "HTTP 409": Status(409, "conflict"),
    "HTTP 413": Status(413, "too large"),
    "HTTP 422": Status(422, "cannot be processed"),
    "HTTP 429": Status(429, "slow down"),
    "HTTP 429, wait 0.01 seconds": Status(429, "slow down", retry_after=0.01),
    "HTTP 429, wait 400 seconds": Status(429, "slow down", retry_after=400),
    "HTTP 429, wait 2 days": Status(429, "slow down", retry_after=172_800),
    "HTTP 500": Status(500, "broken"),
    "HTTP 502": Status(502, "broken"),
    "HTTP 503": Status(503, "loading"),
    "HTTP 504": Status(504, "timeout"),
    "HTTP 529": Status(529, "overloaded"),
    "HTTP 302": Status(302, headers={"location": "http://127.0.0.1:1/"}),
    "a page of HTML with status 200": Raw([b"<html>hello</html>"], content_type="text/html"),
    "an error with status 200": Raw(
        [b'{"error": {"type": "invalid_request_error", "message": "bad"}}'], content_type="application/json"
    ),
    "a stream without an event": Raw([]),
    "bytes that are no stream": Raw([b"\x00\xff\x13garbage\n\n"]),
    "an event that is no JSON": Raw([b"data: {broken\n\n"]),
    "a stream that ends before its first byte": Cut(0, Answer(LONG)),
    "a stream that breaks off in its text": Cut(6_000, Answer(LONG)),
    "silence after the first event": Stall(1, Answer(LONG), pings=False),
    "nothing but signs of life": Stall(1, Answer(LONG)),
    "an error inside the stream, overloaded": ErrorEvent(answer=Answer(LONG)),
    "an error inside the stream, bad request": ErrorEvent("invalid_request_error", "bad", answer=Answer(LONG)),
    "HTTP 500, llama.cpp's words for a call that it cannot parse": Status(500, UNPARSED),
    "an error inside the stream, a call that cannot be parsed": ErrorEvent("server_error", UNPARSED, 3, Answer(LONG)),
    "the output limit is reached": Answer("Half.", stop_reason="max_tokens"),
    "the output limit is reached in a call": Answer("", CALL, stop_reason="max_tokens"),
    "the filter stops the answer": Answer("Half.", stop_reason="content_filter"),
    "the model refuses": Answer("No.", stop_reason="refusal"),
    "an unknown end": Answer("Half.", stop_reason="a_new_reason"),
    "an empty answer": Answer(""),
    "thinking alone": Answer("", thinking="Hm."),
    "the end for calls, without a call": Answer("I read it.", stop_reason="tool_use"),
    "a call without a name": Answer("", [("", {"path": "x"})]),
    "a call with a name that services refuse": Answer("", [("f.Read it", {"path": "x"})]),
    "arguments with 300 levels": Answer("", [("Read", nested(300))]),
    "no use reported": Answer("Yes.", usage={"input_tokens": 0, "output_tokens": 0}),
    "`<think>` in the text": Answer("<think>Hm.</think>Yes."),
}
STALLED = ("silence", "nothing but")

HEAD = """# Faults of model services

A server on loopback makes each fault below in each format, and the table shows the result of the model call. The
command `python -m tests.models.formats.faults` writes the table, with one retry instead of ten. A test compares it.

- *Answer* is followed by the [end](answer-ends.md) of the answer.
- Another first word is the [error](errors.md) of the model call.
- *Once*: the request is not tried again.
- *Later*: the same request may work later, and the agent is paused.
- *Tries again automatically*: the paused agent tries again when the limit has passed.

"""


def outcome(parts: list, requests: int) -> str:
    """A few words about what came of a fault."""
    last = parts[-1]
    if isinstance(last, Failure):
        words = [last.slug, "once" if requests == 1 else f"tried {requests} times"]
        if last.retry_after_s is not None:
            words.append("tries again automatically")
        elif last.retriable:
            words.append("later")
        return ", ".join(words)
    words = [f"answer: {last.end}"]
    names = [block["name"] for block in last.content if block["type"] == "tool_use"]
    words += [f"call of {name}" for name in names if name != "Read"]
    if any(UNPARSED_ARGUMENTS in block.get("input", {}) for block in last.content):
        words.append("arguments explained to the model")
    if last.usage.usd is None:
        words.append("price unknown")
    if any(block["type"] == "thinking" and block.get("by") == "think-tags" for block in last.content):
        words.append("thinking")
    return ", ".join(words)


async def run(fault: str, reply: ScriptedReply, name: str) -> str:
    """The outcome of one fault in one format."""
    api, more = FORMATS[name]
    async with asyncio.timeout(WAIT_S), LoopbackModel([reply]) as server:
        url = f"{server.url}/v1" if api.startswith("openai") else server.url
        endpoint = Endpoint("custom", url, "sk-test-0123456789", key_name="KEY", api=api, **more)
        card = ModelCard("custom/test", "test", "custom", usd_in=1.0, usd_out=1.0, think_tags=True)
        stall = {"stall_s": 0.3} if fault.startswith(STALLED) else {}
        settings = ModelSettings(retries=1, backoff_s=0.001, backoff_most_s=0.01, **stall)
        rate_limiter = RateLimiter(backoff_s=0.001, max_backoff_s=0.01)
        model = ServiceModel(
            card, endpoint, rate_limiter=rate_limiter, settings=settings, api_format=format_for(card, endpoint)
        )
        prefix = Prefix.build({"model": "test", "max_tokens": 100})
        request = Request(prefix, [encode({"role": "user", "content": [text_block("Hello")]})], "ada")
        parts = [part async for part in model.stream(request) if not isinstance(part, Retrying)]
        await model.aclose()
        return outcome(parts, len(server.requests))


async def page() -> str:
    """The whole page."""
    lines = [f"| fault | {' | '.join(FORMATS)} |", f"|---{'|---' * len(FORMATS)}|"]
    for fault, reply in FAULTS.items():
        cells = await asyncio.gather(*(run(fault, reply, name) for name in FORMATS))
        lines.append(f"| {fault} | {' | '.join(cells)} |")
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(asyncio.run(page()))
    sys.stdout.write(f"{PAGE}\n")
