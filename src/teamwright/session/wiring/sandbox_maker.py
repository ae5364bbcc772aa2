"""The sandbox of a process, constructed at its first use, and the session's temporary files.

Depends on the session's settings. The construction itself is in `sandbox_factory`, which is loaded at the first use.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import cache
from typing import TYPE_CHECKING

from teamwright.sandbox.policy import SandboxMode
from teamwright.sandbox.temporary_files import TemporaryFiles
from teamwright.session.session_preparation import SessionContext
from teamwright.session.wiring.sandbox_state_file import write_sandbox

if TYPE_CHECKING:
    from teamwright.protocol.events import Emit
    from teamwright.sandbox.sandbox import Sandbox


def sandbox_maker(context: SessionContext, emit: Emit) -> Callable[[], Sandbox]:
    """Return a function that makes the sandbox at the first command. A required one is made now: it may not work."""
    make = _make_once(context, emit)
    if context.settings.sandbox.mode is SandboxMode.REQUIRED:
        make()
    return make


def start_sandbox_report(context: SessionContext, sandbox: Callable[[], Sandbox], stack: AsyncExitStack) -> None:
    """Probe the sandbox while the session begins, warn of what it does not enforce, and save it for other processes."""

    async def report() -> None:
        write_sandbox(context.directory, await sandbox().report())

    task = asyncio.create_task(report(), name="sandbox report")
    stack.push_async_callback(asyncio.wait, {task})


def make_temporary_files(context: SessionContext) -> TemporaryFiles | None:
    """Return the session's temporary files; None when the sandbox is off."""
    if context.settings.sandbox.mode is SandboxMode.OFF:
        return None
    directory = context.home.session(context.cwd, context.id) / "tmp"
    return TemporaryFiles(os.path.realpath(directory), _make_once(context, lambda _event: None))


def _make_once(context: SessionContext, emit: Emit) -> Callable[[], Sandbox]:
    @cache
    def make() -> Sandbox:
        from teamwright.session.wiring.sandbox_factory import make_sandbox  # a session without commands needs none

        return make_sandbox(context, emit)

    return make
