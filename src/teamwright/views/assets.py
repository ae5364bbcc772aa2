"""Assets: the files and entries that a run reads, with their location, state and the reason of the state.

The subject of an asset check is a directory with its settings and saved trust, and the additions of flags. Only a
damaged trust file raises an error; a fault in another file becomes an asset. Also parses locations in the project's own
messages.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from teamwright.config.installed_plugins import FILE, installed_plugins
from teamwright.config.plugins import Plugin, PluginSource, read_plugin
from teamwright.config.settings.setting_parts import State, line_in
from teamwright.config.settings.settings import SettingFlags
from teamwright.config.settings_files_overview import SettingsSurvey, reads_compat_files, survey_settings
from teamwright.config.trust_store import TrustState, TrustStore
from teamwright.protocol.errors import UsageError
from teamwright.storage.paths import Home
from teamwright.tools.shell.bash_settings import remove_variables

GROUPS = (
    "instructions",
    "settings",
    "agents",
    "skills",
    "commands",
    "hooks",
    "MCP servers",
    "team file",
    "plugins",
    "other files",
)
"""Groups of assets, in the order in which they are shown."""

_PLACED = re.compile(r"(/.+?)(?::(\d+))?: (?:left out: )?(.*)", re.DOTALL)
_IN_WORDS = re.compile(r"line \d+(?:, column \d+)?: ")
_LEAST = re.compile(
    r"not used|left out|leads out|not supported|no effect|goes before|only the first|not a field|is none of"
)


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
    bad += [(query.home.own / FILE, UsageError("usage", line)) for line in problems]
    return CheckSubject(query, cwd, trust, compat, survey_settings(query.home, cwd, flags, trust), plugins, bad)
