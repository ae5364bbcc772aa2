"""`teamwright trace`: send the spans of a session to an OpenTelemetry receiver, also long after it ended."""

from __future__ import annotations

import os

import click

from teamwright.ui.cli.output import say
from teamwright.ui.cli.run_location import open_home, run_location
from teamwright.views.log import find_log


@click.command()
@click.argument("name", required=False, metavar="[TEAM or SESSION]")
@click.pass_context
def trace(ctx: click.Context, /, name: str | None) -> int:
    """Send all spans of a team or a session to the receiver of OTEL_EXPORTER_OTLP_ENDPOINT. Newest session by default.

    Spans have the same ids as those of a running session: what was sent before is not there twice.
    """
    from teamwright import __version__
    from teamwright.telemetry.follower import export_log
    from teamwright.telemetry.otlp import SpanExporter, content_of, otlp_address, require_exporter

    place = run_location(ctx)
    found = find_log(open_home(place, name), place.cwd, name)
    require_exporter()
    address = otlp_address(os.environ, "traces")
    exporter = SpanExporter(os.environ, __version__)
    sent = lost = 0
    try:
        for count, received in export_log(found.path, found.session, exporter, content_of(os.environ)):
            sent, lost = (sent + count, lost) if received else (sent, lost + count)
            if not received:
                break
    finally:
        exporter.close()
    if lost:
        say(f"{address.shown} did not take the spans: {sent:,} were sent, the rest was not.")
        say("Check OTEL_EXPORTER_OTLP_ENDPOINT, and that the receiver runs; the session's log keeps everything.")
        return 1
    say(f"{sent:,} span{'' if sent == 1 else 's'} of session {found.session[:8]} sent to {address.shown}")
    return 0
