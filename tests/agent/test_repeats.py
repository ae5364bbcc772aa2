"""Turns that go round in circles come to an end; work that repeats its steps does not."""

import pytest

from teamwright import Team
from teamwright.agent.conversation import UserMessage
from teamwright.agent.repetition_guard import WARNING
from teamwright.agent.tool import ToolResult
from teamwright.agent.turn_loop import run_turn
from teamwright.protocol.messages import text_block
from teamwright.testing import ScriptedModel
from teamwright.tools.shell.bash import Bash
from tests.agent.parts import Echo, Listed, an_agent, call, says

ROUNDS = 40


class Command(Echo):
    """Says its input again, and may do something before; waits where Bash would."""

    name = "Bash"

    def __init__(self, does=lambda text: text):
        super().__init__(reads=False)
        self.does = does

    def is_wait(self, call, result):
        return Bash.is_wait(self, type("Line", (), {"command": call.text}), ToolResult("", facts={"exit_code": 0}))

    async def run(self, call, ctx):
        result = await super().run(call, ctx)
        said = self.does(call.text)
        return type(result)(said) if isinstance(said, str) else result


def broken(use, given="{'a"):
    return {"type": "tool_use", "id": use, "name": "Bash", "input": {"unparsed_arguments": given}}


def bash(*lines):
    return lambda number: call("Bash", f"t{number}", text=lines[number % len(lines)])


async def turn(tmp_path, makes, tool=None):
    """A model that makes a call a model call for long, then answers; how the turn ended, and what it was sent."""
    model = Listed(*(says(makes(number)) for number in range(ROUNDS)), says("done"))
    agent, _ = an_agent(tmp_path, model, [tool or Command()])
    place = agent.toolbox.workplace
    place.cwd = tmp_path / "work"  # its transcript, which grows, is elsewhere
    place.cwd.mkdir()
    place.directories = lambda: (place.cwd,)
    end = await run_turn(agent, UserMessage((text_block("hello"),)))
    notes = [number for number, seen in enumerate(model.seen) if WARNING in str(seen[-1])]
    return end, notes, model


@pytest.mark.finding("M3")
@pytest.mark.parametrize(
    ("makes", "period"),
    [
        (bash("make"), 1),
        (bash("break"), 1),
        (bash("look", "list"), 2),
        (lambda number: call(f"Tool{number}", f"t{number}", text=str(number)), 1),
        (lambda number: call("Bash", f"t{number}", wrong="x"), 1),
        (lambda number: broken(f"t{number}", "{'a" * number), 1),
    ],
    ids=["same", "failing", "taking turns", "unknown tool", "wrong input", "broken JSON"],
)
async def test_a_call_that_changes_nothing_is_noted_at_the_third_time_and_ends_the_turn_at_the_sixth(
    tmp_path, makes, period
):
    end, notes, model = await turn(tmp_path, makes)
    assert (end.stop, end.limit, end.model_calls) == ("limit", "repeats", 6 * period)
    assert "6 times in a row" in end.explanation and "budget" not in end.explanation
    assert notes == [3 * period]
    assert model.answers, "no further model call was made"


@pytest.mark.finding("M3")
async def test_results_that_differ_in_times_alone_are_the_same(tmp_path):
    seconds = iter(range(ROUNDS))
    end, _, _ = await turn(tmp_path, bash("make"), Command(lambda _text: f"1 failed in 0.{next(seconds)}s"))
    assert end.limit == "repeats"


@pytest.mark.finding("M3")
@pytest.mark.parametrize("lines", [("sleep 5",), ("until done; do sleep 1; done", "look"), ("edit", "test"), ("log",)])
async def test_waiting_and_work_that_changes_files_are_no_loop(tmp_path, lines):
    written = iter(range(ROUNDS * 2))

    def does(text):
        if text in {"edit", "log"}:
            (tmp_path / "work" / "file.py").write_text(str(next(written)))
        return text

    end, notes, _ = await turn(tmp_path, bash(*lines), Command(does))
    assert (end.stop, end.text, notes) == ("done", "done", [])


@pytest.mark.finding("M3")
async def test_writing_the_same_again_and_again_changes_nothing(tmp_path):
    file = tmp_path / "work" / "file.py"
    end, _, _ = await turn(tmp_path, bash("write"), Command(lambda _: file.write_text("x") and "written"))
    assert end.limit == "repeats"


@pytest.mark.finding("M3")
async def test_a_run_whose_lead_repeats_itself_ends_with_4_and_a_member_that_does_is_told_to_its_lead(tmp_path):
    look = ("Glob", {"pattern": "*.py"})

    def answer(request):
        asked = b"".join(request.items)
        return look if request.agent_name == "ada" or b"Look yourself" in asked else "I wait."

    model = ScriptedModel(answer)
    async with Team("crew", model=model, cwd=tmp_path, env={}) as team:
        await team.spawn("ada", "Look.")
        first = await team.run("Go.")
        again = await team.run("Look yourself.")
    told = "\n".join(
        model.request_text(number) for number, one in enumerate(model.requests) if one.agent_name == "team-lead"
    )
    assert "6 times in a row" in told and first.stop == "cut_off", "its only member failed"
    assert ["6 times in a row" in one.error for one in first.members if one.name == "ada"] == [True]
    assert (again.stop, again.limit, again.exit_code) == ("limit", "repeats", 4)
    assert "Glob" in again.limit_detail and again.resume_command in again.larger_command
