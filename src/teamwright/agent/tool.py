"""The contract of a tool: its base class, its context, its result, and its input with the schema that models see.

The loop knows this contract and imports no tool; the tools are in `tools/`. A bad call and a failed tool are results
for the model, never exceptions. Schemas are small: no titles, references, `null` branches or empty defaults. Arguments
with small faults of weak models are accepted when they have only one possible meaning. pydantic loads with the first
call.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar, cast

from msgspec import Struct, field

from teamwright.permissions.call_grant import CallGrant
from teamwright.permissions.excluded_paths import NOTHING_EXCLUDED, ExcludedPaths
from teamwright.permissions.verdict import HARMLESS, Access
from teamwright.protocol.events import SandboxRefused
from teamwright.protocol.ids import nearest
from teamwright.protocol.messages import Block
from teamwright.protocol.portable_schema import portable_schema
from teamwright.sandbox.policy import UNBOUNDED, SandboxSettings

if TYPE_CHECKING:
    from pydantic import ValidationError

    from teamwright.agent.tool_input import ToolInput
    from teamwright.sandbox.temporary_files import TemporaryFiles


Input = TypeVar("Input", bound="ToolInput")


class Tool(Generic[Input]):
    """The base of all tools. Each tool is one module, with its description in the `.md` file of the same name.

    Class attributes: `name` as the model calls it; `input_type`; `aliases`; `stem` when the `.md` has another name.
    """

    name: str
    input_type: type[ToolInput]
    aliases: tuple[str, ...] = ()
    schema: Mapping[str, Any] | None = None
    """The schema of the input when it does not come from `input_type`, which then accepts any object."""
    hidden_parameters: Mapping[str, HiddenParameter] = {}
    """Unavailable parameters: the schema leaves them out, and a call with one is refused, but for the value that holds
    anyway.
    """

    is_offered: bool = True
    """True when the prefix names it. Other tools can still be called, from an older conversation."""

    is_rare: bool = False
    """True when few agents call it, so that a prefix may leave it out."""

    is_deferred: bool = False
    """True when the prefix leaves it out and ToolSearch finds it."""

    origin: str = ""
    """The author of a tool whose schema is not ours, in words for people; empty for our own."""

    @property
    def description(self) -> str:
        """The description for the model: the `.md` file of the module, read once in a process."""
        return read_description(type(self))

    def load(self) -> AnyTool:
        """Return the tool that runs the calls: this one, or the one that this one describes until its first call."""
        return self

    def target_call(self, call: Input) -> tuple[AnyTool, Mapping[str, Any]] | None:
        """Return the tool that really runs, with its arguments, for rules, hooks and people.

        The default is this call.
        """
        return None

    def find_unlisted(self, name: str) -> AnyTool | None:
        """Return the tool of that name which this one gives access to, for a call of a name that no list has."""
        return None

    def unlisted_tools(self) -> Sequence[AnyTool]:
        """Return the tools that this one gives access to."""
        return ()

    def is_read_only(self, call: Input) -> bool:
        """Return True when the call changes nothing. Such calls of one answer run together."""
        return False

    def can_rerun(self, call: Input) -> bool:
        """Return True when an interrupted call may run again: it only reads, or does its work once for each key."""
        return self.is_read_only(call)

    def is_wait(self, call: Input, result: ToolResult) -> bool:
        """Return True when the call waited for something outside that may still come.

        Such calls may be repeated longer, up to `repetition_guard.LONG_END_AT` times in a row.
        """
        return False

    def makes_known_change(self, call: Input) -> bool:
        """Return True when all that the call changes is what its input says: made again it is no progress, even if its
        result names new ids. Not for a call that runs a program or another agent whose work is awaited.
        """
        return False

    def summary(self, call: Input) -> str:
        """Return one line for people that describes the call."""
        return self.name

    def preview(self, call: Input, ctx: ToolContext) -> str:
        """Return the preview for an approval: the whole command or diff. The default is the summary."""
        return self.summary(call)

    def describe_limits(self, call: Input, ctx: ToolContext) -> str:
        """Return what the call cannot do although it is approved, in one sentence; empty when there is nothing."""
        return ""

    async def find_facts(self, call: Input, ctx: ToolContext) -> bool:
        """Collect facts for the verdict. Return True when `access` has more facts now. The default collects none."""
        return False

    def access(self, call: Input, ctx: ToolContext) -> Access:
        """Return the files and commands that the call would touch, for the verdict.

        The default: only internal files.
        """
        return HARMLESS

    def watch_hooks(self, call: Input, ctx: ToolContext) -> Callable[[], str] | None:
        """Return a function to call after hooks of this call have run: it takes over what they did to the call's file,
        and returns a note for the model, or an empty text. None when the call changes no file.
        """
        return None

    async def run(self, call: Input, ctx: ToolContext) -> ToolResult:
        """Run the call. Raises only `CancelledError` and TeamwrightError (which becomes its `for_model()`)."""
        raise AssertionError(f"{type(self).__name__} has no run")


AnyTool = Tool[Any]


def read_description(cls: type[Any]) -> str:
    """Return the text of the `.md` file of this class's module."""
    return read_tool_text(Path(cast("str", sys.modules[cls.__module__].__file__)).with_suffix(".md"))


