"""Trust as a face asks for it: what of this repository waits for a person, and their yes.

Asked before a session opens, so that no request leaves the machine first. Knows options and the file of trust;
knows no screen.
"""

from __future__ import annotations

from teamwright.app.approver import require_person
from teamwright.app.options import Options
from teamwright.app.settings.merging import reads_other_product
from teamwright.app.settings.model import Flags
from teamwright.app.trust.store import Trust, TrustState
from teamwright.storage.paths import home_of

TRUSTS = "gives trust and takes it back"
"""What needs a person, in words."""

__all__ = ["TrustState", "give_trust", "trust_survey"]


def trust_survey(options: Options) -> TrustState:
    """How far the repository of these options is trusted now; `needs_asking` is what a person should be asked.

    Raises CannotStart (`bad-settings`) when the file of trust, or the user's settings, cannot be read.
    """
    home = home_of(options.home).require_readable()
    compat = reads_other_product(home, Flags(settings_file=options.settings_file))
    return Trust.load(home).verdict(options.cwd, session=options.trust, compat=compat)


def give_trust(options: Options, state: TrustState) -> None:
    """Trust what the state showed, for good. Raises CannotStart when the home cannot be written, StorageError."""
    home = home_of(options.home).require_readable()
    require_person(home, TRUSTS, "trust")
    home.prepare()
    Trust.load(home).give(state)


def take_trust(options: Options) -> bool:
    """Forget the repository of these options; False when it was not trusted. Raises CannotStart, StorageError."""
    home = home_of(options.home).require_readable()
    require_person(home, TRUSTS, "trust --remove")
    return Trust.load(home).remove(options.cwd)
