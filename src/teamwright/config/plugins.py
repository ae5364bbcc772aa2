"""Plugins: directories with agents, skills, commands, hooks and MCP servers of one author, and the added ones.

The manifest `.claude-plugin/plugin.json` has the name and may name paths of parts; so may the plugin's entry in a
marketplace. No path leads out of the directory, by link or by name. An added plugin is a copy in the home, bound to the
content that the person saw: a copy that changed is not used. Format: docs/reference/formats/plugins.md.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.config.unmatched_guards import find_dead_hook
from teamwright.hooks.hook_definitions import HookSpec, parse_hooks
from teamwright.protocol.errors import StorageError, UsageError
from teamwright.protocol.ids import did_you_mean
from teamwright.skills.skill_catalog import SKILL_FILE
from teamwright.storage.files import read_plain, write_atomic
from teamwright.storage.locks import hold_exclusive
from teamwright.storage.paths import Home, make_private

MANIFEST = Path(".claude-plugin") / "plugin.json"


ROOT, DATA = "CLAUDE_PLUGIN_ROOT", "CLAUDE_PLUGIN_DATA"
"""The variables by which a plugin's parts name its directory, and its data directory."""


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


def plugin_variables(plugin: Plugin, home: Home) -> dict[str, str]:
    """Return the variables that the hooks, servers and texts of a plugin may use. The data directory need not exist."""
    return {ROOT: os.path.realpath(plugin.path), DATA: str(home.own / "plugin-data" / plugin.name)}


def plugin_hooks(plugin: Plugin, home: Home) -> tuple[HookSpec, ...]:
    """Return the hooks of a plugin with its variables. The directory of its data is created if there are any."""
    variables = plugin_variables(plugin, home)
    if plugin.hooks:
        os.makedirs(variables[DATA], mode=0o700, exist_ok=True)
    return tuple(replace(hook, variables=tuple(variables.items())) for hook in plugin.hooks)


_USUAL = {"agents": "./agents", "skills": "./skills", "commands": "./commands"}
_ADDED = "skills"
"""The part whose named paths add to the usual directory. Other named paths replace it."""
_FILES = {"hooks": "./hooks/hooks.json", "mcpServers": "./.mcp.json"}
_OTHERS = ("output-styles", ".lsp.json")
_OTHER_KEYS = ("outputStyles", "lspServers")
_MAX_MANIFEST_BYTES = 1_000_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class _PluginReader:
    """A reader of one plugin."""

    def __init__(self, source: PluginSource) -> None:
        self.source = source
        self.path = source.path
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
        fields = self.fields
        path = self.path
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
            content: Any = json.loads(read_plain(file, _MAX_MANIFEST_BYTES))
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


VERSION = 1
FILE = "plugins.json"

MAX_FILES = 20_000
MAX_BYTES = 256_000_000
"""The most files, and bytes, of one plugin that are copied."""

_MAX_LIST_BYTES = 4_000_000


class InstalledPlugin(Struct, frozen=True, kw_only=True):
    """One added plugin. `source` is where it came from, `marketplace` the name of its entry there, or empty.

    `commit` is the git commit of its files, empty outside git; `digest` is that of its copy in `directory`.
    """

    name: str
    source: str
    directory: str
    digest: str
    commit: str = ""
    ref: str = ""
    marketplace: str = ""
    version: str = ""
    added_at: str = ""
    entry: dict[str, Any] = field(default_factory=dict[str, Any])
    is_whole: bool = False
    is_shared: bool = False

    @property
    def plugin_source(self) -> PluginSource:
        """The source of its parts."""
        return PluginSource(Path(self.directory), self.entry, self.is_whole, self.is_shared)


class PluginStore:
    """The added plugins of a home, by name. `add` and `remove` read the file again and write it, under its lock."""

    def __init__(self, home: Home, plugins: dict[str, InstalledPlugin]) -> None:
        self.home = home
        self.plugins = plugins

    @classmethod
    def load(cls, home: Home) -> PluginStore:
        """Return the added plugins. Raises StorageError for a file that cannot be read or has a newer version."""
        path = home.own / FILE
        try:
            content: Any = json.loads(read_plain(path, _MAX_LIST_BYTES))
        except (FileNotFoundError, NotADirectoryError):
            return cls(home, {})
        except (OSError, ValueError, RecursionError) as problem:
            raise _damaged(path, str(problem)[:120]) from None
        whole = cast("dict[str, Any]", content) if isinstance(content, dict) else dict[str, Any]()
        version: Any = whole.get("version")
        if isinstance(version, int) and version > VERSION:
            what = f"{path} has version {version}, and this Teamwright knows {VERSION}"
            raise StorageError("newer-version", what, do=["use the newer Teamwright that wrote it"])
        try:
            found = msgspec.convert(whole.get("plugins"), dict[str, InstalledPlugin])
        except msgspec.ValidationError as problem:
            raise _damaged(path, str(problem)[:120]) from None
        return cls(home, found)

    def find(self, name: str) -> InstalledPlugin:
        """Return the plugin of this name. Raises UsageError with the nearest name."""
        if name not in self.plugins:
            do = did_you_mean(name, self.plugins, ["teamwright plugin list"])
            raise UsageError("usage", f"there is no added plugin {name[:60]!r}", do=do, note="nothing was changed")
        return self.plugins[name]

    def add(self, plugin: InstalledPlugin) -> None:
        """Record a plugin whose copy is there, in place of one of its name, whose copy is removed."""
        with self._latest():
            former = self.plugins.get(plugin.name)
            self.plugins[plugin.name] = plugin
            self._write()
        if former is not None and former.directory != plugin.directory:
            shutil.rmtree(former.directory, ignore_errors=True)

    def remove(self, name: str) -> InstalledPlugin:
        """Remove a plugin and its copy. Its data stays. Raises UsageError for an unknown name."""
        with self._latest():
            plugin = self.find(name)
            del self.plugins[name]
            self._write()
        shutil.rmtree(Path(plugin.directory).parent, ignore_errors=True)
        return plugin

    @contextmanager
    def _latest(self) -> Generator[None]:
        """Hold the lock of the file, with the plugins that it has now: another process may have written it."""
        path = self.home.own / FILE
        with hold_exclusive(path.with_suffix(".lock"), path):
            self.plugins = PluginStore.load(self.home).plugins
            yield

    def _write(self) -> None:
        entries = {name: msgspec.to_builtins(one) for name, one in sorted(self.plugins.items())}
        text = json.dumps({"version": VERSION, "plugins": entries}, indent=2) + "\n"
        write_atomic(self.home.own / FILE, text.encode())


