"""Several fresh processes that begin together, and what each of them prints at its end.

A member of the crew prepares itself, calls `ready()`, and works when the others are ready too. Its clock
(`time.monotonic`) is the machine's: times of different members can be compared.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from bench.fresh import LIMIT_S, ROOT, clean_env

_READY = "ready"


def ready() -> None:
    """Called by a member when it is prepared: returns when all are."""
    print(_READY, flush=True)
    if not sys.stdin.readline():
        sys.exit("nobody gave the sign to begin")


def together(module: str, specs: Sequence[Mapping[str, Any]], *, python: Path | None = None) -> list[dict[str, Any]]:
    """Run `python -m module SPEC` once a spec, all at the same time; the JSON objects that they print.

    Raises RuntimeError when one of them fails or never ends; none is left running.
    """
    crew = [
        subprocess.Popen(
            [str(python or sys.executable), "-m", module, json.dumps(spec)],
            cwd=ROOT,
            env=clean_env(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for spec in specs
    ]
    with ThreadPoolExecutor(len(crew)) as pool:
        try:
            _begin(module, crew)
            ends = [pool.submit(_result, module, one) for one in crew]
            for end in as_completed(ends):
                end.result()  # one that fails may be what the others wait for
        finally:
            for one in crew:
                one.kill()
                one.wait()
    return [end.result() for end in ends]


def _begin(module: str, crew: Sequence[subprocess.Popen[str]]) -> None:
    for one in crew:
        assert one.stdout is not None
        if one.stdout.readline().strip() != _READY:
            raise RuntimeError(f"{module} did not begin; it ended with {one.wait(LIMIT_S)}")
    for one in crew:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()


def _result(module: str, one: subprocess.Popen[str]) -> dict[str, Any]:
    try:
        said, _ = one.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{module} did not end within {LIMIT_S:g} s") from None
    if one.returncode:
        raise RuntimeError(f"{module} ended with {one.returncode}")
    return json.loads(said)
