"""Metrics of a session: tokens, cost, active time, waits for a person, and the lengths of its queues.

The SDK sends them every minute (`OTEL_METRIC_EXPORT_INTERVAL`, in milliseconds) from a thread that it starts. Only
events of this process count: sums of an earlier process were sent by that one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from teamwright.protocol.events import (
    IntegrationChanged,
    MemberChanged,
    ModelCallEnded,
    RequestClosed,
    RequestOpened,
    TaskChanged,
    TeamEvent,
)
from teamwright.protocol.ids import display_name
from teamwright.protocol.members import MemberState
from teamwright.telemetry import conventions as c
from teamwright.telemetry.otlp import SCOPE, exporter_options, otlp_address, resource_attributes

_OPEN_INTEGRATION = frozenset({"queued", "checking"})


class SessionMetrics:
    """The instruments of one session, fed by one thread."""

    def __init__(self, env: Mapping[str, str], version: str) -> None:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource

        interval = env.get("OTEL_METRIC_EXPORT_INTERVAL", "")
        reader = PeriodicExportingMetricReader(
            OTLPMetricExporter(**exporter_options(otlp_address(env, "metrics"))),
            export_interval_millis=float(interval) if interval.isdecimal() else None,
        )
        resource = Resource(resource_attributes(env, version))
        self._provider = MeterProvider([reader], resource, shutdown_on_exit=False)
        meter = self._provider.get_meter(SCOPE, version, c.CONVENTIONS)
        self._tokens = meter.create_histogram(c.TOKEN_USAGE, "{token}", "Tokens of a model call.")
        self._duration = meter.create_histogram(c.OPERATION_DURATION, "s", "Time of a model call.")
        self._cost = meter.create_counter(c.COST, "USD", "Money of model calls with a known price.")
        self._active = meter.create_counter(c.ACTIVE_TIME, "s", "Time that members were in turns.")
        self._wait = meter.create_histogram(c.WAIT_TIME, "s", "Time that a request waited for a person.")
        self._tasks = meter.create_up_down_counter(c.TASKS, "{task}", "Tasks by status.")
        self._queue = meter.create_up_down_counter(c.INTEGRATION_QUEUE, "{commit}", "Commits in the integration queue.")
        self._open = meter.create_up_down_counter(c.OPEN_REQUESTS, "{request}", "Requests that wait for a person.")
        self._status: dict[str, str] = {}
        self._entries: set[str] = set()
        self._asked_at: dict[str, tuple[float, str]] = {}
        self._working_since: dict[str, float] = {}

    def add(self, event: TeamEvent) -> None:
        """Add the next event."""
        match event:
            case ModelCallEnded():
                self._add_model_call(event)
            case MemberChanged():
                self._add_state(event)
            case TaskChanged():
                self._add_task(event)
            case IntegrationChanged():
                is_open = str(event.state) in _OPEN_INTEGRATION
                if is_open is not (event.entry in self._entries):
                    self._queue.add(1 if is_open else -1)
                    (self._entries.add if is_open else self._entries.discard)(event.entry)
            case RequestOpened():
                self._asked_at[event.request] = event.at, event.kind
                self._open.add(1, {c.REQUEST_KIND: event.kind})
            case RequestClosed():
                if (asked := self._asked_at.pop(event.request, None)) is not None:
                    at, kind = asked
                    self._open.add(-1, {c.REQUEST_KIND: kind})
                    self._wait.record(max(0.0, event.at - at), {c.REQUEST_KIND: kind, c.ANSWERED_BY: event.by})
            case _:
                pass

    def _add_model_call(self, event: ModelCallEnded) -> None:
        usage = event.usage
        about: dict[str, Any] = {
            c.OPERATION: c.CHAT,
            c.REQUEST_MODEL: event.model,
            c.MEMBER: display_name(event.caller or event.member),
        }
        if usage.prompt_tokens:
            self._tokens.record(usage.prompt_tokens, {**about, c.TOKEN_TYPE: "input"})
        if usage.output_tokens:
            self._tokens.record(usage.output_tokens, {**about, c.TOKEN_TYPE: "output"})
        if event.seconds:
            self._duration.record(event.seconds, {**about, **({c.ERROR_TYPE: event.error} if event.error else {})})
        if usage.usd:
            self._cost.add(usage.usd, about)

    def _add_state(self, event: MemberChanged) -> None:
        works = event.state is MemberState.WORKING
        since = self._working_since.get(event.member)
        if works and since is None:
            self._working_since[event.member] = event.at
        elif not works and since is not None:
            del self._working_since[event.member]
            self._active.add(max(0.0, event.at - since), {c.MEMBER: display_name(event.member)})

    def _add_task(self, event: TaskChanged) -> None:
        before = self._status.get(event.task.id, "")
        now = "" if event.task.status == "deleted" else event.task.status
        if before == now:
            return
        if before:
            self._tasks.add(-1, {"teamwright.task.status": before})
        if now:
            self._tasks.add(1, {"teamwright.task.status": now})
        self._status[event.task.id] = now

    def close(self, timeout_s: float) -> None:
        """Send what is left within so many seconds, and end."""
        self._provider.shutdown(timeout_millis=timeout_s * 1_000)
