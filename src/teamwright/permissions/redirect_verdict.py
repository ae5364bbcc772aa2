"""Verdicts on the files of a line's redirections: rules for files decide, then the mode.

Depends on the verdicts on paths. Commands are judged in `shell_line_verdict`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from teamwright.permissions.decision_context import DecisionContext, decide_by_mode, strictest
from teamwright.permissions.line_sandbox_policy import HARMLESS_TARGETS
from teamwright.permissions.path_verdicts import HARD_LINKS, NETWORK, judge_path, judge_unknown_path, judge_written
from teamwright.permissions.possible_file_names import glob_shape
from teamwright.permissions.verdict import Decision, Verdict
from teamwright.shell_lines.parsed_line import FileRedirect, ParsedLine
from teamwright.shell_lines.word_expansion import Shape


def judge_redirects(context: DecisionContext, parsed: ParsedLine) -> Iterator[Decision]:
    """Yield the verdict on each file of the line's redirections."""
    for redirect in parsed.redirects:
        if redirect.target not in HARMLESS_TARGETS:
            yield judge_redirect(context, redirect)


def judge_redirect(context: DecisionContext, redirect: FileRedirect) -> Decision:
    """Return the verdict on the file of one redirection."""
    tool, does = ("Write", "writes to") if redirect.writes else ("Read", "reads from")
    if redirect.target is None or redirect.glob or None in redirect.directories:
        for decision in judge_unknown_path(context, tool, _unknown_target(redirect), certain=True):
            return decision
        if any(rule.is_whole_tool for rule in context.rules.rules_for("Bash").allow):
            return decide_by_mode(context.mode, Verdict.ALLOW, "A rule allows every command.")
        return decide_by_mode(context.mode, Verdict.ASK, f"It {does} a file that only the shell will know.")
    target = os.path.expanduser(redirect.target)
    paths = [Path(os.path.join(place or "/", target)) for place in redirect.directories]
    decision = strictest(
        (
            judge_written(context, path) if redirect.writes else judge_path(context, tool, path, writes=False)
            for path in paths
        ),
        decide_by_mode(context.mode, Verdict.ASK, f"It {does} a file."),
    )
    mere = decision.rule.startswith("mode ") or decision.rule in {HARD_LINKS, NETWORK}
    if mere and any(rule.is_whole_tool for rule in context.rules.rules_for("Bash").allow):
        return decide_by_mode(context.mode, Verdict.ALLOW, "A rule allows every command.")
    if redirect.writes and decision.verdict is Verdict.ALLOW and decision.rule.startswith("mode "):
        reason = f"It writes to {target} from the shell; Write and Edit change files."
        return replace(decide_by_mode(context.mode, Verdict.ASK, reason), is_unproven=True)
    return decision


def _unknown_target(redirect: FileRedirect) -> Shape:
    """Return the known parts of a file name that only the shell knows in full."""
    if redirect.target is None:
        return redirect.shape
    if redirect.glob:
        return glob_shape(redirect.target)
    return (None, f"/{redirect.target}")
