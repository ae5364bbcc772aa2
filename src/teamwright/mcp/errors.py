"""Errors of MCP servers.

McpServerError       the server failed: late, gone, over a bound; `is_dead`: it cannot be used any more
└── McpRequestError  the server answered with an error of the protocol; it stays usable

Texts are one line, without values that the server was given as secrets.
"""

from __future__ import annotations

UNSUPPORTED_VERSION = -32022
"""The code of a server that supports other versions of the protocol."""

METHOD_NOT_FOUND = -32601


class McpServerError(Exception):
    """A server failed. `what` is one line that continues a sentence about it ("db <what>")."""

    def __init__(self, what: str, *, dead: bool = False) -> None:
        super().__init__(what)
        self.what = what
        self.is_dead = dead


class McpRequestError(McpServerError):
    """The server answered a request with an error: its code and its text, bounded."""

    def __init__(self, code: int, message: str) -> None:
        message = plain_line(message, 2_000) or "nothing more"
        super().__init__(f"answered with error {code}: {message}")
        self.code = code
        self.message = message


def plain_line(text: str, most: int = 300) -> str:
    """Return text of another program on one bounded line, without line ends and control characters."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * most]).split())
    return line if len(line) <= most else line[: most - 1] + "…"
