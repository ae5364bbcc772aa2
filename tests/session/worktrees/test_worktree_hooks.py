"""Hooks of `WorktreeCreate` and `WorktreeRemove` make and remove worktrees in place of the runtime."""

import os
from pathlib import Path

import pytest

from teamwright.protocol.errors import WorktreeRefused
from teamwright.storage.paths import find_home
from teamwright.testing import Call, ScriptedModel
from teamwright.worktrees.worktree_record import list_records
from tests.session.hook_log import HookLog
from tests.session.worktrees.test_isolation import model, shop  # noqa: F401  # pytest finds the fixture
from tests.teams.crew import a_team, until

pytestmark = [pytest.mark.finding("C2"), pytest.mark.promise("G7")]

NAME = """n=$(printf '%s' "$told" | sed 's/.*"name": "\\([^"]*\\)".*/\\1/')"""
MAKE = f'{NAME}; git worktree add -q -b "mine-$n" "{{trees}}/$n" >&2; echo local > "{{trees}}/$n/x.local"; '
PATH = """p=$(printf '%s' "$told" | sed 's/.*"worktree_path": "\\([^"]*\\)".*/\\1/')"""


@pytest.fixture
def hooks(tmp_path) -> HookLog:
    (tmp_path / "trees").mkdir()
    made = HookLog(tmp_path)
    made.on("WorktreeCreate", f'{MAKE.format(trees=tmp_path / "trees")} echo banner; echo "{tmp_path}/trees/$n"')
    return made.on("WorktreeRemove", f'{PATH}; git worktree remove --force "$p"')


def records():
    return list_records(find_home().worktrees)[0]


async def test_a_sub_agent_works_in_the_worktree_that_a_hook_made_and_a_hook_removes_it(shop, hooks, tmp_path):  # noqa: F811
    given = {"description": "look around", "prompt": "Look.", "isolation": "worktree"}
    lead = iter([Call("Agent", given), "Done."])
    own = iter([Call("Bash", {"command": "pwd; git branch --show-current"}), "Seen."])
    scripted = ScriptedModel(lambda request: next(lead if request.agent_name == "team-lead" else own))
    async with a_crew(shop, scripted, hooks) as team:
        await team.run("Do it.")
    created, removed = hooks.told
    place = tmp_path / "trees" / created["name"]
    assert f"{place}\nmine-{created['name']}" in scripted.request_text(2)
    assert removed["worktree_path"] == str(place) and not place.exists()
    assert not records() and not [one for one in find_home().worktrees.rglob("*") if one.is_symlink()]


async def test_a_worktree_of_a_hook_with_work_in_it_stays_and_is_reported(shop, hooks, tmp_path):  # noqa: F811
    place = tmp_path / "trees" / "ann"
    call = ("Write", {"file_path": str(place / "new.txt"), "content": "x"})
    notices = []
    async with a_crew(shop, model(call), hooks) as team:
        team.session.log.subscribe(lambda _n, event: notices.append(getattr(event, "text", "")))
        ann = await team.spawn("ann", "Make it.", isolation="worktree")
        await until(team, lambda: ann.state == "idle" and team.session.team.is_quiet())
    assert (place / "new.txt").exists() and not hooks.of("WorktreeRemove")
    [record] = records()
    assert record.made_by_hook and os.path.realpath(record.path) == str(place)


@pytest.mark.parametrize(
    ("prints", "why"),
    [
        ("true", "it printed no path"),
        ("echo boom >&2; exit 1", "exit code 1: boom"),
        ("echo not now >&2; exit 2", "not now"),
        ("echo trees/ann", "is not the absolute path of a directory"),
        ("echo {tmp}/trees/../trees", "is not the absolute path of a directory"),
        ("echo {tmp}/trees", "is no worktree of the repository"),
        ("echo {tmp}/shop", "is no worktree of the repository"),
        ("git worktree add -q --detach {tmp}/trees/ann >&2; echo {tmp}/trees/ann", "is on no branch"),
        ("git worktree add -q -b b {tmp}/trees/ann >&2; ln -s {tmp}/trees link; echo $PWD/link/ann", "through a link"),
    ],
)
@pytest.mark.slow_after(2)
async def test_a_hook_that_makes_no_usable_worktree_starts_no_member(shop, tmp_path, prints, why):  # noqa: F811
    (tmp_path / "trees").mkdir()
    hooks = HookLog(tmp_path).on("WorktreeCreate", prints.format(tmp=tmp_path))
    async with a_crew(shop, ScriptedModel("ok"), hooks) as team:
        with pytest.raises(WorktreeRefused, match=why):
            await team.spawn("ann", "Make it.", isolation="worktree")
        assert not team.session.team.members and not records()


def a_crew(shop: Path, scripted: ScriptedModel, hooks: HookLog):  # noqa: F811
    return a_team(shop, scripted, keep=True, settings_file=hooks.settings)
