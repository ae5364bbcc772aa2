"""`teamwright trust`: entries of this repository that need trust; give trust, or remove it."""

from __future__ import annotations

import click

from teamwright.config.person_authority import require_person
from teamwright.config.trust_store import TrustState
from teamwright.protocol.errors import UsageError
from teamwright.session.options import Options
from teamwright.session.trust_question import TRUSTS, give_trust, take_trust, trust_survey
from teamwright.team_records.views import resolve_home
from teamwright.ui.cli.output import json_flag, say, say_json
from teamwright.ui.cli.run_location import RunLocation, run_location
from teamwright.ui.display_text import one_line
from teamwright.ui.invocation import is_on_terminal


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
        say_json(_as_json(state))
    else:
        _show(state)
    if only_show or (as_json and not yes) or (not state.pending and (state.trusted or not yes)):
        return 0
    if not yes and not is_on_terminal():
        say()
        say("Nothing was changed. To trust it from a script: teamwright trust --yes")
        return 0
    if yes or _confirm(place):
        give_trust(options, state)
        if not as_json:
            say("Trusted. To take it back: teamwright trust --remove")
    else:
        say("Nothing was changed.")
    return 0


def _confirm(where: RunLocation) -> bool:
    """Ask the person at this terminal for trust; return True for yes."""
    require_person(resolve_home(where.home), TRUSTS)
    return click.confirm("Trust these entries of this repository", default=False, err=True)


def _show(state: TrustState) -> None:
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


def _as_json(state: TrustState) -> dict[str, object]:
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