@cache
def read_tool_text(path: Path) -> str:
    """Return a text for models, read once in a process."""
    return path.read_text(encoding="utf-8").strip()


class HiddenParameter(Struct, frozen=True):
    """A parameter that a tool does not offer now, and the reason. `accepted` is the value that holds anyway, which a
    call may name; None without one.
    """

    why: str
    accepted: bool | None = None

    def accepts(self, value: object) -> bool:
        """Return True when a call may have this value, also as a text."""
        return value is None or (self.accepted is not None and str(value).strip().lower() == str(self.accepted).lower())


class ToolResult(Struct, frozen=True):
    """The result that the model reads. `brief` is one line for people; `ends_turn` ends the turn after this call.

    `facts` goes to program surfaces (stream-json, the log), never to the model. `notes` come from the runtime and go to
    the model only, in its tags, after the content; texts of others in them are escaped. `invalid` says why a call could
    not run: `tool` (unknown name), `json` or `input` (bad arguments).
    """

    content: str | Sequence[Block]
    is_error: bool = False
    brief: str = ""
    ends_turn: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    notes: tuple[str, ...] = ()
    invalid: str = ""
    refusal: SandboxRefused | None = None
    """The refusal by the sandbox; the toolbox reports it with the member and the call."""

    @classmethod
    def error(cls, what: str, do: str = "") -> ToolResult:
        """Return a refusal or failure in two lines: the fault, and the next step."""
        return cls(what + (f"\n{do}" if do else ""), is_error=True, brief=what.split("\n", 1)[0])


async def refuse_host(command: str, host: str, port: int, is_named: bool) -> bool:
    """Return False: without a permission gate no command connects to any host."""
    return False


class ToolContext(Struct):
    """The context of a tool call. `call` is `cN`; `tool_use_id` is the model's id of the call.

    `is_rerun`: a kill interrupted the call before. `make_key` computes `key`, which most calls do not need.
    """

    member: str
    workplace: Workplace
    call: str = ""
    tool_use_id: str = ""
    is_rerun: bool = False
    make_key: Callable[[str], str] = str
    grant: CallGrant = CallGrant()
    """The grant of the permission gate for the call, or the one that an approval would give."""
    may_call: Callable[[str, Access], bool] = lambda _tool, _access: False
    """Returns True when the caller has that tool and such a call would run without a question."""
    may_connect: Callable[[str, str, int, bool], Awaitable[bool]] = refuse_host
    """Returns True when a command, which names the host or not, may connect to it, perhaps after a question."""
    excluded_paths: Callable[[str, Path], ExcludedPaths] = lambda _tool, _directory: NOTHING_EXCLUDED
    """Returns the paths that a tool of this name must leave out of a listing of a directory."""
    _resolved: dict[str, Path] = field(default_factory=dict[str, Path])

    def resolve(self, path: str) -> Path:
        """Return a path from a model as an absolute path: the same one at the verdict and when the call runs."""
        found = self._resolved.get(path)
        if found is None:
            found = self._resolved[path] = self.workplace.resolve(path)
        return found

    @property
    def traceparent(self) -> str:
        """The span of the call in the form of TRACEPARENT; empty without telemetry."""
        trace = self.workplace.trace
        return "" if trace is None else trace(self.tool_use_id)

    @property
    def key(self) -> str:
        """The permanent name of the call: a process that runs it again after a kill uses the same one."""
        return self.make_key(self.tool_use_id)


class CallContext(Struct, frozen=True):
    """The context of a call of a function of the program. A parameter with this annotation receives it; models do not
    see that parameter.

    `caller` is the agent that calls: the name of a member, `team-lead` for the lead, or the id of a sub-agent. `member`
    is the lead or the member that the caller works for. `team` is the team's name, empty without a team. `task` is the
    number of the task that the member has in progress, empty without one. `call` is the model's id of the call, and
    `cwd` the directory in which the caller works.
    """

    caller: str
    member: str
    team: str
    task: str
    call: str
    cwd: Path


