"""Ids of traces and spans, derived from the ids of a session and of what happened in it.

A process, a resume and a later export compute the same ids without sharing anything, so nothing is exported twice under
two names, and a command can be given its parent's id before the span exists. Format of `TRACEPARENT`:
https://www.w3.org/TR/trace-context/#traceparent-header.
"""

from __future__ import annotations

import hashlib
import re

from msgspec import Struct

TRACEPARENT = "TRACEPARENT"
"""The variable in which a program receives the span that called it."""

_FORMAT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")


class SpanId(Struct, frozen=True):
    """A span by the ids of its trace and of itself."""

    trace: int
    span: int

    def __str__(self) -> str:
        """Return the value of `TRACEPARENT` for a child of this span."""
        return f"00-{self.trace:032x}-{self.span:016x}-01"


def parse_traceparent(text: str) -> SpanId | None:
    """Return the span that a value of `TRACEPARENT` names; None for another text and for ids of zeros."""
    found = _FORMAT.fullmatch(text.strip())
    if found is None:
        return None
    id = SpanId(int(found[1], 16), int(found[2], 16))
    return id if id.trace and id.span else None


def trace_of(session: str, traceparent: str = "") -> int:
    """Return the trace of a session: that of the program which started it, if it named one, else its own."""
    caller = parse_traceparent(traceparent)
    return _hash(16, "trace", session) if caller is None else caller.trace


def span_of(session: str, kind: str, *keys: object) -> int:
    """Return the id of a span of this kind and key in a session."""
    return _hash(8, kind, session, *keys)


def tool_traceparent(session: str, use: str, traceparent: str = "") -> str:
    """Return the value of `TRACEPARENT` for what a tool call runs. `use` is the model's id of the call."""
    return str(SpanId(trace_of(session, traceparent), span_of(session, "tool", use)))


def _hash(size: int, *parts: object) -> int:
    digest = hashlib.blake2b("\0".join(map(str, parts)).encode(), digest_size=size).digest()
    return int.from_bytes(digest) or 1
