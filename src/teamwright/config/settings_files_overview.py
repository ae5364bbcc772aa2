"""All settings files of a run as shown to a person: every part with its state, broken parts included.

Uses the merge of a session; a problem that stops a session is recorded here instead. Changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from teamwright.config.model_settings_parser import model_settings
from teamwright.config.settings.setting_keys import KEYS
from teamwright.config.settings.setting_parts import SettingPart, reason
from teamwright.config.settings.settings import SettingFlags, Settings
from teamwright.config.settings.settings_files import SettingsLayer
from teamwright.config.settings.settings_sections import make_sections
from teamwright.config.settings_merge import SettingsMerge, reads_other_product
from teamwright.config.trust_entries import layer_entries
from teamwright.config.trust_store import TrustState
from teamwright.protocol.errors import CannotStart, TeamwrightError
from teamwright.storage.paths import Home

ADDING = frozenset({name for name, key in KEYS.items() if key.kind == "texts"} | {"hooks"})
"""Keys whose parts add up; for the others the nearest file decides."""


class SettingsSurvey(Struct, frozen=True):
    """The parts that were found. `settings` are those that would be used without the broken parts."""

    settings: Settings
    parts: Sequence[SettingPart]
    layers: Sequence[SettingsLayer]


def reads_compat_files(home: Home, flags: SettingFlags) -> bool:
    """Return True when the other product's files are read, also when the file with that setting is unreadable."""
    try:
        return reads_other_product(home, flags)
    except CannotStart:
        return True


def survey_settings(home: Home, cwd: Path, flags: SettingFlags, trust: TrustState) -> SettingsSurvey:
    """Return every part of every file. Raises only for errors in flags."""
    compat = reads_compat_files(home, flags)
    merge = SettingsMerge(trust, tolerant=True)
    merge.files(home, flags, compat)
    merge.flags(flags, cwd)
    _check_sections(merge)
    settings = merge.settings(compat)
    return SettingsSurvey(settings, merge.parts.settled(ADDING), merge.parts.layers)


def survey_layer(layer: SettingsLayer, root: Path) -> Sequence[SettingPart]:
    """Return every part of one file, as if it were the only file and trusted."""
    merge = SettingsMerge(TrustState.as_written(root, layer_entries(layer, root)), tolerant=True)
    merge.layer(layer)
    _check_sections(merge)
    return merge.parts.found


def _check_sections(merge: SettingsMerge) -> None:
    """Have every package validate its values; refused values are recorded and removed."""
    for _ in KEYS:
        try:
            sections = make_sections(merge.values, merge.origins)
            model_settings(Settings(models=sections["models"], origins=merge.origins))
            return
        except CannotStart as problem:
            _leave_out(merge, problem)


def _leave_out(merge: SettingsMerge, problem: TeamwrightError) -> None:
    """Record that a package refuses a value, and remove the value."""
    where = dict(problem.looked_at).get("at", "")
    key = max((name for name in merge.values if where.startswith(name)), key=len, default="")
    if not key:
        raise problem
    del merge.values[key]
    for part in reversed(merge.parts.found):
        if part.key == key and part.state == "used":
            part.set_state("broken", reason(problem))
            return
