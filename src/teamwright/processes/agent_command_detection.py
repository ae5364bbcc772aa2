"""Detection of agent commands: by resource limit, variable, ancestors, process group and session.

Depends on the mark and on the records of processes. A pid counts only together with its start time, so that a reused
pid is not taken for a recorded command.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from teamwright.processes.process_records import RecordedProcess, read_record, record_files
from teamwright.processes.process_tree import (
    MARK_VARIABLE,
    ProcessInfo,
    boot_id,
    find_process,
    has_variable,
    is_marked,
    is_same_start,
    own_ancestors,
)
from teamwright.processes.program_environment import find_program

AGENT_VARIABLE = "TEAMWRIGHT"
"""The variable that is set in every command of an agent."""

_LINUX = sys.platform.startswith("linux")
LIMIT_NAME = "file locks" if _LINUX else "resident memory"
"""The name of the limit, for texts."""

_BASE = 2**50
_MOST_PID = 2**22
_UNIT = 1 if _LINUX else 1024
"""Bytes, or locks, in one unit of `ulimit`."""

_LOCKS = 10
"""RLIMIT_LOCKS of Linux, which Python's `resource` does not name."""

_OPTION = {"bash": "x", "sh": "w"} if _LINUX else {"bash": "m", "sh": "m"}


def with_mark(argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> list[str]:
    """Return the arguments that start the same program with the mark, a limit that contains the pid of this process.

    A line for bash sets the limit itself; every other program is started by a shell that sets it. Raises
    FileNotFoundError for a missing program: the shell could not report it.
    """
    at = bash_line_index(argv)
    if at:
        return [*argv[:at], f"\\builtin {_set_limit('bash')}; {argv[at]}", *argv[at + 1 :]]
    program = os.path.join(cwd, argv[0]) if os.sep in argv[0] else argv[0]
    if shutil.which(program, path=env.get("PATH", os.defpath)) is None and not os.path.exists(program):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), argv[0])
    return [*_starter_argv(), *argv]


def limit_mark() -> int | None:
    """Return the pid of the program that marked this process by its limit; None without the mark, 0 where that is
    unknown."""
    import resource

    _, hard = resource.getrlimit(_LOCKS if _LINUX else resource.RLIMIT_RSS)
    if hard == resource.RLIM_INFINITY or hard < 0 or hard // _UNIT > _BASE + _MOST_PID:
        return None
    return max(0, hard // _UNIT - _BASE)


def _set_limit(shell: str) -> str:
    # A process with a lower limit is marked already: then `ulimit` fails, without a message.
    return f"ulimit -HS{_OPTION[shell]} {_BASE + os.getpid()} 2>/dev/null"


def bash_line_index(argv: Sequence[str]) -> int:
    """Return the index of the line in the arguments of a bash that executes one; 0 for any other command."""
    if os.path.basename(argv[0]) != "bash" or "-c" not in argv[:-1]:
        return 0
    at = argv.index("-c")
    return at + 1 if all(option.startswith("-") and option != "--" for option in argv[1:at]) else 0


def _starter_argv() -> tuple[str, ...]:
    bash = find_program("bash")
    if bash:  # privileged: it reads no file of `BASH_ENV`, and passes functions on unchanged
        return (bash, "-p", "-c", f'{_set_limit("bash")}; exec "$@"', "bash")
    return ("/bin/sh", "-c", f'{_set_limit("sh")}; exec "$@"', "sh")


class AgentCommand(Struct, frozen=True):
    """A command of an agent. `fact` and `value` are the evidence.

    `member` and `call` started it; empty where unknown. `directory` contains the records of the program that started
    it; None if that program left none.
    """

    fact: str
    value: str
    member: str = ""
    call: str = ""
    directory: Path | None = None


def find_agent_command(directories: Iterable[Path]) -> AgentCommand | None:
    """Return the facts about this process as a command of an agent; None when a person started it.

    `directories` are those of all sessions and of all member processes, which contain records.
    """
    line = own_ancestors()
    known = [(directory, record) for directory in directories for record in _records(directory)]
    fact = _find_by_mark() or _find_by_ancestors(line) or _find_by_records(line, known)
    if fact is None:
        return None
    for directory, record in known:
        if _is_descendant(record, line):
            return AgentCommand(*fact, record.purpose.member, record.purpose.call, directory)
    program = limit_mark()
    directory = (
        next((directory for directory, record in known if record.program[0] == program), None) if program else None
    )
    return AgentCommand(*fact, directory=directory)


def _find_by_mark() -> tuple[str, str] | None:
    program = limit_mark()
    if program is not None:
        by = f", set by process {program}" if program else ""
        return "limit", f"of {LIMIT_NAME}, as commands of agents have one{by}"
    return ("variable", f"{AGENT_VARIABLE} is set") if os.environ.get(AGENT_VARIABLE) else None


def _find_by_ancestors(line: list[ProcessInfo]) -> tuple[str, str] | None:
    pid = next((row.pid for row in line[1:] if has_variable(row.pid, AGENT_VARIABLE)), None)
    return ("process", f"{pid}, from which it came, is a command of an agent") if pid is not None else None


def _find_by_records(line: list[ProcessInfo], known: list[tuple[Path, RecordedProcess]]) -> tuple[str, str] | None:
    found = next((record for _, record in known if record.is_for_agent and _is_recorded(record, line)), None)
    return ("process", f"{found.pid}, from which it came, is a command of an agent") if found is not None else None


def _is_descendant(record: RecordedProcess, line: list[ProcessInfo]) -> bool:
    """Return True when this process is a descendant of the recorded one."""
    own = os.environ.get(MARK_VARIABLE) == record.mark
    return own or _is_recorded(record, line) or any(is_marked(row.pid, record.mark) for row in line)


def _is_recorded(record: RecordedProcess, line: list[ProcessInfo]) -> bool:
    """Return True when the recorded process is one of these, or leads the group or the session of one of them.

    A leader that has ended still counts while the program that recorded it lives.
    """
    numbers = {number for row in line for number in (row.pid, row.group, row.session)} - {0}
    if record.boot != boot_id() or record.pid not in numbers:
        return False
    leader = find_process(record.pid)
    if leader is not None:
        return is_same_start(leader.start, record.start)
    program = find_process(record.program[0])
    return program is not None and is_same_start(program.start, record.program[1])


def _records(directory: Path) -> Iterable[RecordedProcess]:
    found = (read_record(file) for file in record_files(directory))
    return (record for record in found if record is not None)
