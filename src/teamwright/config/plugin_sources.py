"""Plugins at the place that a person names: a directory, a git repository, or a plugin of a marketplace.

A marketplace is a directory whose `.claude-plugin/marketplace.json` lists plugins, each with the source of its files.
Files are read, or cloned into a scratch directory; nothing of them runs. Format: docs/reference/formats/plugins.md.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.config.plugins import MANIFEST, InstalledPlugin, PluginSource, entry_values
from teamwright.git.git_calls import CloneFailed, clone_repository, run_git
from teamwright.protocol.errors import UsageError
from teamwright.protocol.ids import did_you_mean
from teamwright.storage.files import read_plain

LIST = Path(".claude-plugin") / "marketplace.json"


class RemoteSource(Struct, frozen=True):
    """A git repository with a plugin's files: its address, the branch, tag or commit, and the directory in it."""

    url: str
    ref: str = ""
    directory: str = ""


class MarketplaceEntry(Struct, frozen=True):
    """One plugin of a marketplace: its files, in the marketplace's directory or in another repository.

    `problem` says why it cannot be added; then it has no source.
    """

    name: str
    description: str = ""
    local: PluginSource | None = None
    remote: RemoteSource | None = None
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    problem: str = ""

    @property
    def is_whole(self) -> bool:
        """True when the entry describes the plugin alone."""
        return self.values.get("strict") is False


class Marketplace(Struct, frozen=True):
    """A marketplace and its plugins, in their order."""

    name: str
    path: Path
    entries: tuple[MarketplaceEntry, ...] = ()

    def entry(self, name: str) -> MarketplaceEntry:
        """Return the plugin of this name. Raises UsageError with the nearest name."""
        found = next((one for one in self.entries if one.name == name), None)
        if found is None:
            names = [one.name for one in self.entries]
            raise UsageError(
                "usage",
                f"the marketplace {self.name} has no plugin {name[:60]!r}",
                looked_at=[("file", str(self.path / LIST)), ("plugins", ", ".join(names))],
                do=did_you_mean(name, names),
                note="nothing was added",
            )
        return found


class FetchedPlugin(Struct, frozen=True):
    """A plugin that could be added. `origin` is its source as it is stored, `entry_name` its name in a marketplace."""

    source: PluginSource
    origin: str
    commit: str = ""
    ref: str = ""
    entry_name: str = ""


class _Place(Struct, frozen=True):
    path: Path
    origin: str
    commit: str = ""
    ref: str = ""


def fetch_plugins(text: str, names: Sequence[str], cwd: Path, scratch: Path) -> list[FetchedPlugin]:
    """Return the plugins of a source: a directory or a git address, with `#REF` for a branch, tag or commit.

    `names` choose plugins of a marketplace. `scratch` takes clones. Raises UsageError.
    """
    place = _fetch(text, cwd, scratch / "source")
    if not is_marketplace(place.path):
        if names:
            raise UsageError("usage", f"{text} is no marketplace, so no name follows it", note="nothing was added")
        return [FetchedPlugin(PluginSource(place.path), place.origin, place.commit, place.ref)]
    market = read_marketplace(place.path)
    return [
        _of_entry(market.entry(name), place, scratch / str(number))
        for number, name in enumerate(names or _only_name(market, text))
    ]


def fetch_again(plugin: InstalledPlugin, scratch: Path) -> FetchedPlugin:
    """Return what the source of an added plugin has now. Raises UsageError."""
    text = f"{plugin.source}#{plugin.ref}" if plugin.ref else plugin.source
    [found] = fetch_plugins(text, [plugin.marketplace] if plugin.marketplace else [], Path("/"), scratch)
    return found


def is_marketplace(path: Path) -> bool:
    """Return True when the directory is a marketplace."""
    return (path / LIST).is_file()


def read_marketplace(path: Path) -> Marketplace:
    """Return the marketplace in a directory. Raises UsageError for a list that cannot be read."""
    file = path / LIST
    try:
        content: Any = json.loads(read_plain(file, _MAX_LIST_BYTES))
    except (OSError, ValueError, RecursionError) as problem:
        raise _bad(file, str(problem)[:120]) from None
    plugins: Any = cast("dict[str, Any]", content).get("plugins") if isinstance(content, dict) else None
    if not isinstance(plugins, list):
        raise _bad(file, "it has no list of plugins")
    whole = cast("dict[str, Any]", content)
    meta: Any = whole.get("metadata")
    base: Any = cast("dict[str, Any]", meta).get("pluginRoot", "") if isinstance(meta, dict) else ""
    entries = [
        _entry(path, cast("dict[str, Any]", one), base if isinstance(base, str) else "")
        for one in cast("list[Any]", plugins)
        if isinstance(one, dict)
    ]
    name: Any = whole.get("name")
    return Marketplace(name if isinstance(name, str) and _NAME.fullmatch(name) else path.name, path, tuple(entries))


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


_GITHUB = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")


def _entry(path: Path, fields: Mapping[str, Any], base: str) -> MarketplaceEntry:
    name: Any = fields.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return MarketplaceEntry(str(name)[:60], problem="its name cannot be a plugin's name")
    about: Any = fields.get("description")
    entry = MarketplaceEntry(name, about if isinstance(about, str) else "", values=fields)
    source: Any = fields.get("source")
    if isinstance(source, str):
        place = os.path.normpath(path / (source if source.startswith("./") or not base else f"{base}/{source}"))
        if not Path(os.path.realpath(place)).is_relative_to(os.path.realpath(path)):
            return replace(entry, problem=f"its source {source[:60]} leads out of the marketplace")
        if not os.path.isdir(place):
            return replace(entry, problem=f"there is no directory {source[:60]}")
        shared = os.path.realpath(place) == os.path.realpath(path)
        return replace(entry, local=PluginSource(Path(place), fields, entry.is_whole, shared))
    if not isinstance(source, dict):
        return replace(entry, problem="it has no source")
    return _remote(entry, cast("dict[str, Any]", source))


