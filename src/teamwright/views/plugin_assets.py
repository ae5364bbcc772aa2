"""Assets of skills, commands and plugins, files in their directories that are not read, and the contents of one plugin.

Depends on the directories that a run searches. An untrusted entry of a repository is not opened. Each file that is not
read is listed. Of a plugin, a person sees first what it allows and runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from teamwright.config.agent_types.definition_sources import definition_sources
from teamwright.config.agent_types.registry import AgentTypes
from teamwright.config.mcp_settings import PROJECT_DIRECTORY
from teamwright.config.plugins import Plugin, plugin_variables
from teamwright.config.project_mcp_file import describe_server
from teamwright.config.settings.setting_parts import line_in
from teamwright.config.trusted_skills import plugin_places, repository_places, user_places
from teamwright.mcp.server_config import ConfigSource, parse_entry
from teamwright.skills.command_template import describe_effects
from teamwright.skills.skill_definition import SkillDefinition
from teamwright.skills.skill_search import MAX_FILE_BYTES, SkillDirectory, find_skills
from teamwright.storage.paths import Home
from teamwright.storage.read_bounded import read_plain
from teamwright.views.assets import Asset, CheckSubject, State, display_path, parse_location, remark_state

_GROUPS = {"skill": "skills", "command": "commands"}
_TRUST = "teamwright trust shows it"


def skill_assets(subject: CheckSubject) -> Iterator[Asset]:
    """Yield all skills and commands, in order of precedence."""
    settings = subject.survey.settings
    own = user_places(subject.query.home, subject.compat)
    known = {os.path.realpath(place.directory) for place in own}
    theirs = repository_places(subject.trust, subject.compat)
    theirs = [place for place in theirs if os.path.realpath(place.directory) not in known]
    yield from found_assets(subject, [*own, *theirs], {})
    for entry in subject.trust.entries:
        mine = os.path.realpath(os.path.dirname(subject.root / entry.file)) in known
        if entry.kind in _GROUPS and not mine and not subject.trust.allows(entry):
            off = entry.name.lower() in settings.skills_off
            state: State = "ignored" if off else "needs trust"
            file = str(subject.root / entry.file)
            yield Asset(_GROUPS[entry.kind], entry.name, state, file, 0, "skills.disabled names it" if off else _TRUST)


def found_assets(
    subject: CheckSubject, places: list[SkillDirectory], first: dict[tuple[str, str], str]
) -> Iterator[Asset]:
    """Yield the skills in these directories; `first` has the file that already defines each name."""
    for place in places:
        found = find_skills(place)
        skill_problems = {problem for skill in found.definitions for problem in skill.problems}
        for skill in found.definitions:
            yield from _skill(subject, skill, first)
        for path, why in found.skipped:
            yield Asset(_GROUPS[place.kind], path.name, "ignored", str(path), 0, why)
        for problem in found.problems:
            if problem not in skill_problems:
                file, line, why = parse_location(problem.removesuffix("; left out"))
                state: State = "ignored" if "leads out" in why or "only the first" in why else "broken"
                yield Asset(_GROUPS[place.kind], file.rpartition("/")[2], state, file, line, why)


def _skill(subject: CheckSubject, skill: SkillDefinition, first: dict[tuple[str, str], str]) -> Iterator[Asset]:
    group, file, settings = _GROUPS[skill.kind], str(skill.file), subject.survey.settings
    key = (skill.kind, skill.name.lower())
    if not settings.skills:
        yield Asset(group, skill.name, "ignored", file, 0, "skills.enabled is off")
        return
    if key[1] in settings.skills_off:
        yield Asset(group, skill.name, "ignored", file, 0, "skills.disabled names it")
        return
    if key in first:
        yield Asset(group, skill.name, "ignored", file, 0, f"{display_path(first[key], subject.cwd)} is nearer")
        return
    first[key] = file
    yield Asset(group, skill.name, "used", file)
    for problem in skill.problems:
        _, line, what = parse_location(problem, file)
        yield Asset(group, skill.name, remark_state(what), file, line, what)


PLUGINS, OTHERS = "plugins", "other files"

_READ = frozenset(
    {
        "settings.json",
        "settings.local.json",
        "agents",
        "skills",
        "commands",
        "hooks",
        "CLAUDE.md",
        "rules",
        "output-styles",
    }
)
"""Files of `.claude` that are read, or run by a file that is read."""

_NOT_READ = {
    "plugins": "teamwright plugin add adds a plugin here",
    "keybindings.json": "key bindings are not read",
    "statusline.sh": "a status line script is not run: the terminal has its own line",
}
_OURS = frozenset(
    {"settings.json", "settings.local.json", "team.toml", "agents", "skills", "commands", "hooks", "output-styles"}
)
_MANAGED = (
    Path("/etc/claude-code/managed-settings.json"),
    Path("/Library/Application Support/ClaudeCode/managed-settings.json"),
)


def plugin_assets(subject: CheckSubject) -> Iterator[Asset]:
    """Yield the plugins of flags with their parts other than agents; a plugin that cannot be read is broken."""
    for path, problem in subject.bad_plugins:
        file = dict(problem.looked_at).get("file", str(path))
        yield Asset(PLUGINS, path.name, "broken", file, line_in(problem.what), problem.what)
    for plugin in subject.plugins:
        yield Asset(PLUGINS, plugin.name, "used", str(plugin.path))
        yield from found_assets(subject, plugin_places(plugin, subject.query.home), {})
        yield from _hooks_and_servers(subject, plugin)
        for part in plugin.ignored:
            yield Asset(PLUGINS, plugin.name, "ignored", str(plugin.path / part), 0, "it is not read")


def _hooks_and_servers(subject: CheckSubject, plugin: Plugin) -> Iterator[Asset]:
    """Yield the hooks and servers of a plugin."""
    off = subject.survey.settings.hooks_off
    for hook in plugin.hooks:
        name, why = f"{hook.event}: {hook.line}", "disableAllHooks is on" if off else ""
        yield Asset("hooks", name, "ignored" if off else "used", hook.source, 0, why)
    for text in plugin.warnings:
        file, line, why = parse_location(text)
        yield Asset("hooks", plugin.name, "ignored", file or str(plugin.path), line, why)
    project = dict.fromkeys(PROJECT_DIRECTORY, str(subject.root))
    variables = {**subject.variables(of_repository=False), **project, **plugin_variables(plugin, subject.query.home)}
    reading = ConfigSource(f"plugin {plugin.name}", subject.cwd, variables, subject.withheld)
    for name, entry in plugin.servers.items():
        whole = f"plugin_{plugin.name}_{name}"
        read = parse_entry(whole, entry, reading)
        state: State = "used" if read.config is not None else "broken" if read.is_broken else "ignored"
        yield Asset("MCP servers", whole, state, str(plugin.path), 0, read.reason or read.warning)


def other_assets(subject: CheckSubject) -> Iterator[Asset]:
    """Yield files of the other product, and of Teamwright, that exist and are not read."""
    theirs, home = subject.root / ".claude", Path(os.path.expanduser("~/.claude"))
    if not subject.compat:
        mine = [subject.root / name for name in ("CLAUDE.md", "CLAUDE.local.md", ".mcp.json")]
        mine += [base / name for base in dict.fromkeys((theirs, home)) for name in sorted(_READ)]
        mine += [home / "CLAUDE.md"]
        yield from _existing(mine, dict.fromkeys((path.name for path in mine), "compat.claude is off"))
    if os.path.realpath(theirs) != os.path.realpath(home):
        yield from _existing([theirs / name for name in _names(theirs) if name not in _READ], _NOT_READ)
    yield from _existing([home / name for name in _NOT_READ if name != "CLAUDE.md"], _NOT_READ)
    yield from _existing([home.with_suffix(".json")], {".claude.json": "teamwright import takes its MCP servers over"})
    yield from _existing(_MANAGED, dict.fromkeys((path.name for path in _MANAGED), "managed settings are not read"))
    ours = subject.root / ".teamwright"
    if os.path.realpath(ours) != os.path.realpath(subject.query.home.own):
        yield from _existing([ours / name for name in _names(ours) if name not in _OURS], {})


def _existing(paths: Iterable[Path], why: Mapping[str, str]) -> Iterator[Asset]:
    for path in paths:
        if os.path.exists(path):  # also without permission to read it
            yield Asset(OTHERS, path.name, "ignored", str(path), 0, why.get(path.name, "it is not read"))


def _names(directory: Path) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


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
    found_names = {kind: tuple(sorted(found)) for kind, found in names.items() if found}
    return PluginContents((*allows, *runs), found_names, tuple(dict.fromkeys(problems)))


def _agents(plugin: Plugin, home: Home) -> Iterator[tuple[str, list[str]]]:
    """Yield the agents of the plugin, each with lines about what it runs."""
    places = definition_sources(home, plugin.path, compat=False, plugins=[plugin])
    for entry in AgentTypes(places).entries():
        kind = entry.source.definition
        if kind is None or not kind.name.startswith(f"{plugin.name}:"):
            continue
        lines = [f"agent {kind.name}; hook {' '.join(hook.name.split())}" for hook in kind.hooks]
        servers = ((name, server) for name, server in kind.mcp_servers.items() if server)
        yield kind.name, [*lines, *(f"agent {kind.name}; mcp server {describe_server(*one)}" for one in servers)]
