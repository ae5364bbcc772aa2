"""The debug log of a session: a file with one line a fact, for a person who asked for it. It is loaded only then.

Facts are records of `logging`: those that the code logs where they happen, and the events of the session's log.
"""

from __future__ import annotations

import io
import json
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from teamwright.protocol import events
from teamwright.protocol.events import TeamEvent
from teamwright.protocol.program_log import CATEGORIES, LOGGER, log_fact
from teamwright.session.command_start import mask_values_of
from teamwright.session.preparation import SessionContext
from teamwright.storage.event_log import EventLog
from teamwright.storage.files import storage_error
from teamwright.storage.paths import make_private

MAX_BYTES = 10_000_000
"""The size at which a debug log begins again. The file before it is kept as `<file>.1`."""

MAX_LINE = 2_000
"""The most characters of a line. Tracebacks of the program's own code are longer."""

LATEST = "latest"
"""The link to the debug log that was opened last."""

_CATEGORY_OF: Mapping[type[TeamEvent], str] = {
    **dict.fromkeys((events.ModelCallEnded, events.ModelChanged, events.SideCallEnded), "model"),
    events.ToolCalled: "tools",
    **dict.fromkeys((events.RequestOpened, events.RequestClosed, events.ModeChanged), "permissions"),
    events.SandboxRefused: "sandbox",
    events.HookEnded: "hooks",
    **dict.fromkeys((events.MessageSent, events.MessageDelivered), "mail"),
    **dict.fromkeys((events.TaskChanged, events.IntegrationChanged), "tasks"),
    **dict.fromkeys((events.MemberChanged, events.SubagentChanged, events.TeamChanged), "team"),
    events.Compacted: "compaction",
    events.Reloaded: "settings",
}
"""The category of an event; `session` for all others."""

_LEFT_OUT = frozenset({"type", "at", "member", "input", "output", "facts", "question", "suggestions", "options"})
"""Fields of events that a line does not have: contents of files, of commands and of answers."""

_ALSO_LEFT_OUT: Mapping[str, frozenset[str]] = {"notice": frozenset(), "request_opened": frozenset({"what"})}
"""Further fields of these events; of all others their text, which is an agent's. A request shows a whole change."""


class DebugLogFile(RotatingFileHandler):
    """The file of one session in one process. Facts of other sessions of the process are not written."""

    def __init__(self, path: Path, session: str, categories: Sequence[str], mask: Callable[[str], str]) -> None:
        self._session = session
        self._categories = frozenset(categories)
        self._mask = mask
        super().__init__(path, maxBytes=MAX_BYTES, backupCount=1, encoding="utf-8")

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True for a fact of a wanted category and of this session, and for each warning."""
        of_session = getattr(record, "session", "") in {"", self._session}
        return of_session and (record.levelno >= logging.WARNING or _category(record) in self._categories)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record: time, category, member and fact, with secrets masked."""
        at = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z"
        member = getattr(record, "member", "")
        level = f"{record.levelname.lower()}: " if record.levelno >= logging.WARNING else ""
        text = self._mask(record.getMessage())
        text = text if len(text) <= MAX_LINE else f"{text[:MAX_LINE]}…"
        if record.exc_info:
            text += f" {self._mask(logging.Formatter().formatException(record.exc_info))}"
        text = text.encode("utf-8", "backslashreplace").decode().replace("\n", "\\n").replace("\r", "\\r")
        return f"{at} [{_category(record)}] {f'{member}: ' if member else ''}{level}{text}"

    def handleError(self, record: logging.LogRecord) -> None:
        """Leave the line out: a full disk must not end a session."""

    def _open(self) -> io.TextIOWrapper:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.fdopen(os.open(self.baseFilename, flags, 0o600), "a", encoding="utf-8")


def _category(record: logging.LogRecord) -> str:
    name = record.name.removeprefix(f"{LOGGER.name}.")
    return name if name in CATEGORIES else "program"


def start_debug_log(
    context: SessionContext, log: EventLog, stack: AsyncExitStack, categories: Sequence[str], member: str = ""
) -> None:
    """Write the facts of these categories until the stack closes, and give the events of the log to `logging`.

    `member` is the name of a member process, which has its own file. Raises StorageError.
    """
    if categories:
        path = context.home.debug_log(context.id, member)
        try:
            make_private(path.parent)
            file = DebugLogFile(path, context.id, categories, mask_values_of({**context.env, **context.settings.env}))
        except OSError as problem:
            raise storage_error(problem, path) from problem
        stack.callback(_detach, file, categories)
        _attach(file, categories)
        if not member:
            _point_to(path)
    stack.callback(log.subscribe(partial(_log_event, context.id), live=False))
    for name in sorted({str(origin) for origin in context.settings.origins.values()}):
        keys = [key for key, origin in context.settings.origins.items() if str(origin) == name]
        log_fact("settings", "%s sets %s", name, ", ".join(keys), session=context.id)


_wanted: Counter[str] = Counter()
"""How many debug logs want each category."""


def _attach(file: DebugLogFile, categories: Sequence[str]) -> None:
    LOGGER.addHandler(file)
    for name in categories:
        _wanted[name] += 1
        LOGGER.getChild(name).setLevel(logging.DEBUG)


def _detach(file: DebugLogFile, categories: Sequence[str]) -> None:
    LOGGER.removeHandler(file)
    file.close()
    for name in categories:
        _wanted[name] -= 1
        if not _wanted[name]:
            LOGGER.getChild(name).setLevel(logging.NOTSET)


def _point_to(path: Path) -> None:
    """Let `latest` name the file. Another process may do the same: one of the two links is left."""
    draft = path.with_name(f".{LATEST}.{os.getpid()}")
    with suppress(OSError):
        draft.unlink(missing_ok=True)
        draft.symlink_to(path.name)
        os.replace(draft, path.with_name(LATEST))


def _log_event(session: str, _number: int, event: TeamEvent) -> None:
    category = _CATEGORY_OF.get(type(event), "session")
    log_fact(category, "%s", _EventText(event), member=event.member, session=session)


class _EventText:
    """The text of an event, which is made only when a line of it is written."""

    def __init__(self, event: TeamEvent) -> None:
        self._event = event

    def __str__(self) -> str:
        fields: dict[str, Any] = self._event.as_json()
        left_out = _LEFT_OUT | _ALSO_LEFT_OUT.get(self._event.KIND, frozenset({"text"}))
        shown = (
            f"{name}={value if isinstance(value, str) and ' ' not in value else json.dumps(value, default=str)}"
            for name, value in fields.items()
            if name not in left_out and value not in ("", None, [], {})
        )
        return " ".join((self._event.KIND, *shown))
