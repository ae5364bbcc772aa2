"""The built-in tools as models know them before their first call: `built_in_tools.json` has their names and schemas.

The file is made from the tools by `make generated`, and a test compares them: so a session loads neither the tools nor
pydantic until a model calls one.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

from teamwright import tools
from teamwright.agent.tool import AnyTool, HiddenParameter, Tool, read_tool_text

ENTRIES_FILE = Path(__file__).with_name("built_in_tools.json")

_DIRECTORY = Path(__file__).parent


class BuiltInTool(Tool[Any]):
    """The tool of this class name (`kind`), which `make` constructs when it is first called.

    `more_text` follows the `.md` text in its description, and `compact_text` the shorter one of the compact prompt; the
    other arguments are those of `Tool`.
    """

    def __init__(
        self,
        kind: str,
        make: Callable[[], AnyTool],
        *,
        more_text: str = "",
        hidden_parameters: Mapping[str, HiddenParameter] | None = None,
        is_offered: bool = True,
        is_rare: bool = False,
        compact_text: str = "",
    ) -> None:
        entry = _entries()[kind]
        self.kind = kind
        self.name = entry["name"]
        self.aliases = tuple(entry["aliases"])
        self.schema = entry["input_schema"]
        self.hidden_parameters = hidden_parameters or {}
        self.is_offered = is_offered
        self.is_rare = is_rare
        self._make = make
        self._texts = more_text, compact_text
        self._is_compact = False
        self._tool: AnyTool | None = None

    @property
    def description(self) -> str:
        """The `.md` text beside the tool's module, and the further text."""
        more, compact_text = self._texts
        path = _text_path(self.kind)
        text = read_tool_text(path.with_suffix(".compact.md") if self._is_compact else path)
        following = compact_text if self._is_compact else more
        return f"{text}\n{following}" if following else text

    def with_parameters(self, names: tuple[str, ...] | None) -> BuiltInTool:
        """Return the tool as the compact prompt has it, with these parameters; None: as the full prompt has it."""
        if (names is not None) == self._is_compact:
            return self
        other = copy.copy(self)
        other._make = self.load
        other._is_compact = names is not None
        other.schema = _entries()[self.kind]["input_schema"] if names is None else _compact_schema(self.kind, names)
        return other

    def load(self) -> AnyTool:
        """Return the tool, constructed once."""
        if self._tool is None:
            self._tool = self._make()
        return self._tool


@cache
def fork_text() -> str:
    """Return the part on forks in the description of the Agent tool."""
    return read_tool_text(_DIRECTORY / "subagent" / "fork.md")


@cache
def _compact_schema(kind: str, names: tuple[str, ...]) -> Mapping[str, Any]:
    """Return the schema of a built-in tool with these parameters, without words about them."""
    whole = _entries()[kind]["input_schema"]
    properties = {name: _bare_schema(whole["properties"][name]) for name in names}
    required = [name for name in whole.get("required", ()) if name in properties]
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _bare_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the type of a parameter and its choices. One that may be text is text."""
    kinds = [one["type"] for one in schema.get("anyOf", (schema,))]
    bare: dict[str, Any] = {"type": "string" if "string" in kinds else kinds[0]}
    if "enum" in schema:
        bare["enum"] = schema["enum"]
    if "items" in schema:
        bare["items"] = _bare_schema(schema["items"])
    return bare


@cache
def _entries() -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", json.loads(ENTRIES_FILE.read_bytes()))


@cache
def _text_path(kind: str) -> Path:
    return _DIRECTORY.joinpath(*tools.MODULES[kind].split(".")).with_suffix(".md")
