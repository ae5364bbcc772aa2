"""The report of a live check, which people can send: JSON, and the same as text.

It has no key and no part of one, no address but the public one of a provider, no path, host or user of this machine,
and nothing that anybody wrote: the texts of errors pass the redactor of bug reports. Files are never overwritten.
"""

from __future__ import annotations

import os
import re
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import teamwright
from teamwright.protocol.errors import StorageError, UsageError
from teamwright.protocol.secret_texts import mask
from teamwright.protocol.usage import Usage
from teamwright.session.command_start import platform_name
from teamwright.views.bug_report import Redactor
from teamwright.views.live_check_plan import LiveCheckPlan
from teamwright.views.model_live_check import LiveCheck

OWN_ADDRESS = "an address of your own"
"""The replacement for an address that is not the provider's public one."""


def report_json(plan: LiveCheckPlan, trial: LiveCheck, env: Mapping[str, str]) -> dict[str, Any]:
    """Return the report as a JSON object."""
    redactor = Redactor(env, tuple(filter(None, (plan.endpoint.credential, *(v for _, v in plan.endpoint.extra)))))
    return {
        "ok": trial.ok,
        "teamwright": teamwright.__version__,
        "python": sys.version.split()[0],
        "platform": platform_name(),
        "day": time.strftime("%Y-%m-%d", time.gmtime()),
        "model": plan.card.name,
        "api": plan.endpoint.api,
        "address": plan.endpoint.display_address if plan.has_public_address else OWN_ADDRESS,
        "key": plan.endpoint.key_name if plan.endpoint.has_key else "",
        "ceiling": _usage_json(plan.ceiling),
        "checks": [
            {
                "label": check.label,
                "state": check.state,
                "value": _without_places(redactor.text(check.value), plan, env),
                "do": _without_places(redactor.text(check.do), plan, env),
            }
            for check in trial.checks
        ],
        "usage": _usage_json(trial.usage),
    }


def report_text(report: Mapping[str, Any]) -> str:
    """Return the same report as text for people."""
    facts = [f"{name:<12} {report[name]}" for name in ("model", "api", "address", "key", "day")]
    versions = f"{'versions':<12} teamwright {report['teamwright']}, Python {report['python']}, {report['platform']}"
    lines = ["Live check of a model", "", *facts, versions, ""]
    for check in cast("list[Mapping[str, str]]", report["checks"]):
        lines.append(f"{check['label']:<12} {check['state']}" + (f": {check['value']}" if check["value"] else ""))
    return "\n".join(
        [
            *lines,
            "",
            f"{'ceiling':<12} {usage_text(report['ceiling'])}",
            f"{'used':<12} {usage_text(report['usage'])}",
            "",
        ]
    )


def usage_text(usage: Mapping[str, Any]) -> str:
    """Return tokens and money for people."""
    tokens = f"{usage['prompt_tokens']:,} tokens in, {usage['output_tokens']:,} out"
    usd = usage["usd"]
    return f"{tokens}, " + ("at an unknown price" if usd is None else "free" if usd == 0 else f"{usd:.4f} USD")


def save_report(path: Path, text: str) -> None:
    """Write a report with mode 0600. Raises UsageError for an existing file, StorageError."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        raise UsageError(
            "usage", f"{path} is there already", do=["name another file"], note="nothing was sent"
        ) from None
    except OSError as problem:
        raise StorageError("io-failed", f"{path} cannot be written: {problem.strerror}") from problem
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(text)


def _usage_json(usage: Usage) -> dict[str, Any]:
    return {
        "requests": usage.requests,
        "prompt_tokens": usage.prompt_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read": usage.cache_read,
        "cache_write": usage.cache_write,
        "usd": usage.usd,
    }


def _without_places(text: str, plan: LiveCheckPlan, env: Mapping[str, str]) -> str:
    """Return a redacted text without what is left of the key, the address of a user's server, machine and user."""
    endpoint = plan.endpoint
    text = text.replace(mask(endpoint.credential), "…")
    parts = urlsplit(endpoint.base_url)
    own = (endpoint.base_url, endpoint.display_address, parts.netloc, parts.hostname or "")
    for place in () if plan.has_public_address else own:
        text = text.replace(place, OWN_ADDRESS) if place else text
    for name in filter(None, (socket.gethostname(), env.get("USER"))):
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "…", text)
    return text
