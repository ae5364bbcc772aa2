"""Commands about the edits of a session: `undo` and `rewind` take back, `diff` shows, `review` decides by member."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from teamwright.config.trust import require_person
from teamwright.edit_history.edit_journal_reader import Scope
from teamwright.edit_history.history_location import HistoryLocation, accessed_history, find_history
from teamwright.edit_history.queries import SessionChanges, edit_of_call, preview_undo, session_changes, undo_on_disk
from teamwright.edit_history.rewind import complete_rewind, fork_session, preview_rewind, rewind_list, rewind_on_disk
from teamwright.edit_history.team_review import REVIEW_ACTIONS, TeamReview, act_on_review, team_review
from teamwright.edit_history.undo import UndoPlan, limit_of_undo
from teamwright.protocol.errors import TeamwrightError, UsageError
from teamwright.storage.paths import Home
from teamwright.team_records.snapshots import resolve_home
from teamwright.ui.change_text import (
    TAKEN_BACK,
    ChangeTotals,
    change_lines,
    comparison_line,
    plan_rows,
    rewound_lines,
    stat_rows,
    summary_notes,
    undone_lines,
)
from teamwright.ui.cli.output import format_iso, json_flag, say, say_facts, say_json, say_styled, say_table, to_plain
from teamwright.ui.cli.run_location import RunLocation, is_on_terminal, open_access, run_location
from teamwright.ui.display_text import clean
from teamwright.ui.team_review_text import key_lines, member_diff, review_lines

# ── undo ───────────────────────────────────────────────────────────────────────────────────────────────────────


@click.command()
@click.argument("name", required=False, metavar="[SESSION or TEAM]")
@click.option("--member", metavar="NAME", help="Only this member's edits, with those of its sub-agents.")
@click.option("--except", "excluded", metavar="PATH", multiple=True, help="Leave this file as it is; may be repeated.")
@click.option("--force", is_flag=True, help="Undo also while member processes run.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_flag
@click.pass_context
def undo(ctx: click.Context, /, name: str | None, member: str | None, excluded: tuple[str, ...], **how: bool) -> int:
    """Undo the edits of the last prompt that changed files. A second undo goes one prompt further back.

    Changes by shell commands are covered in a git repository, without ignored files. While a session runs, type
    /undo there.
    """
    require_person(resolve_home(run_location(ctx).home), "takes edits back")
    place = run_location(ctx)
    where = asyncio.run(find_edits(place, name))
    agreed = None if how["yes"] else _confirm_undo(where, preview_undo(where, member, excluded))
    if agreed is None and not how["yes"]:
        say("Nothing was changed.")
        return 0
    undone = asyncio.run(undo_on_disk(where, member, excluded, force=how["force"], agreed=agreed))
    if how["as_json"]:
        say_json(undone)
        return 0
    for line in undone_lines(undone, where.cwd):
        say(clean(line))
    return 0


def _confirm_undo(where: HistoryLocation, plan: UndoPlan) -> UndoPlan | None:
    """Ask the person, and return the plan after a yes. Raises UsageError off a terminal."""
    count = len(plan.steps)
    _require_terminal(where, ("would do", f"take back {count} file{'' if count == 1 else 's'}"))
    prompt = f'"{plan.prompt.text}"' if plan.prompt.text else ""
    say_facts([("session", where.session), ("team", where.team), ("prompt", prompt)], label=8)
    say_facts([("said", format_iso(plan.prompt.at) if plan.prompt.at else "")], label=8)
    say()
    say_table(("", "file", "edits of"), plan_rows(plan, where.cwd))
    say()
    return plan if click.confirm(f"Take this back? ({limit_of_undo(where.cwd)})") else None


def _require_terminal(where: HistoryLocation, *effects: tuple[str, str]) -> None:
    """Raise UsageError with these effects when no person is here to confirm them."""
    if not is_on_terminal():
        raise UsageError(
            "usage",
            "no user is present to confirm",
            looked_at=[("session", where.session), *effects],
            do=["add --yes"],
            note="nothing was changed",
        )


async def find_edits(place: RunLocation, name: str | None) -> HistoryLocation:
    """Return the location of a session's edits, which are on this machine. Raises TeamwrightError."""
    async with open_access(place, name) as access:
        return accessed_history(access, resolve_home(place.home), place.cwd, name).require_here()


