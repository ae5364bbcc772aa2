"""Settings of backends: the backend of members, their appearance, and the user's terminal adapters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field

from teamwright.backends.choice import AUTO
from teamwright.backends.terminal_adapter import TerminalAdapter

if TYPE_CHECKING:
    from teamwright.backends.tmux_server import Layout


class BackendSettings(Struct, frozen=True):
    """The backend settings. Only the user's own settings define them, since an adapter runs commands."""

    backend: str = AUTO
    """`auto`, `in-process`, `tmux`, `detached`, or the name of a terminal adapter."""
    layout: Layout = "split"
    """The layout in tmux: `split` beside the lead while there is room; `window` in one window for the team."""
    lead_share: float = 0.3
    """The lead's share of its pane's width, with `split`."""
    adapters: Mapping[str, TerminalAdapter] = field(default_factory=dict[str, TerminalAdapter])
    """The user's terminal adapters by name; one with the name of a shipped adapter replaces it."""
    orphan_timeout_s: float = 60.0
    """Seconds that a member's process continues after its lead has ended."""
