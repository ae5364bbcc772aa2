"""What all looking commands share: `--json`, and times as people read them.

Knows click and clocks.
"""

from __future__ import annotations

import time
from datetime import datetime

import click

from teamwright.app.cost_line import duration

json_flag = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
"""`--json`, for every command that looks."""


def ago(seconds_since_1970: float) -> str:
    """How long ago, for people; empty for a time that is not known."""
    return f"{duration(max(time.time() - seconds_since_1970, 0))} ago" if seconds_since_1970 else ""


def clock(seconds_since_1970: float) -> str:
    """The local time of day, `14:03:59`."""
    return datetime.fromtimestamp(seconds_since_1970).strftime("%H:%M:%S")


def moment(seconds_since_1970: float) -> str:
    """The local date and time, `2026-11-20 14:03:59`."""
    return datetime.fromtimestamp(seconds_since_1970).strftime("%Y-%m-%d %H:%M:%S")


def local(iso: str) -> str:
    """A written time (ISO 8601) as local date and time; as it stands when it is not one."""
    try:
        return moment(datetime.fromisoformat(iso).timestamp())
    except (ValueError, OverflowError, OSError):
        return iso
