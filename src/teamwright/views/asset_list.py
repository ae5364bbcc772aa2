"""The list of all assets of a directory, by group. Runs nothing and starts no server."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from teamwright.views.assets import GROUPS, Asset, AssetQuery, load_subject
from teamwright.views.definition_assets import agent_assets, team_assets
from teamwright.views.instruction_assets import instruction_assets
from teamwright.views.plugin_assets import other_assets, plugin_assets, skill_assets
from teamwright.views.settings_assets import hook_assets, server_assets, settings_assets

READERS = (
    instruction_assets,
    settings_assets,
    agent_assets,
    skill_assets,
    hook_assets,
    server_assets,
    team_assets,
    plugin_assets,
    other_assets,
)


class Assets(Struct, frozen=True):
    """All assets, by group. `root` is the top of the repository, `trusted` is True when a person trusted it."""

    root: str
    trusted: bool
    assets: Sequence[Asset]

    @property
    def counts(self) -> dict[str, int]:
        """The number of assets in each state."""
        states = ("used", "ignored", "needs trust", "broken")
        return {state: sum(asset.state == state for asset in self.assets) for state in states}


def list_assets(asked: AssetQuery) -> Assets:
    """Return all assets here. Raises CannotStart for the trust file, UsageError for a flag's value."""
    subject = load_subject(asked)
    found = [asset for reader in READERS for asset in reader(subject)]
    order = {group: at for at, group in enumerate(GROUPS)}
    return Assets(str(subject.root), subject.trust.trusted, sorted(found, key=lambda asset: order[asset.group]))
