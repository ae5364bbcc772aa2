"""How large the terminal's window is now: asked of the terminal itself, each time.

What the environment says of it (`COLUMNS`, which some programs leave there for their children) may be older than the
window.
"""

from __future__ import annotations

import os
import shutil
import sys


def window_size() -> os.terminal_size:
    """Columns and rows; without a terminal what the environment says, else 80 by 24."""
    try:
        size = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):  # no terminal, a closed one, or somebody else's object
        return shutil.get_terminal_size()
    return size if size.columns and size.lines else shutil.get_terminal_size()
