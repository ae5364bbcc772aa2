"""Construction of a `Prefix`: the fields of a request, in their order.

Sets the cache breakpoints of the prefix (the last system block and the last tool that other agents share);
`providers.messages` sets those of the conversation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from teamwright.models.effort import Effort, prefix_effort, supported_effort
from teamwright.models.model import ModelCard, Prefix
from teamwright.models.model_settings import ModelSettings, Thinking
from teamwright.models.names import thinking_field
from teamwright.protocol.messages import Block

MAX_OUTPUT = 32_000
"""The default maximum of output tokens in a request."""
_MARK = {"cache_control": {"type": "ephemeral"}}


SMALL_WINDOW = 16_384
"""Tokens of a window below which an eighth of it, not a quarter, is reserved for an answer: the tools need most of
it.
"""


_MAX_TOKENS = re.compile(rb'"max_tokens":([0-9]+)')
_THINKING_BUDGET = re.compile(rb'"thinking":\{[^{}]*"budget_tokens":([0-9]+)')


class SharedPrefix(Struct, frozen=True):
    """The number of first system blocks and tools that other agents share; None: all of them."""

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
    """Return the fields of a request except its messages, in the order in which they are sent.

    A cache breakpoint is set after the shared blocks and after the shared tools.

    `effort` is one that the model documents; a budget of thinking is added to the longest answer.
    """
    # A service that adds both up refuses a prompt whose answer could not fit: reserve a part of the window for it.
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
    return fields | _effort_fields(card, settings.thinking, effort) | dict(card.sampling)


def _effort_fields(card: ModelCard, thinking: Thinking, effort: Effort | None) -> dict[str, Any]:
    """Return the fields `thinking` and `output_config` of a request, in the canonical form of the Messages API."""
    if isinstance(effort, int):
        return {"thinking": {"type": "enabled", "budget_tokens": effort}}
    fields: dict[str, Any] = {}
    if (thinking_value := thinking_field(card, thinking)) is not None:
        fields["thinking"] = thinking_value
    if effort is not None:
        fields["output_config"] = {"effort": effort}
    return fields


def build_prefix(
    card: ModelCard,
    settings: ModelSettings,
    system: Sequence[Block],
    tools: Sequence[Mapping[str, Any]],
    *,
    effort: Effort | None = None,
    shared: SharedPrefix = ALL_SHARED,
) -> Prefix:
    """Return a new prefix for a model: fields and betas, serialised once."""
    fields = request_fields(card, settings, system, tools, effort=effort, shared=shared)
    return Prefix.build(fields, settings.betas)


def prefix_for_model(
    prefix: Prefix, card: ModelCard, settings: ModelSettings, *, effort: Effort | None = None
) -> Prefix:
    """Return the same texts and tools for another model, with which the conversation continues.

    Its effort is `effort`, else the previous one, where the model documents that.
    """
    fields: dict[str, Any] = json.loads(b"{" + prefix.head + b"}")
    (system, blocks), (tools, named) = (
        _without_breakpoints(fields.get("system", ())),
        _without_breakpoints(fields.get("tools", ())),
    )
    new_effort = supported_effort(card, prefix_effort(prefix)) if effort is None else effort
    return build_prefix(card, settings, system, tools, effort=new_effort, shared=SharedPrefix(blocks, named))


def without_tools(prefix: Prefix, names: Collection[str]) -> Prefix:
    """Return the same prefix without the tools of these names. The last tool left keeps a cache breakpoint."""
    fields: dict[str, Any] = json.loads(b"{" + prefix.head + b"}")
    tools: list[dict[str, Any]] = fields.get("tools", [])
    left = [tool for tool in tools if tool["name"] not in names]
    if left and any("cache_control" in tool for tool in tools) and not any("cache_control" in tool for tool in left):
        left[-1] = {**left[-1], **_MARK}
    fields["tools"] = left
    if not left:
        fields = {name: value for name, value in fields.items() if name not in ("tools", "tool_choice")}
    return Prefix.build(fields, prefix.betas)


def with_answer_limit(prefix: Prefix, tokens: int) -> Prefix:
    """Return the same prefix for answers of at most so many tokens, besides a budget of thinking.

    System prompt and tools are the same bytes, so a service finds them in its cache.
    """
    budgets = _THINKING_BUDGET.findall(prefix.end or prefix.start)
    most = tokens + (int(budgets[-1]) if budgets else 0)
    start = _MAX_TOKENS.sub(lambda found: b'"max_tokens":%d' % min(int(found[1]), most), prefix.start, count=1)
    return replace(prefix, start=start)


def tool_names(prefix: Prefix) -> tuple[str, ...]:
    """Return the names of the tools in a prefix, in order."""
    fields: dict[str, Any] = json.loads(b"{" + prefix.head + b"}")
    return tuple(str(tool["name"]) for tool in fields.get("tools", ()))


def _with_breakpoints(parts: Sequence[Mapping[str, Any]], shared: int | None, *, caching: bool) -> list[dict[str, Any]]:
    """Return copies of the parts, with a cache breakpoint after the shared ones."""
    copies = [dict(part) for part in parts]
    if caching:
        last = (shared or len(copies)) - 1
        copies[last] = {**copies[last], **_MARK}
    return copies


def _without_breakpoints(parts: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], int | None]:
    """Return copies of the parts without their breakpoint, and the number of parts before it; None without one."""
    shared = next((number for number, part in enumerate(parts, 1) if "cache_control" in part), None)
    return [{key: value for key, value in part.items() if key not in _MARK} for part in parts], shared