# ── diff ───────────────────────────────────────────────────────────────────────────────────────────────────────


@click.command()
@click.argument("name", required=False, metavar="[SESSION or TEAM or @MEMBER]")
@click.option("--member", metavar="NAME", help="Only this member's edits, with those of its sub-agents.")
@click.option("--call", "call_id", metavar="ID", help="Only what one tool call changed, e.g. c7.")
@click.option("--stat", is_flag=True, help="One line per file.")
@json_flag
@click.pass_context
def diff(ctx: click.Context, /, name: str | None, member: str | None, call_id: str | None, **how: bool) -> int:
    """Show what a session changed since it began, and which member did it. Newest session here by default.

    The changes of one member with a worktree are those against the integration branch. Changes by shell commands are
    covered in a git repository, without ignored files.
    """
    if name is not None and name.startswith("@") and member is None:
        name, member = None, name
    if call_id is not None and (member is not None or how["stat"]):
        raise UsageError("usage", "--call goes with --json alone", note="nothing was shown")
    place = run_location(ctx)
    home = resolve_home(place.home)
    member = member.removeprefix("@") if member is not None else None
    where = asyncio.run(find_edits(place, name))
    if call_id is not None:
        change = edit_of_call(where, call_id)
        say_json(change) if how["as_json"] else say_styled(change_lines(change), home)
        return 0
    found = session_changes(where, member)
    if how["as_json"]:
        _say_changes_json(found, stat=how["stat"])
    else:
        _show_changes(found, home, stat=how["stat"])
    return 0


def _say_changes_json(found: SessionChanges, *, stat: bool) -> None:
    files = [replace(change, diff="") if stat else change for change in found.files]
    where = found.place
    about = {"session": where.session, "team": where.team, "cwd": where.cwd, "member": found.member}
    notes = {"again": found.again, "cut_off": found.cut_off, "damaged": found.damaged, "against": found.against}
    say_json({**about, "files": files, **notes})


def _show_changes(found: SessionChanges, home: Home, *, stat: bool) -> None:
    sums = ChangeTotals()
    if found.against:
        say(clean(comparison_line(found.member, found.against)))
        say()
    files = (sums.add(change) for change in found.files)
    if stat:
        if rows := list(stat_rows(files)):
            say_table(("file", "lines", "who", ""), rows)
            say()
    else:
        for change in files:
            say_styled(change_lines(change), home)
            say()
    whose = f"{clean(found.member)} in " if found.member else ""
    say(clean(str(sums)) if sums.files else f"Nothing is changed by {whose}session {found.place.session[:8]}.")
    if found.against:
        return
    cut_off = format_iso(found.cut_off) if found.cut_off else ""
    for line in summary_notes(found.place.cwd, found.again, cut_off, found.damaged):
        say(clean(line))


# ── rewind ─────────────────────────────────────────────────────────────────────────────────────────────────────


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
            return _list_prompts(where, as_json=how["as_json"])
        scope: Scope = "conversation" if how["conversation_only"] else "files" if how["files_only"] else "all"
        agreed = None if how["yes"] else _confirm_rewind(where, preview_rewind(where, number, scope))
        if agreed is None and not how["yes"]:
            say("Nothing was changed.")
            return 0
        done = asyncio.run(rewind_on_disk(where, number, scope, agreed=agreed))
    if how["as_json"]:
        say_json(done)
        return 0
    for line in rewound_lines(done, where.cwd):
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


def _list_prompts(where: HistoryLocation, *, as_json: bool) -> int:
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