def installed_plugins(home: Home) -> tuple[list[Plugin], list[str]]:
    """Return the added plugins that may be used, and a line for each other one. Never raises."""
    if not os.path.lexists(home.own / FILE):
        return [], []
    try:
        store = PluginStore.load(home)
    except StorageError as problem:
        return [], [f"no added plugin is used: {problem.what}"]
    found: list[Plugin] = []
    problems: list[str] = []
    for one in store.plugins.values():
        try:
            require_unchanged(one)
            found.append(read_plugin(one.plugin_source))
        except UsageError as problem:
            problems.append(f"the added plugin {one.name} is not used: {problem.what}")
    return found, problems


def require_unchanged(plugin: InstalledPlugin) -> None:
    """Raise UsageError when the copy is not what a person added."""
    try:
        same = digest_of(Path(plugin.directory)) == plugin.digest
    except (OSError, UsageError):
        same = False
    if not same:
        do = [f"teamwright plugin update {plugin.name}"]
        raise UsageError("usage", "its files changed since a person added it", do=do, note="it is not used")


def data_directory(plugin: Plugin, home: Home) -> Path:
    """Return the directory of a plugin's own data, which outlives its removal."""
    return Path(plugin_variables(plugin, home)[DATA])


def copy_plugin(source: Path, home: Home, name: str) -> tuple[Path, str]:
    """Copy a plugin's files and return the directory and the digest. Raises UsageError for too many files.

    Files of git are left out, and so is a link that leads out of the plugin.
    """
    base = home.own / "plugins" / name
    make_private(base)
    scratch = base / f".new-{os.getpid()}"
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        for path, relative in _files(source):
            target = scratch / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            if path.is_symlink():
                os.symlink(os.readlink(path), target)
            else:
                shutil.copyfile(path, target)
                target.chmod(0o700 if path.stat().st_mode & stat.S_IXUSR else 0o600)
        scratch.mkdir(exist_ok=True)
        digest = digest_of(scratch)
        final = _place(scratch, base / digest[:16], digest)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return final, digest


def _place(scratch: Path, final: Path, digest: str) -> Path:
    """Move a new copy to its place, and return the place.

    An unchanged copy that is there already stays: another process may use it, and a kill must not lose it.
    """
    with suppress(OSError, UsageError):
        if digest_of(final) == digest:
            return final
    shutil.rmtree(final, ignore_errors=True)
    try:
        os.rename(scratch, final)
    except OSError:  # another process has just placed the same copy
        if digest_of(final) != digest:
            raise
    return final


def digest_of(directory: Path) -> str:
    """Return the digest of all names, contents and modes of a plugin's files. Raises OSError, UsageError."""
    parts = hashlib.sha256()
    for path, relative in _files(directory):
        if path.is_symlink():
            kind = "link"
            content = os.readlink(path).encode("utf-8", "surrogateescape")
        else:
            kind = "program" if path.stat().st_mode & stat.S_IXUSR else "file"
            content = hashlib.sha256(path.read_bytes()).digest()
        parts.update(f"{kind} {relative}\0".encode("utf-8", "surrogateescape") + content + b"\0")
    return parts.hexdigest()


def _files(base: Path) -> Iterator[tuple[Path, str]]:
    """Yield the files of a plugin in a stable order, each with its name below the directory."""
    real = Path(os.path.realpath(base))
    count = 0
    size = 0
    for directory, below, files in os.walk(base):
        below[:] = sorted(name for name in below if name != ".git")
        links = [name for name in below if os.path.islink(os.path.join(directory, name))]
        for name in sorted([*files, *links]):
            path = Path(directory, name)
            inside = Path(os.path.realpath(path)).is_relative_to(real)
            if name == ".git" or not inside or not (path.is_symlink() or path.is_file()):
                continue
            count += 1
            size += path.lstat().st_size
            if count > MAX_FILES or size > MAX_BYTES:
                what = f"a plugin has at most {MAX_FILES:,} files and {MAX_BYTES:,} bytes"
                raise UsageError("usage", what, looked_at=[("directory", str(base))], note="nothing was added")
            yield path, str(path.relative_to(base))


def _damaged(path: Path, what: str) -> StorageError:
    return StorageError("damaged-file", f"{path} cannot be read: {what}", do=[f"correct or remove {path}"])


def entry_values(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a marketplace's entry that describe the plugin."""
    return {key: value for key, value in entry.items() if key not in {"source", "strict", "category", "tags"}}
