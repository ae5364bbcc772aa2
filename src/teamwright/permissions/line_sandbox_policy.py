"""The sandbox policy of an allowed shell line: a line that only reads runs where it cannot change anything.

The line only reads if no rule for commands was needed to allow it. Depends on the proofs of single commands.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from teamwright.permissions.command_facts import CommandFacts, collect_facts
from teamwright.permissions.decision_context import DecisionContext
from teamwright.permissions.git_access import explain_git_doubt
from teamwright.permissions.path_verdicts import judge_path
from teamwright.permissions.variable_assignments import changing_variable, prints_secret
from teamwright.permissions.verdict import BY_SANDBOX, Decision, Mode, Verdict
from teamwright.sandbox.command_needs import shared_secrets
from teamwright.sandbox.policy import PolicyName
from teamwright.shell_lines.parsed_line import FileRedirect, ParsedLine

HARMLESS_TARGETS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})
"""Files to which every line may write."""


def with_confinement(
    context: DecisionContext, parsed: ParsedLine, facts: Sequence[CommandFacts], decision: Decision
) -> Decision:
    """Return the decision with the sandbox policy of the line. Ask when a program would get credentials of another.

    If a person's rules run the line outside the sandbox, an approval of another part of it does too.
    """
    if decision.verdict is not Verdict.ALLOW:
        is_outside = decision.verdict is Verdict.ASK and _is_unconfined(context, parsed, facts)
        return replace(decision, confinement=PolicyName.UNCONFINED) if is_outside else decision
    if _only_reads(context, parsed, facts):
        return replace(decision, confinement=PolicyName.READ)
    if decision.rule != BY_SANDBOX and _is_unconfined(context, parsed, facts):
        return replace(decision, confinement=PolicyName.UNCONFINED)
    if context.is_confined and not context.bypasses and (shared := _find_shared_secrets(facts)):
        return Decision(Verdict.ASK, BY_SANDBOX, shared)
    return decision


def _find_shared_secrets(facts: Sequence[CommandFacts]) -> str:
    """Return the question about a program that would get the credentials of another one in the line; empty without.

    A line runs in one sandbox. Commands of the tables are judged by the paths that they name, so they do not count.
    """
    run = [fact.command for fact in facts if fact.command.role in {"run", "unsure"}]
    known = {id(fact.command) for fact in facts if fact.reads is not None or fact.changes is not None}
    shared = shared_secrets([command.words for command in run if id(command) not in known])
    if shared is None:
        return ""
    name, needs = shared
    gets = f"{name or 'A program'} would get what another command of the line needs: {needs.describe()}."
    return f"{gets} Run them one after the other."


def _is_unconfined(context: DecisionContext, parsed: ParsedLine, facts: Sequence[CommandFacts]) -> bool:
    """Return True when a rule `Unconfined(…)` names every command of the line that does more than read.

    In a mode that allows everything no question was asked about variables, other commands and files of the line.
    """
    rules = [rule for rule in context.rules.rules_for("Bash").allow if rule.is_unconfined]
    if not rules or not parsed.is_valid or parsed.doubt or changing_variable(parsed):
        return False
    is_judged = not context.bypasses
    context, facts = _without_bypass(context, parsed, facts)
    run = [fact for fact in facts if fact.command.role in {"run", "unsure"}]
    others = [fact for fact in run if not any(rule.matches_words(fact.command.words) for rule in rules)]
    if len(others) == len(run) or any(fact.reads is None for fact in others):
        return False
    return is_judged or (
        all(_reads(context, fact) for fact in others)
        and not prints_secret(parsed)
        and all(_is_read(context, one) for one in parsed.redirects if one.target not in HARMLESS_TARGETS)
    )


def _only_reads(context: DecisionContext, parsed: ParsedLine, facts: Sequence[CommandFacts]) -> bool:
    """Return True when every command reads only, and path rules alone allow what it reads."""
    if not parsed.is_valid or parsed.doubt or changing_variable(parsed) or prints_secret(parsed):
        return False
    context, facts = _without_bypass(context, parsed, facts)
    run = [fact for fact in facts if fact.command.role in {"run", "unsure"}]
    return all(_reads(context, fact) for fact in run) and all(
        _is_read(context, redirect) for redirect in parsed.redirects if redirect.target not in HARMLESS_TARGETS
    )


def _without_bypass(
    context: DecisionContext, parsed: ParsedLine, facts: Sequence[CommandFacts]
) -> tuple[DecisionContext, Sequence[CommandFacts]]:
    """Return the context and the facts without a mode that allows every path."""
    if not context.bypasses:
        return context, facts
    context = replace(context, mode=Mode.DEFAULT)
    return context, [collect_facts(context, command) for command in parsed.commands]


def _reads(context: DecisionContext, fact: CommandFacts) -> bool:
    if fact.reads is None:
        return False
    if fact.reads.by_git and explain_git_doubt(fact.command, fact.reads.paths, context.scope.trusted_git):
        return False
    return all(decision.verdict is Verdict.ALLOW for decision in (*fact.touched, *fact.below))


def _is_read(context: DecisionContext, redirect: FileRedirect) -> bool:
    if redirect.writes or redirect.target is None or redirect.glob or None in redirect.directories:
        return False
    target = os.path.expanduser(redirect.target)
    paths = (Path(os.path.join(place or "/", target)) for place in redirect.directories)
    return all(judge_path(context, "Read", path, writes=False).verdict is Verdict.ALLOW for path in paths)
