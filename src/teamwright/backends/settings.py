"""Settings of backends: the backend of members, their appearance, and the user's terminal adapters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Struct, field

from teamwright.backends.choice import AUTO
from teamwright.backends.terminal_adapter import TerminalAdapter
from teamwright.protocol.setting_types import Seconds, Setting, Share, Table, Text


class BackendSettings(Struct, frozen=True):
    """The backend settings. Only the user's own settings define them, since an adapter runs commands."""

    backend: Annotated[
        Text,
        Setting(
            "members.backend",
            "Where members run: auto, in-process, tmux, detached, remote, or an adapter's name.",
            user_only=True,
        ),
    ] = AUTO
    layout: Annotated[
        Literal["split", "window"],
        Setting(
            "members.pane_layout",
            "Members in tmux: split, next to the lead; window, in a separate window.",
            user_only=True,
        ),
    ] = "split"
    lead_share: Annotated[
        Share,
        Setting("members.lead_share", "The lead's share of the width of its pane, with split.", user_only=True),
    ] = 0.3
    adapters: Annotated[
        Mapping[str, TerminalAdapter],
        Setting(
            "members.adapters",
            "Terminal adapters by name: the commands that drive a terminal program.",
            value_type=Table,
            user_only=True,
        ),
    ] = field(default_factory=dict[str, TerminalAdapter])
    """One with the name of a shipped adapter replaces it."""
    orphan_timeout_s: Annotated[
        Seconds,
        Setting(
            "members.orphan_timeout_s",
            "How long a member process continues after the end of its lead.",
            user_only=True,
        ),
    ] = 60.0
