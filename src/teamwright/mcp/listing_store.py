"""The lists of a server's parts, stored on disk by its configuration, so that a session knows them before a start.

Format of the files: docs/reference/formats/mcp.md. Files are checked and bounded like the server's own lists.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from teamwright.mcp.client import MAX_INSTRUCTIONS
from teamwright.mcp.json_rpc import plain_line, plain_text
from teamwright.mcp.tool_listing import MAX_TOOLS, ServedTool, parse_tools
from teamwright.protocol.errors import StorageError
from teamwright.storage.files import read_plain, write_atomic
from teamwright.storage.paths import make_private

VERSION = 1
MAX_FILE_BYTES = 8_000_000
MAX_STORED = 200
"""Maximum number of listing files; the oldest ones beyond it are removed."""

MAX_PROMPTS, MAX_ARGUMENTS = 200, 20


class PromptArgument(Struct, frozen=True):
    """An argument of a prompt."""

    name: str
    description: str = ""
    required: bool = False


class ServedPrompt(Struct, frozen=True):
    """A prompt of a server; `name` is its name there."""

    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


class ServerListing(Struct, frozen=True):
    """The known parts of a server: its tools, its instructions, its prompts, and whether it has resources."""

    tools: tuple[ServedTool, ...] = ()
    instructions: str = ""
    prompts: tuple[ServedPrompt, ...] = ()
    has_resources: bool = False


def parse_prompts(raw: Iterable[object]) -> tuple[ServedPrompt, ...]:
    """Return the usable prompts of a list; others are left out."""
    found: dict[str, ServedPrompt] = {}
    for entry in raw:
        prompt = _object(entry)
        name = prompt.get("name")
        arguments = prompt.get("arguments")
        if not isinstance(name, str) or not name.strip() or not name.isprintable() or len(name) > 200:
            continue
        entries = [_object(one) for one in cast("list[object]", arguments)] if isinstance(arguments, list) else []
        prompt_arguments = tuple(
            PromptArgument(str(one["name"]), _line(one.get("description")), one.get("required") is True)
            for one in entries[:MAX_ARGUMENTS]
            if isinstance(one.get("name"), str) and str(one["name"]).isprintable()
        )
        found.setdefault(name, ServedPrompt(name, _line(prompt.get("description")), prompt_arguments))
    return tuple(found.values())[:MAX_PROMPTS]


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _line(value: object) -> str:
    return plain_line(value) if isinstance(value, str) else ""


class ListingStore:
    """The listing files of a home, one for each configuration. Unreadable files and failed writes are ignored."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def load(self, digest: str, key: str) -> ServerListing | None:
        """Return the last listing of the server with that configuration; None when there is none."""
        try:
            read: Any = json.loads(read_plain(self._path(digest), MAX_FILE_BYTES))
            if read["v"] != VERSION or not isinstance(read["tools"], list):
                return None
            tools = parse_tools(key, cast("list[object]", read["tools"])[:MAX_TOOLS])[0]
            instructions = read.get("instructions")
            prompts = read.get("prompts")
            return ServerListing(
                tools,
                plain_text(instructions, MAX_INSTRUCTIONS) if isinstance(instructions, str) else "",
                parse_prompts(cast("list[object]", prompts)) if isinstance(prompts, list) else (),
                read.get("resources") is True,
            )
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def save(self, digest: str, server: str, listing: ServerListing) -> None:
        listed = [
            {"name": tool.remote_name, "description": tool.description, "inputSchema": tool.schema}
            | ({"execution": {"taskSupport": "optional"}} if tool.as_task else {})
            for tool in listing.tools
        ]
        body: dict[str, Any] = {"v": VERSION, "server": server, "tools": listed}
        if listing.instructions:
            body["instructions"] = listing.instructions
        if listing.prompts:
            body["prompts"] = [_prompt(prompt) for prompt in listing.prompts]
        if listing.has_resources:
            body["resources"] = True
        with contextlib.suppress(OSError, StorageError):
            make_private(self._directory)
            content = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
            write_atomic(self._path(digest), content)
            self._prune()

    def _path(self, digest: str) -> Path:
        return self._directory / f"{digest}.json"

    def _prune(self) -> None:
        files = list(self._directory.glob("*.json"))
        if len(files) > MAX_STORED:
            files.sort(key=lambda path: path.stat().st_mtime)
            for path in files[:-MAX_STORED]:
                path.unlink(missing_ok=True)


def _prompt(prompt: ServedPrompt) -> dict[str, Any]:
    arguments = [
        {"name": one.name, "description": one.description, "required": one.required} for one in prompt.arguments
    ]
    return {"name": prompt.name, "description": prompt.description, "arguments": arguments}
