"""The first request of a client (`initialize`): what it sets for the session, what it is answered, and its hooks.

Its fields are those of the TypeScript and the Python SDK of Claude Code; source: the message types that both publish.
A field that would change how the session works and is not known here is an error: the session would run without it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, cast

from msgspec.structs import replace

from teamwright.agent.prompt import change_effort
from teamwright.mcp.tool_listing import server_key, tool_name
from teamwright.models.effort import effort_for_tokens
from teamwright.models.names import aliases
from teamwright.protocol.errors import UsageError
from teamwright.session.options import Options
from teamwright.session.session import Session
from teamwright.session.slash_command_call import list_commands, offered_names
from teamwright.ui.headless.client_commands import CLIENT_COMMANDS

_TAKEN = frozenset(
    {"subtype", "hooks", "agents", "systemPrompt", "appendSystemPrompt", "sdkMcpServers", "jsonSchema", "title"}
) | {"sdkMcpServerConfigs", "forwardSubagentText"}
_WITHOUT_EFFECT = frozenset(
    # The servers answer for themselves; the rest is about texts and controls that a client may show.
    {"sdkMcpServerManifests", "sdkMcpServerManifestsOrigin", "systemPromptSnapshot", "excludeDynamicSections"}
    | {"promptSuggestions", "agentProgressSummaries", "supportedDialogKinds"}
    | {"perTaskStopAffordance"}
    # Both are read at a start with --await-initialize alone; the answer says that they were not applied.
    | {"plugins", "mcpServers"}
)
_INSTEAD = {
    "skills": "the setting skills.disabled names the skills that are left out",
    "planModeInstructions": "--append-system-prompt adds instructions",
    "toolAliases": "tools have their own names here",
}
"""Fields that are known and not supported, and what there is in their place."""

_POLICIES = ("always_allow", "always_ask", "always_deny")
"""The policies of a client for a tool of its servers. The first one allows nothing: rules and modes decide."""


_CONFIGS = "the field sdkMcpServerConfigs of initialize"


def with_client_fields(options: Options, request: Mapping[str, Any]) -> Options:
    """Return the options with the fields of the client's first request.

    Raises UsageError, which names the field, for one that has a wrong form, is not supported or is not known.
    """
    for name, value in request.items():
        if value and name not in _TAKEN and name not in _WITHOUT_EFFECT:
            here = _INSTEAD.get(name, "it is not known here, and the session would run without it")
            raise UsageError("usage", f"initialize has the field {name}, which is not supported: {here}")
    prompt = _text(request, "systemPrompt")
    appended = _text(request, "appendSystemPrompt")
    asked, denied = _tool_policies(request)
    if asked and options.permission_mode == "bypassPermissions":
        raise UsageError("usage", f"always_ask has no effect in bypassPermissions, where no call asks: {asked[0]}")
    return replace(
        options,
        system_prompt=prompt or options.system_prompt,
        append_system_prompt="\n\n".join(filter(None, (options.append_system_prompt, appended))),
        agents={**options.agents, **_object(request, "agents")},
        mcp_config=(*options.mcp_config, *_servers(options, request)),
        output=_output(request) or options.output,
        title=" ".join(_text(request, "title").split()) or options.title,
        asked_tools=(*options.asked_tools, *asked),
        disallowed_tools=(*options.disallowed_tools, *denied),
    )


def _text(request: Mapping[str, Any], name: str) -> str:
    """Return a text, which may come in parts."""
    value = cast("object", request.get(name) or "")
    parts = cast("list[object]", value) if isinstance(value, list) else [value]
    texts = [part for part in parts if isinstance(part, str)]
    if len(texts) < len(parts):
        raise UsageError("usage", f"the field {name} of initialize is a text, or a list of texts")
    return "\n\n".join(filter(None, texts))


def _object(request: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = cast("object", request.get(name) or {})
    if not isinstance(value, dict):
        raise UsageError("usage", f"the field {name} of initialize is an object")
    return cast("dict[str, Any]", value)


def _servers(options: Options, request: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the configuration of the servers inside the client that no flag has named yet."""
    names = cast("object", request.get("sdkMcpServers") or [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in cast("list[Any]", names)):
        raise UsageError("usage", "the field sdkMcpServers of initialize is a list of names")
    configs = _server_configs(request)
    known = {name for text in options.mcp_config if text.lstrip().startswith("{") for name in _server_names(text)}
    servers: dict[str, Any] = {}
    for name in cast("list[str]", names):
        timeout = configs.get(name, {}).get("timeout") or 0
        if not isinstance(timeout, int) or isinstance(timeout, bool) or timeout < 0:
            raise UsageError("usage", f"{_CONFIGS}: the timeout of {name} is a number of milliseconds")
        limit = {"timeout": timeout} if timeout >= 1_000 else {}
        if name not in known:
            servers[name] = {"type": "sdk", "name": name, **limit}
    return (json.dumps({"mcpServers": servers}),) if servers else ()


def _server_configs(request: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what the client says about its servers, by name."""
    found: dict[str, dict[str, Any]] = {}
    for name, config in _object(request, "sdkMcpServerConfigs").items():
        if not isinstance(config, dict | None):
            raise UsageError("usage", f"{_CONFIGS}: the entry of {name} is an object")
        found[name] = cast("dict[str, Any]", config or {})
    return found


def _server_names(text: str) -> list[str]:
    try:
        return list(json.loads(text).get("mcpServers") or ())
    except (ValueError, AttributeError):
        return []  # the error is reported where the configuration is read


def _tool_policies(request: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the rules that ask before tools of the client's servers, and those that deny them."""
    asked, denied = list[str](), list[str]()
    for server, config in _server_configs(request).items():
        for tool in _tool_entries(server, config.get("tools") or []):
            policy = tool.get("permission_policy")
            if policy is not None and policy not in _POLICIES:
                known = ", ".join(_POLICIES)
                raise UsageError(
                    "usage", f"{_CONFIGS}: a permission_policy is one of {known}, not {str(policy)[:40]!r}"
                )
            rule = tool_name(server_key(server), tool["name"])
            asked += [rule] if policy == "always_ask" else []
            denied += [rule] if policy == "always_deny" else []
    return asked, denied


def _tool_entries(server: str, tools: object) -> list[dict[str, Any]]:
    entries: list[Any] = cast("list[Any]", tools) if isinstance(tools, list) else [tools]
    found = [cast("dict[str, Any]", one) for one in entries if isinstance(one, dict)]
    if len(found) < len(entries) or not all(isinstance(one.get("name"), str) for one in found):
        raise UsageError("usage", f"{_CONFIGS}: the tools of {server} are a list of objects with a name")
    return found


def _output(request: Mapping[str, Any]) -> Any:
    if not request.get("jsonSchema"):
        return None
    from teamwright.session.answer_schema import schema_format  # loaded only for a client with a schema

    return schema_format(json.dumps(request["jsonSchema"]), "the field jsonSchema of initialize")


def initialize_answer(session: Session, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to the first request: commands, agent types, models, and what was applied."""
    style = session.settings.output_style or "default"
    own = [
        {"name": one.name.removeprefix("/"), "description": one.about, "argumentHint": one.hint}
        for one in list_commands(session)
    ]
    taken = {command["name"] for command in own}
    built_in = [
        {"name": name[1:], "description": about, "argumentHint": "", "builtin": True}
        for name, about in CLIENT_COMMANDS.items()
        if name[1:] not in taken
    ]
    types = session.agent_factory.resolver.agent_types.active()
    applied = {f"{name}_applied": False for name in ("plugins",) if request.get(name)}
    if request.get("mcpServers"):
        applied["mcp_servers_applied"] = False
    if request.get("hooks"):
        applied["hooks_applied"] = True
    return {
        "commands": [*built_in, *own],
        "agents": [{"name": name, "description": types[name].description} for name in offered_names(session)["agents"]],
        "models": _models(session),
        "account": {},
        "output_style": style,
        "available_output_styles": [style],
        "hook_on_failure_supported": True,
        "pid": os.getpid(),
        **applied,
    }


def _models(session: Session) -> list[dict[str, Any]]:
    """Return the session's model as `default`, then the short names that set_model takes."""
    card = session.lead.agent.model.card
    levels = [level for level in card.efforts if level in ("low", "medium", "high", "xhigh", "max")]
    first = {
        "value": "default",
        "resolvedModel": card.wire,
        "displayName": card.name,
        "description": "The model of this session",
        "supportsEffort": bool(levels),
        "supportedEffortLevels": levels,
    }
    short = aliases() if card.name.startswith("anthropic/") else {}
    others = [{"value": name, "displayName": name, "description": wire} for name, wire in short.items()]
    return [first, *others]


def hook_refusal(event: str, reason: str) -> dict[str, Any] | None:
    """Return the answer with which a hook of this event refuses; None for an event that guards nothing."""
    match event:
        case "PreToolUse":
            output = {"permissionDecision": "deny", "permissionDecisionReason": reason}
        case "PermissionRequest":
            output = {"decision": {"behavior": "deny", "message": reason}}
        case "UserPromptSubmit":
            return {"decision": "block", "reason": reason}
        case _:
            return None
    return {"hookSpecificOutput": {"hookEventName": event, **output}}


def set_thinking(session: Session, tokens: object) -> None:
    """Let the lead think with this many tokens from its next model call on; None: the model decides.

    Raises UsageError for another value, and for 0 where the model cannot do without.
    """
    if tokens is not None and (not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 0):
        raise UsageError("usage", f"max_thinking_tokens is a number of tokens from 0 on, not {str(tokens)[:40]}")
    agent = session.lead.agent
    effort = None if tokens is None else effort_for_tokens(agent.model.card, tokens)
    if tokens == 0 and effort is None and agent.model.card.thinking:
        raise UsageError("usage", "thinking is switched off at the start: --thinking disabled")
    agent.change_between_calls(lambda: change_effort(agent, effort))
