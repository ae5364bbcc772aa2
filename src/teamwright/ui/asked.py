"""Requests in few words, the same on every face: what is asked, how another terminal answers it, what became of it.

Text of others is cleaned. Pure; knows events.
"""

from __future__ import annotations

import shlex

from teamwright.protocol.events import RequestClosed, RequestOpened
from teamwright.ui.terminal.text import one_line

_BY = {
    "terminal": "at its terminal",
    "another terminal": "from another terminal",
    "program": "by the program",
    "hook": "by a hook",
    "lead": "by the lead",
    "policy": "by policy",
    "deadline": "at its deadline",
}
"""Who answered a request, in words."""

_SHORTEST = 5
"""Letters that the last part of an id has at least, to stand for the whole."""


def asked_for(kind: str, tool: str, what: str) -> str:
    """What is asked, on one line: the tool and the first line of its command, or of the question or plan."""
    first = one_line(what.strip().split("\n", 1)[0])
    return first if kind == "question" else f"{one_line(tool)} {first}".strip()


def short_id(request: str) -> str:
    """The part of a request's id that is enough to name it."""
    tail = request.rpartition("-")[2]
    return tail if len(tail) >= _SHORTEST else request


def answer_command(request: str, kind: str) -> str:
    """What is typed in any terminal to say yes."""
    answer = " --answer TEXT" if kind == "question" else ""
    return f"teamwright requests allow {shlex.quote(short_id(one_line(request)))}{answer}"


def deny_command(request: str) -> str:
    """What is typed in any terminal to say no."""
    return f"teamwright requests deny {shlex.quote(short_id(one_line(request)))} --reason TEXT"


def opened_words(event: RequestOpened) -> str:
    """Who asks for what, without the name."""
    asked = asked_for(event.kind, event.tool, event.what)
    return f"asks for approval: {asked}" if event.kind == "plan" else f"asks: {asked}"


def closed_words(event: RequestClosed) -> str:
    """What became of a request, and who said so."""
    if event.by == "cancelled":
        return "no longer asks"
    verdict = {"allow": "allowed", "deny": "denied"}.get(event.verdict, event.verdict)
    return f"{verdict} {_BY.get(event.by) or f'by {one_line(event.by)}'}"
