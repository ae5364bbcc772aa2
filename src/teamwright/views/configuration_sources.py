"""Assets: the files and entries that a run reads, with the place and the state of each, and the reason of the state.

A check looks at a directory with its settings, its saved trust and the additions of flags. It starts no server and
opens no untrusted entry of the repository. A damaged trust file, or settings file of a flag, raises an error; a fault
in another file becomes an asset.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from teamwright.config.agent_types import AgentTypes, definition_sources
from teamwright.config.mcp_settings import PROJECT_DIRECTORY, reading_of
from teamwright.config.plugins import FILE as INSTALLED_FILE
from teamwright.config.plugins import Plugin, PluginSource, installed_plugins, plugin_variables, read_plugin
from teamwright.config.project_mcp_file import FILE as SERVERS_FILE
from teamwright.config.project_mcp_file import SERVERS, describe_server
from teamwright.config.settings.files import SettingsLayer
from teamwright.config.settings.setting_parts import WHOLE, SettingPart, State, line_in, positions_of
from teamwright.config.settings.settings import SettingFlags
from teamwright.config.settings.show import SettingsSurvey, reads_compat_files, survey_settings
from teamwright.config.trust import TrustState, TrustStore
from teamwright.config.trust_entries import HOOKS
from teamwright.config.trusted_skills import plugin_places, repository_places, user_places
from teamwright.mcp.server_config import MAX_SERVERS, ConfigSource, parse_entry
from teamwright.protocol.errors import UsageError
from teamwright.skills.skill_catalog import MAX_FILE_BYTES, SkillDirectory, find_skills
from teamwright.skills.skill_definition import SkillDefinition, describe_effects
from teamwright.storage.files import read_plain
from teamwright.storage.paths import Home
from teamwright.tools.shell.bash_settings import remove_variables

SETTINGS = "settings"
HOOKS_GROUP = "hooks"
SERVERS_GROUP = "MCP servers"
PLUGINS = "plugins"
OTHERS = "other files"

GROUPS = (
    "instructions",
    SETTINGS,
    "agents",
    "skills",
    "commands",
    HOOKS_GROUP,
    SERVERS_GROUP,
    "team file",
    PLUGINS,
    OTHERS,
)
"""Groups of assets, in the order in which they are shown."""


class Asset(Struct, frozen=True):
    """One asset. `file` is absolute; `line` counts from 1, 0 without a line. `why` is the reason of the state, or
    empty.
    """

    group: str
    name: str
    state: State
    file: str
    line: int = 0
    why: str = ""


class AssetQuery(Struct, frozen=True):
    """The directory to check. `env` is the environment; `agents` and `plugins` are values of flags."""

    home: Home
    cwd: Path
    env: Mapping[str, str]
    settings_file: Path | str | None = None
    agents: Mapping[str, Any] = field(default_factory=dict[str, Any])
    plugins: Sequence[PluginSource] = ()


class CheckSubject(Struct, frozen=True):
    """The query with the settings and the trust that a run would have. `cwd` is the real path."""

    query: AssetQuery
    cwd: Path
    trust: TrustState
    compat: bool
    survey: SettingsSurvey
    plugins: Sequence[Plugin] = ()
    bad_plugins: Sequence[tuple[Path, UsageError]] = ()

    def variables(self, *, of_repository: bool) -> dict[str, str]:
        """Return the variables that an entry of an MCP server may use. Only a repository's entries get what it sets."""
        settings = self.survey.settings
        return {**self.query.env, **(settings.env if of_repository else settings.person_env)}

    @property
    def withheld(self) -> frozenset[str]:
        """The variables that are withheld from entries of others."""
        return frozenset(self.query.env) - frozenset(remove_variables(self.survey.settings.bash.hidden, self.query.env))

    @property
    def root(self) -> Path:
        """The top of the repository."""
        return self.trust.root


