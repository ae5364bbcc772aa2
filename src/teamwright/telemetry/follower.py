"""The follower of a running session: it reads the event log in a thread and sends spans and metrics.

The session's loop only wakes it. A receiver that is slow or gone costs the session nothing: the follower reads the file
when it can, keeps a bounded number of spans, counts those that it drops, and is left behind at the end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from teamwright.protocol.errors import StorageError
from teamwright.protocol.program_log import log_failure
from teamwright.storage.event_log import EventLog, LogTail
from teamwright.storage.files import write_atomic
from teamwright.telemetry.otlp import otlp_address
from teamwright.telemetry.spans import Content, FinishedSpan, SpanBuilder

if TYPE_CHECKING:
    from teamwright.telemetry.metrics import SessionMetrics
    from teamwright.telemetry.otlp import SpanExporter

DELAY_S = 2.0
"""Seconds that events are gathered before they are sent."""

BATCH = 256
"""Spans of one request."""

MAX_WAITING = 4_096
"""Spans that wait for a receiver. Older ones are dropped; `teamwright trace` can send all of them later."""

CLOSE_S = 3.0
"""Seconds that the end of a session waits for the last spans, if the receiver took those before."""

MARK_NAME = "telemetry.json"
"""The file beside the log that says what was sent: after a kill the next process sends the rest."""


class TelemetryMark(Struct, frozen=True):
    """The state of the telemetry of a process: the event that opened it, and the last event whose spans were sent."""

    opened: int
    sent: int


class TelemetryFollower:
    """The telemetry of one session in this process. `env` is the process's own environment.

    `warn` is called from the thread, once, when the receiver does not take what is sent.
    """

    def __init__(
        self,
        log: EventLog,
        session: str,
        env: Mapping[str, str],
        version: str,
        content: Content,
        *,
        warn: Callable[[str], object],
    ) -> None:
        self._log = log
        self._session = session
        self._env = env
        self._version = version
        self._mark_path = log.path.with_name(MARK_NAME)
        # A process that was killed left spans unsent: its events are read again, from the one that opened it.
        killed = _read_mark(self._mark_path)
        self._builder = SpanBuilder(session, content, was_killed=killed is not None)
        self._opened = log.last_number + 1
        self._sent = self._opened - 1 if killed is None else killed.sent
        self._tail = LogTail.after_event(log.path, log.last_number if killed is None else killed.opened - 1)
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
        self._waiting: list[FinishedSpan] = []
        self._exporter: SpanExporter | None = None
        self._metrics: SessionMetrics | None = None
        self._is_received = True
        self._warn = warn
        self._has_warned = False
        self.dropped = 0
        """Spans that no receiver took."""
        self._unsubscribe: Callable[[], None] | None = None

    def start(self) -> None:
        """Follow the log from its present end. The thread loads the SDK."""
        self._unsubscribe = self._log.subscribe(lambda _number, _event: self._wake.set(), live=False)
        self._thread.start()

    def close(self) -> None:
        """Send what is left, within CLOSE_S seconds, or not at all if the receiver did not take the spans before."""
        if self._unsubscribe is not None:
            self._unsubscribe()
        self._log.flush()
        self._stopping.set()
        self._wake.set()
        self._thread.join(CLOSE_S if self._is_received else 0.1)
        if self._thread.is_alive() and self._exporter is not None:
            with suppress(Exception):
                self._exporter.close()

    # ── the thread ────────────────────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        try:
            from teamwright.telemetry.metrics import SessionMetrics
            from teamwright.telemetry.otlp import SpanExporter

            self._exporter = SpanExporter(self._env, self._version)
            if self._env.get("OTEL_METRICS_EXPORTER", "").strip().lower() != "none":
                self._metrics = SessionMetrics(self._env, self._version)
            while not self._stopping.is_set():
                self._wake.wait()
                self._stopping.wait(DELAY_S)
                self._wake.clear()
                self._read()
                self._write_mark()  # before anything is sent: a kill from here on is known
                self._send()
            self._read()
            self._waiting += self._builder.finish(time.time())
            self._send()
            self._mark_path.unlink(missing_ok=True)
            if self._metrics is not None:
                self._metrics.close(CLOSE_S)
            self._exporter.close()
        except Exception as problem:  # telemetry must not end a session
            log_failure("telemetry", problem)

    def _read(self) -> None:
        while batch := self._tail.read():
            for number, event in batch:
                spans = list(self._builder.add(number, event))
                if number > self._sent:
                    self._waiting += spans
                if number >= self._opened and self._metrics is not None:
                    self._metrics.add(event)
            if (over := len(self._waiting) - MAX_WAITING) > 0:
                del self._waiting[:over]
                self.dropped += over

    def _send(self) -> None:
        while self._waiting and self._exporter is not None:
            batch = self._waiting[:BATCH]
            self._is_received = self._exporter.export(batch)
            if not self._is_received:
                self._warn_once()
                break
            del self._waiting[: len(batch)]
        if not self._waiting:
            self._sent = self._tail.after
        self._write_mark()

    def _write_mark(self) -> None:
        if self._tail.after >= self._opened:
            with suppress(StorageError):
                write_atomic(self._mark_path, msgspec.json.encode(TelemetryMark(self._opened, self._sent)))

    def _warn_once(self) -> None:
        if self._has_warned or self._stopping.is_set():
            return
        self._has_warned = True
        address = otlp_address(self._env, "traces").shown
        later = f"Send all of it later: teamwright trace {self._session}"
        self._warn(f"telemetry: {address} refuses what is sent or does not answer. {later}")


def export_log(path: Path, session: str, exporter: SpanExporter, content: Content) -> Iterator[tuple[int, bool]]:
    """Send all spans of a log, and yield after each request how many spans it had, and whether they were received.

    What is open at the end of a log that is still written, or whose process was killed, is marked as cut off.
    """
    spans = _spans_of_log(path, SpanBuilder(session, content))
    while batch := list(islice(spans, BATCH)):
        yield len(batch), exporter.export(batch)


def _spans_of_log(path: Path, builder: SpanBuilder) -> Iterator[FinishedSpan]:
    tail = LogTail(path, 0)
    newest = 0.0
    while batch := tail.read():
        for number, event in batch:
            newest = max(newest, event.at)
            yield from builder.add(number, event)
    yield from builder.finish(newest if tail.closed else None)


def _read_mark(path: Path) -> TelemetryMark | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=TelemetryMark)
    except (OSError, msgspec.MsgspecError):
        return None
