"""The question of trust in the entries of a repository, asked before a session opens.

It reads from the terminal and prints a few lines.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace

from teamwright.config.person_check import agent_command
from teamwright.session.options import Options
from teamwright.session.trust_question import TrustState, give_trust, trust_survey
from teamwright.teams.status.team_views import resolve_home
from teamwright.ui.display_text import clean, one_line

MAX_LISTED = 20
"""The number of listed entries; the rest is counted. Entries that allow calls or run automatically are always listed.
"""

AskLine = Callable[[str], str]


def ask_for_trust(options: Options, ask: AskLine = input) -> Options:
    """Return the options with `trust` set when the person trusts the entries for this run.

    No question is asked without waiting entries. No answer, or an unknown one, means no: the entries are left out.
    Raises KeyboardInterrupt for Ctrl-C.
    """
    state = trust_survey(options)
    if options.trust or not state.needs_asking:
        return options
    if agent_command(resolve_home(options.home)) is not None:
        sys.stdout.write("Entries of this repository are left out: a command of an agent has opened this terminal.\n")
        return options
    sys.stdout.write("\n".join(_entry_lines(state)) + "\n")
    sys.stdout.flush()
    match _read_answer(ask):
        case "y":
            give_trust(options, state)
            return options
        case "o":
            return replace(options, trust=True)
        case _:
            sys.stdout.write("Left out. `teamwright trust` gives trust later.\n")
            return options


def _entry_lines(state: TrustState) -> list[str]:
    """Return all entries that need trust, since a yes covers all of them."""
    waiting = sorted(state.pending, key=lambda entry: entry.effect != "used")
    lines = [clean(str(state.root)), "has entries that can run or widen something:", ""]
    listed = [entry for at, entry in enumerate(waiting) if at < MAX_LISTED or entry.allows or entry.kind == "hook"]
    for entry in listed:
        later = "" if entry.effect == "used" else f" [{entry.effect}]"
        lines += [f"  {one_line(entry.summary)}", f"    in {one_line(entry.file)}{later}"]
    if left := len(waiting) - len(listed):
        lines.append(f"  … and {left} more: `teamwright trust` shows them")
    return [*lines, "", "Without trust only its instructions and its own prohibitions apply."]


def _read_answer(ask: AskLine) -> str:
    """Return y, o or n; ask again after any other line."""
    while True:
        try:
            reply = ask("trust them?  y for good · o only this run · n leave them out: ").strip().lower()
        except EOFError:
            sys.stdout.write("\n")
            return "n"
        if reply in {"y", "yes"}:
            return "y"
        if reply in {"o", "once"}:
            return "o"
        if reply in {"n", "no"}:
            return "n"
