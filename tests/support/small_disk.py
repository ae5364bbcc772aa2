"""A file system with little room, which a test fills up and gives room again."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.waits import WAIT_S

_CHUNK = b"\0" * 65536


class SmallDisk:
    """A mounted file system. `fill` leaves no byte free, `make_room` removes what filled it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / "filler"

    def fill(self) -> None:
        """Take all the room that is left, to the last byte."""
        with suppress(OSError), open(self._filler, "ab", buffering=0) as file:
            while file.write(_CHUNK):
                pass

    def make_room(self) -> None:
        """Free what `fill` took."""
        self._filler.unlink(missing_ok=True)


@contextmanager
def small_disk(path: Path, megabytes: int) -> Iterator[SmallDisk]:
    """Mount a file system of this size; skip the test where mounting is not permitted."""
    path.mkdir(exist_ok=True)
    if os.geteuid() != 0:
        pytest.skip("only root may mount the small file system of this test")
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0777", "tmpfs", str(path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=WAIT_S)
    if done.returncode != 0:
        pytest.skip(f"mounting the small file system of this test is not permitted here: {done.stderr.strip()}")
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True, timeout=WAIT_S)
