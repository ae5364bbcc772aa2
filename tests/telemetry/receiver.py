"""A receiver of OTLP over HTTP on the loopback: it decodes what it gets, and can be slow or refuse."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Receiver:
    """Decoded spans and names of metrics, with the headers of each request."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.gate = threading.Event()
        self.gate.set()
        self.came = threading.Condition()
        self.spans: list[Any] = []
        self.resources: list[Any] = []
        self.metrics: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.url = ""

    def take(self, path: str, headers: dict[str, str], body: bytes) -> None:
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        with self.came:
            self.headers.append(headers)
            if path.endswith("/v1/traces"):
                for part in ExportTraceServiceRequest.FromString(body).resource_spans:
                    self.resources.append(part.resource)
                    self.spans += [span for scope in part.scope_spans for span in scope.spans]
            elif path.endswith("/v1/metrics"):
                for part in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                    self.metrics += [metric.name for scope in part.scope_metrics for metric in scope.metrics]
            self.came.notify_all()

    def named(self, name: str) -> list[Any]:
        """The spans of this name."""
        return [span for span in self.spans if span.name == name]


def attributes(span: Any) -> dict[str, Any]:
    """The attributes of a span or resource as plain values."""

    def plain(value: Any) -> Any:
        kind = value.WhichOneof("value")
        return [plain(one) for one in value.array_value.values] if kind == "array_value" else getattr(value, kind)

    return {one.key: plain(one.value) for one in span.attributes}


@contextmanager
def otlp_receiver(status: int = 200) -> Iterator[Receiver]:
    """A running receiver."""
    receiver = Receiver(status)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.gate.wait()
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            if receiver.status == 200:
                receiver.take(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            self.send_response(receiver.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.gate.set()
        server.shutdown()
        server.server_close()
