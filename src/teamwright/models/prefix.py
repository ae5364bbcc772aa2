"""The one place where the fields of a request are put in order: what a `Prefix` is built from.

Cache breakpoints of the prefix are set here (the last system block, the last tool), those of the conversation in
`wire`. Knows what a model documents; does not know what the texts say.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from teamwright.models.effort import Effort, effort_fields, effort_of, taken
from teamwright.models.model import ModelCard, Prefix
from teamwright.models.settings import ModelSettings
from teamwright.protocol.blocks import Block

OUTPUT_MOST = 32_000
"""Output tokens that we ask for at most, unless the user's settings say otherwise."""
_MARK = {"cache_control": {"type": "ephemeral"}}
_PARTS = ("system", "tools")


def request_fields(
    card: ModelCard,
    settings: ModelSettings,
    system: Sequence[Block],
    tools: Sequence[Mapping[str, Any]],
    *,
    tool_choice: Mapping[str, Any] | None = None,
    effort: Effort | None = None,
) -> dict[str, Any]:
    """The fields of a request but its messages, in the order in which they are sent.

    `effort` is one that the model documents; a budget of thinking comes on top of the longest answer.
    """
    # A service that adds both up refuses a prompt whose answer could not fit: a quarter of the window is kept for it.
    most = settings.max_output_tokens or min(card.max_output_tokens, OUTPUT_MOST, card.context_tokens // 4)
    most += effort if isinstance(effort, int) else 0
    fields: dict[str, Any] = {"model": card.wire, "max_tokens": min(most, card.max_output_tokens)}
    if system:
        fields["system"] = _marked(system, caching=card.caching)
    if tools:
        fields["tools"] = _marked(tools, caching=card.caching)
        if tool_choice is not None:
            fields["tool_choice"] = dict(tool_choice)
    return fields | effort_fields(card, settings.thinking, effort)


def prefix_for(
    card: ModelCard,
    settings: ModelSettings,
    system: Sequence[Block],
    tools: Sequence[Mapping[str, Any]],
    *,
    tool_choice: Mapping[str, Any] | None = None,
    effort: Effort | None = None,
) -> Prefix:
    """A new prefix for a model: fields and betas, serialised once."""
    fields = request_fields(card, settings, system, tools, tool_choice=tool_choice, effort=effort)
    return Prefix.build(fields, settings.betas)


def prefix_moved(prefix: Prefix, card: ModelCard, settings: ModelSettings, *, effort: Effort | None = None) -> Prefix:
    """The same words and tools for another model: a conversation goes on with one that it did not begin with.

    Its effort is `effort`, else what it was, where the model documents that.
    """
    fields: dict[str, Any] = json.loads(b"{" + prefix.head + b"}")
    parts = [[{k: v for k, v in part.items() if k not in _MARK} for part in fields.get(f, ())] for f in _PARTS]
    said = taken(card, effort_of(prefix)) if effort is None else effort
    return prefix_for(card, settings, *parts, tool_choice=fields.get("tool_choice"), effort=said)


def tool_names(prefix: Prefix) -> tuple[str, ...]:
    """The names of the tools in a prefix, in order."""
    fields: dict[str, Any] = json.loads(b"{" + prefix.head + b"}")
    return tuple(str(tool["name"]) for tool in fields.get("tools", ()))


def _marked(parts: Sequence[Mapping[str, Any]], *, caching: bool) -> list[dict[str, Any]]:
    """Copies of the parts, the last one with a cache breakpoint."""
    copies = [dict(part) for part in parts]
    if caching:
        copies[-1] = {**copies[-1], **_MARK}
    return copies
