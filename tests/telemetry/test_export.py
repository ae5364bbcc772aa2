"""The export: by OTLP over HTTP, to the receiver of the environment, and without a receiver nothing is disturbed."""

from pathlib import Path

import pytest

from teamwright.protocol.errors import CannotStart
from teamwright.protocol.trace_context import parse_traceparent, tool_traceparent
from teamwright.telemetry.otlp import OtlpAddress, content_of, otlp_address, resource_attributes
from tests.telemetry.receiver import attributes, otlp_receiver
from tests.telemetry.test_spans import log

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the extra otel is not installed")

__all__ = ["log"]


def exported(log: Path, env: dict[str, str]) -> list[tuple[int, bool]]:
    from teamwright.telemetry.follower import export_log
    from teamwright.telemetry.otlp import SpanExporter

    exporter = SpanExporter(env, "0.1.0")
    try:
        return list(export_log(log, "a-session", exporter, content_of(env)))
    finally:
        exporter.close()


@pytest.mark.finding("S5")
async def test_a_real_receiver_gets_the_tree_with_its_attributes_and_a_length_of_the_body(log):
    with otlp_receiver() as receiver:
        env = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
            "OTEL_EXPORTER_OTLP_HEADERS": "x-team=a%20b",
            "OTEL_SERVICE_NAME": "our agents",
        }
        [(count, received)] = exported(log, env)
        assert received and count == len(receiver.spans)
        [headers] = receiver.headers
        assert int(headers["content-length"]) > 0 and headers["x-team"] == "a b"
        assert attributes(receiver.resources[0])["service.name"] == "our agents"
        [tool] = receiver.named("execute_tool Bash")
        assert attributes(tool)["gen_ai.tool.name"] == "Bash" and "gen_ai.tool.call.arguments" not in attributes(tool)
        assert tool.end_time_unix_nano > tool.start_time_unix_nano
        [root] = receiver.named("session")
        assert "teamwright.cut_off" not in attributes(root), "its process ended in order"
        assert {span.trace_id for span in receiver.spans} == {root.trace_id}


@pytest.mark.finding("S5")
async def test_a_receiver_that_refuses_is_reported_and_nothing_is_raised(log):
    with otlp_receiver(status=400) as receiver:
        assert exported(log, {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url})[0][1] is False


def test_the_address_is_that_of_the_usual_variables():
    assert otlp_address({}, "traces") == OtlpAddress("http://localhost:4318/v1/traces")
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": "https://me:word@host:1/base/?k=1", "OTEL_EXPORTER_OTLP_TIMEOUT": "2"}
    assert otlp_address(env | {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://m:2/x"}, "metrics").url == "http://m:2/x"
    assert "word" not in otlp_address({"OTEL_EXPORTER_OTLP_ENDPOINT": "https://me:word@host:1"}, "traces").shown
    assert resource_attributes({"OTEL_RESOURCE_ATTRIBUTES": "a=1,b=x%20y"}, "3")["b"] == "x y"
    for bad in ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, {"OTEL_EXPORTER_OTLP_ENDPOINT": "collector"}):
        with pytest.raises(CannotStart, match=next(iter(bad))):
            otlp_address(bad, "traces")
    for name, value in (
        ("TIMEOUT", "soon"),
        ("TIMEOUT", "nan"),
        ("TIMEOUT", "-1"),
        ("COMPRESSION", "brotli"),
        ("ENDPOINT", "http://host:port"),
        ("ENDPOINT", "http://[::1"),
        ("ENDPOINT", "me:word@host"),
    ):
        with pytest.raises(CannotStart, match=name) as refused:
            otlp_address({f"OTEL_EXPORTER_OTLP_{name}": value}, "traces")
        assert "word" not in str(refused.value)


def test_a_command_is_given_the_span_of_its_call_in_the_callers_trace():
    text = tool_traceparent("a-session", "toolu_1")
    id = parse_traceparent(text)
    assert id is not None and str(id) == text == tool_traceparent("a-session", "toolu_1")
    caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    assert tool_traceparent("a-session", "toolu_1", caller)[:35] == caller[:35]
    assert parse_traceparent("00-0-0-0") is None and parse_traceparent(f"00-{'0' * 32}-{'0' * 16}-01") is None
