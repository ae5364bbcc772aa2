"""One HTTP exchange: a request, the events of its answer, and two timeouts.

The read timeout restarts at each byte, the progress timeout at each event except keep-alives. Leaving the iteration
closes the connection. All failures are raised as `ServiceError`. The only module of the package that uses httpx2.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from teamwright.models.endpoint import Endpoint
from teamwright.models.model_settings import STALL_QUIET_S, STALL_S, ModelSettings
from teamwright.models.providers.api_format import EventReader, OutgoingRequest
from teamwright.models.service_error import (
    ServiceAnswer,
    ServiceError,
    parse_event_error,
    parse_http_error,
    read_request_id,
)
from teamwright.models.tool_call_repair import parse_json
from teamwright.processes.http_client import hide_http_logs
from teamwright.protocol.time_limit import time_limit

if TYPE_CHECKING:
    from httpx2 import AsyncClient, Response

MAX_ERROR_BODY = 64 * 1024
"""Bytes that are read of an error response."""
ENDING_S = 0.25
"""Seconds that a stream may stay open after its answer is complete."""
TRAILING_S = 5.0
"""The same, in seconds, while the usage is still missing."""


class Timeouts(Struct, frozen=True):
    """Limits in seconds."""

    connect_s: float
    read_s: float
    stall_s: float

    @classmethod
    def from_settings(cls, settings: ModelSettings, endpoint: Endpoint) -> Timeouts:
        """Return the limits for an endpoint: longer ones for local servers, and for models that think silently."""
        quiet = endpoint.is_local or endpoint.api != "messages"
        stall = settings.stall_s or (STALL_QUIET_S if quiet else STALL_S)
        read = stall if quiet else min(settings.read_timeout_s, stall)
        return cls(settings.connect_s, read, stall)


def new_client(endpoint: Endpoint, timeouts: Timeouts) -> AsyncClient:
    """Return a client for one endpoint. TLS and the proxy settings are read only where they are needed.

    Raises `ServiceError` for an unusable proxy or unusable certificates in the environment.
    """
    import httpx2

    hide_http_logs()
    try:
        return httpx2.AsyncClient(
            # Without `trust_env` the certificates of the environment must be passed explicitly.
            verify=httpx2.create_ssl_context()
            if endpoint.uses_tls and endpoint.is_on_this_machine
            else not endpoint.is_on_this_machine,
            trust_env=not endpoint.is_on_this_machine,
            follow_redirects=False,
            timeout=httpx2.Timeout(None, connect=timeouts.connect_s, write=timeouts.stall_s),
            limits=httpx2.Limits(max_connections=None, keepalive_expiry=60.0),
        )
    except (ImportError, OSError, ValueError, httpx2.InvalidURL) as problem:
        raise unusable_client_error(problem) from None


def unusable_client_error(problem: Exception) -> ServiceError:
    """Return the error of a client that cannot be created: a SOCKS proxy, certificates, the address of a proxy."""
    if isinstance(problem, ImportError):
        return ServiceError("setup", "a SOCKS proxy (ALL_PROXY, HTTPS_PROXY) needs the package socksio")
    if isinstance(problem, OSError):
        return ServiceError("setup", "the certificates that SSL_CERT_FILE or SSL_CERT_DIR names cannot be read")
    return ServiceError(
        "setup", "the address of the proxy (HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY) cannot be used"
    )


class HttpExchange:
    """One attempt of one request. `request_id` is known once the service has begun to answer."""

    def __init__(self, client: AsyncClient, endpoint: Endpoint, timeouts: Timeouts) -> None:
        self._client = client
        self._endpoint = endpoint
        self._clocks = timeouts
        self._progress_by = 0.0
        self._ending_by = float("inf")
        self.request_id = ""

    async def events(self, outgoing: OutgoingRequest, reader: EventReader) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the events of the answer, decoded, until the stream ends. Raises `ServiceError`."""
        self._progress_by = asyncio.get_running_loop().time() + self._clocks.stall_s
        async with (
            self._open_answer(outgoing) as response,
            aclosing(_payloads(self._chunks(response), reader)) as payloads,
        ):
            async for name, data in payloads:
                event = self._event(name, data)
                if event is not None:
                    yield event

    @asynccontextmanager
    async def _open_answer(self, outgoing: OutgoingRequest) -> AsyncGenerator[Response, None]:
        """Yield the response, once it has begun and is a stream of events."""
        response = await self._send(outgoing)
        try:
            self.request_id = read_request_id(response.headers)
            kind = response.headers.get("content-type", "")
            if response.status_code != 200 or (kind and not kind.startswith(self._endpoint.facts.stream_type)):
                raise await self._not_a_stream(response)
            yield response
        finally:
            await response.aclose()

    def end_soon(self, *, trailing: bool = False) -> None:
        """Stop soon after the complete answer: read the rest of the stream for a moment, to keep the connection.

        `trailing`: the usage is still missing, so wait a little longer.
        """
        self._ending_by = asyncio.get_running_loop().time() + (TRAILING_S if trailing else ENDING_S)

    async def _send(self, outgoing: OutgoingRequest) -> Response:
        import httpx2

        try:
            request = self._client.build_request("POST", outgoing.url, content=outgoing.body, headers=outgoing.headers)
            async with time_limit(self._progress_by - asyncio.get_running_loop().time()):
                return await self._client.send(request, stream=True)
        except TimeoutError:
            raise ServiceError("stalled", "no answer began in time") from None
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError) as error:
            raise ServiceError("connect", _error_text(error)) from None
        except (httpx2.LocalProtocolError, httpx2.UnsupportedProtocol, httpx2.InvalidURL, ValueError):
            # The texts of these errors may quote a header, which contains the key.
            raise ServiceError("strange", "the request cannot be written: look at the address and the key") from None
        except RuntimeError:
            raise ServiceError("broken", "the connections were closed during the request") from None
        except httpx2.HTTPError as error:
            raise ServiceError("broken", _error_text(error)) from None

    async def _chunks(self, response: Response) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of the answer as they arrive, each wait bounded by both timeouts."""
        import httpx2

        loop = asyncio.get_running_loop()
        chunks = response.aiter_bytes()
        while True:
            try:
                left_s = min(self._progress_by, self._ending_by) - loop.time()
                async with time_limit(min(left_s, self._clocks.read_s)):
                    chunk = await anext(chunks)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise ServiceError(
                    "stalled", "nothing came in time", ServiceAnswer(request_id=self.request_id)
                ) from None
            except (httpx2.HTTPError, httpx2.StreamError) as error:
                raise ServiceError("broken", _error_text(error), ServiceAnswer(request_id=self.request_id)) from None
            yield chunk

    def _event(self, name: str, data: bytes) -> dict[str, Any] | None:
        """Return one event, or None for a keep-alive. Every other event is progress."""
        if name == "ping":
            return None
        if name == "error":
            raise parse_event_error(data, self.request_id)
        try:
            event: object = parse_json(data)
        except (ValueError, RecursionError):
            if data.strip() == b"[DONE]":
                return None
            raise ServiceError("broken", "an event is not JSON", ServiceAnswer(request_id=self.request_id)) from None
        if not isinstance(event, dict):
            return None
        known = cast("dict[str, Any]", event)
        if known.get("type") == "ping":
            return None
        if known.get("type") == "error" or (known.get("error") and "type" not in known):
            raise parse_event_error(data, self.request_id)
        self._progress_by = asyncio.get_running_loop().time() + self._clocks.stall_s
        return known

    async def _not_a_stream(self, response: Response) -> ServiceError:
        body = b""
        try:
            async with aclosing(self._chunks(response)) as chunks:
                body = await _first_bytes(chunks)
        except ServiceError:
            pass  # the body is optional: the status is sufficient
        status = response.status_code
        if status != 200 or b'"error"' in body:
            return parse_http_error(status, response.headers, body)
        return ServiceError(
            "strange", "the answer is not an event stream", ServiceAnswer(status, request_id=self.request_id)
        )


async def get_json(
    endpoint: Endpoint, path: str, timeouts: Timeouts, signed: list[tuple[str, str]] | None = None
) -> dict[str, Any]:
    """Return a JSON object of the service, e.g. its list of models. Raises `ServiceError`; does not retry.

    `signed` are the headers, if they differ from the endpoint's.
    """
    import httpx2

    headers = [(name, value) for name, value in signed or endpoint.headers() if name != "content-type"]
    try:
        async with new_client(endpoint, timeouts) as client, time_limit(timeouts.connect_s * 2):
            response = await client.get(endpoint.url(path), headers=headers)
    except TimeoutError:
        raise ServiceError("stalled", "no answer in time") from None
    except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError) as error:
        raise ServiceError("connect", _error_text(error)) from None
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError):
        raise ServiceError("strange", "the request cannot be written, or its answer not read") from None
    if response.status_code != 200:
        raise parse_http_error(response.status_code, response.headers, response.content[:MAX_ERROR_BODY])
    try:
        parsed: object = response.json()
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        raise ServiceError("strange", "the answer is not a JSON object")
    return cast("dict[str, Any]", parsed)


async def _payloads(
    chunks: AsyncGenerator[bytes, None], reader: EventReader
) -> AsyncGenerator[tuple[str, bytes], None]:
    async with aclosing(chunks):
        async for chunk in chunks:
            for payload in reader.feed(chunk):
                yield payload


async def _first_bytes(chunks: AsyncIterator[bytes]) -> bytes:
    body = b""
    async for chunk in chunks:
        body += chunk
        if len(body) >= MAX_ERROR_BODY:
            break
    return body[:MAX_ERROR_BODY]


def _error_text(error: Exception) -> str:
    return str(error) or type(error).__name__
