"""The settings that the HTTP clients of several packages share: their log lines, and the certificates."""

from __future__ import annotations

import logging
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


@cache
def environment_certificates() -> ssl.SSLContext:
    """Return the certificates of the environment. Reading them for each request would block all agents."""
    import httpx2

    return httpx2.create_ssl_context()
