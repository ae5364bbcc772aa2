"""Requests of MCP servers to their client: the session's directories, input of the user, and an answer of the model.

Input is asked in the one queue of requests, a question for each field of the server's form. Where no user can answer,
it is declined. A model's answer is refused unless a setting allows it, and the user is asked each time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, cast
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from teamwright.budgets.budget_tracker import BudgetTracker
from teamwright.budgets.usage_meter import ask_beside
from teamwright.hooks.hook_definitions import ELICITATION, ELICITATION_RESULT
from teamwright.hooks.hook_outcome import NO_OUTCOME, HookOutcome
from teamwright.hooks.payload import elicitation, elicitation_result
from teamwright.mcp.json_rpc import METHOD_NOT_FOUND, McpRequestError, Message, plain_line, plain_text
from teamwright.mcp.server_config import ServerConfig
from teamwright.models.model import Model, Prefix, Reply, Request
from teamwright.models.model_settings import ModelSettings
from teamwright.models.request_prefix import request_fields
from teamwright.permissions.verdict import Approver, Question
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import Emit
from teamwright.protocol.ids import LEAD
from teamwright.protocol.messages import encode, message_text, text_block

INVALID_PARAMS = -32602
"""The code of the error for unusable parameters."""

REFUSED = -1
"""The code of the error for a refusal by the user or by a setting."""

MAX_TEXT = 4_000
"""The most characters of a server's message that are shown with a question."""

MAX_SAMPLING_TEXT = 200_000
"""The most characters of a prompt of a server."""

MAX_SAMPLING_TOKENS = 8_192
MAX_TRIES = 5
MAX_FIELDS = 20
MAX_CHOICES = 50

OPENED = "opened"
DECLINE = "decline"
"""The answer that refuses a form."""

LEAVE_OUT = "leave out"
"""The answer that leaves a field of a form out."""

_NUMBERS = {"integer", "number"}


class FireHooks(Protocol):
    """Runs the hooks of an event for the lead."""

    async def __call__(self, event: str, make_payload: Callable[[], Mapping[str, Any]], subject: str) -> HookOutcome:
        """Return their outcome. `make_payload` returns the payload, `subject` is the text for matchers."""
        ...


async def fire_no_hooks(event: str, make_payload: Callable[[], Mapping[str, Any]], subject: str) -> HookOutcome:
    """Return no outcome: the default without hooks."""
    return NO_OUTCOME


class SamplingTerms(Struct, frozen=True):
    """The terms of model requests for servers: the model, the meter's budget and the most requests of a session."""

    open_model: Callable[[], Awaitable[Model]]
    settings: ModelSettings
    budget_tracker: BudgetTracker
    emit: Emit
    calls: int