def load_subject(query: AssetQuery) -> CheckSubject:
    """Load trust and settings. Raises CannotStart for the trust file and for the file that `--settings` names."""
    flags = SettingFlags(settings_file=query.settings_file)
    cwd = Path(os.path.realpath(query.cwd))
    compat = reads_compat_files(query.home, flags)
    trust = TrustStore.load(query.home).verdict(cwd, compat=compat)
    plugins: list[Plugin] = []
    bad: list[tuple[Path, UsageError]] = []
    for source in query.plugins:
        try:
            plugins.append(read_plugin(source))
        except UsageError as problem:
            bad.append((source.path, problem))
    added, problems = installed_plugins(query.home)
    plugins += added
    bad += [(query.home.own / INSTALLED_FILE, UsageError("usage", line)) for line in problems]
    return CheckSubject(query, cwd, trust, compat, survey_settings(query.home, cwd, flags, trust), plugins, bad)


# ── settings, hooks and servers ────────────────────────────────────────────────────────────────────────────────

_TRUST = "teamwright trust shows it"


def settings_assets(subject: CheckSubject) -> Iterator[Asset]:
    """Yield the settings files, each with its values that have no effect."""
    parts = subject.survey.parts
    for part in parts:
        if part.key == WHOLE and part.path.name != SERVERS_FILE:
            yield Asset(SETTINGS, part.path.name, "broken", str(part.path), part.line, part.why)
    for layer in subject.survey.layers:
        mine = [part for part in parts if part.layer is layer]
        used = sum(part.state == "used" for part in mine)
        waits = not used and any(part.state == "needs trust" for part in mine)
        state: State = "needs trust" if waits else "used"
        why = _TRUST if waits else f"{used} value holds" if used == 1 else f"{used} values hold"
        yield Asset(SETTINGS, layer.path.name, state, str(layer.path), 0, why)
        yield from _remarks(layer)
        yield from (_part_asset(part) for part in mine if part.state != "used" and part.key not in (HOOKS, SERVERS))


def _remarks(layer: SettingsLayer) -> Iterator[Asset]:
    places = positions_of(layer)
    twice = {str(at[-1]): line for at, line in places.twice}
    for remark in layer.remarks:
        line = twice.get(remark.name) or places.line(*remark.name.split("."))
        yield Asset(SETTINGS, remark.name, "used" if remark.used else "ignored", str(layer.path), line, remark.what)


def hook_assets(subject: CheckSubject) -> Iterator[Asset]:
    """Yield each hook of settings files; hooks of definitions and plugins are listed with those."""
    off = subject.survey.settings.hooks_off
    for part in subject.survey.parts:
        if part.key == HOOKS:
            if off and part.state == "used":
                yield Asset(HOOKS_GROUP, part.name, "ignored", str(part.path), part.line, "disableAllHooks is on")
            else:
                yield _part_asset(part, HOOKS_GROUP, part.name)


def server_assets(subject: CheckSubject) -> Iterator[Asset]:
    """Yield each MCP server of settings files and of `.mcp.json`."""
    withheld = subject.withheld
    seen = 0
    for part in subject.survey.parts:
        if part.key == WHOLE and part.path.name == SERVERS_FILE:
            yield Asset(SERVERS_GROUP, SERVERS_FILE, "broken", str(part.path), part.line, part.why)
        if part.key != SERVERS:
            continue
        seen += part.state == "used"
        asset = _part_asset(part, SERVERS_GROUP, part.name)
        of_repository = part.layer.origin.of_repository
        variables = subject.variables(of_repository=of_repository)
        reading = reading_of("", subject.root, subject.cwd, variables, withheld if of_repository else None)
        read = parse_entry(part.name, part.value, reading)
        if read.is_broken or (part.state == "used" and read.config is None):
            state = "broken" if read.is_broken else "ignored"
            yield Asset(SERVERS_GROUP, asset.name, state, asset.file, asset.line, read.reason)
            continue
        yield asset
        if read.unknown_key:
            yield Asset(SERVERS_GROUP, asset.name, "ignored", asset.file, asset.line, read.warning)
    if seen > MAX_SERVERS:
        why = f"{seen} MCP servers: of each file {MAX_SERVERS} are used"
        yield Asset(SERVERS_GROUP, "servers", "ignored", "", 0, why)


