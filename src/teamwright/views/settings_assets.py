"""Assets of settings: each settings file, each value without effect, each hook and each MCP server.

Depends on the notes of the settings merge. The variables of a server are looked up; no server is started.
"""

from __future__ import annotations

from collections.abc import Iterator

from teamwright.config.mcp_settings import reading_of
from teamwright.config.project_mcp_file import FILE, SERVERS
from teamwright.config.settings.setting_parts import WHOLE, SettingPart, positions_of
from teamwright.config.settings.settings_files import SettingsLayer
from teamwright.config.trust_entries import HOOKS
from teamwright.mcp.server_config import MAX_SERVERS, parse_entry
from teamwright.views.assets import Asset, CheckSubject

SETTINGS, HOOKS_GROUP, SERVERS_GROUP = "settings", "hooks", "MCP servers"

_TRUST = "teamwright trust shows it"


def settings_assets(subject: CheckSubject) -> Iterator[Asset]:
    """Yield the settings files, each with its values that have no effect."""
    parts = subject.survey.parts
    for part in parts:
        if part.key == WHOLE and part.path.name != FILE:
            yield Asset(SETTINGS, part.path.name, "broken", str(part.path), part.line, part.why)
    for layer in subject.survey.layers:
        mine = [part for part in parts if part.layer is layer]
        used = sum(part.state == "used" for part in mine)
        waits = not used and any(part.state == "needs trust" for part in mine)
        yield _file(layer, used, waits=waits)
        yield from _remarks(layer)
        yield from (_part(part) for part in mine if part.state != "used" and part.key not in (HOOKS, SERVERS))


def hook_assets(subject: CheckSubject) -> Iterator[Asset]:
    """Yield each hook of settings files; hooks of definitions and plugins are listed with those."""
    off = subject.survey.settings.hooks_off
    for part in subject.survey.parts:
        if part.key == HOOKS:
            if off and part.state == "used":
                yield Asset(HOOKS_GROUP, part.name, "ignored", str(part.path), part.line, "disableAllHooks is on")
            else:
                yield _part(part, HOOKS_GROUP, part.name)


def server_assets(subject: CheckSubject) -> Iterator[Asset]:
    """Yield each MCP server of settings files and of `.mcp.json`."""
    withheld = subject.withheld
    seen = 0
    for part in subject.survey.parts:
        if part.key == WHOLE and part.path.name == FILE:
            yield Asset(SERVERS_GROUP, FILE, "broken", str(part.path), part.line, part.why)
        if part.key != SERVERS:
            continue
        seen += part.state == "used"
        asset = _part(part, SERVERS_GROUP, part.name)
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


def _file(layer: SettingsLayer, used: int, *, waits: bool) -> Asset:
    why = f"{used} value{'' if used == 1 else 's'} {'holds' if used == 1 else 'hold'}"
    if waits:
        return Asset(SETTINGS, layer.path.name, "needs trust", str(layer.path), 0, _TRUST)
    return Asset(SETTINGS, layer.path.name, "used", str(layer.path), 0, why)


def _remarks(layer: SettingsLayer) -> Iterator[Asset]:
    places = positions_of(layer)
    twice = {str(at[-1]): line for at, line in places.twice}
    for remark in layer.remarks:
        line = twice.get(remark.name) or places.line(*remark.name.split("."))
        yield Asset(SETTINGS, remark.name, "used" if remark.used else "ignored", str(layer.path), line, remark.what)


def _part(part: SettingPart, group: str = SETTINGS, name: str = "") -> Asset:
    label = name or (f"{part.key} {part.name}" if part.name else part.key)
    return Asset(group, label, part.state, str(part.path), part.line, part.why)
