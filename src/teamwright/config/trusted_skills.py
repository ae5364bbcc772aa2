"""The skill catalogue of a session: a person's own skills and commands, then the trusted ones of the repository.

An untrusted entry of a repository is not opened. An entry that changed after it was trusted is not used, also when it
changes during the session. Depends on settings and trust.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from teamwright.config.mcp_settings import PROJECT_DIRECTORY
from teamwright.config.plugins import Plugin, plugin_variables
from teamwright.config.settings.settings import Settings
from teamwright.config.trust import TrustState
from teamwright.config.trust_entries import TrustEntry, asset_digest, asset_files, asset_places
from teamwright.skills.skill_catalog import SKILL_FILE, SkillCatalog, SkillDirectory, find_skills
from teamwright.skills.skill_definition import SkillDefinition, SkillKind
from teamwright.storage.paths import Home

TOLD = 5
"""Problems that are listed at a start; the others are counted."""

YOURS = "yours"


def make_shelf(
    settings: Settings, home: Home, trust: TrustState, plugins: Iterable[Plugin] = (), session: str = ""
) -> SkillCatalog:
    """Return the skills and commands of a run, with the values of `${NAME}` in their texts. Never raises."""
    if not settings.skills:
        return SkillCatalog()
    skills: list[SkillDefinition] = []
    problems: list[str] = []
    own = user_places(home, settings.compat)
    theirs = repository_places(trust, settings.compat)
    known = {os.path.realpath(place.directory) for place in own}
    parts = [place for plugin in plugins for place in plugin_places(plugin, home)]
    for place in (*own, *(one for one in theirs if os.path.realpath(one.directory) not in known), *parts):
        found = find_skills(place)
        skills += found.definitions
        problems += found.problems
    used = [skill for skill in skills if skill.name.lower() not in settings.skills_off]
    variables = dict.fromkeys(PROJECT_DIRECTORY, str(trust.root)) | ({"CLAUDE_SESSION_ID": session} if session else {})
    changed = partial(_changed, trust)
    untrusted = _untrusted(settings, trust)
    return SkillCatalog(tuple(used), tuple(problems), changed, untrusted, variables)


def _untrusted(settings: Settings, trust: TrustState) -> frozenset[str]:
    """Return the names of the repository's untrusted skills and commands, except those that are switched off."""
    names = {one.name.lower() for one in trust.entries if one.kind in {"skill", "command"} and not trust.allows(one)}
    return frozenset(names - set(settings.skills_off))


def user_places(home: Home, compat: bool) -> list[SkillDirectory]:
    """Return a person's own directories, in order of precedence."""
    users = Path(os.path.expanduser("~"))
    found = [_place("skill", home.own / "skills", YOURS)]
    if compat:
        found.append(_place("skill", users / ".claude" / "skills", f"{YOURS}, .claude"))
    found.append(_place("skill", users / ".agents" / "skills", f"{YOURS}, .agents"))
    found.append(_place("command", home.own / "commands", YOURS))
    if compat:
        found.append(_place("command", users / ".claude" / "commands", f"{YOURS}, .claude"))
    return found


def repository_places(trust: TrustState, compat: bool) -> list[SkillDirectory]:
    """Return a repository's directories, of which only trusted entries may be read."""
    allowed = {entry.file for entry in trust.entries if entry.kind in {"skill", "command"} and trust.allows(entry)}
    return [
        SkillDirectory(
            kind, trust.root / place, place, trust.root, allows=lambda name, place=place: f"{place}/{name}" in allowed
        )
        for kind, place in asset_places(compat)
    ]


def plugin_places(plugin: Plugin, home: Home) -> list[SkillDirectory]:
    """Return the directories of a plugin, whose names begin with the plugin's name. One may be a single file."""
    label = f"plugin {plugin.name}"
    prefix = f"{plugin.name}:"
    variables = plugin_variables(plugin, home)
    kinds: list[tuple[SkillKind, tuple[Path, ...]]] = [("skill", plugin.skills), ("command", plugin.commands)]
    found: list[SkillDirectory] = []
    for kind, places in kinds:
        for place in places:
            if place.is_file() or (place / SKILL_FILE).is_file():
                only = place.name
                found.append(
                    SkillDirectory(
                        kind, place.parent, label, plugin.path, prefix, variables, lambda name, only=only: name == only
                    )
                )
            else:
                found.append(SkillDirectory(kind, place, label, plugin.path, prefix, variables))
    return found


def shelf_warnings(shelf: SkillCatalog) -> list[str]:
    """Return the problems of skills and commands, in a few lines."""
    lines = [*shelf.problems[:TOLD]]
    left = len(shelf.problems) - len(lines)
    return [*lines, *([f"{left} more lines like these about skills and commands"] if left else [])]


def _place(kind: SkillKind, directory: Path, label: str) -> SkillDirectory:
    return SkillDirectory(kind, directory, label)


def _changed(trust: TrustState, skill: SkillDefinition) -> str:
    """Return why a skill of a repository may no longer be used; empty when it may."""
    if not skill.is_from_repository or skill.location.startswith("plugin "):
        return ""
    entry = _entry_of(trust, skill)
    if entry is not None and trust.allows(entry):
        path = trust.root / entry.file
        if asset_digest(trust.root, path, asset_files(trust.root, skill.kind, path)) == entry.digest:
            return ""
    return f"the {skill.kind} {skill.name} was changed since it was trusted: a person looks at it with teamwright trust"


def _entry_of(trust: TrustState, skill: SkillDefinition) -> TrustEntry | None:
    """Return the trust entry of a skill: its top-level file or directory."""
    place = trust.root / skill.location
    try:
        top = skill.file.relative_to(place).parts[0]
    except (ValueError, IndexError):
        return None
    return next((entry for entry in trust.entries if entry.file == f"{skill.location}/{top}"), None)