def _confirm_rewind(where: HistoryLocation, plan: UndoPlan) -> UndoPlan | None:
    """Ask the person, and return the plan after a yes. Raises UsageError off a terminal."""
    _require_terminal(
        where,
        ("would do", f"go back to the time before prompt {plan.prompt.number}"),
        ("files", f"{len(plan.steps)} would change"),
    )
    say_facts([("session", where.session), ("team", where.team), ("before", f'"{clean(plan.prompt.text)}"')], label=8)
    say_facts([("said", format_iso(plan.prompt.at)), ("back", TAKEN_BACK[plan.scope])], label=8)
    say()
    if plan.steps or plan.left:
        say_table(("", "file", "edits of"), plan_rows(plan, where.cwd))
    elif plan.scope != "conversation":
        say("No file was edited since then.")
    say()
    return plan if click.confirm(f"Go back? ({limit_of_undo(where.cwd)})") else None


# ── review ─────────────────────────────────────────────────────────────────────────────────────────────────────


@click.command()
@click.argument("name", required=False, metavar="[TEAM or SESSION]")
@click.option("--do", "action", type=click.Choice(tuple(REVIEW_ACTIONS)), help="Act on the work of --member.")
@click.option("--member", metavar="NAME", help="The member that --do is about; else show only this one.")
@click.option("--text", metavar="TEXT", default="", help="The comment of return, the message of commit.")
@json_flag
@click.pass_context
def review(
    ctx: click.Context, /, name: str | None, action: str | None, member: str | None, text: str, as_json: bool
) -> int:
    """Show each member's report, changes, checks and cost. At a terminal, keys accept, return, undo and commit."""
    place = run_location(ctx)
    home = resolve_home(place.home)
    if action is not None:
        require_person(home, "decides about the work of members")
        if member is None:
            raise UsageError("usage", f"--do {action} needs --member NAME", note="nothing was changed")
        result = asyncio.run(_act_on_member(place, name, action, member, text))
        say_json({"member": member, "action": action, "result": result}) if as_json else say(clean(result))
        return 0
    found = asyncio.run(_load_review(place, name))
    if member is not None:
        found = replace(found, members=(found.member(member),))
    if as_json:
        say_json(review_json(found))
        return 0
    _show_review(found, home)
    if is_on_terminal():
        require_person(home, "decides about the work of members")
        _read_actions(place, found, name, home)
    else:
        say(f"act on it: teamwright review {found.place.session[:8]} --do ACTION --member NAME")
    return 0


async def _load_review(where: RunLocation, name: str | None) -> TeamReview:
    async with open_access(where, name) as access:
        return team_review(access, accessed_history(access, resolve_home(where.home), where.cwd, name))


async def _act_on_member(where: RunLocation, name: str | None, action: str, member: str, text: str) -> str:
    async with open_access(where, name) as access:
        place = accessed_history(access, resolve_home(where.home), where.cwd, name)
        return await act_on_review(team_review(access, place), action, member, text)


def review_json(found: TeamReview) -> dict[str, Any]:
    """Return the review as JSON output contains it, with the actions."""
    actions = [{"name": one.name, "text": one.text, "help": one.help} for one in REVIEW_ACTIONS.values()]
    where = found.place
    return {
        "team": where.team,
        "session": where.session,
        "cwd": where.cwd,
        "members": to_plain(found.members),
        "actions": actions,
    }


def _show_review(found: TeamReview, home: Home) -> None:
    say_facts([("team", found.place.team), ("session", found.place.session)], label=8)
    say()
    say_styled(review_lines(found), home)


_DIFF_KEY = "d"


def _read_actions(where: RunLocation, found: TeamReview, name: str | None, home: Home) -> None:
    """Read actions until the person leaves. A refused action is named, and the next one is read."""
    for line in (*key_lines(), f"{_DIFF_KEY} NAME                 show the diff", "Enter                  leave"):
        say(line)
    where = replace(where, cwd=Path(found.place.cwd))
    name = name or found.place.session
    while True:
        try:
            words = input("review> ").split(maxsplit=2)
        except (EOFError, KeyboardInterrupt):
            say()
            return
        if not words:
            return
        key, member, text = [*words, "", ""][:3]
        try:
            if key == _DIFF_KEY:
                say_styled(member_diff(found, member), home)
            else:
                say(clean(asyncio.run(_act_on_member(where, name, key, member, text))))
        except TeamwrightError as problem:
            say(clean(problem.render()))
        else:
            found = asyncio.run(_load_review(where, name))
