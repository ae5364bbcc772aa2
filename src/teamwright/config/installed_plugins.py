"""Plugins that a person added: a copy of each, bound to the content that the person saw.

`<home>/plugins.json` has for each plugin its source, its commit, the digest of its files and its entry in a
marketplace. A copy that changed is not used. Format: docs/reference/formats/plugins.md.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct, field

from teamwright.config.plugins import Plugin, PluginSource, plugin_variables, read_plugin
from teamwright.protocol.errors import StorageError, UsageError
from teamwright.protocol.unknown_names import did_you_mean
from teamwright.storage.atomic_write import write_atomic
from teamwright.storage.exclusive_lock import hold_exclusive
from teamwright.storage.paths import Home, make_private
from teamwright.storage.read_bounded import read_plain

VERSION = 1
FILE = "plugins.json"

MAX_FILES = 20_000
MAX_BYTES = 256_000_000
"""The most files, and bytes, of one plugin that are copied."""

_MOST = 4_000_000


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
            content: Any = json.loads(read_plain(path, _MOST))
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
    return Path(plugin_variables(plugin, home)["CLAUDE_PLUGIN_DATA"])


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
            kind, content = "link", os.readlink(path).encode("utf-8", "surrogateescape")
        else:
            kind = "program" if path.stat().st_mode & stat.S_IXUSR else "file"
            content = hashlib.sha256(path.read_bytes()).digest()
        parts.update(f"{kind} {relative}\0".encode("utf-8", "surrogateescape") + content + b"\0")
    return parts.hexdigest()


def _files(base: Path) -> Iterator[tuple[Path, str]]:
    """Yield the files of a plugin in a stable order, each with its name below the directory."""
    real, count, size = Path(os.path.realpath(base)), 0, 0
    for directory, below, files in os.walk(base):
        below[:] = sorted(name for name in below if name != ".git")
        links = [name for name in below if os.path.islink(os.path.join(directory, name))]
        for name in sorted([*files, *links]):
            path = Path(directory, name)
            inside = Path(os.path.realpath(path)).is_relative_to(real)
            if name == ".git" or not inside or not (path.is_symlink() or path.is_file()):
                continue
            count, size = count + 1, size + path.lstat().st_size
            if count > MAX_FILES or size > MAX_BYTES:
                what = f"a plugin has at most {MAX_FILES:,} files and {MAX_BYTES:,} bytes"
                raise UsageError("usage", what, looked_at=[("directory", str(base))], note="nothing was added")
            yield path, str(path.relative_to(base))


def _damaged(path: Path, what: str) -> StorageError:
    return StorageError("damaged-file", f"{path} cannot be read: {what}", do=[f"correct or remove {path}"])


def entry_values(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a marketplace's entry that describe the plugin."""
    return {key: value for key, value in entry.items() if key not in {"source", "strict", "category", "tags"}}
