"""A path outside of every project of a test, which whoever runs the tests may write, and no confined command."""

import os
import sys
from pathlib import Path


def writable_outside() -> Path:
    """Return a path that does not exist. It is not below `/tmp`, of which a confined command has its own."""
    return Path(sys.prefix) / f"teamwright-test-{os.getpid()}"
