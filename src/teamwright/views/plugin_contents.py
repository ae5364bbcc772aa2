"""The contents of a plugin for a person who decides about it: what it allows and runs first, then its other parts."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from teamwright.config.agent_types.definition_sources import definition_sources
from teamwright.config.agent_types.registry import AgentTypes
from teamwright.config.plugins import Plugin
from teamwright.config.project_mcp import describe_server
from teamwright.config.skill_sources import plugin_places
from teamwright.skills.command_template import describe_effects
from teamwright.skills.skill_search import MAX_FILE_BYTES, find_skills
from teamwright.storage.paths import Home
from teamwright.storage.read_bounded import read_plain


class PluginContents(Struct, frozen=True):
    """The parts of a plugin: lines about what it allows or runs, in full, and the names of the others by kind."""

    effects: tuple[str, ...]
    names: dict[str, tuple[str, ...]]
    problems: tuple[str, ...] = ()


def plugin_contents(plugin: Plugin, home: Home) -> PluginContents:
    """Return the contents of a plugin. Reads its files; nothing of it runs."""
    allows: list[str] = []
    runs: list[str] = []
    names: dict[str, list[str]] = {"agents": [], "skills": [], "commands": []}
    problems = [*plugin.warnings, *(f"{part}: it is not read" for part in plugin.ignored)]
    for place in plugin_places(plugin, home):
        found = find_skills(place)
        problems += found.problems
        for skill in found.definitions:
            names[f"{skill.kind}s"].append(skill.name)
            text = read_plain(skill.file, MAX_FILE_BYTES).decode("utf-8", "replace")
            if does := describe_effects([text]):
                (allows if "allows: " in does else runs).append(f"{skill.kind} {skill.name}; {does}")
    runs += (f"hook {' '.join(hook.name.split())}" for hook in plugin.hooks)
    runs += (f"mcp server {describe_server(name, entry)}" for name, entry in plugin.servers.items())
    for name, lines in _agents(plugin, home):
        names["agents"].append(name)
        runs += lines
    kept = {kind: tuple(sorted(found)) for kind, found in names.items() if found}
    return PluginContents((*allows, *runs), kept, tuple(dict.fromkeys(problems)))


def _agents(plugin: Plugin, home: Home) -> Iterator[tuple[str, list[str]]]:
    """Yield the agents of the plugin, each with lines about what it runs."""
    places = definition_sources(home, plugin.path, compat=False, plugins=[plugin])
    for entry in AgentTypes(places).entries():
        kind = entry.source.definition
        if kind is None or not kind.name.startswith(f"{plugin.name}:"):
            continue
        lines = [f"agent {kind.name}; hook {' '.join(hook.name.split())}" for hook in kind.hooks]
        servers = ((name, said) for name, said in kind.mcp_servers.items() if said)
        yield kind.name, [*lines, *(f"agent {kind.name}; mcp server {describe_server(*one)}" for one in servers)]
