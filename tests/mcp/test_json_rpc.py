"""Requests of a server during a call: each is answered or cancelled, and then the time of the call continues."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from teamwright.mcp.json_rpc import MAX_ANSWERING, CallDeadline, JsonRpcPeer, McpServerError, Message
from tests.support.waits import WAIT_S


class SentMessages:
    """A transport whose messages go nowhere but into a list."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.has_sent = asyncio.Event()

    def send(self, message: Message) -> None:
        self.sent.append(message)
        self.has_sent.set()

    def cancel(self, request: int) -> None:
        pass

    async def close(self) -> None:
        pass


def make_peer(answer) -> tuple[JsonRpcPeer, SentMessages]:
    transport = SentMessages()
    return JsonRpcPeer(
        lambda *_: None, lambda _why: None, lambda message: message, transport, answer_request=answer
    ), transport


def ask(number: object) -> Message:
    return {"jsonrpc": "2.0", "id": number, "method": "roots/list"}


def cancel(number: object) -> Message:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}


async def never(_method: str, _params: Mapping[str, Any]) -> Message:
    await asyncio.Event().wait()
    return {}


async def test_requests_that_are_cancelled_at_once_keep_no_place_and_do_not_stop_the_time_of_a_call():
    peer, transport = make_peer(never)
    call = asyncio.create_task(peer.request("tools/call", {}, CallDeadline(0.05, 0.05)))
    await asyncio.sleep(0)
    for number in range(MAX_ANSWERING):
        peer.deliver([ask(number), cancel(number)])
    async with asyncio.timeout(WAIT_S):
        with pytest.raises(McpServerError, match="gave no answer"):
            await call
    peer.deliver(ask("again"))
    assert [one for one in transport.sent if one.get("id") == "again"] == []  # taken, not refused
    await peer.close()


@pytest.mark.parametrize("number", [[], {}, None, 1.5, True])
async def test_a_cancellation_of_what_is_no_request_is_left_out(number):
    peer, _ = make_peer(never)
    assert not peer.deliver(cancel(number))


async def test_an_answer_that_fails_is_an_error_for_the_server_without_its_text():
    async def fail(_method: str, _params: Mapping[str, Any]) -> Message:
        raise OSError("/home/ann/secret")

    peer, transport = make_peer(fail)
    peer.deliver(ask(7))
    async with asyncio.timeout(WAIT_S):
        await transport.has_sent.wait()
    error = {"code": -32603, "message": "this client failed: OSError"}
    assert transport.sent == [{"jsonrpc": "2.0", "id": 7, "error": error}]
