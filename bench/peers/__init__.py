"""Other programs of the field, measured beside ours: each by its name from the package index, in its own environment.

Environments lie in `bench/peers/.venv/` and are made by `python -m bench --peers`; who is not there is left out with
a sentence. A script `with_<name>.py` here speaks to its peer and is run by that environment's Python.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench import fresh

NAMES = {"clawteam": "clawteam", "autogen": "autogen-core"}
"""Peers and what they are called in the package index."""

_HOME = Path(__file__).parent / ".venv"
_PATIENCE_S = 300


def python_of(name: str) -> Path:
    """The interpreter of a peer's environment, whether it is there or not."""
    return _HOME / name / "bin" / "python"


def absent(name: str) -> str:
    """Why a peer is not measured; empty when it is there."""
    if (_HOME / name / "ready").exists():
        return ""
    return f"{NAMES[name]} is not there and was left out (`python -m bench --peers` installs it)."


def make(name: str) -> str:
    """Make the environment of a peer if there is none. Returns a sentence about what became of it."""
    if not absent(name):
        return f"{NAMES[name]}: there"
    place = _HOME / name
    try:
        _run([sys.executable, "-m", "venv", "--clear", str(place)])
        _run([str(python_of(name)), "-m", "pip", "install", "--quiet", NAMES[name]])
    except (OSError, subprocess.SubprocessError) as problem:
        return f"{NAMES[name]}: could not be installed, it is left out ({str(problem)[:120]})"
    (place / "ready").touch()
    return f"{NAMES[name]}: installed"


def figures_of(name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """What the peer's script prints about the spec, from a fresh process."""
    return fresh.figures_of(f"bench.peers.with_{name}", spec, python=python_of(name))


def _run(command: list[str]) -> None:
    subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE_S, check=True, env=os.environ
    )
