"""Capabilities of a superuser who works in files of another user, as in a container with a mounted project.

Every kind of sandbox keeps the same ones, and only where the policy names such files: without them root could not
change a file there. All other capabilities are dropped.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping

from teamwright.sandbox.policy import SandboxPolicy

OWNER_CAPABILITIES: Mapping[str, int] = {"CAP_CHOWN": 0, "CAP_DAC_OVERRIDE": 1, "CAP_FOWNER": 3}
"""The names and the numbers of the capabilities (linux/capability.h)."""

_NO_CAPABILITIES: Mapping[str, int] = {}


def kept_capabilities(policy: SandboxPolicy) -> Mapping[str, int]:
    """Return the capabilities that a command keeps; none for an ordinary user, and in root's own files."""
    is_needed = os.geteuid() == 0 and any(map(_has_foreign_owner, policy.writable | policy.readable))
    return OWNER_CAPABILITIES if is_needed else _NO_CAPABILITIES


def _has_foreign_owner(path: str) -> bool:
    with contextlib.suppress(OSError):
        return os.stat(path).st_uid != os.geteuid()
    return False
