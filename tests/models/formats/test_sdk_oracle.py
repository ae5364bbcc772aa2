"""Recorded and damaged answers, read by the vendors' SDKs too: the same, or an error that names what is missing."""

import asyncio
import json
from pathlib import Path

import pytest

from teamwright.models.model import Failure, Reply
from teamwright.protocol.messages import UNPARSED_ARGUMENTS
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Raw, Status
from teamwright.testing.recordings import load_recording
from tests.models.formats.field_fuzz import (
    ANSWER,
    PATHS,
    VALUES,
    damaged_events,
    encoded,
    goes_on_after_its_end,
)
from tests.models.formats.sdk_readers import UNCOUNTED, AnswerRead, as_read, sdk_reader
from tests.models.formats.wire_fuzz import NAMES_WHAT_IS_MISSING
from tests.support.waits import WAIT_S

SEEDS = 60
MANY_SEEDS = 1_500

RECORDINGS = Path(__file__).parents[1] / "recordings"
WIRES = {"chat": "openai-chat", "responses": "openai-responses", "messages": "messages"}
RECORDED = {
    path.name: next((api for part, api in WIRES.items() if part in path.name), "") for path in RECORDINGS.iterdir()
}
READ_BY_US_ALONE = {
    "llamacpp-b11434-chat-call.sse": "max_tokens",
    "llamacpp-b11434-chat-wrong-type.sse": "unparsed_call",
    "llamacpp-b11434-chat-unclosed.sse": "unparsed_call",
    "llamacpp-b11434-messages-unparsed.sse": "unparsed_call",
    "llamacpp-b11434-responses-text.sse": "end_turn",
}
"""Recordings for which an SDK raises (at the limit, an error event, events without numbers), and what they end with."""


@pytest.fixture
def ours(speaking, client, quick):
    """The last part that Teamwright makes of the server's answer."""

    def read(api, url):
        async def ask():
            make = client if api == "messages" else lambda url, **more: speaking(api, url, **more)
            async with asyncio.timeout(WAIT_S), make(url, settings=quick(retries=0)) as caller:
                return (await caller.ask()).last

        return asyncio.run(ask())

    return read


def attempt(read):
    """What a SDK read, or what it raised."""
    try:
        return read()
    except Exception as problem:
        return problem


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
@pytest.mark.parametrize("name", sorted(name for name, api in RECORDED.items() if api and name.endswith(".sse")))
def test_a_recorded_answer_is_read_as_its_sdk_reads_it(ours, name):
    api = RECORDED[name]
    with LoopbackModel.in_thread([load_recording(RECORDINGS / name)]) as server, sdk_reader(api, server.url) as read:
        theirs, last = attempt(read), ours(api, server.url)
    if isinstance(theirs, AnswerRead) and isinstance(last, Reply):
        found = as_read(last)
        assert (found.text, found.calls) == (theirs.text, theirs.calls)
        assert theirs.counts in (found.counts, UNCOUNTED), "some servers count where the SDK does not look"
    else:
        assert isinstance(theirs, Exception), f"the SDK read {theirs}"
        assert isinstance(last, Failure) or last.stop_reason == READ_BY_US_ALONE[name], f"the SDK says {theirs!r}"


@pytest.mark.parametrize("name", sorted(name for name in RECORDED if name.endswith(".json")))
@pytest.mark.parametrize("api", PATHS)
def test_a_recorded_refusal_has_the_status_and_the_words_that_the_sdk_reads(ours, api, name):
    recorded = load_recording(RECORDINGS / name)
    assert isinstance(recorded, Status)
    with LoopbackModel.in_thread([recorded]) as server, sdk_reader(api, server.url) as read:
        theirs, last = attempt(read), ours(api, server.url)
    assert getattr(theirs, "status_code", getattr(theirs, "code", None)) == recorded.status == last.http_status
    said = dict(last.looked_at).get("it said", "")
    assert said[:60] in json.loads(recorded.body)["error"]["message"]


def differs(theirs, last):
    """Why the answer is wrong; empty where it is right."""
    if isinstance(last, Failure):
        return "" if NAMES_WHAT_IS_MISSING.search(last.sentence) else last.sentence
    found = as_read(last)
    right = (ANSWER.text, [[name, dict(value)] for name, value in ANSWER.tools])
    if (found.text, found.calls) == right:
        return ""
    if isinstance(theirs, AnswerRead) and (found.text, found.calls) == (theirs.text, theirs.calls):
        return "" if agree(found.counts, theirs.counts) else f"{found.counts} {theirs.counts}"
    wrong = [call for call in found.calls if not is_harmless(call)]
    return f"{wrong}" if wrong else "" if is_made_of_pieces(found.text) else found.text


def agree(found, theirs):
    """Counts are the SDK's, where it has numbers."""
    return all(a == b or a in (0, 1) or not isinstance(b, int) or b < 0 for a, b in zip(found, theirs, strict=True))


def is_harmless(call):
    """Return True for a call that the answer has, or that the toolbox refuses with an explanation for the model."""
    name, arguments = call
    known = {name: dict(value) for name, value in ANSWER.tools}
    return name not in known or set(arguments) <= {*known[name], UNPARSED_ARGUMENTS}


def is_made_of_pieces(text):
    """Return True for a text of pieces that came, or of the values that took their place."""
    pieces = [told[at : at + 24] for told in (ANSWER.text, ANSWER.thinking) for at in range(0, len(told), 24)]
    for piece in (*pieces, *(value for value in VALUES if isinstance(value, str) and value), "\ufffd"):
        text = text.replace(piece, "")
    return not text


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "seeds", [range(SEEDS), pytest.param(range(SEEDS, MANY_SEEDS), marks=pytest.mark.slow)], ids=["some", "many"]
)
@pytest.mark.parametrize("api", PATHS)
def test_a_damaged_answer_is_right_or_as_its_sdk_reads_it_or_an_error_that_says_what_is_missing(ours, api, seeds):
    holder, wrong, compared = {}, {}, 0
    with LoopbackModel.in_thread(lambda _: holder["reply"], keep=2) as server, sdk_reader(api, server.url) as read:
        for seed in seeds:
            events = damaged_events(api, seed)
            if goes_on_after_its_end(api, events):
                continue
            holder["reply"] = Raw([encoded(events, named=api == "messages")])
            theirs = attempt(read)
            compared += isinstance(theirs, AnswerRead)
            if why := differs(theirs, ours(api, server.url)):
                wrong[seed] = why
    assert not wrong
    assert compared > len(seeds) // 4, "the SDK reads many of them"
