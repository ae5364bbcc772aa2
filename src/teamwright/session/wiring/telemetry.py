"""Telemetry of a session: off unless the person's own setting or environment asks for it. It is loaded only then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from functools import partial

from teamwright.config.settings.settings import Settings
from teamwright.protocol.events import Notice
from teamwright.protocol.ids import LEAD
from teamwright.protocol.trace_context import TRACEPARENT, tool_traceparent
from teamwright.session.preparation import SessionContext
from teamwright.storage.event_log import EventLog

TELEMETRY_VARIABLE = "TEAMWRIGHT_OTEL"
"""The variable that switches telemetry on or off for one run, before the setting."""


def is_telemetry_on(env: Mapping[str, str], settings: Settings) -> bool:
    """Return True when the environment of the process, else the person's own settings, ask for telemetry."""
    switch = env.get(TELEMETRY_VARIABLE, "").strip().lower()
    return settings.otel if not switch else switch not in {"0", "false", "no", "off"}


def caller_span(context: SessionContext) -> str:
    """Return the span of the program that started this session; empty without one, and without telemetry."""
    return context.env.get(TRACEPARENT, "") if is_telemetry_on(context.env, context.settings) else ""


def call_trace(context: SessionContext) -> Callable[[str], str] | None:
    """Return the function that gives the value of TRACEPARENT for what a tool call runs; None without telemetry."""
    if not is_telemetry_on(context.env, context.settings):
        return None
    return partial(_traceparent, context.id, caller_span(context))


def _traceparent(session: str, caller: str, use: str) -> str:
    return tool_traceparent(session, use, caller)


def start_telemetry(context: SessionContext, log: EventLog, stack: AsyncExitStack) -> None:
    """Follow the log in a thread until the stack closes. Raises CannotStart when telemetry is on and cannot work."""
    if not is_telemetry_on(context.env, context.settings):
        return
    from teamwright import __version__
    from teamwright.telemetry.follower import TelemetryFollower
    from teamwright.telemetry.otlp import content_of, otlp_address, require_exporter

    require_exporter()
    for kind in ("traces", "metrics"):
        otlp_address(context.env, kind)
    loop = asyncio.get_running_loop()

    def warn(text: str) -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(log.emit, Notice(member=LEAD, text=text, level="warning"))

    content = content_of(context.env)
    follower = TelemetryFollower(log, context.id, context.env, __version__, content, warn=warn)
    stack.push_async_callback(asyncio.to_thread, follower.close)
    follower.start()
