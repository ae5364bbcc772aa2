"""`teamwright permissions`: rules, and the verdict on a call; `teamwright trust`: trust of this repository."""

from __future__ import annotations

import click

from teamwright.config.trust import TrustState, require_person
from teamwright.protocol.errors import UsageError
from teamwright.session.options import Options
from teamwright.session.trust_question import TRUSTS, give_trust, take_trust, trust_survey
from teamwright.storage.paths import command_with_home
from teamwright.team_records.snapshots import resolve_home
from teamwright.ui.cli.output import json_flag, say, say_facts, say_json, say_table, table_lines
from teamwright.ui.cli.run_location import RunLocation, is_on_terminal, run_location
from teamwright.ui.display_text import one_line
from teamwright.views.permission_check import (
    CallerDescription,
    CallVerdict,
    RulesView,
    RuleView,
    check_call,
    rules_view,
)

# ── permissions ────────────────────────────────────────────────────────────────────────────────────────────────


@click.group(invoke_without_command=True)
@json_flag
@click.pass_context
def permissions(ctx: click.Context, /, as_json: bool) -> int:
    """List the rules in effect with the file of each, the mode, the directories, and how to change them."""
    if ctx.invoked_subcommand is not None:
        if as_json:
            raise UsageError("usage", "--json is written behind check", do=["teamwright permissions check … --json"])
        return 0
    place = run_location(ctx)
    found = rules_view(resolve_home(place.home), place.cwd, place.settings)
    if as_json:
        say_json(found)
    else:
        show_rules(found, place.home)
    return 0


@permissions.command("check")
@click.argument("call")
@click.option(
    "--member",
    metavar="NAME[@TEAM]",
    help="Use the rules of that member of a team on disk, with its tasks and its worktree.",
)
@click.option("--mode", metavar="MODE", help="In this permission mode.")
@json_flag
@click.pass_context
def check_command(ctx: click.Context, /, call: str, member: str | None, mode: str | None, as_json: bool) -> int:
    """Show the verdict on CALL: `Bash(git push)`, `Edit(src/x.py)`, `Agent(Explore)`. Nothing is run or asked."""
    if member is not None and mode is not None:
        raise UsageError("usage", "--member and --mode exclude each other", note="nothing was run")
    place = run_location(ctx)
    found = check_call(call, CallerDescription(resolve_home(place.home), place.cwd, mode, member, place.settings))
    if as_json:
        say_json(found)
    else:
        _show_verdict(found)
    return 0


def _show_verdict(found: CallVerdict) -> None:
    say(f"{found.verdict.upper()}  {one_line(found.call, 70)}")
    say(one_line(found.reason))
    say()
    say_facts(
        [
            ("decided by", one_line(found.rule)),
            ("mode", f"{found.mode} ({one_line(found.mode_from)})"),
            ("directory", one_line(found.cwd)),
            ('"always"', f"would keep {one_line(found.always)}" if found.always else ""),
            *(("may grant", one_line(words)) for words in found.grants),
        ]
    )
    if len(found.parts) > 1:
        say()
        parts = [(one_line(part.what), part.verdict, one_line(part.rule)) for part in found.parts]
        say_table(("part", "verdict", "decided by"), parts)
    if len(found.chain) > 1:
        say()
        rows = [(one_line(link.what), link.mode, link.verdict, one_line(link.rule)) for link in found.chain]
        say_table(("who", "mode", "verdict", "decided by"), rows)


def show_rules(found: RulesView, home: str | None) -> None:
    """Print mode, directories and rules."""
    say_facts([("mode", f"{found.mode} ({found.mode_from})"), ("", found.meaning)])
    say_facts([("directory" if number == 0 else "and", path) for number, path in enumerate(found.directories)])
    say()
    if found.rules:
        _say_rules(found.rules)
    else:
        say("No rule: the mode alone decides.")
    if found.untrusted:
        say()
        say("without effect until this repository is trusted:")
        _say_rules(found.untrusted)
    for warning in found.warnings:
        say(f"warning: {one_line(warning)}")
    say()
    say_facts(
        [
            ("change", "the mode: --permission-mode MODE, /mode in a session, or"),
            ("", command_with_home("teamwright config set permissions.defaultMode MODE", home)),
            ("", 'rules: --allowed-tools, --disallowed-tools, "always" where a call asks, or'),
            ("", "permissions.allow, permissions.ask and permissions.deny in"),
            ("", found.settings),
            ("", command_with_home("teamwright trust", home) if found.untrusted else ""),
            ("try", command_with_home("teamwright permissions check 'Bash(git push)'", home)),
        ]
    )