class SeenFile(Struct, frozen=True):
    """The version of a file that this agent saw last: the SHA-256 of its bytes, its mtime and its size."""

    digest: str
    mtime_ns: int
    size: int


class LastWriters(Struct):
    """The last writer of each file in this process, shared by all agents of a run: real path → (member, digest)."""

    by_path: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])


class Workplace(Struct):
    """The working environment of one agent. `cwd` changes with `cd` in the shell.

    `directories` returns the directories that the agent's policy allows at present, by real path. `scratch` is a
    directory of the session for long outputs; `edit_history` stores former contents of edited files by hash; `env` is
    added to the environment of commands.
    """

    cwd: Path
    directories: Callable[[], tuple[Path, ...]]
    scratch: Path
    edit_history: Path
    seen_files: dict[str, SeenFile] = field(default_factory=dict[str, SeenFile])
    last_writers: LastWriters = field(default_factory=LastWriters)
    env: dict[str, str] = field(default_factory=dict[str, str])
    accepts_images: bool = True
    instructions: InstructionSource | None = None
    """The source of the instructions of directories, which an agent receives when it first touches a path in one."""
    withholds: Callable[[Path], bool] = lambda _: False
    """Returns True for a file whose text the agent must not get, because a rule names it."""
    temporary: TemporaryFiles | None = None
    """The session's temporary files; None without a sandbox."""
    sandbox: SandboxSettings = UNBOUNDED
    """The bounds of this agent's commands in the session's sandbox."""
    trace: Callable[[str], str] | None = None
    """Returns the span of a call, by the model's id of it, for what the call runs; None without telemetry."""
    _nested: NestedTexts | None = None

    def instructions_for(self, path: Path) -> str:
        """Return the instructions of the path's directory; empty when this agent has received them."""
        if self.instructions is None:
            return ""
        if self._nested is None:
            self._nested = self.instructions.nested()
        return self._nested.text_for(path, self.withholds)

    def forget_instructions(self) -> None:
        """Deliver all instructions of directories again: the agent has lost those that it received."""
        self._nested = None

    def change_directory(self, directory: Path) -> None:
        """Work in this directory from the next call on."""
        self.cwd = directory

    def resolve(self, path: str) -> Path:
        """Return a path from a model as an absolute path, relative to `cwd`; `~` is expanded, links are kept.

        A path below `/tmp` is the file that commands see there. The result may change with the files (see
        `ToolContext.resolve`).
        """
        found = os.path.normpath(os.path.join(self.cwd, os.path.expanduser(path)))
        return Path(
            self.temporary.seen_by_tool(found, map(str, self.directories())) if self.temporary is not None else found
        )

    def is_allowed(self, path: Path) -> bool:
        """Return True when the real path is in an allowed directory."""
        real = Path(os.path.realpath(path))
        return any(real.is_relative_to(root) for root in self.directories())

    def note_seen(self, path: Path, content: bytes) -> SeenFile:
        """Record that this agent has seen these bytes of the file."""
        stat = os.stat(path)
        reading = SeenFile(hashlib.sha256(content).hexdigest(), stat.st_mtime_ns, stat.st_size)
        self.seen_files[os.path.realpath(path)] = reading
        return reading

    def last_seen(self, path: Path) -> SeenFile | None:
        """Return the version of the file that this agent saw last, or None."""
        return self.seen_files.get(os.path.realpath(path))


class NestedTexts(Protocol):
    """The instructions of deeper directories for one agent, each returned once."""

    def text_for(self, path: Path, withholds: Callable[[Path], bool], /) -> str:
        """Return the instructions for an agent that touches this path; empty when it has received them.

        `withholds` returns True for a file whose text the agent must not get.
        """
        ...


class InstructionSource(Protocol):
    """The source of instructions that agents receive during their work."""

    def nested(self) -> NestedTexts:
        """Return the instructions of deeper directories for an agent that has received none of them."""
        ...


Schema: TypeAlias = dict[str, Any]


_KEYWORDS_OF_NAMES = frozenset({"properties", "$defs"})
"""Keywords whose keys are names and not keywords."""


_Assumed: TypeAlias = Mapping[str, tuple[object, ...]]

_ASSUMED: _Assumed = {"default": (None, False, "", [])}
"""Values of keywords that a model assumes anyway."""

