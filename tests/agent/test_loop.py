import asyncio
import json
from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import model_validator

from teamwright.agent.conversation import INTERRUPTED_RESULT, Conversation, UserMessage
from teamwright.agent.tool import ToolContext, ToolResult
from teamwright.agent.toolbox import PreparedCall
from teamwright.agent.turn_loop import run_turn
from teamwright.models.model import Failure
from teamwright.permissions.verdict import Access
from teamwright.protocol.events import AssistantText, ModelCallEnded, TextDelta, ToolCalled
from teamwright.protocol.messages import text_block
from tests.agent.parts import Echo, EchoInput, Listed, an_agent, call, says
from tests.support.waits import WAIT_S

HELLO = UserMessage((text_block("hello"),), ("prompt:1",))


async def test_a_turn_ends_with_the_models_last_text(tmp_path):
    agent, events = an_agent(tmp_path, Listed(says("hi there")))
    end = await run_turn(agent, HELLO)
    assert (end.stop, end.text, end.model_calls) == ("done", "hi there", 1)
    assert [e.text for e in events if isinstance(e, TextDelta)] == ["hi there"]
    assert agent.meter.used.tokens == 15


@pytest.mark.promise("H1")
async def test_calls_are_answered_in_one_user_line_in_their_order(tmp_path):
    model = Listed(says(call("Echo", "t1", text="one"), call("Echo", "t2", text="two")), says("done"))
    agent, events = an_agent(tmp_path, model, [Echo()])
    end = await run_turn(agent, HELLO)
    assert end.tool_calls == 2
    told = model.seen[1][-1]
    assert [(b["tool_use_id"], b["content"]) for b in told["content"]] == [("t1", "one"), ("t2", "two")]
    assert [e.call for e in events if isinstance(e, ToolCalled)] == ["c1", "c2"]


async def test_read_only_calls_of_a_round_run_together_and_others_one_by_one(tmp_path):
    together, alone = Echo(), Echo(reads=False)
    for tool, most in ((together, 3), (alone, 1)):
        model = Listed(says(*(call("Echo", f"t{n}", text="x") for n in range(3))), says("ok"))
        agent, _ = an_agent(tmp_path / str(most), model, [tool])
        await run_turn(agent, HELLO)
        assert tool.most == most


@pytest.mark.promise("P6", "H1")
async def test_writes_to_different_paths_run_together_and_to_one_path_in_turn(tmp_path):
    for paths, most in ((["/a", "/b", "/c"], 3), (["/a", "/a", "/a"], 1)):
        tool = Echo(reads=False)
        calls = [call("Echo", f"t{n}", text="x", path=path) for n, path in enumerate(paths)]
        agent, _ = an_agent(tmp_path / f"n{most}", Listed(says(*calls), says("ok")), [tool])
        await run_turn(agent, HELLO)
        assert tool.most == most


class CountedInput(EchoInput):
    """An input that counts how often it is validated."""

    validated: ClassVar[list[str]] = []

    @model_validator(mode="after")
    def _count(self) -> "CountedInput":
        self.validated.append(self.text)
        return self


async def test_each_call_of_an_answer_is_validated_once(tmp_path):
    for reads in (True, False):
        tool = Echo(reads=reads)
        tool.input_type = CountedInput
        CountedInput.validated.clear()
        calls = [call("Echo", f"t{n}", text=str(n)) for n in range(3)]
        agent, _ = an_agent(tmp_path / str(reads), Listed(says(*calls), says("ok")), [tool])
        await run_turn(agent, HELLO)
        assert CountedInput.validated == ["0", "1", "2"]


class Linked(Echo):
    """Its access is what a link leads to, and running it moves the link."""

    def __init__(self, link: Path) -> None:
        super().__init__(reads=False)
        self.link = link

    def access(self, call: EchoInput, ctx: ToolContext) -> Access:
        return Access(writes=(self.link.resolve(),))

    async def run(self, call: EchoInput, ctx: ToolContext) -> ToolResult:
        self.link.unlink()
        self.link.symlink_to(call.text)
        return ToolResult(call.text)