def _part_asset(part: SettingPart, group: str = SETTINGS, name: str = "") -> Asset:
    label = name or (f"{part.key} {part.name}" if part.name else part.key)
    return Asset(group, label, part.state, str(part.path), part.line, part.why)


# ── skills and plugins ─────────────────────────────────────────────────────────────────────────────────────────

_GROUP_OF_KIND = {"skill": "skills", "command": "commands"}


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
        if entry.kind in _GROUP_OF_KIND and not mine and not subject.trust.allows(entry):
            off = entry.name.lower() in settings.skills_off
            state: State = "ignored" if off else "needs trust"
            file = str(subject.root / entry.file)
            yield Asset(
                _GROUP_OF_KIND[entry.kind], entry.name, state, file, 0, "skills.disabled names it" if off else _TRUST
            )


def found_assets(
    subject: CheckSubject, places: list[SkillDirectory], first: dict[tuple[str, str], str]
) -> Iterator[Asset]:
    """Yield the skills in these directories; `first` has the file that already defines each name."""
    for place in places:
        found = find_skills(place)
        skill_problems = {problem for skill in found.definitions for problem in skill.problems}
        for skill in found.definitions:
            yield from _skill_and_problems(subject, skill, first)
        for path, why in found.skipped:
            yield Asset(_GROUP_OF_KIND[place.kind], path.name, "ignored", str(path), 0, why)
        for problem in found.problems:
            if problem not in skill_problems:
                file, line, why = parse_location(problem.removesuffix("; left out"))
                state: State = "ignored" if "leads out" in why or "only the first" in why else "broken"
                yield Asset(_GROUP_OF_KIND[place.kind], file.rpartition("/")[2], state, file, line, why)


def _skill_and_problems(
    subject: CheckSubject, skill: SkillDefinition, first: dict[tuple[str, str], str]
) -> Iterator[Asset]:
    group = _GROUP_OF_KIND[skill.kind]
    file = str(skill.file)
    settings = subject.survey.settings
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
        name = f"{hook.event}: {hook.line}"
        why = "disableAllHooks is on" if off else ""
        yield Asset(HOOKS_GROUP, name, "ignored" if off else "used", hook.source, 0, why)
    for text in plugin.warnings:
        file, line, why = parse_location(text)
        yield Asset(HOOKS_GROUP, plugin.name, "ignored", file or str(plugin.path), line, why)
    project = dict.fromkeys(PROJECT_DIRECTORY, str(subject.root))
    variables = {**subject.variables(of_repository=False), **project, **plugin_variables(plugin, subject.query.home)}
    reading = ConfigSource(f"plugin {plugin.name}", subject.cwd, variables, subject.withheld)
    for name, entry in plugin.servers.items():
        whole = f"plugin_{plugin.name}_{name}"
        read = parse_entry(whole, entry, reading)
        state: State = "used" if read.config is not None else "broken" if read.is_broken else "ignored"
        yield Asset(SERVERS_GROUP, whole, state, str(plugin.path), 0, read.reason or read.warning)


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
    for name, lines in _plugin_agents(plugin, home):
        names["agents"].append(name)
        runs += lines
    found_names = {kind: tuple(sorted(found)) for kind, found in names.items() if found}
    return PluginContents((*allows, *runs), found_names, tuple(dict.fromkeys(problems)))


