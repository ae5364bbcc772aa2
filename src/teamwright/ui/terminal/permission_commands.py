"""`/permissions` at the terminal: mode, directories and rules in force in this session, and the verdict on a call.

Depends on the lead's policy and on the parser of calls. Settings outside a session, and members of teams on disk, are
left to `teamwright permissions`.
"""

from __future__ import annotations

from collections.abc import Iterator

from teamwright.agent.mode_reminders import MODE_MEANINGS
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.rules import Rule
from teamwright.protocol.errors import UsageError
from teamwright.session.session import Session
from teamwright.ui.display_text import cell_width, exact_line, one_line, pad
from teamwright.ui.terminal.directory_commands import program_lines
from teamwright.views.permission_check import parse_call

_ORDER = ("deny", "ask", "allow")


async def permissions(session: Session, rest: str) -> list[str]:
    """Return the rules in force, or the verdict on the call after `check`. Raises UsageError for another word."""
    command, _, call = rest.strip().partition(" ")
    if " --" in rest:
        return await program_lines(session, "/permissions", rest)
    if not command:
        return list(_rule_lines(session))
    if command != "check" or not call.strip():
        raise UsageError(
            "usage",
            f"/permissions {rest.strip()[:80]}: it takes no word, or check and a call",
            do=["/permissions", "/permissions check Bash(git push)"],
            note="nothing was run",
        )
    return _verdict_lines(session, call.strip().strip("'\""))


def _rule_lines(session: Session) -> Iterator[str]:
    mode, policy = session.modes.mode, session.agent_factory.policy
    yield f"  mode       {mode}: {MODE_MEANINGS[mode]}"
    for directory in policy.scope.directories:
        yield f"  directory  {one_line(str(directory))}"
    rules = _rules(policy)
    width = max((cell_width(exact_line(rule.text)) for rule in rules), default=0)
    for rule in rules:
        yield f"  {rule.verdict:<10} {pad(exact_line(rule.text), width)}  {one_line(rule.source)}"
    if not rules:
        yield "  no rule: the mode alone decides"
    yield "  /mode sets the mode, /add-dir adds a directory, /permissions check Bash(git push) shows a verdict"
    yield '  rules: "always" where a call asks, or permissions.allow, ask and deny in a settings file, then /reload'


def _rules(policy: Policy) -> list[Rule]:
    return sorted((*policy.rules, *policy.granted), key=lambda rule: _ORDER.index(str(rule.verdict)))


def _verdict_lines(session: Session, call: str) -> list[str]:
    tool, access = parse_call(call, session.agent_factory.work_directory, session.agent_factory.toolset.command_path)
    decision = session.lead.agent.policy.decide(tool, access)
    return [
        f"  {str(decision.verdict).upper()}  {one_line(call, 70)}",
        f"    {one_line(decision.reason)}",
        f"    decided by {exact_line(decision.rule)}, mode {session.modes.mode}",
        *([f'    "always" would store {exact_line(decision.always)}'] if decision.always else []),
    ]
