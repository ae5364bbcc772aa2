"""Mistakes of a program that knows the manual alone: each is a sentence of ours, and nothing is left behind."""

import asyncio

import pytest

import teamwright
from teamwright import Budget, InvalidName, TaskRefused, Team, TeamwrightError, UnknownMember, UsageError
from teamwright.api.options import SDK_OPTIONS, TeamOptions, check_option_types
from teamwright.testing import ScriptedModel
from tests.support.waits import WAIT_S

MODEL = ScriptedModel("Done.")


@pytest.mark.promise("J1")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"model": ScriptedModel}, "not the class ScriptedModel itself"),
        ({"cwd": 5}, "cwd= takes a directory, not int"),
        ({"home": 5}, "home= takes a directory, not int"),
        ({"settings_file": 7}, "settings_file= takes a file, not int"),
        ({"add_dirs": [3]}, "add_dirs= takes a list of directories, not one with int"),
        ({"allowed_tools": None}, "allowed_tools= takes a list of rules"),
        ({"allowed_tools": [1]}, "not one with int"),
        ({"hooks": [print]}, "hooks= takes a list of Hook"),
        ({"env": "A=1"}, "env= takes a mapping of names to texts, not str"),
        ({"env": {"A": 1}}, "env= takes a mapping of names to texts, not dict"),
        ({"trust": "no"}, "trust= takes True or False, not str"),
        ({"mcp_servers": ["db"]}, "mcp_servers= takes servers by name"),
        ({"agents": {"a": "b"}}, "agents= takes definitions by name"),
        ({"append_system_prompt": 7}, "append_system_prompt= takes a text, not int"),
        ({"permission_mode": "yolo"}, "'yolo' is not a permission mode"),
        ({"plan_approval": 3}, "plan_approval= takes lead, human or auto"),
        ({"budget": 2}, "budget= takes a Budget"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_an_option_of_another_kind_is_a_sentence_at_once(options, said, own_home):
    for begin in (lambda: Team("crew", **options), lambda: teamwright.run("Go.", **options)):
        with pytest.raises(UsageError) as caught:
            begin()
        assert said in caught.value.render()
    assert not (own_home / ".teamwright").exists()


@pytest.mark.finding("U10")
@pytest.mark.parametrize("name", sorted(SDK_OPTIONS))
def test_an_option_of_the_vendors_sdk_is_refused_with_what_to_write_here(name, own_home):
    with pytest.raises(UsageError) as caught:
        teamwright.run("Go.", model=MODEL, **{name: 3})
    assert f"{name}= is not an option here" in caught.value.render() and SDK_OPTIONS[name] in caught.value.render()
    option, _, method = SDK_OPTIONS[name].partition("=")[0].partition(".")
    assert hasattr(Team, method.partition("(")[0]) if method else option in TeamOptions.__annotations__
    assert not (own_home / ".teamwright").exists()


@pytest.mark.promise("J1")
@pytest.mark.parametrize("prompt", [None, ["Go."], b"Go.", "", "  "])
def test_a_prompt_is_a_text_with_something_in_it(prompt):
    with pytest.raises(UsageError, match="prompt"):
        teamwright.run(prompt, model=MODEL)


@pytest.mark.parametrize("name", [None, 5, ["crew"]])
def test_a_team_s_name_is_a_text(name):
    with pytest.raises(UsageError, match="a team's name is a text"):
        Team(name)


@pytest.mark.promise("J1")
@pytest.mark.parametrize(
    ("act", "kind", "said"),
    [
        (lambda team: team.spawn("ada", None), UsageError, "a prompt is a text, not None"),
        (lambda team: team.spawn(3, "Go."), UsageError, "a member's name is a text, not int"),
        (lambda team: team.spawn("../ada", "Go."), InvalidName, "cannot be a member's name"),
        (lambda team: team.spawn("ada", "Go.", budget=3), UsageError, "budget= takes a Budget"),
        (lambda team: team.spawn("ada", "Go.", model=ScriptedModel), UsageError, "the class ScriptedModel itself"),
        (lambda team: team.spawn("ada", "Go.", agent_tpye="Explore"), UsageError, "did you mean agent_type=?"),
        (lambda team: team.spawn("ada", "Go.", agent_type="Explorer"), UsageError, "Explore"),
        (lambda team: team.send("bob", "hi"), UnknownMember, "'bob' is not in team"),
        (lambda team: team.send("lead", None), UsageError, "a message is a text, not None"),
        (lambda team: team.tasks.add(None), UsageError, "a subject is a text, not None"),
        (lambda team: team.tasks.add("x", budget=3), UsageError, "budget= takes a Budget"),
        (lambda team: team.tasks.add("x", after=7), TaskRefused, "there is no task #7"),
        (lambda team: team.tasks.add("x", after=[team.tasks.add("y")]), UsageError, "put await before the call"),
        (lambda team: team.tasks.add("x", after=team.tasks.add("y")), UsageError, "Tasks.add was called, but not"),
        (lambda team: team.tasks.update(1, statsu="completed"), UsageError, "statsu="),
        (lambda team: team.tasks.add("x", metadata=[1]), UsageError, "metadata= takes a mapping that JSON can hold"),
        (lambda team: team.tasks.add("x", metadata={"o": object()}), UsageError, "not dict"),
        (lambda team: team.tasks.update(1, metadata=[1]), UsageError, "metadata= takes a mapping"),
        (lambda team: team.set_budget("ada", 3), UsageError, "budget= takes a Budget"),
        (lambda team: team.set_budget("ada", None), UsageError, "budget= takes a Budget"),
        (lambda team: team.set_budget("lead", Budget(usd=1)), UsageError, "the lead is no member"),
        (lambda team: team.stop(5), UsageError, "a member's name is a text, not int"),
        (lambda team: team.stop("lead"), UsageError, "it ends with the block"),
        (lambda team: team.compact(5), UsageError, "a member's name is a text, not int"),
        (lambda team: team.context(None), UsageError, "a member's name is a text, not None"),
        (lambda team: team.send("lead", "hi", summary=3), UsageError, "a summary is a text, not int"),
        (lambda team: team.set_model(None), UsageError, "model= takes a name"),
        (lambda team: team.set_model("sonnet", member=4), UsageError, "a member's name is a text, not int"),
    ],
)
@pytest.mark.slow_after(6)
async def test_a_slip_in_a_call_is_a_sentence_and_changes_nothing(tmp_path, act, kind, said):
    async with Team("crew", model=MODEL, cwd=tmp_path) as team:
        with pytest.raises(kind) as caught:
            await act(team)
        assert said in caught.value.render()
        assert (team.members, await team.tasks.all()) == ([], [])


@pytest.mark.promise("J1")
@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda team, run: team.events(after="3"), "after= takes a number of the log, not str"),
        (lambda team, run: run.events(after=1.5), "after= takes a number of the log, not float"),
        (lambda team, run: list(run.events()), "async for event in run.events()"),
        (lambda team, run: list(team.events()), "async for event in run.events()"),
        (lambda team, run: aiter(run), "async for event in run.events()"),
        (lambda team, run: team.set_mode(None), "a mode is a text, not None"),
        (lambda team, run: team.command(3), "a command's name is a text, not int"),
        (lambda team, run: team.command("review", 3), "what a command is called with is a text, not int"),
    ],
)
async def test_a_slip_while_a_run_goes_on_is_a_sentence_and_leaves_it_alone(tmp_path, act, said):
    skill = tmp_path / "home/commands/review.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\ndescription: looks\n---\nLook.\n")
    async with Team("crew", model=MODEL, cwd=tmp_path, home=tmp_path / "home") as team:
        run = team.run("Go.")
        with pytest.raises(UsageError) as caught:
            act(team, run)
        assert said in caught.value.render()
        assert (await run).ok


