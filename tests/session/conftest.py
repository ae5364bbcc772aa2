import json
import os
import subprocess
from pathlib import Path

import pytest

from teamwright.config.agent_types import definition_sources
from teamwright.config.files_executed_by_settings import find_further_programs
from teamwright.config.settings.merge import load_settings, make_policy, reads_other_product
from teamwright.config.settings.settings import SettingFlags, Settings
from teamwright.config.trust import TrustState, TrustStore
from teamwright.permissions.permission_decision import Policy
from teamwright.storage.paths import Home, find_home


class Repository:
    """A repository of a stranger, the home that it is opened under, and what would hold in it."""

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.realpath(root))
        self.root.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "init", "-q", str(self.root)], check=True)

    @property
    def home(self) -> Home:
        return find_home()

    def write(self, name: str, content: object) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    def user(self, content: object) -> None:
        self.home.settings.parent.mkdir(parents=True, exist_ok=True)
        self.home.settings.write_text(content if isinstance(content, str) else json.dumps(content))

    def state(self, **kwargs) -> TrustState:
        return TrustStore.load(self.home).verdict(self.root, **kwargs)

    def trust(self) -> TrustState:
        return TrustStore.load(self.home).give(self.state())

    def settings(self, flags: SettingFlags | None = None, **kwargs) -> Settings:
        flags = flags or SettingFlags()
        compat = reads_other_product(self.home, flags)
        return load_settings(self.home, self.root, flags, self.state(compat=compat, **kwargs))

    def policy(self, flags: SettingFlags | None = None, **kwargs) -> Policy:
        sources = definition_sources(self.home, self.root, compat=True)
        further = find_further_programs(sources, self.home, self.root)
        return make_policy(self.settings(flags, **kwargs), self.home, self.root, self.state(**kwargs), further=further)


@pytest.fixture
def repository(tmp_path) -> Repository:
    return Repository(tmp_path / "repository")
