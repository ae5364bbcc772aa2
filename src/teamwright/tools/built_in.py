"""The built-in tools as models know them before their first call: `built_in_tools.json` has their names and schemas.

The file is made from the tools by `make generated`, and a test compares them: so a session loads neither the tools nor
pydantic until a model calls one.
"""

from __future__ import annotations

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

    `more_text` follows the `.md` text in its description; the other arguments are those of `Tool`.
    """

    def __init__(
        self,
        kind: str,
        make: Callable[[], AnyTool],
        *,
        more_text: str = "",
        hidden_parameters: Mapping[str, HiddenParameter] | None = None,
        is_offered: bool = True,
    ) -> None:
        entry = _entries()[kind]
        self.kind = kind
        self.name = entry["name"]
        self.aliases = tuple(entry["aliases"])
        self.schema = entry["input_schema"]
        self.hidden_parameters = hidden_parameters or {}
        self.is_offered = is_offered
        self._make = make
        self._more_text = more_text
        self._tool: AnyTool | None = None

    @property
    def description(self) -> str:
        """The `.md` text beside the tool's module, and the further text."""
        text = read_tool_text(_text_path(self.kind))
        return f"{text}\n{self._more_text}" if self._more_text else text

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
def _entries() -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", json.loads(ENTRIES_FILE.read_bytes()))


@cache
def _text_path(kind: str) -> Path:
    return _DIRECTORY.joinpath(*tools.MODULES[kind].split(".")).with_suffix(".md")
