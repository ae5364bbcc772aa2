"""The settings that the HTTP clients of several packages share: their log lines, and the certificates."""

from __future__ import annotations

import logging
import os
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
