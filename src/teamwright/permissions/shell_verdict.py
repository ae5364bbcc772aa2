"""Verdicts on shell commands: each command in a line must be allowed, and one denied command denies the line.

Parses the line with `shell_lines`, then applies the rules, the git policy, the table of read-only commands and, in
modes that accept edits, the table of changing ones. Rules for files decide on the files of redirections. A line needs
no question if a policy of the sandbox bounds its unknown effects. Runs no program.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from teamwright.permissions.allow_rule_limits import uncovered_word
from teamwright.permissions.changed_files import FileChanges, find_changes, runs_in_order
from teamwright.permissions.command_facts import CommandFacts, find_denials, find_questions
from teamwright.permissions.created_links import parse_access
from teamwright.permissions.decision_context import (
    DecisionContext,
    PermissionScope,
    ToolRules,
    decide_by_mode,
    decide_by_plan,
    decide_by_rule,
    is_stricter,
    strictest,
)
from teamwright.permissions.git_access import (
    explain_git_doubt,
    explain_other_repository,
    explain_own_settings,
    shows_changes_plainly,
)
from teamwright.permissions.git_policy import deny_forms, same_subcommand, subcommand_to_ask
from teamwright.permissions.line_sandbox_policy import HARMLESS_TARGETS, with_confinement
from teamwright.permissions.path_verdicts import (
    HARD_LINKS,
    NETWORK,
    containing_directory,
    existing_directory,
    judge_path,
    judge_unknown_path,
    judge_written,
)
from teamwright.permissions.possible_file_names import glob_shape
from teamwright.permissions.project_programs import collect_line_facts
from teamwright.permissions.read_only_commands import prints_version_only, prove_read_only
from teamwright.permissions.rules import Rule
from teamwright.permissions.variable_assignments import changing_variable, prints_environment, prints_secret
from teamwright.permissions.verdict import BY_SANDBOX, Access, Decision, Mode, Verdict
from teamwright.sandbox.command_needs import NO_NEEDS, command_needs
from teamwright.sandbox.policy import PolicyName
from teamwright.shell_lines.command_words import Words, join_words, word_set
from teamwright.shell_lines.expansion import ANY_SHAPE, Shape
from teamwright.shell_lines.parse import parse_command, too_large_line
from teamwright.shell_lines.parsed_line import FileRedirect, ParsedLine, ShellCommand
from teamwright.shell_lines.programs.side_effects import find_side_effect
from teamwright.shell_lines.step_limit import TooMuchWork, bounded_work, find_bounded, spend_steps

_WEAK_RULES = ("mode ", "unreadable command")
_MAX_MEANING = 120


def judge_command(context: DecisionContext, access: Access) -> Decision:
    """Return the verdict on a command line: the strictest for all its commands and all files that it touches.

    A line that needs too much work is judged as one that cannot be read.
    """
    context = replace(context, is_confined=bool(access.sandbox))
    try:
        with bounded_work():
            return _judge_line(context, access, parse_access(access, context.scope.base))
    except (TooMuchWork, RecursionError):
        with bounded_work(separate=True):
            return _judge_line(context, access, too_large_line())


def _judge_line(context: DecisionContext, access: Access, parsed: ParsedLine) -> Decision:
    rules = context.rules.rules_for("Bash")
    facts = collect_line_facts(context, access, parsed)
    if context.bypasses:
        allowed = decide_by_mode(context.mode, Verdict.ALLOW, "The mode allows everything that no deny rule names.")
        return with_confinement(context, parsed, facts, strictest(_denials(context, rules, parsed, facts), allowed))
    if context.is_planning and not _changes_nothing(parsed, facts):
        denied = (decision for decision in _denials(context, rules, parsed, facts) if decision.verdict is Verdict.DENY)
        return strictest(denied, decide_by_plan(context))
    allowed = decide_by_mode(context.mode, Verdict.ALLOW, "It only reads, inside the directories.")
    decisions = tuple(_judge_all(context, rules, parsed, facts, _last_command(facts, access)))
    decision = strictest(decisions, allowed)
    if decision.verdict is Verdict.ASK and access.sandbox:
        decision = _answer_by_sandbox(context, access, parsed, facts, decisions) or decision
    return with_confinement(context, parsed, facts, decision)


def _answer_by_sandbox(
    context: DecisionContext,
    access: Access,
    parsed: ParsedLine,
    facts: list[CommandFacts],
    decisions: tuple[Decision, ...],
) -> Decision | None:
    """Allow a line that asks only because effects of commands are not known, when a sandbox policy bounds them."""
    if PolicyName.READ in access.sandbox and reads_when_confined(parsed, facts, decisions):
        reason = "It only reads, and the sandbox holds it to that."
        return Decision(Verdict.ALLOW, BY_SANDBOX, reason, confinement=PolicyName.READ)
    if PolicyName.WORK not in access.sandbox or context.is_planning:
        return None
    # Changes inside the directories are what the policy allows.
    wider = replace(context, mode=Mode.ACCEPT_EDITS)
    facts = collect_line_facts(wider, access, parsed)
    rules = context.rules.rules_for("Bash")
    again = tuple(_judge_all(wider, rules, parsed, facts, _last_command(facts, access)))
    if not needs_only_work(parsed, facts, again):
        return None
    return Decision(Verdict.ALLOW, BY_SANDBOX, "The sandbox confines it, and it names nothing beyond that.")


def judge_with_aliases(context: DecisionContext, access: Access) -> Decision:
    """Return the verdict on a command line with known aliases: a denial of either form denies it.

    A rule that allows the written form still allows it, unless a rule or the git policy decides on the expanded form.
    """
    written = judge_command(context, access)
    if not access.expanded_command:
        return written
    expanded = judge_command(context, replace(access, command=access.expanded_command, expanded_command=""))
    if (
        expanded.verdict is Verdict.ASK
        and expanded.rule.startswith(_WEAK_RULES)
        and not written.rule.startswith(_WEAK_RULES)
    ):
        return written
    if not is_stricter(expanded, written):
        return replace(written, confinement=expanded.confinement)
    command = (
        access.expanded_command
        if len(access.expanded_command) <= _MAX_MEANING
        else access.expanded_command[:_MAX_MEANING] + "…"
    )
    return replace(expanded, reason=f"By your shell's aliases it runs {command}: {expanded.reason}")


def explain(context: DecisionContext, access: Access) -> list[tuple[str, Decision]]:
    """Return each command and redirection of a line with its verdict, in their order; the whole line comes last."""
    try:
        with bounded_work():
            return _explain_parts(context, access)
    except (TooMuchWork, RecursionError):
        return [("the line as a whole", judge_command(context, access))]


def _explain_parts(context: DecisionContext, access: Access) -> list[tuple[str, Decision]]:
    context = replace(context, is_confined=bool(access.sandbox))
    parsed = parse_access(access, context.scope.base)
    rules = context.rules.rules_for("Bash")
    facts = collect_line_facts(context, access, parsed)
    found: list[tuple[str, Decision]] = []
    last = _last_command(facts, access)
    for fact in facts:
        if fact.command.role != "guess":
            found.append((join_words(fact.command.words), _explain_command(context, rules, parsed, fact, fact is last)))
    for one in parsed.redirects:
        if one.target not in HARMLESS_TARGETS:
            sign = ">" if one.writes else "<"
            found.append((f"{sign} {one.target or '…'}", _explain_redirect(context, one)))
    whole = judge_command(context, access)
    listed = {(decision.verdict, decision.rule) for _, decision in found}
    return found if (whole.verdict, whole.rule) in listed else [*found, ("the line as a whole", whole)]


def _explain_command(
    context: DecisionContext, rules: ToolRules, parsed: ParsedLine, fact: CommandFacts, last: bool
) -> Decision:
    denied = _first_match(rules.deny, fact.command)
    if denied is not None:
        return decide_by_rule(denied)
    refused = next(find_denials(fact), None)
    if refused is not None:
        return refused
    if context.bypasses:
        return decide_by_mode(context.mode, Verdict.ALLOW, "The mode allows everything that no deny rule names.")
    if context.is_planning and fact.reads is None and fact.command.role in {"run", "unsure"}:
        return decide_by_plan(context)
    fenced = next(_path_questions(rules, fact), None)
    return fenced or _judge(context, rules, parsed, fact, last=last)


def _explain_redirect(context: DecisionContext, redirect: FileRedirect) -> Decision:
    decision = judge_redirect(context, redirect)
    if decision.verdict is Verdict.DENY or not (context.bypasses or (context.is_planning and redirect.writes)):
        return decision
    if context.is_planning:
        return decide_by_plan(context)
    if decision.needs_person:
        return decision
    return decide_by_mode(context.mode, Verdict.ALLOW, "The mode allows everything that no deny rule names.")


def is_proven_read_only(command: str, cwd: Path) -> bool:
    """Return True when the line certainly changes nothing, not even the working directory.

    Such calls may run together.
    """
    return find_bounded(lambda: _is_read_only(command, cwd), otherwise=False)


def _is_read_only(command: str, cwd: Path) -> bool:
    parsed = parse_command(command, cwd)
    if (
        not parsed.is_valid
        or parsed.doubt
        or parsed.variables_set
        or any(_writes(redirect) for redirect in parsed.redirects)
    ):
        return False
    found = [one for one in parsed.commands if one.role in {"run", "unsure"}]
    return bool(found) and not any(one.name == "cd" or one.variables or prove_read_only(one) is None for one in found)


def _changes_nothing(parsed: ParsedLine, facts: list[CommandFacts]) -> bool:
    """Return True when every command is proven to be read-only and the final directory is certain, without rules."""
    if not parsed.is_valid or parsed.doubt or any(_writes(redirect) for redirect in parsed.redirects):
        return False
    run = [fact for fact in facts if fact.command.role in {"run", "unsure"}]
    return all(fact.reads is not None for fact in run) and not changing_variable(parsed)


def used_directories(access: Access, scope: PermissionScope) -> tuple[list[Path], bool] | None:
    """Return the directories used by a line that only reads and changes files, and whether it changes any.

    Return None for every other line, also for one with output redirections: no mode and no directory allows those.
    """
    return find_bounded(lambda: _find_directories(access, scope), otherwise=None)


def _find_directories(access: Access, scope: PermissionScope) -> tuple[list[Path], bool] | None:
    parsed = parse_command(access.command or "", access.cwd or scope.base)
    if not parsed.is_valid or parsed.doubt or any(_writes(one) for one in parsed.redirects) or prints_secret(parsed):
        return None
    found: list[Path] = []
    edits = False
    for command in () if changing_variable(parsed) else parsed.commands:
        reads = prove_read_only(command)
        change = find_changes(command)
        if command.role in {"run", "unsure"} and reads is None and change is None:
            return None
        found += [containing_directory(path) for path in reads.paths] if reads is not None else []
        if change is not None:
            edits = True
            holds = existing_directory if command.name == "mkdir" else containing_directory
            found += [containing_directory(path) for path in change.reads]
            found += [holds(path) for path in change.writes]
    for redirect in parsed.redirects:
        if redirect.target is None or redirect.glob or None in redirect.directories:
            return None
        target = os.path.expanduser(redirect.target)
        found += [containing_directory(Path(os.path.join(place or "/", target))) for place in redirect.directories]
    return (found, edits) if found else None


def _writes(redirect: FileRedirect) -> bool:
    return redirect.writes and redirect.target not in HARMLESS_TARGETS


def _denials(
    context: DecisionContext, rules: ToolRules, parsed: ParsedLine, facts: list[CommandFacts]
) -> Iterator[Decision]:
    """Yield the denials that apply in every mode.

    A line in which a deny rule may apply must be written more plainly.
    """
    for fact in facts:
        denied = _first_match(rules.deny, fact.command)
        if denied is not None:
            yield decide_by_rule(denied)
        yield from find_denials(fact)
    yield from (d for d in judge_redirects(context, parsed) if d.verdict is Verdict.DENY or d.needs_person)
    yield from _judge_ownership(context, parsed, facts)
    yield from (d for d in _judge_unreadable(context, parsed) if d.verdict is Verdict.DENY)
    hidden = _rule_for_hidden(rules.deny, parsed)
    if hidden is not None:
        reason = f"Parts of it are hidden, so {hidden.text} cannot be excluded; write the command out."
        yield Decision(Verdict.DENY, str(hidden), reason)


def _judge_unreadable(context: DecisionContext, parsed: ParsedLine) -> Iterator[Decision]:
    """Yield what file rules decide for a line that cannot be read in full: it may name any file."""
    for tool in () if parsed.is_valid else ("Read", "Write"):
        yield from judge_unknown_path(context, tool, ANY_SHAPE, certain=True)


def _judge_ownership(context: DecisionContext, parsed: ParsedLine, facts: list[CommandFacts]) -> Iterator[Decision]:
    """Yield the refusals for files that another member owns, or may own."""
    fence = context.scope.ownership
    tree = context.scope.worktree
    if fence is None and tree is None:
        return
    every = [fact.changed for fact in facts]
    if fence is not None:
        paths = (tree.original(path) if tree is not None else path for changed in every for path in changed.paths)
        yield from (found for path in paths if (found := fence.refusal(path, deep=True)) is not None)
    if tree is not None:
        variables = parsed.variables_exported | parsed.variables_set
        yield from (found for fact in facts if (found := tree.refuse_git(fact.command, variables)) is not None)
        changing = [fact.command for fact in facts if fact.reads is None]
        if (found := tree.ask_about_variables(parsed, changing)) is not None:
            yield found
        yield from (found for one in changing if (found := tree.ask_about_hidden_git(one)) is not None)
        unknown = [] if context.is_confined else [fact for fact in facts if fact.reads is None and fact.changes is None]
        yield from (found for fact in unknown if (found := tree.ask_about_program(fact.command)) is not None)
    if (
        not parsed.is_valid
        or any(changed.has_unknown for changed in every)
        or any(one.writes and (one.target is None or one.glob or None in one.directories) for one in parsed.redirects)
    ):
        yield from (one.refuse_unknown() for one in (fence, tree) if one is not None)


def _judge_all(
    context: DecisionContext, rules: ToolRules, parsed: ParsedLine, facts: list[CommandFacts], last: CommandFacts | None
) -> Iterator[Decision]:
    yield from _denials(context, rules, parsed, facts)
    hidden = _rule_for_hidden(rules.ask, parsed)
    if hidden is not None:
        yield Decision(Verdict.ASK, str(hidden), f"Parts of it are hidden, so {hidden.text} cannot be excluded.")
    yield from _judge_unreadable(context, parsed)
    unclear = _judge_unclear(rules, parsed)
    if unclear is not None:
        yield unclear
    for fact in facts:
        yield from _path_questions(rules, fact)
        yield _judge(context, rules, parsed, fact, last=fact is last)
    yield from judge_redirects(context, parsed)


def _last_command(facts: list[CommandFacts], access: Access) -> CommandFacts | None:
    """Return the command that certainly runs after all others, once, and copies nothing that they change."""
    if not facts or not runs_in_order(access.command or ""):
        return None
    *before, last = facts
    return None if last.changes is not None and _copies_changed(last, last.changes, before) else last


def _copies_changed(last: CommandFacts, copy: FileChanges, before: list[CommandFacts]) -> bool:
    """Return True when the last command may copy files that earlier ones change."""
    if not copy.sources or all(fact.reads is not None for fact in before):
        return False
    changed = [path for fact in before if fact.changes is not None for path in fact.changes.writes]
    unknown = any(fact.reads is None and fact.changes is None for fact in before)
    return unknown or bool(last.command.globs) or copy.may_copy(changed)


def _path_questions(rules: ToolRules, fact: CommandFacts) -> Iterator[Decision]:
    """Yield the questions about the command's paths. They hold even if a rule allows the command."""
    yield from find_questions(fact)
    own = any(rule.by_user and rule.matches_words(fact.command.words) for rule in rules.allow)
    if not (own and shows_changes_plainly(fact.command)):
        yield from fact.below


