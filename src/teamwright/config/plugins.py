"""Plugins: directories that a person names, with agents, skills, commands, hooks and MCP servers of one author.

The manifest `.claude-plugin/plugin.json` has the name and may name paths of parts; so may the plugin's entry in a
marketplace. No path leads out of the directory, by link or by name. Format: docs/reference/formats/plugins.md.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.config.dead_guards import find_dead_hook
from teamwright.hooks.hook_index import HookSpec, parse_hooks
from teamwright.protocol.errors import UsageError
from teamwright.skills.skill_search import SKILL_FILE
from teamwright.storage.paths import Home
from teamwright.storage.read_bounded import read_plain

MANIFEST = Path(".claude-plugin") / "plugin.json"
ROOT, DATA = "CLAUDE_PLUGIN_ROOT", "CLAUDE_PLUGIN_DATA"
"""The variables by which a plugin's parts name its directory, and its data directory."""

_USUAL = {"agents": "./agents", "skills": "./skills", "commands": "./commands"}
_ADDED = "skills"
"""The part whose named paths add to the usual directory. Other named paths replace it."""
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


def plugin_variables(plugin: Plugin, home: Home) -> dict[str, str]:
    """Return the variables that the hooks, servers and texts of a plugin may use. The data directory need not exist."""
    return {ROOT: os.path.realpath(plugin.path), DATA: str(home.own / "plugin-data" / plugin.name)}


def plugin_hooks(plugin: Plugin, home: Home) -> tuple[HookSpec, ...]:
    """Return the hooks of a plugin with its variables. The directory of its data is created if there are any."""
    variables = plugin_variables(plugin, home)
    if plugin.hooks:
        os.makedirs(variables[DATA], mode=0o700, exist_ok=True)
    return tuple(replace(hook, variables=tuple(variables.items())) for hook in plugin.hooks)


class PluginSource(Struct, frozen=True):
    """The directory of a plugin, and its entry in a marketplace, which may name further parts.

    `is_whole`: the entry describes the plugin alone, and its manifest is not read. `is_shared`: other plugins of the
    marketplace have the same directory, so that only named skills belong to this one.
    """

    path: Path
    entry: Mapping[str, Any] = field(default_factory=dict[str, Any])
    is_whole: bool = False
    is_shared: bool = False


def plugin_at(path: Path) -> Plugin:
    """Return the plugin in a directory, named by its manifest, else like the directory.

    Raises UsageError with the file.
    """
    return read_plugin(PluginSource(path))


def read_plugin(source: PluginSource) -> Plugin:
    """Return the plugin of a source: named by its manifest, else by its entry, else like the directory.

    Raises UsageError with the file.
    """
    if not source.path.is_dir():
        raise _bad(source.path, f"there is no directory {source.path}")
    return _PluginReader(source).plugin()


