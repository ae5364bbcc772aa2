"""Lines whose unknown effects a policy of the sandbox bounds, so that they need no question.

Depends on the facts about commands, and on what commands name. Verdicts are made in `shell_line_verdict`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from teamwright.permissions.command_facts import CommandFacts
from teamwright.permissions.line_sandbox_policy import HARMLESS_TARGETS
from teamwright.permissions.read_only_commands import prints_version_only
from teamwright.permissions.variable_assignments import prints_environment
from teamwright.permissions.verdict import Decision, Verdict
from teamwright.sandbox.command_needs import NO_NEEDS, command_needs
from teamwright.shell_lines.command_words import word_set
from teamwright.shell_lines.parsed_line import ParsedLine
from teamwright.shell_lines.programs.side_effects import find_side_effect

READERS = word_set(
    "[ basename bat cat cksum cmp comm cut diff dirname du echo egrep fgrep file grep head hexdump jq less ls md5sum"
    " more nl od printf read readlink realpath rg sha1sum sha256sum sha512sum stat strings tac tail test tr wc xxd zcat"
    " zgrep zless"
)
"""Programs that are used to read only. The table need not be safe: the kernel holds them to it."""

_PRINT_WORDS = word_set("echo printf")
_PRINT_ENVIRONMENT = word_set("env printenv set export declare typeset")


def reads_when_confined(parsed: ParsedLine, facts: Sequence[CommandFacts], decisions: Iterable[Decision]) -> bool:
    """Return True when the line is meant to read only, so that the policy *read* bounds what it does."""
    if not _asks_for_proof_only(parsed, decisions) or prints_environment(parsed):
        return False
    run = [fact for fact in facts if fact.command.role in {"run", "unsure"}]
    writes = any(one.writes and one.target not in HARMLESS_TARGETS for one in parsed.redirects)
    return not writes and all(_reads(fact) for fact in run)


def _reads(fact: CommandFacts) -> bool:
    # What it names outside of the directories cannot be read in that policy, and a person may allow it.
    if fact.command.name in _PRINT_WORDS and not fact.project_program:
        return True  # at most names that a pattern finds, among those that the policy lets be seen
    # A program in an option, and a language that reads the environment, could print secrets of the environment.
    reader = fact.command.name in READERS and not find_side_effect(fact.command.words, ())
    known = not fact.project_program and (reader or prints_version_only(fact.command))
    return _stays_inside(fact) and (fact.reads is not None or known)


def _stays_inside(fact: CommandFacts) -> bool:
    return all(one.verdict is Verdict.ALLOW for one in (*fact.touched, *fact.named, *fact.below))


def needs_only_work(parsed: ParsedLine, facts: Sequence[CommandFacts], decisions: Iterable[Decision]) -> bool:
    """Return True when the line needs nothing beyond the policy *work*: no network, credentials or sockets."""
    if not _asks_for_proof_only(parsed, decisions) or parsed.may_run_input:
        return False
    if any(fact.command.name in _PRINT_ENVIRONMENT or not _stays_inside(fact) for fact in facts):
        return False
    needs = command_needs(one.words for one in parsed.commands)
    return replace(needs, programs=frozenset()) == NO_NEEDS


def _asks_for_proof_only(parsed: ParsedLine, decisions: Iterable[Decision]) -> bool:
    """Return True when all questions about the line exist only because effects of commands are not known."""
    asking = all(one.verdict is Verdict.ALLOW or one.is_unproven for one in decisions)
    return asking and parsed.is_valid and not parsed.doubt
