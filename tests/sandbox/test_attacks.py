"""No attack of the list reaches anything in either policy of either implementation."""

import pytest

from teamwright.sandbox.bubblewrap import probe_bubblewrap
from teamwright.sandbox.landlock import probe_landlock
from tests.sandbox.attacks.__main__ import outcome
from tests.sandbox.attacks.attack_list import ATTACKS
from tests.support.programs import require


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda one: f"{one.subject}: {one.name}")
def test_bubblewrap_holds_against(attack):
    if probe_bubblewrap(require("bwrap")) is None:
        pytest.skip("bubblewrap cannot make namespaces here")
    assert outcome(attack, "bubblewrap").startswith("held")


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda one: f"{one.subject}: {one.name}")
def test_landlock_holds_against(attack):
    if not probe_landlock():
        pytest.skip("the kernel has no Landlock")
    assert outcome(attack, "landlock").startswith("held")
