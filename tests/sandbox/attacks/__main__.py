"""Print the table of attacks and implementations: `held`, or the policies in which an attack succeeded."""

import sys
import tempfile
from pathlib import Path

from teamwright.sandbox.policy import PolicyName
from tests.sandbox.attacks.attack_list import ATTACKS, Attack
from tests.sandbox.attacks.world import IMPLEMENTATIONS, attack_world


def outcome(attack: Attack, implementation: str) -> str:
    """Return `held`, or the policies in which the attack succeeded, or that this is a known limit."""
    policies = [PolicyName.READ] if attack.only_read else [PolicyName.READ, PolicyName.WORK]
    reached: list[str] = []
    for policy in policies:
        with tempfile.TemporaryDirectory() as directory, attack_world(Path(directory)) as world:
            reached += [str(policy)] if world.succeeds(attack, policy, implementation) else []
    if reached and implementation in attack.limits:
        return f"known limit in {', '.join(reached)}"
    return f"REACHED in {', '.join(reached)}" if reached else "held in read" if attack.only_read else "held"


def main() -> int:
    """Print the table; return the number of attacks that succeeded."""
    print(f"| subject | attack | {' | '.join(IMPLEMENTATIONS)} |\n|---|---|{'---|' * len(IMPLEMENTATIONS)}")
    failures = 0
    for attack in ATTACKS:
        found = [outcome(attack, implementation) for implementation in IMPLEMENTATIONS]
        failures += sum("REACHED" in one for one in found)
        print(f"| {attack.subject} | {attack.name} | {' | '.join(found)} |", flush=True)
    return failures


if __name__ == "__main__":
    sys.exit(main())
