"""Plugins at the place that a person names: a directory, a git repository, or a plugin of a marketplace.

Files are read, or cloned into a scratch directory. Nothing of them runs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from teamwright.config.installed_plugins import InstalledPlugin, entry_values
from teamwright.config.marketplaces import Marketplace, MarketplaceEntry, is_marketplace, read_marketplace
from teamwright.config.plugins import MANIFEST, PluginSource
from teamwright.git.git_calls import CloneFailed, clone_repository, run_git
from teamwright.protocol.errors import UsageError

_GITHUB = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")
_PASSWORD = re.compile(r"[a-z]+://[^/@]*:[^/@]*@")
_ADDRESS = re.compile(r"(?:https?|ssh|git|file)://\S+|[\w.-]+@[\w.-]+:\S+")


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
