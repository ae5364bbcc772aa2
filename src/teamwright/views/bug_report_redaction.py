"""Redaction of settings, events and crash files, by lists of allowed keys.

A text without an allowed key is replaced by its length. The remaining texts pass `Redactor.text`, which masks secrets
and shortens the user's home. Depends on the keys of formats; opens no file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from msgspec import Struct

from teamwright.session.platform_check import mask_secrets

SHOWN_SETTINGS = frozenset(
    {
        *("model", "effort", "permissions.defaultMode", "plan_approval", "members.backend", "members.pane_layout"),
        *("unattended_requests", "thinking", "cache_hour", "bash.shell"),
    }
)
"""Settings whose text is shown: names of Teamwright, of models and of shells."""

RULES = frozenset({"permissions.allow", "permissions.ask", "permissions.deny"})

SHOWN_IN_EVENTS = frozenset(
    {
        *(
            "type",
            "member",
            "agent",
            "to",
            "call",
            "tool",
            "tools",
            "outcome",
            "stop",
            "state",
            "kind",
            "change",
            "mode",
        ),
        *("by", "verdict", "model", "effort", "wire", "limit", "level", "trigger", "doing", "request", "message_id"),
        *("message_ids", "session", "id", "status", "owner", "blocked_by", "origin", "caller", "use", "team", "aside"),
    }
)
"""Keys of an event whose text is shown when it is a single word."""

_WORD = re.compile(r"[\w.:#@/+-]{1,80}")
_FRAME = re.compile(r'\s*File "[^"]+", line \d+, in \S+|\s*\+?-+\s*|.*\(most recent call last\):|\s*[~^]+\s*')
_HEAD = re.compile(r"(teamwright|python|platform|flags) ")
_ERROR = re.compile(r"([A-Za-z_][\w.]*)(?:: (.*))?")
_IN_URL = re.compile(r"(?<=://)[^/\s@]+@")


class Redactor(Struct, frozen=True):
    """A redactor. `env` is the environment with the known secrets; `hidden` are further texts to mask."""

    env: Mapping[str, str]
    hidden: tuple[str, ...] = ()

    def text(self, text: str) -> str:
        """Return the text without secrets, and with `~` for the user's home."""
        for secret in sorted(self.hidden, key=len, reverse=True):
            text = text.replace(secret, "…")
        home = self.env.get("HOME") or os.path.expanduser("~")
        text = text.replace(home, "~") if len(home) > 1 else text
        return _IN_URL.sub("…@", mask_secrets(text, self.env))

    def setting(self, name: str, value: Any) -> Any:
        """Redact a setting: numbers and switches are kept, allowed texts too; others are replaced by their length."""
        if isinstance(value, bool | int | float) or value is None:
            return value
        if isinstance(value, str):
            return self.text(value) if name in SHOWN_SETTINGS else left_out(value)
        if name in RULES and isinstance(value, list):
            return [_rule(rule) for rule in cast("list[Any]", value)]
        return f"{len(cast('list[Any]', value))} entries, left out" if isinstance(value, list | dict) else "left out"

    def event(self, raw: Any, key: str = "type") -> Any:
        """Redact an event, or a part of one: numbers and single words are kept, other texts are replaced by their
        length.
        """
        if isinstance(raw, dict):
            rows = cast("dict[str, Any]", raw)
            if key in ("input", "facts"):
                return f"{len(rows)} entries, left out"
            return {str(name): self.event(value, str(name)) for name, value in rows.items() if _WORD.fullmatch(name)}
        if isinstance(raw, list):
            return [self.event(value, key) for value in cast("list[Any]", raw)]
        if isinstance(raw, str):
            return self.text(raw) if key in SHOWN_IN_EVENTS and (not raw or _WORD.fullmatch(raw)) else left_out(raw)
        return raw

    def crash(self, text: str) -> str:
        """Redact a crash file: versions, flags, files and line numbers are kept; error texts and code lines are
        removed.
        """
        remaining_lines: list[str] = []
        for line in text.splitlines():
            if _HEAD.match(line) or _FRAME.fullmatch(line):
                remaining_lines.append(line)
            elif line and not line[0].isspace() and (found := _ERROR.fullmatch(line)):
                remaining_lines.append(found[1] + (f": {left_out(found[2])}" if found[2] else ""))
        return self.text("\n".join(remaining_lines) + "\n")


def left_out(text: str) -> str:
    """Return the replacement of a text."""
    return f"({len(text):,} characters left out)" if text else ""


def secrets_in(values: Iterable[Any]) -> tuple[str, ...]:
    """Return the texts under `env` or `headers` anywhere in settings, which are never shown."""
    found: list[str] = []
    for value in values:
        found += _under(value, secret=False)
    return tuple(dict.fromkeys(text for text in found if len(text) >= 4))


def _under(value: Any, *, secret: bool) -> list[str]:
    if isinstance(value, dict):
        rows = cast("dict[str, Any]", value)
        return [t for key, one in rows.items() for t in _under(one, secret=secret or key in ("env", "headers"))]
    if isinstance(value, list):
        return [text for one in cast("list[Any]", value) for text in _under(one, secret=secret)]
    return [value] if secret and isinstance(value, str) else []


def _rule(rule: Any) -> str:
    name, inside, _ = str(rule).partition("(")
    return (name if _WORD.fullmatch(name) else left_out(name)) + ("(…)" if inside else "")
