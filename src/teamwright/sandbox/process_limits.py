"""Limits of a confined command: the memory of each process, and the number of its processes.

The shell that starts the command sets them, so no further program is started. Depends on `processes`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from teamwright.processes.agent_command_detection import bash_line_index
from teamwright.sandbox.control_groups import ControlGroups
from teamwright.sandbox.policy import SandboxPolicy, usual_memory_mb

OOM_SCORE = 800
"""The kernel ends processes with a high score first when memory is exhausted: proc_pid_oom_score_adj(5)."""


def with_limits(argv: Sequence[str], policy: SandboxPolicy, *, has_own_users: bool) -> list[str]:
    """Return the arguments that start the same program with the limits of the policy.

    `has_own_users`: only the processes of the command count, as in a separate user namespace. Elsewhere the kernel
    counts all processes of the user, so the limit is above those of the machine. It does not limit a superuser.
    """
    limits = [f"-d {max(1, (policy.memory_mb or usual_memory_mb()) * 1024)}"]
    if policy.processes:
        limits.append(f"-u {policy.processes + (0 if has_own_users else _running_threads())}")
    # A limit that the user's own hard limit forbids is not needed.
    setting = "; ".join(f"\\ulimit {limit} 2>/dev/null" for limit in limits)
    setting += f"; {{ \\echo {OOM_SCORE} >/proc/self/oom_score_adj; }} 2>/dev/null"
    at = bash_line_index(argv)
    if at:
        return [*argv[:at], f"{setting}; {argv[at]}", *argv[at + 1 :]]
    return ["/bin/sh", "-c", f'{setting}; exec "$@"', "sh", *argv]


def describe_limits(groups: ControlGroups | str, *, counts: bool) -> str:
    """Return how the memory and the processes of a command are limited here, for people.

    `groups` is where commands get control groups, or why they get none. `counts`: the processes of a superuser's
    command are counted.
    """
    held = groups.controllers if isinstance(groups, ControlGroups) else frozenset[str]()
    memory = "a control group" if "memory" in held else "an rlimit of each process"
    processes = "an rlimit"
    if "pids" in held:
        processes = "a control group"
    elif os.geteuid() == 0:
        processes = "a count" if counts else "nothing, because rlimits do not hold for root"
    why = f" ({groups})" if isinstance(groups, str) and groups else ""
    return f"limits: memory by {memory}, processes by {processes}{why}"


def _running_threads() -> int:
    """Return the number of threads of all processes of the machine: proc_loadavg(5)."""
    try:
        with open("/proc/loadavg", encoding="ascii") as file:
            return int(file.read().split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        return 0
