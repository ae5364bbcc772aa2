"""`teamwright worktrees`: list, show, remove and repair worktrees of agents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import to_builtins

from teamwright.config.trust import TrustStore, require_person
from teamwright.protocol.errors import TeamwrightError
from teamwright.storage.paths import Home
from teamwright.team_records.snapshots import resolve_home
from teamwright.ui.cli.output import format_age, json_flag, say, say_facts, say_json, say_table
from teamwright.ui.cli.run_location import run_location
from teamwright.ui.display_text import one_line
from teamwright.worktrees.repository_git import RepositoryGit
from teamwright.worktrees.session_worktrees import describe_base, open_recorded
from teamwright.worktrees.worktree_record import WorktreeRecord, find_record, list_records
from teamwright.worktrees.worktree_removal import remove_worktree
from teamwright.worktrees.worktree_state import WorktreeState, read_state

if TYPE_CHECKING:
    pass

# ── integrate ──────────────────────────────────────────────────────────────────────────────────────────────────


# ── worktrees ──────────────────────────────────────────────────────────────────────────────────────────────────


@click.group("worktrees", invoke_without_command=True)
@json_flag
@click.pass_context
def worktrees_command(ctx: click.Context, /, as_json: bool) -> int:
    """List the worktrees of agents, the oldest first, with what keeps each of them."""
    if ctx.invoked_subcommand is not None:
        return 0
    home = resolve_home(run_location(ctx).home)
    records, damaged = list_records(home.worktrees)
    states = [_state_of(home, record) for record in records]
    for problem in damaged:
        click.echo(f"teamwright: {problem.what}", err=True)
    if as_json:
        say_json([_worktree_json(record, state) for record, state in zip(records, states, strict=True)])
    elif not records:
        say("There are no worktrees.")
    else:
        rows = [_worktree_row(record, state) for record, state in zip(records, states, strict=True)]
        say_table(("worktree", "team", "member", "age", "state"), rows)
    return 0


@worktrees_command.command("show")
@click.argument("name", metavar="NAME")
@json_flag
@click.pass_context
def show_command(ctx: click.Context, /, name: str, as_json: bool) -> int:
    """Show one worktree: its branch, its base and every file that is in no commit. NAME is a member, branch or path."""
    home = resolve_home(run_location(ctx).home)
    record = find_record(list_records(home.worktrees)[0], name)
    state = _state_of(home, record)
    if as_json:
        say_json(_worktree_json(record, state))
        return 0
    ports = f"{record.port}-{record.port + record.ports - 1}" if record.port else "none"
    say_facts(
        [
            ("worktree", record.path),
            ("repository", record.repository),
            ("branch", record.branch),
            ("base", describe_base(record)),
            ("agent", f"{record.member} of {record.team}"),
            ("ports", ports),
            ("state", "; ".join(state.keeps) or "nothing in it could be lost"),
            *(("file", one_line(path)) for path in (*state.modified, *state.untracked, *state.ignored)),
        ]
    )
    return 0


@worktrees_command.command("remove")
@click.argument("name", metavar="NAME")
@click.option("--force", is_flag=True, help="Copy what is in no commit to the archive, then remove.")
@click.pass_context
def remove_command(ctx: click.Context, /, name: str, force: bool) -> int:
    """Remove one worktree, if nothing in it could be lost. Its branch stays while its commits are needed."""
    home = resolve_home(run_location(ctx).home)
    require_person(home, "removes worktrees")
    record = find_record(list_records(home.worktrees)[0], name)
    done = remove_worktree(_git_of(home, record), home.worktrees, record, archive=home.archive if force else None)
    say(f"The worktree {record.path} was removed.")
    if done.archived is not None:
        say(f"Its uncommitted files are in {done.archived}.")
    if done.kept_branch:
        say(f"Its commits are on the branch {done.kept_branch}.")
    return 0


@worktrees_command.command("repair")
@click.pass_context
def repair_command(ctx: click.Context, /) -> int:
    """Connect worktrees again after you moved or renamed their repository. Run it in the new place."""
    from teamwright.worktrees.moved_repository import repair_worktrees

    place = run_location(ctx)
    home = resolve_home(place.home)
    require_person(home, "repairs worktrees")
    git = RepositoryGit.open(place.cwd, TrustStore.load(home).verdict(place.cwd).trusted_git)
    repaired = repair_worktrees(git, home.worktrees)
    for one in repaired:
        say(f"The worktree {one.record.path} belongs to {one.record.repository} now.")
        if one.problem:
            say(f"  but {one_line(one.problem)}")
    for team in sorted({one.record.team for one in repaired}):
        say(f"Its team continues here with: teamwright teams adopt {team}")
    if not repaired:
        say("No worktree of this repository needs a repair.")
    return 0


def _git_of(home: Home, record: WorktreeRecord) -> RepositoryGit:
    """Return git in the worktree's repository, with what a person trusts in its configuration."""
    start = Path(record.repository)
    return open_recorded(record, TrustStore.load(home).verdict(start).trusted_git)


def _state_of(home: Home, record: WorktreeRecord) -> WorktreeState:
    try:
        return read_state(_git_of(home, record), record)
    except TeamwrightError as problem:
        return WorktreeState("unreadable", problem=problem.what)


def _worktree_row(record: WorktreeRecord, state: WorktreeState) -> tuple[str, ...]:
    why = "; ".join(state.keeps) or ("merged" if state.is_merged else state.state)
    return (
        record.tree.name,
        one_line(record.team),
        one_line(record.member),
        format_age(record.created_at / 1000),
        one_line(why),
    )


def _worktree_json(record: WorktreeRecord, state: WorktreeState) -> dict[str, Any]:
    fields: dict[str, Any] = {**to_builtins(record), **to_builtins(state), "keeps": list(state.keeps)}
    del fields["setup"]
    return {**fields, "branch": record.branch}
