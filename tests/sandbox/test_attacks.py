"""No attack of the list reaches anything in either policy of either implementation."""

from pathlib import Path

import pytest

from teamwright.sandbox.bubblewrap import probe_bubblewrap
from teamwright.sandbox.landlock import probe_landlock
from teamwright.sandbox.policy import PolicyName
from tests.sandbox.attacks.__main__ import outcome
from tests.sandbox.attacks.attack_list import ATTACKS
from tests.sandbox.attacks.world import IMPLEMENTATIONS, attack_world
from tests.support.programs import needs, require

WITHOUT = [
    "a private key",
    "a file that a rule denies, in a moved directory",
    "a token that a program replaced",
    "the home by a link for a cache",
    "the home by a link in the place of a directory",
    "the git configuration that git replaced",
    "the end of shared memory",
    "a start file in a cache",
    "a hard link to a start file",
    "a hard link to the git configuration",
    "an answer to a request",
    "the file of an answer",
    "a file in /dev/shm",
    "shared memory of a program",
    "datagrams of a pair of sockets",
    "the tmux server",
    "the ssh agent",
    "the D-Bus of systemd-run --user",
    "the terminal of a program",
]
"""Attacks that do nothing to this machine."""


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda one: f"{one.subject}: {one.name}")
@pytest.mark.slow_after(2)
def test_bubblewrap_holds_against(attack):
    if probe_bubblewrap(require("bwrap")) is None:
        pytest.skip("bubblewrap cannot make namespaces here")
    assert outcome(attack, "bubblewrap").startswith(("held", "known limit"))


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda one: f"{one.subject}: {one.name}")
@pytest.mark.slow_after(2)
def test_landlock_holds_against(attack):
    if not probe_landlock():
        pytest.skip("the kernel has no Landlock")
    assert outcome(attack, "landlock").startswith(("held", "known limit"))


@needs("tmux")
@needs("ssh-agent")
@needs("dbus-daemon")
@pytest.mark.parametrize("name", WITHOUT)
@pytest.mark.slow_after(2)
def test_an_attack_succeeds_without_a_sandbox(tmp_path, name):
    [attack] = [one for one in ATTACKS if one.name == name]
    with attack_world(tmp_path) as world:
        assert world.succeeds(attack, PolicyName.UNCONFINED, "none")


def test_the_published_table_has_a_row_for_each_attack_and_its_known_limits():
    page = (Path(__file__).parents[2] / "SECURITY.md").read_text()
    table = page.partition(f"| {' | '.join(('subject', 'attack', *IMPLEMENTATIONS))} |\n|---|---|---|---|\n")[2]
    rows = [line.strip("|").split("|") for line in table.partition("\n\n")[0].splitlines()]
    limits = [[subject.strip(), name.strip(), *("limit" in cell for cell in cells)] for subject, name, *cells in rows]
    assert limits == [
        [attack.subject, attack.name, *(one in attack.limits for one in IMPLEMENTATIONS)] for attack in ATTACKS
    ]
    assert "REACHED" not in table
