"""Facts about one command of a line: what it reads and changes, and the verdicts on all files that it names.

Depends on the tables of programs, on `operands` and on `files`. Leaves rules about commands to `commands`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import field
from pathlib import Path

from teamwright.permissions.book import Ground
from teamwright.permissions.changing import Changed, changed_by
from teamwright.permissions.edits import Changes, changes
from teamwright.permissions.files import asks_below, judge_all_below, judge_path, judge_unknown_path
from teamwright.permissions.git_shown import named_in_git, tops, unknown_in_git
from teamwright.permissions.operands import Operand, base_directories, may_be_file, operands
from teamwright.permissions.readonly import Reads, proven
from teamwright.permissions.shell.parsed import Command
from teamwright.permissions.shell.words import Shape
from teamwright.permissions.verdict import Decision, Verdict
from teamwright.protocol.values import dataclass


@dataclass(slots=True)
class CommandFacts:
    """One command of the line, with the verdicts on the files that it touches.

    `touched` are the verdicts on files that a program of the tables reads or changes. `named` are those on the words of
    any other program that may be files. `below` asks because git shows a whole work tree and rules forbid something in
    it; the user's own rule about the command answers that.
    """

    command: Command
    reads: Reads | None = None
    changes: Changes | None = None
    changed: Changed = field(default_factory=Changed)
    touched: tuple[Decision, ...] = ()
    named: tuple[Decision, ...] = ()
    below: tuple[Decision, ...] = ()


def facts_of(ground: Ground, command: Command) -> CommandFacts:
    """Return what is known of the command."""
    facts = CommandFacts(command)
    if command.role == "wrap":
        return facts
    facts.changed = changed_by(command)
    named = [judge_path(ground, "Read", path, writes=False) for path in named_in_git(command)]
    facts.touched = tuple(decision for decision in named if decision.verdict is Verdict.DENY)
    reads = proven(command)
    found = changes(command) if reads is None else None
    if command.role != "run" or (reads is None and found is None):
        facts.named = (
            *_judge_operands(ground, command),
            *_judge_unknown(ground, "Read", unknown_in_git(command)),
            *_judge_changed(ground, facts.changed),
        )
    elif reads is not None:
        facts.reads = reads
        judged = (
            judge_path(ground, "Read", path, writes=False, deep=reads.deep, spares=reads.git) for path in reads.paths
        )
        facts.touched = (*facts.touched, *judged)
        shown = sorted(tops(reads.paths)) if reads.git and reads.deep else ()
        facts.below = tuple(filter(None, (asks_below(ground, "Read", top) for top in shown)))
    elif found is not None:
        facts.changes = found
        sources = (judge_path(ground, "Read", path, writes=False) for path in found.reads)
        targets = (judge_path(ground, "Write", path, writes=True) for path in found.writes)
        facts.touched = (*facts.touched, *sources, *targets)
    return facts


def denials_of(facts: CommandFacts) -> Iterator[Decision]:
    """Yield what forbids the command because of a file that it names."""
    yield from (decision for decision in (*facts.touched, *facts.named) if decision.verdict is Verdict.DENY)


def questions_of(facts: CommandFacts) -> Iterator[Decision]:
    """Yield what a rule asks about a file that the command names, although another rule may allow the command."""
    yield from (decision for decision in (*facts.touched, *facts.named) if _is_by_rule(decision))


def _is_by_rule(decision: Decision) -> bool:
    mere = decision.rule.startswith("mode ") or decision.rule == "guarded files"
    return decision.verdict is Verdict.ASK and not mere


def _judge_operands(ground: Ground, command: Command) -> Iterator[Decision]:
    """Yield the verdicts on all words that may be files which the program reads."""
    directories = list(base_directories(command))
    forbids_all = any(rule.whole for rule in ground.book.of("Read").deny)
    for operand in operands(command):
        text = operand.shape[0] if len(operand.shape) == 1 else None
        path = os.path.expanduser(text or "")
        for directory in directories if text is None or not path.startswith("/") else ["/"]:
            if text is None or directory is None:
                shape = operand.shape if text is None else (None, f"/{path}")
                yield from judge_unknown_path(ground, "Read", _begin_in(directory, shape), operand.certain)
                continue
            whole = os.path.join(directory, path)
            if operand.certain or (not forbids_all and may_be_file(path, whole)):
                yield judge_path(ground, "Read", Path(whole), writes=False)


def _begin_in(directory: str | None, shape: Shape) -> Shape:
    begin = shape[0] if shape else None
    return shape if begin is None or directory is None else (os.path.join(directory, begin), *shape[1:])


def _judge_changed(ground: Ground, changed: Changed) -> Iterator[Decision]:
    """Yield the verdicts on what the command changes, which forbid and never allow."""
    for path in changed.paths:
        yield judge_path(ground, "Write", path, writes=True)
    for path, name in changed.below:
        yield from judge_all_below(ground, "Write", path, name)
    yield from _judge_unknown(ground, "Write", changed.unknown)


def _judge_unknown(ground: Ground, tool: str, unknown: Iterable[Operand]) -> Iterator[Decision]:
    for operand in unknown:
        yield from judge_unknown_path(ground, tool, operand.shape, operand.certain)