class ServerRequests:
    """The answers of one process. `directories` returns the directories in which the session works."""

    def __init__(
        self,
        directories: Callable[[], Sequence[Path]],
        approver: Approver,
        sampling: SamplingTerms | None,
        fire: FireHooks = fire_no_hooks,
    ) -> None:
        self._directories = directories
        self._fire = fire
        self._approver = approver
        self._sampling = sampling
        self._sampled = 0
        self._asking = asyncio.Lock()

    @property
    def capabilities(self) -> Mapping[str, Any]:
        features: dict[str, Any] = {"roots": {"listChanged": True}, "elicitation": {"form": {}, "url": {}}}
        return features if self._sampling is None else {**features, "sampling": {}}

    @property
    def roots(self) -> tuple[str, ...]:
        """The addresses of the session's directories."""
        return tuple(path.as_uri() for path in self._directories())

    async def answer(self, server: ServerConfig, method: str, params: Mapping[str, Any]) -> Message:
        if method == "roots/list":
            roots = self.roots if server.worktree is None else (server.worktree.as_uri(),)
            return {"roots": [{"uri": uri, "name": uri.rpartition("/")[2]} for uri in roots]}
        if method == "elicitation/create":
            async with self._asking:  # one form after another: fields of two forms would be mixed
                return await self._elicit_with_hooks(server, params)
        if method == "sampling/createMessage" and self._sampling is not None:
            return await self._sample(server, params, self._sampling)
        raise McpRequestError(METHOD_NOT_FOUND, "this client does not do that")

    # ── input of the user ─────────────────────────────────────────────────────────────────────────────────────

    async def _elicit_with_hooks(self, server: ServerConfig, params: Mapping[str, Any]) -> Message:
        """Return the answer of a hook or of the user. Hooks may replace it before the server receives it."""
        before = await self._fire(ELICITATION, lambda: elicitation(server.name, params), server.name)
        answer = _hook_answer(before)
        if answer is None:
            answer = await self._elicit(server, params)
        after = await self._fire(
            ELICITATION_RESULT, lambda: elicitation_result(server.name, params, answer), server.name
        )
        return _hook_answer(after, answer) or answer

    async def _elicit(self, server: ServerConfig, params: Mapping[str, Any]) -> Message:
        message = plain_text(server.mask_secrets(str(params.get("message", ""))), MAX_TEXT)
        head = f'The MCP server "{plain_line(server.name, 60)}" asks: {message}'
        if params.get("mode") == "url":
            return await self._ask_to_open(server, head, params.get("url"))
        try:
            fields = parse_form(params.get("requestedSchema"))
        except ValueError as problem:
            raise McpRequestError(INVALID_PARAMS, f"the form cannot be shown: {problem}") from None
        content: Message = {}
        for number, field in enumerate(fields, 1):
            place = f"{number} of {len(fields)}: " if len(fields) > 1 else ""
            found = await self._ask_field(server, f"{head}\n\n{place}{field.question}", field)
            if found is None:
                return {"action": "decline"}
            if found:
                content[field.name] = found[0]
        return {"action": "accept", "content": content}

    async def _ask_field(self, server: ServerConfig, text: str, field: FormField) -> list[Any] | None:
        """Return the value in a list, an empty list for a field that is left out, None when the user declines."""
        why = ""
        for _ in range(MAX_TRIES):
            answer = await self._ask(server, f"{text}{why}", field.options, several=field.several)
            if answer is None or answer.strip().lower() == DECLINE:
                return None
            try:
                return field.parse(answer)
            except ValueError as problem:
                why = f"\n\nThe last answer cannot be used: {problem}"
        return None

    async def _ask_to_open(self, server: ServerConfig, head: str, url: object) -> Message:
        address = url if isinstance(url, str) and url.isprintable() and len(url) <= MAX_TEXT else ""
        parts = urlsplit(address)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise McpRequestError(INVALID_PARAMS, "the address cannot be shown")
        text = f"{head}\n\nOpen this address of {parts.hostname} yourself, if you trust it:\n{address}"
        answer = await self._ask(server, text, (OPENED, DECLINE))
        return {"action": "accept" if answer == OPENED else "decline"}

    async def _ask(
        self, server: ServerConfig, text: str, options: tuple[str, ...], *, several: bool = False
    ) -> str | None:
        """Return the answer of the user; None when the user refuses or cannot answer."""
        details = {"server": server.name, "multiSelect": several}
        question = Question(LEAD, f"mcp__{server.key}", "question", text, "", "", details, options, LEAD)
        answer = await self._approver.ask(question)
        return answer.text if answer.allowed else None

    # ── an answer of the model ────────────────────────────────────────────────────────────────────────────────

    async def _sample(self, server: ServerConfig, params: Mapping[str, Any], terms: SamplingTerms) -> Message:
        if self._sampled >= terms.calls:
            raise McpRequestError(REFUSED, f"the {terms.calls} model requests of mcp.sampling_calls are used")
        system, messages = _sampling_texts(params)
        most = params.get("maxTokens")
        tokens = min(most, MAX_SAMPLING_TOKENS) if isinstance(most, int) and most > 0 else MAX_SAMPLING_TOKENS
        lines = [f"{role}: {text}" for role, text in [*([("system", system)] if system else []), *messages]]
        what = f'The MCP server "{server.name}" wants an answer of your model to this prompt, at your cost:\n\n'
        what += server.mask_secrets("\n\n".join(lines))
        tool = f"mcp__{server.key}__sampling"
        question = Question(LEAD, tool, "permission", what, "mcp.sampling", "", {"maxTokens": tokens}, owner=LEAD)
        self._sampled += 1
        answer = await self._approver.ask(question)
        if not answer.allowed:
            self._sampled -= 1
            raise McpRequestError(REFUSED, "the user refused the request")
        reply = await self._ask_model(terms, system, messages, tokens)
        content = {"type": "text", "text": message_text(reply.content)}
        stop = "maxTokens" if str(reply.end) == "length" else "endTurn"
        return {"role": "assistant", "content": content, "model": reply.model or "", "stopReason": stop}

    async def _ask_model(
        self, terms: SamplingTerms, system: str, messages: Sequence[tuple[str, str]], tokens: int
    ) -> Reply:
        model = await terms.open_model()
        fields = request_fields(model.card, terms.settings, [text_block(system)] if system else [], [])
        prefix = Prefix.build({**fields, "max_tokens": min(tokens, int(fields["max_tokens"]))}, terms.settings.betas)
        items = tuple(encode({"role": role, "content": [text_block(text)]}) for role, text in messages)
        request = Request(prefix, items, LEAD, "sampling")
        try:
            return await ask_beside(model, request, terms.budget_tracker, terms.emit)
        except TeamwrightError as problem:
            raise McpRequestError(REFUSED, problem.what) from None


