"""Export of spans and metrics by OTLP over HTTP, with the exporter of the OpenTelemetry SDK (extra `otel`).

The endpoint, headers and limits come from the usual variables of the process's own environment
(https://opentelemetry.io/docs/specs/otel/protocol/exporter/), never from the settings of a repository. Nothing is sent
before the first export. Bodies have a length: some collectors refuse others.
"""

from __future__ import annotations

import importlib.util
import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from teamwright.protocol.errors import CannotStart
from teamwright.protocol.trace_context import SpanId
from teamwright.telemetry import conventions as c
from teamwright.telemetry.spans import Content, FinishedSpan

PREFIX = "OTEL_EXPORTER_OTLP_"
DEFAULT_ENDPOINT = "http://localhost:4318"
DEFAULT_TIMEOUT_S = 10.0
SCOPE = "teamwright"
_COMPRESSIONS = frozenset({"", "none", "gzip", "deflate"})


class OtlpAddress(Struct, frozen=True):
    """Where one kind of data (`traces` or `metrics`) goes, by the environment. `headers` may contain a secret."""

    url: str
    headers: tuple[tuple[str, str], ...] = ()
    timeout_s: float = DEFAULT_TIMEOUT_S
    compression: str = ""
    certificate: str | None = None
    client_key: str | None = None
    client_certificate: str | None = None

    @property
    def shown(self) -> str:
        """The address for people, without a name or password in it."""
        parts = urlsplit(self.url)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()


def otlp_address(env: Mapping[str, str], kind: str) -> OtlpAddress:
    """Return where the environment sends `traces` or `metrics`. Raises CannotStart (`bad-settings`) for bad values."""

    def value(name: str) -> str:
        return env.get(f"{PREFIX}{kind.upper()}_{name}", "").strip() or env.get(f"{PREFIX}{name}", "").strip()

    protocol = value("PROTOCOL") or "http/protobuf"
    if protocol != "http/protobuf":
        raise _bad(f"{PREFIX}PROTOCOL", protocol, "http/protobuf is what this program sends")
    own = env.get(f"{PREFIX}{kind.upper()}_ENDPOINT", "").strip()
    url = own or f"{(value('ENDPOINT') or DEFAULT_ENDPOINT).rstrip('/')}/v1/{kind}"
    if not _is_address(url):
        without_password = url.rpartition("@")[2]
        raise _bad(f"{PREFIX}ENDPOINT", without_password, "it is an address such as http://localhost:4318")
    try:
        timeout = float(value("TIMEOUT") or DEFAULT_TIMEOUT_S)
    except ValueError:
        timeout = 0.0
    if not 0 < timeout < math.inf:
        raise _bad(f"{PREFIX}TIMEOUT", value("TIMEOUT"), "it is a number of seconds")
    if value("COMPRESSION") not in _COMPRESSIONS:
        raise _bad(f"{PREFIX}COMPRESSION", value("COMPRESSION"), "it is gzip, deflate or none")
    pairs = (pair.partition("=") for pair in value("HEADERS").split(",") if "=" in pair)
    return OtlpAddress(
        url,
        tuple((unquote(name).strip().lower(), unquote(text).strip()) for name, _, text in pairs),
        timeout,
        value("COMPRESSION"),
        value("CERTIFICATE") or None,
        value("CLIENT_KEY") or None,
        value("CLIENT_CERTIFICATE") or None,
    )


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, or an unfinished IPv6 address
        return False


def require_exporter() -> None:
    """Raise CannotStart (`bad-settings`) when the packages of the extra are not installed."""
    try:
        found = importlib.util.find_spec("opentelemetry.exporter.otlp.proto.http") is not None
    except ModuleNotFoundError:
        found = False
    if not found:
        raise CannotStart(
            "bad-settings",
            "telemetry needs packages that are not installed",
            do=["pip install 'teamwright[otel]'", "or switch it off: teamwright config set otel false"],
            note="nothing was sent",
        )


def resource_attributes(env: Mapping[str, str], version: str) -> dict[str, str]:
    """Return the attributes of the resource: the service's name and version, and what the environment adds."""
    pairs = (pair.partition("=") for pair in env.get("OTEL_RESOURCE_ATTRIBUTES", "").split(",") if "=" in pair)
    given = {name.strip(): unquote(text).strip() for name, _, text in pairs}
    name = env.get("OTEL_SERVICE_NAME", "").strip()
    return {
        "service.name": "teamwright",
        "service.version": version,
        **given,
        **({"service.name": name} if name else {}),
    }


class SpanExporter:
    """Sends finished spans. It is used by one thread; `close` from another one ends a send that waits."""

    def __init__(self, env: Mapping[str, str], version: str) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # a lost batch is counted, not printed
        self._exporter = OTLPSpanExporter(**exporter_options(otlp_address(env, "traces")))
        self._resource = Resource(resource_attributes(env, version))
        self._scope = InstrumentationScope(SCOPE, version, c.CONVENTIONS)

    def export(self, spans: Sequence[FinishedSpan]) -> bool:
        """Send the spans. Return False when the receiver did not take them after the exporter's tries."""
        from opentelemetry.sdk.trace.export import SpanExportResult

        return self._exporter.export([self._converted(span) for span in spans]) is SpanExportResult.SUCCESS

    def close(self) -> None:
        """End the exporter."""
        self._exporter.shutdown()

    def _converted(self, span: FinishedSpan) -> Any:
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import Link, SpanKind, Status, StatusCode

        return ReadableSpan(
            span.name,
            context=_context(span.id),
            parent=None if span.parent is None else _context(span.parent),
            resource=self._resource,
            attributes=span.attributes,
            links=[Link(_context(link)) for link in span.links],
            kind=SpanKind.CLIENT if span.is_client else SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR, span.error[:500]) if span.error else Status(),
            start_time=int(span.start * 1e9),
            end_time=int(span.end * 1e9),
            instrumentation_scope=self._scope,
        )


def exporter_options(address: OtlpAddress) -> dict[str, Any]:
    """Return the arguments of an exporter of the SDK."""
    from opentelemetry.exporter.otlp.proto.http import Compression

    return {
        "endpoint": address.url,
        "headers": dict(address.headers),
        "timeout": address.timeout_s,
        "compression": Compression(address.compression or "none"),
        "certificate_file": address.certificate,
        "client_key_file": address.client_key,
        "client_certificate_file": address.client_certificate,
    }


def _context(id: SpanId) -> Any:
    from opentelemetry.trace import SpanContext, TraceFlags

    return SpanContext(id.trace, id.span, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _bad(name: str, value: str, why: str) -> CannotStart:
    return CannotStart("bad-settings", f"{name} is {value[:200]!r}: {why}", note="nothing was sent")


def content_of(env: Mapping[str, str]) -> Content:
    """Return which contents the environment asks for. Without its variables there are none.

    `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` asks for all; `OTEL_LOG_USER_PROMPTS` and
    `OTEL_LOG_TOOL_DETAILS`, which Claude Code knows, for texts and for tools.
    """

    def is_on(name: str) -> bool:
        return env.get(name, "").strip().lower() in {"1", "true", "yes", "on"}

    everything = is_on("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT")
    return Content(
        texts=everything or is_on("OTEL_LOG_USER_PROMPTS"), tools=everything or is_on("OTEL_LOG_TOOL_DETAILS")
    )