def _plugin_agents(plugin: Plugin, home: Home) -> Iterator[tuple[str, list[str]]]:
    """Yield the agents of the plugin, each with lines about what it runs."""
    places = definition_sources(home, plugin.path, compat=False, plugins=[plugin])
    for entry in AgentTypes(places).entries():
        kind = entry.source.definition
        if kind is None or not kind.name.startswith(f"{plugin.name}:"):
            continue
        lines = [f"agent {kind.name}; hook {' '.join(hook.name.split())}" for hook in kind.hooks]
        servers = ((name, server) for name, server in kind.mcp_servers.items() if server)
        yield kind.name, [*lines, *(f"agent {kind.name}; mcp server {describe_server(*one)}" for one in servers)]


# ── files that are not read ────────────────────────────────────────────────────────────────────────────────────

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


def other_assets(subject: CheckSubject) -> Iterator[Asset]:
    """Yield files of the other product, and of Teamwright, that exist and are not read."""
    theirs = subject.root / ".claude"
    home = Path(os.path.expanduser("~/.claude"))
    if not subject.compat:
        mine = [subject.root / name for name in ("CLAUDE.md", "CLAUDE.local.md", ".mcp.json")]
        mine += [base / name for base in dict.fromkeys((theirs, home)) for name in sorted(_READ)]
        mine += [home / "CLAUDE.md"]
        yield from _unread_files(mine, dict.fromkeys((path.name for path in mine), "compat.claude is off"))
    if os.path.realpath(theirs) != os.path.realpath(home):
        yield from _unread_files([theirs / name for name in _file_names(theirs) if name not in _READ], _NOT_READ)
    yield from _unread_files([home / name for name in _NOT_READ if name != "CLAUDE.md"], _NOT_READ)
    yield from _unread_files(
        [home.with_suffix(".json")], {".claude.json": "teamwright import takes its MCP servers over"}
    )
    yield from _unread_files(_MANAGED, dict.fromkeys((path.name for path in _MANAGED), "managed settings are not read"))
    ours = subject.root / ".teamwright"
    if os.path.realpath(ours) != os.path.realpath(subject.query.home.own):
        yield from _unread_files([ours / name for name in _file_names(ours) if name not in _OURS], {})


def _unread_files(paths: Iterable[Path], why: Mapping[str, str]) -> Iterator[Asset]:
    for path in paths:
        if os.path.exists(path):  # also without permission to read it
            yield Asset(OTHERS, path.name, "ignored", str(path), 0, why.get(path.name, "it is not read"))


def _file_names(directory: Path) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


# ── texts ──────────────────────────────────────────────────────────────────────────────────────────────────────

_PLACED = re.compile(r"(/.+?)(?::(\d+))?: (?:left out: )?(.*)", re.DOTALL)
_IN_WORDS = re.compile(r"line \d+(?:, column \d+)?: ")

_LEAST = re.compile(
    r"not used|left out|leads out|not supported|no effect|goes before|only the first|not a field|is none of"
)


def parse_location(text: str, file: str = "") -> tuple[str, int, str]:
    """Parse a message (`FILE:4: what`, `FILE: left out: what`, `line 4: what`) into file, line and text."""
    found = _PLACED.fullmatch(text)
    if found is not None and (not file or found[1] == file):
        return found[1], int(found[2] or 0) or line_in(found[3]), _IN_WORDS.sub("", found[3])
    return file, line_in(text), _IN_WORDS.sub("", text)


def remark_state(what: str) -> State:
    """Return the state for a remark about a used asset: `ignored` when a part has no effect, else `used`."""
    return "ignored" if _LEAST.search(what) else "used"


def display_path(path: str | Path, cwd: Path) -> str:
    """Return a path as shown to people: relative to the directory, below `~`, else absolute."""
    place = Path(path)
    if place.is_relative_to(cwd):
        return str(place.relative_to(cwd))
    home = os.path.expanduser("~")  # unchanged for a user without a home
    return f"~/{place.relative_to(home)}" if place.is_relative_to(home) else str(place)
