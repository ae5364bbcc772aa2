"""Marketplaces: directories whose `.claude-plugin/marketplace.json` lists plugins, each with the source of its files.

Reads the list only: nothing is fetched or run. Format: docs/reference/formats/plugins.md.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, field

from teamwright.config.plugins import PluginSource
from teamwright.protocol.errors import UsageError
from teamwright.protocol.unknown_names import did_you_mean
from teamwright.storage.read_bounded import read_plain

LIST = Path(".claude-plugin") / "marketplace.json"

_MOST = 4_000_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_GITHUB = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")


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


def is_marketplace(path: Path) -> bool:
    """Return True when the directory is a marketplace."""
    return (path / LIST).is_file()


def read_marketplace(path: Path) -> Marketplace:
    """Return the marketplace in a directory. Raises UsageError for a list that cannot be read."""
    file = path / LIST
    try:
        content: Any = json.loads(read_plain(file, _MOST))
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
            return _unusable(entry, f"its source {source[:60]} leads out of the marketplace")
        if not os.path.isdir(place):
            return _unusable(entry, f"there is no directory {source[:60]}")
        shared = os.path.realpath(place) == os.path.realpath(path)
        return _with(entry, PluginSource(Path(place), fields, entry.is_whole, shared), None)
    if not isinstance(source, dict):
        return _unusable(entry, "it has no source")
    return _remote(entry, cast("dict[str, Any]", source))


def _remote(entry: MarketplaceEntry, source: Mapping[str, Any]) -> MarketplaceEntry:
    kind = source.get("source")
    texts = {key: value for key, value in source.items() if isinstance(value, str)}
    ref = texts.get("sha") or texts.get("ref", "")
    repository = texts.get("repo", "") or texts.get("url", "")
    if kind == "github" and _GITHUB.fullmatch(texts.get("repo", "")):
        return _with(entry, None, RemoteSource(f"https://github.com/{texts['repo']}.git", ref, texts.get("path", "")))
    if kind in {"url", "git", "git-subdir"} and repository:
        url = f"https://github.com/{repository}.git" if _GITHUB.fullmatch(repository) else repository
        return _with(entry, None, RemoteSource(url, ref, texts.get("path", "")))
    return _unusable(entry, f"a source of the kind {str(kind)[:40]!r} is not fetched; clone it and add its directory")


def _with(entry: MarketplaceEntry, local: PluginSource | None, remote: RemoteSource | None) -> MarketplaceEntry:
    return MarketplaceEntry(entry.name, entry.description, local, remote, entry.values)


def _unusable(entry: MarketplaceEntry, why: str) -> MarketplaceEntry:
    return MarketplaceEntry(entry.name, entry.description, values=entry.values, problem=why)


def _bad(file: Path, what: str) -> UsageError:
    return UsageError(
        "usage", f"the marketplace cannot be read: {what}", looked_at=[("file", str(file))], note="nothing was added"
    )
