"""Settings of places: which backend members get, how they appear, and the user's own recipes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from teamwright.protocol.values import dataclass
from teamwright.teams.backends.backend_choice import AUTO
from teamwright.teams.backends.terminal_adapter import TerminalAdapter
from teamwright.teams.backends.tmux_layout import Layout


@dataclass(frozen=True, slots=True)
class BackendSettings:
    """Where members run. A value is the user's alone: a recipe runs commands."""

    backend: str = AUTO
    """`auto`, `in-process`, `tmux`, `detached`, or the name of a recipe."""
    layout: Layout = "split"
    """In tmux: `split`, beside the lead while there is room; `window`, in one window for the team."""
    lead_share: float = 0.3
    """The lead's share of its pane's width, with `split`."""
    adapters: Mapping[str, TerminalAdapter] = field(default_factory=dict[str, TerminalAdapter])
    """The user's own, by name; one of the name of a shipped one stands for it."""
    orphan_timeout_s: float = 60.0
    """How long a member's process stays when its lead is gone, in seconds."""
