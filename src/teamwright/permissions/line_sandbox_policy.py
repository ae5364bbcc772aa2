"""The sandbox policy of an allowed shell line, and the commands of a line that a mode may allow without a rule.

A line that only reads runs where it cannot change anything. It only reads if no rule for commands was needed to allow
it.

A verdict rests on what bash does with the line. Another shell differs in more than its syntax: zsh evaluates arithmetic
in `printf %d PATH=0`, and options of the user (`dotglob`) change which files a pattern names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from teamwright.permissions.changed_files import find_changes
from teamwright.permissions.command_facts import CommandFacts, collect_facts
from teamwright.permissions.decision_context import DecisionContext
from teamwright.permissions.git_access import explain_git_doubt
from teamwright.permissions.path_verdicts import judge_path
from teamwright.permissions.read_only_commands import prove_read_only
from teamwright.permissions.variable_assignments import changing_variable, prints_secret
from teamwright.permissions.verdict import BY_SANDBOX, Decision, Mode, Verdict
from teamwright.sandbox.command_needs import shared_secrets
from teamwright.sandbox.policy import PolicyName
from teamwright.shell_lines.ambiguity import is_read_alike
from teamwright.shell_lines.command_words import word_set
from teamwright.shell_lines.parse import parse_command
from teamwright.shell_lines.parsed_line import FileRedirect, ParsedLine, ShellCommand
from teamwright.shell_lines.step_limit import find_bounded

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
        all(_only_reads_allowed(context, fact) for fact in others)
        and not prints_secret(parsed)
        and all(_is_allowed_input(context, one) for one in parsed.redirects if one.target not in HARMLESS_TARGETS)
    )


def _only_reads(context: DecisionContext, parsed: ParsedLine, facts: Sequence[CommandFacts]) -> bool:
    """Return True when every command reads only, and path rules alone allow what it reads."""
    if not parsed.is_valid or parsed.doubt or changing_variable(parsed) or prints_secret(parsed):
        return False
    context, facts = _without_bypass(context, parsed, facts)
    run = [fact for fact in facts if fact.command.role in {"run", "unsure"}]
    return all(_only_reads_allowed(context, fact) for fact in run) and all(
        _is_allowed_input(context, redirect) for redirect in parsed.redirects if redirect.target not in HARMLESS_TARGETS
    )


def _without_bypass(
    context: DecisionContext, parsed: ParsedLine, facts: Sequence[CommandFacts]
) -> tuple[DecisionContext, Sequence[CommandFacts]]:
    """Return the context and the facts without a mode that allows every path."""
    if not context.bypasses:
        return context, facts
    context = replace(context, mode=Mode.DEFAULT)
    return context, [collect_facts(context, command) for command in parsed.commands]


def _only_reads_allowed(context: DecisionContext, fact: CommandFacts) -> bool:
    if fact.reads is None:
        return False
    if fact.reads.by_git and explain_git_doubt(fact.command, fact.reads.paths, context.scope.trusted_git):
        return False
    return all(decision.verdict is Verdict.ALLOW for decision in (*fact.touched, *fact.below))


def _is_allowed_input(context: DecisionContext, redirect: FileRedirect) -> bool:
    if redirect.writes or redirect.target is None or redirect.glob or None in redirect.directories:
        return False
    target = os.path.expanduser(redirect.target)
    paths = (Path(os.path.join(place or "/", target)) for place in redirect.directories)
    return all(judge_path(context, "Read", path, writes=False).verdict is Verdict.ALLOW for path in paths)


_READ_TWICE = word_set(
    "printf test [ [[ exit return break continue shift let export typeset declare local readonly unset read getopts"
    " eval . source trap exec set wait kill ulimit umask fg bg pushd popd dirs hash alias builtin"
)
"""Builtins that evaluate a word as arithmetic, as a subscript or as code, in some shells."""

_MOVES_IN_PIPELINE = re.compile(r"(?<!\|)\|(?!\|).*\bcd\b", re.DOTALL)
"""In zsh the last part of a pipeline changes the directory of the line."""


class LinePrograms(Struct, frozen=True):
    """The commands of a line by their proof.

    `proven` are the names of commands that only read, or change files as modes accept it. `others` are the names of the
    other commands; None: one that only the shell knows. `is_plain`: the line has nothing but proven commands, and
    writes no file by a redirection. `is_alike`: bash, zsh and sh certainly read the line alike.
    """

    proven: frozenset[str]
    others: frozenset[str | None]
    is_plain: bool
    is_alike: bool


_UNKNOWN_PROGRAMS = LinePrograms(frozenset(), frozenset({None}), is_plain=False, is_alike=False)


def find_programs(command: str, cwd: Path) -> LinePrograms:
    """Return the programs of the line. A line that cannot be read, or is too large, has a program that only the shell
    knows.
    """
    return find_bounded(lambda: _find_programs(command, cwd), otherwise=_UNKNOWN_PROGRAMS)


def _find_programs(command: str, cwd: Path) -> LinePrograms:
    parsed = parse_command(command, cwd)
    run = [one for one in parsed.commands if one.role in {"run", "unsure"}]
    proven = [one for one in run if prove_read_only(one) is not None or find_changes(one) is not None]
    others = frozenset(one.name for one in run if one not in proven)
    is_read = parsed.is_valid and not parsed.doubt
    written = any(one.writes and one.target not in HARMLESS_TARGETS for one in parsed.redirects)
    return LinePrograms(
        frozenset(one.name for one in proven if one.name) if is_read else frozenset(),
        others if is_read else others | {None},
        is_plain=is_read and not written and not others,
        is_alike=is_read
        and is_read_alike(command)
        and not _MOVES_IN_PIPELINE.search(command)
        and not any(map(_may_be_read_twice, parsed.commands)),
    )


def _may_be_read_twice(command: ShellCommand) -> bool:
    return command.name in _READ_TWICE and not all(word is not None and word.isdecimal() for word in command.words[1:])
