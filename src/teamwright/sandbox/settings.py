"""The settings of the sandbox. Data only."""

from __future__ import annotations

from msgspec import Struct

from teamwright.sandbox.policy import NetworkAccess, SandboxMode


class SandboxSettings(Struct, frozen=True):
    """The settings. `read` and `write` are further paths; `~` is the home directory.

    `auto_allow`: a command that needs nothing beyond the policy *work* runs without a question.
    """

    mode: SandboxMode = SandboxMode.AUTO
    network: NetworkAccess = NetworkAccess.ASK
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    auto_allow: bool = False