_WIDE = 1_000


def _say_rules(rules: tuple[RuleView, ...]) -> None:
    """Print rules; the path of a file is never cut, even when the line becomes too long."""
    for line in table_lines(
        ("verdict", "rule", "from"), [(one.verdict, one.rule, one.source) for one in rules], width=_WIDE
    ):
        say(line)


# ── trust ──────────────────────────────────────────────────────────────────────────────────────────────────────


@click.command()
@click.option("--show", "only_show", is_flag=True, help="Show, and change nothing.")
@click.option("--remove", is_flag=True, help="Withdraw trust.")
@click.option("--yes", is_flag=True, help="Trust what is shown, without asking: for scripts.")
@json_flag
@click.pass_context
def trust(ctx: click.Context, /, only_show: bool, remove: bool, yes: bool, as_json: bool) -> int:
    """Let this repository's own settings and definitions take effect.

    Trust applies to the repository and the present content of each entry. A changed entry is asked about again.
    """
    if sum((only_show, remove, yes)) > 1:
        raise UsageError("usage", "--show, --remove and --yes exclude each other", note="nothing was changed")
    if remove or yes:
        require_person(resolve_home(run_location(ctx).home), TRUSTS)
    place = run_location(ctx)
    options = Options(cwd=place.cwd, home=place.home)
    if remove:
        gone = take_trust(options)
        say("It is trusted no longer." if gone else "It was not trusted; nothing was changed.")
        return 0
    state = trust_survey(options)
    if as_json:
        say_json(_trust_json(state))
    else:
        _show_trust(state)
    if only_show or (as_json and not yes) or (not state.pending and (state.trusted or not yes)):
        return 0
    if not yes and not is_on_terminal():
        say()
        say("Nothing was changed. To trust it from a script: teamwright trust --yes")
        return 0
    if yes or _confirm_trust(place):
        give_trust(options, state)
        if not as_json:
            say("Trusted. To take it back: teamwright trust --remove")
    else:
        say("Nothing was changed.")
    return 0


def _confirm_trust(where: RunLocation) -> bool:
    """Ask the person at this terminal for trust; return True for yes."""
    require_person(resolve_home(where.home), TRUSTS)
    return click.confirm("Trust these entries of this repository", default=False, err=True)


def _show_trust(state: TrustState) -> None:
    say(f"repository   {one_line(str(state.root))}")
    say(f"state        {_state_text(state)}")
    waiting = {entry.key for entry in state.pending}
    for title, effect in (("takes effect when trusted", "used"), ("not used yet", "not used yet")):
        entries = [entry for entry in state.entries if entry.effect == effect]
        if entries:
            say()
            say(title)
        for entry in entries:
            mark = "?" if entry.key in waiting else "✓"
            say(f"  {mark} {one_line(entry.summary)}   ({one_line(entry.file)})")
    if not state.entries:
        say("It has no entries that could run, redirect or widen something.")


def _state_text(state: TrustState) -> str:
    if not state.trusted:
        return "not trusted: only its instructions and narrowing rules apply"
    count = len(state.pending)
    waits = f"trusted, but {count} {'entry is' if count == 1 else 'entries are'} new or changed, marked ?"
    return waits if count else "trusted"


def _trust_json(state: TrustState) -> dict[str, object]:
    waiting = {entry.key for entry in state.pending}
    return {
        "root": str(state.root),
        "bound_to": str(state.bound_to),
        "trusted": state.trusted,
        "entries": [
            {
                "kind": entry.kind,
                "name": entry.name,
                "file": entry.file,
                "summary": entry.summary,
                "effect": entry.effect,
                "pending": entry.key in waiting,
            }
            for entry in state.entries
        ],
    }
