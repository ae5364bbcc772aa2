"""Refusals of the sandbox, as far as the output of a command shows them: writes, reads and connections.

A program reports a refusal in its own text, so this reads the texts of the C library, Python and Node.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from teamwright.sandbox.policy import NetworkAccess, PolicyName, SandboxPolicy, is_inside

_READ_ONLY = re.compile(
    r"(?P<before>[^\n]*)(?:Read-only file system|read-only file system|Device or resource busy)(?P<after>[^\n]*)"
)
_PATH = re.compile(r"(?:'|\"|‘|^|\s|:)(?P<path>~?/[^'\"’\n:]+|[\w.][^'\"’\n:\s]*/[^'\"’\n:\s]+)")
_NETWORK = re.compile(
    r"Network is unreachable|ENETUNREACH|Could not resolve host:? ?(?P<host>[\w.-]*)"
    r"|Temporary failure in name resolution|Name or service not known|EAI_AGAIN"
    r"|failed to lookup address|dial tcp: lookup (?P<other>[\w.-]+)"
)
_SOCKET = re.compile(
    r"(?:docker daemon|docker\.sock|Failed to connect to (?:bus|user scope bus)|agent refused operation)"
)
_MAX = 3


class Violation(Struct, frozen=True):
    """A refusal: `act` is write, read or connect; `target` is the path or host, empty where it is unknown."""

    act: str
    target: str = ""

    def __str__(self) -> str:
        what = self.target or "the network" if self.act == "connect" else self.target or "a file"
        return f"to connect to {what}" if self.act == "connect" else f"to {self.act} {what}"


def find_violations(policy: SandboxPolicy, output: str, cwd: str) -> list[Violation]:
    """Return the refusals that an output shows, each once, at most a few."""
    found: dict[Violation, None] = {}
    for violation in _all_violations(policy, output, cwd):
        found[violation] = None
        if len(found) == _MAX:
            break
    return list(found)


def _all_violations(policy: SandboxPolicy, output: str, cwd: str) -> Iterator[Violation]:
    for line in _READ_ONLY.finditer(output):
        yield Violation("write", _path_in(line["before"]) or _path_in(line["after"]))
    if policy.network is not NetworkAccess.ALLOW:
        for found in _NETWORK.finditer(output):
            yield Violation("connect", (found["host"] or found["other"] or "").strip("."))
    for found in _SOCKET.finditer(output):
        yield Violation("connect", found[0])
    for path in sorted(policy.hidden):
        if path in output and not is_inside(cwd, path):
            yield Violation("read", path)


def _path_in(text: str) -> str:
    paths = [found["path"].strip() for found in _PATH.finditer(text)]
    return paths[-1] if paths else ""


def violations_note(policy: SandboxPolicy, violations: list[Violation]) -> str:
    """Return the lines for the result: what was refused, and what a person can do to allow it."""
    if not violations:
        return ""
    refused = "; ".join(map(str, violations))
    if policy.name is PolicyName.READ:
        advice = "The command was allowed because it only reads. For more, call it in a form that asks."
    elif any(violation.act == "write" for violation in violations):
        advice = "The user can allow the path with the setting sandbox.write, or the command with a rule Unconfined(…)."
    elif any(violation.act == "connect" for violation in violations):
        advice = "The user can allow it with the setting sandbox.network, or the command with a rule Unconfined(…)."
    else:
        advice = "The user can allow the command with a rule Unconfined(…)."
    return f"[The sandbox (policy {policy.name}) refused {refused}. {advice}]"
