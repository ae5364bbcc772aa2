"""Hooks that run no command: requests to an address, calls of an MCP server's tool, and questions to a model.

Parses their fields and replaces the parts that the payload of an event gives. `http_request` sends requests; the
session calls servers and models.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, TypeAlias, cast
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

MAX_TEXT = 100_000
"""Characters of a prompt, and of the payload in it."""

PROMPT_TIMEOUT_S = 30.0
"""Seconds that a question to a model may take; other hooks have the usual time."""

ARGUMENTS = "$ARGUMENTS"

_MAX_BEGINS = 100
"""Places in an answer where its object may begin: each is tried while all agents wait."""

_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")
_NAME = re.compile(r"[A-Za-z_]\w*")
_PATH = re.compile(r"\$\{([\w.-]+)\}")
_PLACE = re.compile(r"\\\$|\$ARGUMENTS\b")


class HttpRequest(Struct, frozen=True):
    """A POST request with the payload as its body. Headers may contain the environment variables of `variables`."""

    url: str
    headers: tuple[tuple[str, str], ...] = ()
    variables: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """The type that a settings file names."""
        return "http"

    @property
    def text(self) -> str:
        """The whole address and what is sent there, without values of headers."""
        parts = [f"headers {', '.join(name for name, _ in self.headers)}"] if self.headers else []
        parts += [f"variables {', '.join(self.variables)}"] if self.variables else []
        return f"POST {self.url}" + (f" ({'; '.join(parts)})" if parts else "")

    @property
    def short_text(self) -> str:
        """The host, since path and query may be secret."""
        return f"POST {urlsplit(self.url).scheme}://{urlsplit(self.url).netloc}"

    def filled_headers(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the headers with the values of the listed variables; other variables become an empty text."""
        allowed = frozenset(self.variables)

        def value(found: re.Match[str]) -> str:
            name = found[1] or found[2]
            return env.get(name, "") if name in allowed else ""

        return {name: _VARIABLE.sub(value, text) for name, text in self.headers}


class HttpLimits(Struct, frozen=True):
    """The bounds of all requests of hooks. None: there is no bound. In `urls` a star means any text."""

    urls: tuple[str, ...] | None = None
    variables: tuple[str, ...] | None = None

    def allows(self, url: str) -> bool:
        """Return True for an address that hooks may use. A star in a host's place matches no other part."""
        return self.urls is None or any(_url_pattern(text).fullmatch(url) for text in self.urls)

    def narrow(self, request: HttpRequest) -> HttpRequest:
        """Return the request with the variables that its headers may contain."""
        if self.variables is None:
            return request
        return replace(request, variables=tuple(name for name in request.variables if name in self.variables))


def _url_pattern(text: str) -> re.Pattern[str]:
    scheme, mark, rest = text.partition("://")
    host, slash, path = rest.partition("/")
    if not mark:
        return re.compile(_with_stars(text, ".*"), re.DOTALL)
    place = f"{_with_stars(scheme, '[a-z]*')}{mark}{_with_stars(host, '[^/?#@]*')}"
    return re.compile(f"{place}{slash}{_with_stars(path, '.*')}", re.DOTALL)


def _with_stars(text: str, star: str) -> str:
    """Return the expression for a text in which each `*` matches the expression `star`."""
    return re.escape(text).replace(r"\*", star)


