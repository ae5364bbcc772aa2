"""What can go wrong with a server, as its callers see it.

McpServerError       it did not do what was asked: late, gone, over a bound; `dead` says that it is of no use any more
└── Refused         it answered with an error of the protocol; it goes on

Texts are one line, without values that the server was given as secrets.
"""

from __future__ import annotations

UNSUPPORTED_VERSION = -32022
"""The code of a server that speaks other versions of the protocol."""

METHOD_NOT_FOUND = -32601


class McpServerError(Exception):
    """A server failed. `what` is one line that goes on a sentence about it ("db <what>")."""

    def __init__(self, what: str, *, dead: bool = False) -> None:
        super().__init__(what)
        self.what = what
        self.is_dead = dead


class McpRequestError(McpServerError):
    """The server answered a request with an error: its code and its words, bounded."""

    def __init__(self, code: int, message: str) -> None:
        message = plain_line(message, 2_000) or "nothing more"
        super().__init__(f"answered with error {code}: {message}")
        self.code = code
        self.message = message


def plain_line(text: str, most: int = 300) -> str:
    """Words of a stranger on one line: no line ends, nothing that moves a cursor, bounded."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * most]).split())
    return line if len(line) <= most else line[: most - 1] + "…"