@pytest.mark.promise("J1")
def test_a_team_that_is_entered_without_async_says_how():
    with pytest.raises(UsageError) as caught, Team("crew", model=MODEL):  # pyright: ignore[reportGeneralTypeIssues]
        pass
    assert "async with Team('crew', …) as team: …" in caught.value.render()


async def test_a_task_is_named_by_itself_or_by_its_number_in_either_form(tmp_path):
    async with Team("crew", model=MODEL, cwd=tmp_path) as team:
        first = await team.tasks.add("one")
        for after in (first, first.id, int(first.id), [first], [int(first.id)]):
            assert (await team.tasks.add("two", after=after)).blocked_by == (first.id,)


@pytest.mark.promise("J1")
async def test_a_run_that_was_not_awaited_says_so_where_its_result_is_read(tmp_path):
    async with Team("crew", model=MODEL, cwd=tmp_path) as team:
        run = team.run("Go.")
        with pytest.raises(AttributeError, match="result = await run"):
            _ = run.text
        with pytest.raises(AttributeError, match="no 'nonsense'"):
            _ = run.nonsense
        assert (await run).text == "Done."


@pytest.mark.promise("J1")
async def test_a_team_that_was_left_refuses_what_would_change_it(tmp_path):
    async with Team("crew", model=MODEL, cwd=tmp_path) as team:
        tasks, member = team.tasks, await team.spawn("ada", "Go.")
        task = await tasks.add("one")
    assert member.state == "gone"
    for act in (lambda: tasks.add("two"), lambda: tasks.update(task, status="completed"), lambda: member.send("hi")):
        with pytest.raises(TeamwrightError):
            await act()
    with pytest.raises(UsageError, match="is not running"):
        team.run("Go.")
    assert [one.subject for one in await tasks.all()] == ["one"]


