"""The directory that a call of Agent names: the sub-agent works there, knows it, keeps it, and rules judge it."""

import json
from pathlib import Path

import pytest

from teamwright.storage.paths import find_home
from teamwright.testing import Call
from teamwright.worktrees.worktree_record import list_records
from tests.support.repositories import commit, make_repository, write_files
from tests.teams.subagents.crowd import behind, crew, results, start
from tests.teams.subagents.nest import Nest, deep, runs_of, soon
from tests.teams.subagents.test_forks import ON, Forking

pytestmark = pytest.mark.finding("S7")

PWD = Call("Bash", {"command": "pwd"})


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A repository with instructions in `part`, in which the sessions work."""
    place = make_repository(tmp_path / "work")
    write_files(place, {"part/AGENTS.md": "Count in dozens.", "part/deep/a.txt": "a"})
    commit(place, "a part")
    return place


async def test_a_sub_agent_works_in_the_directory_of_its_call_and_its_own_sub_agents_do(tmp_path, work):
    model = Nest(lead=[start("one", cwd="part")], one=[PWD, start("two"), start("three", cwd="deep")])
    model.plays |= {"two": [PWD], "three": [PWD]}
    async with deep(tmp_path, model) as team:
        await soon(team.run("Go."))
    part = work / "part"
    assert f"Directory: {part} (" in model.told("one") and "Count in dozens." in model.told("one")
    for who, where in (("one", part), ("two", part), ("three", part / "deep")):
        assert f'"{where}"' in model.told(who), who
    assert f"Directory: {part / 'deep'} (" in model.told("three")


async def test_one_in_the_background_keeps_its_directory_when_it_is_resumed_in_another_process(tmp_path, work):
    (tmp_path / "work").mkdir(exist_ok=True)
    async with deep(tmp_path, Nest(lead=[behind("one", cwd=str(work / "part"))]), keep=True) as team:
        await soon(team.run("Go."))
        [run] = runs_of(team).values()
    again = Nest(lead=[start("Again.", resume=run.id)], one=[PWD])
    async with deep(tmp_path, again, resume=True) as team:
        await soon(team.run("Go on."))
    assert str(work / "part") in json.loads(again.of("one")[-1].items[-1])["content"][0]["content"]


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"cwd": "nowhere"}, "does not exist"),
        ({"cwd": "a.txt"}, "is not a directory"),
        ({"cwd": "part", "resume": "a000000"}, "cwd cannot be given with resume"),
        ({"cwd": "empty", "isolation": "worktree"}, "has no committed file, so it is not in the worktree"),
        ({"cwd": "/usr", "isolation": "worktree"}, "is not in the repository of the worktree"),
        ({"cwd": "part", "isolation": "worktree", "name": "bob"}, "it takes no cwd"),
        ({"cwd": "part", "isolation": "remote", "name": "bob"}, "cwd is a directory of this machine"),
    ],
)
async def test_a_directory_that_cannot_be_used_starts_nothing(tmp_path, work, parameters, problem):
    (work / "empty").mkdir()
    model = Nest(lead=[start("one", **parameters)])
    async with deep(tmp_path, model) as team:
        await soon(team.run("Go."))
        assert not runs_of(team) and not team.members
    assert problem in model.told("lead")
    assert not list_records(find_home().worktrees)[0], "no worktree remains"


async def test_in_a_worktree_of_its_own_it_works_in_the_same_directory_of_that(tmp_path, work):
    change = Call("Write", {"file_path": "new.txt", "content": "x"})
    model = Nest(lead=[start("one", cwd="part", isolation="worktree")], one=[PWD, change])
    async with deep(tmp_path, model, keep=True) as team:
        await soon(team.run("Go."))
        [run] = runs_of(team).values()
        [record] = list_records(find_home().worktrees)[0]
        place = record.tree / "part"
        assert f"Directory: {place} (" in model.told("one") and (place / "new.txt").read_text() == "x"
        assert not (work / "part" / "new.txt").exists()
    again = Nest(lead=[start("Again.", resume=run.id)], one=[PWD])
    async with deep(tmp_path, again, resume=True) as team:
        await soon(team.run("Go on."))
    assert str(place) in json.loads(again.of("one")[-1].items[-1])["content"][0]["content"]


async def test_a_directory_outside_is_judged_like_a_read_of_it(tmp_path, work):
    outside = tmp_path / "outside"
    outside.mkdir()
    model = Nest(lead=[start("one", cwd=str(outside)), start("two", cwd="part"), "ok"])
    async with deep(tmp_path, model, permission_mode="default") as team:
        await soon(team.run("Go."))
        assert [run.spec_fields["cwd"] for run in runs_of(team).values()] == [str(work / "part")]
    assert "it would have to be asked" in str(results(model)[0])


async def test_a_rule_against_the_type_still_decides_for_an_allowed_directory(tmp_path, work):
    model = Nest(lead=[start("one", cwd="part", subagent_type="Explore"), start("two", cwd="secret"), "ok"])
    (work / "secret").mkdir()
    settings = {"permissions": {"deny": ["Agent(Explore)", f"Read(/{work}/secret/**)", f"Read(/{work}/secret)"]}}
    async with deep(tmp_path, model, settings=settings) as team:
        await soon(team.run("Go."))
        assert not runs_of(team)
    by_type, by_path = map(str, results(model))
    assert "Agent(Explore)" in by_type and "secret/**" in by_path


async def test_a_fork_is_told_its_directory(tmp_path, monkeypatch):
    part = tmp_path / "work" / "part"
    part.mkdir(parents=True)
    calls = [("Agent", {"description": "a", "prompt": "Look.", "cwd": "part"})]
    model = Forking(calls, "ok", **{"Look.": [[("Bash", {"command": "pwd"})], "Done."]})
    async with crew(tmp_path, model, settings=ON) as team:
        await soon(team.run("Go."))
        await soon(team.run("And?"))
    first = model.first("Look.")
    assert f"Your directory is {part}." in first.items[-1].decode()
    assert str(part) in "".join(map(str, results(model, first.agent_name)))


async def test_a_teammate_works_in_the_directory_of_its_call(tmp_path, work):
    model = Nest(lead=[start("bob", name="bob", cwd="part"), "ok"])
    async with deep(tmp_path, model) as team:
        await soon(team.run("Go."))
        bob = team.session.team.members["bob"]
        assert bob.agent.toolbox.workplace.cwd == work / "part"
        assert (await team.session.team.roster.find("bob")).cwd == str(work / "part")
