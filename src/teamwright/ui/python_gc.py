"""Settings of Python's garbage collector for the program: rare while it runs, none while it loads and at exit.

Objects created by imports live until the end; searching them cost a quarter of the CPU time of a short command. Only
the program uses this module; the library leaves the collector of its host as it is.
"""

from __future__ import annotations

import gc

LOADING_THRESHOLD = 100_000
"""The number of new objects before a collection while the program loads; loading creates fewer."""

RUNNING_THRESHOLD = 10_000


def prepare_loading() -> None:
    """Raise the threshold while the program loads."""
    gc.set_threshold(LOADING_THRESHOLD, 20, 50)


def freeze_loaded() -> None:
    """Exclude all loaded objects from later collections."""
    gc.freeze()
    gc.set_threshold(RUNNING_THRESHOLD, 20, 20)


def freeze_at_exit() -> None:
    """Skip the collection at the end of the process, which frees all memory anyway."""
    gc.freeze()
