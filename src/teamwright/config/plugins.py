"""Plugins: directories that a person names, with agents, skills, commands, hooks and MCP servers of one author.

The manifest `.claude-plugin/plugin.json` has the name, and may name further paths of parts, which add to the usual
ones. No path leads out of the directory, by link or by name. Format: docs/reference/formats/plugins.md.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.hooks.hook_index import HookSpec, parse_hooks
from teamwright.protocol.errors import UsageError
from teamwright.storage.read_bounded import read_plain

MANIFEST = Path(".claude-plugin") / "plugin.json"
ROOT = "CLAUDE_PLUGIN_ROOT"
"""The variable by which a plugin's hooks and servers name its directory."""

_USUAL = {"agents": "./agents", "skills": "./skills", "commands": "./commands"}
_FILES = {"hooks": "./hooks/hooks.json", "mcpServers": "./.mcp.json"}
_OTHERS = ("output-styles", ".lsp.json")
_OTHER_KEYS = ("outputStyles", "lspServers")
_MOST = 1_000_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Plugin(Struct, frozen=True):
    """A plugin. `agents`, `skills` and `commands` are directories or files; `ignored` are parts that are not read.

    `servers` are entries of MCP servers by name, verbatim; `warnings` are lines about entries that are left out.
    """

    name: str
    path: Path
    version: str = ""
    description: str = ""
    agents: tuple[Path, ...] = ()
    skills: tuple[Path, ...] = ()
    commands: tuple[Path, ...] = ()
    hooks: tuple[HookSpec, ...] = ()
    servers: Mapping[str, Any] = field(default_factory=dict[str, Any])
    ignored: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def plugin_at(path: Path) -> Plugin:
    """Return the plugin in a directory, named by its manifest, else like the directory.

    Raises UsageError with the file.
    """
    if not path.is_dir():
        raise _bad(path, f"there is no directory {path}")
    return _PluginReader(path).plugin()


class _PluginReader:
    """A reader of one plugin."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path / MANIFEST
        self.said = self._object(self.file, "plugin.json") or {}

    def plugin(self) -> Plugin:
        said, path = self.said, self.path
        name = said.get("name", os.path.basename(os.path.realpath(path)))
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise self._wrong(f"{str(name)[:60]!r} cannot be a plugin's name")
        hooks, warnings = self._hooks()
        ignored = [part for part in _OTHERS if (path / part).exists()]
        ignored += [f"{MANIFEST}: {key}" for key in _OTHER_KEYS if key in said]
        agents, skills, commands = (self._places(key) for key in _USUAL)
        return Plugin(
            name,
            path,
            self._text("version"),
            self._text("description"),
            agents,
            skills,
            commands,
            hooks=hooks,
            servers=self._servers(),
            ignored=tuple(ignored),
            warnings=warnings,
        )

    def _text(self, key: str) -> str:
        value = self.said.get(key, "")
        if not isinstance(value, str):
            raise self._wrong(f"{key} is not a text")
        return value

    def _places(self, key: str) -> tuple[Path, ...]:
        """Return the usual path, if it exists, and the paths that the manifest names."""
        value = self.said.get(key, [])
        named = cast("list[Any]", value) if isinstance(value, list) else [value]
        found = [self._inside(key, one) for one in named]
        usual = self.path / _USUAL[key]
        return tuple(dict.fromkeys([*([usual] if usual.is_dir() else []), *found]))

    def _inside(self, key: str, said: object) -> Path:
        """Return the path of a part. Raises UsageError for a missing path or one outside the plugin."""
        if not isinstance(said, str) or not said.startswith("./") or "\0" in said:
            raise self._wrong(f"{key} must be a path that begins with ./, or a list of them")
        place = Path(os.path.normpath(self.path / said))
        if not Path(os.path.realpath(place)).is_relative_to(os.path.realpath(self.path)):
            raise self._wrong(f"{key}: {said} leads out of the plugin")
        if not place.exists():
            raise self._wrong(f"{key}: there is no {said}")
        return place

    def _part(self, key: str) -> tuple[Any, Path]:
        """Return a part and its file: inline in the manifest, in the file that it names, or in the usual file."""
        value = self.said.get(key)
        if isinstance(value, dict):
            return cast("dict[str, Any]", value), self.file
        file = self._inside(key, value) if value is not None else self.path / _FILES[key]
        read = self._object(file, file.name) or {}
        return read.get(key, {} if key == "hooks" else read), file

    def _hooks(self) -> tuple[tuple[HookSpec, ...], tuple[str, ...]]:
        value, file = self._part("hooks")
        found, warnings = parse_hooks(value, str(file))
        given = f"export {ROOT}={shlex.quote(os.path.realpath(self.path))}; "
        return tuple(replace(hook, command=given + hook.command) for hook in found), tuple(warnings)

    def _servers(self) -> dict[str, Any]:
        value, file = self._part("mcpServers")
        if not isinstance(value, dict):
            raise _bad(self.path, "mcpServers is not an object", file)
        return cast("dict[str, Any]", value)

    def _object(self, file: Path, shown: str) -> dict[str, Any] | None:
        """Return the object in a file; None when the file does not exist."""
        try:
            said: Any = json.loads(read_plain(file, _MOST))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except json.JSONDecodeError as problem:
            raise _bad(
                self.path, f"its {shown} is no JSON: {problem.msg.lower()}, line {problem.lineno}", file
            ) from None
        except (OSError, ValueError, RecursionError) as problem:
            raise _bad(self.path, f"its {shown} cannot be read: {str(problem)[:120]}", file) from None
        if not isinstance(said, dict):
            raise _bad(self.path, f"its {shown} is not an object", file)
        return cast("dict[str, Any]", said)

    def _wrong(self, what: str) -> UsageError:
        return _bad(self.path, f"its plugin.json cannot be used: {what}", self.file)


def _bad(path: Path, what: str, file: Path | None = None) -> UsageError:
    looked_at = [("--plugin-dir", str(path)), *([("file", str(file))] if file is not None else [])]
    return UsageError("usage", what, looked_at=looked_at, note="nothing was started")
