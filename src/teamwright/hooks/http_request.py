"""The request of a hook of the type `http`: the payload goes to an address, whose answer is read as a command's output.

A failed request is an error of the hook. No error names the path, the query or a header of the address, because each
may be a secret.
"""

from __future__ import annotations

from collections.abc import Mapping

import httpx2

from teamwright.hooks.hook_actions import HttpRequest
from teamwright.hooks.hook_outcome import NO_OUTCOME, HookOutcome, read_outcome
from teamwright.processes.http import environment_certificates, hide_http_logs

MAX_BYTES = 200_000
"""Bytes of an answer that are read."""


async def send_request(
    event: str, request: HttpRequest, content: bytes, env: Mapping[str, str], timeout_s: float
) -> HookOutcome:
    """Return the outcome of one request with this body. `env` has the variables for headers.

    Redirects are not followed: headers may contain a secret. Never raises but for a cancellation.
    """
    # A few compressed bytes may be gigabytes.
    headers = {"Content-Type": "application/json", **request.filled_headers(env), "Accept-Encoding": "identity"}
    try:
        hide_http_logs()
        certificates = environment_certificates()
        async with httpx2.AsyncClient(verify=certificates, timeout=timeout_s, follow_redirects=False) as client:
            problem, body = await _post(client, request.url, content, headers)
    except httpx2.TimeoutException:
        return HookOutcome(problem=f"the address gave no answer in {timeout_s:g} s")
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError, ImportError) as failure:
        return HookOutcome(problem=f"the address cannot be reached: {type(failure).__name__}")
    text = body.decode("utf-8", "replace").strip()
    if not text and not problem:
        return NO_OUTCOME
    if problem or not text.startswith("{"):
        return HookOutcome(problem=f"the address answered {problem or 'no JSON object'}")
    return read_outcome(event, 0, text, "")


async def _post(client: httpx2.AsyncClient, url: str, content: bytes, headers: Mapping[str, str]) -> tuple[str, bytes]:
    """Return what is wrong with the answer, or an empty text, and its body."""
    body = b""
    async with client.stream("POST", url, content=content, headers=headers) as answer:
        if not answer.is_success:
            return str(answer.status_code), b""
        if answer.headers.get("content-encoding", "identity").lower() not in {"", "identity"}:
            return "in a compressed form, which it was asked not to use", b""
        async for chunk in answer.aiter_raw():
            body += chunk
            if len(body) > MAX_BYTES:
                return f"more than {MAX_BYTES:,} bytes", b""
    return "", body