def _judge(
    context: DecisionContext, rules: ToolRules, parsed: ParsedLine, fact: CommandFacts, *, last: bool
) -> Decision:
    """Return the verdict on one simple command: ask rules, git policy, allow rules, then proofs."""
    command = fact.command
    ask_rule = _first_match(rules.ask, command)
    if ask_rule is not None:
        return decide_by_rule(ask_rule)
    matching = [
        rule
        for rule in rules.allow
        if rule.matches_words(command.words)
        or any(_names_inside(rule, outer, command) for outer in (*command.wrappers, ("time", *command.words)))
    ]
    secret = prints_secret(parsed)
    left_open = {rule.text: uncovered_word(context, rule, command, reads_secret=secret) for rule in matching}
    allowing = [rule for rule in matching if not left_open[rule.text]]
    name = subcommand_to_ask(command.words)
    tree = context.scope.worktree
    may_change = command.role == "run" and not context.is_planning
    if tree is not None and may_change and tree.allows_git(command) and not changing_variable(parsed):
        own = explain_own_settings(tree.tree, context.scope.trusted_git)
        return strictest(
            _ask_for_trust(own),
            Decision(Verdict.ALLOW, "worktree", "It adds or commits on the branch of this worktree."),
        )
    if name and not any(
        rule.by_user or (rule.trusted and same_subcommand(rule.written_words, command.words)) for rule in allowing
    ):
        return Decision(Verdict.ASK, "git policy", f"git {name} is done only when you ask for it.{_too_wide(allowing)}")
    if command.role == "unsure":
        allowing = [rule for rule in allowing if rule.is_exact]
    elif command.role != "run":
        return decide_by_mode(context.mode, Verdict.ALLOW, "It only starts a command that has its own verdict.")
    if allowing:
        elsewhere = (
            "" if any(rule.is_whole_tool for rule in allowing) else explain_other_repository(command, context.scope)
        )
        return strictest(_ask_for_trust(elsewhere), decide_by_rule(allowing[0]))
    if fact.reads is not None and not secret:
        fine = decide_by_mode(context.mode, Verdict.ALLOW, "It only reads, inside the directories.")
        doubt = explain_git_doubt(command, fact.reads.paths, context.scope.trusted_git) if fact.reads.by_git else ""
        return strictest((*_ask_for_trust(doubt), *fact.touched, *fact.below), fine)
    if fact.changes is not None and context.accepts_edits and (last or not fact.changes.must_be_last):
        fine = decide_by_mode(context.mode, Verdict.ALLOW, "The mode accepts changes inside the directories.")
        return strictest(fact.touched, fine)
    for rule, word in left_open.items():
        why = f"The rule {rule} does not cover {word}, which may write, run or show something else."
        return replace(decide_by_mode(context.mode, Verdict.ASK, why), is_unproven=not prints_environment(parsed))
    if None in command.words[:1]:
        return decide_by_mode(context.mode, Verdict.ASK, "It runs a command that only the shell will know.")
    own = fact.project_program and f"{command.name} is a program of the project: {fact.project_program}."
    reason = own or fact.path_doubt or f"Nothing allows {join_words(command.words[:3]) or 'this'}."
    return replace(decide_by_mode(context.mode, Verdict.ASK, reason), is_unproven=not prints_environment(parsed))


