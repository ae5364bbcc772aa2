"""The logger `teamwright` for programs that embed the library, and for debug logs: facts, warnings, and tracebacks.

Nothing is printed unless the program configures `logging`. Facts are records of the level DEBUG of the loggers
`teamwright.<category>`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from teamwright.protocol.errors import UsageError
from teamwright.protocol.ids import did_you_mean

LOGGER = logging.getLogger("teamwright")
LOGGER.addHandler(logging.NullHandler())

CATEGORIES = (
    *("model", "tools", "permissions", "sandbox", "processes", "hooks", "mcp", "mail", "tasks", "team"),
    *("compaction", "settings", "session"),
)
"""The categories of facts."""

DEBUG_VARIABLE = "TEAMWRIGHT_DEBUG"
"""The variable that asks for a debug log where no flag does: `1` for all categories, or their names."""

ALL = "all"

_LOGGERS = {name: LOGGER.getChild(name) for name in CATEGORIES}
_ALL_WORDS = frozenset({ALL, "1", "true", "yes", "on"})
_NO_WORDS = frozenset({"", "0", "false", "no", "off"})


def log_failure(what: str, problem: BaseException) -> None:
    """Log an exception of the program's own code (a model, a tool, a hook, an approver) with its traceback."""
    LOGGER.error("%s: %s: %s", what, type(problem).__name__, problem, exc_info=problem)


def log_fact(category: str, text: str, *values: object, member: str = "", session: str = "") -> None:
    """Log a fact, with values as `logging` formats them. It costs next to nothing for a category that is not wanted.

    Without a `session` the fact belongs to the whole process.
    """
    logger = _LOGGERS[category]
    if logger.isEnabledFor(logging.DEBUG):
        logger.debug(text, *values, extra={"member": member, "session": session})


def is_any_fact_logged() -> bool:
    """Return True when a program wants facts of any category."""
    return any(logger.isEnabledFor(logging.DEBUG) for logger in _LOGGERS.values())


def debug_categories(value: str, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the categories that a flag or an option asks for, or else the environment; empty for no debug log.

    `value` is empty, `all`, or names separated by commas. Raises UsageError for an unknown name.
    """
    where = "--debug" if value else DEBUG_VARIABLE
    words = [word.strip().lower() for word in (value or env.get(DEBUG_VARIABLE, "")).split(",")]
    if len(words) == 1 and words[0] in _NO_WORDS:
        return ()
    wanted = [word for word in words if word]
    unknown = next((word for word in wanted if word not in CATEGORIES and word not in _ALL_WORDS), None)
    if unknown is not None:
        raise UsageError(
            "usage",
            f"{unknown[:40]!r} is no category of the debug log",
            looked_at=[("from", where), ("categories", ", ".join(CATEGORIES))],
            do=did_you_mean(unknown, CATEGORIES, ["--debug=model,mcp", "--debug   (all of them)"]),
            note="nothing was started",
        )
    return CATEGORIES if _ALL_WORDS & {*wanted} else tuple(name for name in CATEGORIES if name in wanted)
