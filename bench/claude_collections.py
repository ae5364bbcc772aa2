"""What Teamwright uses of public collections: `python -m bench.claude_collections DIR... [--manifest FILE]`.

Each DIR is a checkout of a collection of agents, commands, skills, hooks or plugins. Every part is judged as a run
judges it after a person trusted it. The manifest has names, commits and counts, and none of the content.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct, field

from teamwright.config.agent_types import DefinitionDirectory
from teamwright.config.plugin_sources import is_marketplace, read_marketplace
from teamwright.config.plugins import MANIFEST, PluginSource
from teamwright.config.trust import TrustStore
from teamwright.storage.paths import Home, find_home
from teamwright.views.configuration_sources import Asset, AssetQuery, parse_location
from teamwright.views.directory_configuration import list_assets

PARTS = ("agents", "commands", "skills", "hooks")
"""The counted groups. The goal is 99 % for agents and 90 % for the others."""

NO_HEAD = "there is no front matter"
_DOCUMENTS = ("a skill is a directory", "a command is a .md file", "it has no SKILL.md")
_HIDDEN = " is nearer"
_NO_START = "it does not start"
_FILLED_IN = frozenset(
    {"CLAUDE_PLUGIN_ROOT", "CLAUDE_PLUGIN_DATA", "CLAUDE_PROJECT_DIR", "CLAUDE_SESSION_ID", "CLAUDE_SKILL_DIR"}
)
_PLACEHOLDER = re.compile(r"\$\{(CLAUDE_[A-Z_]+)\}")


class Part(Struct, frozen=True):
    """One definition or hook: `used`, or the reason why it is not."""

    group: str
    name: str
    used: bool
    why: str = ""


class Collection(Struct):
    """A checkout and its parts; `documents` are Markdown files among the agents that define none."""

    name: str
    commit: str
    parts: list[Part] = field(default_factory=list[Part])
    documents: int = 0

    def count(self, group: str) -> tuple[int, int]:
        """Return the number of used parts of a group, and of all its parts."""
        mine = [part for part in self.parts if part.group == group]
        return sum(part.used for part in mine), len(mine)

    @property
    def reasons(self) -> Counter[str]:
        """The reasons of unused parts, with their number."""
        return Counter(f"{part.group}: {part.why}" for part in self.parts if not part.used)


def read_collection(path: Path, scratch: Path) -> Collection:
    """Return all parts of a checkout. `scratch` is an empty directory for the trust of this reading."""
    found = Collection(path.name, _commit(path))
    home = find_home(scratch / "home")
    home.prepare()
    empty = scratch / "empty"
    empty.mkdir()
    if (path / ".claude").is_dir():
        _add(found, _assets(home, path))
    for plugin in _plugins(path):
        _add(found, _assets(home, empty, plugin))
    if not found.parts:
        _add(found, _loose_agents(path))
    return found


def _plugins(path: Path) -> list[PluginSource]:
    """Return the plugins of a checkout: those of its marketplace, then other directories with a manifest."""
    listed = read_marketplace(path).entries if is_marketplace(path) else ()
    found = [entry.local for entry in listed if entry.local is not None]
    known = {os.path.realpath(one.path) for one in found}
    others = sorted(file.parent.parent for file in path.rglob(str(MANIFEST)))
    return [*found, *(PluginSource(one) for one in others if os.path.realpath(one) not in known)]


def _commit(path: Path) -> str:
    said = subprocess.run(["git", "-C", str(path), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return said.stdout.strip()


def _assets(home: Home, directory: Path, *plugins: PluginSource) -> Sequence[Asset]:
    """Return the assets of a repository, which is trusted as a whole, and of plugins."""
    trust = TrustStore.load(home)
    trust.give(trust.verdict(directory))
    return list_assets(AssetQuery(home, directory, {}, plugins=plugins)).assets


def _loose_agents(path: Path) -> Iterator[Asset]:
    """Yield the definitions of a checkout that people copy into `~/.claude/agents`."""
    for found in DefinitionDirectory("collection", path).definitions():
        _, line, why = parse_location(found.problem, found.file)
        yield Asset("agents", found.name, "broken" if found.problem else "used", found.file, line, why)


def _add(found: Collection, assets: Iterable[Asset]) -> None:
    """Add the parts of these assets. Of several assets with one name and file the first is the definition itself."""
    seen: set[tuple[str, ...]] = set()
    kept = list(assets)
    stuck = {(asset.name, asset.file): asset.why for asset in kept if asset.why.startswith(_NO_START)}
    for asset in kept:
        key = (asset.group, asset.name, asset.file, *([str(len(seen))] if asset.group == "hooks" else []))
        if asset.group not in PARTS or key in seen or asset.why.startswith(_DOCUMENTS):
            continue
        seen.add(key)
        if asset.group == "agents" and asset.why.startswith(NO_HEAD):
            found.documents += 1
            continue
        why = stuck.get((asset.name, asset.file), "")
        if not why and asset.state != "used" and not asset.why.endswith(_HIDDEN):
            why = asset.why
        if not why and asset.group in ("commands", "skills"):
            why = _unfilled(Path(asset.file))
        found.parts.append(Part(asset.group, asset.name, not why, why))


def _unfilled(file: Path) -> str:
    """Return the problem of a text with a placeholder that no run fills in."""
    names = {found[1] for found in _PLACEHOLDER.finditer(file.read_text(encoding="utf-8", errors="replace"))}
    return f"its text has ${{{min(names - _FILLED_IN)}}}, which is not filled in" if names - _FILLED_IN else ""


def _share(used: int, every: int) -> str:
    return f"{used}/{every}" if every else "-"


def _show(collections: Sequence[Collection]) -> None:
    total = Collection("all", "", [part for one in collections for part in one.parts])
    width = max(len(one.name) for one in (*collections, total))
    print(f"{'collection':{width}}  " + "  ".join(f"{group:>9}" for group in PARTS))
    for one in (*collections, total):
        print(f"{one.name:{width}}  " + "  ".join(f"{_share(*one.count(group)):>9}" for group in PARTS))
    for one in collections:
        if one.documents:
            print(f"{one.name}: {one.documents} documents among the agents, which are no definitions")
        for reason, number in sorted(one.reasons.items()):
            print(f"{one.name}: {number} not used: {reason}")
    for group in PARTS:
        used, every = total.count(group)
        if every:
            print(f"{group}: {100 * used / every:.1f} % used")


def _manifest(collections: Sequence[Collection]) -> str:
    rows = [
        {
            "name": one.name.replace("+", "/", 1),
            "commit": one.commit,
            **{group: dict(zip(("used", "all"), one.count(group), strict=True)) for group in PARTS},
        }
        for one in collections
    ]
    return "[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n"


def main() -> None:
    """Read the collections, print the table and the reasons, and write the manifest."""
    parser = argparse.ArgumentParser(prog="python -m bench.claude_collections", description="Counts of used parts.")
    parser.add_argument("directories", nargs="+", type=Path, metavar="DIR", help="a checkout of a collection")
    parser.add_argument("--manifest", type=Path, metavar="FILE", help="write names, commits and counts as JSON")
    given = parser.parse_args()
    collections: list[Collection] = []
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["HOME"] = scratch  # a person's own ~/.claude is no part of the collection
        for number, directory in enumerate(given.directories):
            place = Path(scratch) / str(number)
            place.mkdir()
            collections.append(read_collection(Path(os.path.realpath(directory)), place))
    _show(collections)
    if given.manifest is not None:
        given.manifest.write_text(_manifest(collections), encoding="utf-8")


if __name__ == "__main__":
    main()
