"""The loopback model server: what a request costs it does not grow with the requests before."""

import asyncio
import json
from types import SimpleNamespace

import pytest

from teamwright.testing import model_server
from teamwright.testing.model_server import LoopbackModel

ROUNDS = 300


async def converse(server: LoopbackModel) -> None:
    """One session of `ROUNDS` model calls over one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
    for number in range(ROUNDS):
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": f"round {number}"}]}).encode()
        writer.write(b"POST /v1/messages HTTP/1.1\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
        await reader.readuntil(b"\r\n0\r\n\r\n")
    writer.close()


@pytest.mark.finding("T18")
@pytest.mark.parametrize(("script", "decoded"), [(["Hello."], 0), (lambda _body: "Hello.", ROUNDS)])
async def test_a_session_of_300_rounds_decodes_each_body_once_and_only_where_the_script_reads_it(
    script, decoded, monkeypatch
):
    calls = []
    counting = SimpleNamespace(loads=lambda body: calls.append(len(body)) or json.loads(body), dumps=json.dumps)
    monkeypatch.setattr(model_server, "json", counting)
    async with LoopbackModel(script, keep=5) as server:
        await converse(server)
        assert len(calls) == decoded
        assert [body["messages"][0]["content"] for body in server.bodies] == [f"round {n}" for n in range(295, 300)]