class _PluginReader:
    """A reader of one plugin."""

    def __init__(self, source: PluginSource) -> None:
        self.source, self.path = source, source.path
        self.file = self.path / MANIFEST
        manifest = {} if source.is_whole else self._object(self.file, "plugin.json") or {}
        self.fields: dict[str, Any] = {**source.entry, **manifest}
        self.parts: tuple[Mapping[str, Any], ...] = (manifest, source.entry)

    @property
    def is_listed(self) -> bool:
        """True when the plugin has only the parts that its entry names: the directory is that of a marketplace."""
        named = any(key in self.source.entry for key in (*_USUAL, *_FILES))
        return self.source.is_whole and self.source.is_shared and named

    def plugin(self) -> Plugin:
        fields, path = self.fields, self.path
        name = fields.get("name", os.path.basename(os.path.realpath(path)))
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise self._wrong(f"{str(name)[:60]!r} cannot be a plugin's name")
        hooks, warnings = self._hooks()
        ignored = [part for part in _OTHERS if (path / part).exists()]
        ignored += [f"{MANIFEST}: {key}" for key in _OTHER_KEYS if key in fields]
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
        value = self.fields.get(key, "")
        if not isinstance(value, str):
            raise self._wrong(f"{key} is not a text")
        return value

    def _places(self, key: str) -> tuple[Path, ...]:
        """Return the paths that the manifest and the entry name, and the usual path where they do not replace it."""
        named = [one for part in self.parts for one in _listed(part.get(key, []))]
        found = [self._inside(key, one) for one in named]
        usual = self.path / _USUAL[key]
        replaced = self.is_listed or (bool(found) and (key != _ADDED or self.source.is_shared))
        if key == _ADDED and not found and not usual.is_dir() and (self.path / SKILL_FILE).is_file():
            return (self.path,)
        return tuple(dict.fromkeys([*([usual] if usual.is_dir() and not replaced else []), *found]))

    def _inside(self, key: str, part: object) -> Path:
        """Return the path of a part. Raises UsageError for a missing path or one outside the plugin."""
        if part == "." and key == _ADDED:
            return self.path
        if not isinstance(part, str) or not part.startswith("./") or "\0" in part:
            raise self._wrong(f"{key} must be a path that begins with ./, or a list of them")
        place = Path(os.path.normpath(self.path / part))
        if not Path(os.path.realpath(place)).is_relative_to(os.path.realpath(self.path)):
            raise self._wrong(f"{key}: {part} leads out of the plugin")
        if not place.exists():
            raise self._wrong(f"{key}: there is no {part}")
        return place

    def _values(self, key: str) -> list[tuple[Any, Path]]:
        """Return the values of a part, each with its file: inline, in named files, or in the usual file."""
        named = [one for part in self.parts for one in _listed(part.get(key, []))]
        found: list[tuple[Any, Path]] = [(one, self.file) for one in named if isinstance(one, dict)]
        files = [self._inside(key, one) for one in named if not isinstance(one, dict)]
        for file in files if named or self.is_listed else [self.path / _FILES[key]]:
            read = self._object(file, file.name) or {}
            found.append((read.get(key, {} if key == "hooks" else read), file))
        return found

    def _hooks(self) -> tuple[tuple[HookSpec, ...], tuple[str, ...]]:
        hooks: list[HookSpec] = []
        warnings: list[str] = []
        for value, file in self._values("hooks"):
            found, lines = parse_hooks(value, str(file))
            hooks += found
            warnings += lines
            warnings += [f"{file}: a hook of {hook.event}: {dead}" for hook in found if (dead := find_dead_hook(hook))]
        return tuple(hooks), tuple(warnings)

    def _servers(self) -> dict[str, Any]:
        servers: dict[str, Any] = {}
        for value, file in self._values("mcpServers"):
            if not isinstance(value, dict):
                raise _bad(self.path, "mcpServers is not an object", file)
            servers |= cast("dict[str, Any]", value)
        return servers

    def _object(self, file: Path, title: str) -> dict[str, Any] | None:
        """Return the object in a file; None when the file does not exist."""
        try:
            content: Any = json.loads(read_plain(file, _MOST))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except json.JSONDecodeError as problem:
            raise _bad(
                self.path, f"its {title} is no JSON: {problem.msg.lower()}, line {problem.lineno}", file
            ) from None
        except (OSError, ValueError, RecursionError) as problem:
            raise _bad(self.path, f"its {title} cannot be read: {str(problem)[:120]}", file) from None
        if not isinstance(content, dict):
            raise _bad(self.path, f"its {title} is not an object", file)
        return cast("dict[str, Any]", content)

    def _wrong(self, what: str) -> UsageError:
        return _bad(self.path, f"its plugin.json cannot be used: {what}", self.file)


def _listed(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def _bad(path: Path, what: str, file: Path | None = None) -> UsageError:
    looked_at = [("plugin", str(path)), *([("file", str(file))] if file is not None else [])]
    return UsageError("usage", what, looked_at=looked_at, note="nothing was started")