def _hook_answer(outcome: HookOutcome, former: Message | None = None) -> Message | None:
    """Return the answer of hooks to a form; None when they leave it to the user. `former` has the user's values."""
    if outcome.blocked or outcome.halted:
        return {"action": "decline"}
    if (reply := outcome.elicitation) is None:
        return None
    if reply.action != "accept":
        return {"action": reply.action}
    content = reply.content if reply.content is not None else (former or {}).get("content", {})
    return {"action": "accept", "content": dict(content)}


def _sampling_texts(params: Mapping[str, Any]) -> tuple[str, list[tuple[str, str]]]:
    """Return the system prompt and the messages of a request, with roles that alternate. Raises McpRequestError."""
    system = params.get("systemPrompt")
    messages = params.get("messages")
    turns: list[tuple[str, str]] = []
    for message in cast("list[object]", messages) if isinstance(messages, list) else []:
        fields = cast("Message", message) if isinstance(message, dict) else Message()
        content = fields.get("content")
        blocks = cast("list[object]", content) if isinstance(content, list) else [content]
        texts = [cast("Message", one).get("text") for one in blocks if isinstance(one, dict)]
        if len(texts) != len(blocks) or not all(isinstance(text, str) for text in texts):
            raise McpRequestError(INVALID_PARAMS, "only text is supported in a prompt")
        role = "assistant" if fields.get("role") == "assistant" else "user"
        text = "\n".join(map(str, texts))
        if turns and turns[-1][0] == role:
            turns[-1] = (role, f"{turns[-1][1]}\n{text}")
        else:
            turns.append((role, text))
    plain = system if isinstance(system, str) else ""
    if not turns or turns[0][0] != "user" or turns[-1][0] != "user":
        raise McpRequestError(INVALID_PARAMS, "a prompt begins and ends with a message of the user")
    if len(plain) + sum(len(text) for _, text in turns) > MAX_SAMPLING_TEXT:
        raise McpRequestError(INVALID_PARAMS, f"a prompt has at most {MAX_SAMPLING_TEXT:,} characters")
    return plain, turns


class FormField(Struct, frozen=True):
    """One field. `choices` are pairs of value and label; `several`: any number of them may be chosen.

    `default` is the value of a field that is left out; None without one.
    """

    name: str
    kind: str
    title: str
    required: bool
    choices: tuple[tuple[Any, str], ...] = ()
    several: bool = False
    bounds: Mapping[str, Any] = {}
    default: Any = None

    @property
    def may_be_left_out(self) -> bool:
        """True when the form is complete without an answer to this field."""
        return not self.required or self.default is not None

    @property
    def options(self) -> tuple[str, ...]:
        """The answers to choose from; empty for a field that is typed, because a number would mean an option."""
        if not self.choices:
            return ()
        return (*(label for _, label in self.choices), *((LEAVE_OUT,) if self.may_be_left_out else ()), DECLINE)

    @property
    def question(self) -> str:
        usual = "" if self.default is None else f" (left out: {plain_line(str(self.default), 100)})"
        if self.choices:
            return self.title + usual
        limits = ", ".join(f"{name} {value}" for name, value in self.bounds.items())
        kind = "a text" if self.kind == "string" else f"a{'n' if self.kind == 'integer' else ''} {self.kind}"
        leave = f', "{LEAVE_OUT}"{usual}' if self.may_be_left_out else ""
        return f'{self.title}\nType {kind}{f" ({limits})" if limits else ""}{leave} or "{DECLINE}".'

    def parse(self, answer: str) -> list[Any]:
        """Return the value of an answer in a list; an empty list when it is left out. Raises ValueError."""
        text = answer.strip()
        if text.lower() == LEAVE_OUT and self.may_be_left_out:
            return [] if self.default is None else [self.default]
        if self.choices:
            return [self._choose(text)]
        if self.kind in _NUMBERS:
            return [self._number(text)]
        least = self.bounds.get("minLength", 0)
        most = self.bounds.get("maxLength", len(answer))
        if not least <= len(answer) <= most:
            raise ValueError(f"it has {len(answer)} characters")
        return [answer]

    def _choose(self, text: str) -> Any:
        values = {label.lower(): value for value, label in self.choices}
        if not self.several:
            if text.lower() not in values:
                raise ValueError("it is none of the answers")
            return values[text.lower()]
        words = [word.strip().lower() for word in text.split(",") if word.strip()]
        if unknown := [word for word in words if word not in values]:
            raise ValueError(f"{unknown[0]!r} is none of the answers")
        return [values[word] for word in words]

    def _number(self, text: str) -> int | float:
        try:
            value: int | float = int(text) if self.kind == "integer" else float(text)
        except ValueError:
            raise ValueError(f"it is no {self.kind}") from None
        least = self.bounds.get("minimum", value)
        most = self.bounds.get("maximum", value)
        if not least <= value <= most:
            raise ValueError("it is outside of the bounds")
        return value


