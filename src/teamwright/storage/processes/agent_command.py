"""Whether this process is a command of an agent: by its limit, its variable, its ancestors, its group and its session.

Depends on the mark and on the records of processes. A number counts only together with its start, so that a reused
pid is not taken for a recorded command. Does not know what a command of an agent is refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from teamwright.protocol.values import dataclass
from teamwright.storage.processes.command_mark import AGENT, LIMITED, limit_mark
from teamwright.storage.processes.family import MARK, Row, ancestry, has_variable, marked, row_of, same_start, this_boot
from teamwright.storage.processes.leftovers import Record, read_record, record_files


@dataclass(frozen=True, slots=True)
class AgentCommand:
    """A command of an agent. `fact` and `value` say how it is known.

    `member` and `call` say who started it; empty where nobody can tell. `directory` has the records of the program
    that started it; None where that program left none.
    """

    fact: str
    value: str
    member: str = ""
    call: str = ""
    directory: Path | None = None


def find_agent_command(directories: Iterable[Path]) -> AgentCommand | None:
    """Return what is known of this process as a command of an agent; None when a person started it.

    `directories` are those of all sessions and of all members' own processes, where records are kept.
    """
    line = ancestry()
    known = [(directory, record) for directory in directories for record in _records(directory)]
    fact = _by_mark() or _by_ancestors(line) or _by_records(line, known)
    if fact is None:
        return None
    for directory, record in known:
        if _is_of(record, line):
            return AgentCommand(*fact, record.purpose.member, record.purpose.call, directory)
    program = limit_mark()
    directory = next((directory for directory, record in known if record.by[0] == program), None) if program else None
    return AgentCommand(*fact, directory=directory)


def _by_mark() -> tuple[str, str] | None:
    program = limit_mark()
    if program is not None:
        by = f", set by process {program}" if program else ""
        return "limit", f"of {LIMITED}, as commands of agents have one{by}"
    return ("variable", f"{AGENT} is set") if os.environ.get(AGENT) else None


def _by_ancestors(line: list[Row]) -> tuple[str, str] | None:
    pid = next((row.pid for row in line[1:] if has_variable(row.pid, AGENT)), None)
    return ("process", f"{pid}, from which it came, is a command of an agent") if pid is not None else None


def _by_records(line: list[Row], known: list[tuple[Path, Record]]) -> tuple[str, str] | None:
    found = next((record for _, record in known if record.agent and _is_recorded(record, line)), None)
    return ("process", f"{found.pid}, from which it came, is a command of an agent") if found is not None else None


def _is_of(record: Record, line: list[Row]) -> bool:
    """Whether this process came out of the recorded one."""
    own = os.environ.get(MARK) == record.mark
    return own or _is_recorded(record, line) or any(marked(row.pid, record.mark) for row in line)


def _is_recorded(record: Record, line: list[Row]) -> bool:
    """Whether the recorded process is one of these, or leads the group or the session of one of them.

    A leader that has ended still counts while the program lives that recorded it.
    """
    numbers = {number for row in line for number in (row.pid, row.group, row.session)} - {0}
    if record.boot != this_boot() or record.pid not in numbers:
        return False
    leader = row_of(record.pid)
    if leader is not None:
        return same_start(leader.start, record.start)
    program = row_of(record.by[0])
    return program is not None and same_start(program.start, record.by[1])


def _records(directory: Path) -> Iterable[Record]:
    found = (read_record(file) for file in record_files(directory))
    return (record for record in found if record is not None)
