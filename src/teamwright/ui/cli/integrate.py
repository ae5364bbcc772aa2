"""`teamwright integrate`: merge the commits of a team's members, and end with a branch, a merge or a pull request."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import to_builtins
from msgspec.structs import replace

from teamwright.config.trust import TrustStore, require_person
from teamwright.git.git_calls import git_program
from teamwright.permissions.verdict import PermissionAnswer, Question
from teamwright.processes.program_environment import find_program, own_variables, without_git_variables
from teamwright.protocol.errors import CannotStart, UsageError, WorktreeRefused
from teamwright.protocol.task import IntegrationState
from teamwright.saved.teams import SavedTeam, all_teams, find_saved_team
from teamwright.storage.file_lease import Lease
from teamwright.storage.paths import Home
from teamwright.team_records.snapshots import resolve_home
from teamwright.team_records.team_catalogue import team_directory_name
from teamwright.ui.cli.output import json_flag, note, say, say_json, say_table
from teamwright.ui.cli.run_location import RunLocation, open_access, run_location
from teamwright.ui.display_text import one_line
from teamwright.worktrees.integration import Integration, MergeStrategy, fast_forward
from teamwright.worktrees.integration_store import IntegrationEntry
from teamwright.worktrees.member_branch import unintegrated_tip
from teamwright.worktrees.repository_git import RepositoryGit
from teamwright.worktrees.worktree_creation import SetupCommand
from teamwright.worktrees.worktree_record import WorktreeRecord, integration_branch, list_records
from teamwright.worktrees.worktree_state import teams_with_work

if TYPE_CHECKING:
    from teamwright.saved.team_access import SavedTeamAccess
    from teamwright.session.wiring.integration_commands import IntegrationCommands


@click.command("integrate")
@click.argument("team", metavar="[TEAM]", required=False)
@click.option("--check", metavar="COMMAND", help="A command that must pass on each merge; default: checks.integration.")
@click.option("--into", metavar="BRANCH", help="Then move this branch forward to the result.")
@click.option("--pull-request", is_flag=True, help="Then push the result, and open a pull request with gh.")
@click.option("--keep", is_flag=True, help="Leave the result on the integration branch, as without a flag.")
@click.option("--list", "only_list", is_flag=True, help="Only list the entries of the queue.")
@json_flag
@click.pass_context
def integrate(ctx: click.Context, /, team: str | None, check: str | None, as_json: bool, **end: Any) -> int:
    """Merge the branches of TEAM's members into `teamwright/TEAM/integration`. Your checkout does not change.

    A running team does that itself; its queue is left alone. A branch that conflicts, or whose merge fails the check,
    stays as it is, and the others are merged. Exit code 1 when one was returned.
    """
    into: str | None = end["into"]
    only_list: bool = end["only_list"]
    if sum(map(bool, (into, end["pull_request"], end["keep"]))) > 1:
        raise UsageError("usage", "--into, --pull-request and --keep exclude each other", note="nothing was done")
    place = run_location(ctx)
    home = resolve_home(place.home)
    git = RepositoryGit.open(place.cwd, TrustStore.load(home).verdict(place.cwd).trusted_git)
    if not only_list:
        require_person(home, "integrates the work of members")
    integration, entries, merged = asyncio.run(_integrate(place, git, team, check, only_list=only_list))
    if as_json:
        say_json([to_builtins(entry) for entry in entries])
    elif not entries:
        say("The queue is empty." if only_list else f"No member has new commits for {integration.branch}.")
    else:
        say_table(("task", "member", "commit", "state", "reason"), [_entry_row(entry) for entry in entries])
    if not only_list and (into is not None or end["pull_request"]):
        branch = integration.branch
        done = _move_forward(git, into, branch) if into is not None else _open_pull_request(integration, merged)
        if not as_json:
            say(done)
    returned = any(entry.state in {IntegrationState.CONFLICT, IntegrationState.FAILED} for entry in entries)
    return 1 if returned and not only_list else 0


async def _integrate(
    place: RunLocation, git: RepositoryGit, team: str | None, check: str | None, *, only_list: bool
) -> tuple[Integration, list[IntegrationEntry], list[IntegrationEntry]]:
    """Return the integration of the team, the entries that were worked (for a list all), and those that are merged."""
    home = resolve_home(place.home)
    records = [one for one in list_records(home.worktrees)[0] if one.repository == str(git.main_tree)]
    async with open_access(place, team) as access:
        saved = _saved_team(access, team, records)
        name = saved.name if saved is not None else _team_of(records, team, git)
        store = access.integration(saved.directory if saved is not None else _queue_directory(access.home, name))
        integration = Integration(git, home.worktrees, name, store, SetupCommand())
        if only_list:
            worked = await store.entries()
        elif saved is not None and saved.lead_pid() is not None:
            note(f"The running team {name} works its queue.")
            worked = await store.entries()
        else:
            with tempfile.TemporaryDirectory(prefix="teamwright-") as temporary:
                commands = _integration_commands(home, git, temporary)
                mine = [one for one in records if one.team == name]
                worked = await _work_queue(_with_commands(integration, commands, check), commands, mine)
        merged = [one for one in await store.entries() if one.state is IntegrationState.MERGED]
        return integration, worked, merged


def _saved_team(access: SavedTeamAccess, word: str | None, records: list[WorktreeRecord]) -> SavedTeam | None:
    """Return the team of a database that the word names, or the only one; None for teams on files and an archived team.

    Raises TeamwrightError (`unknown-team`) for a team that has no worktrees here either.
    """
    if access.is_local:
        return None
    if word is not None:
        is_archived = any(one.team == word for one in records) and all(
            team.name != word for team in all_teams(access.home)
        )
        return None if is_archived else find_saved_team(access.home, word)
    teams = all_teams(access.home)
    return teams[0] if len(teams) == 1 else None


def _team_of(records: list[WorktreeRecord], name: str | None, git: RepositoryGit) -> str:
    """Return the team of that name with worktrees or an integration branch of this repository, or the only one.

    Without worktrees it is the only team whose integrated work the checkout does not contain. Raises UsageError.
    """
    teams = sorted({one.team for one in records}) or teams_with_work(git)
    if name is not None and (name in teams or git.commit_of(f"refs/heads/{integration_branch(name)}")):
        return name
    if name is None and len(teams) == 1:
        return teams[0]
    what = f"no team {name!r} has worktrees of this repository" if name is not None else "name the team"
    if not teams:
        what = "no team has worktrees of this repository, or work that is not in the branch of your checkout"
    raise UsageError("usage", what, do=[f"teamwright integrate {team}" for team in teams] or ["teamwright worktrees"])


def _queue_directory(home: Home, team: str) -> str:
    """Return the directory of a team on disk; of an archived one the directory that it had."""
    return next((one.directory for one in all_teams(home) if one.name == team), team_directory_name(team))


def _with_commands(integration: Integration, commands: IntegrationCommands, check: str | None) -> Integration:
    settings = commands.settings.worktrees
    return replace(
        integration,
        check=commands.command(settings.check if check is None else check, settings.check_timeout_s, "check"),
        setup=commands.command(settings.setup, settings.setup_timeout_s, "setup"),
        strategy=MergeStrategy(settings.merge),
    )


def _integration_commands(home: Home, git: RepositoryGit, temporary: str) -> IntegrationCommands:
    """Return what runs the checks and setups. Its modules load here: lists of worktrees and of the queue need none."""
    from teamwright.config.settings.merge import load_settings
    from teamwright.config.settings.settings import SettingFlags
    from teamwright.session.options import Options
    from teamwright.session.preparation import load_team_definition, sandbox_variable, with_team_file
    from teamwright.session.wiring.integration_commands import IntegrationCommands

    trust = TrustStore.load(home).verdict(git.tree)
    settings = load_settings(home, git.tree, SettingFlags(sandbox=sandbox_variable(Options())), trust)
    if (definition := load_team_definition(trust)[0]) is not None:
        settings = with_team_file(settings, definition)
    return IntegrationCommands(home, settings, trust, _HostQuestions(), Path(temporary), note)


class _HostQuestions:
    """The approver of hosts: a person at the terminal. Without one a host is refused."""

    async def ask(self, question: Question) -> PermissionAnswer:
        if not sys.stdin.isatty():
            note(f"Refused to {question.description}. A rule WebFetch(domain:…) of yours allows a host.")
            return PermissionAnswer(allowed=False, by="policy")
        agreed = await asyncio.to_thread(click.confirm, f"{question.what}\nAllow it", default=False, err=True)
        return PermissionAnswer(allowed=agreed, by="terminal")


async def _work_queue(
    integration: Integration, commands: IntegrationCommands, records: list[WorktreeRecord]
) -> list[IntegrationEntry]:
    """Add the newest commit of each member's branch, and work the queue; list it while a running team works it."""
    try:
        lease = Lease.take(integration.lease_file, "teamwright integrate")
    except CannotStart as problem:
        if problem.slug != "session-busy":
            raise
        note(f"The running team {integration.team} works its queue.")
        return await integration.store.entries()
    try:
        queued = {entry.tip for entry in await integration.store.entries()}
        for record in records:
            tip = unintegrated_tip(integration.git, record)
            if tip and tip not in queued:
                await integration.add(record, tip)
        try:
            return await integration.run()
        finally:
            await commands.close()
    finally:
        integration.worktree.remove()
        lease.release()


