"""The one place where the fields of a request are put in order: what a `Prefix` is built from.

Cache breakpoints of the prefix are set here (the last system block and the last tool that other agents have too), those
of the conversation in `wire`. Knows what a model documents; does not know what the texts say.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from teamwright.models.effort import Effort, effort_fields, prefix_effort, supported_effort
from teamwright.models.model import ModelCard, Prefix
from teamwright.models.model_settings import ModelSettings
from teamwright.protocol.messages import Block
from teamwright.protocol.values import dataclass

MAX_OUTPUT = 32_000
"""Output tokens that we ask for at most, unless the user's settings say otherwise."""
_MARK = {"cache_control": {"type": "ephemeral"}}


SMALL_WINDOW = 16_384
"""A smaller window, in tokens, keeps an eighth of itself for an answer and not a quarter: the tools need most of it."""


@dataclass(frozen=True, slots=True)
class SharedPrefix:
    """How many of the first system blocks and tools other agents have too; None: all of them."""

    blocks: int | None = None
    tools: int | None = None


ALL_SHARED = SharedPrefix()


def request_fields(
    card: ModelCard,
    settings: ModelSettings,
    system: Sequence[Block],
    tools: Sequence[Mapping[str, Any]],
    *,
    effort: Effort | None = None,
    shared: SharedPrefix = ALL_SHARED,
) -> dict[str, Any]:
    """The fields of a request but its messages, in the order in which they are sent.

    A cache breakpoint is set after the shared blocks and after the shared tools.

    `effort` is one that the model documents; a budget of thinking comes on top of the longest answer.
    """
    # A service that adds both up refuses a prompt whose answer could not fit: a part of the window is kept for it.
    part = 4 if card.context_tokens >= SMALL_WINDOW else 8
    most = settings.max_output_tokens or min(card.max_output_tokens, MAX_OUTPUT, card.context_tokens // part)
    most += effort if isinstance(effort, int) else 0
    fields: dict[str, Any] = {"model": card.wire, "max_tokens": min(most, card.max_output_tokens)}
    if system:
        fields["system"] = _with_breakpoints(system, shared.blocks, caching=card.caching)
    if tools and card.tools:
        fields["tools"] = _with_breakpoints(tools, shared.tools, caching=card.caching)
        if not card.parallel:
            fields["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": True}
    return fields | effort_fields(card, settings.thinking, effort) | dict(card.sampling)


def build_prefix(
    card: ModelCard,
    settings: ModelSettings,
    system: Sequence[Block],
    tools: Sequence[Mapping[str, Any]],
    *,
    effort: Effort | None = None,
    shared: SharedPrefix = ALL_SHARED,
) -> Prefix:
    """A new prefix for a model: fields and betas, serialised once."""
    fields = request_fields(card, settings, system, tools, effort=effort, shared=shared)
    return Prefix.build(fields, settings.betas)


def prefix_for_model(
    prefix: Prefix, card: ModelCard, settings: ModelSettings, *, effort: Effort | None = None
) -> Prefix:
    """The same words and tools for another model: a conversation goes on with one that it did not begin with.

    Its effort is `effort`, else what it was, where the model documents that.
    """
    fields: dict[str, Any] = json.loads(b"{" + prefix.head + b"}")
    (system, blocks), (tools, named) = (
        _without_breakpoints(fields.get("system", ())),
        _without_breakpoints(fields.get("tools", ())),
    )
    said = supported_effort(card, prefix_effort(prefix)) if effort is None else effort
    return build_prefix(card, settings, system, tools, effort=said, shared=SharedPrefix(blocks, named))


def tool_names(prefix: Prefix) -> tuple[str, ...]:
    """The names of the tools in a prefix, in order."""
    fields: dict[str, Any] = json.loads(b"{" + prefix.head + b"}")
    return tuple(str(tool["name"]) for tool in fields.get("tools", ()))


def _with_breakpoints(parts: Sequence[Mapping[str, Any]], shared: int | None, *, caching: bool) -> list[dict[str, Any]]:
    """Copies of the parts, with a cache breakpoint after the shared ones."""
    copies = [dict(part) for part in parts]
    if caching:
        last = (shared or len(copies)) - 1
        copies[last] = {**copies[last], **_MARK}
    return copies


def _without_breakpoints(parts: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], int | None]:
    """Copies of the parts without their breakpoint, and how many parts are before it; None without one."""
    shared = next((number for number, part in enumerate(parts, 1) if "cache_control" in part), None)
    return [{key: value for key, value in part.items() if key not in _MARK} for part in parts], shared