@pytest.mark.promise("J1")
async def test_a_team_is_driven_from_the_loop_that_entered_it_alone(tmp_path):
    async with Team("crew", model=MODEL, cwd=tmp_path) as team:
        loop = asyncio.get_running_loop()

        async def begin() -> str:
            return (await team.run("Go.")).text

        with pytest.raises(UsageError, match="belongs to the event loop that entered it"):
            await asyncio.to_thread(lambda: team.run("Go."))
        with pytest.raises(UsageError, match="belongs to the event loop that entered it"):
            await asyncio.to_thread(lambda: asyncio.run(begin()))
        reached = await asyncio.to_thread(lambda: asyncio.run_coroutine_threadsafe(begin(), loop).result(WAIT_S))
        assert reached == "Done."


@pytest.mark.promise("J1")
def test_a_team_object_serves_two_loops_one_after_the_other_and_run_works_in_threads(tmp_path):
    team = Team("crew", model=MODEL, cwd=tmp_path)

    async def once() -> str:
        async with team:
            return (await team.run("Go.")).text

    assert (asyncio.run(once()), asyncio.run(once())) == ("Done.", "Done.")

    async def beside() -> list[str]:
        calls = (asyncio.to_thread(teamwright.run, "Go.", model=MODEL, cwd=tmp_path) for _ in range(3))
        return [result.text for result in await asyncio.gather(*calls)]

    assert asyncio.run(beside()) == ["Done."] * 3


def test_a_wrong_choice_is_shown(own_home):
    for wrong, shown in (("leave", "'leave'"), (3, "int"), (["end"], "list")):
        with pytest.raises(UsageError, match=f"on_exit= takes end or suspend, not {shown}"):
            Team("crew", model=MODEL, on_exit=wrong)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match=f"isolation= takes worktree or none, not {shown}"):
            check_option_types({"isolation": wrong})


def test_a_budget_names_its_caps():
    with pytest.raises(UsageError, match="a cap on usd is a number above 0"):
        Budget(usd="2")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="a cap on tokens is a whole number above 0"):
        Budget(tokens=1.5)  # type: ignore[arg-type]
    with pytest.raises(UsageError) as caught:
        Budget(usd=float("inf"))
    assert "Budget.unlimited()" in caught.value.render()