def _move_forward(git: RepositoryGit, into: str, branch: str) -> str:
    """Move the person's branch forward to the integration branch. Raises UsageError, WorktreeRefused."""
    _require_branch(git, branch)
    fast_forward(git, into, branch)
    return f"{into} is at {branch}."


def _open_pull_request(integration: Integration, entries: Sequence[IntegrationEntry]) -> str:
    """Push the integration branch to `origin` and open a pull request. Returns its address. Raises TeamwrightError."""
    git = integration.git
    branch = integration.branch
    _require_branch(git, branch)
    base = git.call("branch", "--show-current").output.strip()
    if not (gh := find_program("gh")) or not base:
        what = "gh is not installed" if base else "no branch is checked out as the base"
        raise UsageError("usage", what, do=[f"git push origin {branch}", "install gh: https://cli.github.com"])
    lines = [f"- {f'task {one.task}, ' if one.task else ''}{one.member}: {one.tip[:12]}" for one in entries]
    title = ("--title", f"Work of the team {integration.team}", "--body", "\n".join(lines) or branch)
    _run_own(git, git_program(), "push", "--quiet", "origin", f"{branch}:{branch}")
    return _run_own(git, gh, "pr", "create", "--head", branch, "--base", base, *title)


def _require_branch(git: RepositoryGit, branch: str) -> None:
    if not git.commit_of(branch):
        raise UsageError("usage", f"nothing was integrated yet: there is no branch {branch}")


def _run_own(git: RepositoryGit, *args: str) -> str:
    """Run a program of the person in the checkout, with the person's configuration. Raises WorktreeRefused."""
    env = own_variables(without_git_variables(os.environ))
    done = subprocess.run(args, cwd=git.tree, env=env, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        output = (done.stderr or done.stdout).strip()[-500:]
        raise WorktreeRefused("worktree-refused", f"{Path(args[0]).name} {args[1]} failed: {output}")
    return done.stdout.strip()


def _entry_row(entry: IntegrationEntry) -> tuple[str, ...]:
    why = ", ".join((*entry.paths, *([entry.detail] if entry.detail else [])))
    return entry.task and f"#{entry.task}", one_line(entry.member), entry.tip[:12], entry.state, one_line(why, 200)
