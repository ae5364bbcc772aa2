"""Every end of an answer in every format: its meaning, its effect on the turn, and the team's notice."""

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from teamwright import Result, Team
from teamwright.agent.conversation import Conversation, UserMessage
from teamwright.agent.turn_loop import run_turn
from teamwright.models.model import ENDS, AnswerEnd, ModelCard
from teamwright.protocol.messages import text_block
from teamwright.testing import ScriptedModel
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from teamwright.ui.headless.run_output import result_object
from tests.agent.parts import Echo, an_agent

CALL = [("Echo", {"text": "x"})]
EACH = {
    AnswerEnd.DONE: [Answer("Half.")],
    AnswerEnd.TOOL_CALLS: [Answer("Half.", CALL), Answer("Whole.")],
    AnswerEnd.LENGTH: [Answer("Half.", stop_reason="max_tokens")] * 3,
    AnswerEnd.FILTERED: [Answer("Half.", CALL, stop_reason="content_filter")],
    AnswerEnd.REFUSED: [Answer("Half.", CALL, stop_reason="refusal")],
    AnswerEnd.EMPTY: [Answer("")] * 3,
    AnswerEnd.UNKNOWN: [Answer("Half.", CALL, stop_reason="a_new_reason")],
}
FAILING = [end for end in EACH if ENDS[end].is_failure]
FORMATS = ["messages", "openai-chat", "openai-responses", "gemini", "bedrock"]


@pytest.fixture
def speaks(speaking, client):
    return lambda api, url: client(url) if api == "messages" else speaking(api, url)


async def turn(tmp_path, caller, agent_of=None):
    """One turn with an adapter, the tool of the agent, and the agent."""
    tool = Echo()
    agent, _ = an_agent(tmp_path, caller.model, [tool])
    end = await run_turn(agent, UserMessage((text_block("hello"),)))
    return end, tool, agent


@pytest.mark.finding("M5", "M8")
@pytest.mark.parametrize("end", EACH)
@pytest.mark.parametrize("api", FORMATS)
async def test_every_format_gives_every_end_its_one_meaning(tmp_path, speaks, api, end):
    async with LoopbackModel(EACH[end]) as server, speaks(api, server.url) as caller:
        ended, tool, agent = await turn(tmp_path, caller)
    failed = end in FAILING
    assert (ended.stop, ended.failure.slug if ended.failure else "") == (
        ("failed", "no-answer") if failed else ("done", "")
    )
    assert ended.answer_end == (AnswerEnd.DONE if end is AnswerEnd.TOOL_CALLS else end)
    assert tool.started.is_set() == (end is AnswerEnd.TOOL_CALLS), "only calls of an answer that asks for them are run"
    assert len(server.requests) == len(EACH[end]), "asked again as often as the table says"
    words = {AnswerEnd.LENGTH: "Half.Half.Half.", AnswerEnd.EMPTY: "", AnswerEnd.TOOL_CALLS: "Whole."}.get(end, "Half.")
    assert ended.text == words, "what came is kept"
    kept = b"".join(agent.conversation.items)
    assert (b"tool_use" in kept) == (end is AnswerEnd.TOOL_CALLS), "no call is left without a result"
    agent.conversation.close()
    assert Conversation.load(agent.conversation.path, agent.conversation.prefix).items == agent.conversation.items


@pytest.mark.finding("M5", "M3")
@pytest.mark.parametrize(
    ("answer", "end", "asked"),
    [
        (Answer("I read it.", stop_reason="tool_use"), "empty", 3),
        (Answer("", thinking="Hm.", stop_reason="max_tokens"), "length", 3),
        (Answer("Still looking.", stop_reason="pause_turn"), "paused", 24),
    ],
)
async def test_an_answer_without_its_call_or_words_or_end_fails_after_a_few_tries(tmp_path, client, answer, end, asked):
    async with LoopbackModel([answer] * 30) as server, client(server.url) as caller:
        ended, _, _ = await turn(tmp_path, caller)
    assert (ended.stop, ended.answer_end, len(server.requests)) == ("failed", end, asked)


class Mixed(ScriptedModel):
    """The lead answers from a script, each member from its own adapter."""

    def __init__(self, lead, members):
        super().__init__({"lead": lead}, card=ModelCard("mixed", "mixed", "mixed", usd_in=0.0, usd_out=0.0))
        self.members = members

    async def stream(self, request):
        model = self.members.get(request.agent_name)
        async for part in super().stream(request) if model is None else model.stream(request):
            yield part


@pytest.mark.finding("M5", "M8")
@pytest.mark.parametrize("api", FORMATS)
@pytest.mark.slow_after(1)
async def test_a_member_without_a_usable_answer_has_failed_and_the_lead_is_told_why(tmp_path, speaks, api):
    async with AsyncExitStack() as stack:
        members = {}
        for end in FAILING:
            server = await stack.enter_async_context(LoopbackModel(EACH[end]))
            members[end.value] = (await stack.enter_async_context(speaks(api, server.url))).model
        model = Mixed(["I wait."] * 20, members)
        team = await stack.enter_async_context(Team("crew", model=model, cwd=tmp_path, env={}))
        for name in members:
            await team.spawn(name, "Look.")
        result = await team.run("Go.")
        told = "\n".join(
            model.request_text(number) for number, one in enumerate(model.requests) if one.agent_name == "team-lead"
        )
    errors = {one.name: one.error for one in result.members if one.name in members}
    assert all(ENDS[AnswerEnd(name)].what in error for name, error in errors.items()) and len(errors) == len(FAILING)
    assert all(ENDS[end].what in told for end in FAILING)


@pytest.mark.finding("M5")
async def test_a_lead_without_a_usable_answer_is_an_error_in_the_json_and_the_exit_code(tmp_path, client):
    async with (
        LoopbackModel(EACH[AnswerEnd.REFUSED]) as server,
        client(server.url) as caller,
        Team("crew", model=caller.model, cwd=tmp_path, env={}) as team,
    ):
        result: Result = await team.run("Go.")
    said = result_object(result)
    assert (result.exit_code, result.ok, result.text) == (1, False, "Half.")
    assert (said["subtype"], said["is_error"], said["team"]["end"]) == ("error_during_execution", True, "refused")
    assert said["team"]["error"]["slug"] == "no-answer"


def test_the_page_has_a_row_for_every_end_and_says_which_ends_fail():
    page = (
        (Path(__file__).parents[3] / "docs" / "reference" / "answer-ends.md")
        .read_text()
        .partition("## Effects of each end")[2]
    )
    rows = {row.split("|")[1].strip(" `"): row for row in page.splitlines() if row.startswith("| `")}
    assert set(rows) == {end.value for end in AnswerEnd}
    assert {name for name, row in rows.items() if "error_during_execution" in row} == {
        e for e in AnswerEnd if ENDS[e].is_failure
    }
    assert all(("not run" in row or "–" in row) or ENDS[AnswerEnd(name)].runs_calls for name, row in rows.items())
