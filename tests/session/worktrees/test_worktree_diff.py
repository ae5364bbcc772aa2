"""`diff @member` compares the worktree of a member with the integration branch, on real git."""

import asyncio
import json

import pytest
from click.testing import CliRunner

from teamwright.storage.paths import find_home
from teamwright.ui.cli.root import root
from teamwright.ui.terminal.history_commands import session_diff_lines
from teamwright.worktrees.worktree_record import list_records
from tests.session.worktrees.test_integration_queue import shop as shop
from tests.support.repositories import git, write_files
from tests.support.waiting_crew import bash, complete, finished, waiting_crew, write
from tests.teams.crew import a_team, until

pytestmark = pytest.mark.finding("I4")


def give(*words: str):
    return CliRunner().invoke(root, ["diff", *words], standalone_mode=False)


@pytest.mark.parametrize("strategy", ["merge", "squash"])
@pytest.mark.slow_after(1)
async def test_the_diff_of_a_member_has_what_is_not_integrated_with_files_that_are_in_no_commit(
    shop, tmp_path, monkeypatch, strategy
):
    (tmp_path / "settings.json").write_text(json.dumps({"worktrees": {"merge": strategy}}))
    model = waiting_crew(
        ann=[
            write("done.txt", "integrated\n"),
            complete("1"),
            "Done.",
            bash("sed -i s/one/ann/ a.txt; echo x >> b.txt"),
        ],
        bob=[write("bob.txt", "bob\n"), complete("2"), "Done."],
    )
    async with a_team(shop, model, keep=True, settings_file=tmp_path / "settings.json") as team:
        await team.tasks.add("Write done.txt", metadata={"for": ["ann"]})
        second = await team.tasks.add("Write bob.txt", metadata={"for": ["bob"]})
        ann = await team.spawn("ann", "Take a task.", isolation="worktree")
        await team.spawn("bob", "Take a task.", isolation="worktree")
        await finished(team, 2)
        assert second.id == "2"
        await team.send("ann", "Change a.txt.")
        await until(team, lambda: ann.state == "idle" and team.session.team.is_quiet())
        [record] = [one for one in list_records(find_home().worktrees)[0] if one.member == "ann"]
        write_files(record.tree, {"new/file.txt": "new\n", "a\nb.bin": "x\0y"})
        before = git(record.tree, "status", "--porcelain"), git(record.tree, "diff", "--cached")
        shown = "\n".join(await session_diff_lines(team.session, "@ann"))
        plain = "\n".join(await session_diff_lines(team.session, "@ann --stat"))
    assert "The worktree of ann compared with teamwright/crew/integration at" in shown
    for line in ("-one", "+ann", "+x", "+new", "new/file.txt (created)  +1 -0", "binary"):
        assert line in shown, shown
    assert "done.txt" not in shown
    assert "bob.txt" not in shown
    assert "new/file.txt" in plain
    monkeypatch.chdir(shop)
    for words in (["@ANN"], ["--member", "ann"]):
        printed = await asyncio.to_thread(give, *words, "--json")
        assert printed.exception is None, printed.exception
        found = json.loads(printed.output)
        assert [file["path"] for file in found["files"]] == ["a\nb.bin", "a.txt", "b.txt", "new/file.txt"]
        assert found["against"].startswith("teamwright/crew/integration at ")
        assert found["member"] == "ann"
    assert (git(record.tree, "status", "--porcelain"), git(record.tree, "diff", "--cached")) == before
    git(shop, "worktree", "remove", "--force", "--force", record.path)
    printed = await asyncio.to_thread(give, "@ann")
    assert printed.exception is None, printed.exception
    assert "done.txt" in printed.output, "without its worktree the recorded edits are shown"


def run(*words: str):
    """The result of a command; an error of it is in `exception`."""
    return CliRunner().invoke(root, list(words), standalone_mode=False)


@pytest.mark.parametrize("strategy", ["merge", "squash", "rebase"])
@pytest.mark.finding("T39")
@pytest.mark.slow_after(1)
async def test_files_of_a_merged_and_removed_worktree_name_the_commit_that_takes_them_back(
    shop, tmp_path, monkeypatch, strategy
):
    (tmp_path / "settings.json").write_text(json.dumps({"worktrees": {"merge": strategy}}))
    edits = [("Read", {"file_path": "a.txt"})], [write("new.txt"), write("a.txt", "two\n")]
    model = waiting_crew(ann=[*edits, complete("1"), "Done."])
    async with a_team(shop, model, settings_file=tmp_path / "settings.json") as team:
        await team.tasks.add("Change both", metadata={"for": ["ann"]})
        await team.spawn("ann", "Take a task.", isolation="worktree")
        await finished(team, 1)
    monkeypatch.chdir(shop)
    merged = git(shop, "rev-parse", "teamwright/crew/integration")
    way = f"git revert {'-m 1 ' if strategy == 'merge' else ''}{merged[:12]}"
    assert (await asyncio.to_thread(run, "worktrees", "remove", "crew-ann")).exit_code == 0
    shown = (await asyncio.to_thread(run, "diff")).output
    assert (shown.count(way), "deleted since" in shown) == (2, False)
    refused = (await asyncio.to_thread(run, "undo", "--yes")).exception
    assert refused.slug == "undo-refused"
    assert [way in reason for _, reason in refused.looked_at] == [True, True]
    git(shop, "checkout", "-q", "teamwright/crew/integration")
    git(
        shop,
        "-c",
        "user.name=Ann",
        "-c",
        "user.email=ann@example.org",
        *way.split()[1:2],
        "--no-edit",
        *way.split()[2:],
    )
    assert ((shop / "a.txt").read_text(), (shop / "new.txt").exists()) == ("one\n", False)


@pytest.mark.finding("T39")
@pytest.mark.slow_after(1)
async def test_files_of_a_worktree_that_was_removed_with_force_name_their_copy(shop, monkeypatch):
    model = waiting_crew(ann=[write("new.txt"), "Done."])
    async with a_team(shop, model) as team:
        ann = await team.spawn("ann", "Wait.", isolation="worktree")
        await until(team, lambda: ann.state == "idle" and team.session.team.is_quiet())
        await team.send("ann", "Write it.")
        await until(team, lambda: ann.state == "idle" and team.session.team.is_quiet())
    monkeypatch.chdir(shop)
    assert (await asyncio.to_thread(run, "worktrees", "remove", "crew-ann", "--force")).exit_code == 0
    [copy] = find_home().archive.glob("worktree-crew-ann-*/files")
    refused = (await asyncio.to_thread(run, "undo", "--yes")).exception
    assert [reason.endswith(str(copy)) for _, reason in refused.looked_at] == [True]
