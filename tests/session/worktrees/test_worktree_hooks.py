"""Hooks of `WorktreeCreate` and `WorktreeRemove` make and remove worktrees in place of the runtime."""

import asyncio
import os
import shlex
import subprocess
from pathlib import Path

import pytest

from teamwright import Team
from teamwright.protocol.errors import WorktreeRefused
from teamwright.storage.paths import find_home
from teamwright.testing import Call, ScriptedModel
from teamwright.worktrees.worktree_record import list_records
from tests.session.hook_log import HookLog
from tests.session.worktrees.test_isolation import model, shop  # noqa: F401  # pytest finds the fixture
from tests.support.repositories import git
from tests.teams.crew import a_team, told, until

pytestmark = [pytest.mark.finding("C2"), pytest.mark.promise("G7")]

BYPASS = {"permission_mode": "bypassPermissions"}
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


async def with_lost_worktree(shop, hooks, tmp_path) -> Path:  # noqa: F811
    """A left team whose member has a commit on the branch of its worktree, which somebody removed."""
    place = tmp_path / "trees" / "ann"
    call = ("Write", {"file_path": str(place / "new.txt"), "content": "x"})
    async with a_crew(shop, model(call), hooks) as team:
        ann = await team.spawn("ann", "Make it.", isolation="worktree")
        await until(team, lambda: ann.state == "idle" and team.session.team.is_quiet())
        git(place, "add", "new.txt")
        git(place, "-c", "user.name=Ann", "-c", "user.email=ann@example.org", "commit", "-qm", "work")
    git(shop, "worktree", "remove", "--force", str(place))
    return place


@pytest.mark.finding("T39")
@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.slow_after(1)
async def test_a_hook_makes_a_lost_worktree_again_at_the_resume_and_the_member_goes_on_in_it(
    shop,  # noqa: F811
    hooks,
    tmp_path,
    moves,
):
    place = await with_lost_worktree(shop, hooks, tmp_path)
    again = HookLog(tmp_path)
    where = tmp_path / "trees" / "new" if moves else place
    again.on("WorktreeCreate", f'git worktree add -q "{where}" mine-ann >&2; echo "{where}"')
    scripted = ScriptedModel({"lead": ["ok"] * 5, "ann": [("Bash", {"command": "pwd; cat new.txt"}), "Seen."]})
    async with Team.resume("crew", model=scripted, settings_file=again.settings, **BYPASS) as team:
        ann = team.session.team.find("ann")
        await team.send("ann", "Look.")
        await until(team, lambda: ann.turns and ann.is_resting)
        [record] = records()
        assert (os.path.realpath(record.path), record.branch) == (str(where), "mine-ann")
    assert "\\nx" in told(scripted, "ann")


@pytest.mark.finding("T39")
@pytest.mark.parametrize("hook", ["as before", "none", "another branch"])
@pytest.mark.slow_after(1)
async def test_a_lost_worktree_that_no_hook_makes_again_names_the_command_that_brings_the_member_back(
    shop,  # noqa: F811
    hooks,
    tmp_path,
    hook,
):
    place = await with_lost_worktree(shop, hooks, tmp_path)
    if hook != "as before":
        hooks = HookLog(tmp_path)
    if hook == "another branch":
        other = tmp_path / "trees" / "other"
        hooks.on("WorktreeCreate", f'git worktree add -q -b other "{other}" >&2; echo "{other}"')
    scripted = ScriptedModel({"lead": ["ok"] * 5, "ann": ["ok"] * 5})
    async with Team.resume("crew", model=scripted, settings_file=hooks.settings, **BYPASS) as team:
        assert team.session.team.find("ann") is None
        [warning] = [one for one in team.session.warnings if "could not be resumed" in one]
    command = shlex.split(warning.partition("resume: ")[2])
    await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)
    async with Team.resume("crew", model=scripted, settings_file=hooks.settings, **BYPASS) as team:
        await team.send("ann", "Go on.")
        ann = team.session.team.find("ann")
        await until(team, lambda: ann.turns and ann.is_resting)
        assert (place / "new.txt").exists() and "Make it." in told(scripted, "ann")
