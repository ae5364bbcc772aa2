"""`teamwright rewind`: take the conversation and the files of a session back to the time before a prompt."""

from __future__ import annotations

import asyncio
import sys

import click

from teamwright.config.person_authority import require_person
from teamwright.edit_history.edit_journal_reader import Scope
from teamwright.edit_history.history_location import HistoryLocation, find_history
from teamwright.edit_history.rewind import complete_rewind, preview_rewind, rewind_list, rewind_on_disk
from teamwright.edit_history.session_fork import fork_session
from teamwright.edit_history.undo import COMMANDS_STAY
from teamwright.edit_history.undo_plan import UndoPlan
from teamwright.protocol.errors import UsageError
from teamwright.team_records.views import resolve_home
from teamwright.ui.change_text import TAKEN_BACK, plan_rows, rewound_lines
from teamwright.ui.cli.output import format_iso, json_flag, say, say_facts, say_json, say_table
from teamwright.ui.cli.run_location import run_location
from teamwright.ui.display_text import clean


@click.command()
@click.argument("name", required=False, metavar="[SESSION or TEAM]")
@click.option("--to", "number", metavar="N", type=int, help="Go back to the time before prompt N; else list them.")
@click.option("--conversation-only", is_flag=True, help="Leave the files as they are.")
@click.option("--files-only", is_flag=True, help="Leave the conversation as it is.")
@click.option("--fork", "is_fork", is_flag=True, help="Change nothing; copy that conversation into a new session.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_flag
@click.pass_context
def rewind(ctx: click.Context, /, name: str | None, number: int | None, **how: bool) -> int:
    """Take a session's conversation and files back to the time before a prompt. Without --to its prompts are listed.
    With --fork a new session gets the conversation before that prompt, or without --to all of it.

    Changes by shell commands are covered in a git repository, without ignored files.
    """
    if how["conversation_only"] and how["files_only"]:
        raise UsageError("usage", "--conversation-only and --files-only exclude each other", do=["leave one out"])
    place = run_location(ctx)
    home = resolve_home(place.home)
    require_person(home, "takes a session back")
    where = find_history(home, place.cwd, name)
    if how["is_fork"]:
        return _fork(where, number, as_json=how["as_json"])
    if (done := asyncio.run(complete_rewind(where))) is None:
        if number is None:
            return _list(where, as_json=how["as_json"])
        scope: Scope = "conversation" if how["conversation_only"] else "files" if how["files_only"] else "all"
        agreed = None if how["yes"] else _confirm(where, preview_rewind(where, number, scope))
        if agreed is None and not how["yes"]:
            say("Nothing was changed.")
            return 0
        done = asyncio.run(rewind_on_disk(where, number, scope, agreed=agreed))
    if how["as_json"]:
        say_json(done)
        return 0
    for line in rewound_lines(done):
        say(clean(line))
    say(f"continue: teamwright --resume {where.session[:8]}")
    return 0


def _fork(where: HistoryLocation, number: int | None, *, as_json: bool) -> int:
    fork = fork_session(where, number)
    if as_json:
        say_json(fork)
        return 0
    before = f' before "{clean(fork.before.text)}"' if fork.before is not None else ""
    say(f"Session {fork.session[:8]} has the conversation of session {fork.source[:8]}{before}. No file was changed.")
    say(f"continue: teamwright --resume {fork.session[:8]}")
    return 0


def _list(where: HistoryLocation, *, as_json: bool) -> int:
    found = rewind_list(where)
    if as_json:
        say_json(found)
        return 0
    if not found.prompts:
        say("This session has no prompt to go back to.")
        return 0
    say_table(("", "said", "prompt"), [(str(p.number), format_iso(p.at), clean(p.text)) for p in found.prompts])
    say()
    say(f"Go back to the time before a prompt: teamwright rewind {where.session[:8]} --to N")
    return 0


def _confirm(where: HistoryLocation, plan: UndoPlan) -> UndoPlan | None:
    """Ask the person, and return the plan after a yes. Raises UsageError off a terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        count = len(plan.steps)
        raise UsageError(
            "usage",
            "no user is present to confirm",
            looked_at=[
                ("session", where.session),
                ("would do", f"go back to the time before prompt {plan.prompt.number}"),
                ("files", f"{count} would change"),
            ],
            do=["add --yes"],
            note="nothing was changed",
        )
    say_facts([("session", where.session), ("team", where.team), ("before", f'"{clean(plan.prompt.text)}"')], label=8)
    say_facts([("said", format_iso(plan.prompt.at)), ("back", TAKEN_BACK[plan.scope])], label=8)
    say()
    if plan.steps or plan.left:
        say_table(("", "file", "edits of"), plan_rows(plan, where.cwd))
    elif plan.scope != "conversation":
        say("No file was edited since then.")
    say()
    return plan if click.confirm(f"Go back? ({COMMANDS_STAY})") else None
