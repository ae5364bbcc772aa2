"""`teamwright integrate`: merge the branches of a team's members into its integration branch, one after another."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import click
from msgspec import to_builtins

from teamwright.config.person_check import require_person
from teamwright.config.trust_store import TrustStore
from teamwright.protocol.errors import UsageError
from teamwright.protocol.integration import IntegrationState
from teamwright.storage.paths import Home
from teamwright.teams.status.team_views import resolve_home
from teamwright.tools.shell.startup import plain_shell
from teamwright.ui.cli.output import json_flag, say, say_json, say_table
from teamwright.ui.cli.run_location import run_location
from teamwright.ui.display_text import one_line
from teamwright.worktrees.integration import Integration, fast_forward
from teamwright.worktrees.integration_store import FileIntegrationStore, IntegrationEntry
from teamwright.worktrees.repository_git import RepositoryGit
from teamwright.worktrees.setup_command import SetupCommand
from teamwright.worktrees.worktree_record import WorktreeRecord, list_records, ref_part


@click.command("integrate")
@click.argument("team", metavar="[TEAM]", required=False)
@click.option("--check", metavar="COMMAND", default="", help="A command that must pass on each merge.")
@click.option("--into", metavar="BRANCH", help="Then move this branch forward to the result.")
@click.option("--list", "only_list", is_flag=True, help="Only list the entries of the queue.")
@json_flag
@click.pass_context
def integrate(
    ctx: click.Context, /, team: str | None, check: str, into: str | None, only_list: bool, as_json: bool
) -> int:
    """Merge the branches of TEAM's members into `teamwright/TEAM/integration`. Your checkout does not change.

    A branch that conflicts, or whose merge fails the check, stays as it is, and the others are merged. Exit code 1
    when one was returned.
    """
    place = run_location(ctx)
    home = resolve_home(place.home)
    git = RepositoryGit.open(place.cwd, TrustStore.load(home).verdict(place.cwd).trusted_git)
    records = [one for one in list_records(home.worktrees)[0] if one.repository == str(git.main_tree)]
    integration = _integration(home, git, _team_of(records, team), check)
    if only_list:
        entries = asyncio.run(integration.store.entries())
    else:
        require_person(home, "integrates the work of members")
        entries = asyncio.run(_run(integration, [one for one in records if one.team == integration.team]))
    if as_json:
        say_json([_as_json(entry) for entry in entries])
    elif not entries:
        say("The queue is empty." if only_list else f"No member has new commits for {integration.branch}.")
    else:
        say_table(("member", "commit", "state", "reason"), [_row(entry) for entry in entries])
    if into is not None and not only_list:
        _move_forward(git, into, integration.branch)
        if not as_json:
            say(f"{into} is at {integration.branch}.")
    returned = any(entry.state in {IntegrationState.CONFLICT, IntegrationState.FAILED} for entry in entries)
    return 1 if returned and not only_list else 0


def _move_forward(git: RepositoryGit, into: str, branch: str) -> None:
    """Move the person's branch forward to the integration branch. Raises UsageError, WorktreeRefused."""
    if not git.commit_of(branch):
        raise UsageError("usage", f"nothing was integrated yet: there is no branch {branch}")
    fast_forward(git, into, branch)


def _integration(home: Home, git: RepositoryGit, team: str, check: str) -> Integration:
    store = FileIntegrationStore(home.integration / ref_part(team))
    command = SetupCommand(check, shell=plain_shell(), environment=lambda: dict(os.environ), purpose="check")
    return Integration(git, home.worktrees, team, store, command)


async def _run(integration: Integration, records: list[WorktreeRecord]) -> list[IntegrationEntry]:
    """Add the newest commit of each member's branch, and work the queue."""
    for record in records:
        tip = integration.git.commit_of(f"refs/heads/{record.branch}")
        if tip and tip != record.base:
            await integration.add(record, tip)
    return await integration.run()


def _team_of(records: list[WorktreeRecord], name: str | None) -> str:
    """Return the team of that name with worktrees of this repository, or the only one. Raises UsageError."""
    teams = sorted({one.team for one in records})
    if name is not None and name in teams:
        return name
    if name is None and len(teams) == 1:
        return teams[0]
    what = f"no team {name!r} has worktrees of this repository" if name is not None else "name the team"
    if not teams:
        what = "no team has worktrees of this repository"
    raise UsageError("usage", what, do=[f"teamwright integrate {team}" for team in teams] or ["teamwright worktrees"])


def _row(entry: IntegrationEntry) -> tuple[str, ...]:
    why = ", ".join((*entry.paths, *([entry.detail] if entry.detail else [])))
    return one_line(entry.member), entry.tip[:12], entry.state, one_line(why, 200)


def _as_json(entry: IntegrationEntry) -> dict[str, Any]:
    return to_builtins(entry)
