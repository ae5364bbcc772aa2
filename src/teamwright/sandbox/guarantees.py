"""The table of what each implementation enforces. `doctor`, `status` and the documentation show it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

SUBJECTS = ("reads", "writes", "network", "sockets", "processes")
"""The acts that a sandbox can forbid: reads outside paths, writes, connections, sockets, other processes."""


class Guarantee(Struct, frozen=True):
    """One cell of the table. `limit` says what is not enforced; empty: all of it is."""

    holds: bool
    limit: str = ""


_NOTHING = Guarantee(holds=False, limit="not enforced")

GUARANTEES: Mapping[str, Mapping[str, Guarantee]] = {
    "bubblewrap": {
        "reads": Guarantee(holds=True),
        "writes": Guarantee(holds=True),
        "network": Guarantee(holds=True),
        "sockets": Guarantee(
            holds=True, limit="a command that names the network also reaches abstract sockets of this machine"
        ),
        "processes": Guarantee(holds=True),
    },
    "landlock": {
        "reads": Guarantee(holds=True, limit="names in unreadable directories can be listed by working commands"),
        "writes": Guarantee(
            holds=False,
            limit="protected paths inside a writable directory are compared after a command, and changes are undone; "
            "not for background commands",
        ),
        "network": Guarantee(holds=True, limit="no connection to localhost either"),
        "sockets": Guarantee(holds=True, limit="a command that names the network may use all sockets"),
        "processes": Guarantee(holds=True, limit="the list of processes can be read; before Linux 6.12 signals work"),
    },
    "none": dict.fromkeys(SUBJECTS, _NOTHING),
}
"""The guarantees by implementation and subject."""


def describe_guarantees(implementation: str) -> str:
    """Return one line about what an implementation enforces."""
    row = GUARANTEES[implementation]
    held = [subject for subject in SUBJECTS if row[subject].holds]
    if not held:
        return "nothing is enforced"
    missing = [subject for subject in SUBJECTS if not row[subject].holds]
    return f"enforces {', '.join(held)}" + (f"; not {', '.join(missing)}" if missing else "")
