"""Parts of the HTTP clients of several packages: hidden log lines, the certificates, and server-sent events.

Events are parsed as https://html.spec.whatwg.org/multipage/server-sent-events.html says. Lines end at LF, CR LF or CR
only, so that U+2028 inside JSON breaks nothing.
"""

from __future__ import annotations

import logging
import os
import re
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl


def hide_http_logs() -> None:
    """Keep the HTTP client's log lines out of logs: they quote headers and addresses. A level that is set stays."""
    for name in ("httpcore2", "httpx2"):
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.WARNING)


def environment_certificates() -> ssl.SSLContext:
    """Return the certificates that the environment names now. They are read once, because all agents wait for that."""
    names = "SSL_CERT_FILE", "SSL_CERT_DIR", *MORE_CERTIFICATES
    return _read_certificates(*(os.environ.get(name, "") for name in names))


MORE_CERTIFICATES = ("NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""Variables of other programs for certificates of a company's proxy; theirs are trusted too."""


@cache
def _read_certificates(_file: str, _directory: str, *more: str) -> ssl.SSLContext:
    import httpx2

    context = httpx2.create_ssl_context()
    for path in filter(None, more):
        with suppress(OSError):  # as the programs of these variables do; ssl.SSLError is an OSError
            context.load_verify_locations(**({"capath": path} if os.path.isdir(path) else {"cafile": path}))
    return context


_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"


class SseReader:
    """A reader of whole events as (name, data), from chunks of any size. An unfinished event is never returned.

    `held_bytes` is the size of the unfinished event. `last_id` is the id of the last whole event that has one, empty
    without one; `retry_ms` the newest time before a new connection, in milliseconds.
    """

    __slots__ = ("_begun", "_data", "_id", "_name", "_skip_lf", "_tail", "held_bytes", "last_id", "retry_ms")

    def __init__(self) -> None:
        self._begun = False
        self._tail: list[bytes] = []
        self._skip_lf = False
        self._name = b""
        self._id = ""
        self._data: list[bytes] = []
        self.held_bytes = 0
        self.last_id = ""
        self.retry_ms: int | None = None

    def restart(self) -> None:
        """Drop the unfinished event of a connection that broke off: the next one sends the event again, as a whole."""
        self._begun = False
        self._skip_lf = False
        self._name = b""
        self._id = self.last_id
        self._tail.clear()
        self._data.clear()
        self.held_bytes = 0

    def feed(self, chunk: bytes) -> list[tuple[str, bytes]]:
        """Return the events that these bytes complete, in order."""
        if not chunk:
            return []
        if self._skip_lf:
            # The last chunk ended in CR, which ended a line; a following LF belongs to it.
            self._skip_lf = False
            chunk = chunk.removeprefix(b"\n")
        self._skip_lf = chunk.endswith(b"\r")
        *lines, rest = _LINE_END.split(chunk)
        if not lines:
            self._tail.append(rest)
            self.held_bytes += len(rest)
            return []
        if self._tail:
            lines[0] = b"".join((*self._tail, lines[0]))
            self._tail.clear()
        if rest:
            self._tail.append(rest)
        if not self._begun:
            self._begun = True
            lines[0] = lines[0].removeprefix(_BOM)
        events = [event for line in lines if (event := self._line(line)) is not None]
        self.held_bytes = len(rest) + sum(map(len, self._data))
        return events

    def _line(self, line: bytes) -> tuple[str, bytes] | None:
        if not line:
            return self._end()
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value
        elif field == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")
        elif field == b"retry" and value.isdigit() and len(value) < 10:
            self.retry_ms = int(value)
        return None

    def _end(self) -> tuple[str, bytes] | None:
        name = self._name
        data = self._data
        self._name = b""
        self._data = []
        self.last_id = self._id
        return (name.decode("utf-8", "replace"), b"\n".join(data)) if data else None
