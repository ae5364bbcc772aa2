"""After each fault of an answer a strict service accepts the next request, and the conversation continues."""

import asyncio
import json

import pytest

from teamwright.agent.turn_loop import run_turn
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, Status
from tests.agent.test_refused_conversations import agent_at, prompt
from tests.agent.wire_faults import FAULTS, PATHS
from tests.models.formats.strict_service import violations
from tests.support.waits import WAIT_S

EVERYDAY = ("the id of an earlier call", "an integer of 5,000 digits in arguments", "another answer after the end")
"""The faults that are tried in every run; the others in `make test-all`."""


ACCEPTED_AFTER_REPAIR = ("thinking without a proof",)
"""Faults after which a service may refuse the request: it is sent once more without the thinking."""


async def continues_after(tmp_path, api: str, fault: str) -> None:
    """A turn with a call, then the fault, then two more turns, at a service that checks every request."""
    refused: list[str] = []
    count = 0

    def script(body):
        nonlocal count
        count += 1
        if found := violations(api, body):
            refused.extend(found)
            return Status(400, "; ".join(found))
        text = json.dumps(body)
        if count == 1:
            return Answer("I echo.", [("Echo", {"text": "x"})])
        return FAULTS[fault](api) if "FAULT" in text and "continue" not in text and count < 12 else Answer("Well.")

    async with (
        asyncio.timeout(WAIT_S),
        LoopbackModel(script) as server,
        agent_at(tmp_path, api, server, stall_s=0.5) as (agent, _),
    ):
        agent.model_calls_left = 3
        await run_turn(agent, prompt("FAULT"))
        agent.model_calls_left = None
        for _ in range(2):
            end = await run_turn(agent, prompt("continue"))
            assert end.stop == "done", end.explanation
        assert not refused or fault in ACCEPTED_AFTER_REPAIR


@pytest.mark.finding("3L6", "3L8", "3L14")
@pytest.mark.parametrize("fault", EVERYDAY)
@pytest.mark.parametrize("api", PATHS)
async def test_the_conversation_continues_after_a_fault(tmp_path, api, fault):
    await continues_after(tmp_path, api, fault)


@pytest.mark.slow
@pytest.mark.finding("3L6", "3L7", "3L8", "3L14")
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("api", PATHS)
async def test_the_conversation_continues_after_every_fault(tmp_path, api, fault):
    await continues_after(tmp_path, api, fault)


def test_the_table_has_a_hundred_faults():
    assert len(FAULTS) >= 100
