"""Facts about one command of a line: what it reads and changes, and the verdicts on all files that it names.

Rules about commands are in `shell_verdict`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct, field

from teamwright.permissions.changed_files import (
    ChangedFiles,
    FileChanges,
    backed_up_names,
    find_changed_files,
    find_changes,
)
from teamwright.permissions.decision_context import DecisionContext
from teamwright.permissions.git_access import named_files, shown_work_trees, unknown_operands
from teamwright.permissions.path_verdicts import (
    GUARDED,
    HARD_LINKS,
    NETWORK,
    REPLACES_NAMES,
    judge_all_below,
    judge_copy,
    judge_new_names,
    judge_other_names_below,
    judge_path,
    judge_unknown_path,
    judge_written,
    question_below,
)
from teamwright.permissions.possible_file_names import Operand, base_directories, find_operands, may_be_file
from teamwright.permissions.read_only_commands import CommandReads, absolute_paths, prove_read_only
from teamwright.permissions.verdict import Decision, Verdict
from teamwright.shell_lines.command_words import base_name
from teamwright.shell_lines.expansion import Shape
from teamwright.shell_lines.parsed_line import ShellCommand
from teamwright.shell_lines.step_limit import spend_steps


class CommandFacts(Struct):
    """One command of the line, with the verdicts on the files that it touches.

    `touched` are the verdicts on files that a program of the tables reads or changes, `named` those on words of other
    programs that may be files. `below` asks because git shows a whole work tree and rules forbid files in it; the
    user's rule for the command answers that question. `project_program` is the path of the program when it is the
    project's own, which has no proof. `path_doubt` is a sentence about a program that may start one of the project.
    """

    command: ShellCommand
    reads: CommandReads | None = None
    changes: FileChanges | None = None
    changed: ChangedFiles = field(default_factory=ChangedFiles)
    touched: tuple[Decision, ...] = ()
    named: tuple[Decision, ...] = ()
    below: tuple[Decision, ...] = ()
    project_program: str = ""
    path_doubt: str = ""


_OF_COMMAND = 100
"""The steps to look at one command."""


def collect_facts(context: DecisionContext, command: ShellCommand) -> CommandFacts:
    """Return the facts about the command."""
    facts = CommandFacts(command)
    spend_steps(_OF_COMMAND + 2 * len(command.words))
    if command.role == "wrap":
        return facts
    facts.changed = find_changed_files(command)
    named = [judge_path(context, "Read", path, writes=False) for path in named_files(command)]
    facts.touched = tuple(decision for decision in named if decision.verdict is Verdict.DENY)
    reads = prove_read_only(command)
    found = find_changes(command) if reads is None else None
    if command.role != "run" or (reads is None and found is None):
        facts.named = (
            *_judge_operands(context, command),
            *_judge_unknown(context, "Read", unknown_operands(command)),
            *_judge_changed(context, command, facts.changed),
        )
    elif reads is not None:
        facts.reads = reads
        facts.named = tuple(_judge_new(context, command)) if command.globs else ()
        judged = (
            judge_path(context, "Read", path, writes=False, deep=reads.is_deep, except_denied=reads.by_git)
            for path in reads.paths
        )
        facts.touched = (*facts.touched, *judged)
        work_trees = sorted(shown_work_trees(reads.paths)) if reads.by_git and reads.is_deep else ()
        facts.below = tuple(filter(None, (question_below(context, "Read", top) for top in work_trees)))
    elif found is not None:
        facts.changes = found
        facts.named = tuple(_judge_changed(context, command, facts.changed))
        sources = (judge_path(context, "Read", path, writes=False) for path in found.reads)
        targets = (judge_written(context, path, program=command.name or "") for path in found.writes)
        facts.touched = (*facts.touched, *sources, *targets)
    return facts


def find_denials(facts: CommandFacts) -> Iterator[Decision]:
    """Yield what no mode lifts: denials of the command because of files that it names, and questions to a person."""
    for decision in (*facts.touched, *facts.named):
        if decision.verdict is Verdict.DENY or (decision.verdict is Verdict.ASK and decision.needs_person):
            yield decision


def find_questions(facts: CommandFacts) -> Iterator[Decision]:
    """Yield the questions of rules about files that the command names.

    They hold even if another rule allows the command.
    """
    yield from (decision for decision in (*facts.touched, *facts.named) if _is_by_rule(decision))


def _is_by_rule(decision: Decision) -> bool:
    mere = decision.rule.startswith("mode ") or decision.rule in {GUARDED, HARD_LINKS, NETWORK}
    return decision.verdict is Verdict.ASK and not mere


def _judge_operands(context: DecisionContext, command: ShellCommand) -> Iterator[Decision]:
    """Yield the verdicts on all words that may be files that the program reads."""
    directories = list(base_directories(command))
    forbids_all = any(rule.is_whole_tool for rule in context.rules.rules_for("Read").deny)
    for operand in (*find_operands(command), *backed_up_names(command)):
        text = operand.shape[0] if len(operand.shape) == 1 else None
        path = os.path.expanduser(text or "")
        for directory in directories if text is None or not path.startswith("/") else ["/"]:
            if text is None or directory is None:
                shape = operand.shape if text is None else (None, f"/{path}")
                yield from judge_unknown_path(context, "Read", _join_directory(directory, shape), operand.is_certain)
                continue
            whole = os.path.join(directory, path)
            if operand.new:
                yield from judge_new_names(context, "Read", Path(whole), operand.new)
                continue
            if operand.is_certain or (not forbids_all and may_be_file(path, whole)):
                yield judge_path(context, "Read", Path(whole), writes=False)


def _judge_new(context: DecisionContext, command: ShellCommand) -> Iterator[Decision]:
    """Yield the verdicts on names that a pattern may match later, when an earlier command has made them."""
    for operand in find_operands(command):
        directory = operand.shape[0] if operand.new else None
        for path in absolute_paths(command, (directory,)) or () if directory is not None else ():
            yield from judge_new_names(context, "Read", path, operand.new)


def _join_directory(directory: str | None, shape: Shape) -> Shape:
    begin = shape[0] if shape else None
    return shape if begin is None or directory is None else (os.path.join(directory, begin), *shape[1:])


def _judge_changed(context: DecisionContext, command: ShellCommand, changed: ChangedFiles) -> Iterator[Decision]:
    """Yield the verdicts on changed files. They forbid and never allow."""
    program = base_name(command.words[0]) or "" if command.words else ""
    for path in changed.paths:
        yield judge_written(context, path, program=program, is_pathspec=path in changed.pathspecs)
    for path, name in changed.below:
        yield from judge_other_names_below(context, path) if program not in REPLACES_NAMES else ()
        yield from judge_all_below(context, "Write", path, name)
    for path, name in changed.new:
        yield from judge_new_names(context, "Write", path, name)
    for source, goal in changed.copies:
        yield from judge_copy(context, source, goal)
    yield from _judge_unknown(context, "Write", changed.unknown)


def _judge_unknown(context: DecisionContext, tool: str, unknown: Iterable[Operand]) -> Iterator[Decision]:
    for operand in unknown:
        yield from judge_unknown_path(context, tool, operand.shape, operand.is_certain)
