"""Limits of a confined command: the memory of each process, and the number of its processes.

The shell that starts the command sets them, so no further program is started. Depends on `processes`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache

from teamwright.processes.agent_command_detection import bash_line_index
from teamwright.sandbox.policy import SandboxPolicy

OOM_SCORE = 800
"""The kernel ends processes with a high score first when memory is exhausted: proc_pid_oom_score_adj(5)."""

_SHARE_OF_MEMORY = 3 / 4


def with_limits(argv: Sequence[str], policy: SandboxPolicy, *, limits_processes: bool) -> list[str]:
    """Return the arguments that start the same program with the limits of the policy.

    `limits_processes`: only the processes of the command count, as in a separate user namespace.
    """
    limits = [f"-d {max(1, (policy.memory_mb or usual_memory_mb()) * 1024)}"]
    limits += [f"-u {policy.processes}"] if limits_processes and policy.processes else []
    # A limit that the user's own hard limit forbids is not needed.
    setting = "; ".join(f"\\ulimit {limit} 2>/dev/null" for limit in limits)
    setting += f"; {{ \\echo {OOM_SCORE} >/proc/self/oom_score_adj; }} 2>/dev/null"
    at = bash_line_index(argv)
    if at:
        return [*argv[:at], f"{setting}; {argv[at]}", *argv[at + 1 :]]
    return ["/bin/sh", "-c", f'{setting}; exec "$@"', "sh", *argv]


@cache
def usual_memory_mb() -> int:
    """Return the limit without a setting, in MiB: three quarters of the machine's memory."""
    return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * _SHARE_OF_MEMORY) >> 20