def _names_inside(rule: Rule, outer: Words, command: ShellCommand) -> bool:
    """Return True for a rule that names a wrapper and the command in it: `npx tsc`, or the whole line."""
    if not rule.matches_words(outer):
        return False
    return rule.is_exact or (command.name is not None and command.name in rule.written_words[1:])


def _too_wide(rules: list[Rule]) -> str:
    """Return the reason why a trusted repository's rule does not answer for git: it does not name the command."""
    wide = next((rule for rule in rules if rule.trusted), None)
    return f" The rule {wide} of the repository does not name this git command." if wide is not None else ""


def _ask_for_trust(doubt: str) -> tuple[Decision, ...]:
    return (Decision(Verdict.ASK, "trust", doubt),) if doubt else ()


def _judge_unclear(rules: ToolRules, parsed: ParsedLine) -> Decision | None:
    """Return the question about a line that cannot be proven. Only a rule for every command answers it."""
    if any(rule.is_whole_tool for rule in rules.allow):
        return None
    if not parsed.is_valid or parsed.doubt:
        return Decision(Verdict.ASK, "unreadable command", f"The command is not judged by its parts: {parsed.doubt}.")
    name = changing_variable(parsed)
    if name:
        return Decision(Verdict.ASK, "unreadable command", f"It sets {name}, which may change what programs do.")
    return None


def _first_match(rules: tuple[Rule, ...], command: ShellCommand) -> Rule | None:
    spend_steps(len(rules) * (1 + len(command.words) // 16))
    return next((rule for rule in rules if any(rule.matches_words(form) for form in deny_forms(command.words))), None)


def _rule_for_hidden(rules: tuple[Rule, ...], parsed: ParsedLine) -> Rule | None:
    """Return a rule that may name a command of the line which cannot be read in full."""
    if not rules:
        return None
    if not parsed.is_valid or parsed.may_run_input:
        return rules[0]
    for command in parsed.commands:
        # A star may become any word, also a program's name: /usr/bin/g?t.
        words = tuple(None if at in command.globs else word for at, word in enumerate(command.words))
        for form in deny_forms(words):
            found = next((rule for rule in rules if None in form and rule.could_match(form)), None)
            if found is not None:
                return found
    return None


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
    return not writes and all(_reads_only(fact) for fact in run)


def _reads_only(fact: CommandFacts) -> bool:
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
