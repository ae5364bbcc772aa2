"""Descriptions of tool calls of external members for the approver: a command, a diff, else JSON.

The description shows the whole input and nothing else. No file is read for it, because the external member may not be
allowed to see the content. Depends on the common names of tools.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

Input: TypeAlias = Mapping[str, Any]
Description: TypeAlias = tuple[list[str], frozenset[str]]
"""Lines of a description, and the keys of the input that the lines show completely."""


def describe_call(tool: str, given: Input, description: str = "") -> str:
    """Return the description of a tool call, followed by the rest of the input as JSON."""
    shows = _SHOWS.get(tool)
    lines, said = (shows(given) if shows is not None else None) or ([], frozenset[str]())
    rest = {key: value for key, value in given.items() if key not in said}
    if rest.get("description") == description:
        rest.pop("description")
    if rest or not lines:
        lines.append(json.dumps(rest, indent=2, ensure_ascii=False))
    return "\n".join([*([description] if description else []), *lines])


def _command(given: Input) -> Description | None:
    command = given.get("command")
    return ([command], frozenset({"command"})) if isinstance(command, str) else None


def _whole_file(given: Input) -> Description | None:
    path, content = given.get("file_path"), given.get("content")
    if not isinstance(path, str) or not isinstance(content, str):
        return None
    lines = content.removesuffix("\n").split("\n") if content else []
    end = [] if not content or content.endswith("\n") else ["\\ no line end here"]
    return [f"{path}: all of it", *_marked("+", lines), *end], frozenset({"file_path", "content"})


def _replacement(given: Input) -> Description | None:
    path, old, new = given.get("file_path"), given.get("old_string"), given.get("new_string")
    if not isinstance(path, str) or not isinstance(old, str) or not isinstance(new, str):
        return None
    keys = {"file_path", "old_string", "new_string"}
    everywhere = given.get("replace_all")
    if isinstance(everywhere, bool):
        keys.add("replace_all")
    where = "at every place" if everywhere is True else "at one place"
    return [f"{path}: {where}", *_marked("-", old.split("\n")), *_marked("+", new.split("\n"))], frozenset(keys)


def _marked(mark: str, lines: Sequence[str]) -> list[str]:
    return [mark + line for line in lines]


_SHOWS: Mapping[str, Callable[[Input], Description | None]] = {
    "Bash": _command,
    "Write": _whole_file,
    "Edit": _replacement,
}
"""Tools whose calls are easier to read in another form than JSON."""