class ServerToolCall(Struct, frozen=True):
    """A call of a tool of an MCP server. `input` is the JSON of its arguments, with `${path}` into the payload."""

    server: str
    tool: str
    input: str = "{}"

    @property
    def kind(self) -> str:
        """The type that a settings file names."""
        return "mcp_tool"

    @property
    def text(self) -> str:
        """The server, the tool and the arguments."""
        return f"mcp_tool {self.server}: {self.tool} {self.input}"

    @property
    def short_text(self) -> str:
        """The server and the tool."""
        return f"mcp_tool {self.server}: {self.tool}"

    def arguments(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments with the payload's values in their texts."""
        return _filled(json.loads(self.input), payload)


class ModelQuestion(Struct, frozen=True):
    """A condition that a model judges. `uses_tools`: an agent that can read files judges it.

    `continues`: a refusal is given to the agent, which continues its turn. `model` empty means a default.
    """

    prompt: str
    model: str = ""
    uses_tools: bool = False
    continues: bool = False

    @property
    def kind(self) -> str:
        """The type that a settings file names."""
        return "agent" if self.uses_tools else "prompt"

    @property
    def text(self) -> str:
        """The kind of hook and the whole prompt."""
        model = f" ({self.model})" if self.model else ""
        return f"{'agent' if self.uses_tools else 'prompt'}{model}: {self.prompt}"

    @property
    def short_text(self) -> str:
        """The beginning of the prompt."""
        return self.text

    def filled_prompt(self, payload: Mapping[str, Any]) -> str:
        """Return the prompt with the payload as JSON at `$ARGUMENTS`, else after its end."""
        payload_json = json.dumps(payload, ensure_ascii=False, default=str)
        payload_json = payload_json if len(payload_json) <= MAX_TEXT else f"{payload_json[:MAX_TEXT]}…"
        text = _PLACE.sub(lambda found: "$" if found[0] == "\\$" else payload_json, self.prompt)
        return text if ARGUMENTS in self.prompt else f"{text}\n\n{payload_json}"


HookAction: TypeAlias = HttpRequest | ServerToolCall | ModelQuestion

QUESTION_EVENTS = frozenset(
    {
        *("PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionRequest", "UserPromptSubmit", "Stop"),
        *("SubagentStop", "TeammateIdle", "TaskCreated", "TaskCompleted", "PostToolBatch", "UserPromptExpansion"),
    }
)
"""The events about which a model can be asked."""

_ENDING_EVENTS = frozenset({"PreToolUse", "PostToolUse", "TeammateIdle"})
"""Events at which a model's refusal ends the turn unless the hook continues."""

_KEYS: Mapping[str, frozenset[str]] = {
    "http": frozenset({"url", "headers", "allowedEnvVars"}),
    "mcp_tool": frozenset({"server", "tool", "input"}),
    "prompt": frozenset({"prompt", "model", "continueOnBlock"}),
    "agent": frozenset({"prompt", "model"}),
}
"""The fields of each type besides those of all hooks."""

ACTION_TYPES = tuple(_KEYS)


def action_keys(kind: str) -> frozenset[str]:
    """Return the fields of a type of hook besides those of all hooks."""
    return _KEYS[kind]


def parse_action(kind: str, event: str, hook: Mapping[str, Any]) -> HookAction:
    """Return the action of a hook of one of ACTION_TYPES. Raises ValueError with the reason for an unusable one."""
    if kind == "http":
        return _http_request(hook)
    if kind == "mcp_tool":
        return _tool_call(hook)
    if event not in QUESTION_EVENTS or (kind == "agent" and event == "PermissionRequest"):
        raise ValueError(f"no hook of the type {kind!r} runs at this event")
    prompt, model = hook.get("prompt"), hook.get("model", "")
    if not isinstance(prompt, str) or not prompt.strip():
        raise ValueError("it has no prompt")
    if len(prompt) > MAX_TEXT:
        raise ValueError(f"its prompt has more than {MAX_TEXT:,} characters")
    if not isinstance(model, str):
        raise ValueError("its model is not a name")
    is_agent = kind == "agent"
    return ModelQuestion(prompt, model.strip(), is_agent, is_agent or hook.get("continueOnBlock") is True)


def question_answer(event: str, question: ModelQuestion, text: str) -> dict[str, Any]:
    """Return the JSON that a command would print instead of a model's answer. Raises ValueError for no answer."""
    answer = _answer_object(text)
    if answer.get("ok") is True or event == "PermissionRequest":
        return {}
    if answer.get("impossible") is True and not question.uses_tools and event in {"Stop", "SubagentStop"}:
        return {}
    reason = answer.get("reason")
    why = reason.strip() if isinstance(reason, str) and reason.strip() else "a hook refused it and gave no reason"
    outcome: dict[str, Any] = {"decision": "block", "reason": why}
    if event in _ENDING_EVENTS and not question.continues:
        outcome |= {"continue": False, "stopReason": why, "systemMessage": f"A hook of {event} refused: {why}"}
    return outcome


def _answer_object(text: str) -> dict[str, Any]:
    """Return the last object in an answer that has a decision: models write words or a fence around it."""
    decoder = json.JSONDecoder()
    end = text[-MAX_TEXT:]
    begins = [found.start() for found in re.finditer(r"\{", end)]
    for at in reversed(begins[-_MAX_BEGINS:]):
        try:
            answer, _ = decoder.raw_decode(end, at)
        except (ValueError, RecursionError):
            continue
        if isinstance(answer, dict) and isinstance(cast("dict[str, Any]", answer).get("ok"), bool):
            return cast("dict[str, Any]", answer)
    raise ValueError('its answer has no {"ok": true} or {"ok": false, "reason": …}')


def _http_request(hook: Mapping[str, Any]) -> HttpRequest:
    url = hook.get("url")
    headers = hook.get("headers", {})
    names = hook.get("allowedEnvVars", [])
    if not isinstance(url, str) or not _is_address(url):
        raise ValueError("its url is no http or https address")
    if not isinstance(headers, dict):
        raise ValueError("its headers are not an object")
    pairs = [(name, value) for name, value in cast("dict[str, object]", headers).items()]
    texts = [(name, value) for name, value in pairs if isinstance(value, str) and value.isprintable()]
    if len(texts) != len(pairs) or not all(_HEADER.fullmatch(name) for name, _ in texts):
        raise ValueError("its headers are not names with one line of text each")
    listed = cast("list[object]", names) if isinstance(names, list) else [None]
    variables = tuple(name for name in listed if isinstance(name, str) and _NAME.fullmatch(name))
    if len(variables) != len(listed):
        raise ValueError("its allowedEnvVars are not names of variables")
    return HttpRequest(url, tuple(texts), variables)


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and url.isprintable() and not parts.username
    except ValueError:
        return False


def _tool_call(hook: Mapping[str, Any]) -> ServerToolCall:
    server = hook.get("server")
    tool = hook.get("tool")
    tool_input = hook.get("input", {})
    if not isinstance(server, str) or not server or not isinstance(tool, str) or not tool:
        raise ValueError("it has no server or no tool")
    if not isinstance(tool_input, dict):
        raise ValueError("its input is not an object")
    if server.startswith("plugin:"):
        server = server.replace(":", "_")  # the server of a plugin has this name here
    return ServerToolCall(server, tool, json.dumps(tool_input, sort_keys=True, ensure_ascii=False))


def _filled(value: Any, payload: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        return {name: _filled(part, payload) for name, part in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_filled(part, payload) for part in cast("list[Any]", value)]
    return _PATH.sub(lambda found: _text_at(payload, found[1]), value) if isinstance(value, str) else value


def _text_at(payload: Mapping[str, Any], path: str) -> str:
    """Return the text at a path of keys such as `tool_input.file_path`; empty where there is nothing."""
    value: Any = payload
    for key in path.split("."):
        value = cast("Mapping[str, Any]", value).get(key) if isinstance(value, Mapping) else None
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