async def test_the_verdict_on_a_call_is_of_the_files_as_the_calls_before_it_left_them(tmp_path):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "first")
    judged: list[str] = []

    async def gate(call: PreparedCall) -> None:
        judged.extend(path.name for path in call.access.writes)

    calls = [call("Echo", f"t{n}", text=str(tmp_path / name)) for n, name in enumerate(("second", "third"))]
    agent, _ = an_agent(tmp_path, Listed(says(*calls), says("ok")), [Linked(link)], gate=gate)
    await run_turn(agent, HELLO)
    assert judged == ["first", "second"]


@pytest.mark.promise("F39")
async def test_a_tool_that_breaks_is_a_result_and_its_siblings_go_on(tmp_path):
    model = Listed(says(call("Echo", "t1", text="break"), call("Echo", "t2", text="fine")), says("done"))
    agent, _ = an_agent(tmp_path, model, [Echo()])
    await run_turn(agent, HELLO)
    broken, fine = model.seen[1][-1]["content"]
    assert broken["is_error"] and "broken tool" in broken["content"]
    assert fine["content"] == "fine"


async def test_an_unknown_tool_names_the_nearest(tmp_path):
    model = Listed(says(call("echo_", "t1", text="x")), says("done"))
    agent, _ = an_agent(tmp_path, model, [Echo()])
    await run_turn(agent, HELLO)
    assert "Did you mean Echo?" in model.seen[1][-1]["content"][0]["content"]


async def test_a_tool_that_only_other_products_have_names_what_does_its_work_here(tmp_path):
    model = Listed(says(call("TodoWrite", "t1", todos=[])), says("ok"))
    agent, _ = an_agent(tmp_path, model, [Echo()])
    await run_turn(agent, HELLO)
    told = model.seen[1][-1]["content"][0]["content"]
    assert "TaskCreate and TaskUpdate do its work. You have: Echo." in told
    assert "Did you mean" not in told


@pytest.mark.promise("C7b", "F06")
async def test_what_arrives_during_a_round_is_told_before_the_next_model_call(tmp_path):
    model = Listed(says(call("Echo", "t1", text="x")), says("done"))
    agent, _ = an_agent(tmp_path, model, [Echo()])
    flagged = []

    class Mail:
        async def next_input(self):
            async def seen():
                flagged.append(agent.conversation.delivered_ids({"mail:7"}))

            return UserMessage((text_block("stop that"),), ("mail:7",), seen)

    await run_turn(agent, HELLO, Mail())
    assert [b["type"] for b in model.seen[1][-1]["content"]] == ["tool_result", "text"]
    assert flagged == [{"mail:7"}], "the flag comes after the ledger has the id"


@pytest.mark.promise("H1", "H5")
async def test_a_cancelled_call_has_a_result_and_the_next_request_is_complete(tmp_path):
    tool = Echo(reads=True, gate=asyncio.Event())
    model = Listed(says(call("Echo", "t1", text="x"), call("Echo", "t2", text="y")))
    agent, _ = an_agent(tmp_path, model, [tool])
    task = asyncio.ensure_future(run_turn(agent, HELLO))
    async with asyncio.timeout(WAIT_S):
        await tool.started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    last = json.loads(agent.conversation.items[-1])
    assert [b["content"] for b in last["content"]] == [INTERRUPTED_RESULT, INTERRUPTED_RESULT]
    model.answers.append(says("fine"))
    end = await run_turn(agent, UserMessage((text_block("go on"),)))
    assert end.text == "fine"
    agent.conversation.close()
    assert Conversation.load(agent.conversation.path, agent.conversation.prefix).items == agent.conversation.items


@pytest.mark.promise("P1", "H5")
async def test_after_a_kill_calls_that_may_be_repeated_run_again_and_others_say_that_they_were_cut_off(tmp_path):
    reads, writes = Echo(reads=True), Echo(reads=False)
    writes.name = "Write"
    agent, events = an_agent(tmp_path, Listed(says("done")), [reads, writes])
    agent.conversation.append_user_message(HELLO)
    agent.conversation.append_reply(
        says(call("Echo", "t1", text="x"), call("Write", "t2", text="y"), call("Gone", "t3"))
    )
    agent.conversation.close()
    agent.conversation = Conversation.load(agent.conversation.path, agent.conversation.prefix)
    end = await run_turn(agent, None)
    assert end.text == "done" and not agent.conversation.owes_answer
    results = json.loads(agent.conversation.items[-2])["content"]
    assert [block["content"] for block in results] == ["x", INTERRUPTED_RESULT, INTERRUPTED_RESULT]
    assert [event.summary for event in events if isinstance(event, ToolCalled)] == ["Echo"]


