"""The logger `teamwright` for programs that embed the library: warnings, and tracebacks of the program's own code.

Nothing is printed unless the program configures `logging`.
"""

from __future__ import annotations

import logging

LOGGER = logging.getLogger("teamwright")
LOGGER.addHandler(logging.NullHandler())


def log_failure(what: str, problem: BaseException) -> None:
    """Log an exception of the program's own code (a model, a tool, a hook, an approver) with its traceback."""
    LOGGER.error("%s: %s: %s", what, type(problem).__name__, problem, exc_info=problem)
