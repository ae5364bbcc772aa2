"""What model calls had used that broke: booked to whom it belongs, held by its caps, and no round."""

import asyncio

import pytest

from teamwright import Budget, Team
from teamwright.models.model import Failure, Reply
from teamwright.protocol.events import ModelCallEnded
from teamwright.protocol.messages import text_block
from teamwright.protocol.usage import Usage
from teamwright.testing import ScriptedModel
from teamwright.views.cost import cost_of
from tests.support.waits import WAIT_S

pytestmark = pytest.mark.promise("H10", "F61")

LOST = Usage(5_000, 10, requests=2, usd=0.0)
USED = Usage(100, 20, requests=1, usd=0.0)


class Breaking(ScriptedModel):
    """Every call breaks twice, and is answered then; ada's is not."""

    async def stream(self, request):
        self.requests.append(request)
        if request.agent_name == "ada":
            yield Failure("model-failed", "it broke", failed_usage=LOST)
        else:
            yield Reply([text_block("Done.")], "end_turn", USED, "m", failed_usage=LOST)


async def test_each_is_booked_to_its_agent_and_all_adds_up(tmp_path):
    ended = []
    async with asyncio.timeout(WAIT_S), Team("crew", model=Breaking("x"), cwd=tmp_path) as team:
        team.session.log.subscribe(lambda _n, e: ended.append(e) if isinstance(e, ModelCallEnded) else None)
        await team.spawn("ada", "Go.")
        await team.run("Go.")
        budget_tracker, home = team.session.agent_factory.budget_tracker, team.session.agent_factory.home
        context = budget_tracker.context["team-lead"]
    lead = [e for e in ended if e.member == "team-lead"]
    rounds = len(lead) // 2
    assert [e.aside for e in lead] == ["failed", ""] * rounds
    assert [(e.aside, e.usage) for e in ended if e.member == "ada"] == [("failed", LOST)]
    view = cost_of(home, tmp_path, "crew")
    assert {line.name: (line.model_calls, line.failed) for line in view.members} == {
        "lead": (rounds, 2 * rounds),
        "ada": (0, 2),
    }
    used = sum(line.tokens_in + line.tokens_out for line in view.members)
    assert (
        used
        == view.total.tokens_in + view.total.tokens_out
        == budget_tracker.total.tokens
        == sum(e.usage.tokens for e in ended)
    )
    assert used == sum(line.tokens_in + line.tokens_out for line in view.models)
    assert view.total.failed_tokens == LOST.tokens * (rounds + 1)
    assert context == USED.tokens, "a broken try says nothing of the context"


async def test_what_broke_counts_for_the_caps(tmp_path):
    budget = Budget(tokens=12_000)
    async with asyncio.timeout(WAIT_S), Team("crew", model=Breaking("x"), cwd=tmp_path, budget=budget) as team:
        ends = [(await team.run("Go.")).stop for _ in range(4)]
        used = team.usage.tokens
    assert ends == ["done", "done", "done", "limit"]
    assert used == 3 * (LOST.tokens + USED.tokens), "three answers, with what broke before each"
