"""Answers that a service bounds by a JSON schema: by the format of the answer, or by a tool that must be called.

Formats: https://developers.openai.com/api/docs/guides/structured-outputs,
https://ai.google.dev/gemini-api/docs/structured-output, llama.cpp makes a grammar of the schema:
https://github.com/ggml-org/llama.cpp/blob/master/grammars/README.md (seen 2026-11-29). On the Messages API and Converse
the only tool is one that takes the value: servers of all makers know this way.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

from teamwright.models.model import Model, Prefix
from teamwright.protocol.messages import Block, message_text
from teamwright.protocol.portable_schema import portable_schema

ANSWER_TOOL = "StructuredAnswer"
"""The tool that must be called with the value."""

_BY_TOOL = frozenset({"messages", "bedrock"})
_VALUE = "value"
"""The key of a value that is no object: services take objects alone."""


def structured_prefix(model: Model, prefix: Prefix, schema: Mapping[str, Any]) -> Prefix | None:
    """Return the prefix for an answer that fits the schema; None for a model without a service that could bound it.

    It has no other tools, and no thinking, which services refuse together with a forced call.
    """
    from teamwright.models.service_model import ServiceModel

    if not isinstance(model, ServiceModel):
        return None
    fields: dict[str, Any] = json.loads(b"{" + prefix.head + b"}")
    by_tool = model.endpoint.api in _BY_TOOL
    for name in ("tools", "tool_choice", *(("thinking",) if by_tool else ())):
        fields.pop(name, None)
    schema = portable_schema(_as_object(schema))
    if by_tool:
        about = "Give the final answer. Call this once, with the whole value."
        fields["tools"] = [{"name": ANSWER_TOOL, "description": about, "input_schema": schema}]
        fields["tool_choice"] = {"type": "tool", "name": ANSWER_TOOL}
    else:
        output: Mapping[str, Any] = fields.get("output_config") or {}
        fields["output_config"] = {**output, "format": {"type": "json_schema", "schema": schema}}
    return Prefix.build(fields, prefix.betas)


def structured_text(content: Iterable[Block], schema: Mapping[str, Any]) -> str:
    """Return the JSON text of such an answer, as received: a service may have ignored the bound."""
    blocks = list(content)
    call = next((b for b in blocks if b.get("type") == "tool_use" and b.get("name") == ANSWER_TOOL), None)
    text = message_text(blocks) if call is None else json.dumps(call.get("input"), ensure_ascii=False)
    if _is_object(schema):
        return text
    try:
        whole: object = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if isinstance(whole, dict) and set(cast("dict[str, Any]", whole)) == {_VALUE}:
        return json.dumps(whole[_VALUE], ensure_ascii=False)
    return text


def _is_object(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "object"


def _as_object(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema, or that of an object with one value of it; definitions stay at the top."""
    if _is_object(schema):
        return dict(schema)
    definitions = {name: schema[name] for name in ("$defs", "definitions") if name in schema}
    inner = {name: part for name, part in schema.items() if name not in definitions}
    return {"type": "object", "properties": {_VALUE: inner}, "required": [_VALUE], **definitions}
