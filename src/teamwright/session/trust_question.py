"""The trust question of user interfaces: the untrusted entries of a repository, and a person's consent.

Asked before a session opens, so that no request leaves the machine first. Depends on options and the trust file.
"""

from __future__ import annotations

from teamwright.config.settings.merge import reads_other_product
from teamwright.config.settings.settings import SettingFlags
from teamwright.config.trust import TrustState, TrustStore, require_person
from teamwright.session.options import Options
from teamwright.storage.paths import find_home

TRUSTS = "gives trust and takes it back"
"""The action that needs a person, in words."""

__all__ = ["TrustState", "give_trust", "trust_survey"]


def trust_survey(options: Options) -> TrustState:
    """Return the present trust of the options' repository; `needs_asking` has the entries for a person to decide.

    Raises CannotStart (`bad-settings`) when the trust file or the user's settings cannot be read.
    """
    home = find_home(options.home).require_readable()
    flags = SettingFlags(settings_file=options.settings_file, setting_sources=options.setting_sources)
    compat = reads_other_product(home, flags)
    return TrustStore.load(home).verdict(options.cwd, session=options.trust, compat=compat)


def give_trust(options: Options, state: TrustState) -> None:
    """Trust the entries in `state` permanently. Raises CannotStart when the home cannot be written, StorageError."""
    home = find_home(options.home).require_readable()
    require_person(home, TRUSTS, "trust")
    home.prepare()
    TrustStore.load(home).give(state)


def take_trust(options: Options) -> bool:
    """Remove the trust of the options' repository; False when it was not trusted. Raises CannotStart, StorageError."""
    home = find_home(options.home).require_readable()
    require_person(home, TRUSTS, "trust --remove")
    return TrustStore.load(home).remove(options.cwd)
