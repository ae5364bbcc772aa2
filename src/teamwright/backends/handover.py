"""The handover of a launch to a terminal: exact arguments, environment and directory, and the confirmed start.

The terminal runs `starter` with the path of a socket that only this user can reach; the launch is sent over it, so that
no secret is in an argument or a file. The socket closes when the program has replaced the starter. Leaving the block
withdraws the offer: a starter without a launch exits silently.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import socket
import struct
import sys
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path

from teamwright.backends import starter
from teamwright.processes.process_tree import process_start
from teamwright.protocol.time_limit import time_limit
from teamwright.storage.doorbell import MAX_ADDRESS
from teamwright.teams.backend import TERMINAL_VARIABLES, Launch


class LaunchFailed(Exception):
    """The program does not run; the text says why in a few words."""


class Handover:
    """One offered launch. `argv` is the command for the terminal; call `deliver` once the terminal runs it."""

    def __init__(self, launch: Launch, address: str) -> None:
        self.argv = (sys.executable, "-I", "-S", starter.__file__, address)
        self._launch = launch
        self._starter: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]]
        self._starter = asyncio.get_running_loop().create_future()

    async def deliver(self, timeout_s: float) -> tuple[int, str]:
        """Deliver the launch and wait until the program runs. Returns its pid and its start time (`process_start`).

        The pid is 0 when the process cannot be seen from here. Raises LaunchFailed, after `timeout_s` seconds at the
        latest.
        """
        is_connected = False
        try:
            async with time_limit(timeout_s):
                reading, writing = await asyncio.shield(self._starter)
                is_connected = True
                reply = await reading.readline()
                process = _verified_process(reply, writing.get_extra_info("socket"))
                writing.write(_encode_launch(self._launch))
                writing.write_eof()
                await writing.drain()
                if refused := await reading.read():
                    raise LaunchFailed(refused.decode("utf-8", "replace"))
        except TimeoutError:
            raise LaunchFailed(
                f"it did not {'become the program' if is_connected else 'begin'} within {timeout_s:g} seconds"
            ) from None
        except OSError as problem:
            raise LaunchFailed(f"it ended while it was started ({problem.strerror or problem})") from problem
        return process

    async def accept(self, reading: asyncio.StreamReader, writing: asyncio.StreamWriter) -> None:
        """Accept the connection of a starter; only the first one counts."""
        if self._starter.done():
            writing.close()
        else:
            self._starter.set_result((reading, writing))

    def fail(self, why: str) -> None:
        """Make `deliver` raise LaunchFailed with this reason. Does nothing after a starter has connected."""
        if not self._starter.done():
            self._starter.set_exception(LaunchFailed(why))

    def withdraw(self) -> None:
        """Close the connection to the starter; harmless without one."""
        if not self._starter.cancel() and self._starter.exception() is None:
            self._starter.result()[1].close()


@contextlib.asynccontextmanager
async def offer_launch(launch: Launch) -> AsyncGenerator[Handover]:
    """Offer this launch while the block runs. Raises LaunchFailed when no socket can be created."""
    if not launch.argv or not os.path.isabs(launch.argv[0]):
        raise LaunchFailed("the program has no absolute path")
    if not sys.executable:
        raise LaunchFailed("this interpreter does not know its own path (sys.executable)")
    try:
        folder = _socket_directory()
    except OSError as problem:
        raise LaunchFailed(f"no temporary directory: {problem}") from problem
    try:
        address = str(folder / "s")
        handover = Handover(launch, address)
        try:
            server = await asyncio.start_unix_server(handover.accept, address)
        except OSError as problem:
            raise LaunchFailed(f"no socket at {address}: {problem}") from problem
        try:
            yield handover
        finally:
            server.close()
            handover.withdraw()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _socket_directory() -> Path:
    """Return a directory of mode 0700 whose path is short enough for a socket."""
    folder = Path(tempfile.mkdtemp(prefix="tw-"))
    if len(os.fsencode(folder)) + 2 <= MAX_ADDRESS:
        return folder
    os.rmdir(folder)
    return Path(tempfile.mkdtemp(prefix="tw-", dir="/tmp"))


def _encode_launch(launch: Launch) -> bytes:
    """Encode the launch for `starter`."""
    variables = [f"{key}={value}" for key, value in launch.env.items()]
    parts = ([os.fspath(launch.cwd)], launch.argv, variables, TERMINAL_VARIABLES)
    return json.dumps([[os.fsencode(text).decode("latin-1") for text in part] for part in parts]).encode()


def _verified_process(output: bytes, line: socket.socket) -> tuple[int, str]:
    """Return the process that reports this pid, when the system confirms it; pids of another namespace are rejected."""
    pid = int(output) if output.strip().isdigit() else 0
    if sys.platform == "linux":
        credentials = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        pid = pid if struct.unpack("3i", credentials)[0] == pid else 0
    start = process_start(pid) if pid > 1 else ""
    return (pid, start) if start else (0, "")
