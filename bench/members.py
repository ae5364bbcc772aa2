"""The rows of members with processes of their own: for W2 how long a wake takes, for W7 what a start takes."""

from __future__ import annotations

from typing import Any

from bench.fresh import best, figures_of
from bench.tmux import absent

BACKENDS = ("detached", "tmux")
WAKES = 100


def backends() -> list[str]:
    """Where such members can live on this machine."""
    return [one for one in BACKENDS if one != "tmux" or not absent()]


def starts(rounds: int) -> list[dict[str, Any]]:
    """Spawn to first model request, a row a backend."""
    return [{"what": f"member, {one}", **_best("member", one, rounds)} for one in backends()]


def wakes(rounds: int) -> list[dict[str, Any]]:
    """A lead's words to an idle member, a row a backend."""
    return [{"what": f"a member's process, {one}", **_best("wake", one, rounds)} for one in backends()]


def _best(kind: str, backend: str, rounds: int) -> dict[str, Any]:
    spec = {"kind": kind, "backend": backend, "times": WAKES}
    return best([figures_of("bench.member_process", spec) for _ in range(rounds)])