_ASSUMED_OF_OURS: _Assumed = {
    **_ASSUMED,
    "additionalProperties": (True,),
    "exclusiveMinimum": (0,),
    "minLength": (1,),
    "minimum": (0, 1),
}
"""The same in our own tools. A call with another value is refused all the same."""

_OF_CLASSES = frozenset({"additionalProperties", "description"})
"""Keywords of an inner object that say something about its class, which in our own tools is about the code."""


def tool_schema(tool: AnyTool) -> Schema:
    """Return the entry of a tool in the prefix: `name`, `description`, `input_schema` (shared, not to be changed)."""
    return {"name": tool.name, "description": tool.description, "input_schema": _visible_schema(tool)}


def _visible_schema(tool: AnyTool) -> Schema:
    """Return the schema of the input without unavailable parameters."""
    is_ours = not tool.origin
    whole = input_schema(tool.input_type, is_ours=is_ours) if tool.schema is None else dict(tool.schema)
    if not tool.hidden_parameters:
        return whole
    return whole | {
        "properties": {name: part for name, part in whole["properties"].items() if name not in tool.hidden_parameters}
    }


@cache
def input_schema(input_type: type[ToolInput], *, is_ours: bool = True) -> Schema:
    """Return the JSON schema of an input type, cached: no titles or `null` branches, references inlined.

    `is_ours`: the type is of one of our tools, whose texts say what a model must know.
    """
    raw = input_type.model_json_schema(by_alias=True)
    definitions = cast("dict[str, Any]", raw.pop("$defs", {}))
    raw.pop("description", None)
    if is_ours:
        definitions = {
            name: {key: value for key, value in one.items() if key not in _OF_CLASSES}
            for name, one in definitions.items()
        }
    assumed = _ASSUMED_OF_OURS if is_ours else _ASSUMED
    schema = portable_schema(cast("Schema", _clean(raw, definitions, (), assumed)))
    schema.setdefault("properties", {})
    return schema


def validate(tool: AnyTool, raw: Any) -> ToolInput | ToolResult:
    """Return the arguments as the tool's input, or the refusal for the model: the faults and the accepted parameters.

    Arguments that do not fit are repaired and tried again: JSON text for an object or a list, one value for a list, a
    number for text, `null` for an optional parameter.
    """
    from pydantic import ValidationError

    if tool.hidden_parameters and (refused := _refuse_hidden(tool, raw)) is not None:
        return refused
    if tool.schema is not None:
        raw = _repair(raw, dict(tool.schema))
    try:
        return tool.input_type.model_validate(raw)
    except ValidationError:
        pass
    schema = _visible_schema(tool)
    repaired = _repair(raw, schema)
    try:
        return tool.input_type.model_validate(repaired)
    except ValidationError as problem:
        return ToolResult.error(
            _describe_problem(tool.name, repaired, schema, problem), f"{tool.name} takes {describe_parameters(schema)}"
        )


def unread_arguments(tool: AnyTool, text: str) -> ToolResult:
    """Return the refusal of arguments that are not a JSON object:

    the position of the fault and the accepted parameters.
    """
    from teamwright.models.tool_call_repair import describe_problem

    what = f"The arguments of {tool.name} are not one JSON object: {describe_problem(text)}."
    return ToolResult.error(
        what, f"Send them as one JSON object. {tool.name} takes {describe_parameters(_visible_schema(tool))}"
    )


def _refuse_hidden(tool: AnyTool, raw: Any) -> ToolResult | None:
    """Return the reason why a given parameter is unavailable; None when all are available."""
    fields = cast("Mapping[str, Any]", raw) if isinstance(raw, Mapping) else Schema()
    hidden = tool.hidden_parameters
    name = next((name for name, parameter in hidden.items() if not parameter.accepts(fields.get(name))), None)
    if name is None:
        return None
    return ToolResult.error(f"{tool.name} does not take {name} now: {hidden[name].why}.", f"Leave {name} out.")


def describe_parameters(schema: Schema) -> str:
    """Return the parameters in one line: `path (string, required), limit (integer)`."""
    required = set(schema.get("required", ()))
    parts = [
        f"{name} ({_kind(part)}{', required' if name in required else ''})"
        for name, part in cast("dict[str, Schema]", schema.get("properties", {})).items()
    ]
    return ", ".join(parts) + "." if parts else "no parameters."


