"""When the program's process looks for garbage: not while it loads, rarely while it runs, not once more at its end.

What loading makes stays until the end; searching it was a quarter of the CPU time of a short command. For the
program alone: a library leaves its host's collector as it is. Knows Python's collector and nothing else.
"""

from __future__ import annotations

import gc

LOADING_THRESHOLD = 100_000
"""Objects that may be made before they are searched while the program loads: more than that takes."""

RUNNING_THRESHOLD = 10_000


def prepare_loading() -> None:
    """The program begins."""
    gc.set_threshold(LOADING_THRESHOLD, 20, 50)


def freeze_loaded() -> None:
    """All that stays is there: it is never searched again, what comes now is."""
    gc.freeze()
    gc.set_threshold(RUNNING_THRESHOLD, 20, 20)


def freeze_at_exit() -> None:
    """The process goes, and takes everything with it."""
    gc.freeze()
