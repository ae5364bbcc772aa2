"""The contract of a tool: what every tool is, what it is handed, what it gives back.

The contract is low, the instances are high (`tools/`): the loop never imports a tool, and a tool may import the
loop. A bad call and a failed tool are results for the model to read, never exceptions.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from pydantic import BaseModel, ConfigDict

from teamwright.permissions.excluded_paths import NOTHING_EXCLUDED, ExcludedPaths
from teamwright.permissions.verdict import HARMLESS, Access
from teamwright.protocol.messages import Block
from teamwright.protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class SeenFile:
    """A file as this agent last saw it: the SHA-256 of its bytes, its mtime and size then, who changed it last."""

    digest: str
    mtime_ns: int
    size: int


@dataclass(slots=True)
class LastWriters:
    """The last writer of each file in this process, shared by all agents of a run: real path → (member, digest)."""

    by_path: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])


@dataclass(slots=True)
class Workplace:
    """One agent's place. `cwd` moves with `cd` in the shell; `roots` are the allowed directories by real path.

    `scratch` is a directory of the session for long outputs; `history` keeps former contents of edited files by
    hash; `env` is added to the environment of commands.
    """

    cwd: Path
    roots: tuple[Path, ...]
    scratch: Path
    edit_history: Path
    seen_files: dict[str, SeenFile] = field(default_factory=dict[str, SeenFile])
    last_writers: LastWriters = field(default_factory=LastWriters)
    env: dict[str, str] = field(default_factory=dict[str, str])
    accepts_images: bool = True
    nested_instructions: Callable[[Path], str] | None = None
    """What the instructions of a directory say to an agent that touches a path in it for the first time."""

    def resolve(self, path: str) -> Path:
        """The path as given by a model, made absolute against `cwd`; `~` is expanded; links are kept."""
        return Path(os.path.normpath(os.path.join(self.cwd, os.path.expanduser(path))))

    def is_allowed(self, path: Path) -> bool:
        """Whether the real path lies in an allowed directory."""
        real = Path(os.path.realpath(path))
        return any(real.is_relative_to(root) for root in self.roots)

    def note_seen(self, path: Path, content: bytes) -> SeenFile:
        """Remember that this agent has seen these bytes of the file."""
        stat = os.stat(path)
        reading = SeenFile(hashlib.sha256(content).hexdigest(), stat.st_mtime_ns, stat.st_size)
        self.seen_files[os.path.realpath(path)] = reading
        return reading

    def last_seen(self, path: Path) -> SeenFile | None:
        """How this agent last saw the file, or None."""
        return self.seen_files.get(os.path.realpath(path))


class ToolInput(BaseModel):
    """Base of all inputs. Extra keys are refused; numbers and booleans given as strings are accepted."""

    model_config = ConfigDict(extra="forbid", defer_build=True)


class NoInput(ToolInput):
    """For tools without parameters."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What the model reads. `brief` is one line for people; `ends_turn` stops the agent after this round.

    `facts` goes to program surfaces (stream-json, the log), never to the model. `notes` are the runtime's own and go
    to the model alone, in its tags, after the content; what others wrote in them is escaped. `unfit` says of a call
    that could not be run at all what was wrong: `tool` (there is none of that name), `json` or `input` (its arguments).
    """

    content: str | Sequence[Block]
    is_error: bool = False
    brief: str = ""
    ends_turn: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    notes: tuple[str, ...] = ()
    invalid: str = ""

    @classmethod
    def error(cls, what: str, do: str = "") -> ToolResult:
        """A refusal or failure in two lines: what, and what to do next."""
        return cls(what + (f"\n{do}" if do else ""), is_error=True, brief=what.split("\n", 1)[0])


@dataclass(slots=True)
class ToolContext:
    """What a tool is handed with each call. `call` is `cN`; `tool_use_id` the model's own id of the call.

    `again` says that a kill cut the call off before. `parse_server_key` makes `key`, which most calls never need.
    """

    member: str
    workplace: Workplace
    call: str = ""
    tool_use_id: str = ""
    is_rerun: bool = False
    make_key: Callable[[str], str] = str
    may_call: Callable[[str, Access], bool] = lambda _tool, _access: False
    """Whether its caller has that tool, and such a call of it would run without a question."""
    excluded_paths: Callable[[str, Path], ExcludedPaths] = lambda _tool, _directory: NOTHING_EXCLUDED
    """What a tool of this name must leave out when it shows what is below a directory; the gate fills it."""

    @property
    def key(self) -> str:
        """Names the call for good: a process that goes on after a kill runs it under the same one."""
        return self.make_key(self.tool_use_id)


Input = TypeVar("Input", bound=ToolInput)


class Tool(Generic[Input]):
    """Base of all tools; one tool a file, its description in the `.md` of the same stem beside it.

    Class attributes: `name` as the model calls it; `input_type`; `aliases`; `stem` when the `.md` has another name.
    """

    name: str
    input_type: type[ToolInput] = NoInput
    aliases: tuple[str, ...] = ()
    schema: Mapping[str, Any] | None = None
    """What the model is told of the input, where somebody else says it: `input_type` then takes any object."""
    hidden_parameters: Mapping[str, str] = {}
    """Parameters that cannot be honoured now, and why: they are not in the schema, and passing one is refused."""

    is_offered: bool = True
    """True when the prefix names it. Other tools can still be called, from an older conversation."""

    @property
    def description(self) -> str:
        """What the model is told of the tool: the `.md` beside the module, read once a process."""
        return read_description(type(self))

    def target_call(self, call: Input) -> tuple[AnyTool, Mapping[str, Any]] | None:
        """The tool that is really called, with its arguments: rules, hooks and people see that one. Default: this."""
        return None

    def is_read_only(self, call: Input) -> bool:
        """Whether the call changes nothing: such calls of a round run together."""
        return False

    def can_rerun(self, call: Input) -> bool:
        """Whether a call that a kill cut off may simply be run again: it only reads, or does its work once a key."""
        return self.is_read_only(call)

    def is_wait(self, call: Input) -> bool:
        """Return True for a call that waits for an outside event: repeated calls are then no loop."""
        return False

    def summary(self, call: Input) -> str:
        """One line for people: what is about to happen."""
        return self.name

    def preview(self, call: Input, ctx: ToolContext) -> str:
        """What a person is shown before saying yes: the whole command or diff. Default: the summary."""
        return self.summary(call)

    async def find_facts(self, call: Input, ctx: ToolContext) -> bool:
        """Find out what the call is to be decided by; whether `access` says more now. Default: it knows all."""
        return False

    def access(self, call: Input, ctx: ToolContext) -> Access:
        """What the call would touch: the facts that permission is decided on. Default: only our own files."""
        return HARMLESS

    async def run(self, call: Input, ctx: ToolContext) -> ToolResult:
        """Do it. Raises nothing but `CancelledError` and TeamwrightError (which becomes its `for_model()`)."""
        raise AssertionError(f"{type(self).__name__} has no run")


AnyTool = Tool[Any]


@cache
def read_description(cls: type[Any]) -> str:
    """The text of the `.md` beside the module of this class, with the module's stem."""
    path = Path(cast("str", sys.modules[cls.__module__].__file__)).with_suffix(".md")
    return path.read_text(encoding="utf-8").strip()