def _remote(entry: MarketplaceEntry, source: Mapping[str, Any]) -> MarketplaceEntry:
    kind = source.get("source")
    texts = {key: value for key, value in source.items() if isinstance(value, str)}
    ref = texts.get("sha") or texts.get("ref", "")
    repository = texts.get("repo", "") or texts.get("url", "")
    if kind == "github" and _GITHUB.fullmatch(texts.get("repo", "")):
        url = f"https://github.com/{texts['repo']}.git"
    elif kind in {"url", "git", "git-subdir"} and repository:
        url = f"https://github.com/{repository}.git" if _GITHUB.fullmatch(repository) else repository
    else:
        what = f"a source of the kind {str(kind)[:40]!r} is not fetched; clone it and add its directory"
        return replace(entry, problem=what)
    return replace(entry, remote=RemoteSource(url, ref, texts.get("path", "")))


def _bad(file: Path, what: str) -> UsageError:
    return UsageError(
        "usage", f"the marketplace cannot be read: {what}", looked_at=[("file", str(file))], note="nothing was added"
    )


_MAX_LIST_BYTES = 4_000_000


_PASSWORD = re.compile(r"[a-z]+://[^/@]*:[^/@]*@")
_ADDRESS = re.compile(r"(?:https?|ssh|git|file)://\S+|[\w.-]+@[\w.-]+:\S+")


_DESCRIBED = 8
"""The most plugins that are listed with their descriptions; the others have their names only."""


def _only_name(market: Marketplace, text: str) -> list[str]:
    """Return the name of the one plugin of a marketplace, or of the plugin in its own directory."""
    own = [one.name for one in market.entries if one.local is not None and one.local.path == market.path]
    if len(market.entries) == 1:
        return [market.entries[0].name]
    if len(own) == 1 and (market.path / MANIFEST).is_file():
        return own
    usable = [one for one in market.entries if not one.problem]
    lines = [("plugin", f"{one.name}: {' '.join(one.description.split())[:80]}") for one in usable[:_DESCRIBED]]
    if others := ", ".join(one.name for one in usable[_DESCRIBED:]):
        lines.append((f"{len(usable) - _DESCRIBED} more", others))
    if unusable := "; ".join(f"{one.name}: {one.problem}" for one in market.entries if one.problem):
        lines.append(("not usable", unusable))
    raise UsageError(
        "usage",
        f"the marketplace {market.name} has {len(market.entries)} plugins: name the ones to add",
        looked_at=lines,
        do=[f"teamwright plugin add {text} {usable[0].name}"] if usable else [],
        note="nothing was added",
    )


def _of_entry(entry: MarketplaceEntry, place: _Place, into: Path) -> FetchedPlugin:
    if entry.problem:
        raise UsageError("usage", f"the plugin {entry.name} cannot be added: {entry.problem}", note="nothing was added")
    values = entry_values(entry.values)
    if entry.local is not None:
        source = replace(entry.local, entry=values)
        return FetchedPlugin(source, place.origin, place.commit, place.ref, entry.name)
    remote = entry.remote
    if remote is None:
        raise UsageError("usage", f"the plugin {entry.name} has no source", note="nothing was added")
    got = _clone(remote.url, remote.ref, into)
    inside = Path(os.path.normpath(got.path / remote.directory))
    if not Path(os.path.realpath(inside)).is_relative_to(os.path.realpath(got.path)):
        what = f"the plugin {entry.name} cannot be added: its directory leads out of its repository"
        raise UsageError("usage", what, note="nothing was added")
    source = PluginSource(inside, values, entry.is_whole)
    return FetchedPlugin(source, place.origin, got.commit, place.ref, entry.name)


def _fetch(text: str, cwd: Path, into: Path) -> _Place:
    address, _, ref = text.partition("#")
    directory = Path(os.path.realpath(cwd / os.path.expanduser(address)))
    if directory.is_dir():
        if ref:
            raise UsageError("usage", f"a directory is added as it is: leave out #{ref[:40]}", note="nothing was added")
        head = run_git(directory, "rev-parse", "--verify", "--quiet", "HEAD")
        return _Place(directory, str(directory), head.output.strip() if head.ok else "")
    if _ADDRESS.fullmatch(address):
        return _clone(address, ref, into)
    if _GITHUB.fullmatch(address):
        return _clone(f"https://github.com/{address}.git", ref, into)
    raise UsageError(
        "usage",
        f"there is no directory {address[:120]}, and it is no git address",
        do=[f"teamwright plugin add {form}" for form in ("./DIR", "https://HOST/PATH.git", "OWNER/REPO")],
        note="nothing was added",
    )


def _clone(address: str, ref: str, into: Path) -> _Place:
    if _PASSWORD.match(address):
        what = "an address with a password in it would be stored"
        do = ["use the address without it: git asks its credential helper"]
        raise UsageError("usage", what, do=do, note="nothing was added")
    try:
        clone = clone_repository(address, ref, into)
    except CloneFailed as problem:
        what = f"{address} could not be fetched: {problem}"
        raise UsageError("usage", what, note="nothing was added") from None
    return _Place(clone.path, address, clone.commit, ref)
