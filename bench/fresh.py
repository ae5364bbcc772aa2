"""A fresh process a measurement, started by a small launcher, so that what it costs is its own.

A child inherits the peak memory of whoever forks it; the launcher is an interpreter with nothing loaded.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
LIMIT_S = 900.0

_LAUNCHER = """
import os, sys, time
started = time.perf_counter()
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, used = os.wait4(pid, 0)
wall = time.perf_counter() - started
code = os.waitstatus_to_exitcode(status)
sys.stderr.write(f"\\n{code} {wall} {used.ru_utime + used.ru_stime} {used.ru_maxrss}")
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a process took: seconds of wall and CPU time (user and system), its peak memory in MB, what it printed."""

    wall_s: float
    cpu_s: float
    rss_mb: float
    out: str


def cost_of(command: Sequence[str], env: Mapping[str, str], cwd: Path = ROOT) -> Cost:
    """Run the command (an absolute program first) to its end. Raises RuntimeError when it fails."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _LAUNCHER, *command],
        cwd=cwd,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    said, _, last = done.stderr.rpartition("\n")
    code, wall, cpu, rss_kb = last.split()
    if code != "0":
        raise RuntimeError(f"{' '.join(command)[:200]} ended with {code}:\n{said[-2000:]}")
    return Cost(float(wall), float(cpu), int(rss_kb) / 1024, done.stdout)


def figures_of(
    module: str, spec: Mapping[str, Any], *, python: Path | None = None, directory: str = ""
) -> dict[str, Any]:
    """Run `python -m module SPEC` in a fresh process and return the JSON object that it prints.

    `python` names another interpreter, `directory` the place of its files instead of the temporary directory.
    """
    command = [str(python or sys.executable), "-m", module, json.dumps(spec)]
    return json.loads(cost_of(command, clean_env(**({"TMPDIR": directory} if directory else {}))).out)


def memory_directory() -> str:
    """Return a directory of a file system in memory that differs from the temporary one; empty without one."""
    candidate = "/dev/shm"
    if not os.access(candidate, os.W_OK) or os.stat(candidate).st_dev == os.stat(tempfile.gettempdir()).st_dev:
        return ""
    return candidate


def clean_env(**more: str) -> dict[str, str]:
    """The environment without anything of the user's that could change what is measured."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "TMPDIR") if name in os.environ}
    return kept | {"HOME": tempfile.gettempdir(), "PYTHONHASHSEED": "0"} | more


@contextmanager
def model_server(answers: str) -> Iterator[str]:
    """The loopback model server in a process of its own (its CPU does not count); gives its address."""
    command = [sys.executable, "-m", "bench.loopback", answers]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


def best(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The least of each figure over all rounds; what is not a number is taken from the first."""
    return {
        key: min(r[key] for r in rounds) if isinstance(first, int | float) else first
        for key, first in rounds[0].items()
    }