def parse_form(schema: object) -> list[FormField]:
    """Return the fields of a form. Raises ValueError for one that cannot be shown."""
    form = _object(schema)
    properties = form.get("properties")
    required = form.get("required")
    if not isinstance(properties, dict) or len(cast("dict[str, Any]", properties)) > MAX_FIELDS:
        raise ValueError(f"it has no fields, or more than {MAX_FIELDS}")
    needed = cast("list[object]", required) if isinstance(required, list) else []
    fields = (
        (one, _field(name, _object(one), name in needed)) for name, one in cast("dict[str, Any]", properties).items()
    )
    return [replace(field, default=_default(field, _object(one).get("default"))) for one, field in fields]


def _default(field: FormField, value: Any) -> Any:
    """Return the default of a field; None for a value that the field does not accept."""
    if field.several:
        values = cast("list[Any]", value) if isinstance(value, list) else [None]
        return values if all(one in dict(field.choices) for one in values) else None
    if field.choices:
        return value if isinstance(value, str | bool) and value in dict(field.choices) else None
    if field.kind in _NUMBERS:
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        return value if fits and (field.kind == "number" or isinstance(value, int)) else None
    return plain_line(value, 1_000) if isinstance(value, str) else None


def _field(name: str, definition: Mapping[str, Any], required: bool) -> FormField:
    kind = definition.get("type")
    label = plain_line(str(definition.get("title") or name), 100)
    about = plain_line(str(definition.get("description") or ""), 300)
    title = f"{label}: {about}" if about else label
    if kind == "boolean":
        return FormField(name, kind, title, required, ((True, "yes"), (False, "no")))
    if kind == "array":
        return FormField(name, kind, title, required, _choices(_object(definition.get("items"))), several=True)
    if kind == "string" and (definition.get("enum") is not None or definition.get("oneOf") is not None):
        return FormField(name, kind, title, required, _choices(definition))
    if kind == "string":
        return FormField(name, kind, title, required, bounds=_bounds(definition, "minLength", "maxLength"))
    if kind in _NUMBERS:
        return FormField(name, str(kind), title, required, bounds=_bounds(definition, "minimum", "maximum"))
    raise ValueError(f"the field {name[:60]!r} has the type {str(kind)[:40]!r}")


def _bounds(definition: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {
        name: definition[name]
        for name in names
        if isinstance(definition.get(name), int | float) and not isinstance(definition[name], bool)
    }


def _choices(definition: Mapping[str, Any]) -> tuple[tuple[Any, str], ...]:
    """Return values with their labels: of `enum` with `enumNames`, or of `oneOf` or `anyOf` with titles."""
    titled = definition.get("oneOf") or definition.get("anyOf")
    if isinstance(titled, list):
        entries = [_object(one) for one in cast("list[object]", titled)]
        pairs = [(one.get("const"), one.get("title") or one.get("const")) for one in entries]
    else:
        values = definition.get("enum")
        names = definition.get("enumNames")
        listed = cast("list[Any]", values) if isinstance(values, list) else []
        labels = cast("list[Any]", names) if isinstance(names, list) else []
        pairs = [(value, labels[at] if at < len(labels) else value) for at, value in enumerate(listed)]
    if not pairs or len(pairs) > MAX_CHOICES or not all(isinstance(value, str) for value, _ in pairs):
        raise ValueError("a field has no choices, too many, or one that is no text")
    return tuple((value, plain_line(str(label).replace(",", " "), 80)) for value, label in pairs)


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}
