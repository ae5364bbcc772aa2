"""The settings of the sandbox. Data only."""

from __future__ import annotations

from msgspec import Struct

from teamwright.sandbox.policy import NetworkAccess, SandboxMode


class SandboxSettings(Struct, frozen=True):
    """The settings. `read` and `write` are further paths; `~` is the home directory.

    `auto_allow`: a command that needs nothing beyond the policy *work* runs without a question. `memory_mb` limits each
    process, in MiB; 0: three quarters of the machine's memory. `processes` limits a command's processes; 0: no limit.
    """

    mode: SandboxMode = SandboxMode.AUTO
    network: NetworkAccess = NetworkAccess.ASK
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    auto_allow: bool = False
    memory_mb: int = 0
    processes: int = 4_096
