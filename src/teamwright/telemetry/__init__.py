"""OpenTelemetry: spans and metrics of a session, built from its event log after the fact. Off unless a person sets it.

Nothing here is loaded by a session without it. The extra `otel` has the SDK and the exporter.
"""
