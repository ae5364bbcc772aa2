"""What members may use and what they used: counted in one place, wherever they live."""

import asyncio
import json

import pytest

from teamwright import Budget, ModelCallEnded
from teamwright.protocol.usage import Usage
from teamwright.testing.model_server_replies import Answer
from tests.parity.house import Hold, call, house

pytestmark = pytest.mark.slow_after(1)

LOOK = ("Glob", {"pattern": "*"})


def used(tokens_in: int, out: int = 10, **more) -> Answer:
    return Answer(usage={"input_tokens": tokens_in, "output_tokens": out}, **more)


def sum_of(rounds: list[ModelCallEnded]) -> Usage:
    return sum((one.usage for one in rounds), Usage())


@pytest.mark.promise("H10", "F61")
async def test_usage_and_cost_of_members_and_their_sub_agents_add_up_to_the_token(tmp_path, backend):
    helper = call("Agent", description="look", prompt="JOB sub look")
    given = {"ann": [helper, used(1000, text="ok")], "bob": [used(300, text="ok")], "sub": [used(77, text="seen")],
             "lead": [used(50, text="ok")]}  # fmt: skip
    async with house(tmp_path, backend, given) as crew:
        await asyncio.gather(crew.spawn("ann"), crew.spawn("bob"))
        await crew.asked("ann", 2)
        await crew.quiet()
        result = await crew.team.run("And?")
        rounds = crew.of(ModelCallEnded)
        books = crew.team.session.agent_factory.budget_tracker.books
        session = crew.team.session.id
        assert books.account("ann").tool_calls == 1
    by = {name: usage.tokens for name, usage in result.by_member.items() if name != "team-lead"}
    [sub] = [name for name in by if name not in {"ann", "bob"}]
    assert by["bob"] == 310 and by[sub] == 87 and by["ann"] > 1010
    assert sum_of(rounds) == result.usage == crew.usage
    shown = await asyncio.to_thread(crew.command, "cost", session, "--json")
    assert shown.returncode == 0, shown.stderr
    told = json.loads(shown.stdout)["total"]
    assert (told["tokens_in"], told["tokens_out"]) == (result.usage.input_tokens, result.usage.output_tokens), told


@pytest.mark.promise("H10", "F61", "P6")
async def test_members_side_by_side_do_not_pass_the_cap_of_the_run(tmp_path, backend):
    """Room is reserved before a call: of many calls at once only those are made that fit.

    The service reports less than the estimate of a first prompt, which is about 5,000 tokens: a member whose process
    starts late reserves enough for its first call.
    """
    names = ["ann", "bob", "cid"]
    given = {name: [used(3_000, 100, tools=[LOOK])] * 6 for name in names}
    cap = 20_000
    async with house(tmp_path, backend, given, budget=Budget(tokens=cap)) as crew:
        await asyncio.gather(*(crew.spawn(name) for name in names))
        await crew.quiet()
        total = crew.team.usage.tokens
        limited = [teammate.cap_reason for teammate in crew.team.session.team.running_members]
    assert total <= cap and len(crew.parts.bodies) >= 3
    assert any("tokens" in why for why in limited), limited


@pytest.mark.promise("H10", "F61")
async def test_a_members_own_cap_ends_its_turn_and_a_larger_one_wakes_it(tmp_path, backend):
    given = {"ann": [used(9_000, tools=[LOOK]), used(9_000, tools=[LOOK]), used(100, text="finished")]}
    async with house(tmp_path, backend, given) as crew:
        await crew.spawn("ann", budget=Budget(tokens=12_000))
        await crew.until(lambda: crew.team.session.team.find("ann").cap_reason)
        await crew.quiet()
        before = len(crew.parts.of("ann"))
        holds = await crew.team.set_budget("ann", Budget(tokens=100_000))
        assert holds.tokens == 100_000
        await crew.asked("ann", before + 1)
        await crew.quiet()
        assert crew.team.session.team.find("ann").cap_reason == ""
    assert before < 3 and "finished" in json.dumps([e.text for e in crew.events if hasattr(e, "text")])


@pytest.mark.promise("H10", "F61")
async def test_the_cap_of_a_task_holds_for_whoever_works_on_it(tmp_path, backend):
    given = {"ann": ["idle", used(9_000, tools=[LOOK]), used(9_000, tools=[LOOK]), used(9_000, tools=[LOOK])]}
    async with house(tmp_path, backend, given) as crew:
        await crew.spawn("ann")
        await crew.quiet()
        await crew.team.tasks.add("look", budget=Budget(tokens=15_000))
        await crew.until(lambda: crew.team.session.team.find("ann").cap_reason)
        await crew.quiet()
        why = crew.team.session.team.find("ann").cap_reason
        spent = crew.team.session.agent_factory.budget_tracker.books.tasks
        booked = sum(usage.tokens for (_, task), usage in spent.items() if task == "1")
    assert "task #1" in why and booked <= 15_000 + 10_000, why


@pytest.mark.promise("H10", "F61", "P6")
@pytest.mark.parametrize("whose", ["run", "member"])
async def test_no_tool_call_passes_a_cap_on_calls_within_one_answer_either(tmp_path, backend, whose):
    given = {"ann": [Answer(tools=[("Write", {"file_path": f"f{n}", "content": "x"}) for n in range(5)])]}
    more = {"budget": Budget(calls=3)} if whose == "run" else {}
    async with house(tmp_path, backend, given, permission_mode="acceptEdits", **more) as crew:
        await crew.spawn("ann", **({"budget": Budget(calls=3)} if whose == "member" else {}))
        await crew.quiet()
        assert "calls" in crew.team.session.team.find("ann").cap_reason
    assert len(list(crew.work.iterdir())) == 3


@pytest.mark.promise("row F15", "F59")
async def test_starts_of_sub_agents_count_for_the_run_wherever_they_happen(tmp_path, backend):
    start = call("Agent", description="look", prompt="JOB sub look")
    given = {"ann": [start, start], "bob": [Hold(start), start], "sub": ["ok"] * 9}
    async with house(tmp_path, backend, given, settings={"limits": {"spawns": 5}}) as crew:
        await crew.spawn("bob")
        await given["bob"][0].come()
        await crew.spawn("ann")
        await crew.asked("ann", 3)
        given["bob"][0].go()
        await crew.asked("bob", 3)
        await crew.quiet()
        said = [*crew.results("ann"), *crew.results("bob")]
    assert len(crew.parts.of("sub")) == 3
    assert [("5 agents were started in this run" in one) for one in said] == [False, False, False, True]