# small schemas
def _clean(node: Any, definitions: Mapping[str, Any], above: tuple[str, ...], assumed: _Assumed) -> Any:
    if isinstance(node, list):
        return [_clean(item, definitions, above, assumed) for item in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    schema: Schema = {}
    for key, value in cast("Schema", node).items():
        if key in _KEYWORDS_OF_NAMES:
            schema[key] = {name: _clean(part, definitions, above, assumed) for name, part in value.items()}
        elif key == "$ref":
            schema = {**_resolve_reference(value, definitions, above, assumed), **schema}
        elif key != "title" and value not in assumed.get(key, ()):
            schema[key] = _clean(value, definitions, above, assumed)
    return _without_null(schema)


def _resolve_reference(
    reference: str, definitions: Mapping[str, Any], above: tuple[str, ...], assumed: _Assumed
) -> Schema:
    name = reference.rsplit("/", 1)[-1]
    if name in above:  # a recursive type: any object, one level down
        return {"type": "object"}
    return cast("Schema", _clean(definitions[name], definitions, (*above, name), assumed))


def _without_null(node: Schema) -> Schema:
    branches = cast("list[Schema] | None", node.get("anyOf"))
    if branches is None:
        return node
    remaining = [branch for branch in branches if branch.get("type") != "null"]
    rest = {key: value for key, value in node.items() if key != "anyOf"}
    return {**remaining[0], **rest} if len(remaining) == 1 else {**rest, "anyOf": remaining}


# reading arguments
def _repair(value: Any, schema: Any) -> Any:
    # A schema of another program may be true, false, or a list.
    return _repair_by_schema(value, cast("Schema", schema)) if isinstance(schema, dict) else value


def _repair_by_schema(value: Any, schema: Schema) -> Any:
    kind = schema.get("type")
    if kind == "object":
        return _repaired_object(value, schema)
    if kind == "array":
        value = _parse_json_text(value, list)
        items = cast("list[Any]", value) if isinstance(value, list) else [value]
        return [_repair(item, schema.get("items", {})) for item in items]
    if kind == "string" and isinstance(value, int | float):
        return json.dumps(value)
    if "anyOf" in schema and isinstance(value, str) and not _may_be_text(schema["anyOf"]):
        return _parse_json_text(value, dict | list)
    return value


def _may_be_text(branches: Any) -> bool:
    others = {"object", "array", "integer", "number", "boolean", "null"}
    kinds = [cast("Schema", branch).get("type") if isinstance(branch, dict) else None for branch in branches]
    return not all(isinstance(kind, str) and kind in others for kind in kinds)


def _repaired_object(value: Any, schema: Schema) -> Any:
    value = _parse_json_text({} if value is None else value, dict)
    properties = cast("dict[str, Schema]", schema.get("properties", {}))
    fields = cast("Schema | None", value if isinstance(value, dict) else None)
    if fields is None or not properties:
        return cast("Any", value)
    required = schema.get("required", ())
    return {
        name: _repair(item, properties[name]) if name in properties else item
        for name, item in fields.items()
        if not (item is None and name not in required)
    }


def _parse_json_text(value: Any, expected_type: Any) -> Any:
    """Parse a text with JSON of the expected type; return any other value unchanged."""
    if not isinstance(value, str):
        return value
    try:
        found = json.loads(value, strict=False)  # weak models write real line ends into JSON text
    except (ValueError, RecursionError):
        return value
    return found if isinstance(found, expected_type) else value


# refusals
def _describe_problem(tool: str, raw: Any, schema: Schema, problem: ValidationError) -> str:
    if not isinstance(raw, dict):
        return f"The input of {tool} must be an object of parameters, not {type(raw).__name__}."
    known = list(schema.get("properties", {}))
    sentences = [
        _sentence(error["type"], ".".join(str(part) for part in error["loc"]), error["msg"], known)
        for error in problem.errors()[:6]
    ]
    return f"The input of {tool} does not fit: " + "; ".join(dict.fromkeys(sentences)) + "."


def _sentence(kind: str, place: str, message: str, known: Sequence[str]) -> str:
    if kind == "missing":
        return f"`{place}` is missing"
    if kind == "extra_forbidden":
        suggestion = nearest(place, known)
        return f"`{place}` is not a parameter" + (f" (did you mean `{suggestion}`?)" if suggestion else "")
    lowered = message[:1].lower() + message[1:]
    return f"`{place}`: {lowered}" if place else lowered


def _kind(schema: Schema) -> str:
    if "enum" in schema:
        return "one of " + " ".join(str(choice) for choice in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(_kind(branch) for branch in schema["anyOf"])
    kind = str(schema.get("type", "any"))
    return f"list of {_kind(schema.get('items', {}))}" if kind == "array" else kind