@pytest.mark.promise("P1")
async def test_a_call_that_is_run_again_has_the_key_that_it_had(tmp_path):
    seen: list[tuple[str, bool]] = []

    class Keyed(Echo):
        async def run(self, call, ctx):
            seen.append((ctx.key, ctx.is_rerun))
            return ToolResult("done")

    answers = (says(call("Echo", "t1", text="x")), says(call("Echo", "t1", text="y")), says("done"))
    model, tools = Listed(*answers, says("done")), [Keyed()]
    agent, _ = an_agent(tmp_path, model, tools)
    await run_turn(agent, HELLO)
    agent.conversation.close()
    lines = agent.conversation.path.read_bytes().splitlines(keepends=True)
    agent.conversation.path.write_bytes(b"".join(lines[:3]))  # as a kill leaves it: the first call has no result
    loaded = Conversation.load(agent.conversation.path, agent.conversation.prefix)
    agent, _ = an_agent(tmp_path, model, tools, conversation=loaded)
    await run_turn(agent, None)
    assert [again for _, again in seen] == [False, False, True]
    assert seen[2][0] == seen[0][0] != seen[1][0], "the place of the call names it, not the model's id alone"


@pytest.mark.promise("H1")
async def test_an_interrupt_while_the_model_speaks_stores_nothing_of_the_broken_answer(tmp_path):
    model = Listed()
    agent, _ = an_agent(tmp_path, model)
    task = asyncio.ensure_future(run_turn(agent, HELLO))
    async with asyncio.timeout(WAIT_S):
        await model.hang.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(agent.conversation.items) == 1
    assert agent.conversation.owes_answer


async def test_a_models_failure_is_how_a_turn_ends(tmp_path):
    agent, _ = an_agent(tmp_path, Listed(Failure("no-network", "the service could not be reached")))
    end = await run_turn(agent, HELLO)
    assert end.stop == "failed"
    assert end.failure is not None and end.failure.slug == "no-network"
    assert agent.conversation.owes_answer


@pytest.mark.promise("K4", "P6")
async def test_the_call_after_the_cap_is_refused(tmp_path):
    agent, _ = an_agent(tmp_path, Listed(says(call("Echo", "t1", text="x")), says("never")), [Echo()])
    agent.model_calls_left = 1
    end = await run_turn(agent, HELLO)
    assert (end.stop, end.limit, end.model_calls) == ("limit", "turns", 1)
    agent.model_calls_left = None
    agent.meter.why = "money"
    assert (await run_turn(agent, None)).limit == "money"


async def test_a_paused_answer_is_continued(tmp_path):
    model = Listed(says("thinking", stop="pause_turn"), says("done"))
    agent, _ = an_agent(tmp_path, model)
    end = await run_turn(agent, HELLO)
    assert (end.text, end.model_calls) == ("done", 2)
    assert [m["role"] for m in model.seen[1]] == ["user", "assistant"]


async def test_a_refused_call_tells_the_model_and_is_marked_denied(tmp_path):
    async def never(prepared):
        return ToolResult.error("This call was not allowed.", "Go on without it.")

    model = Listed(says(call("Echo", "t1", text="x")), says("ok"))
    agent, events = an_agent(tmp_path, model, [Echo()], gate=never)
    await run_turn(agent, HELLO)
    assert [e.outcome for e in events if isinstance(e, ToolCalled)] == ["denied"]
    assert model.seen[1][-1]["content"][0]["is_error"]


async def test_surfaces_see_every_stored_line_and_each_round(tmp_path):
    model = Listed(says(call("Echo", "t1", text="x")), says("ok"))
    agent, events = an_agent(tmp_path, model, [Echo()])
    await run_turn(agent, HELLO)
    assert [e.message["role"] for e in events if isinstance(e, AssistantText)] == [
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    assert [e.tools for e in events if isinstance(e, ModelCallEnded)] == [1, 0]
